"""Nodes made from other nodes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import SchemaMismatch
from headrace.sources.tables import ColumnNode
from headrace.sources.views import Concatenated, Zipped


def numbers(start, n, name="x"):
    return ColumnNode({name: np.arange(start, start + n)})


@given(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.data())
def test_any_indices_from_any_parts(sizes, data):
    ends = np.cumsum(sizes)
    parents = [numbers(int(end - size), size) for end, size in zip(ends, sizes, strict=True)]
    chosen = data.draw(st.lists(st.integers(0, max(int(ends[-1]) - 1, 0)), max_size=20 if ends[-1] else 0))
    batch = Concatenated(tuple(parents)).batch(np.array(chosen, np.int64))
    assert batch["x"].tolist() == chosen


def test_features_side_by_side():
    assert list(Zipped((numbers(0, 3), numbers(0, 3, "y"))).schema) == ["x", "y"]
    with pytest.raises(SchemaMismatch, match=r"every feature name once.*rename"):
        Zipped((numbers(0, 3), numbers(0, 3)))
    with pytest.raises(SchemaMismatch, match="3 examples, found 4"):
        Zipped((numbers(0, 3), numbers(0, 4, "y")))


def test_parts_have_the_same_features():
    assert len(Concatenated((numbers(0, 3), numbers(0, 4)))) == 7
    with pytest.raises(SchemaMismatch, match="'y'"):
        Concatenated((numbers(0, 3), numbers(0, 4, "y")))
