"""The conformance suites notice every difference, and name its place."""

import numpy as np
import pytest

from headrace import _optional, testing
from headrace.contracts.values import Ragged
from headrace.errors import MissingExtra
from headrace.testing import KINDS, assert_same, kinds_batch, kinds_schema

RAGGED = Ragged.from_list([[1], [2, 3]], np.int64)


def test_rows_of_every_kind():
    batch = kinds_batch(30)
    assert list(batch) == list(KINDS) == list(kinds_schema())
    assert_same(batch, kinds_batch(30))
    assert_same(kinds_batch(30, ["int8"]), {"int8": kinds_batch(30, ["int8"])["int8"]})
    assert batch["int8"][:2].tolist() == [-128, 127]
    assert np.isnan(batch["float32"]).any()
    assert np.nanmax(batch["float32"]) == np.finfo(np.float32).max
    assert 0 in batch["ragged"].lengths
    assert batch["sparse"].shape == (30, 40)
    with pytest.raises(AssertionError, match=r"^int64: "):
        assert_same(kinds_batch(30, ["int64"]), kinds_batch(30, ["int64"], seed=1))


@pytest.mark.parametrize("name", KINDS)
def test_one_row_less_is_a_difference(name):
    batch = kinds_batch(9, [name])
    column = batch[name]
    less = Ragged(column[:-1].values, column[:-1].offsets) if isinstance(column, Ragged) else column[:-1]
    with pytest.raises(AssertionError, match=f"^{name}: "):
        assert_same({name: less}, batch)


DIFFERENCES = [
    ({"a": 1}, {"b": 1}, r"^value: features \['a'\], expected \['b'\]$"),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}, "^value: features"),
    ({"a": 1}, {"a": 2}, r"^a: \[1\], expected \[2\]$"),
    (np.array([1, 2]), RAGGED, "^value: ndarray, expected Ragged$"),
    (Ragged.from_list([[1, 2], [3]], np.int64), RAGGED, "^value: rows of other lengths$"),
    (Ragged.from_list([[1], [2, 4]], np.int64), RAGGED, r"^value: \[1 2 4\], expected \[1 2 3\]$"),
    ([1, 2], [1], "^value: 2 rows, expected 1$"),
    ([1, 2], [1, 3], r"^value: \[2\], expected \[3\]$"),
    (b"a", "a", "^value: bytes, expected str$"),
    ("a", "b", "^value: 'a', expected 'b'$"),
    (np.zeros(2), np.zeros((2, 1)), r"^value: shape \(2,\), expected \(2, 1\)$"),
    (np.zeros(2, np.int32), np.zeros(2, np.int64), "^value: int32, expected int64$"),
    (np.array([np.nan, 1]), np.array([np.nan, 2]), "^value: "),
]


@pytest.mark.parametrize(("found", "expected", "message"), DIFFERENCES)
def test_differences(found, expected, message):
    with pytest.raises(AssertionError, match=message):
        assert_same(found, expected)
    assert_same(expected, expected)


def test_sparse_rows_are_not_dense_ones():
    batch = kinds_batch(3, ["sparse"])
    with pytest.raises(AssertionError, match="^sparse: ndarray, expected a sparse one$"):
        assert_same({"sparse": batch["sparse"].toarray()}, batch)


def test_what_is_equal():
    assert_same(np.array([np.nan, 1]), np.array([np.nan, 1]))
    assert_same(np.array([1, 2], np.int32), np.array([1.0, 2.0]), dtypes=False)
    assert_same(np.zeros(0, np.int32), np.zeros(0))  # no value has the other dtype


def test_suites_are_loaded_when_asked_for(monkeypatch):
    assert {"CodecTests", "FormatTests", "SourceTests"} <= set(dir(testing))
    with pytest.raises(AttributeError, match="'headrace.testing' has no attribute 'Nothing'"):
        testing.Nothing
    monkeypatch.delitem(vars(testing), "CodecTests", raising=False)
    assert testing.CodecTests.__name__ == "CodecTests"
    monkeypatch.delitem(vars(testing), "CodecTests")
    monkeypatch.setattr(_optional, "available", lambda _name: False)
    assert "CodecTests" not in dir(testing)

    def refuse(name, *, extra):
        raise MissingExtra(name, extra)

    monkeypatch.setattr(_optional, "require", refuse)
    with pytest.raises(MissingExtra, match="test"):
        testing.CodecTests
