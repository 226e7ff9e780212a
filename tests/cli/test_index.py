"""``headrace index``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import headrace as hr
from headrace.cli.index import _show


@pytest.fixture
def path(tmp_path):
    hr.write_records(tmp_path / "x.tfrecord", [bytes(i) for i in range(20)])
    return tmp_path / "x.tfrecord"


def test_builds_once_and_prints_the_place(run, path, tmp_path):
    first = run("index", path, "--json")
    assert first.code == 0
    assert first.json["records"] == 20
    assert first.json["built"] is True
    kept = Path(first.json["index"])
    assert kept.is_relative_to(tmp_path / "cache")
    again = run("index", path)
    assert again.out.splitlines()[0] == "20 records in 1 file; the index was already there"
    assert str(kept) in again.out


def test_text_form_there_and_back(run, path, tmp_path, monkeypatch):
    assert run("index", path, "--text", tmp_path / "x.idx").code == 0
    lines = (tmp_path / "x.idx").read_text().splitlines()
    sizes = [16 + i for i in range(20)]
    assert lines == [f"{sum(sizes[:i])} {sizes[i]}" for i in range(20)]

    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path / "other"))
    done = run("index", path, "--from-text", tmp_path / "x.idx", "--json")
    assert done.code == 0
    assert done.json["records"] == 20
    assert done.json["index"] is not None
    assert bytes(hr.records(path)[19]) == bytes(19)


def test_text_form_of_another_file_is_refused(run, path, tmp_path):
    (tmp_path / "x.idx").write_text("0 16\n16 18\n")
    done = run("index", path, "--from-text", tmp_path / "x.idx")
    assert done.code == 1
    assert "x.idx" in done.err


def test_a_text_file_for_each_shard(run, tmp_path):
    hr.write(tmp_path / "x.tfrecord@3", {"a": np.arange(10)})
    done = run("index", tmp_path / "x.tfrecord@3", "--text", tmp_path / "indexes", "--json")
    assert [Path(name).name for name in done.json["text"]] == [f"x.tfrecord-{i:05d}-of-00003.idx" for i in range(3)]
    assert sum(len(Path(name).read_text().splitlines()) for name in done.json["text"]) == 10


def test_damage(run, golden):
    path = golden("tfrecord/bad_length_crc.tfrecord")
    assert run("index", path).code == 1
    done = run("index", path, "--skip-corrupt", "--json")
    assert done.json["records"] == 39


def test_arrays_need_no_index(run, golden):
    done = run("index", golden("npy/f4.npy"))
    assert done.code == 2
    assert "npy files have no index that this command makes" in done.err


def test_text_indexes_that_do_not_fit_the_files(run, path, tmp_path):
    (tmp_path / "y").mkdir()
    hr.write_records(tmp_path / "y" / "x.tfrecord", [b"1"])
    same_names = [path, tmp_path / "y" / "x.tfrecord"]
    (tmp_path / "file").write_text("")
    for arguments, words in (
        ([*same_names, "--from-text", tmp_path / "file"], "describes one undamaged file"),
        ([path, "--skip-corrupt", "--from-text", tmp_path / "file"], "describes one undamaged file"),
        ([*same_names, "--text", tmp_path / "file"], "must be a folder"),
        ([*same_names, "--text", tmp_path / "indexes"], "two of the files have the same name"),
    ):
        done = run("index", *arguments)
        assert done.code == 2
        assert words in " ".join(done.err.split())
    assert (tmp_path / "file").read_text() == ""
    assert not list((tmp_path / "indexes").iterdir())


def test_an_index_that_could_not_be_stored(capsys):
    _show({"records": 20, "files": 1, "built": True, "seconds": 0.5, "index": None, "text": []})
    assert capsys.readouterr().out.splitlines() == [
        "20 records in 1 file; the index built in 0.50 s",
        "The index was not stored: the cache folder is not writable.",
    ]


def test_data_is_never_replaced(run, path, tmp_path):
    path.rename(tmp_path / "plain")  # a name that does not tell
    hr.write(tmp_path / "y.npy", np.arange(3))
    (tmp_path / "other.csv.gz").write_bytes(b"data")
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir() if each.is_file()}
    for name in before:
        done = run("index", tmp_path / "plain", "--text", tmp_path / name)
        assert done.code == 2
        assert name in done.err
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir() if each.is_file()} == before
    (tmp_path / "old.idx").write_text("of another day")
    assert run("index", tmp_path / "plain", "--text", tmp_path / "old.idx").code == 0
    assert (tmp_path / "old.idx").read_text().startswith("0 16")


def test_the_home_folder_of_a_text_index(run, path, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run("index", path, "--text", "~/x.idx").code == 0
    assert (tmp_path / "x.idx").exists()
