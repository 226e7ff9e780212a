import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import Ragged, Strings, _native
from headrace.contracts.values import take_rows
from headrace.formats.table.copies import RowCopier

ROWS = 40
RNG = np.random.default_rng(0)


def _numbers(dtype, *inner):
    return RNG.integers(0, 100, (ROWS, *inner)).astype(dtype)


COLUMNS = {
    "bool": _numbers(bool),
    "byte": _numbers(np.int8),
    "half": _numbers(np.float16, 3),
    "single": _numbers(np.float32),
    "matrix": _numbers(np.float64, 2, 5),
    "complex": _numbers(np.complex64),
    "nothing": np.empty((ROWS, 0), np.int64),
    "swapped": _numbers(">i4"),
    "every_second": _numbers(np.int16, 2)[:, 0],
    "day": _numbers("M8[D]"),
    "object": np.array([str(i) for i in range(ROWS)], object),
    "text": Strings.from_values([str(i) * (i % 4) for i in range(ROWS)]),
    "ragged": Ragged(np.arange(sum(i % 5 for i in range(ROWS))), np.cumsum([0, *(i % 5 for i in range(ROWS))])),
}


def _same(found, wanted):
    assert type(found) is type(wanted)
    if isinstance(wanted, np.ndarray):
        assert found.dtype == wanted.dtype
        assert found.flags.writeable
        np.testing.assert_array_equal(found, wanted)
    else:
        assert found.to_list() == wanted.to_list()


some_columns = st.lists(st.sampled_from(sorted(COLUMNS)), unique=True)


@given(some_columns, st.integers(0, ROWS), st.integers(0, ROWS))
def test_rows_in_order_are_slices(names, one, other):
    begin, end = sorted((one, other))
    found = RowCopier({name: COLUMNS[name] for name in names}).copy(begin, end)
    assert list(found) == names
    for name in names:
        _same(found[name], COLUMNS[name][begin:end])
        if isinstance(found[name], np.ndarray):
            assert not np.shares_memory(found[name], COLUMNS[name])


@given(some_columns, st.lists(st.integers(0, ROWS - 1)))
def test_picked_rows_are_those_of_each_column(names, indices):
    wanted = np.array(indices, np.int64)
    found = RowCopier({name: COLUMNS[name] for name in names}).pick(wanted)
    assert list(found) == names
    for name in names:
        _same(found[name], take_rows(COLUMNS[name], wanted))


def test_rows_that_are_not_there():
    columns = _native.Columns([np.arange(10), np.arange(9)])
    assert [len(column) for column in columns.copy(0, 9)] == [9, 9]
    for first, stop in [(0, 10), (9, 10), (2**63, 2**63 + 1)]:
        with pytest.raises(IndexError):
            columns.copy(first, stop)
    with pytest.raises(ValueError, match="behind"):
        columns.copy(5, 4)
    for index in [9, -1, 2**62]:
        with pytest.raises(_native.FormatError) as caught:
            columns.pick(np.array([0, index]))
        assert caught.value.fault == "range"


@pytest.mark.parametrize("column", [np.array(1.0), np.arange(10)[::2], np.array(["a"], object), [1, 2]])
def test_what_is_no_array_of_numbers(column):
    with pytest.raises((TypeError, ValueError, AttributeError, BufferError)):
        _native.Columns([column])


def test_rows_without_bytes_have_a_bound():
    """No memory is asked for before their number is checked."""
    columns = _native.Columns([np.empty((2**40, 0), np.int8)])
    assert columns.copy(0, 2**40)[0].shape == (2**40, 0)
