import numpy as np
import pytest
import scipy.sparse as sp

import headrace as hr
from headrace.contracts.schema import any_width
from headrace.contracts.strings import Strings
from headrace.contracts.values import Ragged
from headrace.errors import SchemaMismatch
from headrace.sources import stacking
from headrace.sources.operations.joining import widen
from headrace.sources.stacking import schema_of, stack


def test_equal_shapes_become_an_array_and_other_lengths_a_ragged():
    assert stack([{"a": np.arange(2)}, {"a": [5, 6]}])["a"].tolist() == [[0, 1], [5, 6]]
    column = stack([{"a": np.zeros((2, 3))}, {"a": np.zeros((0, 3))}, {"a": []}])["a"]
    assert isinstance(column, Ragged)
    assert [len(row) for row in column] == [2, 0, 0]


@pytest.mark.parametrize("other", [3.0, np.ones((2, 2))])
def test_rows_of_different_ranks_are_refused(tmp_path, other):
    rows = [{"a": np.arange(2)}, {"a": other}]
    for given in (rows, rows[::-1]):
        with pytest.raises(hr.SchemaMismatch, match=r"a value of \d ax[ei]s, as the others.* at record 1, feature 'a'"):
            stack(given)
        with pytest.raises(hr.DataError, match="'a'"):
            hr.write(tmp_path / "x.tfrecord", given)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "values",
    [
        [["ab", "cd"], "ef"],
        [[[1, 2]], [1, 2]],
        [[], 3],
        [3, []],
        [np.array(3), np.array([3])],
        [Strings.from_values(["a"]), Strings.from_values([["b", "c"]])],
    ],
)
def test_one_number_of_axes_in_a_feature(values):
    rows = [{"a": value} for value in values]
    with pytest.raises(hr.SchemaMismatch, match=r"as the others, found one of the shape .*'a'"):
        hr.open(rows)
    source = hr.ColumnSource({"i": np.arange(2)}).map(lambda example: rows[example["i"]])
    with pytest.raises(hr.SchemaMismatch, match="as the others"):
        source.batch([0, 1])


def test_images_of_several_sizes_are_a_list():
    images = [np.zeros((2, 3, 3)), np.zeros((0, 4, 3)), np.zeros((4, 5, 3)), []]
    assert [np.shape(image) for image in stack([{"a": image} for image in images])["a"]] == list(map(np.shape, images))


def test_columns_of_text_and_of_bytes_are_not_mixed():
    rows = [{"a": Strings.from_values(["a"])}, {"a": Strings.from_values([b"b"])}]
    with pytest.raises(hr.SchemaMismatch, match="expected text, as before, found Strings .* at record 1, feature 'a'"):
        stack(rows)


def test_no_examples_have_no_columns():
    assert stack([]) == {}


def test_sparse_columns_are_matrices():
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(TypeError, match=r"column 'x' must be an array .*, got a sparse array of shape \(3,\)"):
        hr.ColumnSource({"x": sparse.coo_array(np.ones(3))})


MIXED = {
    "number below text": (["a", 1], "text, as before, found int 1"),
    "bytes below text": (["a", b"b"], "text, as before, found bytes b'b'"),
    "text below bytes": ([b"a", "b"], "bytes, as before, found str 'b'"),
    "text below numbers": ([1, "a"], "numbers, as before, found str 'a'"),
    "array below text": (["a", np.arange(2)], "text, as before, found ndarray"),
    "text below arrays": ([np.arange(2), "a"], "numbers, as before, found str 'a'"),
    "lists": ([[1, 2], ["a", "b"]], "numbers, as before, found list"),
    "none below text": (["a", None], "found "),
}


@pytest.mark.parametrize("mixed", list(MIXED))
def test_kinds_are_not_mixed(mixed):
    values, words = MIXED[mixed]
    with pytest.raises(hr.SchemaMismatch, match=rf"{words}.* - at record 1, feature 'x'"):
        hr.ColumnSource({"x": values})
    with pytest.raises(hr.SchemaMismatch, match=r"record 1, feature 'x'"):
        hr.open([{"x": value} for value in values])
    if isinstance(values[0], (str, bytes)):
        column = np.empty(2, object)
        column[:] = values
        with pytest.raises(hr.SchemaMismatch, match=r"record 1, feature 'x'"):
            hr.ColumnSource({"x": column})


def test_kinds_that_go_together():
    assert hr.ColumnSource({"x": [b"a", bytearray(b"b")]}).batch([1])["x"].tolist() == [b"b"]
    assert hr.ColumnSource({"x": [np.str_("a"), "b"]}).schema == hr.Schema({"x": hr.Feature("str")})
    assert hr.ColumnSource({"x": ["a", "\ud800"]}).batch([1])["x"].tolist() == ["\ud800"]
    assert hr.ColumnSource({"x": [[], ["a"]]}).batch([1])["x"].to_list() == [["a"]]
    assert len(hr.ColumnSource({"x": np.zeros(0, object)})) == 0


@pytest.mark.parametrize(
    "rows",
    [
        [["a", "b\0"], ["c", "d"]],
        [["a\0"], []],
        [[], ["a\0"]],
        [[b"x\0"], [b"y", b"z\0\0"]],
        [[["a\0", "b"], ["\0\0", "c"]], [["d", "e"], ["f", "g\0"]]],
        [[[b"a\0", b"b"]], [[b"\0", b"c"], [b"d", b"e"]]],
        [[["a\0"], ["b"]], [["c", "d\0"]]],
        [[[["a", "b\0"]]], [[["c", "d"]]]],
        [[["a\0", "b"]], []],
    ],
)
def test_lists_of_text_keep_nuls_at_their_end(rows):
    found = stack([{"k": row} for row in rows])["k"]
    assert found.to_list() == rows
    assert hr.open({"k": rows}).batch([0, 1])["k"].to_list() == rows


@pytest.mark.parametrize("row", [["b", 1], [1, "b"], [b"b", 1], ["b", b"b"], [["b", 1.5]]])
def test_a_list_that_mixes_text_and_other_values_is_refused(row):
    with pytest.raises(SchemaMismatch) as caught:
        stack([{"k": row}, {"k": row}])
    assert (caught.value.where.record, caught.value.where.feature) == (0, "k")


def test_text_of_any_width():
    schema = hr.Schema({"a": hr.Feature("U3", (2,)), "b": hr.Feature("S1", (None,)), "c": hr.Feature("int64")})
    assert any_width(schema)["a"] == hr.Feature("str", (2,))
    assert any_width(schema)["b"] == hr.Feature("bytes", (None,))
    assert any_width(schema)["c"] == schema["c"]
    assert any_width(schema, ["b"])["a"] == schema["a"]


LARGE, ODD = 2**63 + 1, 2**53 + 1


@pytest.mark.parametrize("values", [[1, LARGE], [[1], [LARGE]], [[1, LARGE], [2]], [[[1], []], [[LARGE, 2]]]])
def test_large_integers_stay_integers(values):
    for given in ({"x": values}, [{"x": value} for value in values]):
        source = hr.open(given)
        assert source.schema["x"].dtype == "uint64"
        column = source.batch([0, 1])["x"]
        assert (column.to_list() if isinstance(column, Ragged) else column.tolist()) == values
    mapped = hr.ColumnSource({"i": np.arange(2)}).map(lambda example: {"x": values[int(example["i"])]})
    assert mapped.batch([0, 1])["x"].dtype == "uint64"


@pytest.mark.parametrize(
    "values",
    [
        [0.5, ODD],
        [[0.5], [ODD]],
        [[1.5, 2], [ODD, 0.5]],
        [1, 2**64],
        [[], [1, 2**64]],
        [-1, LARGE],
        [[[0.5], []], [[ODD, 1]]],
    ],
)
def test_numbers_that_no_type_holds_together_are_refused(values):
    for given in ({"x": values}, [{"x": value} for value in values]):
        with pytest.raises(hr.SchemaMismatch, match=r"found .* at record 1, feature 'x'"):
            hr.open(given)
    with pytest.raises(hr.SchemaMismatch, match="at most 64 bits"):
        hr.open({"x": np.array([2**64], object)})


def test_lists_of_lists_of_different_lengths():
    rows = [[[1, 2], []], [], [[3], [4]], [[], []]]
    assert hr.open({"x": rows}).schema == hr.Schema({"x": hr.Feature("int64", (None, None))})
    assert stack([{"x": row} for row in rows])["x"].to_list() == rows
    deep = [[[[1], [2, 3]], [[4]]], [[]], [[], [[5, 6]]]]
    assert stack([{"x": row} for row in deep])["x"].to_list() == deep
    assert stack([{"x": row} for row in deep[::-1]])["x"].to_list() == deep[::-1]
    widths = [[[[1, 2]], []], [[[3]]], [[[], []]]]
    column = stack([{"x": row} for row in widths])["x"]
    assert column.to_list() == widths
    assert column.dtype == np.int64
    texts = [[["a"], []], [["b", "ccc"]]]
    assert stack([{"x": row} for row in texts])["x"].to_list() == texts
    ended = [[["a\0"], []], [["b", "ccc"]]]
    assert stack([{"x": row} for row in ended])["x"].to_list() == ended
    vectors = [[np.zeros((2, 3)), np.zeros((1, 3))], [np.zeros((4, 3))]]
    assert stack([{"x": row} for row in vectors])["x"].values.values.shape == (7, 3)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[1, [2]], [[1]]], "lists, all as deep as the others, found 1 - at record 0"),
        ([[[1], []], 5], "lists, all as deep as the others, found 5 - at record 1"),
        ([[[1], []], [5]], "lists, all as deep as the others, found 5 - at record 1"),
        ([[[1], []], [[[1], []]]], "lists, all as deep as the others, found 1 - at record 0"),
        ([[[1], []], [["a"], []]], "numbers, as before, found str .* record 1"),
    ],
)
def test_lists_of_other_depths_or_kinds_are_refused(values, message):
    with pytest.raises(hr.SchemaMismatch, match=message):
        stack([{"x": value} for value in values])


def test_masked_values_are_not_what_is_below_the_mask():
    floats = np.ma.array([1.0, 2.0], mask=[False, True])
    source = hr.ColumnSource({"i": np.arange(2)})
    for made in (source.map(lambda example: {"x": floats}), hr.open([{"x": floats}, {"x": floats.data}])):
        assert np.isnan(made.batch([0])["x"]).tolist() == [[False, True]]
        assert np.isnan(made[0]["x"]).tolist() == [False, True] or isinstance(made[0]["x"], np.ma.MaskedArray)
    assert np.isnan(source.map(lambda example: {"x": np.ma.masked}).batch([0, 1])["x"]).all()
    integers = np.ma.array([1, 2], mask=[False, True])
    with pytest.raises(SchemaMismatch, match=r"masked ones of int64 - at .*record 1, feature 'x'"):
        source.map(lambda example: {"x": integers if example["i"] else integers.data}).batch([0, 1])
    assert source.map(lambda example: {"x": np.ma.array([1, 2])}).batch([0])["x"].tolist() == [[1, 2]]


@pytest.mark.parametrize(
    "dtype", ["f2", "?", "c8", "M8[s]", "m8[ms]", "S4", "U3", ">i4", "V5", "O", [("a", "i4"), ("b", "f8")]]
)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0), (2, 3)])
def test_arrays_of_one_shape_are_stacked_as_by_numpy(dtype, shape):
    for count in (1, 2, 65):
        arrays = [
            np.full(shape, at, dtype) if dtype in ("f2", "O", ">i4") else np.zeros(shape, dtype) for at in range(count)
        ]
        found, wanted = stacking._join(arrays, {array.dtype for array in arrays}, arrays, "x"), np.stack(arrays)
        assert (found.dtype, found.shape, found.tolist()) == (wanted.dtype, wanted.shape, wanted.tolist())
        assert not any(np.shares_memory(found, array) for array in arrays)
    mixed = [np.zeros(shape, np.int8), np.ones(shape, np.float64)]
    assert stack([{"x": array} for array in mixed])["x"].tolist() == np.stack(mixed).tolist()


@pytest.mark.parametrize("shape", [(4, 6, 3), (5, 7)])
def test_a_batch_of_transposed_arrays_keeps_each_together(shape):
    arrays = [np.arange(np.prod(shape), dtype=np.uint8).reshape(shape).T + at for at in range(3)]
    for rows in (arrays, [np.asfortranarray(array) for array in arrays]):
        batch = stack([{"a": row} for row in rows])["a"]
        wanted = np.stack(rows)
        assert (batch.strides, batch.tolist()) == (wanted.strides, wanted.tolist())


def test_none_is_a_missing_value():
    found = stack([{"s": None, "x": None, "v": None}, {"s": "a", "x": np.int64(3), "v": [1, 2]}])
    assert (found["s"].tolist(), found["x"].tolist()) == ([None, "a"], [None, 3])
    assert (found["v"][0], found["v"][1].tolist()) == (None, [1, 2])
    schema = hr.Schema({"s": hr.Feature("str"), "x": hr.Feature("int64"), "v": hr.Feature("int64", (2,))})
    assert schema_of(found) == schema
    with pytest.raises(hr.SchemaMismatch, match=r"text, as before, found int 1 - at record 2, feature 'x'"):
        stack([{"x": None}, {"x": "a"}, {"x": 1}])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([sp.csr_array([[0, 1]]), 2.5], "expected sparse rows, as before, found float 2.5"),
        ([sp.csr_array([[0, 1]]), [1, 2]], "expected sparse rows, as before, found list"),
        ([1.5, np.datetime64("2020-01-01")], "expected numbers, as before, found datetime64"),
        ([np.datetime64("2020-01-01"), np.timedelta64(3, "D")], "expected times, as before, found timedelta64"),
        ([np.timedelta64(3, "D"), np.datetime64("2020-01-01")], "expected durations, as before, found datetime64"),
        ([np.datetime64("9999-12-31"), np.datetime64("2020-01-01", "as")], "expected times that one unit holds"),
        ([np.zeros(2, [("a", "i4")]), np.zeros(2)], r"as before, found float64"),
        ([np.zeros(2, [("a", "i4")]), np.zeros(3)], r"as before, found float64"),
        ([np.zeros(1, [("a", "i4")]), np.zeros(1, [("b", "i4")])], r"as before, found .*'b'"),
        ([np.datetime64("2020-01-01"), 3], "expected times, as before, found int 3"),
        ([[np.datetime64("2020-01-01")], [1, 2]], "expected times, as before, found list"),
    ],
)
def test_values_of_several_kinds_are_refused(values, expected):
    with pytest.raises(hr.SchemaMismatch, match=f"{expected}.* at record 1, feature 'x'"):
        stack([{"x": value} for value in values])


@pytest.mark.parametrize(
    ("kept", "added", "dtype"),
    [
        ([1, 2], [0.5, 1], "float64"),
        ([[1], [2]], [[0.5], [1]], "float64"),
        ([[1], [2, 3]], [[0.5], [1, 2]], "float64"),
        ([0.5, 1], [1, 2], "float64"),
        (np.zeros(2, np.float32), [1, 2], "float32"),
        ([[1], [2, 3]], [[], []], "int64"),
        ([True, False], [0.5, 1], "bool"),
    ],
)
def test_integers_beside_floats_become_floats(kept, added, dtype):
    first, second = (stack([{"x": value} for value in values]) for values in (kept, added))
    assert widen(schema_of(first), second)["x"].dtype == dtype


@pytest.mark.parametrize("name", ["x.parquet", "x.jsonl@2", "x.tfrecord", "x.avro"])
def test_a_function_that_gives_integers_and_floats_writes_floats(tmp_path, name):
    source = hr.ColumnSource({"at": np.arange(40)})
    mapped = source.map(lambda example: {"x": [1, 2.5][: 1 + example["at"] % 2], "y": 1 if example["at"] < 20 else 0.5})
    hr.write(tmp_path / name, mapped)
    found = hr.open(tmp_path / name).batch([0, 1, 39])
    assert (found["x"].to_list(), found["y"].tolist()) == ([[1], [1, 2.5], [1, 2.5]], [1, 1, 0.5])
    assert mapped.to_arrow()["y"].to_pylist() == [1.0] * 20 + [0.5] * 20
    large = source.map(lambda example: {"y": 2**53 + 1 if example["at"] < 20 else 0.5})
    with pytest.raises(hr.SchemaMismatch, match="9007199254740993"):
        hr.write(tmp_path / f"large {name}", large)


BUFFERS = [bytearray(b"x\xff"), b"y", memoryview(b"\xfez")]


@pytest.mark.parametrize("values", [BUFFERS, BUFFERS[::-1], [BUFFERS[:1], BUFFERS[1:], []], [BUFFERS, BUFFERS[::-1]]])
def test_buffers_are_bytes(values):
    """NumPy takes them for numbers."""

    def plain(value):
        return list(map(plain, value)) if isinstance(value, list) else bytes(value)

    column = stack([{"a": value} for value in values])["a"]
    assert (column.values if isinstance(column, Ragged) else column).is_text is False
    assert [list(map(bytes, row)) if isinstance(row, Strings) else row for row in column] == plain(values)


def test_buffers_of_numbers_are_arrays():
    column = stack([{"a": memoryview(np.ones(2, np.float32))}, {"a": memoryview(np.zeros(2, np.float32))}])["a"]
    assert column.tolist() == [[1, 1], [0, 0]]
    assert stack([{"a": [np.uint8(3), np.uint8(4)]}])["a"].dtype == np.uint8


FAR, SOON = np.datetime64("9999-12-31", "D"), np.datetime64("2020-01-01", "ns")


@pytest.mark.parametrize("values", [[SOON, FAR], [[SOON], [FAR]], [[SOON, SOON], [FAR]], [[SOON], [SOON, FAR]]])
def test_times_keep_their_values_whatever_their_units(tmp_path, values):
    """NumPy takes the finest unit, which does not reach all times of the others."""
    rows = [{"t": value} for value in values]
    makers = [
        lambda: hr.open(rows),
        lambda: hr.ColumnSource({"t": values}),
        lambda: hr.ColumnSource({"i": np.arange(2)}).map(lambda example: rows[example["i"]]),
        lambda: hr.from_generator(lambda: iter(rows)),
        lambda: hr.write(tmp_path / "x.parquet", rows),
    ]
    for make in makers:
        with pytest.raises(hr.SchemaMismatch, match=r"one unit holds, found 9999-12-31 .*record 1, feature 't'"):
            make().batch([0, 1])
    assert not (tmp_path / "x.parquet").exists()
    near = [{"t": np.datetime64("2020-01-01", "D")}, {"t": SOON}, {"t": np.datetime64("NaT", "s")}]
    assert stack(near)["t"].astype(str).tolist() == ["2020-01-01T00:00:00.000000000"] * 2 + ["NaT"]
    assert stack([{"t": [FAR]}, {"t": []}])["t"].to_list() == [[FAR.item()], []]
