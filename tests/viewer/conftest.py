"""Datasets to show, and a client that has the cookie."""

import html
import io
import re

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

import headrace as hr
from headrace.viewer.access import loopback_hosts
from headrace.viewer.app import Viewer, create_app
from headrace.viewer.dataset import ShownDataset, open_datasets

PORT = 8123
HOST = f"http://127.0.0.1:{PORT}"
ROWS = 300


def picture(seed, size=(40, 60), kind="PNG"):
    """A small encoded image."""
    pixels = np.random.default_rng(seed).integers(0, 255, (*size, 3), np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, kind)
    return out.getvalue()


def example(row):
    """One example with a feature of every common kind."""
    return {
        "image": picture(row),
        "label": row % 3,
        "width": np.float32(row),
        "name": f"example {row}",
        "tokens": np.arange(row % 7),
        "vector": np.sin(np.arange(64) / 5 + row).astype(np.float32),
        "blob": bytes(range(row % 256)),
    }


def client_of(*datasets, **options):
    """A client of a viewer, which has the cookie."""
    app = create_app(Viewer(datasets), hosts=loopback_hosts(PORT), port=PORT, **options)
    client = TestClient(app, base_url=HOST, raise_server_exceptions=False)
    client.access = app
    if not options:
        client.get(f"/?token={app.token}")
    return client


@pytest.fixture(scope="session")
def shown_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("shown") / "rows.tfrecord"
    hr.write(path, [example(row) for row in range(ROWS)])
    return path


@pytest.fixture
def shown(shown_file):
    """The dataset of :func:`example`."""
    return open_datasets(str(shown_file))[0]


@pytest.fixture
def client(shown):
    return client_of(shown)


@pytest.fixture
def client_for():
    """Makes a client of other datasets: paths, sources or datasets."""

    def make(*shown, **options):
        datasets = []
        for each in shown:
            if isinstance(each, hr.Source):
                datasets.append(ShownDataset(each, name="made", code="source"))
            else:
                datasets.append(each if isinstance(each, ShownDataset) else open_datasets(str(each))[0])
        return client_of(*datasets, **options)

    return make


def data(client, address):
    """A page as JSON."""
    answer = client.get(address, headers={"accept": "application/json"})
    assert answer.status_code == 200, answer.text
    return answer.json()


def code_of(page):
    """The Python lines and the command of a page."""
    found = [html.unescape(each) for each in re.findall(r"<pre><code>(.*?)</code></pre>", page.text, re.DOTALL)]
    return found if len(found) > 1 else [*found, None]
