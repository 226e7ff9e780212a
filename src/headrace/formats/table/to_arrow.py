"""Columns of batches as Arrow arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.contracts.feature import Feature
from headrace.contracts.strings import Strings
from headrace.contracts.values import Ragged
from headrace.errors import UnsupportedData, Where
from headrace.formats.table.arrow_types import arrow, arrow_type
from headrace.formats.table.leaves import integers
from headrace.formats.table.values import BadValue

__all__ = ["to_arrow"]


MOST_OFFSET = 2**31 - 1
"""What Arrow counts to in lists and text that are not large."""
VARIES = "An axis that varies is None: give a schema with it, as in write(..., schema={**source.schema, name: hr.Feature(dtype, (None,))})."


def to_arrow(column: Any, feature: Feature) -> Any:
    """The Arrow array of a batch column, of the type :func:`arrow_type` gives.

    Raises:
        BadValue: A row has other axes than the feature.
    """
    return _array(column, feature.shape, feature, arrow_type(feature))


def _array(column: Any, shape: tuple[int | None, ...], feature: Feature, kind: Any) -> Any:
    pa = arrow()
    if not shape:
        if feature.is_text:
            return _text_array(column, feature, kind)
        flat = np.ascontiguousarray(column, feature.numpy_dtype)
        if pa.types.is_date32(kind):
            _check_days(flat)
        return _flat_array(flat, kind)
    if isinstance(column, list):
        column = _as_ragged(column)
    rows: Any = column if isinstance(column, Ragged) else _as_rows(column)
    if not isinstance(rows, Ragged) and rows.ndim < 2:
        raise BadValue(0, f"values of shape {feature.shape}", "one with fewer axes")
    if shape[0] is not None:
        _check_lengths(rows, shape[0], feature)
        inner = rows.values if isinstance(rows, Ragged) else _flat(rows)
        return pa.FixedSizeListArray.from_arrays(_array(inner, shape[1:], feature, kind.value_type), shape[0])
    column = rows
    if not isinstance(column, Ragged):
        column = Ragged(_flat(rows), np.arange(len(rows) + 1, dtype=np.int64) * rows.shape[1])
    if column.offsets[-1] > MOST_OFFSET:
        raise BadValue(0, "less than 2**31 values in one block", f"{column.offsets[-1]}")
    inner = _array(column.values, shape[1:], feature, kind.value_type)
    return pa.ListArray.from_arrays(integers(column.offsets).cast(pa.int32()), inner)


def _flat_array(values: npt.NDArray[Any], kind: Any) -> Any:
    """The array of numbers, truth values or times. ``pyarrow.array`` makes the same, but first imports pandas where it is installed."""
    pa, valid, data = arrow(), None, values
    if values.dtype.kind == "b":
        data = np.packbits(values, bitorder="little")
    elif values.dtype.kind in "mM":
        data = values.view(np.int64)
        if pa.types.is_date32(kind):
            data = data.astype(np.int32)
        if (is_missing := np.isnat(values)).any():
            valid = pa.py_buffer(np.packbits(~is_missing, bitorder="little"))
    return pa.Array.from_buffers(kind, values.size, [valid, pa.py_buffer(data)])


def _check_lengths(rows: Any, length: int, feature: Feature) -> None:
    """Refuse rows of other lengths: as lists of a fixed size they would take values of the next row."""
    lengths = rows.lengths if isinstance(rows, Ragged) else np.full(len(rows), rows.shape[1])
    wrong = np.flatnonzero(lengths != length)
    if len(wrong):
        raise BadValue(int(wrong[0]), f"values of shape {feature.shape}", f"a length of {lengths[wrong[0]]}", VARIES)


def _text_array(column: Any, feature: Feature, kind: Any) -> Any:
    """The array of some text or bytes, which are not looked at one by one where they are a column without objects."""
    pa = arrow()
    if not isinstance(column, Strings) or column.is_text != (feature.dtype == "str") or column.nbytes > MOST_OFFSET:
        return pa.array(column.tolist(), kind)
    offsets = (column.offsets - column.offsets[0]).astype(np.int32)
    return pa.Array.from_buffers(kind, column.size, [None, pa.py_buffer(offsets), pa.py_buffer(column.content)], 0)


def _as_rows(column: Any) -> Any:
    return column if isinstance(column, Strings) else np.asarray(column)


def _check_days(days: npt.NDArray[Any]) -> None:
    """Arrow counts days in 32 bits, and would silently wrap larger numbers."""
    limits = np.iinfo(np.int32)
    numbers = days.astype(np.int64)
    beyond = np.flatnonzero(~np.isnat(days) & ((numbers < limits.min) | (numbers > limits.max)))
    if len(beyond):
        raise UnsupportedData(Where(), expected="days that 32 bits can count", found=str(days[beyond[0]]))


def _flat(rows: Any) -> Any:
    return rows.reshape(-1, *rows.shape[2:]) if rows.size else rows.reshape(0, *rows.shape[2:])


def _as_ragged(rows: list[Any]) -> Ragged:
    """Rows of one array each, of different shapes, as nested lists."""
    arrays = [np.asarray(row) for row in rows]
    offsets = np.zeros(len(arrays) + 1, np.int64)
    np.cumsum([len(array) for array in arrays], out=offsets[1:])
    inner = [item for array in arrays for item in array]
    if not inner or inner[0].ndim == 0:
        return Ragged(np.array(inner), offsets)
    if len({item.shape for item in inner}) == 1:
        return Ragged(np.stack(inner), offsets)
    return Ragged(_as_ragged(inner), offsets)
