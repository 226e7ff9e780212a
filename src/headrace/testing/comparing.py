"""Whether two batches are the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from headrace.contracts.values import Ragged

__all__ = ["assert_same"]


def assert_same(found: Any, expected: Any, *, dtypes: bool = True, what: str = "value") -> None:
    """Assert that two batches, examples, columns or values are the same: kinds, shapes, dtypes, and values with NaN like NaN.

    Args:
        found: What came out.
        expected: What should have.
        dtypes: ``False`` compares values of different dtypes by value.
        what: What an error calls it.

    Raises:
        AssertionError: They are not; says where.
    """
    if isinstance(expected, Mapping):
        assert list(found) == list(expected), f"{what}: features {list(found)}, expected {list(expected)}"
        for name in expected:
            assert_same(found[name], expected[name], dtypes=dtypes, what=name)
    elif isinstance(expected, Ragged):
        assert isinstance(found, Ragged), f"{what}: {type(found).__name__}, expected Ragged"
        assert found.offsets.tolist() == expected.offsets.tolist(), f"{what}: rows of other lengths"
        assert_same(found.values, expected.values, dtypes=dtypes, what=what)
    elif hasattr(expected, "tocsr"):
        assert hasattr(found, "tocsr"), f"{what}: {type(found).__name__}, expected a sparse one"
        assert_same(found.toarray(), expected.toarray(), dtypes=dtypes, what=what)
    elif isinstance(expected, list):
        assert len(found) == len(expected), f"{what}: {len(found)} rows, expected {len(expected)}"
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other, dtypes=dtypes, what=what)
    elif isinstance(expected, (bytes, str)):
        assert type(found) is type(expected), f"{what}: {type(found).__name__}, expected {type(expected).__name__}"
        assert found == expected, f"{what}: {found!r}, expected {expected!r}"
    else:
        _assert_arrays(np.asarray(found), np.asarray(expected), dtypes=dtypes, what=what)


def _assert_arrays(found: Any, expected: Any, *, dtypes: bool, what: str) -> None:
    assert found.shape == expected.shape, f"{what}: shape {found.shape}, expected {expected.shape}"
    if dtypes and expected.size:
        assert found.dtype == expected.dtype, f"{what}: {found.dtype}, expected {expected.dtype}"
    nan_like_nan = found.dtype.kind in "fcmM" and expected.dtype.kind in "fcmM"
    same = np.array_equal(found, expected, equal_nan=nan_like_nan)
    assert same, f"{what}: {found.ravel()[:8]}, expected {expected.ravel()[:8]}"
