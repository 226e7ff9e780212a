"""Salvaging intact records, in every format."""

import numpy as np
import pytest

import headrace as hr
from headrace.contracts.records import Salvaged
from headrace.writing.salvage import salvage

PAYLOADS = [bytes([i]) * 50 for i in range(10)]


def damaged(path, at):
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("name", ["out.tfrecord", "out.tfrecord.gz"])
def test_tfrecord(tmp_path, name):
    path = tmp_path / "x.tfrecord"
    hr.write_records(path, PAYLOADS)
    damaged(path, 2 * 66 + 20)
    saved = salvage(path, tmp_path / name)
    assert saved == Salvaged(records=9, lost_records=None, lost_bytes=66)
    assert [bytes(view) for view in hr.records(tmp_path / name)] == PAYLOADS[:2] + PAYLOADS[3:]


def test_array_record(tmp_path):
    path = tmp_path / "x.array_record"
    hr.write_records(path, PAYLOADS)
    damaged(path, 100)
    saved = salvage(path, tmp_path / "out.array_record")
    assert (saved.records, saved.lost_records) == (9, 1)
    assert [bytes(view) for view in hr.records(tmp_path / "out.array_record")] == PAYLOADS[1:]


def test_intact_records_are_copied(tmp_path):
    hr.write_records(tmp_path / "x.tfrecord", PAYLOADS)
    assert salvage(tmp_path / "x.tfrecord", tmp_path / "out") == Salvaged(records=10, lost_records=0, lost_bytes=0)
    assert (tmp_path / "out").read_bytes() == (tmp_path / "x.tfrecord").read_bytes()


def test_formats_that_cannot_be_salvaged(tmp_path):
    hr.write(tmp_path / "x.tfrecord@2", {"x": np.arange(10)})
    with pytest.raises(hr.UnsupportedData, match="one file to salvage, found 2"):
        salvage(tmp_path / "x.tfrecord@2", tmp_path / "out")
    one = tmp_path / "x.tfrecord-00000-of-00002"
    with pytest.raises(hr.UnsupportedData, match="already exists"):
        salvage(one, one)
    np.save(tmp_path / "x.npy", np.arange(3))
    with pytest.raises(hr.UnsupportedData, match="a format of records, found npy"):
        salvage(tmp_path / "x.npy", tmp_path / "out.npy")
    assert not (tmp_path / "out.npy").exists()


@pytest.mark.parametrize("name", ["x.tfrecord", "x.array_record"])
def test_shards_are_no_place_for_what_is_salvaged(tmp_path, name):
    hr.write_records(tmp_path / name, PAYLOADS)
    with pytest.raises(hr.UnsupportedData, match=r"found that of shards.*out@2"):
        salvage(tmp_path / name, tmp_path / "out@2")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    hr.write_records("~/x.tfrecord", PAYLOADS)
    assert salvage("~/x.tfrecord", "~/y.tfrecord").records == 10
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.tfrecord", "y.tfrecord"]


@pytest.mark.parametrize("name", ["out.csv", "out.array_record", "out.npy"])
def test_the_name_of_another_format_is_refused(tmp_path, name):
    hr.write_records(tmp_path / "x.tfrecord", PAYLOADS)
    with pytest.raises(hr.UnsupportedData, match="of the same format, tfrecord"):
        salvage(tmp_path / "x.tfrecord", tmp_path / name)
    assert salvage(tmp_path / "x.tfrecord", tmp_path / "out.saved").records == 10
