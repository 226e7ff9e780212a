"""``headrace prepare`` and ``headrace datasets``."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.datasets.authors import served
from tests.datasets.web import Web

from headrace import data_source
from headrace.datasets.named.catalogue import BUILDERS


@pytest.fixture
def web():
    server = Web()
    yield server
    server.close()


@pytest.fixture
def mnist(web, monkeypatch):
    """The name ``mnist`` means small files on this machine."""
    builder = served(web, "mnist")
    monkeypatch.setitem(BUILDERS, "mnist", lambda: builder)
    return builder


def test_a_known_dataset(run, mnist, web, tmp_path):
    done = run("prepare", "mnist", "--data-dir", tmp_path / "d", "--download-dir", tmp_path / "files")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0].startswith("mnist/3.0.1 prepared in ")
    assert lines[0].endswith(str(tmp_path / "d" / "mnist" / "3.0.1"))
    assert lines[1].startswith("  train: 30 examples, ")
    assert lines[2].startswith("  test: 12 examples, ")
    assert len(list((tmp_path / "files").glob("*.gz"))) == 4
    again = run("prepare", "mnist", "--data-dir", tmp_path / "d", "--json")
    assert again.json["splits"]["train"]["examples"] == 30
    assert again.json["name"] == "mnist/3.0.1"
    assert "is already there" in run("prepare", "mnist", "--data-dir", tmp_path / "d").out
    assert len(web.asked) == 4


def test_own_images_and_rows(run, tmp_path):
    for number, name in enumerate(["cat", "dog"] * 3):
        Path("pets", name).mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((2, 3, 3), number, np.uint8)).save(Path("pets", name, f"{number}.png"))
    Path("rows.csv").write_text("a,kind\n1,x\n2,y\n")
    done = run(
        "prepare", "pets", "--from", "pets", "--data-dir", "d", "--format", "array_record", "--shards", 2, "--json"
    )
    assert (done.code, done.json["format"], done.json["splits"]["train"]["files"]) == (0, "array_record", 2)
    done = run("prepare", "rows", "--from", "rows.csv", "--label", "kind", "--data-dir", "d", "--version", "2.1.0")
    assert done.code == 0, done.err
    assert data_source("rows:2.1.0", "train", data_dir="d").features["kind"].names == ["x", "y"]
    copy = run("prepare", "copy", "--from", "d/rows/2.1.0", "--data-dir", "d", "--json")
    assert copy.json["name"] == "copy/2.1.0"


def test_the_list(run, mnist, tmp_path):
    run("prepare", "mnist", "--data-dir", "d")
    broken = Path("d", "odd", "1.0.0")
    broken.mkdir(parents=True)
    (broken / "dataset_info.json").write_text("{")
    reported = run("datasets", "--data-dir", "d", "--json")
    assert [entry["name"] for entry in reported.json["prepared"]] == ["mnist/3.0.1"]
    assert reported.json["prepared"][0]["bytes"] > 1000
    assert {entry["name"] for entry in reported.json["known"]} >= {
        "cifar10/3.0.2",
        "emnist/letters/3.1.0",
        "iris/2.1.0",
    }
    assert "odd:1.0.0" in reported.err
    table = run("datasets", "--data-dir", "d")
    rows = {line.split()[0]: line for line in table.out.splitlines()}
    assert "train 30, test 12" in rows["mnist/3.0.1"]
    assert "170 MB to download" in rows["cifar10/3.0.2"]
    assert table.err.splitlines()[-1] == "searched d"


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["mnits"], 2, "Did you mean 'mnist'"),
        (["pets", "--from", "nowhere"], 2, "no such folder or CSV file: nowhere"),
        (["mnist", "--label", "x"], 2, "--from"),
        (["a/b", "--from", "rows.csv"], 2, "letters, digits"),
        (["rows", "--from", "rows.csv", "--label", "zz"], 2, "'zz'"),
        (
            ["rows", "--from", "rows.csv", "--version", "1"],
            2,
            "Invalid value for --version: expected a version such as 1.0.0",
        ),
    ],
)
def test_wrong_calls(run, args, code, words):
    Path("rows.csv").write_text("a,kind\n1,x\n2,y\n")
    done = run("prepare", *args, "--data-dir", "d")
    assert (done.code, done.out) == (code, "")
    assert words in done.err.replace("\n", " ")


def test_a_damaged_description(run):
    Path("prepared").mkdir()
    for name in ("dataset_info.json", "features.json"):
        Path("prepared", name).write_text("{")
    done = run("prepare", "mine", "--from", "prepared", "--data-dir", "d")
    assert (done.code, done.out) == (1, "")
    assert "expected JSON" in done.err
    assert "prepared/dataset_info.json" in done.err
    assert not Path("d", "mine").exists()


def test_a_server_without_the_file(run, mnist, web):
    web.pages.clear()
    done = run("prepare", "mnist", "--data-dir", "d")
    assert done.code == 1
    assert "404" in done.err
    assert "Traceback" not in done.err
    assert json.loads(run("datasets", "--data-dir", "d", "--json").out)["prepared"] == []


def test_a_url_is_no_folder(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("my.csv").write_text("a,b\n1,2\n")
    done = run("prepare", "my", "--from", "my.csv", "--data-dir", "s3://bucket/prepared")
    assert done.code == 2
    assert "a path on this machine" in " ".join(done.err.split())
    assert not any(path.name.startswith("s3") for path in tmp_path.iterdir())
