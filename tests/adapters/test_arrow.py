"""Arrow tables, both ways."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pyarrow as pa
import pytest
from tests.loading.workers import test_workers

import headrace as hr
from headrace.adapters import arrow
from headrace.adapters.arrow import from_arrow, to_arrow, to_reader


def same(left, right):
    test_workers.same(*({name: as_objects(column) for name, column in batch.items()} for batch in (left, right)))


def as_objects(column):
    """Text and bytes as arrays of objects, which some sources give."""
    return np.asarray(column) if isinstance(column, hr.Strings) else column


def text(values):
    column = np.empty(len(values), object)
    column[:] = values
    return column


COLUMNS = {
    "i": np.arange(-2, 5),
    "x": np.arange(14, dtype=np.float32).reshape(7, 2),
    "cube": np.arange(42, dtype=np.uint8).reshape(7, 2, 3),
    "yes": np.arange(7) % 2 == 0,
    "day": np.arange(7).astype("datetime64[D]"),
    "name": text([f"name {i}" for i in range(7)]),
    "raw": text([b"\0" * i for i in range(7)]),
    "many": hr.Ragged.from_list([[1.5] * i for i in range(7)], np.float64),
    "rows": hr.Ragged.from_list([np.full((i, 2), i) for i in range(7)], np.int64),
    "nested": hr.Ragged(hr.Ragged.from_list([[1], [2, 3], []], np.int32), np.array([0, 2, 2, 2, 3, 3, 3, 3])),
}
TYPES = {
    "i": "int64",
    "x": "fixed_size_list<item: float>[2]",
    "cube": "fixed_size_list<item: fixed_size_list<item: uint8>[3]>[2]",
    "yes": "bool",
    "day": "date32[day]",
    "name": "string",
    "raw": "binary",
    "many": "list<item: double>",
    "rows": "list<item: fixed_size_list<item: int64>[2]>",
    "nested": "list<item: list<item: int32>>",
}


@pytest.fixture
def source():
    return hr.ColumnSource(COLUMNS)


def test_types(source):
    assert {field.name: str(field.type) for field in to_arrow(source).schema} == TYPES


@pytest.mark.parametrize("block", [1, 3, 100])
def test_there_and_back(source, block):
    back = from_arrow(to_arrow(source, block=block))
    assert back.schema == source.schema
    for indices in (np.arange(7), np.array([6, 0, 3, 3]), np.arange(2, 5), np.array([], np.int64)):
        same(back.batch(indices), source.batch(indices))


def test_batches_are_the_callers_own(source):
    table = to_arrow(source)
    batch = from_arrow(table).batch(np.arange(7))
    batch["i"][:] = 9
    batch["x"][:] = 9
    batch["many"].values[:] = 9
    same(from_arrow(table).batch(np.arange(7)), source.batch(np.arange(7)))


def test_a_reader_holds_one_block_at_a_time(source):
    reader = to_reader(source, block=3)
    assert isinstance(reader, pa.RecordBatchReader)
    assert [batch.num_rows for batch in reader] == [3, 3, 1]


def test_from_files_to_arrow(tmp_path):
    hr.write(
        tmp_path / "x.tfrecord",
        {"i": np.arange(20), "v": hr.Ragged.from_list([[1.0] * (i % 3) for i in range(20)], "f4")},
    )
    table = to_arrow(hr.open(tmp_path / "x.tfrecord"))
    assert table["i"].to_pylist() == list(range(20))
    assert table["v"].to_pylist() == [[1.0] * (i % 3) for i in range(20)]


def test_an_empty_source():
    empty = hr.ColumnSource({"x": np.zeros((0, 2), np.float32)})
    table = to_arrow(empty)
    assert (table.num_rows, str(table.schema.field("x").type)) == (0, TYPES["x"])
    assert len(from_arrow(table)) == 0
    assert from_arrow(table).batch([])["x"].shape == (0, 2)


def test_select_leaves_columns_unread(source):
    narrow = from_arrow(to_arrow(source)).select("name", "i")
    assert list(narrow.schema) == ["name", "i"]
    assert narrow.node.parent.table.column_names == ["i", "name"]
    assert narrow[3] == {"name": "name 3", "i": 1}


def test_tables_of_others():
    """Types that our writer never produces: structs, dictionaries, chunks, nulls, large types."""
    table = pa.table(
        {
            "point": pa.array([{"x": 1, "y": 2.5}, {"x": 3, "y": None}]),
            "kind": pa.array(["a", "b"]).dictionary_encode(),
            "long": pa.array([["p"], []], pa.large_list(pa.large_string())),
        }
    )
    source = from_arrow(pa.concat_tables([table, table]))
    assert list(source.schema) == ["point/x", "point/y", "kind", "long"]
    batch = source.batch([3, 0])
    assert batch["point/x"].tolist() == [3, 1]
    assert np.isnan(batch["point/y"][0])
    assert batch["kind"].tolist() == ["b", "a"]
    assert batch["long"].to_list() == [[], ["p"]]


def test_a_null_that_has_no_value():
    source = from_arrow(pa.table({"i": pa.array([1, 2, None, 4])}))
    assert source.batch([0, 1])["i"].tolist() == [1, 2]
    with pytest.raises(hr.SchemaMismatch, match=r"record 2, feature 'i'"):
        source.batch([3, 2])


def test_values_without_an_arrow_type():
    with pytest.raises(hr.UnsupportedData, match="feature 'z'"):
        to_arrow(hr.ColumnSource({"z": np.zeros(3, np.complex64)}))
    with pytest.raises(hr.UnsupportedData, match="feature 'm'"):
        from_arrow(pa.table({"m": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))}))


def test_record_batches_and_pickle(source):
    batch = to_arrow(source).to_batches()[0]
    again = pickle.loads(pickle.dumps(from_arrow(batch)))
    same(again.batch(np.arange(7)), source.batch(np.arange(7)))


def test_in_a_loader(source):
    back = from_arrow(to_arrow(source))
    seen = [i for batch in hr.Loader(back, 3, shuffle=True) for i in batch["i"].tolist()]
    assert sorted(seen) == list(range(-2, 5))


@pytest.mark.parametrize("table", [None, 5, "x", b"x", [1], np.zeros(3), object()])
def test_objects_that_are_not_tables_are_named(table):
    with pytest.raises(TypeError, match="from_arrow takes a pyarrow.Table"):
        from_arrow(table)


@pytest.mark.parametrize(
    "columns", [{"a": 1}, {"a": [1, 2], "b": [1]}, {"a": [2**70]}, {"a": [1, "x"]}, {"a": ["\ud800"]}]
)
def test_columns_that_make_no_table(columns):
    with pytest.raises(hr.UnsupportedData, match="columns of equal length and of types that Arrow supports"):
        from_arrow(columns)


@pytest.mark.parametrize("source", [None, 5, {"a": [1]}, np.zeros(3)])
def test_objects_that_are_not_sources_are_named(source):
    with pytest.raises(TypeError, match="a source is what headrace.open or headrace.ColumnSource gives"):
        to_arrow(source)


@pytest.mark.parametrize("block", [0, -1, 1.5, "x", None, True])
def test_blocks_have_rows(block):
    with pytest.raises(ValueError, match="at least 1"):
        to_arrow(hr.ColumnSource({"x": np.arange(3)}), block=block)


def test_keys_of_examples_come_along_and_lead_back_into_records(tmp_path):
    """What a table of Arrow says of the lists in records is used where the table's own types agree."""
    rows = [{"v": np.arange(3, dtype=np.float32), "s": np.array([0, 1, 3]), "n": i} for i in range(4)]
    hr.write(tmp_path / "a.tfrecord", rows)
    keys = hr.RaggedKeys("v", [("row_splits", "s")])
    schema = {"n": hr.Feature("int64"), "r": hr.Feature("float32", (None, None), keys=keys)}
    table = to_arrow(hr.open(tmp_path / "a.tfrecord", schema=schema))
    hr.write(tmp_path / "b.tfrecord", from_arrow(table))
    back = hr.open(tmp_path / "b.tfrecord")
    assert [example["v"].tolist() for example in back] == [[0, 1, 2]] * 4
    assert [example["s"].tolist() for example in back] == [[0, 1, 3]] * 4
    assert from_arrow(table.slice(0, 0)).schema["r"].keys == keys


@pytest.mark.parametrize(
    "claim",
    [
        {"shape": [3], "sparse": True},
        {"shape": [3], "keys": {"indices": ["i"], "values": "v", "size": [3]}},
        {"shape": [None, None], "keys": {"values": "v", "partitions": [["row_splits", "s"]]}},
        {"shape": [3], "keys": {"values": "v", "partitions": 7}},
        {"shape": [3], "keys": [1, 2]},
    ],
)
def test_claims_that_the_columns_do_not_bear_out_are_ignored(claim):
    metadata = {"headrace.schema": json.dumps({"features": {"x": {"dtype": "float32", **claim}}})}
    table = pa.table({"x": pa.array([[1.0, 2.0, 3.0]], pa.list_(pa.float32(), 3))}).replace_schema_metadata(metadata)
    source = from_arrow(table)
    assert dict(source.schema) == {"x": hr.Feature("float32", (3,))}
    assert source[0]["x"].tolist() == [1, 2, 3]


def test_rows_of_a_function_keep_their_lengths():
    """The first example has one word; as lists of one value, all others would take words of the next rows."""
    text = hr.ColumnSource({"text": ["a", "b c", "", "d e f"]})
    source = text.map(lambda example: {"words": np.array(example["text"].split(), object), "n": 1})
    assert source.to_arrow().column("words").to_pylist() == [["a"], ["b", "c"], [], ["d", "e", "f"]]
    late = text.map(lambda example: {"x": np.zeros(2 if example["text"] == "d e f" else 1)})
    with pytest.raises(hr.SchemaMismatch, match=r"a length of 2.*record 3, feature 'x'"):
        to_arrow(late, block=2)


@pytest.mark.parametrize("most", [1, 60, 400])
def test_blocks_with_too_much_text_are_divided(monkeypatch, most):
    columns = {
        "t": hr.Strings.from_values(["x" * (7 * number % 50) for number in range(20)]),
        "r": hr.Ragged(hr.Strings.from_values(list("abcdefghijkl")), np.r_[np.zeros(10, int), 3, 3, 3, np.full(8, 12)]),
        "n": np.arange(40).reshape(20, 2),
        "a": [np.full((number % 3, 2), number) for number in range(20)],
    }
    source = hr.ColumnSource(columns)
    expected = to_arrow(source, block=9)
    monkeypatch.setattr(arrow, "MOST_OFFSET", most)
    found = to_arrow(source, block=9)
    assert found.equals(expected)
    assert (found.column("t").num_chunks > 3) is (most < 400)


@pytest.mark.parametrize(
    ("first", "later"),
    [
        (np.int8(1), np.int64(300)),
        (np.int64(2**53 + 1), 0.7),
        (1, 2**64 - 1),
        (np.float32(1), 1e300),
        (np.True_, 2),
        (np.uint8(1), -1),
    ],
)
def test_a_number_that_does_not_fit_is_refused(first, later):
    """Arrow gets arrays, and casting one to another dtype wraps integers and drops fractions."""
    source = hr.ColumnSource({"k": np.arange(3)}).map(lambda example: {"x": later if example["k"] == 2 else first})
    for made in (source, source.map(lambda example: {"x": [example["x"], example["x"]]})):
        with pytest.raises(hr.SchemaMismatch) as raised:
            made.to_arrow()
        assert raised.value.where.feature == "x"


def test_the_row_of_a_number_that_does_not_fit():
    source = hr.ColumnSource({"k": np.arange(20)}).map(lambda e: {"x": np.int8(e["k"]) if e["k"] < 15 else e["k"] * 10})
    with pytest.raises(hr.SchemaMismatch, match="150") as raised:
        to_arrow(source, block=8)
    assert raised.value.where.record == 15


def test_hints_for_tables_in_memory_name_no_schema():
    for table in (pa.table({"m": pa.array([None])}), pa.Table.from_arrays([pa.array([1])] * 2, names=["m", "m"])):
        with pytest.raises(hr.UnsupportedData, match="Convert, rename or drop that column first") as caught:
            from_arrow(table)
        assert caught.value.where.feature == "m"
        assert "schema=" not in str(caught.value)


@pytest.mark.parametrize("words", [pa.string_view(), pa.binary_view(), pa.string(), pa.large_binary()])
@pytest.mark.parametrize("index", [pa.uint8(), pa.uint32(), pa.int64()])
def test_dictionaries_of_views(words, index):
    """Such as the categories of Polars, which Arrow itself cannot decode."""
    values = ["a", "b"] if words in (pa.string(), pa.string_view()) else [b"a", b"b"]
    held = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], index), pa.array(values, words))
    table = pa.table({"c": held, "l": pa.ListArray.from_arrays(pa.array([0, 2, 2, 3]), held)})
    a, b = values
    source = from_arrow(pa.concat_tables([table, table]))
    assert source.batch([5, 1, 0])["c"].tolist() == [a, b, a]
    assert source.batch([3, 1])["l"].to_list() == [[a, b], []]
    assert list(source)[2]["c"] == a
    with pytest.raises(hr.SchemaMismatch, match="record 1"):
        from_arrow(pa.table({"c": held.take(pa.array([0, None]))}))[1]


def test_views_beside_a_value_that_does_not_fit():
    """Rows are then read one by one, which Arrow cannot do with views."""
    texts = pa.array(["a", "b", "c"], pa.string_view())
    table = pa.table(
        {
            "t": texts,
            "b": pa.array([b"a", b"b", b"c"], pa.binary_view()),
            "l": pa.ListArray.from_arrays(pa.array([0, 1, 1, 3]), texts),
            "s": pa.StructArray.from_arrays([texts], ["k"]),
            "n": pa.array([1, None, 3]),
        }
    )
    source = from_arrow(table)
    found = source.batch([2, 0])
    assert (found["t"].tolist(), found["b"].tolist()) == (["c", "a"], [b"c", b"a"])
    assert (found["l"].to_list(), found["s/k"].tolist()) == ([["b", "c"], ["a"]], ["c", "a"])
    with pytest.raises(hr.SchemaMismatch, match="record 1, feature 'n'"):
        source[1]


def test_python_objects_of_polars_are_refused():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"n": [1], "o": polars.Series([object()], dtype=polars.Object)})
    with pytest.raises(hr.UnsupportedData, match="Python objects - at feature 'o'"):
        from_arrow(frame)
    assert from_arrow(frame.select("n"))[0] == {"n": 1}
    texts = polars.DataFrame({"c": polars.Series(["a"], dtype=polars.Categorical)})
    assert hr.open(texts)[0] == {"c": "a"}


def test_what_is_no_table_yet_says_how_it_becomes_one(tmp_path):
    import pyarrow.dataset
    import pyarrow.parquet

    path = tmp_path / "x.parquet"
    pyarrow.parquet.write_table(pa.table({"x": [1]}), path)
    held = pyarrow.dataset.dataset(path)
    for given, hint in (
        (held, r"to_table\(\)"),
        (held.scanner(), r"to_table\(\)"),
        (pyarrow.parquet.ParquetFile(path), r"read\(\)"),
    ):
        for read in (hr.open, from_arrow):
            with pytest.raises(TypeError, match=hint):
                read(given)
    polars = pytest.importorskip("polars")
    for read in (hr.open, from_arrow):
        with pytest.raises(TypeError, match=r"frame.collect\(\)"):
            read(polars.DataFrame({"x": [1]}).lazy())


@pytest.mark.parametrize("library", ["pyarrow", "pandas", "polars"])
def test_a_null_in_one_field_of_a_struct_leaves_the_others_readable(library):
    pytest.importorskip(library)
    cells = [{"x": None, "y": 1}, {"x": b"a", "y": 2}]
    table = pa.table({"n": [5, 6], "s": pa.array(cells, pa.struct([("x", pa.binary()), ("y", pa.int32())]))})
    if library != "pyarrow":
        table = table.to_pandas() if library == "pandas" else pytest.importorskip("polars").from_arrow(table)
    source = hr.open(table)
    assert source.select("s/y").batch([1, 0])["s/y"].tolist() == [2, 1]
    assert [batch["s/y"].tolist() for batch in hr.Loader(source.select("s/y", "n"), 2)] == [[1, 2]]
    assert len(source.filter(hr.condition("`s/y` > 1")).select("n")) == 1
    assert (source["s/y"] > 1).tolist() == [False, True]
    with pytest.raises(hr.SchemaMismatch, match="feature 's/x'"):
        source.select("s/x").batch([0])


def test_a_type_without_an_array_type_is_named_once():
    for table in (pa.table({"a": pa.nulls(2)}), pa.table({"a": pa.nulls(2)}).to_batches()[0]):
        with pytest.raises(hr.UnsupportedData, match="^expected a column that has an array type") as raised:
            from_arrow(table)
        assert raised.value.where.feature == "a"


def test_names_that_polars_cannot_export_are_refused():
    polars = pytest.importorskip("polars")
    with pytest.raises(hr.UnsupportedData, match="names without NUL"):
        from_arrow(polars.DataFrame({"a\0b": [1]}))


def test_fields_of_lists_of_structs():
    rows = [{"l": [{"a": 1, "t": "x"}, {"a": 2, "t": "y"}]}, {"l": [{"a": 3, "t": "z"}, {"a": 4, "t": ""}]}]
    found = from_arrow(pa.Table.from_pylist(rows))
    assert {name: (f.dtype, f.shape) for name, f in found.schema.items()} == {
        "l/a": ("int64", (None,)),
        "l/t": ("str", (None,)),
    }
    assert found.batch([1, 0])["l/t"].to_list() == [["z", ""], ["x", "y"]]
    two = pa.list_(pa.struct([("a", pa.int64()), ("t", pa.string())]), 2)
    fixed = from_arrow(pa.table({"l": pa.array([None, *[row["l"] for row in rows]], two).slice(1)}))
    assert fixed.schema["l/a"].shape == (2,)
    assert fixed.batch([1, 0])["l/a"].tolist() == [[3, 4], [1, 2]]
    assert fixed[0]["l/t"].tolist() == ["x", "y"]


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_dictionary_whose_rows_have_more_text_than_arrow_decodes(shuffle):
    """Arrow's offsets of 32 bits end at 2 GiB of all rows; each text is held once, and batches hold their own."""
    texts = [letter * 40_000 for letter in "abc"]
    codes = np.random.default_rng(0).integers(0, 3, 100_000)
    table = pa.table({"text": pa.DictionaryArray.from_arrays(pa.array(codes, pa.int8()), texts), "code": codes})
    for number, batch in enumerate(hr.Loader(table, 64, shuffle=shuffle, seed=1, threads=0)):
        assert [texts.index(text) for text in batch["text"]] == batch["code"].tolist()
        if number == 20:
            break


def test_a_dictionary_with_an_index_that_has_no_value():
    broken = pa.DictionaryArray.from_arrays(pa.array([0, 1, 5], pa.int8()), ["a" * 300, "b"], safe=False)
    with pytest.raises(Exception, match=r"(?i)index|bounds"):
        from_arrow(pa.table({"text": broken})).batch([0, 1, 2])
