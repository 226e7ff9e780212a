"""Padding, buckets and packing, compared with plain loops."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from tests.loading.workers.test_workers import forked, same

import headrace as hr
from headrace.loading.lengths import _first_fit

rows_of = st.lists(st.lists(st.integers(1, 99), max_size=9), max_size=12)


def batch_of(rows, **more):
    return {
        "tokens": hr.Ragged.from_list(rows, "int32"),
        "id": np.arange(len(rows)),
        **more,
    }


# Pad


@given(rows_of, st.integers(1, 5))
def test_padded_to_the_longest(rows, multiple):
    batch = hr.Pad("tokens", multiple=multiple, fill=-1)(batch_of(rows))
    longest = max(map(len, rows), default=0)
    length = -(-longest // multiple) * multiple
    assert batch["tokens"].shape == (len(rows), length)
    assert batch["tokens"].dtype == np.int32
    assert batch["tokens"].tolist() == [row + [-1] * (length - len(row)) for row in rows]
    assert batch["tokens_length"].tolist() == list(map(len, rows))
    assert batch["tokens_length"].dtype == np.int64
    assert batch["id"].tolist() == list(range(len(rows)))


@given(rows_of, st.integers(1, 10))
def test_cut_to_a_length(rows, length):
    batch = hr.Pad("tokens", length=length, truncate=True)(batch_of(rows))
    assert batch["tokens"].tolist() == [(row + [0] * length)[:length] for row in rows]
    assert batch["tokens_length"].tolist() == [min(len(row), length) for row in rows]


def test_a_row_that_is_too_long():
    with pytest.raises(
        hr.SchemaMismatch, match=r"rows of at most 2 values, found 3 in row 1 of the batch - at feature 'tokens'"
    ):
        hr.Pad("tokens", length=2)(batch_of([[1], [1, 2, 3]]))


def test_several_features_with_inner_axes():
    boxes = hr.Ragged.from_list([np.ones((2, 4)), np.full((1, 4), 2)], "float32")
    batch = hr.Pad(("tokens", "boxes"), length=3)(batch_of([[1], [2, 3]], boxes=boxes))
    assert batch["boxes"].shape == (2, 3, 4)
    assert batch["boxes"][:, :, 0].tolist() == [[1, 1, 0], [2, 0, 0]]
    assert batch["boxes_length"].tolist() == [2, 1]


def test_a_stacked_feature_has_rows_that_agree():
    batch = hr.Pad("x", length=4, fill=9)({"x": np.arange(6).reshape(2, 3)})
    assert batch["x"].tolist() == [[0, 1, 2, 9], [3, 4, 5, 9]]


@pytest.mark.parametrize(
    "column", [np.arange(3), [np.ones(2)], hr.Ragged(hr.Ragged.from_list([[1]]), np.array([0, 1]))]
)
def test_values_without_a_varying_axis(column):
    with pytest.raises(hr.SchemaMismatch, match="a feature with one axis that varies"):
        hr.Pad("x")({"x": column})


# Bucket


@given(rows_of)
def test_buckets(rows):
    bounds = (2, 5, 9)
    buckets = hr.Bucket("tokens", bounds=bounds)(batch_of(rows))
    wanted = []
    for low, bound in zip((-1, *bounds), bounds, strict=False):
        chosen = [number for number, row in enumerate(rows) if low < len(row) <= bound]
        if chosen:
            wanted.append((chosen, [rows[i] + [0] * (bound - len(rows[i])) for i in chosen]))
    assert [(bucket["id"].tolist(), bucket["tokens"].tolist()) for bucket in buckets] == wanted
    assert all(bucket["tokens_length"].tolist() == [len(rows[i]) for i in bucket["id"]] for bucket in buckets)


def test_rows_beyond_the_last_bound():
    batch = batch_of([[1], [1, 2, 3, 4, 5]])
    with pytest.raises(hr.SchemaMismatch, match="found 5 in row 1"):
        hr.Bucket("tokens", bounds=(2, 4))(batch)
    last = hr.Bucket("tokens", bounds=(2, 4), truncate=True)(batch)[-1]
    assert (last["tokens"].tolist(), last["tokens_length"].tolist()) == ([[1, 2, 3, 4]], [4])


# Pack


def packed_plainly(rows, length, overlong):
    """Plain first fit: lists of (row, position in the row, value)."""
    pieces = []
    for number, row in enumerate(rows):
        if overlong == "split":
            pieces += [(number, row[i : i + length]) for i in range(0, max(len(row), 1), length)]
        else:
            pieces.append((number, row[:length]))
    bins = []
    for number, piece in pieces:
        for packed in bins:
            if sum(len(other) for _, other in packed) + len(piece) <= length:
                packed.append((number, piece))
                break
        else:
            bins.append([(number, piece)])
    return bins


@given(rows_of, st.integers(1, 12), st.sampled_from(["truncate", "split"]))
def test_packed_by_first_fit(rows, length, overlong):
    out = hr.Pack("tokens", length=length, fill=-1, overlong=overlong)(batch_of(rows))
    bins = packed_plainly(rows, length, overlong)
    assert out["tokens"].shape == out["tokens_segment"].shape == out["tokens_position"].shape == (len(bins), length)
    for packed, tokens, segments, positions, ids in zip(
        bins, out["tokens"], out["tokens_segment"], out["tokens_position"], out["id"], strict=True
    ):
        flat = [value for _, piece in packed for value in piece]
        filled = length - len(flat)
        assert tokens.tolist() == flat + [-1] * filled
        assert segments.tolist() == [k for k, (_, piece) in enumerate(packed, 1) for _ in piece] + [0] * filled
        assert positions.tolist() == [i for _, piece in packed for i in range(len(piece))] + [0] * filled
        assert ids.tolist() == [number for number, _ in packed]


@given(st.integers(0, 300), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_first_fit_of_many_rows(count, room, seed):
    lengths = np.random.default_rng(seed).integers(0, room + 1, count)
    free, places = [], []
    for length in lengths.tolist():
        at = next((at for at, left in enumerate(free) if left >= length), len(free))
        free += [room] * (at == len(free))
        places.append((at, room - free[at]))
        free[at] -= length
    row, begin = _first_fit(lengths, room)
    assert list(zip(row.tolist(), begin.tolist(), strict=True)) == places


@given(rows_of)
def test_splitting_loses_nothing(rows):
    out = hr.Pack("tokens", length=4, overlong="split")(batch_of(rows))
    assert sorted(out["tokens"][out["tokens_segment"] > 0].tolist()) == sorted(value for row in rows for value in row)


def test_features_of_equal_lengths_are_packed_alike():
    batch = batch_of([[1, 2], [3], [4, 5, 6]])
    batch["target"] = hr.Ragged(np.asarray(batch["tokens"].values) * 10.0, batch["tokens"].offsets)
    names = np.empty(3, object)
    names[:] = ["a", "b", "c"]
    batch["name"] = names
    batch["many"] = hr.Ragged.from_list([[7], [], [8, 9]], "int64")
    out = hr.Pack(("tokens", "target"), length=3)(batch)
    assert out["tokens"].tolist() == [[1, 2, 3], [4, 5, 6]]
    assert out["target"].tolist() == [[10.0, 20.0, 30.0], [40.0, 50.0, 60.0]]
    assert [row.tolist() for row in out["name"]] == [["a", "b"], ["c"]]
    assert out["many"].to_list() == [[[7], []], [[8, 9]]]
    assert "target_segment" not in out
    batch["target"] = hr.Ragged.from_list([[1], [2], [3]], "float64")
    with pytest.raises(hr.SchemaMismatch, match="rows as long as those of 'tokens'"):
        hr.Pack(("tokens", "target"), length=3)(batch)


def test_a_row_that_cannot_be_packed():
    with pytest.raises(hr.SchemaMismatch, match="found 3 in row 0"):
        hr.Pack("tokens", length=2)(batch_of([[1, 2, 3]]))


def test_sparse_features_beside_packed_ones_are_refused():
    rows, sparse = hr.Ragged.from_list([[1], [2, 3]]), csr_array(np.eye(2))
    for make in (hr.Pack("x", length=4), lambda columns: hr.Packed(columns, 4, feature="x")):
        with pytest.raises(
            hr.UnsupportedData, match=r"dense features beside packed ones.*feature 'sparse'\. select\(\)"
        ):
            make({"x": rows, "sparse": sparse})


def test_inner_axes_are_packed():
    out = hr.Pack("x", length=3)({"x": hr.Ragged.from_list([np.ones((1, 2)), np.full((2, 2), 5)], "float32")})
    assert out["x"].tolist() == [[[1, 1], [5, 5], [5, 5]]]


# All of them


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: hr.Pad("x", length=0), "length must be at least 1"),
        (lambda: hr.Pad("x", multiple=0), "multiple must be at least 1"),
        (lambda: hr.Pad("x", truncate=True), "truncate=True needs a length"),
        (lambda: hr.Pad(()), "at least one feature"),
        (lambda: hr.Bucket("x", bounds=()), "bounds grow"),
        (lambda: hr.Bucket("x", bounds=(4, 4)), "bounds grow"),
        (lambda: hr.Pack("x", length=0), "length must be at least 1"),
        (lambda: hr.Pack("x", length=1, overlong="cut"), "overlong must be 'raise', 'truncate' or 'split', got 'cut'"),
    ],
)
def test_arguments(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize(
    "function", [hr.Pad("many", length=2), hr.Bucket("many", bounds=(1, 2)), hr.Pack("many", length=4)], ids=repr
)
@pytest.mark.filterwarnings("ignore:.*fork:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_in_loaders(function):
    """In threads, in workers, and pickled: the same batches."""
    from tests.loading.fakes import Numbers

    assert pickle.loads(pickle.dumps(function)) == function
    plain = list(hr.Loader(Numbers(50), 8, threads=0, map_batch=function))
    same(list(hr.Loader(Numbers(50), 8, threads=2, map_batch=function)), plain)
    same(list(forked(Numbers(50), 8, map_batch=function)), plain)


TEXTS = [["a", "bc"], [], ["d"]]
LONG_TEXTS = [["a", "bc"] * 100, [], ["d"]]


def columns_of_text(rows):
    offsets = np.cumsum([0, *map(len, rows)])
    flat = [text for row in rows for text in row]
    yield "", hr.Ragged.from_list(rows, object)
    yield "", hr.Ragged(np.array(flat, "U"), offsets)
    yield "", hr.Ragged(np.array([*flat[:-1], "\ud800"], object), offsets)
    yield b"", hr.Ragged.from_list([[text.encode() for text in row] for row in rows], object)
    yield b"", hr.Ragged(np.array(flat, "S"), offsets)


@pytest.mark.parametrize("rows", [TEXTS, LONG_TEXTS])
def test_text_is_filled_with_empty_text(rows):
    length = max(map(len, rows))
    for empty, column in columns_of_text(rows):
        given = [row.tolist() for row in column]
        expected = [row + [empty] * (length - len(row)) for row in given]
        assert hr.Pad("x")({"x": column})["x"].tolist() == expected
        assert column.to_padded().tolist() == expected
        packed = hr.Pack("x", length=length + 1)({"x": column})["x"].tolist()
        assert packed[0] == [*given[0], *given[2]]
        (bucket,) = hr.Bucket("x", bounds=(length,))({"x": column})
        assert bucket["x"].tolist() == expected
        assert hr.Packed({"x": column}, length + 2, feature="x")[0]["x"].tolist() == [*given[0], *given[2], empty]
        mark = "<padding>" if empty == "" else b"<padding>"
        assert hr.Pad("x", fill=mark)({"x": column})["x"].tolist()[2] == [*given[2], *[mark] * (length - 1)]
        for function in (hr.Pad("x", fill=0), hr.Pack("x", length=length, fill=0)):
            with pytest.raises(TypeError, match=f"fill must be {type(empty).__name__} among .*, got 0"):
                function({"x": column})


def test_lengths_are_whole_numbers():
    for make in (
        lambda: hr.Pad("x", length=1.5),
        lambda: hr.Pad("x", multiple=1.5),
        lambda: hr.Bucket("x", bounds=(1.5,)),
        lambda: hr.Pack("x", length=1.5),
    ):
        with pytest.raises(TypeError, match="must be an integer"):
            make()


@pytest.mark.parametrize("times", [1, 100])
def test_tensors_are_padded_and_packed_like_arrays(times):
    torch = pytest.importorskip("torch")
    rows = hr.Ragged.from_list([[1, 2] * times, [], [3] * times], "int16")
    tensors = hr.Ragged(torch.from_numpy(rows.values), torch.from_numpy(rows.offsets))
    for function in (
        hr.Pad("x", fill=-1),
        hr.Pad("x", length=1, truncate=True),
        hr.Pack("x", length=2 * times),
        hr.Pack("x", length=times, overlong="split"),
    ):
        found, expected = function({"x": tensors}), function({"x": rows})
        assert isinstance(found["x"], torch.Tensor)
        assert found["x"].dtype == torch.int16
        assert [column.tolist() for column in found.values()] == [column.tolist() for column in expected.values()]


@pytest.mark.parametrize(
    ("make", "made"),
    [
        (hr.Pad("t"), "t_length"),
        (hr.Bucket("t", bounds=(4,)), "t_length"),
        (hr.Pack("t", length=4), "t_segment"),
        (hr.Pack("t", length=4), "t_position"),
    ],
)
def test_features_are_not_replaced_by_others(make, made):
    batch = {"t": hr.Ragged.from_list([[1, 2], [3]]), made: np.array([70, 80])}
    with pytest.raises(hr.SchemaMismatch, match="every feature name once") as caught:
        make(batch)
    assert caught.value.where.feature == made
    assert batch[made].tolist() == [70, 80]


@pytest.mark.parametrize("function", [hr.Pad("tokns"), hr.Bucket("tokns", bounds=(3,)), hr.Pack("tokns", length=4)])
def test_a_misspelt_feature(function):
    with pytest.raises(
        hr.NoSuchFeature, match=r"one of the features \['tokens'\], found 'tokns'\. Did you mean 'tokens'"
    ):
        function({"tokens": hr.Ragged.from_list([[1, 2], [3]])})
