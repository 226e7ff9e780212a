import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.values import Ragged

ROWS = st.lists(st.lists(st.integers(-9, 9), max_size=4), max_size=6)


@given(ROWS)
def test_lists_round_trip(rows):
    assert Ragged.from_list(rows, np.int64).to_list() == rows


@given(ROWS, st.data())
def test_slices_and_takes_are_those_of_a_list(rows, data):
    ragged = Ragged.from_list(rows, np.int64)
    start, stop = data.draw(st.integers(-7, 7)), data.draw(st.integers(-7, 7))
    assert ragged[start:stop].to_list() == rows[start:stop]
    if rows:
        picks = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=8))
        assert ragged.take(np.array(picks, np.int64)).to_list() == [rows[i] for i in picks]
        assert [row.tolist() for row in ragged] == rows


@given(st.lists(ROWS, max_size=4))
def test_nested_rows(rows):
    inner = Ragged.from_list([row for outer in rows for row in outer], np.int64)
    offsets = np.cumsum([0, *map(len, rows)])
    ragged = Ragged(inner, offsets)
    assert ragged.to_list() == rows
    order = np.arange(len(rows))[::-1]
    assert ragged.take(order).to_list() == rows[::-1]


def test_padding():
    ragged = Ragged.from_list([[[1, 2]], [], [[3, 4], [5, 6]]], np.int64)
    assert ragged.to_padded(-1).tolist() == [[[1, 2], [-1, -1]], [[-1, -1], [-1, -1]], [[3, 4], [5, 6]]]


@pytest.mark.parametrize("offsets", [[], [0, 2], [1, 3], [0, 4]])
def test_offsets_must_cover_the_values(offsets):
    with pytest.raises(ValueError, match="offsets must run from 0 to 3"):
        Ragged(np.arange(3), np.array(offsets, np.int64))


def test_row_out_of_range():
    with pytest.raises(IndexError):
        Ragged.from_list([[1]], np.int64)[1]
