"""Rows of Arrow tables in blocks and at random, against the table's own."""

import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats.parquet.test_groups import expected_rows, rows_of, table_of

import headrace as hr
from headrace.adapters import arrow
from headrace.adapters.arrow import from_arrow


def in_chunks(table, size):
    return pa.Table.from_batches(table.to_batches(max_chunksize=size))


@given(data=st.data(), rows=st.integers(1, 80), chunk=st.integers(1, 80), block=st.sampled_from([1, 7, 1 << 16]))
def test_rows_are_those_of_the_table(data, rows, chunk, block):
    table = in_chunks(table_of(rows + 2).slice(data.draw(st.integers(0, 2)), rows), chunk)
    truth = expected_rows(table)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrow, "BLOCK_ROWS", block)
        source = from_arrow(table)
        for _ in range(4):
            if data.draw(st.booleans()):
                start = data.draw(st.integers(0, rows - 1))
                indices = list(range(start, data.draw(st.integers(start, rows))))
            else:
                indices = data.draw(st.lists(st.integers(0, rows - 1), max_size=20))
            assert rows_of(source.batch(indices), len(indices)) == [truth[index] for index in indices]
        again = pickle.loads(pickle.dumps(source))
        assert rows_of(again.batch([rows - 1, 0]), 2) == [truth[-1], truth[0]]


@pytest.mark.parametrize("chunk", [3, 100])
@pytest.mark.parametrize("block", [4, 1 << 16])
def test_a_null_is_an_error_only_where_it_is_asked_for(monkeypatch, chunk, block):
    monkeypatch.setattr(arrow, "BLOCK_ROWS", block)
    table = in_chunks(pa.table({"n": pa.array([None if k == 13 else k for k in range(40)]), "y": np.arange(40)}), chunk)
    source = from_arrow(table)
    sound = [k for k in range(40) if k != 13]
    for indices in (list(range(5)), [20, 3, 39, 14], sound[::-1], list(range(14, 40))):
        batch = source.batch(indices)
        assert batch["n"].tolist() == batch["y"].tolist() == indices
        batch["n"][:] = -1
    with pytest.raises(hr.SchemaMismatch, match="null") as raised:
        source.batch([20, 13])
    assert (raised.value.where.record, raised.value.where.feature) == (13, "n")


def test_numbers_are_read_where_they_lie(monkeypatch):
    """No copy of a table in one piece is made to take rows from it."""
    values = np.arange(1000, dtype=np.float32)
    source = from_arrow(pa.table({"x": values}))
    monkeypatch.setattr(arrow, "BLOCK_ROWS", 10)
    assert source.batch(np.arange(999, -1, -1))["x"].tolist() == values[::-1].tolist()
    assert np.shares_memory(source.node._whole.get("x"), values)


@pytest.mark.parametrize("kind", [pa.string_view(), pa.binary_view(), pa.list_(pa.string_view()), pa.string()])
def test_views_of_text_are_read_where_arrow_cannot_take_them(kind):
    """All text of Polars is of this kind."""
    values = [b"bytes %d" % k if kind == pa.binary_view() else f"text {k}" for k in range(6)]
    values = [[value] for value in values] if pa.types.is_list(kind) else values
    table = pa.table({"s": pa.array(values, kind), "n": pa.array([0, 1, None, 3, 4, 5])})
    source = from_arrow(table)
    for indices in ([], [1], [5, 0, 3], [4, 4]):
        batch = source.batch(indices)
        assert batch["n"].tolist() == indices
        assert batch["s"].to_list() == [values[k] for k in indices]
    with pytest.raises(hr.SchemaMismatch, match="expected a value, found none .* at record 2, feature 'n'"):
        source.batch([4, 2])
    (last,) = hr.Loader(table[:2], 2, shard=hr.Shard(3, 4))
    assert (last["s"].to_list(), last["n"].tolist()) == ([], [])
    assert from_arrow(table[:0]).to_pandas().shape == (0, 2)
