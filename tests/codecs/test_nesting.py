import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.codecs.values import nest, unnest
from headrace.contracts.values import Ragged
from headrace.errors import SchemaMismatch

SHAPES = [(None,), (None, 2), (2, None), (None, None), (None, 3, None), (None, None, None, 2)]


@given(st.sampled_from(SHAPES), st.data())
def test_nesting_and_back(shape, data):
    lengths = st.tuples(*(st.integers(0, 3) if n is None else st.just(n) for n in shape))
    shapes = np.array(data.draw(st.lists(lengths, max_size=4)), np.int64).reshape(-1, len(shape))
    flat = np.arange(shapes.prod(axis=1).sum())
    column = nest(flat, shapes, shape)
    assert len(column) == len(shapes)
    back, found = unnest(column, shape, "x")
    assert np.array_equal(back, flat)
    # An empty value need not keep the lengths after the empty axis.
    assert np.array_equal(found.prod(axis=1), shapes.prod(axis=1))
    full = shapes.prod(axis=1) > 0
    assert np.array_equal(found[full], shapes[full])
    at = 0
    for row, lengths in zip(column, shapes.tolist(), strict=True):
        count = int(np.prod(lengths))
        expected = flat[at : at + count].reshape(lengths).tolist()
        assert (row.to_list() if isinstance(row, Ragged) else row.tolist()) == expected
        at += count


def test_rows_without_one_shape():
    uneven = Ragged(Ragged(np.arange(3), np.array([0, 1, 3])), np.array([0, 2]))
    with pytest.raises(SchemaMismatch, match="one length in each record, found rows of several - at record 0"):
        unnest(uneven, (None, None), "x")
    with pytest.raises(SchemaMismatch, match="another rank"):
        unnest(uneven, (None,), "x")
    with pytest.raises(SchemaMismatch, match=r"shape \(None, 2\), found \(2, 1\) - at record 0"):
        unnest(Ragged(np.zeros((2, 1)), np.array([0, 2])), (None, 2), "x")
