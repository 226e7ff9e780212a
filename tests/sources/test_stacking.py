import numpy as np
import pytest

import headrace as hr
from headrace.contracts.values import Ragged
from headrace.sources.stacking import stack


def test_equal_shapes_become_an_array_and_other_lengths_a_ragged():
    assert stack([{"a": np.arange(2)}, {"a": [5, 6]}])["a"].tolist() == [[0, 1], [5, 6]]
    column = stack([{"a": np.zeros((2, 3))}, {"a": np.zeros((0, 3))}, {"a": []}])["a"]
    assert isinstance(column, Ragged)
    assert [len(row) for row in column] == [2, 0, 0]


@pytest.mark.parametrize("other", [3.0, "x", np.ones((2, 2))])
def test_rows_of_different_ranks_stay_a_list_which_writers_refuse(tmp_path, other):
    rows = [{"a": np.arange(2)}, {"a": other}]
    for given in (rows, rows[::-1]):
        column = stack(given)["a"]
        assert not isinstance(column, Ragged)
        with pytest.raises(hr.DataError, match="'a'"):
            hr.write(tmp_path / "x.tfrecord", given)
    assert not list(tmp_path.iterdir())


def test_no_examples_have_no_columns():
    assert stack([]) == {}


def test_sparse_columns_are_matrices():
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(TypeError, match=r"column 'x' must be an array .*, got a sparse array of shape \(3,\)"):
        hr.ColumnSource({"x": sparse.coo_array(np.ones(3))})
