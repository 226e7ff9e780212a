"""``headrace index``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import headrace as hr


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
    assert "npy files need no index" in done.err
