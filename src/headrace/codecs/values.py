"""Shared by the codecs: text and numbers between payloads and columns, nested rows, and checks. Lossy conversions are refused."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace._numbers import exact_mask
from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema, join_present
from headrace.contracts.strings import Strings
from headrace.contracts.values import Ragged
from headrace.errors import DataError, NoSuchFeature, SchemaMismatch, UnsupportedData, Where

__all__ = [
    "add_axes",
    "all_faults",
    "fit_dtype",
    "nest",
    "offsets_of",
    "refuse_missing",
    "shape_column",
    "strings_of",
    "texts_of",
    "to_exact",
    "to_wire",
    "unnest",
]


RecordOf = Callable[[int], int | None]
"""The record of the value at a position; ``None`` if unknown."""


Texts = Strings | tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], int]
"""A column; or data, offsets, and the first value that is not UTF-8, or -1: from native code."""


def texts_of(found: Texts, feature: Feature, name: str, record_of: RecordOf) -> Strings:
    """Values as read.

    Raises:
        SchemaMismatch: Text that is not UTF-8.
    """
    if isinstance(found, Strings):
        return found
    data, offsets, bad = found
    is_text = feature.dtype == "str"
    if is_text and bad >= 0:
        raise SchemaMismatch(
            Where(record=record_of(bad), feature=name),
            expected="UTF-8 text",
            found=f"the bytes {data[offsets[bad] : offsets[bad + 1]][:16].tobytes()!r}",
            hint=f"Open with a schema in which {name!r} is Feature('bytes').",
        )
    return Strings.trust(data, offsets, is_text)


def strings_of(values: Any, feature: Feature, name: str, record_of: RecordOf) -> Strings:
    """Values of a flat column as stored.

    Raises:
        SchemaMismatch: A value is neither text nor bytes, or does not fit the feature (bytes that are not UTF-8 are not text).
    """
    is_text = feature.dtype == "str"
    if isinstance(values, Strings) and (values.is_text or not is_text):
        return values
    values = values.tolist()
    data, offsets, bad = _native.make_strings(values, is_text)
    if bad >= 0:
        raise SchemaMismatch(
            Where(record=record_of(bad), feature=name),
            expected="UTF-8 text" if is_text else "bytes",
            found=f"{type(values[bad]).__name__} {values[bad]!r:.40}",
        )
    return Strings.trust(data, offsets, is_text)


def fit_dtype(
    flat: npt.NDArray[Any], dtype: str, name: str, *, per_record: int, offsets: npt.NDArray[np.int64] | None
) -> npt.NDArray[Any]:
    """Convert stored numbers to the schema's dtype.

    Args:
        flat: ``int64`` or ``float32`` values of all records, concatenated.
        dtype: The requested dtype.
        name: The feature, for messages.
        per_record: Values per record if fixed, else 0 or less.
        offsets: Where each record's values begin, if not fixed.

    Raises:
        SchemaMismatch: A number is outside the dtype. The error names its record.
    """
    wanted = np.dtype(dtype)
    if flat.dtype == wanted:
        return flat
    if wanted == np.uint64 and flat.dtype == np.int64:
        return flat.view(np.uint64)  # the upper half of uint64 is stored as negative numbers, as in TFDS
    bad, limits = _outside(flat, wanted)
    if bad is not None:
        after = None if offsets is None else int(np.searchsorted(offsets, bad, side="right"))
        record = bad // max(per_record, 1) if after is None else after - 1
        raise SchemaMismatch(
            Where(record=record, feature=name), expected=f"{wanted} values in {limits}", found=str(flat[bad])
        )
    return flat.astype(wanted)


def _outside(flat: npt.NDArray[Any], wanted: np.dtype[Any]) -> tuple[int | None, str]:
    """The position of the first number outside a dtype (infinities and NaN fit any float), and the limits of the dtype."""
    if np.can_cast(flat.dtype, wanted):
        return None, ""
    low, high = _limits(wanted)
    mask = (flat < low) | (flat > high)
    if flat.dtype.kind == "f":
        mask &= np.isfinite(flat)
    bad = np.flatnonzero(mask)
    return (int(bad[0]) if len(bad) else None), f"[{low}, {high}]"


def _limits(wanted: np.dtype[Any]) -> tuple[float, float]:
    if wanted.kind == "b":
        return 0, 1
    if wanted.kind == "f":
        return float(np.finfo(wanted).min), float(np.finfo(wanted).max)
    return np.iinfo(wanted).min, np.iinfo(wanted).max


def to_wire(flat: npt.NDArray[Any], wire: type[np.float32 | np.int64], dtype: str, name: str) -> npt.NDArray[Any]:
    """A column's numbers as stored in payloads: contiguous ``float32`` or ``int64``.

    Raises:
        SchemaMismatch: The column is not numeric or not of the schema's kind, or has numbers outside its dtype.
        UnsupportedData: ``float32`` cannot hold a number exactly, and it is an integer or the schema says ``float64``.
    """
    if flat.dtype == wire and flat.dtype.name == dtype:
        return np.ascontiguousarray(flat)
    if flat.size == 0:
        return np.zeros(0, wire)
    if flat.dtype.kind not in ("iub" if wire is np.int64 else "fiub"):
        hint = "Text is no number: labels are stored as names.index(label)." if flat.dtype.kind in "OSU" else ""
        raise SchemaMismatch(Where(feature=name), expected=f"{dtype} values", found=_describe_fault(flat), hint=hint)
    bad, limits = _outside(flat, np.dtype(dtype))
    if bad is not None:
        raise SchemaMismatch(Where(feature=name), expected=f"{dtype} values in {limits}", found=str(flat[bad]))
    if wire is np.int64:
        return flat.view(np.int64) if flat.dtype == np.uint64 else np.ascontiguousarray(flat, np.int64)
    return _as_float32(flat, dtype, name)


def _describe_fault(flat: npt.NDArray[Any]) -> str:
    """The dtype of a column that is not of integers, with the first fraction: one makes floats of all integers in a batch."""
    if flat.dtype.kind == "f" and (is_fraction := flat != np.floor(flat)).any():
        return f"{flat[is_fraction][0]} ({flat.dtype})"
    return str(flat.dtype)


def _as_float32(flat: npt.NDArray[Any], dtype: str, name: str) -> npt.NDArray[Any]:
    with np.errstate(over="ignore", invalid="ignore"):  # a signalling NaN becomes a quiet one
        narrow = np.ascontiguousarray(flat, np.float32)
    if flat.dtype.kind in "iu":
        is_kept = bool(exact_mask(flat, "float16" if dtype == "float16" else np.float32).all())
    else:
        is_kept = dtype != "float64" or np.array_equal(narrow.astype(np.float64), flat, equal_nan=True)
    if not is_kept:
        raise UnsupportedData(
            Where(feature=name),
            expected="numbers that float32 can hold, because an Example stores float32",
            found=f"{flat.dtype} values that it cannot",
            hint="Round them with astype(np.float32) (Python floats of functions are float64), or pass a schema with float32.",
        )
    return narrow


def to_exact(
    flat: npt.NDArray[Any], wire: np.dtype[Any], dtype: str, name: str, *, per_record: int
) -> npt.NDArray[Any]:
    """A column's numbers in the dtype of the payload, contiguous. Floats are rounded, but stay finite; integers must fit exactly.

    Raises:
        SchemaMismatch: The column is not numeric, has floats where integers are wanted, or numbers outside the schema's dtype.
        UnsupportedData: ``wire`` cannot hold a number. The error names its record if ``per_record`` is positive.
    """
    if flat.dtype == wire or flat.size == 0:
        return np.ascontiguousarray(flat, wire)
    if flat.dtype.kind not in ("iub" if wire.kind == "i" else "fiub"):
        raise SchemaMismatch(Where(feature=name), expected=f"numbers that become {wire}", found=_describe_fault(flat))

    def record_of(at: int) -> int | None:
        return at // per_record if per_record > 0 else None

    beyond, limits = _outside(flat, np.dtype(dtype))
    if beyond is not None:
        where = Where(record=record_of(beyond), feature=name)
        raise SchemaMismatch(where, expected=f"{dtype} values in {limits}", found=str(flat[beyond]))
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = np.ascontiguousarray(flat, wire)
        if flat.dtype.kind == "f":
            kept = np.isfinite(narrow) | ~np.isfinite(flat)
        elif wire.kind == "f" and flat.dtype.kind != "b":
            kept = exact_mask(flat, dtype)
        else:
            kept = (narrow.astype(flat.dtype) == flat) & ((narrow < 0) == (flat < 0))
    bad = np.flatnonzero(np.logical_not(kept))
    if len(bad):
        position = int(bad[0])
        raise UnsupportedData(
            Where(record=record_of(position), feature=name),
            expected=f"numbers that {wire} can hold, as the payload stores them",
            found=f"{flat[position]} ({flat.dtype})",
        )
    return narrow


def all_faults(decode: Callable[[_native.Spans], object], spans: _native.Spans) -> list[DataError]:
    """One error per bad payload, in order. ``where.record`` is its position.

    Args:
        decode: Raises for the first bad payload, with its position in its argument.
        spans: The payloads.
    """
    faults: list[DataError] = []
    start = 0
    while start < len(spans):
        try:
            decode(spans.part(start, len(spans)))
            break
        except DataError as error:
            position = start + (error.where.record or 0)
            faults.append(error.relocated(Where(record=position)))
            start = position + 1
    return faults


def refuse_missing(schema: Schema, batch: Container[str]) -> None:
    """Refuse to write a batch that lacks a feature.

    Raises:
        NoSuchFeature: Names the first missing feature.
    """
    missing = [name for name in schema if name not in batch]
    if missing:
        raise NoSuchFeature(Where(), expected=f"the features {list(schema)}", found=f"no {missing[0]!r}")


Shape = tuple[int | None, ...]


def offsets_of(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The limits of rows of these lengths: ``int64 (n + 1,)``."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def nest(flat: Any, shapes: npt.NDArray[np.int64], shape: Shape) -> Ragged:
    """Nested rows, down to the last axis of ``shape`` that varies.

    Args:
        flat: Values of all records, concatenated.
        shapes: ``int64 (n, rank)``: each record's shape.
        shape: The feature's shape, with at least one ``None``.
    """
    levels = 1 + max(axis for axis, length in enumerate(shape) if length is None)
    rows = int(shapes[:, :levels].prod(axis=1).sum())
    values: Any = flat.reshape((rows, *(length for length in shape[levels:] if length is not None)))
    for level in range(levels - 1, -1, -1):
        outer = shapes[:, :level].prod(axis=1)  # rows of this level per record
        values = Ragged(values, offsets_of(np.repeat(shapes[:, level], outer)))
    assert isinstance(values, Ragged)
    return values


def nest_rows(rows: Any, feature: Feature) -> Any:
    """A list of arrays whose shapes differ in several axes as nested rows, as if one of them were not rectangular. Any other column as it is.

    >>> nest_rows([np.zeros((2, 2)), np.zeros((1, 1))], Feature("float64", (None, None))).to_list()
    [[[0.0, 0.0], [0.0, 0.0]], [[0.0]]]
    """
    shape = feature.shape
    if not isinstance(rows, list) or shape.count(None) < 2:
        return rows
    try:  # as objects, because NumPy's text dtypes strip trailing zero bytes
        kind = object if feature.is_text else None
        rows = [row if isinstance(row, (np.ndarray, Strings)) else np.asarray(row, kind) for row in rows]
    except ValueError:
        return rows
    if any(row.ndim != len(shape) for row in rows):
        return rows
    shapes = np.array([row.shape for row in rows], np.int64).reshape(-1, len(shape))
    if any(wanted is not None and (shapes[:, axis] != wanted).any() for axis, wanted in enumerate(shape)):
        return rows  # refused later
    return nest(Ragged.from_list([row.reshape(-1) for row in rows]).values, shapes, shape) if rows else rows


def add_axes(column: Any, shape: Shape) -> Any:
    """A column without a value in the shape of its feature: ``[]`` says nothing about the axes inside. Any other column as it is.

    >>> add_axes(np.zeros((5, 0)), (None, 4)).shape
    (5, 0, 4)
    """
    if isinstance(column, Ragged):
        inner = add_axes(column.values, shape[1:])
        return column if inner is column.values else Ragged(inner, column.offsets)
    if not isinstance(column, (np.ndarray, Strings)) or column.size or not 0 < column.ndim <= len(shape):
        return column
    return column.reshape(*column.shape, *(length or 0 for length in shape[column.ndim - 1 :]))


def shape_column(column: Any, feature: Feature, name: str) -> Any:
    """A column to encode: of optional values those, which must all be there, and with all axes of its feature.

    Raises:
        SchemaMismatch: A value is missing. ``where.record`` is its row.
    """
    is_one_text = feature.is_text and not feature.shape  # looked at one by one later
    column = nest_rows(column, feature)
    return add_axes(column if is_one_text else join_present(column, name), feature.shape)


def unnest(column: Ragged, shape: Shape, name: str) -> tuple[Any, npt.NDArray[np.int64]]:
    """Flat values, and the shape of each record, ``int64 (n, rank)``.

    Raises:
        SchemaMismatch: Rows have no common shape, or one that does not match ``shape``.
    """
    shapes = np.zeros((len(column), len(shape)), np.int64)
    record = np.arange(len(column))
    values: Any = column
    level = 0
    while isinstance(values, Ragged) and level < len(shape):
        shapes[record, level] = values.lengths
        uneven = np.flatnonzero(shapes[record, level] != values.lengths)
        if len(uneven):
            where = Where(record=int(record[uneven[0]]), feature=name)
            raise SchemaMismatch(where, expected="rows of one length in each record", found="rows of several")
        record = np.repeat(record, values.lengths)
        values, level = values.values, level + 1
    inner: Any = np.zeros(0) if isinstance(values, Ragged) else values
    inner = inner if isinstance(inner, Strings) else np.asarray(inner)
    if isinstance(values, Ragged) or level + inner.ndim - 1 != len(shape):
        raise SchemaMismatch(Where(feature=name), expected=f"rows of shape {shape}", found="rows of another rank")
    shapes[:, level:] = inner.shape[1:]
    _check_shapes(shapes, shape, name)
    return inner.reshape(-1), shapes


def _check_shapes(shapes: npt.NDArray[np.int64], shape: Shape, name: str) -> None:
    wanted = np.array([-1 if length is None else length for length in shape])
    other = ((shapes != wanted) & (wanted >= 0)).any(axis=1)
    bad = np.flatnonzero(other & (shapes.prod(axis=1) > 0))
    if len(bad):
        where = Where(record=int(bad[0]), feature=name)
        raise SchemaMismatch(where, expected=f"shape {shape}", found=f"{tuple(shapes[bad[0]].tolist())}")
