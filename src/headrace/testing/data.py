"""One feature of every kind, rows of them, and whether two batches are the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headrace._optional import require
from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema
from headrace.contracts.values import Ragged

__all__ = ["KINDS", "assert_same", "kinds_batch", "kinds_schema"]

KINDS: dict[str, Feature] = {
    "flag": Feature("bool"),
    "int8": Feature("int8"),
    "int32": Feature("int32"),
    "int64": Feature("int64"),
    "uint64": Feature("uint64"),
    "float16": Feature("float16"),
    "float32": Feature("float32"),
    "float64": Feature("float64"),
    "text": Feature("str"),
    "payload": Feature("bytes"),
    "when": Feature("M8[us]"),
    "vector": Feature("float32", (5,)),
    "matrix": Feature("uint8", (3, 4)),
    "words": Feature("str", (2,)),
    "ragged": Feature("float32", (None,)),
    "points": Feature("float64", (None, 2)),
    "texts": Feature("str", (None,)),
    "nested": Feature("int64", (None, None)),
    "sparse": Feature("float32", (40,), sparse=True),
}
"""Names are those of the columns of :func:`kinds_batch`."""


def kinds_schema(names: Sequence[str] | None = None) -> Schema:
    """The features of these kinds; by default of all."""
    return Schema({name: KINDS[name] for name in (KINDS if names is None else names)})


def kinds_batch(rows: int, names: Sequence[str] | None = None, *, seed: int = 0) -> dict[str, Any]:
    """Rows of every kind, with the smallest and the largest values of each type, NaN and empty lists.

    Args:
        rows: The number of rows.
        names: Of the kinds; by default all.
        seed: Of the random values.
    """
    chosen = KINDS if names is None else {name: KINDS[name] for name in names}
    return {
        name: _column(feature, rows, np.random.default_rng((seed, at)))
        for at, (name, feature) in enumerate(chosen.items())
    }


def _column(feature: Feature, rows: int, rng: np.random.Generator) -> Any:
    if feature.sparse:
        return _sparse(feature, rows, rng)
    return _column_of_axes(feature.shape, feature, rows, rng)


def _column_of_axes(shape: tuple[int | None, ...], feature: Feature, rows: int, rng: np.random.Generator) -> Any:
    if not shape:
        return _leaves(feature, rows, rng)
    if shape[0] is not None:
        inner = _column_of_axes(shape[1:], feature, rows * shape[0], rng)
        return inner.reshape(rows, shape[0], *inner.shape[1:])
    lengths = rng.integers(0, 4, rows)
    lengths[:1] = 2
    offsets = np.zeros(rows + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return Ragged(_column_of_axes(shape[1:], feature, int(offsets[-1]), rng), offsets)


def _leaves(feature: Feature, count: int, rng: np.random.Generator) -> Any:
    if feature.is_text:
        column = np.empty(count, object)
        for at in range(count):
            text = "".join(rng.choice(list("az AZ09,;\"'\\/\n\täß€𝄞"), rng.integers(0, 9)))
            column[at] = text if feature.dtype == "str" else text.encode("utf-16-le")[: rng.integers(0, 20)]
        return column
    dtype = feature.numpy_dtype
    if dtype.kind == "b":
        return rng.random(count) < 0.5
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        values = rng.integers(limits.min, limits.max, count, dtype, endpoint=True)
        values[:2] = np.array([limits.min, limits.max], dtype)[: len(values[:2])]
        return values
    if dtype.kind == "M":
        return rng.integers(0, 2**50, count).astype(dtype)
    values = (rng.standard_normal(count) * 10.0 ** rng.integers(-3, 4, count)).astype(dtype)
    floats = np.finfo(dtype)
    values[:3] = np.array([floats.max, floats.tiny, np.nan], dtype)[: len(values[:3])]
    return values


def _sparse(feature: Feature, rows: int, rng: np.random.Generator) -> Any:
    dense = rng.random((rows, feature.shape[0] or 0)).astype(feature.numpy_dtype)
    dense[dense < 0.9] = 0
    return require("scipy.sparse", extra="sklearn").csr_array(dense)


def assert_same(found: Any, expected: Any, *, dtypes: bool = True, what: str = "value") -> None:
    """Assert that two batches, examples, columns or values are the same: kinds, shapes, dtypes, and values, with NaN equal to NaN.

    Args:
        found: The result.
        expected: The expected result.
        dtypes: ``False`` compares values of different dtypes by value.
        what: Its name in errors.

    Raises:
        AssertionError: They differ; the message says where.
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
