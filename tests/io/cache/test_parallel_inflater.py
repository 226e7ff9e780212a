from __future__ import annotations

import io
import random
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.forks import exit_code, fork

from headrace import _native
from headrace.errors import CorruptFile
from headrace.io.cache.inflate import Inflater, ParallelInflater, Reader

STRATEGIES = [zlib.Z_DEFAULT_STRATEGY, zlib.Z_FILTERED, zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE, zlib.Z_FIXED]


def floats(count: int, seed: int = 0) -> bytes:
    return np.random.default_rng(seed).normal(size=count).astype(np.float32).tobytes()


def packed(
    content: bytes, level: int = 6, strategy: int = zlib.Z_DEFAULT_STRATEGY, bits: int = 15, memory: int = 4
) -> bytes:
    deflater = zlib.compressobj(level, zlib.DEFLATED, 16 + bits, memory, strategy)
    return deflater.compress(content) + deflater.flush()


def side_by_side(file: bytes, stretch: int) -> tuple[bytes, bool]:
    stream = ParallelInflater(io.BytesIO(file), stretch=stretch)
    return b"".join(stream), stream.whole


def kinds() -> dict[str, bytes]:
    numbers = random.Random(3)
    return {
        "floats": floats(50_000),
        "bytes": numbers.randbytes(200_000),
        "few values": bytes(numbers.choices(range(40), k=200_000)),
        "records": b"".join(b"head of a record" + floats(100, seed) for seed in range(400)),
        "zeros": bytes(300_000),
        "text": b"".join(b"%d: some words, then others\n" % i for i in range(9000)),
        "floats, then zeros, then text": floats(30_000)
        + bytes(400_000)
        + b"a line of text\n" * 20_000
        + floats(9000, 1),
    }


@pytest.mark.parametrize("stretch", [4096, 20_000, 65_536])
@pytest.mark.parametrize("kind", kinds())
def test_its_output_is_a_prefix_of_the_content(kind: str, stretch: int) -> None:
    content = kinds()[kind]
    for level in range(10):
        for strategy in STRATEGIES if level in (1, 6) else STRATEGIES[:1]:
            found, whole = side_by_side(packed(content, level, strategy, memory=4 + level % 2 * 4), stretch)
            assert content.startswith(found)
            assert not whole or found == content
            is_packed = level > 0 and strategy != zlib.Z_FIXED
            assert whole or stretch < 20_000 or kind not in ("floats", "records") or not is_packed


@pytest.mark.parametrize("bits", [9, 12, 15])
@pytest.mark.parametrize("memory", [4, 8, 9])
def test_takes_numbers_to_the_end(bits: int, memory: int) -> None:
    content = floats(150_000)
    file = packed(content, 6, bits=bits, memory=memory)
    assert side_by_side(file, 16_384 if memory < 8 else 65_536) == (content, True)


def test_goes_through_several_members() -> None:
    contents = [floats(60_000, seed) for seed in range(3)]
    file = b"".join(map(packed, contents))
    assert side_by_side(file, 16_384) == (b"".join(contents), True)


def test_reads_the_fields_of_a_header() -> None:
    content = floats(60_000)
    plain = packed(content)
    head = plain[:3] + bytes([4 | 8 | 16]) + plain[4:10] + b"\x05\x00extra" + b"a name\0" + b"a comment\0"
    assert side_by_side(head + plain[10:], 16_384) == (content, True)
    assert side_by_side(plain[:3] + b"\x02" + plain[4:], 16_384) == (b"", False)


@pytest.mark.parametrize("mode", [zlib.Z_SYNC_FLUSH, zlib.Z_FULL_FLUSH, zlib.Z_PARTIAL_FLUSH, zlib.Z_BLOCK])
def test_goes_through_flushes(mode: int) -> None:
    content = floats(60_000)
    deflater = zlib.compressobj(6, zlib.DEFLATED, 31)
    parts = [deflater.compress(content[i : i + 10_007]) + deflater.flush(mode) for i in range(0, len(content), 10_007)]
    assert side_by_side(b"".join(parts) + deflater.flush(), 16_384) == (content, True)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1000), share=st.floats(0, 1), level=st.integers(0, 9), stretch=st.integers(2048, 30_000))
def test_agrees_with_zlib(seed: int, share: float, level: int, stretch: int) -> None:
    numbers = random.Random(seed)
    pieces = [
        floats(numbers.randrange(1, 4000), numbers.randrange(9))
        if numbers.random() < share
        else bytes(numbers.choices(b"abc", k=999))
        for _ in range(20)
    ]
    content = b"".join(pieces)
    found, whole = side_by_side(packed(content, level), stretch)
    assert content.startswith(found)
    assert not whole or found == content


def read(path: str) -> tuple[bytes, str | None]:
    inflater = Inflater(path, "gzip")
    content = b"".join(inflater)
    assert inflater.size == len(content)
    return content, None if inflater.fault is None else str(inflater.fault)


class Never:
    """A stand-in for SideBySide that returns nothing."""

    whole = False

    def __init__(self, file: Reader) -> None:
        self.file = file

    def __iter__(self) -> Iterator[bytes]:
        return iter(())

    def again(self) -> Reader:
        return self.file


@pytest.mark.usefixtures("own_engines")  # compared with the library
def test_faults_are_those_of_the_slow_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = b"".join(b"head of a record" + floats(100, seed) for seed in range(100))
    whole = packed(content)
    numbers = random.Random(5)
    path = tmp_path / "numbers.gz"
    for turn in range(21):
        broken = bytearray(whole)
        if turn % 3 == 0:
            del broken[numbers.randrange(len(whole)) :]
        elif turn % 3 == 1:
            broken[numbers.randrange(len(whole))] ^= 1 << numbers.randrange(8)
        else:
            broken[-numbers.randrange(1, 9)] ^= 1 << numbers.randrange(8)
        path.write_bytes(broken)
        found = []
        for made in (lambda file: ParallelInflater(file, stretch=8192), Never):
            with monkeypatch.context() as patch:
                patch.setattr("headrace.io.cache.inflate.ParallelInflater", made)
                found.append(read(str(path)))
        assert found[0] == found[1]


def test_crc32() -> None:
    content = random.Random(1).randbytes(1000)
    for size in [*range(200), 1000]:
        for start in (0, 1, 7):
            assert _native.crc32(content[start : start + size], 5) == zlib.crc32(content[start : start + size], 5)


@pytest.mark.usefixtures("own_engines")  # The libraries read it once.
def test_a_file_that_changes_between_the_two_ways_is_refused() -> None:
    damaged = bytearray(packed(floats(1_500_000, 1), level=1))
    damaged[-100_000:] = bytes(100_000)
    given, whole = side_by_side(bytes(damaged), 2 << 20)
    assert given
    assert not whole

    same = Inflater("rows.gz", "gzip", lambda: io.BytesIO(damaged))
    assert b"".join(same).startswith(given)
    assert same.fault is not None

    versions = iter([bytes(damaged), packed(floats(1_500_000, 2), level=1)])
    changed = Inflater("rows.gz", "gzip", lambda: io.BytesIO(next(versions)))
    with pytest.raises(CorruptFile, match="inflated bytes as before, found others"):
        b"".join(changed)


def test_parts_in_order_and_no_more_than_asked_for() -> None:
    content = floats(100_000)
    file = packed(content)
    inflater = _native.GzipInflater(8192, 2)
    with pytest.raises(ValueError, match="no part"):
        inflater.take()
    found, at, most = b"", 0, 0
    while inflater.state == "going":
        while inflater.has_room:
            own = inflater.own
            last = at + own + inflater.margin >= len(file)
            inflater.give(
                file[at : None if last else at + own + inflater.margin], own=len(file) - at if last else own, last=last
            )
            at += len(file) - at if last else own
        most = max(most, inflater.waiting)
        found += b"".join(inflater.take())
    assert (found, inflater.state) == (content, "done")
    assert 1 < most <= inflater.most_waiting
    with pytest.raises(ValueError, match="no room"):
        inflater.give(b"", own=0, last=True)


def test_held_batches_are_not_overwritten() -> None:
    content = floats(400_000)
    file = packed(content)
    stream = ParallelInflater(io.BytesIO(file), stretch=8192)
    parts = list(stream)
    assert stream.crc == zlib.crc32(content)
    assert b"".join(parts) == content
    del parts[::2]
    parts += ParallelInflater(io.BytesIO(file), stretch=8192)
    assert b"".join(parts[-len(parts) // 2 :]) in content
    with pytest.raises(TypeError):
        parts[0][0] = 1


def test_deleted_in_a_forked_child() -> None:
    file = packed(floats(100_000))
    inflater = _native.GzipInflater(8192, 2)
    inflater.give(file, own=8192, last=False)
    held = inflater.take()
    inflater.give(file[8192:], own=8192, last=False)  # on threads that the child does not have

    def work() -> bool:
        nonlocal inflater, held
        del inflater, held
        return True

    assert exit_code(fork(work)) == 0
