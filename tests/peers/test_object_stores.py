"""Other implementations of object stores: moto for S3 and for GCS, whose XML interface is S3's; Azurite for Azure.

python -m venv .venv-peers-stores
.venv-peers-stores/bin/pip install 'moto[server]'
npm install --prefix .venv-peers-stores azurite
"""

import base64
import email.utils
import hashlib
import hmac
import io
import os
import shutil
import signal
import socket
import subprocess
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from tests.sources.alike import alike

import headrace as hr
from headrace.errors import NoFiles, Unreachable
from headrace.io.store import listing, upload

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / ".venv-peers-stores"
SEARCHED = os.pathsep.join([str(PLACE / "bin"), str(PLACE / "node_modules" / ".bin"), os.environ.get("PATH", "")])
MOTO, AZURITE = (shutil.which(name, path=SEARCHED) for name in ("moto_server", "azurite-blob"))
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="  # publicly known
ROWS = 500
EXAMPLES = [{"x": np.full(8, number, np.float32), "label": np.int64(number % 10)} for number in range(ROWS)]
FORMATS = ("tfrecord", "tfrecord.gz", "recordio", "array_record", "npz", "jsonl", "parquet", "avro", "tar")

pytestmark = pytest.mark.peer


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@contextmanager
def running(command, ready):
    """A server that has reported that it is ready."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "start_new_session": True}
    with subprocess.Popen(command, **options) as server:
        try:
            lines = []
            for line in server.stdout:
                lines.append(line)
                if ready in line:
                    break
            else:
                pytest.fail(f"{command[0]} did not start: {''.join(lines)}")
            yield
        finally:
            os.killpg(server.pid, signal.SIGKILL)  # with what it has started


@pytest.fixture(scope="module")
def moto(tmp_path_factory):
    if MOTO is None:
        pytest.skip("needs moto[server]; the head of this file says how")
    port = free_port()
    log = tmp_path_factory.mktemp("moto") / "log"
    # It logs every request, and would block if the log were not read.
    command = f"{MOTO} -H 127.0.0.1 -p {port} 2>&1 | tee {log} | grep --line-buffered Running"
    with running(["bash", "-c", command], "Running on"):
        url = f"http://127.0.0.1:{port}"
        urllib.request.urlopen(urllib.request.Request(f"{url}/bucket", method="PUT")).close()
        yield url


@pytest.fixture(scope="module")
def azurite(tmp_path_factory):
    if AZURITE is None:
        pytest.skip("needs azurite; the head of this file says how")
    port = free_port()
    folder = tmp_path_factory.mktemp("azurite")
    command = [AZURITE, "--blobPort", str(port), "--blobHost", "127.0.0.1", "-l", str(folder), "--silent"]
    with running([*command, "--disableTelemetry"], "successfully listens"):
        url = f"http://127.0.0.1:{port}"
        make_container(url)
        yield url


def make_container(url):
    date = email.utils.formatdate(usegmt=True)
    signed = (
        "PUT" + "\n" * 12 + f"x-ms-date:{date}\nx-ms-version:2021-08-06\n/{ACCOUNT}/{ACCOUNT}/bucket\nrestype:container"
    )
    mark = base64.b64encode(hmac.new(base64.b64decode(KEY), signed.encode(), hashlib.sha256).digest()).decode()
    head = {
        "x-ms-date": date,
        "x-ms-version": "2021-08-06",
        "Authorization": f"SharedKey {ACCOUNT}:{mark}",
        "Content-Length": "0",
    }
    request = urllib.request.Request(f"{url}/{ACCOUNT}/bucket?restype=container", method="PUT", headers=head)
    urllib.request.urlopen(request).close()


@pytest.fixture(params=["s3", "gs", "az"])
def base(request, monkeypatch):
    """The URL of a bucket."""
    url = request.getfixturevalue("azurite" if request.param == "az" else "moto")
    variables = {
        "s3": {
            "AWS_ENDPOINT_URL": url,
            "AWS_ACCESS_KEY_ID": "k",
            "AWS_SECRET_ACCESS_KEY": "s",
            "AWS_REGION": "us-east-1",
        },
        # moto parses the authorization of a request, like S3.
        "gs": {"GOOGLE_BASE_URL": url, "GOOGLE_BEARER_TOKEN": "t/x/us-east-1/s3/aws4_request"},
        "az": {
            "AZURE_STORAGE_ENDPOINT": f"{url}/{ACCOUNT}",
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
        },
    }[request.param]
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    yield f"{request.param}://bucket"
    found = listing.list_below(f"{request.param}://bucket")
    upload.remove_objects(found)


@pytest.mark.parametrize("ending", FORMATS)
def test_files_go_there_and_come_back(base, tmp_path, ending):
    hr.write(f"{base}/a/x.{ending}", EXAMPLES)
    hr.write(tmp_path / f"x.{ending}", EXAMPLES)
    assert alike(f"{base}/a/x.{ending}", tmp_path / f"x.{ending}") == ROWS
    assert hr.verify(f"{base}/a/x.{ending}").ok


def test_shards_folders_globs_and_what_is_not_there(base):
    hr.write(f"{base}/deep/er/s.tfrecord@4", EXAMPLES)
    for path in (
        "deep/er/s.tfrecord@4",
        "deep/er/s.tfrecord@*",
        "deep/er/",
        "*/er/s*",
    ):
        assert len(hr.open(f"{base}/{path}")) == ROWS
    assert len(hr.open(f"{base}/deep/er/s.tfrecord-00001-of-00004")) == ROWS // 4
    for path in ("nope.tfrecord", "nope/", "deep/er/z*", "deep/er/s.tfrecord@5"):
        with pytest.raises(NoFiles):
            hr.open(f"{base}/{path}")
    with pytest.raises(NoFiles, match="bucket of this name"):
        hr.open(f"{base[:2]}://elsewhere/x.tfrecord")


def test_lists_of_several_pages(base, tmp_path):
    (tmp_path / "f").mkdir()
    for number in range(2200):
        (tmp_path / "f" / f"{number}.tfrecord").write_bytes(b"")
    upload.upload_folder(str(tmp_path / "f"), f"{base}/many")
    assert len(listing.list_below(f"{base}/many")) == 2200
    assert len(listing.list_folder(f"{base}/many")[0]) == 2200
    assert len(hr.records(f"{base}/many/1*.tfrecord").paths) == 1 + 10 + 100 + 1000


def test_parts_conversion_and_interrupts(base):
    values = np.random.default_rng(0).integers(0, 255, (20, 1 << 20), dtype=np.uint8)
    hr.write(f"{base}/big.npy", {"values": values})
    assert np.array_equal(hr.open(f"{base}/big.npy").batch(np.arange(20))["values"], values)
    done = hr.convert(f"{base}/big.npy", f"{base}/big.array_record@3")
    assert len(hr.open(f"{base}/big.array_record@3")) == done.examples == 20
    with pytest.raises(RuntimeError), hr.Writer(f"{base}/never.tfrecord") as writer:
        writer.write(EXAMPLES[0])
        raise RuntimeError
    assert listing.objects_exist([f"{base}/never.tfrecord", f"{base}/big.npy"]) == [False, True]


def test_folders_as_one_thing(base, tmp_path):
    from PIL import Image

    images = []
    for number in range(20):
        out = io.BytesIO()
        Image.fromarray(np.full((8, 8, 3), number, np.uint8)).save(out, "PNG")
        images.append({"image": out.getvalue(), "label": number % 2})
    schema = {"image": hr.Feature("bytes", encoding="png"), "label": hr.Feature("int64", names=("a", "b"))}
    arrays = [{"values": np.full((4, 3), number, np.float32), "label": number} for number in range(20)]
    for place in (base, tmp_path):
        hr.write(f"{place}/images", images, format="image_folder", schema=schema)
        hr.write(f"{place}/arrays", arrays, format="npy_folder")
    assert alike(f"{base}/images", str(tmp_path / "images")) == 20
    assert alike(f"{base}/arrays", str(tmp_path / "arrays")) == 20


def test_wrong_credentials(base, monkeypatch):
    if not base.startswith("az"):
        pytest.skip("moto takes every name")
    with monkeypatch.context() as patch:
        patch.setenv("AZURE_STORAGE_ACCOUNT_KEY", base64.b64encode(b"another").decode())
        with pytest.raises(Unreachable, match="403"):
            hr.open(f"{base}/x.tfrecord")
        with pytest.raises(Unreachable, match="permission to write this"):
            hr.write(f"{base}/x.tfrecord", EXAMPLES)
