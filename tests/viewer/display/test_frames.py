"""The fields of frames say where a record begins and ends, as the reader found it."""

import io
import tarfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.viewer.display.frames import frame_fields

FORMATS = ("tfrecord", "recordio", "array_record", "avro", "webdataset", "npy", "csv", "")


def reader(content):
    return lambda at, size: content[at : at + size]


def fields_of_row(path, row, format):
    content = path.read_bytes()
    return frame_fields(format, reader(content), hr.open(path).where(row).offset, len(content)), content


@pytest.mark.parametrize(("name", "format"), [("a.tfrecord", "tfrecord"), ("a.rec", "recordio")])
def test_frames_follow_each_other(tmp_path, name, format):
    path = tmp_path / name
    hr.write(path, [{"x": np.full(row, row, np.float32)} for row in range(5)])
    for row in range(4):
        fields, _ = fields_of_row(path, row, format)
        assert all(one.stop == other.start for one, other in zip(fields, fields[1:], strict=False))
        assert fields[0].start == hr.open(path).where(row).offset
        assert fields[-1].stop == hr.open(path).where(row + 1).offset


def test_a_chunk_of_riegeli(tmp_path):
    path = tmp_path / "a.array_record"
    hr.write(path, [{"x": row} for row in range(5)])
    fields, content = fields_of_row(path, 2, "array_record")
    assert [field.name for field in fields][:2] == ["checksum of the header", "size of the data"]
    size = int.from_bytes(content[fields[1].start : fields[1].stop], "little")
    assert fields[-1].stop - fields[-1].start == size
    assert frame_fields("array_record", reader(content), 65_530, len(content)) == []
    assert frame_fields("array_record", reader(content), 0, len(content))[0].name == "block header"


def test_a_block_of_avro(tmp_path):
    path = tmp_path / "a.avro"
    hr.write(path, [{"x": row} for row in range(300)])
    fields, content = fields_of_row(path, 7, "avro")
    assert [field.name for field in fields] == ["records", "size", "data", "marker"]
    assert fields[0].meaning == "300"
    assert fields[-1].stop == len(content)
    assert [field.name for field in frame_fields("avro", reader(content), 0, len(content))] == ["magic number"]
    assert frame_fields("avro", reader(b"\xff" * 40), 0, 40) == []


def test_a_member_of_an_archive(tmp_path):
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        for row in range(3):
            member = tarfile.TarInfo(f"{row}.txt")
            member.size, member.uname = 10 + row, "someone"
            archive.addfile(member, io.BytesIO(b"x" * (10 + row)))
    fields, content = fields_of_row(path, 1, "webdataset")
    by_name = {field.name: field for field in fields}
    assert by_name["name"].meaning == "1.txt"
    assert by_name["owner's name"].meaning == "someone"
    assert by_name["checksum"].meaning.endswith("correct")
    assert by_name["kind"].meaning == "0 a file"
    assert content[by_name["content"].start : by_name["content"].stop] == b"x" * 11
    assert by_name["padding"].stop == by_name["content"].start + 512
    damaged = bytearray(content)
    damaged[by_name["name"].start] ^= 0xFF
    fields = frame_fields("webdataset", reader(bytes(damaged)), by_name["name"].start, len(content))
    assert "expected" in next(field.meaning for field in fields if field.name == "checksum")


def test_a_large_member_has_its_size_in_base_256():
    member = tarfile.TarInfo("large")
    member.size = 1 << 40
    header = member.tobuf(tarfile.GNU_FORMAT)
    fields = frame_fields("webdataset", reader(header), 0, len(header))
    assert f"{1 << 40:,} bytes" in [field.meaning for field in fields]


def test_the_values_of_a_row_of_an_array(tmp_path):
    path = tmp_path / "a.npy"
    array = np.arange(300, dtype=">i4").reshape(3, 100)
    np.save(path, array)
    fields, content = fields_of_row(path, 1, "npy")
    assert fields[0].meaning == "100 as int32"
    assert content[fields[0].start : fields[0].stop] == array[1, :1].tobytes()
    assert [field.name for field in fields[-2:]] == ["value 63", "the other values"]
    assert fields[-1].stop == hr.open(path).where(2).offset
    header = frame_fields("npy", reader(content), 0, len(content))
    assert [field.name for field in header] == ["magic number", "version", "length of the header", "header"]


@settings(max_examples=300)
@given(st.sampled_from(FORMATS), st.binary(max_size=700), st.integers(0, 800))
def test_any_bytes_have_fields_or_none(format, content, at):
    for field in frame_fields(format, reader(content), at, len(content)):
        assert field.start >= 0
        assert field.name
        assert isinstance(field.meaning, str)
