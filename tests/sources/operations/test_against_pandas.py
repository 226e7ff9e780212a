"""Statistics, conditions, masks, sorting and frames of random columns, against pandas and plain Python."""

from __future__ import annotations

import math
import operator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr

pd = pytest.importorskip("pandas")

SIGNS = {"=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def integers(dtype):
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    numbers = st.one_of(st.integers(low, high), st.sampled_from([low, high, 0, 1]))
    return st.lists(numbers, min_size=1, max_size=25).map(lambda values: np.array(values, dtype))


def floats(dtype):
    special = st.sampled_from([math.nan, math.inf, -math.inf, -0.0, 0.0])
    numbers = st.one_of(st.floats(width=np.dtype(dtype).itemsize * 8), special)
    return st.lists(numbers, min_size=1, max_size=25).map(lambda values: np.array(values, dtype))


WHOLE = st.one_of(*map(integers, ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")))
REAL = st.one_of(floats("float32"), floats("float64"))
FLAGS = st.lists(st.booleans(), min_size=1, max_size=25).map(lambda values: np.array(values, bool))
TEXTS = st.lists(st.text(max_size=5), min_size=1, max_size=20)
BYTES = st.lists(st.binary(max_size=5), min_size=1, max_size=20)
COLUMNS = st.one_of(WHOLE, REAL, FLAGS, TEXTS, BYTES)
RAGGED = st.lists(st.lists(st.integers(-9, 9), max_size=4), min_size=1, max_size=12)


def plain(values):
    return values.tolist() if isinstance(values, np.ndarray) else list(values)


@given(st.one_of(WHOLE, REAL))
def test_statistics_of_numbers(values):
    found = hr.stats({"x": values}).features["x"]
    series = pd.Series(values)
    finite = [Fraction(value) for value in values.tolist() if math.isfinite(value)]
    assert (found.examples, found.values, found.empty) == (len(values), len(values), 0)
    assert found.nan == int(series.isna().sum())
    assert found.infinite == len(values) - len(finite) - found.nan
    assert found.distinct == len(set(finite))
    if not finite:
        assert (found.minimum, found.maximum, found.mean, found.std) == (None, None, None, None)
        return
    assert (found.minimum, found.maximum) == (min(finite), max(finite))
    largest = float(max(map(abs, finite)))
    mean = sum(finite) / len(finite)
    assert abs(Fraction(found.mean) - mean) <= Fraction(largest) / 10**9
    if largest < 1e150:  # squares of larger ones are beyond float64
        variance = sum((value - mean) ** 2 for value in finite) / len(finite)
        assert found.std == pytest.approx(math.sqrt(variance), rel=1e-6, abs=1e-7 * largest)
        kept = series[np.isfinite(values)].astype("float64")
        assert found.std == pytest.approx(kept.std(ddof=0), rel=1e-6, abs=1e-7 * largest)
    assert not math.isnan(found.std)


@given(st.one_of(TEXTS, BYTES))
def test_statistics_of_texts(values):
    found = hr.stats({"t": values}).features["t"]
    sizes = pd.Series([len(value) for value in values])
    assert (found.examples, found.distinct) == (len(values), pd.Series(values).nunique())
    assert found.sizes == pytest.approx((sizes.min(), sizes.mean(), sizes.max()))


@given(RAGGED)
def test_statistics_of_rows_of_several_lengths(rows):
    found = hr.stats({"x": hr.Ragged.from_list(rows, "int64")}).features["x"]
    series = pd.Series([value for row in rows for value in row], dtype="int64")
    lengths = pd.Series([len(row) for row in rows])
    assert (found.values, found.empty) == (len(series), int((lengths == 0).sum()))
    assert found.lengths == pytest.approx((lengths.min(), lengths.mean(), lengths.max()))
    assert (found.minimum, found.maximum) == ((series.min(), series.max()) if len(series) else (None, None))


@given(st.one_of(WHOLE, REAL), st.data())
def test_conditions_and_masks_of_numbers(values, data):
    finite = [value for value in values.tolist() if math.isfinite(value)]
    numbers = st.one_of(st.integers(-(2**70), 2**70), st.sampled_from(finite or [0]))
    number = data.draw(numbers)
    source = hr.ColumnSource({"x": values})
    for sign, holds in SIGNS.items():
        wanted = [holds(value, number) for value in values.tolist()]
        mask = holds(source["x"], number)
        assert mask.tolist() == wanted, sign
        kept = source.filter(hr.condition(f"x {sign} {number!r}"))
        assert repr([example["x"].item() for example in kept]) == repr(pd.Series(values)[wanted].tolist())
        assert len(source[mask]) == sum(wanted)
    several = data.draw(st.lists(numbers, max_size=4))
    assert source["x"].isin(several).tolist() == [value in several for value in values.tolist()]


@given(TEXTS, st.data())
def test_conditions_and_masks_of_texts(values, data):
    text = data.draw(st.one_of(st.sampled_from(values), st.text(max_size=3)))
    source = hr.ColumnSource({"t": values})
    quoted = text.replace("'", "''")
    for sign, holds in SIGNS.items():
        wanted = [holds(value, text) for value in values]
        assert [example["t"] for example in source.filter(hr.condition(f"t {sign} '{quoted}'"))] == [
            value for value, kept in zip(values, wanted, strict=True) if kept
        ]
        assert holds(source["t"], text).tolist() == wanted
    found = source.filter(hr.condition(f"t contains '{quoted}'"))
    assert [each["t"] for each in found] == [each for each in values if text.casefold() in each.casefold()]
    assert source["t"].isin([text]).tolist() == pd.Series(values, dtype=object).isin([text]).tolist()
    assert source["t"].isin({text, values[0]}).tolist() == [value in (text, values[0]) for value in values]


@given(BYTES, st.data())
def test_masks_of_bytes(values, data):
    value = data.draw(st.one_of(st.sampled_from(values), st.binary(max_size=3)))
    column = hr.ColumnSource({"b": values})["b"]
    assert (column == value).tolist() == [each == value for each in values]
    assert column.isin([value]).tolist() == [each == value for each in values]


@given(RAGGED, st.integers(-9, 9))
def test_conditions_on_rows_of_several_lengths(rows, number):
    source = hr.ColumnSource({"x": hr.Ragged.from_list(rows, "int64"), "row": np.arange(len(rows))})

    def kept(condition):
        return source.filter(hr.condition(condition)).to_pandas()["row"].tolist()

    assert kept(f"x = {number}") == [at for at, row in enumerate(rows) if number in row]
    assert kept(f"length(x) > {abs(number) % 4}") == [at for at, row in enumerate(rows) if len(row) > abs(number) % 4]
    assert kept(f"max(x) >= {number}") == [at for at, row in enumerate(rows) if row and max(row) >= number]
    assert kept(f"x[1] < {number}") == [at for at, row in enumerate(rows) if len(row) > 1 and row[1] < number]


@given(COLUMNS, st.booleans(), st.data())
def test_sorting(values, descending, data):
    second = data.draw(st.lists(st.integers(0, 2), min_size=len(values), max_size=len(values)))
    source = hr.ColumnSource({"x": values, "y": np.array(second), "row": np.arange(len(values))})

    def order(by, descending):
        return source.sort(by, descending=descending).to_pandas()["row"].tolist()

    frame = pd.DataFrame({"x": pd.Series(values, dtype=object if isinstance(values, list) else None), "y": second})
    wanted = frame.sort_values("x", ascending=not descending, kind="stable", na_position="last")
    assert order("x", descending) == wanted.index.tolist()
    both = frame.sort_values(["y", "x"], ascending=[descending, not descending], kind="stable", na_position="last")
    assert order(["y", "x"], [not descending, descending]) == both.index.tolist()


@given(COLUMNS)
def test_frames_and_tables(values):
    source, wanted = hr.ColumnSource({"x": values}), repr(plain(values))
    frame, table = source.to_pandas(), source.to_arrow()
    assert repr(frame["x"].tolist()) == repr(table["x"].to_pylist()) == wanted
    if isinstance(values, np.ndarray):
        assert frame["x"].dtype == values.dtype
    for back in (hr.open(frame), hr.open(table)):
        assert repr(np.asarray(back["x"]).tolist()) == wanted
        assert back.schema == source.schema


@given(COLUMNS, st.integers(0, 30), st.integers(0, 2**64 - 1))
def test_samples(values, count, seed):
    source = hr.ColumnSource({"x": values, "row": np.arange(len(values))})
    rows = source.sample(count, seed=seed).to_pandas()["row"].tolist() if count else []
    assert len(set(rows)) == len(rows) == min(count, len(values))
    assert set(rows) <= set(range(len(values)))
    frame = source.to_pandas().iloc[rows]
    assert repr(np.asarray(source.sample(count, seed=seed)["x"]).tolist()) == repr(frame["x"].tolist())


@given(st.one_of(WHOLE, REAL, FLAGS), st.data())
def test_missing_values_of_frames(values, data):
    """pandas keeps missing values as NaN, as None or in a mask; each is what it is in NumPy, or an error names it."""
    missing = data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
    series = pd.Series(values).mask(pd.Series(missing, dtype=bool))
    if series.dtype == object:
        series = series.astype("boolean" if values.dtype == bool else f"{values.dtype}".capitalize())
    frame = pd.DataFrame({"x": series})
    try:
        column = np.asarray(hr.open(frame)["x"])
    except hr.DataError as error:
        assert series.isna().any()
        assert "'x'" in str(error)
        return
    assert np.array_equal(column, series.to_numpy(column.dtype), equal_nan=column.dtype.kind == "f")
