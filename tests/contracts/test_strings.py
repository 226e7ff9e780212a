"""Columns of text and bytes: like object arrays, without objects."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr

texts = st.text(st.characters(codec="utf-8"), max_size=40)
values = st.one_of(st.lists(texts, max_size=20), st.lists(st.binary(max_size=40), max_size=20))


def objects(items, shape=None):
    out = np.empty(len(items), object)
    out[:] = items
    return out if shape is None else out.reshape(shape)


def same(column, expected):
    """Whether a column holds what an object array holds, of the same shape and types."""
    array = np.asarray(column)
    types = [type(value) for value in array.reshape(-1)]
    return (
        column.shape == expected.shape == array.shape
        and column.tolist() == expected.tolist() == array.tolist()
        and types == [type(value) for value in expected.reshape(-1)]
    )


@given(values)
def test_values_come_back(items):
    column = hr.Strings.from_values(items)
    expected = objects(items)
    assert same(column, expected)
    assert list(column) == items
    assert len(column) == len(items) == column.size
    assert [column[i] for i in range(len(items))] == items
    assert [column[i - len(items)] for i in range(len(items))] == items
    assert column.ndim == 1
    assert column.dtype == object
    assert (column == column).all()
    assert not (column != column).any()
    assert same(hr.Strings(column.data, column.offsets, is_text=column.is_text), expected)


@given(values, st.data())
def test_indexing_is_that_of_object_arrays(items, data):
    column, expected = hr.Strings.from_values(items), objects(items)
    n = len(items)
    for index in (np.array(True), np.array(False)):
        assert same(column[index], expected[index])
    if n:
        assert column[np.array(n - 1)] == column[np.array(-1, np.int8)] == items[-1]
    part = data.draw(st.slices(n))
    assert same(column[part], expected[part])
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)), bool)
    assert same(column[mask], expected[mask])
    rows = data.draw(st.lists(st.integers(-n, n - 1), max_size=30)) if n else []
    for given_rows in (rows, np.array(rows, np.int64), np.array(rows, np.int8)):
        assert same(column[given_rows], expected[np.array(rows, np.int64)])
    assert same(column.take(rows), expected[np.array(rows, np.int64)])
    # The same of a view whose offsets begin above 0.
    cut = column[1:]
    kept = [row for row in rows if 0 <= row < len(cut)]
    assert same(cut[kept], expected[1:][np.array(kept, np.int64)])
    assert same(cut[::-1], expected[1:][::-1])


@given(st.integers(0, 4), st.integers(0, 4), st.integers(0, 3), st.data())
def test_columns_of_several_axes(n, rows, width, data):
    items = data.draw(st.lists(texts, min_size=n * rows * width, max_size=n * rows * width))
    expected = objects(items, (n, rows, width))
    column = hr.Strings.from_values(items, is_text=True).reshape(n, rows, width)
    assert same(column, expected)
    assert column.ndim == 3
    assert same(column.reshape(-1), expected.reshape(-1))
    assert same(column[1:], expected[1:])
    for index in (np.array(True), np.array(False)):
        assert same(column[index], expected[index])
    assert all((item in column) == (item in items) for item in [*items[:3], "no such text", b"", None])
    assert same(column[:, ::-1, :1], expected[:, ::-1, :1])
    assert same(column[..., None, :], expected[..., None, :])
    order = np.array([i for i in range(n) for _ in range(2)], np.int64)
    assert same(column[order], expected[order])
    assert same(column.take(order - n), expected[order - n] if n else expected[order])
    if items:
        assert same(column[n - 1], expected[n - 1])
        assert same(column[-1, 0], expected[-1, 0])
        assert column[n - 1, rows - 1, width - 1] == items[-1]
        assert [row.tolist() for row in column] == expected.tolist()
    mask = expected == (items[0] if items else "")
    assert np.array_equal(column == (items[0] if items else ""), mask)
    assert same(column[mask], expected[mask])


@given(values, values)
def test_comparing(items, others):
    column = hr.Strings.from_values(items)
    for other in [*items[:2], *others[:2], None, 3]:  # value by value: NumPy drops zero bytes at the end of `other`
        equal = np.array([item == other for item in items], bool)
        assert np.array_equal(column == other, equal)
        assert np.array_equal(column != other, ~equal)
    n = min(len(items), len(others))
    a, b = column[:n], hr.Strings.from_values(others)[:n]
    assert np.array_equal(a == b, objects(items[:n]) == objects(others[:n]))
    assert np.array_equal(a == others[:n], a == b)
    assert np.array_equal(a == objects(others[:n]), a == b)
    assert np.array_equal(objects(items[:n]) == b, a == b)


@given(st.lists(st.lists(texts, max_size=5), min_size=1, max_size=5))
def test_concatenating(parts):
    columns = [hr.Strings.from_values(part, is_text=True) for part in parts]
    whole = [text for part in parts for text in part]
    assert same(hr.Strings.concatenate(columns), objects(whole))
    shifted = [hr.Strings.concatenate([columns[0], column])[len(columns[0]) :] for column in columns]
    assert same(hr.Strings.concatenate(shifted), objects(whole))


def test_columns_that_cannot_be_concatenated():
    text, raw = hr.Strings.from_values(["a"]), hr.Strings.from_values([b"a"])
    for columns in ([], [text, raw], [text, text.reshape(1, 1)]):
        with pytest.raises(ValueError, match="one kind and inner shape"):
            hr.Strings.concatenate(columns)


@given(values, st.integers(0, 5), st.sampled_from([2, 4, 5]))
def test_pickling(items, start, protocol):
    column = hr.Strings.from_values(items)[start:]
    buffers = []
    callback = {"buffer_callback": buffers.append} if protocol == 5 else {}
    stored = pickle.dumps(column, protocol, **callback)
    back = pickle.loads(stored, buffers=buffers)
    assert same(back, objects(items[start:]))
    assert back.is_text == column.is_text
    assert len(buffers) == (2 if protocol == 5 else 0)
    for again in (copy.copy(column), copy.deepcopy(column)):
        assert same(again, objects(items[start:]))


def test_a_pickled_slice_holds_only_its_own_bytes():
    column = hr.Strings.from_values(["x" * 10_000, "y"])
    assert len(pickle.dumps(column[1:])) < 1000
    assert pickle.loads(pickle.dumps(column[1:].reshape(1, 1))).tolist() == [["y"]]


@pytest.mark.parametrize(
    ("data", "offsets", "message"),
    [
        (b"abc", [0, 4], "end by 3"),
        (b"abc", [0, 2, 1], "do not fall"),
        (b"abc", [-1, 2], "do not fall"),
        (b"abc", [2**63 - 1, 2], "do not fall"),
        (b"abc", [0, -(2**63)], "do not fall"),
        (b"abc", [4], "end by 3"),
        (b"abc", [], "found none"),
        (b"abc", [[0, 1]], "one axis"),
        (b"abc", [0.5, 1], "found float64"),
        (b"a\xffc", [0, 1, 3], "UTF-8 text, found the bytes b'\\\\xffc' in value 1"),
        ("ü".encode(), [0, 1, 2], "UTF-8 text"),
    ],
)
def test_hostile_parts(data, offsets, message):
    with pytest.raises(ValueError, match=message):
        hr.Strings(data, offsets or np.zeros(0, np.int64), is_text=True)


def test_offsets_that_change_later_are_found():
    offsets = np.array([0, 2, 4], np.int64)
    column = hr.Strings(b"abcd", offsets, is_text=False)
    offsets[1] = 2**40
    for use in (
        lambda: column.take([0]),
        column.tolist,
        lambda: column == b"a",
        lambda: column == column.reshape(2),
        lambda: column.hash_buckets(3),
    ):
        with pytest.raises((ValueError, IndexError)):
            use()


def test_parts_are_not_copied():
    data, offsets = np.frombuffer(b"abcdef", np.uint8), np.array([1, 3, 6], np.int64)
    column = hr.Strings(data, offsets, is_text=True, shape=(2, 1))
    assert column.tolist() == [["bc"], ["def"]]
    assert np.shares_memory(column.data, data)
    assert np.shares_memory(column.offsets, offsets)
    assert np.shares_memory(column[1:].data, data)
    assert column.content.tobytes() == b"bcdef"
    assert column.nbytes == 5 + 24
    assert column.lengths.tolist() == [[2], [3]]


def test_read_only():
    column = hr.Strings.from_values(["a"])
    with pytest.raises(AttributeError, match="read-only"):
        column.shape = (1, 1)
    with pytest.raises(TypeError):
        column[0] = "b"
    with pytest.raises(TypeError, match="unhashable"):
        hash(column)


def test_the_arrays_of_a_column_are_read_only():
    made = hr.Strings.from_values(["a", "bc"])  # by native code, which fills its own memory
    sliced = made[1:]
    for column in (
        made,
        sliced,
        made.take([1]),
        hr.Strings.concatenate([made, sliced]),
        pickle.loads(pickle.dumps(made)),
    ):
        for array in (column.data, column.offsets, column.content):
            assert not array.flags.writeable
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0
    assert np.shares_memory(sliced.data, made.data)
    assert np.shares_memory(made.offsets, made.offsets)
    assert made.to_arrow().buffers()[1].is_mutable is False


def test_offsets_that_changed_do_not_reach_arrow():
    offsets = np.array([0, 1, 3])
    column = hr.Strings(b"abc", offsets, is_text=False)
    assert column.to_arrow().to_pylist() == [b"a", b"bc"]
    for wrong in ([0, 1, 4], [2, 1, 3], [-1, 1, 3]):
        offsets[:] = wrong
        with pytest.raises(ValueError, match="offsets as they were"):
            column.to_arrow()


def test_shapes():
    column = hr.Strings.from_values(list("abcdef"))
    assert column.reshape(2, -1).shape == column.reshape((2, 3)).shape == (2, 3)
    assert column.reshape(-1, 1, 6)[0, 0, 5] == "f"
    for wrong in ((4,), (4, -1), ()):
        with pytest.raises(ValueError, match=r"reshape|axis"):
            column.reshape(wrong)
    with pytest.raises(ValueError, match="reshape"):
        hr.Strings(b"ab", [0, 1, 2], is_text=True, shape=(3,))
    assert hr.Strings(b"", [0], is_text=True, shape=(0, 5)).tolist() == []
    assert hr.Strings(b"", [0], is_text=True, shape=(2, 0)).tolist() == [[], []]


def test_rows_outside():
    column = hr.Strings.from_values(["a", "b"])
    for index in (2, -3, [0, 2], np.array([-3]), [2**40]):
        with pytest.raises(IndexError, match="of 2"):
            column[index]
    with pytest.raises(IndexError, match="of 1"):
        column.reshape(1, 2).take([1])
    with pytest.raises(TypeError, match="positions must be integers, got float64"):
        column.take([0.5])
    with pytest.raises(IndexError, match="row 18446744073709551615 of 2"):
        column.take(np.array([2**64 - 1], np.uint64))
    with pytest.raises(IndexError):
        column[np.array([True])]
    with pytest.raises(IndexError):
        column["a"]
    with pytest.raises(IndexError):
        hr.Strings.from_values([])[0]


def test_kinds_of_values():
    assert hr.Strings.from_values([]).is_text
    assert not hr.Strings.from_values([], is_text=False).is_text
    assert hr.Strings.from_values(["é", b"\xc3\xa9", bytearray(b"e")], is_text=True).tolist() == ["é", "é", "e"]
    assert hr.Strings.from_values(["é", b"\xff"], is_text=False).tolist() == [b"\xc3\xa9", b"\xff"]
    assert hr.Strings.from_values(np.array(["a", "bc"])).tolist() == ["a", "bc"]
    assert hr.Strings.from_values([["a", "b"], ("c", "d")]).shape == (2, 2)
    assert hr.Strings.from_values(c for c in "abc").tolist() == ["a", "b", "c"]
    column = hr.Strings.from_values(["a"])
    assert hr.Strings.from_values(column) is column
    assert hr.Strings.from_values(column, is_text=False).tolist() == [b"a"]
    assert hr.Strings.from_values(["a\0b\0", "\0"]).tolist() == ["a\0b\0", "\0"]
    for values, error, message in [
        ([1], TypeError, "found int 1 at 0"),
        ([None], TypeError, "found NoneType None"),
        (["a", b"b"], TypeError, "expected str as before, found b'b' at 1"),
        ([b"a", "b"], TypeError, "expected bytes as before"),
        (["\ud800"], ValueError, "UTF-8 text, found .* at 0"),
        ([["a"], ["b", "c"]], ValueError, "one shape"),
        (np.array("a"), ValueError, "at least one axis, found the single array"),
    ]:
        with pytest.raises(error, match=message):
            hr.Strings.from_values(values)
    with pytest.raises(ValueError, match="at 1"):
        hr.Strings.from_values(["a", b"\xff"], is_text=True)
    with pytest.raises(TypeError, match="found int 3 at 0"):
        hr.Strings.from_values([3], is_text=True)


def test_arrays_and_how_it_looks():
    column = hr.Strings.from_values(["a", "bc"])
    assert np.asarray(column, "U").dtype == "<U2"
    assert np.array(column).tolist() == ["a", "bc"]
    with pytest.raises(ValueError, match="copy"):
        np.asarray(column, copy=False)
    assert repr(column) == "Strings(['a', 'bc'])"
    assert repr(hr.Strings.from_values([b"x"] * 100)) == "Strings(bytes of shape (100,), 908 bytes)"
    assert "bc" in column
    assert column.index("bc") == 1
    assert list(reversed(column)) == ["bc", "a"]
    assert list(hr.Strings.from_values(["v"] * 10_000)) == ["v"] * 10_000


# Made with xxhash 4.1.0 (PyPI).
@pytest.mark.parametrize(
    ("value", "seed", "n", "bucket"),
    [
        (b"", 0, 2**63 - 1, 0xEF46DB3751D8E999 % (2**63 - 1)),
        (b"abc", 0, 1_000_003, 0x44BC2CF5AD770999 % 1_000_003),
        ("é", 7, 2**63 - 1, 8194404854845125458),
        (b"x" * 100, 2**64 - 1, 2**63 - 1, 4527856796442260970),
        (b"x", 0, 1, 0),
    ],
)
def test_buckets_are_those_of_xxhash(value, seed, n, bucket):
    column = hr.Strings.from_values([value, value]).reshape(2, 1)
    buckets = column.hash_buckets(n, seed)
    assert buckets.dtype == np.int64
    assert buckets.tolist() == [[bucket], [bucket]]


def test_buckets_and_seeds_outside():
    column = hr.Strings.from_values(["a"])
    for n, seed in ((0, 0), (-1, 0), (2**63, 0), (5, -1), (5, 2**64)):
        with pytest.raises(ValueError, match="at (least|most)"):
            column.hash_buckets(n, seed)
    for n, seed in ((1.5, 0), (np.float64(7.9), 0), (10, 1.5), (True, 0), ("3", 0)):
        with pytest.raises(TypeError, match="must be an integer"):
            column.hash_buckets(n, seed)
    assert column.hash_buckets(np.uint8(200), np.int64(3)) == column.hash_buckets(200, 3)
    assert hr.Strings.from_values([]).hash_buckets(3).shape == (0,)


@given(values, st.integers(0, 3))
def test_arrow_round_trip(items, start):
    pa = pytest.importorskip("pyarrow")
    column = hr.Strings.from_values(items)[start:]
    array = column.to_arrow()
    array.validate(full=True)
    assert array.type == (pa.large_string() if column.is_text else pa.large_binary())
    assert array.to_pylist() == items[start:]
    assert same(hr.Strings.from_arrow(array), objects(items[start:]))
    assert same(hr.Strings.from_arrow(array[1:]), objects(items[start:][1:]))
    small = array.cast(pa.string() if column.is_text else pa.binary())
    assert same(hr.Strings.from_arrow(small[1:]), objects(items[start:][1:]))
    assert same(hr.Strings.from_arrow(small.dictionary_encode()), objects(items[start:]))
    assert same(hr.Strings.from_arrow(pa.chunked_array([small, small])), objects(items[start:] * 2))
    assert pa.array(column).equals(array)
    assert pa.array(column, small.type).equals(small)


def test_arrow_shares_memory():
    pa = pytest.importorskip("pyarrow")
    column = hr.Strings.from_values(["abc", "de", "f"])[1:]
    array = column.to_arrow()
    _, offsets, data = array.buffers()
    assert offsets.address == column.offsets.ctypes.data
    assert data.address == column.data.ctypes.data
    back = hr.Strings.from_arrow(array)
    assert back.data.ctypes.data == data.address
    assert hr.Strings.from_arrow(pa.array(["a", "b"])).data.ctypes.data != 0
    assert pa.table({"x": column})["x"].to_pylist() == ["de", "f"]


def test_arrow_lists_and_refusals():
    pa = pytest.importorskip("pyarrow")
    column = hr.Strings.from_values(list("abcdef")).reshape(3, 1, 2)
    array = column.to_arrow()
    assert array.to_pylist() == [[["a", "b"]], [["c", "d"]], [["e", "f"]]]
    assert hr.Strings.from_arrow(array).shape == (3, 1, 2)
    assert hr.Strings.from_arrow(array[1:]).tolist() == column[1:].tolist()
    assert hr.Strings.from_values([]).reshape(0, 2).to_arrow().to_pylist() == []
    assert hr.Strings(b"", [0], is_text=True, shape=(2, 0)).to_arrow().to_pylist() == [[], []]
    fixed = pa.array([b"ab", b"cd"], pa.binary(2))
    assert hr.Strings.from_arrow(fixed).tolist() == [b"ab", b"cd"]
    assert hr.Strings.from_arrow(pa.chunked_array([], pa.string())).shape == (0,)
    assert hr.Strings.from_arrow(pa.array([], pa.string())).shape == (0,)
    with pytest.raises(ValueError, match="no nulls, found 1"):
        hr.Strings.from_arrow(pa.array(["a", None]))
    with pytest.raises(TypeError, match="found int64"):
        hr.Strings.from_arrow(pa.array([1]))
    broken = pa.Array.from_buffers(
        pa.large_string(), 1, [None, pa.py_buffer(np.array([0, 2])), pa.py_buffer(b"\xff\xff")]
    )
    with pytest.raises(ValueError, match="UTF-8"):
        hr.Strings.from_arrow(broken)


def test_ragged_rows_of_text():
    rows = hr.Ragged.from_list([["a", "b"], [], ["c"]], object)
    assert isinstance(rows.values, hr.Strings)
    assert rows.to_list() == [["a", "b"], [], ["c"]]
    assert isinstance(rows[0], hr.Strings)
    assert rows[1:].to_list() == [[], ["c"]]
    assert rows.take(np.array([2, 0])).to_list() == [["c"], ["a", "b"]]
    padded = rows.to_padded("-")
    assert isinstance(padded, hr.Strings)
    assert padded.tolist() == [["a", "b"], ["-", "-"], ["c", "-"]]
    assert rows.to_padded().tolist() == [["a", "b"], ["", ""], ["c", ""]]
    for fill in (0, b"-"):
        with pytest.raises(TypeError, match=f"fill must be str among str, got {fill!r}"):
            rows.to_padded(fill)
    assert hr.Ragged.from_list([["a", b"b"]], object).to_list() == [["a", b"b"]]
    assert hr.Ragged.from_list([["\ud800"]], object).to_list() == [["\ud800"]]


def test_values_are_compared_with_all_kinds_of_bytes():
    column = hr.Strings.from_values([b"a", b"ab", b""])
    for value in (b"ab", b"a", b"", b"abc"):
        expected = [item == value for item in column]
        for other in (
            value,
            bytearray(value),
            memoryview(value),
            memoryview(b"-".join([value, b""]) + value)[len(value) + 1 :],
        ):
            assert (column == other).tolist() == expected
            assert (column != other).tolist() == [not same for same in expected]
            assert (other in column) == any(expected)
    assert not (hr.Strings.from_values(["a"]) == bytearray(b"a")).any()


def test_nested_arrow_arrays_of_bytes_are_refused():
    pa = pytest.importorskip("pyarrow")
    nested = (
        pa.array([[b"a"]], pa.list_(pa.binary())),
        pa.array([{"binary": b"x"}]),
        pa.array([[("string", b"x")]], pa.map_(pa.string(), pa.binary())),
    )
    for array in nested:
        with pytest.raises(TypeError, match="expected an Arrow array of text or bytes, found"):
            hr.Strings.from_arrow(array)
    for kind in (pa.binary(), pa.large_binary(), pa.binary(2), pa.binary_view()):
        assert hr.Strings.from_arrow(pa.array([b"ab", b"cd"], kind)).to_list() == [b"ab", b"cd"]
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        assert hr.Strings.from_arrow(pa.array(["ab", "c"], kind)).to_list() == ["ab", "c"]
    with pytest.raises(TypeError, match="expected an Arrow array of text or bytes, found decimal"):
        hr.Strings.from_arrow(pa.array([1], pa.decimal128(5)))


def test_a_text_among_lists_is_not_cut_into_characters():
    for rows in ([["ab", "c"], "xy"], [[b"ab", b"c"], b"xy"], [["a"], None], [["a"], ["b", "c"]]):
        with pytest.raises(ValueError, match=r"expected rows of one shape, \(\d,\) as at 0, found \(.*\) at 1: "):
            hr.Strings.from_values(rows)
    for value in ("ab", b"ab", None):
        with pytest.raises(ValueError, match="put it into a list"):
            hr.Strings.from_values(value)
    assert hr.Strings.from_values(character for character in "ab").tolist() == ["a", "b"]


def test_an_ellipsis_gives_values_and_columns_as_in_numpy():
    column = hr.Strings.from_values(["one", "two", "three", "four"])
    assert column[1, ...] == column[..., 1] == column.reshape(2, 2)[0, 1, ...] == "two"
    assert type(column[1, ...]) is str
    assert column[..., 1:3].tolist() == ["two", "three"]
    assert column.reshape(2, 2)[..., 1].tolist() == ["two", "four"]


def test_series_become_columns():
    pd = pytest.importorskip("pandas", minversion="3")
    pa = pytest.importorskip("pyarrow")
    text = pd.Series(["a", "b"])
    assert hr.Strings.from_arrow(text).tolist() == ["a", "b"]
    assert hr.Strings.from_arrow(pd.concat([text, pd.Series(["c"])])).tolist() == ["a", "b", "c"]
    assert hr.Strings.from_arrow(pd.Series([], dtype="str")).tolist() == []
    assert hr.Strings.from_arrow(text.astype("category")).tolist() == ["a", "b"]

    class Series:
        """As of Polars, whose values alone do not show the type where there are none."""

        def __iter__(self):
            return iter(())

        def to_arrow(self):
            return pa.array([], pa.large_string())

    assert hr.Strings.from_arrow(Series()).shape == (0,)
    with pytest.raises(TypeError, match="found Table: pass one column"):
        hr.Strings.from_arrow(hr.ColumnSource({"x": ["a"]}))


def test_series_of_polars_become_columns():
    pl = pytest.importorskip("polars")
    for series in (pl.Series(["a", "b"]), pl.Series(["a", "b"], dtype=pl.Categorical)):
        assert hr.Strings.from_arrow(series).tolist() == ["a", "b"]
        assert hr.Strings.from_arrow(series[:0]).tolist() == []


def test_a_null_in_a_dictionary_counts_where_a_row_has_it():
    pa = pytest.importorskip("pyarrow")
    words = pa.array(["a", "b", None])
    assert hr.Strings.from_arrow(pa.DictionaryArray.from_arrays(pa.array([0, 1, 1]), words)).tolist() == ["a", "b", "b"]
    with pytest.raises(ValueError, match="expected no nulls, found 1"):
        hr.Strings.from_arrow(pa.DictionaryArray.from_arrays(pa.array([0, 2]), words))
