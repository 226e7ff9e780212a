"""Columns in the types of a schema, for formats of columns. Values that would change are refused.

Codecs of records check what they encode. The writers of Parquet, npz, WebDataset and so on come from other libraries or cast arrays, which
wraps integers, drops fractions and cuts text without a word.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace._numbers import kept_mask
from headrace.codecs.values import Shape, add_axes, nest_rows, strings_of
from headrace.contracts.feature import Feature
from headrace.contracts.schema import join_present
from headrace.contracts.strings import Strings
from headrace.contracts.values import Ragged, without_objects
from headrace.errors import SchemaMismatch, Where

__all__ = ["fit_column"]

NAMES_HINT = "Labels with names are stored as numbers: give names.index(label)."
HINT = "By default types come from the first examples. Give a schema in which all values fit."
KINDS = {"b": "biu", "i": "biu", "u": "biu", "f": "biuf", "c": "biufc", "m": "m", "M": "M", "U": "U", "S": "S"}
"""The kinds of numbers that each kind may hold."""

BEGINS_TIME = re.compile(r"[+-]?\d|NaT$")

RowOf = Callable[[int], int | None]
"""The row of the value at a position."""


def fit_column(column: Any, feature: Feature, name: str) -> Any:
    """A column in the type of its feature. Floats may be rounded to a narrower type, but nothing else may change.

    Args:
        column: ``ndarray (n, ...)``, :class:`~headrace.Strings`, :class:`~headrace.Ragged`, sparse rows (which are left to the format), or
            a list of one array for each row.
        feature: What it should hold.
        name: Its name, for messages.

    Raises:
        SchemaMismatch: A value or a shape does not fit. ``where.record`` is its row, if known.
    """
    if feature.sparse or feature.dtype == "examples" or hasattr(column, "tocsr"):
        return column
    if feature.is_text:
        column = nest_rows(column, feature)
    return _fit(add_axes(column, feature.shape), feature.shape, feature, name, lambda at: at)


def _fit(column: Any, shape: Shape, feature: Feature, name: str, row_of: RowOf) -> Any:
    """Rows of this shape. ``row_of`` gives the example of each."""
    if isinstance(column, Ragged):
        if not shape:
            raise _shape_error(feature, name, row_of(0) if len(column) else None, "rows with one more axis")
        lengths = column.lengths
        if shape[0] is not None and len(wrong := np.flatnonzero(lengths != shape[0])):
            raise _shape_error(feature, name, row_of(int(wrong[0])), f"a length of {lengths[wrong[0]]}")
        first = int(column.offsets[0])
        inner = _fit(column.values, shape[1:], feature, name, _row_of_value(column.offsets - first, row_of))
        return column if inner is column.values else Ragged(inner, column.offsets)
    if isinstance(column, list):
        return [
            _fit(add_axes(_one(row), shape), shape, feature, name, _always(row_of, at))[0]
            for at, row in enumerate(column)
        ]
    if not isinstance(column, Strings):
        column = _without_gaps(np.asarray(column), name, row_of)
        if isinstance(column, (Ragged, list)):
            return _fit(column, shape, feature, name, row_of)
    found = column.shape[1:]
    if len(found) != len(shape) or any(want not in (None, have) for want, have in zip(shape, found, strict=True)):
        raise _shape_error(feature, name, row_of(0) if len(column) else None, f"{found}")
    per_row = int(np.prod(found, dtype=np.int64))

    def row_of_flat(at: int) -> int | None:
        return row_of(at // max(per_row, 1))

    if feature.is_text:
        return _fit_text(column, feature, name, row_of_flat)
    return _fit_numbers(column, feature, name, row_of_flat)


def _without_gaps(column: npt.NDArray[Any], name: str, row_of: RowOf) -> Any:
    try:
        return join_present(column, name)
    except SchemaMismatch as error:
        raise error.relocated(Where(record=row_of(error.where.record or 0))) from error


def _one(row: Any) -> Any:
    """A single row as a column."""
    array = row if isinstance(row, Strings) else np.asarray(row)
    return array.reshape(1, *array.shape)


def _always(row_of: RowOf, at: int) -> RowOf:
    return lambda _: row_of(at)


def _row_of_value(offsets: npt.NDArray[np.int64], row_of: RowOf) -> RowOf:
    return lambda at: row_of(int(np.searchsorted(offsets[1:], at, side="right")))


def _shape_error(feature: Feature, name: str, row: int | None, found: str) -> SchemaMismatch:
    where = Where(record=row, feature=name)
    return SchemaMismatch(where, expected=f"values of shape {feature.shape}", found=found, hint=HINT)


def _fit_text(column: Any, feature: Feature, name: str, row_of: RowOf) -> Any:
    if isinstance(column, Strings) and (column.is_text or feature.dtype == "bytes"):
        return column
    return strings_of(column.reshape(-1), feature, name, row_of).reshape(*column.shape)


def _fit_numbers(column: Any, feature: Feature, name: str, row_of: RowOf) -> Any:
    wanted = feature.numpy_dtype
    if wanted.kind == "M":
        column = column if isinstance(column, Strings) else without_objects(column)
        if isinstance(column, Strings) or column.dtype.kind in "US":
            column = _parse_times(column, feature, name, row_of)
    if isinstance(column, Strings):
        raise _values_error(feature, name, row_of(0) if len(column) else None, "text" if column.is_text else "bytes")
    if column.dtype == wanted:
        return column
    if not column.size:
        return column.astype(wanted)
    if column.dtype.kind not in KINDS.get(wanted.kind, ""):
        at, found = _find_fraction(column.reshape(-1), wanted)
        raise _values_error(feature, name, row_of(at), found)
    changed = np.zeros(1, np.int64)
    with np.errstate(all="ignore"), suppress(OverflowError):  # days in attoseconds
        fitted = column.astype(wanted)
        changed = np.flatnonzero(~kept_mask(column.reshape(-1), fitted.reshape(-1)))
    if len(changed):
        at = int(changed[0])
        raise _values_error(feature, name, row_of(at), f"{column.reshape(-1)[at]} ({column.dtype})")
    return fitted


def _find_fraction(flat: npt.NDArray[Any], wanted: np.dtype[Any]) -> tuple[int, str]:
    """The value at fault where one fraction has made floats of all integers, and its position; else the dtype, at the first."""
    if flat.dtype.kind == "f" and wanted.kind in "iu":
        fractions = np.flatnonzero(~np.isfinite(flat) | (flat != np.floor(flat)))
        if len(fractions):
            at = int(fractions[0])
            return at, f"{flat[at]} ({flat.dtype})"
    return 0, str(flat.dtype)


def _parse_times(column: Any, feature: Feature, name: str, row_of: RowOf) -> npt.NDArray[Any]:
    """Points in time that are written as text."""
    found = np.zeros(column.shape, feature.numpy_dtype)
    for at, value in enumerate(column.reshape(-1).tolist()):
        text = value.decode(errors="replace") if isinstance(value, bytes) else value
        try:
            point = np.array(np.datetime64(text if BEGINS_TIME.match(text) else "?"))  # NumPy takes "today", too
        except ValueError:
            point = np.zeros((), np.int64)
        found.reshape(-1)[at] = point.astype(found.dtype)
        if point.dtype.kind != "M" or not kept_mask(point.reshape(1), found.reshape(-1)[at : at + 1]).all():
            raise _values_error(feature, name, row_of(at), f"{text!r:.40}")
    return found


def _values_error(feature: Feature, name: str, row: int | None, found: str) -> SchemaMismatch:
    where = Where(record=row, feature=name)
    hint = HINT if feature.names is None else NAMES_HINT
    return SchemaMismatch(where, expected=f"{feature.dtype} values", found=found, hint=hint)
