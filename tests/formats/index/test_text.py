"""The text form of an index."""

import gzip

import pytest
from tests.reference import tfrecord as reference

from headrace.errors import CorruptFile, UnsupportedData
from headrace.formats.index.text import read_text_index, write_text_index
from headrace.formats.tfrecord.format import TFRecordRecords

PAYLOADS = [b"abc", b"", b"d" * 100]
TEXT = "0 19\n19 16\n35 116\n"


@pytest.fixture
def path(tmp_path):
    (tmp_path / "x").write_bytes(b"".join(map(reference.framed, PAYLOADS)))
    return str(tmp_path / "x")


def test_written_as_tfrecord2idx_does(path, tmp_path):
    write_text_index(TFRecordRecords([path]).index, 0, tmp_path / "x.idx")
    assert (tmp_path / "x.idx").read_text() == TEXT


def test_read_back(path, tmp_path):
    (tmp_path / "x.idx").write_text(TEXT)
    index = read_text_index(tmp_path / "x.idx", path)
    ours = TFRecordRecords([path]).index
    assert index.starts.tolist() == ours.starts.tolist() == [0, 19, 35]
    assert index.files == ours.files


def test_of_one_file_among_several(path, tmp_path):
    (tmp_path / "y").write_bytes(reference.framed(b"other"))
    index = TFRecordRecords([path, str(tmp_path / "y")]).index
    write_text_index(index, 1, tmp_path / "y.idx")
    assert (tmp_path / "y.idx").read_text() == "0 21\n"


def test_of_an_empty_file(tmp_path):
    (tmp_path / "e").touch()
    write_text_index(TFRecordRecords([str(tmp_path / "e")]).index, 0, tmp_path / "e.idx")
    assert (tmp_path / "e.idx").read_text() == ""
    assert len(read_text_index(tmp_path / "e.idx", str(tmp_path / "e"))) == 0


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("0 19\n19 16\n", 2),
        ("0 19\n19 16\n35 115\n", 3),
        ("0 19\n19 16\n35 116\n151 16\n", 4),
        ("0 19\n35 116\n", 1),
        ("19 16\n35 116\n", 0),
        ("0 35\n35 116\n", 0),
        ("0 19\n19 132\n", 1),
        ("0 10\n10 25\n35 116\n", 1),
        ("0 19\n19\n", 1),
        ("0 19\n-1 5\n", 1),
        ("0 19\nx y\n", 1),
        ("0 19\n19 99999999999999999999\n", 1),
        ("0 19\n\n", 1),
    ],
)
def test_another_files_index_is_refused(path, tmp_path, text, line):
    (tmp_path / "x.idx").write_text(text)
    with pytest.raises(CorruptFile, match=r"x\.idx") as raised:
        read_text_index(tmp_path / "x.idx", path)
    assert raised.value.where.record in (line, line - 1)


def test_compressed_files_have_no_text_index(tmp_path):
    (tmp_path / "x").write_bytes(gzip.compress(reference.framed(b"a")))
    (tmp_path / "x.idx").write_text("0 17\n")
    with pytest.raises(UnsupportedData, match="gzip"):
        read_text_index(tmp_path / "x.idx", str(tmp_path / "x"))
    with pytest.raises(UnsupportedData, match="gzip"):
        write_text_index(TFRecordRecords([str(tmp_path / "x")]).index, 0, tmp_path / "y.idx")
