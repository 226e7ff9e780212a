import collections
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.loading.fakes import Numbers

import headrace as hr
from headrace import _native
from headrace.contracts import values as values_module
from headrace.contracts.strings import Strings
from headrace.contracts.values import (
    POOLED_BYTES,
    Ragged,
    bytes_of,
    columns_of,
    copy_pooled,
    cut_batch,
    join,
    list_examples,
    pad_rows,
    stack_plain,
    take_rows,
)

ROWS = st.lists(st.lists(st.integers(-9, 9), max_size=4), max_size=6)


@given(ROWS)
def test_lists_round_trip(rows):
    assert Ragged.from_list(rows, np.int64).to_list() == rows


@given(ROWS, st.data())
def test_slices_and_takes_are_those_of_a_list(rows, data):
    ragged = Ragged.from_list(rows, np.int64)
    start, stop = data.draw(st.integers(-7, 7)), data.draw(st.integers(-7, 7))
    assert ragged[start:stop].to_list() == rows[start:stop]
    if rows:
        picks = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=8))
        assert ragged.take(np.array(picks, np.int64)).to_list() == [rows[i] for i in picks]
        assert [row.tolist() for row in ragged] == rows


@given(st.lists(ROWS, max_size=4))
def test_nested_rows(rows):
    inner = Ragged.from_list([row for outer in rows for row in outer], np.int64)
    offsets = np.cumsum([0, *map(len, rows)])
    ragged = Ragged(inner, offsets)
    assert ragged.to_list() == rows
    order = np.arange(len(rows))[::-1]
    assert ragged.take(order).to_list() == rows[::-1]


@given(ROWS, st.data())
def test_positions_are_those_of_numpy(rows, data):
    ragged, n = Ragged.from_list(rows, np.int64), len(rows)
    texts = Ragged.from_list([list(map(str, row)) for row in rows], object)
    picks = data.draw(st.lists(st.integers(-n, n - 1), max_size=8)) if n else []
    expected = [rows[i] for i in picks]
    assert ragged.take(picks).to_list() == ragged.take(np.array(picks, np.int8)).to_list() == expected
    assert ragged.take(np.array(picks, ">i8")).to_list() == expected
    if picks:
        assert texts.take(picks).to_list() == [list(map(str, row)) for row in expected]
    for outside in (n, -n - 1):
        with pytest.raises(IndexError, match=f"row {outside} of {n}"):
            ragged.take([outside])
    with pytest.raises(TypeError, match="positions must be integers, got float64"):
        ragged.take([0.5])


def test_a_row_has_a_whole_number():
    ragged = Ragged.from_list([[1], [2]])
    for index in (1.5, [0, 1], np.array([True, False])):
        with pytest.raises(TypeError, match=r"expected an integer or a slice, found .*: ragged.take"):
            ragged[index]
    with pytest.raises(ValueError, match=r"step 1 only, got 2: ragged.take\(range"):
        ragged[::2]
    assert ragged[np.int64(-1)].tolist() == ragged[True].tolist() == [2]
    assert ragged.take(1).to_list() == [[2]]


def test_padding():
    ragged = Ragged.from_list([[[1, 2]], [], [[3, 4], [5, 6]]], np.int64)
    assert ragged.to_padded(-1).tolist() == [[[1, 2], [-1, -1]], [[-1, -1], [-1, -1]], [[3, 4], [5, 6]]]


@pytest.mark.parametrize("offsets", [[], [0, 2], [1, 3], [0, 4]])
def test_offsets_must_cover_the_values(offsets):
    with pytest.raises(ValueError, match="offsets must run from 0 to 3"):
        Ragged(np.arange(3), np.array(offsets, np.int64))


@pytest.mark.parametrize("offsets", [[0, 5, 3], [0, 10**9, 3], [0, -(10**9), 3], [0, 2, 1, 3]])
@pytest.mark.parametrize("dtype", [np.int64, ">i8", object])
def test_offsets_must_not_fall(offsets, dtype):
    """Native code trusts them: Parquet files of such rows ended the process, and JSON Lines held other ones."""
    given = offsets if dtype is object else np.array(offsets, dtype)
    with pytest.raises(
        ValueError, match=r"offsets must run from 0 to 3 without falling, found \[-?\d+, -?\d+\] for row"
    ):
        Ragged(np.arange(3), given)


@pytest.mark.parametrize("values", [np.arange(3), Strings.from_values(list("abc")), Ragged(np.arange(2), [0, 1, 1, 2])])
@pytest.mark.parametrize("dtype", ["u1", "i4", "u8", ">i8"])
def test_offsets_of_other_integers_become_int64(values, dtype):
    for offsets in ([0, 1, 3], np.array([0, 1, 3], dtype), np.array([0, 9, 1, 9, 3, 9], dtype)[::2]):
        column = Ragged(values, offsets)
        assert column.offsets.dtype == np.int64
        assert column.offsets.dtype.isnative
        assert column.to_list() == Ragged(values, np.array([0, 1, 3])).to_list()
    with pytest.raises(ValueError, match="offsets must run from 0 to 3"):
        Ragged(values, np.array([0, 255, 3], dtype))


@pytest.mark.parametrize("offsets", [[0.0, 3.0], ["0", "3"], [False, True], [[0, 3]], 3, None, np.array([0, 3], "f4")])
def test_offsets_are_integers(offsets):
    with pytest.raises(ValueError, match="expected offsets of int64 in one axis, found"):
        Ragged(np.arange(3), offsets)


@given(st.lists(st.integers(-4, 5), max_size=6))
def test_offsets_are_checked_like_those_of_lists(offsets):
    sound = bool(offsets) and offsets[0] == 0 and offsets[-1] == 3 and sorted(offsets) == offsets
    try:
        Ragged(np.arange(3), np.array(offsets, np.int64))
    except ValueError:
        assert not sound
    else:
        assert sound


def test_row_out_of_range():
    with pytest.raises(IndexError):
        Ragged.from_list([[1]], np.int64)[1]


@given(st.lists(ROWS, min_size=1, max_size=4))
def test_ragged_columns_of_batches_are_joined(batches):
    columns = [Ragged.from_list(rows, np.int64) for rows in batches]
    assert join(columns).to_list() == [row for rows in batches for row in rows]


def test_columns_of_any_kind_are_joined():
    dense = np.arange(4).reshape(2, 2)
    assert join([dense]) is dense
    assert join([dense, dense + 4]).tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert join([[b"a"], [b"b", b"c"]]) == [b"a", b"b", b"c"]
    assert join([["a"], np.array(["b"], object)]) == ["a", "b"]


def test_rows_of_different_lengths_become_ragged():
    two, three = np.array([[1, 2], [3, 4]]), np.array([[5, 6, 7]])
    assert join([two, three]).to_list() == [[1, 2], [3, 4], [5, 6, 7]]
    assert join([two, Ragged.from_list([[], [8]], np.int64)]).to_list() == [[1, 2], [3, 4], [], [8]]
    assert join([Ragged.from_list([[8]], np.int64), two]).to_list() == [[8], [1, 2], [3, 4]]
    empty = join([np.zeros((3, 2, 0)), np.zeros((1, 1, 0)), np.zeros((2, 0, 0))])
    assert [row.shape for row in empty] == [(2, 0)] * 3 + [(1, 0)] + [(0, 0)] * 2
    matrices = [np.zeros((1, 2, 3)), np.ones((1, 1, 3))]
    assert join(matrices).to_list() == [[[0] * 3] * 2, [[1] * 3]]


def test_sparse_columns_stay_sparse():
    sparse = pytest.importorskip("scipy.sparse")
    parts = [sparse.csr_array(np.array(rows)) for rows in ([[0, 1], [0, 0]], [[2, 0]], [[0, 0]])]
    joined = join(parts)
    assert isinstance(joined, sparse.csr_array)
    assert joined.toarray().tolist() == [[0, 1], [0, 0], [2, 0], [0, 0]]


def test_rows_are_taken_from_any_column():
    order = np.array([2, 0], np.int64)
    assert take_rows(["a", "b", "c"], order) == ["c", "a"]
    assert take_rows(np.array([5, 6, 7]), order).tolist() == [7, 5]
    assert take_rows(Ragged.from_list([[1], [], [2, 3]], np.int64), order).to_list() == [[2, 3], [1]]


def test_rows_count_from_the_end_too():
    ragged = Ragged.from_list([[1], [2, 3]], np.int64)
    assert ragged[-1].tolist() == [2, 3]
    for row in (2, -3):
        with pytest.raises(IndexError, match=f"^row {row} of 2$"):
            ragged[row]
    with pytest.raises(ValueError, match="step 1 only, got 2"):
        ragged[::2]


def test_flags_are_no_positions():
    """They were taken for the positions 1 and 0."""
    for column in (Ragged.from_list([[1], [2, 3]], np.int64), Strings.from_values(["a", "b"])):
        for flags in ([True, False], np.array([False, True])):
            with pytest.raises(TypeError, match=r"positions must be integers, got bool. numpy.flatnonzero\(mask\)"):
                column.take(flags)
        assert len(column.take([])) == len(column.take(np.zeros(0, bool))) == 0


@pytest.fixture
def tensors():
    torch = pytest.importorskip("torch")
    rows = Ragged(torch.arange(5, dtype=torch.int16), torch.tensor([0, 2, 2, 5]))
    return torch, rows


def test_rows_of_tensors_are_taken(tensors):
    torch, rows = tensors
    for taken in (rows.take([2, -3]), rows.take(torch.tensor([2, 0])), rows.take(np.array([2, 0], np.int8))):
        assert taken.to_list() == [[2, 3, 4], [0, 1]]
        assert (taken.values.dtype, taken.offsets.dtype) == (torch.int16, torch.int64)
        assert torch.nested.nested_tensor_from_jagged(taken.values, taken.offsets).size(0) == 2
    assert rows.take([]).to_list() == []
    assert isinstance(rows.take([]).values, torch.Tensor)
    long = Ragged(torch.arange(400).reshape(200, 2), torch.tensor([0, 100, 200]))
    assert torch.equal(long.take([1]).values, long.values[100:])
    nested = Ragged(rows, torch.tensor([0, 2, 3]))
    assert nested.take([1, 0]).to_list() == [[[2, 3, 4]], [[0, 1], []]]
    with pytest.raises(IndexError, match="row 3 of 3"):
        rows.take([3])


def test_rows_of_tensors_stay_on_their_device():
    torch = pytest.importorskip("torch")
    rows = Ragged(torch.ones(5, device="meta"), torch.tensor([0, 2, 5]))
    assert rows.take([1]).values.device.type == rows.to_padded().device.type == "meta"


def test_rows_of_tensors_are_padded(tensors):
    torch, rows = tensors
    padded = rows.to_padded(-1)
    assert padded.tolist() == [[0, 1, -1], [-1, -1, -1], [2, 3, 4]]
    assert padded.dtype == torch.int16
    brains = Ragged(torch.ones(3, 2, dtype=torch.bfloat16), torch.tensor([0, 1, 3])).to_padded(0.5)
    assert brains[0].tolist() == [[1, 1], [0.5, 0.5]]
    assert brains.dtype == torch.bfloat16
    with pytest.raises(ValueError, match=r"fill must be a number that torch.int16 holds, got 40000"):
        rows.to_padded(40000)


def test_offsets_of_tensors_are_checked(tensors):
    torch, rows = tensors
    with pytest.raises(ValueError, match="offsets must run from 0 to 5 without falling"):
        Ragged(rows.values, torch.tensor([0, 7, 5]))
    assert Ragged(rows.values, torch.tensor([0, 5], dtype=torch.int32)).to_list() == [[0, 1, 2, 3, 4]]


def test_rows_of_arrays_of_several_shapes():
    """As packing makes them of images of several sizes."""
    images = [np.full((size, 2), size, np.uint8) for size in (1, 2, 3)]
    rows = Ragged(images, np.array([0, 2, 2, 3]))
    assert repr(rows) == "Ragged(3 rows, 3 values, uint8)"
    assert repr(rows[1:2]) == "Ragged(1 rows, 0 values, object)"
    assert rows.to_list() == [[images[0].tolist(), images[1].tolist()], [], [images[2].tolist()]]
    assert rows.take([2, 0]).to_list() == [rows.to_list()[2], rows.to_list()[0]]
    assert join([rows, rows[2:]]).to_list() == [*rows.to_list(), rows.to_list()[2]]
    with pytest.raises(TypeError, match="rows hold rows"):
        rows.to_padded()


def test_rows_of_rows_are_not_padded():
    nested = Ragged(Ragged.from_list([[1], [2, 3]], np.int64), np.array([0, 2]))
    with pytest.raises(TypeError, match="pad the inner ones first"):
        nested.to_padded()


def test_text_for_people():
    assert repr(Ragged.from_list([[1, 2], []], np.int64)) == "Ragged(2 rows, 2 values, int64)"


def test_joined_sparse_columns_keep_their_width():
    """Also where no row has a value in the last column."""
    sparse = pytest.importorskip("scipy.sparse")
    columns = [sparse.csr_array(np.array([[0, 1, 0, 0]])), sparse.csr_array(np.array([[2, 0, 0, 0]]))]
    assert join(columns).toarray().tolist() == [[0, 1, 0, 0], [2, 0, 0, 0]]


@pytest.mark.parametrize("dtype", ["u1", ">f4", "f8", "M8[s]", "?", "S3", "O"])
@pytest.mark.parametrize("count", [0, 3, POOLED_BYTES])
def test_large_arrays_are_copied_and_joined_like_small_ones(dtype, count):
    array = np.arange(2 * count).reshape(count, 2).astype("S3" if dtype == "S3" else "i8").astype(dtype)
    found = copy_pooled(array[::-1])
    assert found.dtype == array.dtype
    assert found.flags.writeable
    assert not np.shares_memory(found, array)
    np.testing.assert_array_equal(found, array[::-1])
    joined, wanted = join([array, array[:1], array[:0]]), np.concatenate([array, array[:1]])
    assert joined.dtype == wanted.dtype
    assert joined.flags.writeable
    np.testing.assert_array_equal(joined, wanted)
    if dtype == "f8":
        mixed = join([array, array.astype("f4")])
        assert mixed.dtype == array.dtype
        assert len(mixed) == 2 * count


def test_large_text_is_joined_like_small_text():
    one = hr.Strings.from_values(["a" * POOLED_BYTES, "", "b"])
    assert join([one, one[1:]]).to_list() == [*one.to_list(), "", "b"]


@given(st.integers(1, 8), st.integers(1, 8))
def test_parts_are_the_batches_of_parts(size, count):
    source = Numbers(100)
    whole = source.batch(np.arange(size * count))
    for number, part in enumerate(cut_batch(whole, size, count)):
        alone = source.batch(np.arange(number * size, (number + 1) * size))
        assert part.keys() == alone.keys()
        for name, column in alone.items():
            assert column.dtype == part[name].dtype
            if isinstance(column, Ragged):
                assert part[name].to_list() == column.to_list()
            else:
                assert part[name].tolist() == column.tolist()


def test_parts_are_views():
    whole = Numbers(100).batch(np.arange(10))
    first, second = cut_batch(whole, 5, 2)
    assert np.shares_memory(first["row"], whole["row"])
    assert np.shares_memory(second["many"].values, whole["many"].values)
    assert not np.shares_memory(first["row"], second["row"])
    assert cut_batch(whole, 10, 1) == [whole]


def test_parts_of_text_are_views():
    text = Strings.from_values(["a", "", "bcd", "é", "x", "yz"])
    whole = {"t": text, "pairs": text.reshape(6, 1), "bytes": Strings.from_values([b"1"] * 6), "list": list(range(6))}
    parts = cut_batch(whole, 2, 3)
    for number, part in enumerate(parts):
        rows = slice(2 * number, 2 * number + 2)
        assert list(part) == list(whole)
        assert [type(column) for column in part.values()] == [type(column) for column in whole.values()]
        assert part["t"].tolist() == text.tolist()[rows]
        assert part["list"] == whole["list"][rows]
        assert (part["t"].shape, part["t"].is_text, part["bytes"].is_text) == ((2,), True, False)
        assert np.shares_memory(part["t"].data, text.data)
        assert np.shares_memory(part["t"].offsets, text.offsets)
        assert part["pairs"].shape == (2, 1)
        assert part["pairs"].tolist() == text.reshape(6, 1)[rows].tolist()
    with pytest.raises(AttributeError, match="read-only"):
        parts[0]["t"].shape = (1,)
    with pytest.raises(TypeError):
        cut_batch({"x": 5}, 1, 2)


INNER = {
    "numbers": np.arange(9.0),
    "grids": np.arange(36).reshape(9, 2, 2),
    "text": Strings.from_values(list("abcdefghi")),
    "rows": Ragged(np.arange(5), np.array([0, 1, 1, 1, 2, 2, 3, 3, 4, 5])),
}


@pytest.mark.parametrize("kind", INNER)
@given(cuts=st.lists(st.integers(0, 9), min_size=5, max_size=5), begin=st.integers(0, 2))
def test_parts_of_rows_that_vary_are_slices(kind, cuts, begin):
    whole = Ragged(INNER[kind], np.array([0, *sorted(cuts), 9]))[begin : begin + 4]
    parts = cut_batch({"r": whole}, 2, 2)
    for number, part in enumerate(parts):
        column, alone = part["r"], whole[2 * number : 2 * number + 2]
        assert type(column) is Ragged
        assert type(column.values) is type(alone.values)
        assert column.to_list() == alone.to_list()
        assert column.offsets.tolist() == alone.offsets.tolist()
        assert column.offsets.dtype == np.int64
        column.__post_init__()
    if kind == "numbers":
        assert np.shares_memory(parts[0]["r"].values, INNER[kind]) or not len(parts[0]["r"].values)


@pytest.mark.parametrize("offsets", [[0, 2, 1, 3], [0, 9, 1, 3], [0, -1, 2, 3], [0, 1, 2**63 - 1, 3]])
def test_parts_of_offsets_that_fall_are_refused(offsets):
    column = Ragged.trust(np.arange(3), np.array(offsets))  # or an array that has changed since
    with pytest.raises(ValueError, match="offsets must run"):
        cut_batch({"r": column}, 1, 3)


def test_parts_of_offsets_of_other_types():
    column = Ragged.trust(np.arange(3), np.array([0, 2, 3], np.int32))
    assert [part["r"].to_list() for part in cut_batch({"r": column}, 1, 2)] == [[[0, 1]], [[2]]]


def test_empty_parts_of_one():
    (part,) = cut_batch(Numbers(3).batch(np.zeros(0, np.int64)), 0, 1)
    assert len(part["i"]) == 0


def test_bytes_of_columns():
    sparse = pytest.importorskip("scipy.sparse")
    ragged = Ragged.from_list([[1, 2], [3]], "int16")
    assert bytes_of({"a": np.zeros((2, 3), np.float32), "b": ragged}) == 24 + 6 + 24
    assert bytes_of({"nested": Ragged(ragged, np.array([0, 2]))}) == 6 + 24 + 16
    assert bytes_of({"images": [np.zeros(5, np.uint8), np.zeros(7, np.uint8)], "other": ["x"]}) == 12
    assert bytes_of({"sparse": sparse.csr_array(np.eye(4))}) == 32


@pytest.mark.parametrize(
    ("rows", "values"),
    [
        ([["7\0", "a"], [], ["b"]], [["7\0", "a"], [], ["b"]]),
        ([[b"abc\0"], [b"d"]], [[b"abc\0"], [b"d"]]),
        ([np.array(["a"]), ["b\0"]], [["a"], ["b\0"]]),
        ([[["a", "b"]], [["c\0", "d"]]], [[["a", "b"]], [["c\0", "d"]]]),
        ([["a"], ["b"]], [["a"], ["b"]]),
        ([np.ma.array([1.5, 2.5], mask=[0, 0]), [3]], [[1.5, 2.5], [3]]),
    ],
)
def test_from_list_keeps_values(rows, values):
    assert hr.Ragged.from_list(rows).to_list() == values


@pytest.mark.parametrize(
    ("rows", "at"),
    [
        ([["7\0", "a"], [7]], 1),
        ([["a", 1]], 0),
        ([["a"], np.array([3])], 1),
        ([[b"a"], [b"b"], ["c"]], 2),
        ([["a"], [None]], 1),
        ([[1], np.ma.array([1, 2], mask=[0, 1])], 1),
    ],
)
def test_from_list_refuses_rows_of_several_kinds_and_masked_ones(rows, at):
    with pytest.raises(hr.SchemaMismatch) as caught:
        hr.Ragged.from_list(rows)
    assert caught.value.where.record == at


def test_from_list_fills_masked_floats():
    for dtype in (None, "float32"):
        assert str(hr.Ragged.from_list([np.ma.array([1.0, 2.0], mask=[0, 1])], dtype).to_list()) == "[[1.0, nan]]"


def test_take_wants_positions_in_one_axis():
    for column in (hr.Ragged.from_list([[1], [2]]), Strings.from_values(["a", "b"])):
        with pytest.raises(TypeError, match=r"positions must be in one axis, got an array of shape \(1, 2\)"):
            column.take([[0, 1]])


def test_rows_of_an_iterator_are_rows():
    assert Ragged.from_list(row for row in [[1], [2, 3]]).to_list() == [[1], [2, 3]]
    assert Ragged.from_list(map(np.asarray, [[1], [2, 3]]), np.int64).to_list() == [[1], [2, 3]]
    assert Ragged.from_list(iter([["a\0"], ["b", "c"]])).to_list() == [["a\0"], ["b", "c"]]


def test_rows_without_values_have_no_kind():
    assert Ragged.from_list([np.array([1, 2]), np.array([], "U1")]).to_list() == [[1, 2], []]
    assert Ragged.from_list([np.array([], "S1"), [1.5]]).to_list() == [[], [1.5]]
    assert Ragged.from_list([["a"], [np.array("b")]]).to_list() == [["a"], ["b"]]
    if hasattr(np.dtypes, "StringDType"):  # NumPy 2
        assert Ragged.from_list([["a"], np.array(["b"], np.dtypes.StringDType())]).to_list() == [["a"], ["b"]]


@pytest.mark.parametrize(
    ("row", "dtype", "lost"),
    [
        ([1.5, 2.7], "int64", "1.5"),
        (np.array([1, 300]), "int8", "300"),
        ([300], "int8", "300"),
        (np.array([np.nan, 1]), "int32", "nan"),
        ([1e300], "float32", "1e\\+300"),
        (np.array([-1]), "uint8", "-1"),
        (np.array([2**63 + 1], np.uint64), "int64", "9223372036854775809"),
        ([2**24 + 1], "float32", "16777217"),
        ([2], bool, "2"),
        (["ab", "abc"], "U2", "abc"),
    ],
)
def test_from_list_refuses_values_that_a_dtype_does_not_hold(row, dtype, lost):
    with pytest.raises(hr.SchemaMismatch, match=rf"values that \S+ holds, found {lost} \(.*record 1"):
        hr.Ragged.from_list([[], row], dtype)


def test_from_list_rounds_floats_and_nothing_else():
    assert hr.Ragged.from_list([[0.1, np.inf, np.nan]], "float32").values.tolist()[0] == np.float32(0.1)
    assert hr.Ragged.from_list([[1.0, -3.0], np.array([True])], "int8").to_list() == [[1, -3], [1]]
    assert hr.Ragged.from_list([[0, 1]], bool).to_list() == [[False, True]]
    assert hr.Ragged.from_list([["a"], ["bc"]], "U2").to_list() == [["a"], ["bc"]]
    assert hr.Ragged.from_list([[1, 2.5], [3j]], complex).to_list() == [[1, 2.5], [3j]]


def test_rows_of_uneven_depth_say_what_is_wrong():
    for rows in ([[[1], [2, 3]], []], [[[1, 2]], [[1, 2, 3]]]):
        with pytest.raises(
            ValueError, match=r"expected rows whose values have one shape, found others: .* hr.Ragged\("
        ):
            Ragged.from_list(rows)


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([[1], None], "NoneType None in row 1"),
        ([[1], 2], "int 2 in row 1"),
        ([["ab"], "xy"], "str 'xy' in row 1"),
        ([{1, 2}], r"set \{1, 2\} in row 0"),
        ([[1], (number for number in [1])], "generator .* in row 1"),
        ([[1], np.array(2)], r"ndarray array\(2\) in row 1"),
    ],
)
def test_what_is_no_row_is_named(rows, found):
    for dtype in (None, "int64", object):
        with pytest.raises(TypeError, match=f"expected rows that are arrays or lists, found {found}"):
            Ragged.from_list(rows, dtype)


@pytest.fixture
def plainly(monkeypatch):
    """Computes something without native code."""

    def compute(function):
        with monkeypatch.context() as patch:
            patch.setattr(values_module, "holds_numbers", lambda rows: False)
            return function()

    return compute


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    ROWS,
    st.sampled_from(["int64", "uint8", "float32", "bool", "complex64"]),
    st.sampled_from([(), (3,), (2, 0)]),
    st.data(),
)
def test_rows_are_padded_and_taken_as_without_native_code(plainly, rows, dtype, inner, data):
    offsets = np.cumsum([0, *map(len, rows)])
    numbers = np.array([number for row in rows for number in row], np.int64)
    elements = np.abs(numbers.reshape(-1, *(1 for _ in inner)) + np.zeros(inner, np.int64)).astype(dtype)
    ragged = Ragged(elements, offsets)
    length, fill = data.draw(st.integers(0, 6)), data.draw(st.sampled_from([None, 0, 1]))
    picked = data.draw(st.lists(st.integers(-len(rows), len(rows) - 1), max_size=9)) if rows else []
    for function in (
        lambda: pad_rows(ragged, length, fill),
        lambda: ragged.take(picked).values,
        lambda: ragged.to_padded(fill),
    ):
        found, plain = function(), plainly(function)
        assert (found.dtype, found.shape, found.tolist()) == (plain.dtype, plain.shape, plain.tolist())
        assert not np.shares_memory(found, elements)
    assert ragged.take(picked).offsets.tolist() == plainly(lambda: ragged.take(picked)).offsets.tolist()


@pytest.mark.parametrize("offsets", [[0, 4], [0, 2, 1], [-1, 2], [0, -1], [0, 1 << 62], [3, 4]])
def test_offsets_that_changed_are_found(offsets):
    wrong = np.array(offsets)
    every = np.arange(len(wrong) - 1)
    with pytest.raises(_native.FormatError):
        _native.pad_rows(np.arange(3), wrong, 2, np.zeros(1, np.int64))
    with pytest.raises(_native.FormatError):
        _native.take_varying_rows([(np.arange(3), wrong)], every)
    for index in (-1, len(every), 1 << 62, -(1 << 63)):
        with pytest.raises(_native.FormatError):
            _native.take_varying_rows([(np.arange(3), np.zeros(len(wrong), np.int64))], np.array([index]))


@given(
    parts=st.lists(st.lists(st.lists(st.integers(-99, 99), max_size=5), max_size=6), min_size=1, max_size=5),
    dtype=st.sampled_from([np.int64, np.uint8, np.float32, np.bool_]),
    inner=st.sampled_from([(), (3,), (0,), (2, 2)]),
    data=st.data(),
)
def test_rows_of_several_parts_are_those_of_all_end_to_end(parts, dtype, inner, data):
    columns = []
    for rows in parts:
        numbers = np.array([number for row in rows for number in row], np.int64).reshape(-1, *(1 for _ in inner))
        columns.append(
            Ragged(np.abs(numbers + np.zeros(inner, np.int64)).astype(dtype), np.cumsum([0, *map(len, rows)]))
        )
    whole, count = join(columns), sum(map(len, parts))
    picked = data.draw(st.lists(st.integers(0, count - 1), max_size=12)) if count else []
    given = [(column.values, np.asarray(column.offsets)) for column in columns]
    values, offsets = _native.take_varying_rows(given, np.array(picked, np.int64))
    wanted = whole.take(picked) if isinstance(whole, Ragged) else None
    assert wanted is not None
    assert (values.dtype, values.shape, values.tolist()) == (wanted.dtype, wanted.values.shape, wanted.values.tolist())
    assert offsets.tolist() == wanted.offsets.tolist()
    with pytest.raises(_native.FormatError):
        _native.take_varying_rows(given, np.array([*picked, count], np.int64))


def test_parts_that_differ_are_refused():
    offsets = np.array([0, 2])
    one = (np.arange(2), offsets)
    for other in (np.arange(2.0), np.zeros((2, 3), np.int64), np.array([object(), None])):
        with pytest.raises(TypeError):
            _native.take_varying_rows([one, (other, offsets)], np.zeros(1, np.int64))
    for wrong in ([], [one, None], [one, (np.arange(2),)], [(np.arange(2), offsets.astype(np.int32))]):
        with pytest.raises((TypeError, ValueError)):
            _native.take_varying_rows(wrong, np.zeros(1, np.int64))


def test_what_is_no_rows():
    numbers, offsets = np.arange(3), np.array([0, 3])
    for length in (1 << 60, 1 << 40):
        with pytest.raises((ValueError, MemoryError)):
            _native.pad_rows(np.zeros((3, 1 << 10)), offsets, length, np.zeros((1, 1 << 10)))
    for filling in (np.zeros(2, np.int64), np.zeros(1, np.int32), np.zeros(0, np.int64)):
        with pytest.raises(ValueError, match="one element"):
            _native.pad_rows(numbers, offsets, 2, filling)
    for function in (
        lambda *given: _native.pad_rows(*given, 2, numbers[:1]),
        lambda *given: _native.take_varying_rows([given], offsets),
    ):
        with pytest.raises(ValueError, match="one more offset"):
            function(numbers, np.zeros(0, np.int64))
        with pytest.raises(TypeError):
            function(np.array([None] * 3), offsets)


SHAPES = st.tuples(st.integers(0, 3), st.integers(0, 3))
PLAIN = st.sampled_from(
    ["bool", "uint8", "int8", "int16", "uint64", "int64", "float16", "float32", "float64", "complex64"]
)


@given(PLAIN, st.integers(1, 6), SHAPES, st.booleans(), st.integers(0, 9))
def test_arrays_of_one_dtype_are_stacked_as_numpy_does(dtype, count, shape, turns, seed):
    rng = np.random.default_rng(seed)
    arrays = [rng.integers(0, 2, shape).astype(dtype) for _ in range(count)]
    arrays[1:] = [np.asfortranarray(array) for array in arrays[1:]] if turns else arrays[1:]
    found = stack_plain(arrays)
    assert found.dtype == dtype
    assert found.flags.c_contiguous
    assert found.tolist() == np.stack(arrays).tolist()
    assert not any(np.shares_memory(found, array) for array in arrays)


@given(PLAIN, st.lists(st.integers(0, 4), min_size=2, max_size=6), st.integers(0, 3))
def test_arrays_that_differ_in_length_become_ragged(dtype, lengths, width):
    arrays = [np.full((length, width), number).astype(dtype) for number, length in enumerate(lengths)]
    found = stack_plain(arrays)
    plain = np.stack(arrays) if len(set(lengths)) == 1 else Ragged.from_list(arrays)
    assert type(found) is type(plain)
    assert found.dtype == dtype
    assert [row.tolist() for row in found] == [array.tolist() for array in arrays]


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=1), PLAIN)
def test_numbers_of_one_type_become_an_array(numbers, dtype):
    assert stack_plain(numbers).tolist() == numbers
    assert stack_plain(list(map(float, numbers))).tolist() == list(map(float, numbers))
    scalars = list(np.array(numbers).astype("int8").astype(dtype))
    assert stack_plain(scalars).dtype == dtype
    assert stack_plain(scalars).tolist() == [scalar.item() for scalar in scalars]


@given(st.lists(st.text(), min_size=1))
def test_text_of_one_type_becomes_a_column(texts):
    for values, kind in ((texts, True), ([text.encode() for text in texts], False)):
        assert stack_plain(values).is_text is kind
        assert stack_plain(values).tolist() == values


@pytest.mark.parametrize(
    "values",
    [
        [1 << 63],
        ["text", b"bytes"],
        ["text", "\ud800"],
        [None],
        [[1, 2]],
        [np.array("text")],
        [np.array(["text"])],
        [np.array([None])],
        [np.array(3)],  # of no axis
        [np.zeros(2, ">f4")],
        [np.zeros((2, 3)).T],
        [np.zeros(2, "M8[s]")],
        [np.datetime64(1, "s"), np.datetime64(1, "D")],
        [np.timedelta64(1, "s"), np.timedelta64(1, "D")],
        [np.ma.zeros(2)],
        [np.zeros(2, "f4"), np.zeros(2, "f8")],
        [np.zeros(2, "f4"), np.zeros(3, "f8")],
        [np.zeros((2, 3)), np.zeros((2, 4))],
        [np.zeros((1, 400_000)), np.zeros((400_000, 1))],  # 1.3 TB, if all had the rows of the first
        [np.zeros(2), np.zeros((2, 2))],
        [np.zeros(2), np.zeros(())],
        [1, True],
        [1, np.int64(1)],
        [np.int32(1), np.int64(1)],
        [np.zeros(2), [1, 2]],
    ],
)
def test_other_values_are_not_stacked_so(values):
    assert stack_plain(values) is None


class Examples(dict):
    """A mapping of a class of its own."""


def test_values_of_each_feature():
    examples = [{"a": 1, "b": "x"}, {"b": "y", "a": 2}]
    columns = {"b": ["x", "y"], "a": [1, 2]}
    assert list(columns_of(examples, ("b", "a")).items()) == list(columns.items())
    assert columns_of(tuple(examples), ("b", "a")) == columns
    assert columns_of([Examples(example) for example in examples], ("b", "a")) == columns
    assert columns_of([collections.defaultdict(int, example) for example in examples], ("b", "a")) == columns
    assert columns_of([{}, {}], ()) == {}
    for other in ({"a": 1}, {"a": 1, "c": 2}, {"a": 1, "b": 2, "c": 3}, collections.defaultdict(int, a=1)):
        assert columns_of([*examples, other], ("b", "a")) is None
    with pytest.raises(ZeroDivisionError):
        columns_of([{1: 2, 2: 3}], (Unequal(), 2))
    with pytest.raises(ZeroDivisionError):
        _native.split_examples(Endless(), ("a",))


class Endless(collections.UserList):
    """A sequence whose length fails."""

    def __len__(self):
        raise ZeroDivisionError


class Unequal:
    """A name whose comparison fails."""

    def __hash__(self):
        return 1

    def __eq__(self, other):
        raise ZeroDivisionError


def test_examples_of_columns():
    values = [object(), object()]
    examples = list_examples(("b", "a"), [values, [1, 2]])
    assert [list(example.items()) for example in examples] == [
        [("b", values[0]), ("a", 1)],
        [("b", values[1]), ("a", 2)],
    ]
    assert list_examples(("b",), [[]]) == list_examples((), []) == []
    for columns in ([[1]], [[1], [2, 3]], [[1], (2,)], [3, [1]]):
        with pytest.raises(ValueError, match="a list for each name, all of one length"):
            list_examples(("b", "a"), columns)


def test_neither_keeps_references():
    value = object()
    before = sys.getrefcount(value)
    examples = list_examples(("a",), [[value] * 3])
    assert columns_of(examples, ("a",)) == {"a": [value] * 3}
    del examples
    assert sys.getrefcount(value) == before
