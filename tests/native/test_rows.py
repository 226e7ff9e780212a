"""Rows by index: equal to numpy's own, never outside."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import _native


def take(data, offset, row_bytes, n_rows, indices):
    return _native.take_rows(data, offset, row_bytes, n_rows, np.array(indices, np.int64))


@given(st.integers(0, 40), st.integers(1, 50), st.integers(0, 20), st.data())
def test_equal_to_numpy(row_bytes, n_rows, offset, data):
    blob = np.random.default_rng(n_rows).integers(0, 256, offset + n_rows * row_bytes + 7, np.uint8)
    rows = blob[offset : offset + n_rows * row_bytes].reshape(n_rows, row_bytes)
    starts = data.draw(st.lists(st.tuples(st.integers(0, n_rows - 1), st.integers(1, 6)), max_size=12))
    indices = [index for start, run in starts for index in range(start, min(n_rows, start + run))]
    found = take(blob, offset, row_bytes, n_rows, indices)
    assert found.shape == (len(indices), row_bytes)
    assert found.dtype == np.uint8
    assert (found == rows[np.array(indices, np.int64)]).all()


def test_large_rows_in_any_order():
    rows = np.random.default_rng(1).integers(0, 256, (200, 5000), np.uint8)
    order = np.random.default_rng(2).permutation(200)
    assert (take(rows.tobytes(), 0, 5000, 200, order) == rows[order]).all()


@pytest.mark.parametrize("index", [5, -1, (1 << 63) - 1, -(1 << 63)])
@pytest.mark.parametrize("row_bytes", [0, 3])
def test_an_index_outside_is_named(index, row_bytes):
    with pytest.raises(_native.FormatError) as caught:
        take(bytes(100), 0, row_bytes, 5, [0, 1, index])
    assert (caught.value.fault, caught.value.record, caught.value.expected) == ("range", 2, 5)


@pytest.mark.parametrize(
    ("offset", "row_bytes", "n_rows"),
    [(101, 1, 0), (0, 10, 11), (91, 10, 1), (0, 1 << 62, 1 << 62), ((1 << 64) - 1, 1, 1), (0, 3, 1 << 63)],
)
def test_rows_that_the_data_do_not_hold(offset, row_bytes, n_rows):
    with pytest.raises(_native.FormatError) as caught:
        take(bytes(100), offset, row_bytes, n_rows, [])
    assert caught.value.fault == "truncated"
    assert caught.value.found == max(0, 100 - offset)
    assert caught.value.expected > caught.value.found or offset > 100


def take_of_columns(data, offset, item_bytes, n_rows, places, indices):
    return _native.take_rows_of_columns(
        data, offset, item_bytes, n_rows, np.array(places, np.int64), np.array(indices, np.int64)
    )


@given(st.sampled_from(["u1", "<i2", "<f4", "<f8", "<c16", "V5", "V70"]), st.integers(1, 9), st.integers(1, 40))
def test_rows_of_columns_equal_those_of_numpy(dtype, n_rows, columns):
    random = np.random.default_rng(n_rows)
    rows = random.integers(0, 256, (n_rows, columns * np.dtype(dtype).itemsize), np.uint8).view(dtype)
    indices = random.integers(0, n_rows, 12)
    data = b"before" + rows.tobytes(order="F")
    found = take_of_columns(data, 6, rows.dtype.itemsize, n_rows, range(columns), indices)
    assert found.tobytes() == rows[indices].tobytes()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((0, 0, 5, [0], []), "row"),
        ((0, 1 << 60, 5, [0, 1], []), "row"),
        ((0, 1, 5, [0, 2], []), "place"),
        ((0, 1, 5, [-1], []), "place"),
        ((0, 1, 101, [0], []), "truncated"),
        ((90, 1, 11, [0], []), "truncated"),
        ((0, 1, 5, [0], [1, 5]), "range"),
        ((0, 1, 5, [0], [1, -1]), "range"),
    ],
)
def test_columns_that_cannot_be_read(arguments, error):
    with pytest.raises((ValueError, _native.FormatError)) as caught:
        take_of_columns(bytes(100), *arguments)
    assert error in (getattr(caught.value, "fault", "") or str(caught.value))


def test_rows_of_no_bytes():
    assert take(b"", 0, 0, 1 << 40, [0, (1 << 40) - 1]).shape == (2, 0)


def test_a_result_is_yours():
    first = take(b"abcd", 0, 2, 2, [1, 0])
    first[:] = 0
    assert take(b"abcd", 0, 2, 2, [1, 0]).tobytes() == b"cdab"


def stored(data, offset, n_rows, dtype, shape):
    dtype = np.dtype(dtype)
    return _native.StoredRows(data, offset, dtype.itemsize * int(np.prod(shape)), n_rows, dtype, shape)


@given(
    st.sampled_from(["u1", "<f4", "<i8", [("a", "u1"), ("b", "<f8", (2,))]]),
    st.lists(st.integers(1, 4), max_size=3).map(tuple),
    st.integers(1, 30),
    st.integers(0, 20),
    st.lists(st.integers(0, 29), max_size=40),
)
def test_stored_rows_equal_numpys(dtype, shape, n_rows, offset, indices):
    dtype = np.dtype(dtype)
    size = dtype.itemsize * int(np.prod(shape))
    blob = np.random.default_rng(n_rows).integers(0, 100, offset + n_rows * size + 7, np.uint8)
    rows = np.ndarray((n_rows, *shape), dtype, blob.tobytes(), offset)
    which = np.array([index % n_rows for index in indices], np.int64)
    found = stored(blob.tobytes(), offset, n_rows, dtype, shape).take(which)
    assert (found.dtype, found.shape) == (dtype, (len(which), *shape))
    assert found.tobytes() == rows[which].tobytes()
    assert found.flags.writeable
    assert found.flags.c_contiguous
    batch = stored(blob.tobytes(), offset, n_rows, dtype, shape).batch(which)
    assert list(batch) == ["values"]
    assert (batch["values"].dtype, batch["values"].shape) == (dtype, found.shape)
    assert batch["values"].tobytes() == found.tobytes()


@given(st.sampled_from(["u1", "<f4", [("a", "u1"), ("b", "<f8", (2,))]]), st.integers(0, 20), st.data())
def test_runs_of_stored_rows_equal_slices(dtype, n_rows, data):
    values = np.frombuffer(bytes(range(204)) * 2, np.dtype(dtype))[:n_rows]
    first = data.draw(st.integers(0, n_rows))
    stop = data.draw(st.integers(first, n_rows))
    (found,) = stored(values.tobytes(), 0, n_rows, dtype, ()).run(first, stop).values()
    assert (found.dtype, found.shape) == (values.dtype, (stop - first,))
    assert found.tobytes() == values[first:stop].tobytes()
    assert found.flags.writeable


@pytest.mark.parametrize(("first", "stop"), [(3, 2), (0, 6), (6, 6), ((1 << 64) - 1, (1 << 64) - 1), (0, 1 << 63)])
def test_a_run_outside_stored_rows(first, stop):
    with pytest.raises(IndexError, match="fewer rows"):
        stored(bytes(40), 0, 5, "<i8", ()).run(first, stop)


@pytest.mark.parametrize("index", [5, -1, (1 << 63) - 1, -(1 << 63)])
def test_an_index_outside_stored_rows_is_named(index):
    rows = stored(bytes(40), 0, 5, "<i8", ())
    with pytest.raises(_native.FormatError) as caught:
        rows.take(np.array([0, 1, index]))
    with pytest.raises(_native.FormatError):
        rows.batch(np.array([index]))
    assert (caught.value.fault, caught.value.record, caught.value.expected) == ("range", 2, 5)


def test_stored_rows_that_the_data_do_not_hold():
    with pytest.raises(_native.FormatError, match="truncated|ends|bytes") as caught:
        stored(bytes(39), 0, 5, "<i8", ())
    assert (caught.value.fault, caught.value.expected, caught.value.found) == ("truncated", 40, 39)
    for row_bytes, dtype, shape in [(7, "<i8", ()), (8, "<i8", (2,)), (8, "<i4", (1 << 62, 4)), (0, "<i8", (0,))]:
        with pytest.raises(ValueError, match="another size"):
            _native.StoredRows(bytes(40), 0, row_bytes, 1, np.dtype(dtype), shape)


def test_stored_rows_keep_their_data():
    rows = stored(bytearray(range(40)), 0, 5, "<i8", ())
    assert rows.take(np.array([4])).tobytes() == bytes(range(32, 40))
