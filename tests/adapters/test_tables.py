"""What is accepted where a source is: in loaders, mixtures, writers, and open."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest

import headrace as hr
from headrace.adapters.tables import as_source
from headrace.testing import assert_same, kinds_batch

ROWS = 6
COLUMNS = {"label": np.arange(ROWS), "word": ["a", "b", "c", "d", "e", "f"]}


def examples():
    return [{"label": np.int64(i), "word": word} for i, word in enumerate(COLUMNS["word"])]


def frames():
    yield "columns", lambda: COLUMNS
    yield "examples", examples
    yield "tuple", lambda: tuple(examples())
    yield "iterator", lambda: iter(examples())
    yield "source", lambda: hr.ColumnSource(COLUMNS)
    yield "pandas", lambda: pytest.importorskip("pandas").DataFrame(COLUMNS)
    yield "arrow", lambda: pytest.importorskip("pyarrow").table(COLUMNS)
    yield "record batch", lambda: pytest.importorskip("pyarrow").record_batch(COLUMNS)
    yield "polars", lambda: pytest.importorskip("polars").DataFrame(COLUMNS)
    yield "datasets", lambda: pytest.importorskip("datasets").Dataset.from_dict(COLUMNS)


@pytest.mark.parametrize("make", [make for _, make in frames()], ids=[name for name, _ in frames()])
def test_everything_that_is_accepted(make, tmp_path):
    expected = hr.ColumnSource(COLUMNS)
    source = as_source(make())
    assert_same(source.batch(range(ROWS)), expected.batch(range(ROWS)))
    assert_same(hr.open(make(), columns=["word"], split="train[2:]").batch([0]), {"word": expected.batch([2])["word"]})
    assert [batch["label"].tolist() for batch in hr.Loader(make(), 4)] == [[0, 1, 2, 3], [4, 5]]
    assert len(hr.Mixture([(make(), 1), (expected, 1)])) == 2 * ROWS
    assert hr.write(tmp_path / "x.npz", hr.open(make()).select("label")) == ROWS
    assert hr.write(tmp_path / "x.jsonl", make()) == ROWS
    assert_same(hr.open(tmp_path / "x.jsonl").batch([3]), expected.batch([3]))


def test_a_loader_of_a_frame_resumes():
    frame = pytest.importorskip("pandas").DataFrame(COLUMNS)
    loader = hr.Loader(frame, 2, shuffle=True, seed=3)
    whole = [batch["label"].tolist() for batch in hr.Loader(frame, 2, shuffle=True, seed=3)]
    first = next(iter(loader))["label"].tolist()
    resumed = hr.Loader(hr.ColumnSource(COLUMNS), 2, shuffle=True, seed=3)
    resumed.load_state_dict(loader.state_dict())
    assert [first, *(batch["label"].tolist() for batch in resumed)] == whole


def test_arrays_are_values():
    assert hr.open(np.arange(3))[1] == {"values": 1}
    assert hr.open(np.zeros(2, [("a", "i4"), ("b", "f4")])).schema.keys() == {"a", "b"}
    assert hr.open([{"x": [1, 2]}, {"x": [3]}]).batch([0, 1])["x"].to_list() == [[1, 2], [3]]


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ("x.tfrecord", TypeError, "headrace.open"),
        (b"x", TypeError, "write_records"),
        (3, TypeError, r"Pass \{'name': array"),
        ([1, 2], hr.SchemaMismatch, "a dict of features"),
        (range(10**15), hr.SchemaMismatch, "a dict of features"),
        ([{"x": 1}, {"y": 1}], hr.SchemaMismatch, "features"),
        ([{"x": 1}, {"x": None}], hr.SchemaMismatch, "a value, found None"),
        ({"x": 3}, TypeError, "column 'x'"),
    ],
)
def test_what_is_no_source(given, error, message):
    with pytest.raises(error, match=message):
        as_source(given)
    with pytest.raises(error, match=message):
        hr.Loader(given, 2)


def test_a_loader_is_no_source():
    with pytest.raises(TypeError, match="A loader gives batches: pass its source"):
        hr.Loader(hr.Loader(COLUMNS, 2), 2)


def test_options_of_files_are_refused_for_data_in_memory():
    for options in ({"format": "csv"}, {"verify": False}, {"decode": False}, {"on_corrupt": "skip"}):
        with pytest.raises(TypeError, match="of dict, which is no file, open takes columns= and split= only"):
            hr.open(COLUMNS, **options)


def test_names_of_files_are_still_names(tmp_path):
    hr.write(tmp_path / "x.npz", {"y": np.arange(3)})
    path = str(tmp_path / "x.npz")
    for given in (path, np.str_(path), [path], (tmp_path / "x.npz",)):
        assert len(hr.open(given)) == 3
    with pytest.raises(hr.NoFiles):
        hr.open([])


def test_whole_sources_leave_as_frames():
    source = hr.ColumnSource(kinds_batch(ROWS, ["int32", "text", "ragged", "vector"]))
    pytest.importorskip("pyarrow")
    assert source.to_arrow().num_rows == ROWS
    assert_same(hr.open(source.to_arrow()).batch([2]), source.batch([2]))
    pytest.importorskip("pandas")
    assert source[1:].to_pandas()["text"].tolist() == source.batch(range(1, ROWS))["text"].tolist()


def test_polars_is_an_extra(monkeypatch):
    source = hr.ColumnSource({"x": np.arange(3)})
    monkeypatch.setitem(__import__("sys").modules, "polars", None)
    with pytest.raises(hr.MissingExtra, match=r'pip install "headrace\[polars\]"'):
        source.to_polars()


def series():
    pandas, arrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    large = [2**62 + 1, 5]
    yield pandas.array(large, dtype="Int64"), large, "int64"
    yield pandas.Series(large, dtype=object, index=[3, 3]), large, "int64"
    yield pandas.Series([[1], [2, 3]]), [[1], [2, 3]], "int64"
    yield pandas.Series([True, False], dtype="boolean"), [True, False], "bool"
    yield pandas.Series(["a", "b"], dtype="category"), ["a", "b"], "str"
    yield pandas.Series(["a", "b"]), ["a", "b"], "str"
    yield (
        pandas.Series(np.array(["2020-01-01", "2020-06-01"], "M8[ns]")).dt.tz_localize("Europe/Berlin"),
        None,
        "M8[ns]",
    )
    yield pandas.arrays.SparseArray([0, 1]), [0, 1], "int64"
    yield arrow.array([[1], [2, 3]]), [[1], [2, 3]], "int64"
    yield arrow.chunked_array([[1], [2]]), [1, 2], "int64"
    yield arrow.array([1, 2], arrow.date32()), None, "M8[D]"


def test_series_and_arrow_arrays_are_columns_as_in_a_table():
    for column, values, dtype in series():
        for given in ({"values": column}, *([column] if hasattr(column, "shape") else [])):
            source = as_source(given)
            assert source.schema["values"].dtype == dtype, column
            found = source.batch([0, 1])["values"]
            if values is not None:
                assert (found.to_list() if hasattr(found, "to_list") else found.tolist()) == values


def test_a_null_in_a_series_is_not_rounded_or_taken_for_an_object():
    pandas, arrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    for column in (
        pandas.array([2**62 + 1, None], dtype="Int64"),
        pandas.Series(["a", None]),
        arrow.array([True, None]),
    ):
        for make in (as_source, hr.ColumnSource):
            with pytest.raises(hr.SchemaMismatch, match="a value, found none") as caught:
                make({"x": column})
            assert (caught.value.where.record, caught.value.where.feature) == (1, "x")
    assert np.isnan(as_source({"x": arrow.array([1.5, None])})[1]["x"])


def test_a_column_of_structs_is_one_for_each_field():
    arrow = pytest.importorskip("pyarrow")
    source = as_source({"p": arrow.array([{"x": 1, "y": "a"}]), "q": [2]})
    assert source[0] == {"p/x": 1, "p/y": "a", "q": 2}
    with pytest.raises(hr.UnsupportedData, match="every column name once"):
        as_source({"p": arrow.array([{"x": 1}]), "p/x": [5]})


@pytest.mark.parametrize("column", [[dt.date(2000, 1, 1)], [[1, None], [2, 3]], [object()], np.array([{"a": 1}])])
def test_objects_are_no_bytes(column):
    with pytest.raises(TypeError, match="column 'x' must hold numbers, text or bytes, got (date|NoneType|object|dict)"):
        as_source({"x": column})


def test_arrays_of_objects_are_what_they_hold():
    columns = {
        "list": [np.array([1, 2], object)] * 2,
        "number": np.array([1, 2.5], object),
        "rows": np.array([[1], [2, 3]], object),
        "label": hr.ColumnSource({"y": np.arange(2)})["y"],
    }
    batch = as_source(columns).batch([0, 1])
    assert (batch["number"].dtype, batch["number"].tolist()) == (np.float64, [1, 2.5])
    assert batch["list"].tolist() == [[1, 2], [1, 2]]
    assert batch["rows"].to_list() == [[1], [2, 3]]
    assert batch["label"].tolist() == [0, 1]


class Split(list):
    """Looks like a dataset of Hugging Face."""

    __module__ = "datasets.arrow_dataset"

    def with_format(self, kind):
        return self


@pytest.mark.parametrize("split", [Split(), hr.ColumnSource(COLUMNS)])
def test_splits_are_no_columns(split):
    for make in (hr.open, as_source, lambda given: hr.Loader(given, 2)):
        with pytest.raises(TypeError, match=r"the splits 'train', 'test'. Choose one, as in splits\['train'\]"):
            make({"train": split, "test": split})
    with pytest.raises(TypeError, match="column 'x' is a source"):
        hr.ColumnSource({"x": hr.ColumnSource(COLUMNS)})


def test_a_generator_may_change_what_it_yielded():
    def again():
        example = {"x": np.zeros(2, np.int64)}
        for k in range(4):
            example["x"][:] = example["k"] = k
            yield example

    for source in (
        hr.open(again()),
        hr.from_generator(again),
        hr.from_generator(again, {"x": hr.Feature("int8", (2,)), "k": hr.Feature("int64")}),
    ):
        batch = source.batch(range(4))
        assert batch["k"].tolist() == batch["x"][:, 1].tolist() == [0, 1, 2, 3]


def test_a_dataset_of_ray_is_refused_with_the_call_that_writes_it(tmp_path):
    class Dataset:
        """As of Ray Data, whose rows are not iterated over."""

        def __iter__(self):
            raise TypeError("iterate over iter_rows()")

        def write_datasink(self, sink): ...

    for call in (hr.open, lambda data: hr.write(tmp_path / "x.tfrecord", data), lambda data: hr.Loader(data, 2)):
        with pytest.raises(TypeError, match=r"headrace\.adapters\.ray\.write"):
            call(Dataset())


def test_examples_without_features_are_counted():
    source = as_source([{}, {}, {}])
    assert (len(source), list(source), source.batch([0, 2])) == (3, [{}, {}, {}], {})
    assert len(as_source({} for _ in range(2))) == 2
    assert len(as_source([])) == 0
    assert len(hr.ColumnSource({"x": np.arange(3)}).map(lambda _: {}).concat([{}, {}])) == 5
    assert list(hr.Loader([{}, {}, {}], 2)) == [{}, {}]
