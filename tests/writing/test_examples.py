"""Everything that people pass to write, open and similar calls: accepted, or refused with a message."""

from __future__ import annotations

import io
import pathlib

import numpy as np
import pytest

import headrace as hr
from headrace.errors import NoFiles, SchemaMismatch, UnsupportedData

ROWS = np.arange(12, dtype=np.float32).reshape(4, 3)


def read(path):
    source = hr.open(path)
    return source.batch(range(len(source)))


def test_an_array_is_the_feature_values(tmp_path):
    for ending in ("npy", "npz", "tfrecord", "parquet"):
        assert hr.write(tmp_path / f"x.{ending}", ROWS) == 4
        assert read(tmp_path / f"x.{ending}")["values"].tolist() == ROWS.tolist()
    np.save(tmp_path / "y.npy", ROWS)
    assert (tmp_path / "x.npy").read_bytes() == (tmp_path / "y.npy").read_bytes()
    assert hr.write(tmp_path / "x.npy@2", np.arange(5)) == 5
    assert hr.open(tmp_path / "x.npy@2").batch(range(5))["values"].tolist() == [*range(5)]


def test_the_fields_of_a_structured_array_are_columns(tmp_path):
    rows = np.array([(1, (2.5, 3)), (4, (5.5, 6))], [("a", "<i8"), ("b", [("x", "<f8"), ("y", "<i8")])])
    assert hr.write(tmp_path / "x.npz", rows) == 2
    assert {name: column.tolist() for name, column in read(tmp_path / "x.npz").items()} == {
        "a": [1, 4],
        "b.x": [2.5, 5.5],
        "b.y": [3, 6],
    }


@pytest.mark.parametrize("form", ["coo", "csr", "csc", "lil", "dok", "bsr", "dia"])
@pytest.mark.parametrize("kind", ["matrix", "array"])
def test_sparse_rows_of_any_form(tmp_path, form, kind):
    sparse = pytest.importorskip("scipy.sparse")
    rows = getattr(sparse, f"{form}_{kind}")(np.where(ROWS > 3, ROWS, 0))
    hr.write(tmp_path / "x.recordio", rows)
    assert read(tmp_path / "x.recordio")["values"].toarray().tolist() == rows.toarray().tolist()
    hr.write(tmp_path / "y.recordio", {"values": rows, "label": np.arange(4)})
    assert read(tmp_path / "y.recordio")["values"].toarray().tolist() == rows.toarray().tolist()
    source = hr.ColumnSource({"x": rows})
    assert source.batch([3, 0])["x"].toarray().tolist() == rows.toarray()[[3, 0]].tolist()
    with pytest.raises(UnsupportedData, match="dense rows, found .*sparse"):
        hr.write(tmp_path / "x.npy", rows)


def test_tables_of_other_libraries(tmp_path):
    pandas, pa = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    frame = pandas.DataFrame({"a": [1, 2, 3], "s": ["x", "y", "z"], "f": [0.5, float("nan"), 2.5]})
    for number, table in enumerate([frame, pa.table(frame), pa.table(frame).to_batches()[0]]):
        for ending in ("parquet", "csv", "tfrecord"):
            path = tmp_path / f"{number}.{ending}"
            assert hr.write(path, table) == 3
            found = read(path)
            assert (found["a"].tolist(), found["s"].tolist()) == ([1, 2, 3], ["x", "y", "z"])
    hr.write(tmp_path / "s.npz", frame["a"])
    assert read(tmp_path / "s.npz")["a"].tolist() == [1, 2, 3]
    hr.write(tmp_path / "t.npz", pandas.Series([1, 2]))
    assert read(tmp_path / "t.npz")["values"].tolist() == [1, 2]
    hr.write(tmp_path / "u.npz", pandas.DataFrame(np.ones((2, 2))))
    assert list(hr.open(tmp_path / "u.npz").schema) == ["0", "1"]


def test_arrays_of_other_libraries(tmp_path):
    torch = pytest.importorskip("torch")
    hr.write(tmp_path / "x.npy", torch.arange(6).reshape(3, 2))
    assert read(tmp_path / "x.npy")["values"].tolist() == [[0, 1], [2, 3], [4, 5]]
    hr.write(tmp_path / "y.npz", {"a": torch.ones(2, requires_grad=True), "b": [torch.zeros(3), torch.ones(3)]})
    assert read(tmp_path / "y.npz")["b"].tolist() == [[0, 0, 0], [1, 1, 1]]
    with pytest.raises(TypeError, match="column 'a' does not become a NumPy array: .*BFloat16"):
        hr.write(tmp_path / "z.npy", {"a": torch.zeros(2, dtype=torch.bfloat16)})


def test_masked_values_never_expose_the_data_under_the_mask(tmp_path):
    hr.write(tmp_path / "x.npz", {"a": np.ma.masked_array([1.0, 2.0], [False, True])})
    assert str(read(tmp_path / "x.npz")["a"].tolist()) == "[1.0, nan]"
    with pytest.raises(TypeError, match="column 'a' has masked values of int64: fill them first"):
        hr.write(tmp_path / "y.npz", {"a": np.ma.masked_array([1, 2], [False, True])})


def test_sequences_without_iter_are_examples(tmp_path):
    class Examples:
        def __len__(self):
            return 3

        def __getitem__(self, index):
            if index >= 3:
                raise IndexError
            return {"k": index}

    assert hr.write(tmp_path / "x.npz", Examples()) == 3


def refused_as_data(folder):
    """Objects that cannot be written, with part of the message."""
    hr.write(folder / "own.tfrecord", {"k": np.arange(4)})
    own = hr.open(folder / "own.tfrecord")
    return [
        (None, "got NoneType. Pass {'name': array"),
        (7, "got int. Pass"),
        (object(), "got object. Pass"),
        ("own.tfrecord", "got str. Of a file, pass headrace.open"),
        (pathlib.Path("own.tfrecord"), "Of a file, pass headrace.open"),
        (b"payload", "write_records"),
        (hr.records(folder / "own.tfrecord"), "write_records(path, records)"),
        (hr.Loader(own, 2), "A loader gives batches: pass its source"),
        (io.BytesIO(b"x"), "open file"),
        (np.float32(3), "the single value"),
        (np.array(3), "the single value"),
        ({"a": 1, "b": 2}, "column 'a' must be an array or a list.*A single example is written as"),
        ({"a": "text"}, "column 'a' must be an array or a list.*got str 'text'"),
        ({"a": None}, "column 'a' must be"),
        ({"a": np.array(3)}, "column 'a' must be"),
        ({"a": (number for number in range(3))}, "column 'a' must be .*generator"),
        ({"a": {"b": [1]}}, "column 'a' is a dict"),
        ({"a": np.zeros(2, [("x", "<f4")])}, "column 'a' is a structured array"),
        ({1: [1, 2]}, "names of columns are str, got 1"),
        ({"a": [1, None]}, "expected a value, found None - at record 1, feature 'a'"),
        ({"a": [1, 2], "b": [1]}, "columns of equal length"),
        ([[1, 2], [3, 4]], r"a dict of features, found list \[1, 2\] - at record 0. Pass columns"),
        ([1, 2, 3], "a dict of features, found int 1"),
        (["a", "b"], "a dict of features, found str 'a'"),
        ([(1, 2)], "a dict of features, found tuple"),
        ([None], "a dict of features, found None"),
        ([np.zeros(3)], "a dict of features, found ndarray"),
        ({1, 2}, "a dict of features, found int"),
        ((number for number in range(3)), "a dict of features, found int 0"),
        ([{"a": 1}, {"a": None}], "a value, found None - at record 1, feature 'a'"),
        ([{"a": {"b": 1}}], "found a dict.*Give each value in it a separate name: 'a/...'"),
        ([{"a": 1}, {"b": 2}], r"the features \['a'\], found \['b'\] - at record 1"),
        ([{"a": 1}] * 1500 + [{"b": 2}], "at record 1500"),
        ([{"a": 1}] * 1500 + [[1]], "at record 1500"),
    ]


@pytest.mark.parametrize("ending", ["tfrecord", "npy", "csv", "npz"])
def test_data_that_cannot_be_written_is_refused_with_a_message(tmp_path, ending):
    (tmp_path / "out").mkdir()
    for given, message in refused_as_data(tmp_path):
        with pytest.raises((TypeError, SchemaMismatch), match=message.replace("(path, records)", "")):
            hr.write(tmp_path / "out" / f"x.{ending}", given)
        assert list((tmp_path / "out").iterdir()) == []


def refused_as_path():
    return [
        (None, "got NoneType"),
        (7, "got int"),
        (b"x.npy", "got bytes as a path. os.fsdecode"),
        ({"a": [1]}, "got dict as a path. headrace.ColumnSource"),
        (ROWS, "got ndarray as a path. headrace.ColumnSource"),
        (np.array(3), "got ndarray"),
        ([{"a": 1}], "got dict in the list of paths"),
        ([None], "got NoneType in the list of paths"),
        ([b"x"], "got bytes in the list of paths"),
        ([["x.npy"]], "got list in the list of paths"),
        ((number for number in range(3)), "got int in the list"),
        ({"x.npy"}, "a set of paths has no order"),
        (io.BytesIO(b"x"), "got BytesIO as a path. Pass the name of the file"),
    ]


def taken_as_data():
    """What ``open`` and ``convert`` take as examples rather than as a path, and what they say to data that is none."""
    return [
        (None, "got NoneType"),
        (7, "got int"),
        (b"x.npy", "got bytes as a path. os.fsdecode"),
        (np.array(3), "got the single value"),
        ([None], "got NoneType in the list of paths"),
        ([b"x"], "got bytes in the list of paths"),
        ([["x.npy"]], "got list in the list of paths"),
        ((number for number in range(3)), "expected an example: a dict of features, found int 0"),
        ({"x.npy"}, "a set of paths has no order"),
        (io.BytesIO(b"x"), r"pass headrace.open\(its name\)"),
    ]


@pytest.mark.parametrize(
    ("call", "refused"),
    [
        (hr.open, taken_as_data),
        (hr.records, refused_as_path),
        (hr.verify, refused_as_path),
        (lambda path: hr.convert(path, "out.npz"), taken_as_data),
    ],
)
def test_non_paths_are_refused_with_a_message(tmp_path, monkeypatch, call, refused):
    monkeypatch.chdir(tmp_path)
    for given, message in refused():
        with pytest.raises((TypeError, SchemaMismatch), match=message):
            call(given)
    with pytest.raises(NoFiles, match="a path, found an empty text"):
        call("")
    with pytest.raises(NoFiles, match="empty list"):
        call([])


def test_data_in_memory_is_opened_as_it_is(tmp_path):
    pandas = pytest.importorskip("pandas")
    table = pytest.importorskip("pyarrow").table({"a": [1]})
    for given in (pandas.DataFrame({"a": [1]}), table, {"a": [1]}, [{"a": 1}]):
        assert [dict(example) for example in hr.open(given)] == [{"a": 1}]
        hr.convert(given, tmp_path / "x.npz", overwrite=True)
        assert hr.open(tmp_path / "x.npz")[0]["a"] == 1


def test_other_calls_refuse_non_paths_with_a_message(tmp_path):
    hr.write(tmp_path / "x.npy", ROWS)
    for given in (None, 7, [tmp_path / "y.npy"], {"a": 1}, ROWS):
        with pytest.raises(TypeError, match="path to write to is str"):
            hr.write(given, ROWS)
        with pytest.raises(TypeError, match="path to write to is str"):
            hr.convert(tmp_path / "x.npy", given)
        with pytest.raises(TypeError, match="a dataset is a name or a folder"):
            hr.data_source(given)
    for given in (None, 7, [tmp_path / "y.npy"], {"a": 1}):
        with pytest.raises((TypeError, SchemaMismatch), match="expected (a source|an example)|must be an array"):
            hr.Loader(given, 2)
    for given in (None, 7, b"x", ROWS, [1], [{"a": 1}]):
        with pytest.raises(TypeError, match="a schema is inferred from a path, records, or"):
            hr.Schema.infer(given)
    assert hr.Schema.infer([tmp_path / "x.npy"]) == hr.Schema.infer(tmp_path / "x.npy")
    assert len(hr.Loader({"a": [1]}, 2)) == 1


@pytest.mark.parametrize("name", ["x.parquet", "x.tfrecord", "x.jsonl", "x.recordio"])
def test_functions_whose_values_vary_are_written(tmp_path, name):
    """Their schema is that of the first example, which does not show that the length varies."""
    numbers = [1] * 40 + list(range(8))  # the first ones are all alike
    source = hr.ColumnSource({"n": np.array(numbers)}).map(lambda example: {"x": np.arange(example["n"] % 4)})
    hr.write(tmp_path / name, source)
    assert [example["x"].tolist() for example in hr.open(tmp_path / name)] == [list(range(n % 4)) for n in numbers]


LARGE, ODD = 2**63 + 1, 2**53 + 1
FORMATS = ["parquet", "jsonl", "csv", "npz", "tar", "avro", "recordio", "tfrecord", "array_record"]


@pytest.mark.parametrize("suffix", FORMATS)
def test_python_integers_never_change(tmp_path, suffix):
    """They became floats."""
    path = tmp_path / f"x.{suffix}"
    for values in ([ODD, 0.5], [0.5] * 1030 + [ODD], [2**64], [[ODD, 0.5]]):
        with pytest.raises(hr.DataError, match="feature 'x'"):
            hr.write(path, [{"x": value} for value in values])
    try:
        hr.write(path, [{"x": 1}, {"x": LARGE}])
    except hr.UnsupportedData as error:  # integers of 32 or 63 bits
        assert suffix in ("recordio", "avro"), error
    else:
        schema = {"x": hr.Feature("uint64")}
        assert [int(example["x"]) for example in hr.open(path, schema=schema)] == [1, LARGE]
    hr.write(path, [{"x": 1}, {"x": 0.5}])
    assert [float(example["x"]) for example in hr.open(path)] == [1, 0.5]


def test_lists_of_floats_are_stored_as_float32_only_if_nothing_else_changes(tmp_path):
    path = tmp_path / "x.tfrecord"
    hr.write(path, [{"x": [[0.1, 2], []]}, {"x": [[1]]}])
    assert hr.open(path)[0]["x"].dtype == np.float32
    for value in ([2**24 + 1, 0.5], [[2**24 + 1, 0.5], []], 1e300, [1e300, 1]):
        with pytest.raises(hr.UnsupportedData, match="float32"):
            hr.write(path, [{"x": value}])
    hr.write(path, [{"x": [np.inf, 1.0]}, {"x": [np.nan, 0.1]}])
    assert hr.open(path)[0]["x"].tolist() == [np.inf, 1]


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (1e300, "float32"),
        (1e300, "float16"),
        (70000, "float16"),
        (2049, "float16"),
        (2**24 + 1, "float32"),
        (ODD, "float64"),
        (2**60 + 1, "float64"),
        (300, "int8"),
    ],
)
def test_numbers_beyond_the_schema_are_refused(tmp_path, suffix, value, dtype):
    path = tmp_path / f"x.{suffix}"
    schema = {"x": hr.Feature(dtype)}
    for given in ([{"x": value}], {"x": np.array([value])}):
        with pytest.raises(hr.DataError, match="feature 'x'"):
            hr.write(path, given, schema=schema)
    sparse = pytest.importorskip("scipy.sparse")
    if suffix == "recordio":
        with pytest.raises(hr.DataError, match="feature 'x'"):
            rows = sparse.csr_array(np.array([[0, value]]))
            hr.write(path, {"x": rows}, schema={"x": hr.Feature(dtype, (2,), sparse=True)})


@pytest.mark.parametrize("suffix", ["parquet", "avro", "tar", "jsonl", "npy", "npz"])
def test_times_may_be_text(tmp_path, suffix):
    path = tmp_path / f"x.{suffix}"
    schema = {"x": hr.Feature("M8[D]")}
    given = [{"x": "2020-01-01"}, {"x": "1969-12-31"}, {"x": "20000-01-01"}]
    hr.write(path, given[: 2 if suffix == "parquet" else 3], schema=schema)
    stored = next(iter(hr.open(path, schema=schema if suffix == "jsonl" else None)[0].values()))
    assert stored == np.datetime64("2020-01-01")
    for bad in ("bad", "today", "", "2020-01-01T05", "2020-13-01"):
        with pytest.raises(SchemaMismatch, match=r"expected M8\[D\] values, found '.*record 1, feature 'x'"):
            hr.write(path, [{"x": "2020-01-01"}, {"x": bad}], schema=schema)
    with pytest.raises(SchemaMismatch, match="found text"):
        hr.write(path, [{"x": "1"}], schema={"x": hr.Feature("m8[s]")})


@pytest.mark.parametrize("suffix", ["parquet", "avro", "tar", "tfrecord", "recordio"])
def test_text_is_stored_as_bytes(tmp_path, suffix):
    schema = {"x": hr.Feature("bytes")}
    hr.write(tmp_path / f"x.{suffix}", [{"x": "é"}, {"x": b"\xff"}][:1], schema=schema)
    assert hr.open(tmp_path / f"x.{suffix}", schema=schema)[0]["x"] == "é".encode()


def test_lists_of_text_are_stored_as_bytes_in_avro(tmp_path):
    schema = {"x": hr.Feature("bytes", (None,)), "y": hr.Feature("bytes", (2,))}
    hr.write(tmp_path / "x.avro", [{"x": ["é\0"], "y": ["a", "b"]}, {"x": [], "y": ["c", "d"]}], schema=schema)
    batch = hr.open(tmp_path / "x.avro").batch([0, 1])
    assert batch["x"].to_list() == [["é\0".encode()], []]
    assert batch["y"].tolist() == [[b"a", b"b"], [b"c", b"d"]]
