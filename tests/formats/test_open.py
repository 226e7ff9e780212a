"""Detection of formats."""

import bz2
import contextlib
import gzip
import lzma
import pickle
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats.golden import NPY, SOUND
from tests.reference import tfrecord as reference

import headrace as hr
from headrace.contracts.records import Format
from headrace.errors import CorruptRecord, NoFiles, UnknownFormat, UnsupportedData
from headrace.formats import open as opening
from headrace.formats import registry
from headrace.formats.npy.format import NpyRecords
from headrace.formats.open import detect, open_records
from headrace.formats.registry import format_named, format_of_name
from headrace.formats.tfrecord.format import TFRecordRecords
from headrace.io.folders import Listing


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


def test_a_folder_of_shards_is_listed_once_and_asks_for_one_name(tmp_path, monkeypatch):
    for number in range(30):
        (tmp_path / f"x.tfrecord-{number:05d}-of-00030").write_bytes(reference.framed(b"%d" % number))
    listed, asked = [], []
    of = Listing.of
    monkeypatch.setattr(Listing, "of", lambda folder: listed.append(folder) or of(folder))
    name_of = opening.format_of_name
    monkeypatch.setattr(opening, "format_of_name", lambda path, **given: asked.append(path) or name_of(path, **given))
    assert [bytes(record) for record in open_records(tmp_path)] == [b"%d" % number for number in range(30)]
    assert len(listed) == 1
    assert len(asked) <= 2
    (tmp_path / "y.npy-00000-of-00001").write_bytes((NPY / "f4.npy").read_bytes())
    with pytest.raises(UnsupportedData, match="a file of npy"):
        open_records(tmp_path)


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
def test_the_inflated_content_counts(file, pack):
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


@pytest.mark.parametrize("name", ["x.csv", "x.jsonl", "x.tfrecord", "x.rec", "x"])
@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"\r\n<!DOCTYPE html><title>Log in</title>", "a web page. .*browser"),
        (b"<HTML>", "a web page"),
        (bz2.compress(b"a,b\n1,2\n"), "a bzip2 stream. .*Decompress it first"),
        (lzma.compress(b"a,b\n1,2\n"), "an xz stream"),
        (b"\x04\x22\x4d\x18 and more", "an LZ4 stream"),
    ],
)
def test_no_name_makes_a_page_or_a_stream_of_another_format(file, name, content, found):
    with pytest.raises(UnknownFormat, match=found.replace(". ", r" - at \S+\. ")):
        detect(file(name, content))


def test_unknown_content_is_shown(file):
    with pytest.raises(UnknownFormat, match=r"begins 'I am a text'.*format='csv'"):
        detect(file("x.bin", b"I am a text"))
    with pytest.raises(UnknownFormat, match="a Zstandard stream.*Decompress it first"):
        detect(file("x.zst", b"\x28\xb5\x2f\xfd and more"))
    with pytest.raises(UnknownFormat, match="00 01 61 6d") as raised:
        detect(file("x.bin", b"\0\1am"))
    assert "tfrecord" in str(raised.value)
    assert "npy" in str(raised.value)
    with pytest.raises(UnknownFormat, match=r"one png image.*folder that images are in"):
        detect(file("x", b"\x89PNG\r\n\x1a\n and more"))
    with pytest.raises(UnknownFormat, match="an empty file"):
        detect(file("y.bin", b""))
    with pytest.raises(UnknownFormat, match="'hdf5'"):
        format_named("hdf5")


ROWS = {"k": np.arange(5), "x": np.linspace(0, 1, 5, dtype=np.float32)}
WRITTEN = ("tfrecord", "recordio", "array_record", "npy", "npz", "csv", "tsv", "parquet", "jsonl", "avro", "tar")
COMPRESSIBLE = ("tfrecord", "recordio", "csv", "tsv", "jsonl", "tar")
OTHER_NAMES = ("x", "x.data", "x.rec", "x.npy", "x.csv", "x.jsonl", "x.parquet", "x.tar", "x.tfrecord", "x.bin", "x.gz")


@pytest.mark.parametrize("ending", WRITTEN)
@pytest.mark.parametrize("name", OTHER_NAMES)
def test_content_decides_whatever_the_name(tmp_path, ending, name):
    hr.write(tmp_path / f"right.{ending}", ROWS)
    (tmp_path / f"right.{ending}").rename(tmp_path / name)
    source = hr.open(tmp_path / name)
    assert len(source) == 5
    assert hr.open([tmp_path / name]).schema == source.schema
    column = next(iter(source.schema))
    assert sorted(np.asarray(source.batch(range(5))[column]).tolist()) in ([*range(5)], sorted(ROWS["x"].tolist()))
    assert hr.verify(tmp_path / name).ok
    assert hr.convert(tmp_path / name, tmp_path / "y.npz").examples == 5


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
@pytest.mark.parametrize("ending", COMPRESSIBLE)
@pytest.mark.parametrize("name", ["x", "x.data", "x.npy", "x.csv", "x.jsonl", "x.tfrecord"])
def test_content_decides_inside_a_stream(tmp_path, ending, name, pack):
    hr.write(tmp_path / f"right.{ending}", ROWS)
    (tmp_path / name).write_bytes(pack((tmp_path / f"right.{ending}").read_bytes()))
    assert len(hr.open(tmp_path / name)) == 5
    assert hr.verify(tmp_path / name).ok


@pytest.mark.parametrize(
    ("content", "name", "format"),
    [
        (b"1,2\n3,4\n", "x.data", "csv"),  # without a header
        (b"a,b\n1,2", "x", "csv"),  # no line end behind the last row
        (b'"a\n1",b\n"1,,",2\n', "x", "csv"),  # line ends and delimiters within quotes
        ("a,b\n1,2\n".encode("utf-16"), "x", "csv"),
        (b"a;b\r\n1,5;2\r\n", "x.parquet", "csv"),
        (b"sep=;\na;b\n1;2\n", "x", "csv"),
        ("名前,数\nあ,1\n".encode("cp932"), "x", "csv"),
        (b'{"a": 1}\n{"a": 2}\n', "x.csv", "jsonl"),
        (b'{"a": 1},2\n{"a": 2},3\n', "x.csv", "csv"),  # the first line is no JSON
        (b'{"a": 1\n{"a": 2}\n', "x.jsonl", "jsonl"),  # damaged: the reader says where
        (b'a, "b": 2}\n{"a": 1, "b": 2}\n', "x.jsonl", "jsonl"),
        (b'"a": 1, "b": 2}\n{"a": 1, "b": 2}\n', "x.jsonl", "jsonl"),
        (b"a,b\n" + b"1,2\n" * 5000, "x", "csv"),
        (b",".join(b"%d" % k for k in range(3000)) + b"\n" + b",".join([b"1"] * 3000) + b"\n", "x", "csv"),
        (b"1\n2\n3\n", "labels.csv", "csv"),
        (b"", "x.npz", "npz"),
        (gzip.compress(b"", mtime=0), "x.csv", "csv"),
    ],
)
def test_texts(file, content, name, format):
    assert detect(file(name, content)).name == format


@pytest.mark.parametrize(
    "content",
    [b"1\n2\n3\n", b"a,b\n", b"a,b\n1\n", b"[1,2]\n[3,4]\n", b"<a>,b\n<c>,d\n", b"a b\nc d\n", b'"a,b\nc,d\n', gzip.compress(b"1\n", mtime=0)],
)  # fmt: skip
def test_a_text_that_may_be_anything_asks_for_its_format(file, content):
    with pytest.raises(UnknownFormat, match="format="):
        detect(file("x", content))
    with pytest.raises(UnknownFormat, match="format="):
        hr.open(file("y.txt", content))


@given(
    st.binary(max_size=600)
    | st.text(st.sampled_from('ab,;\t\n\r"{}[]: 01\ufeff'), max_size=60).map(str.encode)
    | st.tuples(st.sampled_from([path.read_bytes()[:40] for path in SOUND]), st.binary(max_size=40)).map(b"".join),
    st.sampled_from(["x", "x.csv", "x.jsonl", "x.npy"]),
    st.sampled_from([bytes, gzip.compress, zlib.compress]),
)
def test_no_content_breaks_it(tmp_path_factory, content, name, pack):
    path = tmp_path_factory.mktemp("any") / name
    path.write_bytes(pack(content))
    with contextlib.suppress(UnknownFormat, UnsupportedData):
        assert detect(str(path)).name in registry.OWN


def test_every_line_of_the_table_is_a_format():
    for name in registry.OWN:
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
    with pytest.raises(UnsupportedData, match="a file of npy"):
        list(open_records([tmp_path / "a.tfrecord", tmp_path / "c.npy"]))
    file("d.rec", reference.framed(b"b"))
    assert len(open_records([tmp_path / "a.tfrecord", tmp_path / "d.rec"])) == 2


@pytest.mark.parametrize("name", ["x.tfrecord", "x.recordio", "x.array_record", "x.csv", "x.npy"])
def test_places_count_from_both_ends(tmp_path, name):
    hr.write(tmp_path / f"{name}@2", {"x": np.arange(6)})
    records = hr.records(tmp_path / f"{name}@2")
    places = [records.where(index) for index in range(6)]
    assert [place.record for place in places] == [0, 1, 2, 0, 1, 2]
    assert [records.where(index - 6) for index in range(6)] == places
    assert records.where(True) == places[1]
    for index in (6, -7):
        with pytest.raises(IndexError, match=f"{index} of 6"):
            records.where(index)


NAMES = [
    "x.tfrecord",
    "x.tfrecord.gz",
    "x.array_record",
    "x.recordio",
    "x.csv",
    "x.npz",
    "x.npy",
    "s@2.tfrecord",
    "*.csv",
    "folder",
]


@pytest.mark.parametrize("name", NAMES)
def test_relative_paths_stay_those_files_when_the_process_changes_its_folder(name, tmp_path, monkeypatch):
    for folder, first in (("one", 0), ("two", 100)):
        (tmp_path / folder / "folder").mkdir(parents=True)
        monkeypatch.chdir(tmp_path / folder)
        for written in (*NAMES[:8], "folder/x.npy"):
            hr.write(written, {"values": np.arange(first, first + 10)})
    monkeypatch.chdir(tmp_path / "one")
    source, pickled = hr.open(name), pickle.dumps(hr.open(name))
    monkeypatch.chdir(tmp_path / "two")
    assert int(np.ravel(source[3]["values"])[0]) == 3
    assert int(np.ravel(pickle.loads(pickled)[4]["values"])[0]) == 4
    monkeypatch.chdir(tmp_path / "one")
    assert hr.open(name).fingerprint == source.fingerprint == hr.open(Path(name).absolute()).fingerprint


def test_relative_paths_are_shown_as_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hr.write("x.tfrecord", {"values": np.arange(3)})
    records = hr.records("x.tfrecord")
    assert records.paths == (str(tmp_path / "x.tfrecord"),)
    assert repr(records) == "TFRecordRecords('x.tfrecord')"
    content = bytearray(Path("x.tfrecord").read_bytes())
    content[20] ^= 1
    Path("x.tfrecord").write_bytes(content)
    with pytest.raises(CorruptRecord, match=r" - at x\.tfrecord, record 0") as caught:
        hr.records("x.tfrecord")[0]
    assert caught.value.where.path == str(tmp_path / "x.tfrecord")


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zlib.compress])
def test_the_first_file_with_content_decides(tmp_path, pack):
    content = reference.framed(b"a") + reference.framed(b"b")
    for number, part in enumerate([b"", content, b""]):
        (tmp_path / f"x-{number:05d}-of-00003").write_bytes(pack(part))
    assert [bytes(record) for record in open_records(f"{tmp_path}/x@3")] == [b"a", b"b"]
    (tmp_path / "x-00001-of-00003").write_bytes(pack(b""))
    with pytest.raises(UnknownFormat, match="an empty (file|gzip stream|zlib stream), unknown"):
        open_records(f"{tmp_path}/x@3")


@pytest.mark.parametrize("name", ["x.csv.gz", "x.jsonl.gz", "x.tfrecord.gz", "x.gz", "x.data.gz", "x.tar.gz"])
@pytest.mark.parametrize("cut", [0, 2, 30])
def test_the_first_member_of_a_stream_may_be_short(tmp_path, name, cut):
    kind = {"x.gz": "tfrecord", "x.data.gz": "csv"}.get(name, name.split(".")[1])
    hr.write(tmp_path / f"plain.{kind}", {"name": np.arange(500), "age": np.arange(500)})
    content = (tmp_path / f"plain.{kind}").read_bytes()
    (tmp_path / name).write_bytes(gzip.compress(content[:cut]) + gzip.compress(content[cut:]))
    source = hr.open(tmp_path / name)
    assert source.batch(np.arange(500))["age"].tolist() == list(range(500))
    assert hr.verify(tmp_path / name).ok


@pytest.mark.parametrize("kind", ["csv.gz", "jsonl.gz", "tfrecord.gz", "recordio.gz", "csv.zz"])
def test_an_emptied_shard_of_compressed_ones_is_damaged(tmp_path, kind):
    place = tmp_path / f"x.{kind}@3"
    hr.write(place, {"a": np.arange(99.0)})
    next(tmp_path.glob("*-00001-of-00003*")).write_bytes(b"")
    with pytest.raises(hr.CorruptFile, match="00001-of-00003"):
        hr.open(place).batch(np.arange(66))
    assert len(hr.verify(place).faults) == 1


def test_a_folder_of_json_lines(tmp_path):
    for number, name in enumerate(["a.jsonl", "b.jsonl", "c.jsonl.gz", "d.ndjson"]):
        row = b'{"x": %d}\n' % number
        (tmp_path / name).write_bytes(gzip.compress(row) if name.endswith("gz") else row)
    for options in ({}, {"format": "jsonl"}):
        assert [int(row["x"]) for row in hr.open(tmp_path, **options)] == [0, 1, 2, 3]


def test_an_installed_format_may_have_notes_in_json_lines(tmp_path, monkeypatch):
    (tmp_path / "index.jsonl").write_bytes(b'{"x": 1}\n')
    mine = Format(name="mine", suffixes=(), knows=lambda _: False, open=list, folder=lambda folder, look: True)
    each = opening.each_format
    monkeypatch.setattr(opening, "each_format", lambda *, installed=True: [*each(installed=False), *[mine] * installed])
    assert open_records(tmp_path) == [str(tmp_path)]
