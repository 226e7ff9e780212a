"""Which format a file has."""

import gzip
import zlib

import numpy as np
import pytest
from tests.formats.golden import NPY, SOUND
from tests.reference import tfrecord as reference

from penstock import _registry
from penstock.errors import CorruptRecord, NoFiles, UnknownFormat, UnsupportedData
from penstock.formats.detect import detect, format_named, format_of_name
from penstock.formats.npy import NpyRecords
from penstock.formats.opening import open_records
from penstock.formats.tfrecord import TFRecordRecords


@pytest.fixture
def file(tmp_path):
    def make(name, content):
        (tmp_path / name).write_bytes(content)
        return str(tmp_path / name)

    return make


@pytest.mark.parametrize("path", SOUND, ids=lambda path: path.name)
def test_golden_tfrecords_are_known_under_any_name(path, file):
    if path.stat().st_size:
        assert detect(file("x.npy", path.read_bytes())).name == "tfrecord"
    assert detect(str(path)).name == "tfrecord"


def test_golden_arrays_are_known_under_any_name(file):
    assert detect(file("x.tfrecord", (NPY / "f4.npy").read_bytes())).name == "npy"


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
def test_what_is_inside_counts(file, pack):
    assert detect(file("x", pack(reference.framed(b"a")))).name == "tfrecord"
    with pytest.raises(UnsupportedData, match="Decompress"):
        detect(file("y", pack((NPY / "f4.npy").read_bytes())))


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("x.tfrecord", "tfrecord"), ("X.TFRecords", "tfrecord"), ("x.tfrecord-00000-of-00008", "tfrecord"),
        ("x-00000-of-00008.tfrecord.gz", "tfrecord"), ("train.record", "tfrecord"), ("x.tfrecord-17", "tfrecord"),
        ("x.npy", "npy"), ("x.tfrecord.npy", "npy"), ("x.txt", None), ("tfrecord", None), ("npy/x", None),
    ],
)  # fmt: skip
def test_names(name, known):
    assert format_of_name(name) == known


def test_names_decide_where_content_does_not(file):
    assert detect(file("x.npy", b"")).name == "npy"
    assert detect(file("x.tfrecord", b"damaged from its first byte on")).name == "tfrecord"


def test_what_is_not_known_is_shown(file):
    with pytest.raises(UnknownFormat, match="49 20 61 6d") as raised:
        detect(file("x.bin", b"I am a text"))
    assert "tfrecord" in str(raised.value)
    assert "npy" in str(raised.value)
    with pytest.raises(UnknownFormat, match=r"one png image.*by the folder"):
        detect(file("x", b"\x89PNG\r\n\x1a\n and more"))
    with pytest.raises(UnknownFormat, match="an empty file"):
        detect(file("y.bin", b""))
    with pytest.raises(UnknownFormat, match="'hdf5'"):
        format_named("hdf5")


def test_every_line_of_the_table_is_a_format():
    for name in _registry.FORMATS:
        found = format_named(name.upper())
        assert found.name == name
        assert all(format_of_name("x" + suffix) == name for suffix in found.suffixes)
        assert found.open(["x"]).format == name


def test_opening(tmp_path, file):
    file("a.tfrecord", reference.framed(b"a"))
    file("b.npy", (NPY / "f4.npy").read_bytes())
    assert isinstance(open_records(tmp_path / "a.tfrecord"), TFRecordRecords)
    assert isinstance(open_records([tmp_path / "b.npy"]), NpyRecords)
    records = open_records(tmp_path / "a.tfrecord", on_corrupt="skip", verify=False, compression="none")
    assert (records.on_corrupt, records.verify) == ("skip", False)
    with pytest.raises(CorruptRecord, match="TFRecord file at all"):
        len(open_records(tmp_path / "b.npy", format="tfrecord"))
    with pytest.raises(NoFiles):
        open_records(tmp_path / "c")
    with pytest.raises(UnknownFormat):
        open_records(tmp_path / "a.tfrecord", format="csv2")
    np.save(tmp_path / "c.npy", np.zeros(3))
    with pytest.raises(UnsupportedData, match="a npy file"):
        list(open_records([tmp_path / "a.tfrecord", tmp_path / "c.npy"]))
