"""Several sources as one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.errors import SchemaMismatch
from headrace.sources.parts import features_of_all, gathered, refuse_other_features


def numbers(start, n, name="x"):
    return hr.ColumnSource({name: np.arange(start, start + n)})


@given(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.data())
def test_any_indices_from_any_parts(sizes, data):
    ends = np.cumsum(sizes)
    parents = [numbers(int(end - size), size) for end, size in zip(ends, sizes, strict=True)]
    chosen = data.draw(st.lists(st.integers(0, max(int(ends[-1]) - 1, 0)), max_size=20 if ends[-1] else 0))
    batch = gathered(parents, ends, np.array(chosen, np.int64))
    assert batch["x"].tolist() == chosen


def test_features_side_by_side():
    assert list(features_of_all([numbers(0, 3), numbers(0, 3, "y")])) == ["x", "y"]
    with pytest.raises(SchemaMismatch, match="every feature name once.*rename"):
        features_of_all([numbers(0, 3), numbers(0, 3)])
    with pytest.raises(SchemaMismatch, match="3 examples, found 4"):
        features_of_all([numbers(0, 3), numbers(0, 4, "y")])


def test_other_features_behind():
    refuse_other_features([numbers(0, 3), numbers(0, 4)])
    with pytest.raises(SchemaMismatch, match="'y'"):
        refuse_other_features([numbers(0, 3), numbers(0, 4, "y")])
