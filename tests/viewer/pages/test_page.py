"""The Python lines and commands that pages show run as they stand."""

import contextlib
import io
import os
import shlex
import shutil
import subprocess

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.viewer import conftest
from tests.viewer.conftest import client_of, code_of
from typer.testing import CliRunner

import headrace as hr
from headrace.cli.app import app
from headrace.datasets.building.builder import DatasetBuilder
from headrace.datasets.features import ClassLabel, Image, Text
from headrace.viewer.dataset import ShownDataset, open_datasets
from headrace.viewer.display.markup import visible
from headrace.viewer.pages.page import command_line

PAGES = ["", "?row=3", "schema", "grid", "grid?together=1", "order", "bytes?row=3", "faults", "?where=label%20%3D%201"]


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Files and a prepared dataset, by what a command calls them."""
    folder = tmp_path_factory.mktemp("it's here")
    hr.write(folder / "rows.tfrecord", [conftest.example(row) for row in range(20)])
    hr.write(folder / "plain.csv", {"label": np.arange(9) % 3, "text": [f"a,'{row}'" for row in range(9)]})
    pictures = [np.full((9, 9, 3), row, np.uint8) for row in range(20)]
    DatasetBuilder(
        name="small",
        features={"image": Image(shape=(9, 9, 3)), "label": ClassLabel(names=["a", "b"]), "text": Text()},
        splits={
            name: [(row, {"image": pictures[row], "label": row % 2, "text": "t"}) for row in range(20)]
            for name in ("train", "test")
        },
    ).download_and_prepare(data_dir=folder)
    return {
        "tfrecord": str(folder / "rows.tfrecord"),
        "csv": str(folder / "plain.csv"),
        "folder": str(folder / "small" / "1.0.0"),
        "split": f"{folder / 'small' / '1.0.0'}:test",
        "part": f"{folder / 'small' / '1.0.0'}:train[:50%]",
        "name": "small:test",
        "data_dir": str(folder),
    }


@pytest.fixture
def run_code(places, monkeypatch, tmp_path):
    """Runs the Python lines and the commands of a page; gives what they print."""
    monkeypatch.setenv("TFDS_DATA_DIR", places["data_dir"])
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path / "cache"))

    def run(page):
        python, commands = code_of(page)
        folder = tmp_path / "work"
        folder.mkdir(exist_ok=True)
        monkeypatch.chdir(folder)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(python, "page", "exec"), {})
        for name in os.listdir(folder):
            (folder / name).unlink()
        printed = []
        for line in (commands or "").splitlines():
            name, verb, *words = shlex.split(line)
            assert name == "headrace"
            if verb != "view":  # it would not end
                result = CliRunner().invoke(app, [verb, *words], prog_name="headrace")
                assert result.exit_code == 0, (line, result.output)
                printed.append(result.stdout)
        return out.getvalue(), printed

    return run


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("place", ["tfrecord", "csv", "split", "part", "name"])
def test_the_code_of_a_page_runs(places, run_code, place, page, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", places["data_dir"])
    [dataset] = open_datasets(places[place])
    client = client_of(dataset)
    for _ in range(2):  # a check that was not finished is by then
        found = client.get(f"/0/{page}")
    assert found.status_code == 200
    _, printed = run_code(found)
    assert printed


def test_the_code_of_a_list_of_datasets_runs(places, run_code):
    datasets = open_datasets(places["folder"])
    page = client_of(*datasets, *open_datasets(places["csv"])).get("/")
    printed, _ = run_code(page)
    assert printed.count("20 examples") == 2
    assert "9 examples" in printed
    words = shlex.split(code_of(page)[1])
    assert words[:2] == ["headrace", "view"]
    assert [each.name for path in words[2:] for each in open_datasets(path)] == [
        *(each.name for each in datasets),
        places["csv"],
    ]
    in_memory = ShownDataset(hr.ColumnSource({"x": np.arange(3)}), name="made", code="source")
    assert code_of(client_of(*open_datasets(places["csv"]), in_memory).get("/"))[1] is None


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20), max_size=5))
@example(["it's", "a\nb", "\u202e'\\", "$(touch x)", "\U000e0001", "", "a\x01\x7f2"])
def test_a_command_has_the_words_that_were_given(words):
    line = command_line(words)
    assert visible(line) == line
    script = f"for word in {line}; do printf '%s\\0' \"$word\"; done"
    bash = [shutil.which("bash"), "-c", script]
    printed = subprocess.run(bash, env={"LC_ALL": "C.UTF-8"}, check=True, capture_output=True).stdout
    assert printed.decode() == "".join(f"{word}\0" for word in words)
