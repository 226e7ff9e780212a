"""Blocks that are compared with their checksums when they are first used."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import _native
from headrace.io.cache.block_sums import BlockSums, sums_of


def reference(content, block_bytes):
    return [_native.crc32c(content[at : at + block_bytes]) for at in range(0, len(content), block_bytes)]


@given(st.lists(st.binary(max_size=40), max_size=8), st.integers(1, 50))
def test_sums_do_not_depend_on_how_the_bytes_come(parts, block_bytes):
    assert sums_of(map(memoryview, parts), block_bytes).tolist() == reference(b"".join(parts), block_bytes)


@given(st.binary(min_size=1, max_size=200), st.integers(1, 50), st.data())
def test_a_range_is_sound_if_its_blocks_are(content, block_bytes, data):
    wrong = data.draw(st.integers(0, len(content) - 1))
    damaged = bytearray(content)
    damaged[wrong] ^= data.draw(st.integers(1, 255))
    sums = BlockSums(len(content), np.array(reference(content, block_bytes), np.uint32), block_bytes)
    ranges = data.draw(
        st.lists(
            st.integers(0, len(content) - 1).flatmap(lambda a: st.tuples(st.just(a), st.integers(a + 1, len(content)))),
            max_size=6,
        )
    )
    starts = np.array([a for a, _ in ranges], np.int64)
    stops = np.array([b for _, b in ranges], np.int64)
    touched = any(a // block_bytes <= wrong // block_bytes <= (b - 1) // block_bytes for a, b in ranges)
    buffer = memoryview(bytes(damaged))
    for _ in range(2):
        assert sums.damaged(buffer, starts, stops) == (wrong // block_bytes if touched else -1)
    assert sums.damaged_anywhere(buffer) == wrong // block_bytes
    assert not sums.all_sound
    assert sums.damaged_anywhere(memoryview(content)) == -1
    assert sums.all_sound


def test_a_block_is_compared_once():
    content = bytearray(100)
    sums = BlockSums(100, np.array(reference(content, 10), np.uint32), 10)
    one = np.array([5]), np.array([6])
    assert sums.damaged(memoryview(content), *one) == -1
    content[5] = 1
    assert sums.damaged(memoryview(content), *one) == -1


@pytest.mark.parametrize("count", [9, 11])
def test_sums_of_another_size_are_refused(count):
    with pytest.raises(ValueError, match="checksums for 100 bytes"):
        BlockSums(100, np.zeros(count, np.uint32), 10)
