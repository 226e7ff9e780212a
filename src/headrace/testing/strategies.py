"""Hypothesis strategies for features, schemas, and batches of examples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema
from headrace.contracts.values import Ragged

__all__ = ["batches", "columns", "features", "schemas"]

NUMBERS = ("bool", "int8", "int32", "int64", "uint8", "uint16", "float16", "float32", "float64")
NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,6}", fullmatch=True)


@st.composite
def features(
    draw: st.DrawFn, dtypes: Sequence[str] = (*NUMBERS, "str", "bytes"), *, most_axes: int = 2, varying: bool = True
) -> Feature:
    """Features of these dtypes, with up to ``most_axes`` axes of which the first may vary."""
    dtype = draw(st.sampled_from(list(dtypes)))
    shape: list[int | None] = draw(st.lists(st.integers(1, 3), max_size=most_axes))
    if shape and varying and draw(st.booleans()):
        shape[0] = None
    return Feature(dtype, tuple(shape))


@st.composite
def schemas(
    draw: st.DrawFn, feature: st.SearchStrategy[Feature] | None = None, *, least: int = 1, most: int = 4
) -> Schema:
    """Schemas of ``least`` to ``most`` features."""
    names = draw(st.lists(NAMES, min_size=least, max_size=most, unique=True))
    return Schema({name: draw(features() if feature is None else feature) for name in names})


def columns(feature: Feature, rows: int) -> st.SearchStrategy[Any]:
    """Batch columns of one feature. NaN is left out, so that what comes back can be compared with ``==``."""
    if feature.shape[:1] == (None,):
        return _ragged_columns(feature, rows)
    shape = (rows, *(int(length or 0) for length in feature.shape))
    if feature.is_text:
        return _text_columns(feature, shape)
    return hnp.arrays(feature.numpy_dtype, shape, elements=_numbers(feature.numpy_dtype))


@st.composite
def _ragged_columns(draw: st.DrawFn, feature: Feature, rows: int) -> Ragged:
    lengths = draw(st.lists(st.integers(0, 4), min_size=rows, max_size=rows))
    inner = Feature(feature.dtype, feature.shape[1:])
    return Ragged(draw(columns(inner, sum(lengths))), np.concatenate(([0], np.cumsum(lengths))).astype(np.int64))


@st.composite
def _text_columns(draw: st.DrawFn, feature: Feature, shape: tuple[int, ...]) -> Any:
    count = int(np.prod(shape))
    one: st.SearchStrategy[Any] = st.binary(max_size=12)
    if feature.dtype == "str":
        one = st.text(st.characters(codec="utf-8"), max_size=8)
    column = np.empty(count, object)
    column[:] = draw(st.lists(one, min_size=count, max_size=count))
    return column.reshape(shape)


def _numbers(dtype: np.dtype[Any]) -> st.SearchStrategy[Any] | None:
    if dtype.kind != "f":
        return None
    bits: Any = 8 * dtype.itemsize
    return st.floats(width=bits, allow_nan=False, allow_infinity=False)


@st.composite
def batches(draw: st.DrawFn, schema: Schema, *, rows: st.SearchStrategy[int] | None = None) -> dict[str, Any]:
    """Batches of a schema: columns as a source gives them."""
    count = draw(st.integers(1, 12) if rows is None else rows)
    return {name: draw(columns(feature, count)) for name, feature in schema.items()}
