"""One feature of every kind, and rows of them: what a format is shown to see what it holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace._optional import require
from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema
from headrace.contracts.values import Ragged

__all__ = ["KINDS", "kinds_batch", "kinds_schema"]

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
    """Rows of every kind, among them the smallest and the largest values of each type, NaN and empty lists.

    Args:
        rows: How many.
        names: Of the kinds; by default all.
        seed: Of the numbers.
    """
    chosen = KINDS if names is None else {name: KINDS[name] for name in names}
    return {
        name: _column(feature, rows, np.random.default_rng((seed, at)))
        for at, (name, feature) in enumerate(chosen.items())
    }


def _column(feature: Feature, rows: int, rng: np.random.Generator) -> Any:
    if feature.sparse:
        return _sparse(feature, rows, rng)
    return _nested(feature.shape, feature, rows, rng)


def _nested(shape: tuple[int | None, ...], feature: Feature, rows: int, rng: np.random.Generator) -> Any:
    if not shape:
        return _leaves(feature, rows, rng)
    if shape[0] is not None:
        inner = _nested(shape[1:], feature, rows * shape[0], rng)
        return inner.reshape(rows, shape[0], *inner.shape[1:])
    lengths = rng.integers(0, 4, rows)
    lengths[:1] = 2
    offsets = np.zeros(rows + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return Ragged(_nested(shape[1:], feature, int(offsets[-1]), rng), offsets)


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
