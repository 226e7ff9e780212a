"""Written files equal TensorFlow's."""

import gzip
import os
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats.golden import SOUND
from tests.reference import tfrecord as reference

from headrace.formats.framed import write as record_writer
from headrace.formats.tfrecord.format import TFRecordRecords, TFRecordWriter

HEAD, TAIL = 12, 4  # of framing round each payload
UNPACK = {"none": bytes, "gzip": gzip.decompress, "zlib": zlib.decompress}


@pytest.mark.parametrize(
    "path", [p for p in SOUND if ".gzip" not in p.name and ".zlib" not in p.name], ids=lambda p: p.name
)
def test_goldens_are_rewritten_to_the_byte(path, tmp_path):
    with TFRecordWriter(tmp_path / "x") as writer:
        for payload in TFRecordRecords([str(path)]):
            writer.write(payload)
    assert (tmp_path / "x").read_bytes() == path.read_bytes()


@given(st.lists(st.binary(max_size=100)), st.sampled_from(["none", "gzip", "zlib"]), st.sampled_from([1, 100, 1 << 20]))
def test_every_way_of_writing_gives_the_same(tmp_path_factory, payloads, compression, gather_bytes):
    folder = tmp_path_factory.mktemp("write")
    expected = b"".join(map(reference.framed, payloads))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_writer, "GATHER_BYTES", gather_bytes)
        with TFRecordWriter(folder / "one", compression=compression) as one:
            for payload in payloads:
                one.write(payload)
        with TFRecordWriter(folder / "many", compression=compression) as many:
            many.write_many(payloads)
    with TFRecordWriter(folder / "block", compression=compression) as block:
        block.write_block(*blocks_of(payloads))
    assert one.records == many.records == block.records == len(payloads)
    for name in ("one", "many", "block"):
        content = (folder / name).read_bytes()
        assert (UNPACK[compression](content) if content or compression != "none" else content) == expected


def blocks_of(payloads):
    block = np.full(sum(16 + len(payload) for payload in payloads), 0xEE, np.uint8)
    starts, at = [], 0
    for payload in payloads:
        starts.append(at + HEAD)
        block[starts[-1] : starts[-1] + len(payload)] = np.frombuffer(payload, np.uint8)
        at = starts[-1] + len(payload) + TAIL
    return block, np.array(starts, np.int64), np.array([len(payload) for payload in payloads], np.int64)


def test_records_and_blocks_keep_their_order(tmp_path):
    with TFRecordWriter(tmp_path / "x") as writer:
        writer.write(b"first")
        writer.write_block(*blocks_of([b"second", b"third"]))
        writer.write(b"fourth")
    assert [bytes(view) for view in TFRecordRecords([str(tmp_path / "x")])] == [
        b"first",
        b"second",
        b"third",
        b"fourth",
    ]


def test_a_buffer_may_be_used_again_at_once(tmp_path):
    buffer = bytearray(b"abc")
    with TFRecordWriter(tmp_path / "x") as writer:
        writer.write(buffer)
        buffer[:] = b"xyz"
        writer.write(memoryview(buffer))
        buffer[:] = b"___"
    assert [bytes(view) for view in TFRecordRecords([str(tmp_path / "x")])] == [b"abc", b"xyz"]


@pytest.mark.parametrize("compression", ["gzip", "zlib"])
def test_compressed_output_is_the_same_every_time(tmp_path, compression):
    for name in "ab":
        with TFRecordWriter(tmp_path / name, compression=compression.upper(), level=9) as writer:
            writer.write(b"a" * 1000)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_levels(tmp_path):
    sizes = []
    for level in (0, 1, 9):
        with TFRecordWriter(tmp_path / "x", compression="zlib", level=level) as writer:
            writer.write(bytes(range(256)) * 100)
        sizes.append((tmp_path / "x").stat().st_size)
    assert sizes[0] > sizes[1] > sizes[2]
    for level in (-2, 10):
        with pytest.raises(ValueError, match="level"):
            TFRecordWriter(tmp_path / "y", compression="zlib", level=level)
    with pytest.raises(ValueError, match="compression"):
        TFRecordWriter(tmp_path / "y", compression="lz4")
    assert os.listdir(tmp_path) == ["x"]


def test_nothing_is_left_of_what_fails(tmp_path):
    with pytest.raises(RuntimeError), TFRecordWriter(tmp_path / "x") as writer:
        writer.write(b"abc")
        raise RuntimeError
    with pytest.raises(TypeError):
        TFRecordWriter(tmp_path / "y").write("text")
    writer = TFRecordWriter(tmp_path / "z")
    with pytest.raises(ValueError):
        writer.write_block(np.zeros(10, np.uint8), np.array([5]), np.array([100]))
    writer.abort()
    writer.close()
    for use in (lambda: writer.write(b"a"), lambda: writer.write_block(*blocks_of([b"a"]))):
        with pytest.raises(ValueError, match="closed"):
            use()
    assert os.listdir(tmp_path) == []


def test_an_empty_file_is_one(tmp_path):
    for compression in UNPACK:
        TFRecordWriter(tmp_path / compression, compression=compression).close()
        assert len(TFRecordRecords([str(tmp_path / compression)])) == 0
    assert (tmp_path / "none").read_bytes() == b""
