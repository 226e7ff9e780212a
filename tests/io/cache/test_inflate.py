"""GZIP and ZLIB streams: detected, inflated, every fault with its position."""

import gzip
import zlib

import numpy as np
import pytest

from headrace import _optional
from headrace.io.cache import inflate as compression
from headrace.io.cache.inflate import (
    Inflater,
    deflater,
    head_of,
    is_empty_stream,
    parse_compression,
    wrapper_of,
    wrapper_of_name,
)

CONTENT = np.random.default_rng(0).integers(0, 8, 700_000, dtype=np.uint8).tobytes()


@pytest.fixture(params=["isal", "zlib"], autouse=True)
def library(request, monkeypatch):
    monkeypatch.setattr(compression, "READ_BYTES", 10_000)  # many parts, yet fast byte by byte
    if request.param == "zlib":
        monkeypatch.setattr(_optional, "available", lambda module: False)
    elif not _optional.available("isal"):
        pytest.skip("isal is not installed")


@pytest.fixture
def inflate(tmp_path):
    def run(compressed, wrapper="gzip"):
        path = tmp_path / "x"
        path.write_bytes(compressed)
        inflater = Inflater(str(path), wrapper)
        return b"".join(inflater), inflater

    return run


def deflated(content, wrapper, level=6):
    stream = deflater(wrapper, level)
    return stream.compress(content) + stream.flush()


@pytest.mark.parametrize("wrapper", ["gzip", "zlib"])
@pytest.mark.parametrize("level", [0, 1, 9])
def test_inflates_what_was_deflated(inflate, wrapper, level):
    content, inflater = inflate(deflated(CONTENT, wrapper, level), wrapper)
    assert content == CONTENT
    assert (inflater.fault, inflater.size) == (None, len(CONTENT))


def test_output_depends_on_nothing_but_the_input():
    assert deflated(CONTENT, "gzip") == deflated(CONTENT, "gzip")
    assert deflated(b"", "gzip")[4:8] == bytes(4), "no time stamp"


def test_several_members_and_streams(inflate):
    parts = [CONTENT[:1000], b"", CONTENT[1000:400_000], CONTENT[400_000:]]
    assert inflate(b"".join(gzip.compress(part) for part in parts))[0] == CONTENT
    content, inflater = inflate(b"".join(zlib.compress(part) for part in parts), "zlib")
    assert (content, inflater.fault) == (CONTENT, None)


def test_many_flush_blocks(inflate):
    stream = deflater("zlib", 6)
    blocks = [
        stream.compress(CONTENT[at : at + 1000]) + stream.flush(zlib.Z_FULL_FLUSH)
        for at in range(0, len(CONTENT), 1000)
    ]
    assert inflate(b"".join(blocks) + stream.flush(), "zlib")[0] == CONTENT


def test_gzip_headers_with_names_and_comments(inflate):
    body = gzip.compress(CONTENT)[10:]
    header = b"\x1f\x8b\x08\x1c" + bytes(6) + b"\x03\x00abc" + b"name\x00" + b"comment\x00"
    assert inflate(header + body)[0] == CONTENT


def test_data_that_inflates_a_thousandfold_comes_in_bounded_parts(tmp_path):
    (tmp_path / "x").write_bytes(gzip.compress(bytes(50 << 20)))
    sizes = [len(part) for part in Inflater(str(tmp_path / "x"), "gzip")]
    assert sum(sizes) == 50 << 20
    assert max(sizes) <= 1 << 20


def test_an_empty_file_is_a_cut_one(inflate):
    content, inflater = inflate(b"")
    assert content == b""
    assert inflater.fault.where.offset == 0


@pytest.mark.parametrize("wrapper", ["gzip", "zlib"])
@pytest.mark.parametrize("cut", [1, 2, 5, 11, 1000, 200_000, -8, -1])
def test_a_truncated_stream_gives_the_data_before(inflate, wrapper, cut):
    whole = deflated(CONTENT, wrapper)
    content, inflater = inflate(whole[:cut], wrapper)
    expected = zlib.decompressobj(31 if wrapper == "gzip" else 15).decompress(whole[:cut])
    assert content == expected
    assert inflater.fault.expected == f"the end of the {wrapper} stream"
    assert inflater.fault.where.offset == len(content)


def test_a_damaged_stream_gives_the_data_before(inflate):
    whole = bytearray(deflated(CONTENT, "gzip"))
    whole[150_000] ^= 0xFF
    content, inflater = inflate(bytes(whole))
    assert inflater.fault is not None
    # Only the checksum can show damage in the bytes between the flipped one and the point where decoding fails.
    assert len(content) > 100_000
    assert content[:300_000] == CONTENT[:300_000]
    assert inflater.fault.where.offset == len(content)


@pytest.mark.parametrize("end", [-8, -1])
def test_a_wrong_checksum_comes_after_all_the_data(inflate, end):
    whole = bytearray(deflated(CONTENT, "gzip"))
    whole[end] ^= 1
    content, inflater = inflate(bytes(whole))
    assert content == CONTENT
    assert "incorrect" in str(inflater.fault)


@pytest.mark.parametrize("rest", [b"garbage", b"\0" * 10, b"\x1f\x8b"])
def test_data_after_the_stream_is_a_fault(inflate, rest):
    content, inflater = inflate(gzip.compress(CONTENT) + rest)
    assert content == CONTENT
    assert inflater.fault is not None


def test_no_stream_at_all(inflate):
    content, inflater = inflate(b"plain text", "gzip")
    assert content == b""
    assert "intact gzip stream" in str(inflater.fault)
    assert inflater.fault.where.offset == 0


def test_names():
    assert [parse_compression(name) for name in (None, "GZIP", "zlib", "None", "")] == [
        None,
        "gzip",
        "zlib",
        "none",
        "none",
    ]
    with pytest.raises(ValueError, match="'snappy'"):
        parse_compression("snappy")


def test_signatures_of_formats():
    assert wrapper_of(gzip.compress(b"")) == "gzip"
    assert wrapper_of(b"\x1f\x8b\x07") == "none"
    for level in (0, 1, 6, 9):
        assert wrapper_of(zlib.compress(b"x", level)) == "zlib"
    assert wrapper_of(b"\x78\x9d") == wrapper_of(b"x") == wrapper_of(b"") == "none"
    assert wrapper_of(b"\x78\xbb") == "none", "with a preset dictionary"


def test_suffixes():
    names = ["a/x.tfrecord.GZ", "x.zlib", "x.zz", "x.gzip", "x.tfrecord", "x.gz/y"]
    assert [wrapper_of_name(name) for name in names] == ["gzip", "zlib", "zlib", "gzip", "none", "none"]
    shards = [
        "x.csv.gz-00001-of-00003",
        "x-00001-of-00003.csv.gz",
        "x.gz.3",
        "x.csv-00001-of-00003",
        "x.gz/y-00000-of-00001",
    ]
    assert [wrapper_of_name(name) for name in shards] == ["gzip", "gzip", "gzip", "none", "none"]


def test_the_first_bytes_inside(tmp_path):
    (tmp_path / "x").write_bytes(gzip.compress(CONTENT))
    assert head_of((tmp_path / "x").read_bytes(), "gzip", 10) == CONTENT[:10]
    assert head_of((tmp_path / "x").read_bytes(), "zlib", 10) == b""


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
def test_the_first_bytes_of_several_members(pack):
    wrapper = wrapper_of(pack(b""))
    packed = pack(b"") + pack(b"ab") + pack(b"") + pack(b"cdef")
    for size in range(1, 8):
        assert head_of(packed, wrapper, size) == b"abcdef"[:size]
    assert head_of(pack(b"ab") + b"junk", wrapper, 9) == b"ab"
    assert head_of(packed[:-9], wrapper, 2) == b"ab"
    assert not is_empty_stream(packed)
    assert not is_empty_stream(pack(b"") + pack(b"")[:-1])
    assert not is_empty_stream(pack(b"") + b"x")
    assert is_empty_stream(pack(b"") + pack(b""))
