"""pandas frames, both ways."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.adapters.test_arrow import COLUMNS

import headrace as hr
from headrace.adapters.arrow import from_arrow
from headrace.adapters.pandas import from_pandas, to_pandas


def test_to_pandas():
    frame = to_pandas(hr.ColumnSource(COLUMNS))
    assert list(frame) == list(COLUMNS)
    assert len(frame) == 7
    assert (frame["i"].dtype, frame["yes"].dtype) == (np.int64, np.bool_)
    assert frame["i"].tolist() == list(range(-2, 5))
    assert frame["day"].tolist() == list(pd.date_range("1970-01-01", periods=7))
    assert frame["name"].tolist() == COLUMNS["name"].tolist()
    assert frame["raw"].tolist() == COLUMNS["raw"].tolist()
    assert frame["x"][3].tolist() == [6, 7]
    assert frame["cube"][1].shape == (2, 3)
    assert frame["many"][2].tolist() == [1.5, 1.5]


def test_text_is_a_column_of_str():
    words = ["a", "", "größer", "x" * 100]
    inferred = pd.DataFrame({"t": words})
    for source in (from_arrow(pa.table({"t": words, "b": [b"1"] * 4})), hr.ColumnSource({"t": words, "b": [b"1"] * 4})):
        frame = to_pandas(source)
        pd.testing.assert_frame_equal(frame[["t"]], inferred)
        assert frame["b"].tolist() == [b"1"] * 4
    assert frame["t"].str.len().tolist() == [1, 0, 6, 100]
    assert (frame["t"] == "größer").tolist() == [False, False, True, False]
    frame.loc[0, "t"] = None  # the frame is its own: the column is not changed
    assert from_pandas(frame[1:])[1]["t"] == "größer"


def test_text_of_older_pandas_is_objects(monkeypatch):
    monkeypatch.setattr(pd, "__version__", "2.3.1")
    source = hr.ColumnSource({"t": hr.Strings.from_values(["a", "b"])})
    assert to_pandas(source)["t"].tolist() == ["a", "b"]


def test_named_labels_are_categories(tmp_path):
    schema = hr.Schema({"label": hr.Feature("int64", names=["cat", "dog"])})
    hr.write(tmp_path / "x.tfrecord", {"label": np.array([0, 1, 1])}, schema=schema)
    source = hr.open(tmp_path / "x.tfrecord", schema=schema)
    assert to_pandas(source)["label"].tolist() == ["cat", "dog", "dog"]
    unknown = hr.Schema({"label": hr.Feature("int64", names=["cat"])})
    assert to_pandas(hr.open(tmp_path / "x.tfrecord", schema=unknown))["label"].tolist() == [0, 1, 1]


def test_sparse_rows():
    scipy = pytest.importorskip("scipy.sparse")
    frame = to_pandas(hr.ColumnSource({"s": scipy.csr_array(np.eye(3))}))
    assert [row.toarray().reshape(-1).tolist() for row in frame["s"]] == np.eye(3).tolist()


def test_from_pandas():
    frame = pd.DataFrame(
        {"i": [3, 1, 2], "f": [0.5, None, 2], "t": ["a", "b", "c"], "c": pd.Categorical(["x", "y", "x"])},
        index=[7, 8, 9],
    )
    source = from_pandas(frame)
    assert list(source.schema) == ["i", "f", "t", "c"]
    batch = source.batch([2, 0])
    assert (batch["i"].tolist(), batch["f"].tolist(), batch["t"].tolist(), batch["c"].tolist()) == (
        [2, 3],
        [2, 0.5],
        ["c", "a"],
        ["x", "x"],
    )
    assert np.isnan(source[1]["f"])


def test_there_and_back():
    columns = {name: COLUMNS[name] for name in ("i", "yes", "name", "many")}
    back = from_pandas(to_pandas(hr.ColumnSource(columns)))
    batch = back.batch(np.arange(7))
    assert batch["i"].tolist() == columns["i"].tolist()
    assert batch["many"].to_list() == columns["many"].to_list()


def test_cells_of_arrays_and_rows_come_back():
    columns = {
        "matrix": np.arange(12, dtype=np.uint8).reshape(2, 2, 3),
        "points": hr.Ragged.from_list([np.ones((2, 2), np.float32), np.zeros((1, 2), np.float32)]),
        "nested": hr.Ragged(hr.Ragged.from_list([[1], [], [2, 3]], "int64"), np.array([0, 2, 3])),
    }
    again = from_pandas(to_pandas(hr.ColumnSource(columns))).batch([0, 1])
    assert again["matrix"].to_list() == columns["matrix"].tolist()
    assert again["points"].to_list() == columns["points"].to_list()
    assert again["nested"].to_list() == columns["nested"].to_list()
    assert [again[name].dtype.name for name in columns] == ["uint8", "float32", "int64"]


@pytest.mark.parametrize(
    "cells",
    [
        [1, "x"],
        [2**70, 1],
        [object()],
        [1j],
        pd.arrays.SparseArray([0, 1]),
        pd.Series(["\ud800"], dtype=object),
    ],
)
def test_a_column_that_arrow_has_no_type_for_is_named(cells):
    with pytest.raises(hr.UnsupportedData, match="a column of one type") as caught:
        from_pandas(pd.DataFrame({"good": range(len(cells)), "bad": cells}))
    assert caught.value.where.feature == "bad"


def test_names_that_come_twice():
    with pytest.raises(hr.UnsupportedData, match="every column name once"):
        from_pandas(pd.DataFrame([[1, 2]], columns=["a", "a"]))


@pytest.mark.parametrize("frame", [None, 5, "x", {"a": [1]}, np.zeros(3), pd.Series([1])])
def test_objects_that_are_not_frames_are_named(frame):
    with pytest.raises(TypeError, match="from_pandas takes a pandas.DataFrame"):
        from_pandas(frame)
    with pytest.raises(TypeError, match="a source is what"):
        to_pandas(frame)


def test_ragged_rows_in_cells():
    frame = pd.DataFrame({"r": [hr.Ragged.from_list([[1, 2], []], np.int64), hr.Ragged.from_list([[3]], np.int64)]})
    assert from_pandas(frame).batch([1, 0])["r"].to_list() == [[[3]], [[1, 2], []]]


@pytest.mark.parametrize(
    ("cells", "dtype", "values"),
    [
        ([np.ones((1, 2), np.int64), np.full((2, 1), 0.5)], "float64", [[[1, 1]], [[0.5], [0.5]]]),
        ([np.ones((1, 1), np.float16), np.full((1, 1), 1e5)], "float64", [[[1]], [[1e5]]]),
        ([np.ones((1, 1), np.float32), np.full((1, 1), 0.1)], "float64", [[[1]], [[0.1]]]),
        ([np.ones((1, 1), np.int64), np.full((1, 1), 2**64 - 1, np.uint64)], "uint64", [[[1]], [[2**64 - 1]]]),
        ([np.array([1], np.uint8), np.array([300])], "int64", [[1], [300]]),
        (
            [hr.Ragged.from_list([[1], [2, 3]]), hr.Ragged.from_list([[0.5], []])],
            "float64",
            [[[1], [2, 3]], [[0.5], []]],
        ),
        ([np.array([[1]], "M8[s]"), np.array([[1500]], "M8[ms]")], "M8[ms]", [[[1000]], [[1500]]]),
        ([np.array([1, 2], "M8[D]"), np.array([3], "M8[D]")], "M8[D]", [[1, 2], [3]]),
        ([np.ma.array([[1.0, 2.0]], mask=[[0, 1]]), np.zeros((1, 0))], "float64", [[[1, None]], [[]]]),
        ([np.array([["a", "b"]]), np.array([["c\0"]], object)], "str", [[["a", "b"]], [["c\0"]]]),
    ],
)
def test_cells_of_several_dtypes_keep_their_values(cells, dtype, values):
    source = from_pandas(pd.DataFrame({"m": pd.Series(cells, dtype=object)}))
    assert source.schema["m"] == hr.Feature(dtype, source.schema["m"].shape)
    found = source.batch([0, 1])["m"].to_list()
    if dtype.startswith("M8"):
        unit = np.datetime_data(dtype)[0]
        assert str(found) == str(_map(lambda count: np.datetime64(count, unit).item(), values))
    else:
        assert str(found) == str(_map(lambda value: np.nan if value is None else type(_first(found))(value), values))


def _map(function, values):
    return [_map(function, value) for value in values] if isinstance(values, list) else function(values)


def _first(values):
    return _first(values[0]) if isinstance(values, list) else values


@pytest.mark.parametrize(
    ("cells", "found"),
    [
        ([np.ones((1, 1)), np.full((1, 1), 2**53 + 1)], "the integer 9007199254740993 among others in row 1"),
        (
            [np.array([[-1]]), None, np.full((1, 1), 2**64 - 1, np.uint64)],
            "the integer 18446744073709551615 among others in row 2",
        ),
        ([np.ones((1, 2)), np.ones(2)], "cells of 1 and 2 axes"),
        ([np.ma.array([[1, 2]], mask=[[0, 1]])], "masked ones of int64 in row 0"),
    ],
)
def test_cells_that_no_dtype_holds_are_refused(cells, found):
    with pytest.raises(hr.UnsupportedData, match=found) as caught:
        from_pandas(pd.DataFrame({"m": pd.Series(cells, dtype=object)}))
    assert caught.value.where.feature == "m"


def test_cells_that_are_missing_are_missing():
    source = from_pandas(pd.DataFrame({"m": [None, np.ones((1, 2)), None, np.full((2, 1), 3)]}))
    assert source.batch([3, 1])["m"].to_list() == [[[3], [3]], [[1, 1]]]


def test_lists_of_text_and_dates_come_back(tmp_path):
    columns = {
        "words": hr.Ragged(hr.Strings.from_values(["a", "b\0", ""]), np.array([0, 1, 3])),
        "pair": hr.Strings.from_values([["a", "b"], ["c", "d"]]),
        "days": hr.Ragged(np.array(["2000-01-01", "2001-02-03", "NaT"], "M8[D]"), np.array([0, 1, 3])),
    }
    frame = to_pandas(hr.ColumnSource(columns))
    again = from_pandas(frame).batch([0, 1])
    assert {name: column.to_list() for name, column in again.items()} == {
        name: column.to_list() for name, column in columns.items()
    }
    frame[["words", "pair"]].to_parquet(tmp_path / "x.parquet")
    assert hr.open(tmp_path / "x.parquet").batch([0, 1])["words"].to_list() == [["a"], ["b\0", ""]]


def test_the_hint_for_a_null_can_be_followed():
    frame = pd.DataFrame({"x": pd.array([1, None], dtype="Int64")})
    with pytest.raises(hr.SchemaMismatch, match="found none") as caught:
        from_pandas(frame).batch([1])
    assert (caught.value.where.record, caught.value.where.feature) == (1, "x")
    assert "fillna" in str(caught.value)
    assert "schema=" not in str(caught.value)


@pytest.mark.parametrize("is_text", [True, False])
def test_rows_of_rows_without_any_text_come_back(is_text):
    rows = hr.Ragged(hr.Strings.from_values([], is_text=is_text), np.array([0, 0, 0]))
    source = hr.ColumnSource({"x": hr.Ragged(rows, np.array([0, 1, 2]))})
    again = from_pandas(to_pandas(source))
    assert again.schema["x"].dtype == ("str" if is_text else "bytes")
    assert again.batch([0, 1])["x"].to_list() == [[[]], [[]]]


@pytest.mark.parametrize("dtype", ["str", "bytes", "int64", "float32", "bool", "M8[us]"])
@pytest.mark.parametrize("is_empty", [True, False])
def test_rows_of_rows_can_be_written_to_parquet(tmp_path, dtype, is_empty):
    value = {"str": "a", "bytes": b"b"}.get(dtype)
    values = [] if is_empty else [value] * 2
    if value is None:
        flat = np.ones(len(values), dtype)
    else:
        flat = hr.Strings.from_values(values, is_text=dtype == "str")
    rows = hr.Ragged(flat, np.array([0, len(flat), len(flat)]))
    source = hr.ColumnSource({"x": hr.Ragged(rows, np.array([0, 1, 2, 2]))})
    frame = to_pandas(source)
    assert [len(cell) for cell in frame["x"]] == [1, 1, 0]
    frame.to_parquet(tmp_path / "x.parquet")
    for found in (hr.open(tmp_path / "x.parquet"), from_pandas(frame)):
        assert found.schema["x"] == hr.Feature(dtype, (None, None))
        assert found.batch([0, 1, 2])["x"].to_list() == source.batch([0, 1, 2])["x"].to_list()


def test_rows_of_rows_that_arrow_has_no_type_for_are_cells():
    rows = hr.Ragged(np.array([1j, 2]), np.array([0, 1, 2]))
    frame = to_pandas(hr.ColumnSource({"x": hr.Ragged(rows, np.array([0, 2]))}))
    assert frame["x"][0].to_list() == [[1j], [2]]


def test_periods_are_refused():
    frame = pd.DataFrame({"p": pd.period_range("2020-01", periods=2, freq="M")})
    with pytest.raises(hr.UnsupportedData, match=r"found period.M. - at feature 'p'"):
        from_pandas(frame)
