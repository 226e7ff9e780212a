"""Numbers become arrays and are joined without a change."""

import datetime as dt
from collections import deque

import numpy as np
import pytest

from headrace._numbers import align, exact_mask, join_rows, to_array
from headrace.contracts.values import Ragged
from headrace.errors import SchemaMismatch

LARGE = 2**63 + 1
ODD = 2**53 + 1


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        ([1, LARGE], "uint64"),
        ([[1, LARGE], [0, 2]], "uint64"),
        (deque([1, LARGE]), "uint64"),
        ([np.int64(1), np.uint64(LARGE)], "uint64"),
        ([1, 2], "int64"),
        ([1, 0.5], "float64"),
        ([2**60, 0.5], "float64"),
        ([ODD - 1.0, np.inf, 1], "float64"),
        ([True, 0.5], "float64"),
        (1 << 63, "uint64"),
    ],
)
def test_lists_become_arrays_of_the_same_numbers(value, dtype):
    array = to_array(value)
    assert array.dtype == dtype
    flat = np.array(value if not isinstance(value, deque) else list(value), object).reshape(-1).tolist()
    assert array.reshape(-1).tolist() == flat


@pytest.mark.parametrize("value", [[ODD, 0.5], [-1, LARGE], [-1, 2**63], [[ODD, 0.5], [1, 2]], 1 << 64, [1, 1 << 64]])
def test_lists_that_no_dtype_holds_are_refused(value):
    with pytest.raises(SchemaMismatch, match="integer"):
        to_array(value)


def test_integers_beside_floats_that_become_float32():
    assert to_array([2**24 + 1, 0.5]).tolist() == [2**24 + 1, 0.5]
    with pytest.raises(SchemaMismatch, match="16777217"):
        to_array([2**24 + 1, 0.5], np.float32)


def test_arrays_are_aligned():
    def dtypes(*arrays):
        return [array.dtype.name for array in align([np.asarray(array) for array in arrays])]

    assert dtypes(1, np.uint64(LARGE)) == ["uint64"] * 2
    assert dtypes(-1, np.uint64(5)) == ["int64"] * 2
    assert dtypes([1, 2], []) == ["int64", "float64"]
    assert dtypes(True, 1, np.uint64(LARGE)) == ["uint64"] * 3
    assert dtypes(np.int8(1), 0.5) == ["int8", "float64"]
    for one, other, at in ((0.5, ODD, 1), (ODD, 0.5, 0), (np.uint64(LARGE), -1, 1), (-1, np.uint64(LARGE), 1)):
        with pytest.raises(SchemaMismatch) as caught:
            dtypes(one, other)
        assert caught.value.where.record == at


def test_which_integers_are_exact():
    edges = [0, 2**53, ODD, -ODD, 2**63 - 1, -(2**63)]
    assert exact_mask(np.array(edges)).tolist() == [True, True, False, False, False, True]
    assert exact_mask(np.array([2**64 - 1, 2**63], np.uint64)).tolist() == [False, True]
    assert exact_mask(np.array([2**24, 2**24 + 1]), np.float32).tolist() == [True, False]
    assert exact_mask(np.array([2048, 2049, 70000]), "float16").tolist() == [True, False, False]


def test_ragged_rows_keep_integers():
    assert Ragged.from_list([[1], [], [LARGE, 2]]).to_list() == [[1], [], [LARGE, 2]]
    assert Ragged.from_list([[1], [0.5]]).to_list() == [[1.0], [0.5]]
    with pytest.raises(SchemaMismatch, match=str(ODD)):
        Ragged.from_list([[0.5], [ODD]])


def test_numbers_that_are_not_real_in_a_dtype_of_real_ones():
    with pytest.raises(SchemaMismatch, match="float32"):
        join_rows([np.array([1 + 2j])], np.float32)


FAR, SOON, SHORT = np.datetime64("9999-12-31", "D"), np.datetime64("2020-01-01", "ns"), np.datetime64(5, "as")
YEAR, DAY = np.timedelta64(1, "Y"), np.timedelta64(1, "D")
UNJOINED = [
    ([SOON, FAR], 1),
    ([FAR, SOON], 0),
    ([FAR, SHORT], 1),
    ([YEAR, DAY], 1),
    ([SOON, DAY], 1),
    ([DAY, SOON], 1),
    ([DAY, 5], 1),
    ([np.timedelta64(2**62, "D"), np.timedelta64(1, "s")], 0),
]


@pytest.mark.parametrize(("values", "at"), UNJOINED)
def test_times_that_no_unit_holds_are_refused(values, at):
    found = f"times that one unit holds, found {values[at]} "
    with pytest.raises(SchemaMismatch, match=found) as caught:
        align(list(map(np.asarray, values)))
    assert caught.value.where.record == at
    with pytest.raises(SchemaMismatch, match=found) as caught:
        Ragged.from_list([[], *([value] for value in values)])
    assert caught.value.where.record == at + 1
    for nested in (values, [values, values], deque(values), [np.array(values[:1]), np.array(values[1:])]):
        with pytest.raises(SchemaMismatch, match=found) as caught:
            to_array(nested)
        assert caught.value.where.record is None
    with pytest.raises(SchemaMismatch, match=found) as caught:
        Ragged.from_list([[values[0]], values])
    assert caught.value.where.record == 1


def test_times_that_a_unit_holds_are_joined():
    near = np.datetime64("2020-01-02", "D")
    missing = np.datetime64("NaT", "D")
    assert to_array([near, SOON, missing]).tolist() == np.array(["2020-01-02", "2020-01-01", "NaT"], "M8[ns]").tolist()
    assert (
        Ragged.from_list([[near], [], [SOON]]).values.tolist()
        == np.array(["2020-01-02", "2020-01-01"], "M8[ns]").tolist()
    )
    assert to_array([near, near]).dtype == "M8[D]"
    whole = [np.array([near]), np.array([SOON])]
    assert align(whole) is whole


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(FAR, "M8[ns]"), (SOON + 1, "M8[D]"), (FAR, "M8[as]"), (DAY, "M8[D]"), (FAR, "m8[D]"), (DAY, "m8[Y]")],
)
def test_times_that_a_dtype_does_not_hold(value, dtype):
    for rows in ([[value]], [np.array([value])]):
        with pytest.raises(SchemaMismatch, match="values that .* holds, found"):
            Ragged.from_list(rows, dtype)
    assert Ragged.from_list([[FAR], [SOON]], "M8[s]").values.tolist() == np.array([FAR, SOON], "M8[s]").tolist()


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        ("9999-12-31", "M8[ns]"),
        (b"9999-12-31", "M8[ns]"),
        (dt.date(9999, 12, 31), "M8[ns]"),
        (dt.timedelta(days=300_000), "m8[ns]"),
        ("2020-01-01T00:00:00.5", "M8[s]"),
        (dt.datetime(2020, 1, 1, 12), "M8[D]"),  # noqa: DTZ001 - NumPy has no zones
        (np.str_("9999-12-31"), "M8[ns]"),
        (FAR, "M8[ns]"),
        (SOON + 1, "M8[s]"),
        (np.timedelta64(300_000, "D"), "m8[ns]"),
    ],
)
def test_texts_and_dates_that_a_dtype_does_not_hold(value, dtype):
    """Not even beside one of a finer unit, in which NumPy reads all of a list."""
    fine = "2020-01-01T00:00:00.000000001" if isinstance(value, str) else None
    first = dt.timedelta(1) if dtype[0] == "m" else dt.date(2020, 1, 1)
    for row in ([value], [value, fine], [None, value], [first, value]):
        with pytest.raises(SchemaMismatch, match="values that .* holds, found") as caught:
            Ragged.from_list([[], row], dtype)
        assert caught.value.where.record == 1


def test_texts_and_dates_that_a_dtype_holds():
    rows = [["2020-01-01", b"2020-01-02T03"], [dt.date(2020, 1, 3), None, FAR]]
    found = Ragged.from_list(rows, "M8[s]").values
    assert np.array_equal(found[[0, 1, 2, 4]], np.array(["2020-01-01", "2020-01-02T03", "2020-01-03", FAR], "M8[s]"))
    assert np.isnat(found[3])
    assert Ragged.from_list([[["2020-01-01"], ["2020-01-02"]]], "M8[D]").values.shape == (2, 1)
    for five in (5, np.int64(5), np.timedelta64(5, "s")):
        assert Ragged.from_list([[five, None]], "m8[s]").values[0] == np.timedelta64(5, "s")
    with pytest.raises(ValueError, match='Error parsing datetime string "no"'):
        Ragged.from_list([["no"]], "M8[s]")


def test_structured_values_beside_numbers():
    fields = np.zeros(1, [("a", "i4")])
    with pytest.raises(SchemaMismatch, match=r"expected \[\('a', '<i4'\)\], as before, found int64") as caught:
        Ragged.from_list([fields, np.array([], int), [3]])
    assert caught.value.where.record == 2
