"""Between the numbers that a payload can hold and the dtypes that a schema asks for. Nothing is lost unsaid."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.errors import SchemaMismatch, UnsupportedData, Where

__all__ = ["exact", "fitted", "stored"]


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
        SchemaMismatch: A whole number is outside the dtype: names its record.
    """
    wanted = np.dtype(dtype)
    if flat.dtype == wanted:
        return flat
    if wanted.kind == "f":
        return flat.astype(wanted)
    if wanted == np.uint64:
        return flat.view(np.uint64)  # the upper half of uint64 is stored as negative numbers, as TFDS does
    low, high = (0, 1) if wanted.kind == "b" else (np.iinfo(wanted).min, np.iinfo(wanted).max)
    bad = np.flatnonzero((flat < low) | (flat > high))
    if len(bad):
        position = int(bad[0])
        record = (
            int(np.searchsorted(offsets, position, side="right")) - 1
            if offsets is not None
            else position // max(per_record, 1)
        )
        raise SchemaMismatch(
            Where(record=record, feature=name),
            expected=f"{wanted} values in [{low}, {high}]",
            found=str(flat[position]),
        )
    return flat.astype(wanted)


def stored(flat: npt.NDArray[Any], wire: type[np.float32 | np.int64], dtype: str, name: str) -> npt.NDArray[Any]:
    """A column's numbers as the payload holds them: contiguous ``float32`` or ``int64``.

    Raises:
        SchemaMismatch: The column is not of numbers of the schema's kind.
        UnsupportedData: ``float64`` values that ``float32`` cannot hold exactly, under a schema that says ``float64``.
    """
    if flat.dtype == wire:
        return np.ascontiguousarray(flat)
    if flat.size == 0:
        return np.zeros(0, wire)
    if wire is np.int64:
        if flat.dtype.kind not in "iub":
            raise SchemaMismatch(Where(feature=name), expected=f"{dtype} values", found=str(flat.dtype))
        return flat.view(np.int64) if flat.dtype == np.uint64 else np.ascontiguousarray(flat, np.int64)
    if flat.dtype.kind not in "fiub":
        raise SchemaMismatch(Where(feature=name), expected=f"{dtype} values", found=str(flat.dtype))
    with np.errstate(over="ignore"):
        narrow = np.ascontiguousarray(flat, np.float32)
    if dtype == "float64" and not np.array_equal(narrow.astype(np.float64), flat, equal_nan=True):
        raise UnsupportedData(
            Where(feature=name),
            expected="numbers that float32 can hold, which is what an Example stores",
            found="float64 values that it cannot",
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
