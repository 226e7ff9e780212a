"""Conversion between stored numbers and the schema's dtypes: never a silent loss."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.codecs.values import fit_dtype, to_wire
from headrace.errors import SchemaMismatch, UnsupportedData

WHOLE = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"]


def limits(dtype):
    return (0, 1) if dtype == "bool" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))


@pytest.mark.parametrize("dtype", WHOLE)
@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-300, 300), max_size=5), st.data())
def test_whole_numbers_fit_or_are_refused(dtype, numbers, data):
    low, high = limits(dtype)
    numbers += data.draw(st.lists(st.sampled_from([low, high]), max_size=2))
    flat = np.array(numbers, np.int64)
    bad = [position for position, number in enumerate(numbers) if not low <= number <= high]
    if not bad:
        assert fit_dtype(flat, dtype, "x", per_record=1, offsets=None).tolist() == numbers
        column = flat.astype(dtype)
        assert to_wire(column, np.int64, dtype, "x").tolist() == numbers
        assert to_wire(flat, np.int64, dtype, "x").tolist() == numbers
        return
    with pytest.raises(SchemaMismatch) as caught:
        fit_dtype(flat, dtype, "x", per_record=1, offsets=None)
    assert caught.value.where.record == bad[0]
    assert caught.value.found == str(numbers[bad[0]])
    with pytest.raises(SchemaMismatch):
        to_wire(flat, np.int64, dtype, "x")


def test_uint64_is_stored_as_the_same_bits():
    column = np.array([0, 1, 2**63, 2**64 - 1], np.uint64)
    flat = to_wire(column, np.int64, "uint64", "x")
    assert flat.tolist() == [0, 1, -(2**63), -1]
    assert (fit_dtype(flat, "uint64", "x", per_record=1, offsets=None) == column).all()
    with pytest.raises(SchemaMismatch):
        to_wire(column, np.int64, "int64", "x")


@pytest.mark.parametrize(("per_record", "offsets", "record"), [(1, None, 5), (2, None, 2), (0, [0, 5, 5, 6, 9], 2)])
def test_the_record_of_a_bad_number(per_record, offsets, record):
    flat = np.array([0, 0, 0, 0, 0, 900, 0, 0, 0])
    starts = None if offsets is None else np.array(offsets)
    with pytest.raises(SchemaMismatch) as caught:
        fit_dtype(flat, "uint8", "x", per_record=per_record, offsets=starts)
    assert caught.value.where.record == record


@given(st.lists(st.floats(width=32), max_size=6))
def test_floats(numbers):
    flat = np.array(numbers, np.float32)
    for dtype in ("float32", "float64"):
        wide = fit_dtype(flat, dtype, "x", per_record=1, offsets=None)
        assert wide.dtype == dtype
        assert to_wire(wide, np.float32, dtype, "x").tobytes() == flat.tobytes()
    finite = [abs(number) for number in numbers if np.isfinite(number)]
    if max(finite, default=0) <= float(np.finfo(np.float16).max):
        half = fit_dtype(flat, "float16", "x", per_record=1, offsets=None)
        assert np.array_equal(half, flat.astype(np.float16), equal_nan=True)
    else:
        with pytest.raises(SchemaMismatch, match="float16 values in"):
            fit_dtype(flat, "float16", "x", per_record=1, offsets=None)


def test_python_floats_round_under_float32_and_not_under_float64():
    column = np.array([0.1, np.inf, np.nan])
    assert np.array_equal(to_wire(column, np.float32, "float32", "x"), column.astype(np.float32), equal_nan=True)
    with pytest.raises(UnsupportedData):
        to_wire(column, np.float32, "float64", "x")
    with pytest.raises(SchemaMismatch):
        to_wire(np.array([1e300]), np.float32, "float32", "x")


def test_whole_numbers_as_floats_are_exact_or_refused():
    assert to_wire(np.array([1, 2**24]), np.float32, "float32", "x").tolist() == [1, 2**24]
    with pytest.raises(UnsupportedData):
        to_wire(np.array([2**24 + 1]), np.float32, "float32", "x")


def test_other_kinds_are_refused():
    with pytest.raises(SchemaMismatch, match="expected int64 values, found float64"):
        to_wire(np.zeros(1), np.int64, "int64", "x")
    with pytest.raises(SchemaMismatch, match="expected float32 values, found complex128"):
        to_wire(np.zeros(1, complex), np.float32, "float32", "x")
    assert to_wire(np.zeros(0), np.int64, "int64", "x").dtype == np.int64
