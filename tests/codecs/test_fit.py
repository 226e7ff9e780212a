"""Columns in the types of a schema: what fits is kept, and the rest is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.codecs.fit import fit_column
from headrace.errors import SchemaMismatch

NUMBERS = ("bool", "int8", "int16", "int64", "uint8", "uint32", "uint64", "float16", "float32", "float64", "complex64")
EDGES = [
    0,
    1,
    2,
    -1,
    127,
    128,
    255,
    256,
    300,
    2**31,
    2**53 + 1,
    2**63 - 1,
    2**63,
    2**64 - 1,
    1.5,
    1e300,
    math.inf,
    math.nan,
]
ORDER = "biufc"


def holds(dtype, value):
    """Whether a dtype holds a value, but for rounding of floats. By Python's own numbers."""
    wanted = np.dtype(dtype)
    if wanted.kind in "fc":
        if isinstance(value, int):
            limit = int(np.finfo(wanted).max)
            return abs(value) <= limit and int(np.asarray(value).astype(wanted).real) == value
        return not math.isfinite(value) or abs(value) <= float(np.finfo(wanted).max)
    if isinstance(value, float):
        return False
    low, high = (0, 1) if wanted.kind == "b" else (np.iinfo(wanted).min, np.iinfo(wanted).max)
    return low <= value <= high


@given(
    st.sampled_from(NUMBERS[:-1]), st.sampled_from(NUMBERS), st.lists(st.sampled_from(EDGES), min_size=1, max_size=5)
)
def test_numbers_fit_or_are_refused(stored, wanted, values):
    stored_kind = np.dtype(stored).kind
    values = [value for value in values if holds(stored, value) and (stored_kind == "f" or isinstance(value, int))]
    with np.errstate(all="ignore"):
        column = np.array(values).astype(stored)
    values = [value.item() for value in column]
    bad = [
        at for at, value in enumerate(values) if not holds(wanted, float(value) if stored_kind == "f" else int(value))
    ]
    feature = hr.Feature(wanted)
    if stored == wanted or not values:
        assert fit_column(column, feature, "x").dtype == wanted
    elif bad:
        with pytest.raises(SchemaMismatch, match=f"{wanted} values") as caught:
            fit_column(column, feature, "x")
        is_fraction = stored_kind == "f" and np.dtype(wanted).kind in "iu"  # else floats are refused for their dtype
        fractions = [at for at, value in enumerate(values) if is_fraction and not float(value).is_integer()]
        assert (caught.value.where.record, caught.value.where.feature) == ((fractions or bad)[0], "x")
    else:
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(fit_column(column, feature, "x"), column.astype(wanted))


RAGGED = hr.Ragged(np.array([1, 2, 300, 4]), np.array([0, 2, 2, 4]))
COLUMNS = {
    "shape": (np.zeros((2, 3)), hr.Feature("float64", (4,)), 0),
    "axes": (np.zeros((2, 3)), hr.Feature("float64"), 0),
    "ragged": (RAGGED, hr.Feature("uint8", (None,)), 2),
    "sliced": (RAGGED[1:], hr.Feature("uint8", (None,)), 1),
    "ragged length": (RAGGED, hr.Feature("int64", (2,)), 1),
    "ragged scalars": (RAGGED, hr.Feature("int64"), 0),
    "rows": (np.array([[1, 2], [3, 300]]), hr.Feature("uint8", (2,)), 1),
    "list": ([np.zeros((1, 2)), np.zeros((2, 3, 1))], hr.Feature("float64", (None, None)), 1),
    "list of numbers": ([np.zeros((1, 2)), np.full((2, 1), 0.5)], hr.Feature("int64", (None, None)), 0),
    "text": (hr.Strings.from_values(["1"]), hr.Feature("int64"), 0),
    "a number as text": (np.array(["a", 5], object), hr.Feature("str"), 1),
    "bytes that are no text": (hr.Strings.from_values([b"a", b"\xff"]), hr.Feature("str"), 1),
    "long text": (np.array(["a", "bcd"]), hr.Feature("U2"), 1),
    "long bytes": (np.array([b"bcd"]), hr.Feature("S2"), 0),
    "hours": (np.array(["2020-01-01T00", "2020-01-01T05"], "M8[h]"), hr.Feature("datetime64[D]"), 1),
    "time and duration": (np.array([5], "m8[s]"), hr.Feature("datetime64[s]"), 0),
    "signs": (np.array([-1]), hr.Feature("uint64"), 0),
}


@pytest.mark.parametrize("kind", list(COLUMNS))
def test_what_does_not_fit_is_refused(kind):
    column, feature, record = COLUMNS[kind]
    with pytest.raises(SchemaMismatch) as caught:
        fit_column(column, feature, "x")
    assert (caught.value.where.record, caught.value.where.feature) == (record, "x")


FITTING = {
    "same": (np.arange(3), hr.Feature("int64")),
    "narrower": (np.arange(3), hr.Feature("int8")),
    "rounded": (np.array([0.1]), hr.Feature("float32")),
    "NaN": (np.array([math.nan, -math.inf]), hr.Feature("float16")),
    "any length": (np.zeros((2, 3)), hr.Feature("float64", (None,))),
    "ragged": (RAGGED, hr.Feature("int16", (None,))),
    "no rows": (np.zeros(0), hr.Feature("int64")),
    "days": (np.array(["2020-01-01T00", "NaT"], "M8[h]"), hr.Feature("datetime64[D]")),
    "text as bytes": (hr.Strings.from_values(["a"]), hr.Feature("bytes")),
    "bytes as text": (hr.Strings.from_values(["ü".encode()]), hr.Feature("str")),
    "objects": (np.array([["a", "b"]], object), hr.Feature("str", (2,))),
    "short text": (np.array(["a"], "U9"), hr.Feature("U2")),
}


@pytest.mark.parametrize("kind", list(FITTING))
def test_what_fits_is_kept(kind):
    column, feature = FITTING[kind]
    found = fit_column(column, feature, "x")
    assert len(found) == len(column)
    inner = found.values if isinstance(found, hr.Ragged) else found
    assert inner.dtype == (feature.numpy_dtype if not feature.is_text else inner.dtype)
    if kind in ("same", "any length", "text as bytes"):
        assert found is column


def test_sparse_rows_are_left_to_the_format():
    sparse = pytest.importorskip("scipy.sparse").csr_matrix(np.eye(2))
    assert fit_column(sparse, hr.Feature("float32", (2,), sparse=True), "x") is sparse


@pytest.mark.parametrize(
    "name", ["x.tfrecord", "x.array_record", "x.recordio", "x.parquet", "x.jsonl", "x.npz", "x.csv"]
)
def test_lists_of_one_length_are_written_under_a_schema_of_that_length(tmp_path, name):
    """Lists of Arrow tables have no fixed length."""
    rows = hr.Ragged.from_list([[0, 0], [1, 2], [3, 4]], "int64")[1:]
    assert hr.write(tmp_path / name, {"a": rows}, schema={"a": hr.Feature("int64", (2,))}) == 2
    assert [int(next(iter(e.values())).reshape(-1)[0]) for e in hr.open(tmp_path / name)] == [1, 3]
    with pytest.raises(hr.SchemaMismatch, match=r"\(2,\), found .*1.* record 1, feature 'a'"):
        hr.write(tmp_path / f"bad-{name}", {"a": [[1, 2], [3]]}, schema={"a": hr.Feature("int64", (2,))})


@pytest.mark.parametrize(
    ("shape", "rows"), [((None, 2), [[[1, 2], [3, 4]], [[5, 6]]]), ((2, 1), [[[1], [2]], [[3], [4]]])]
)
def test_inner_lists_of_one_length_are_encoded_as_axes(tmp_path, shape, rows):
    inner = [row for example in rows for row in example]
    column = hr.Ragged(hr.Ragged.from_list(inner, "int64"), np.cumsum([0, *map(len, rows)]))
    schema = {"a": hr.Feature("int64", shape)}
    hr.write(tmp_path / "x.tfrecord", {"a": column}, schema=schema)
    assert [example["a"].tolist() for example in hr.open(tmp_path / "x.tfrecord", schema=schema)] == rows


def test_steps_with_rows_of_axes_are_written(tmp_path):
    column = hr.Ragged(hr.Ragged(np.arange(6).reshape(3, 2), np.array([0, 1, 3])), np.array([0, 1, 2]))
    schema = {"a": hr.Feature("int64", (None, None, 2))}
    hr.write(tmp_path / "x.tfrecord", {"a": column}, schema=schema)
    found = [example["a"].to_list() for example in hr.open(tmp_path / "x.tfrecord", schema=schema)]
    assert str(found) == str([row.to_list() for row in column])
