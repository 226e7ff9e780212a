"""Slicing a batch without copying."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.loading.fakes import Numbers

from headrace.contracts.values import Ragged
from headrace.errors import SchemaMismatch
from headrace.loading.making import bytes_of, check_rows, cut_batch


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


def test_empty_parts_of_one():
    (part,) = cut_batch(Numbers(3).batch(np.zeros(0, np.int64)), 0, 1)
    assert len(part["i"]) == 0


def test_rows_are_counted():
    batch = Numbers(9).batch(np.arange(4))
    check_rows(batch, 4)
    check_rows({"list": [1, 2]}, 2)
    for wrong in (3, 5):
        with pytest.raises(SchemaMismatch, match=f"expected {wrong} rows from the source, found 4 - at feature 'i'"):
            check_rows(batch, wrong)


def test_bytes_of_columns():
    sparse = pytest.importorskip("scipy.sparse")
    ragged = Ragged.from_list([[1, 2], [3]], "int16")
    assert bytes_of({"a": np.zeros((2, 3), np.float32), "b": ragged}) == 24 + 6 + 24
    assert bytes_of({"nested": Ragged(ragged, np.array([0, 2]))}) == 6 + 24 + 16
    assert bytes_of({"images": [np.zeros(5, np.uint8), np.zeros(7, np.uint8)], "other": ["x"]}) == 12
    assert bytes_of({"sparse": sparse.csr_array(np.eye(4))}) == 32
