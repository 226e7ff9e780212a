"""Values of messages to columns and back: bytes, UTF-8 text, and numbers of other dtypes than the payload has. What would be lost is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.contracts.feature import Feature
from headrace.errors import SchemaMismatch, UnsupportedData, Where

__all__ = ["bytes_of", "exact", "fitted", "stored", "texts_of"]


RecordOf = Callable[[int], int | None]
"""The record that the value at a position belongs to; ``None`` where that is not known."""


def texts_of(values: Sequence[bytes], feature: Feature, name: str, record_of: RecordOf) -> npt.NDArray[Any]:
    """Values as they are read: ``bytes``, or ``str`` where the feature is text; an object array.

    Raises:
        SchemaMismatch: Text that is not UTF-8.
    """
    column = np.empty(len(values), object)
    column[:] = values if feature.dtype == "bytes" else _decoded(values, name, record_of)
    return column


def bytes_of(values: Iterable[Any], feature: Feature, name: str, record_of: RecordOf) -> list[bytes]:
    """Values as they are stored.

    Raises:
        SchemaMismatch: One is neither text nor bytes, or does not fit the feature: bytes that are not UTF-8 are no text.
    """
    stored = []
    for position, value in enumerate(values):
        content = _stored(value, feature)
        if content is None:
            raise SchemaMismatch(
                Where(record=record_of(position), feature=name),
                expected="UTF-8 text" if feature.dtype == "str" else "bytes",
                found=f"{type(value).__name__} {value!r:.40}",
            )
        stored.append(content)
    return stored


def _decoded(values: Sequence[bytes], name: str, record_of: RecordOf) -> list[str]:
    try:
        return [value.decode() for value in values]
    except UnicodeDecodeError as error:
        position = next(i for i, value in enumerate(values) if not _is_utf8(value))
        raise SchemaMismatch(
            Where(record=record_of(position), feature=name),
            expected="UTF-8 text",
            found=f"the bytes {values[position][:16]!r}",
            hint=f"Open with a schema in which {name!r} is Feature('bytes').",
        ) from error


def _stored(value: Any, feature: Feature) -> bytes | None:
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError:  # half of a surrogate pair is no text either
            return None
    if isinstance(value, bytearray):
        value = bytes(value)
    if isinstance(value, bytes) and (feature.dtype == "bytes" or _is_utf8(value)):
        return value
    return None


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def fitted(
    flat: npt.NDArray[Any], dtype: str, name: str, *, per_record: int, offsets: npt.NDArray[np.int64] | None
) -> npt.NDArray[Any]:
    """Stored numbers as the schema's dtype.

    Args:
        flat: ``int64`` or ``float32`` values of all records, end to end.
        dtype: What is asked for.
        name: The feature, for messages.
        per_record: Values per record where that is fixed, else 0 or less.
        offsets: Where each record's values begin, where that varies.

    Raises:
        SchemaMismatch: A number is outside the dtype: names its record.
    """
    wanted = np.dtype(dtype)
    if flat.dtype == wanted:
        return flat
    if wanted == np.uint64:
        return flat.view(np.uint64)  # the upper half of uint64 is stored as negative numbers, as TFDS does
    bad, limits = _outside(flat, wanted)
    if bad is not None:
        after = None if offsets is None else int(np.searchsorted(offsets, bad, side="right"))
        record = bad // max(per_record, 1) if after is None else after - 1
        raise SchemaMismatch(
            Where(record=record, feature=name), expected=f"{wanted} values in {limits}", found=str(flat[bad])
        )
    return flat.astype(wanted)


def _outside(flat: npt.NDArray[Any], wanted: np.dtype[Any]) -> tuple[int | None, str]:
    """The position of the first number that lies outside a dtype (infinities and NaN lie in every float), and its limits."""
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


def stored(flat: npt.NDArray[Any], wire: type[np.float32 | np.int64], dtype: str, name: str) -> npt.NDArray[Any]:
    """A column's numbers as the payload holds them: contiguous ``float32`` or ``int64``.

    Raises:
        SchemaMismatch: The column is not of numbers of the schema's kind, or of numbers outside its dtype.
        UnsupportedData: Numbers that ``float32`` cannot hold exactly, where they are whole or the schema says ``float64``.
    """
    if flat.dtype == wire and flat.dtype.name == dtype:
        return np.ascontiguousarray(flat)
    if flat.size == 0:
        return np.zeros(0, wire)
    if flat.dtype.kind not in ("iub" if wire is np.int64 else "fiub"):
        raise SchemaMismatch(Where(feature=name), expected=f"{dtype} values", found=str(flat.dtype))
    bad, limits = _outside(flat, np.dtype(dtype))
    if bad is not None:
        raise SchemaMismatch(Where(feature=name), expected=f"{dtype} values in {limits}", found=str(flat[bad]))
    if wire is np.int64:
        return flat.view(np.int64) if flat.dtype == np.uint64 else np.ascontiguousarray(flat, np.int64)
    return _as_float32(flat, dtype, name)


def _as_float32(flat: npt.NDArray[Any], dtype: str, name: str) -> npt.NDArray[Any]:
    with np.errstate(over="ignore"):
        narrow = np.ascontiguousarray(flat, np.float32)
    must_be_exact = dtype == "float64" or flat.dtype.kind != "f"
    if must_be_exact and not np.array_equal(narrow.astype(np.float64), flat.astype(np.float64), equal_nan=True):
        raise UnsupportedData(
            Where(feature=name),
            expected="numbers that float32 can hold, which is what an Example stores",
            found=f"{flat.dtype} values that it cannot",
            hint="Round them yourself with astype(np.float32), or give a schema that says float32.",
        )
    return narrow


def exact(flat: npt.NDArray[Any], wire: np.dtype[Any], name: str, *, per_record: int) -> npt.NDArray[Any]:
    """A column's numbers as a payload of another dtype holds them, contiguous; floats are rounded, whole numbers kept.

    Raises:
        SchemaMismatch: The column is not of numbers, or of floats where whole numbers are wanted.
        UnsupportedData: A whole number that ``wire`` cannot hold: names its record, where ``per_record`` is positive.
    """
    if flat.dtype == wire or flat.size == 0:
        return np.ascontiguousarray(flat, wire)
    if flat.dtype.kind not in ("iub" if wire.kind == "i" else "fiub"):
        raise SchemaMismatch(Where(feature=name), expected=f"numbers that become {wire}", found=str(flat.dtype))
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = np.ascontiguousarray(flat, wire)
        kept = flat.dtype.kind == "f" or (narrow.astype(flat.dtype) == flat) & ((narrow < 0) == (flat < 0))
    bad = np.flatnonzero(np.logical_not(kept))
    if len(bad):
        position = int(bad[0])
        raise UnsupportedData(
            Where(record=position // per_record if per_record > 0 else None, feature=name),
            expected=f"numbers that {wire} can hold, which is what the payload stores",
            found=f"{flat[position]} ({flat.dtype})",
        )
    return narrow
