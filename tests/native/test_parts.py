"""Places in parts of a whole, in one native call."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import _native

sizes = st.lists(st.integers(0, 50) | st.just(1000), min_size=1, max_size=80)


@given(sizes, st.lists(st.integers(-10, 5000), max_size=60))
def test_parts_are_those_that_numpy_finds(each, positions):
    firsts = np.concatenate(([0], np.cumsum(each)))
    wanted = np.array(positions, np.int64)
    assert _native.parts_of(firsts, wanted).tolist() == (np.searchsorted(firsts, wanted, side="right") - 1).tolist()


@given(sizes, st.integers(0, 9), st.integers(0, 2**32))
def test_rows_of_parts(each, row_bytes, seed):
    rng = np.random.default_rng(seed)
    parts = [rng.integers(0, 256, (size, row_bytes), dtype=np.uint8) for size in each]
    begins = rng.integers(0, 5, len(each))
    buffers = [bytes(int(begin)) + part.tobytes() for begin, part in zip(begins, parts, strict=True)]
    firsts = np.concatenate(([0], np.cumsum(each)))
    every = np.concatenate(parts)
    rows = rng.integers(0, len(every), 40) if len(every) else np.zeros(0, np.int64)
    for wanted in (rows, np.sort(rows)):
        assert np.array_equal(_native.take_of_parts(buffers, firsts, begins, row_bytes, wanted), every[wanted])


def test_rows_outside_are_refused():
    buffers, firsts, begins = [b"abcd", b"efgh"], np.array([0, 2, 4]), np.zeros(2, np.int64)
    for row in (-1, 4, 1 << 60):
        with pytest.raises(_native.FormatError):
            _native.take_of_parts(buffers, firsts, begins, 2, np.array([0, row]))
    with pytest.raises(_native.FormatError):  # a file that is too short
        _native.take_of_parts(buffers, np.array([0, 3, 5]), begins, 2, np.array([2]))
    for wrong in ((buffers[:1], firsts, begins), (buffers, firsts[:2], begins), (buffers, firsts, begins[:1])):
        with pytest.raises(ValueError, match="do not match"):
            _native.take_of_parts(*wrong, 2, np.array([0]))
