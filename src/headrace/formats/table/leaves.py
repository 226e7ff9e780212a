"""The innermost values of Arrow arrays, in the dtype of a feature. What would change is refused."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace._numbers import exact_mask
from headrace.contracts.feature import Feature
from headrace.contracts.strings import Strings
from headrace.formats.table.arrow_types import EXACT_DIGITS, arrow, arrow_compute, arrow_type
from headrace.formats.table.values import NAT, BadValue, missing, point_in_time

__all__ = ["RowOrigins", "integers", "is_null", "leaf_values", "numbers_of", "numbers_or_zero", "scalar"]

NUMBERS = ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8")
FIRST_NUMBER = 2
"""The dtypes of Arrow's integers and floats in the order of their ids, and the first id: parts of its binary interface."""
FILLED = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")
"""The dtypes in which Arrow itself replaces missing values, which is fastest."""


class RowOrigins:
    """The row of each value, for messages; computed on demand.

    Args:
        above: The rows of the lists that hold the values; ``None``: each value is a row.
        offsets: Of those lists, or the length of all.
    """

    def __init__(self, above: RowOrigins | None = None, offsets: npt.NDArray[np.int64] | int | None = None) -> None:
        self.above = above
        self._offsets = offsets

    def __getitem__(self, position: int) -> int:
        if self.above is None or self._offsets is None:
            return int(position)
        if isinstance(self._offsets, int):
            return self.above[position // self._offsets]
        return self.above[int(np.searchsorted(self._offsets[1:], position, side="right"))]


def numbers_of(array: Any) -> npt.NDArray[Any] | None:
    """Integers or floats without nulls, which share Arrow's memory; ``None`` for other types.

    ``to_numpy`` gives the same, but first imports pandas where it is installed, which takes longer than reading a small file.
    """
    number = array.type.id - FIRST_NUMBER
    if not 0 <= number < len(NUMBERS):
        return None
    dtype = np.dtype(NUMBERS[number])
    if not len(array):
        return np.zeros(0, dtype)
    found = np.frombuffer(array.buffers()[1], dtype, len(array), array.offset * dtype.itemsize)
    found.flags.writeable = False  # A buffer that was computed could be written. Callers copy what is read-only.
    return found


def numbers_or_zero(array: Any) -> npt.NDArray[Any]:
    """Integers, floats or truth values, 0 where one is missing."""
    numbers = numbers_of(array)
    if numbers is None:
        numbers = _truths_of(array)
    return np.where(is_null(array), numbers.dtype.type(0), numbers) if array.null_count else numbers


def is_null(array: Any) -> npt.NDArray[np.bool_]:
    """Which values are missing."""
    return _truths_of(array.is_null())


def _truths_of(array: Any) -> npt.NDArray[np.bool_]:
    """Truth values, with any value where one is missing."""
    if not len(array):
        return np.zeros(0, np.bool_)
    begin = array.offset // 8
    size = (array.offset % 8 + len(array) + 7) // 8
    bits = np.unpackbits(np.frombuffer(array.buffers()[1], np.uint8, size, begin), bitorder="little")
    return bits[array.offset % 8 :][: len(array)].view(np.bool_)


def integers(values: Sequence[int] | npt.NDArray[np.int64]) -> Any:
    """An Arrow array of these 64-bit integers. ``pyarrow.array`` makes the same, but first imports pandas where it is installed."""
    pa = arrow()
    data = pa.py_buffer(np.ascontiguousarray(values, np.int64))
    return pa.Array.from_buffers(pa.int64(), len(values), [None, data], 0)


def scalar(value: Any, kind: Any) -> Any:
    """A number, or large text or bytes, as a scalar of an Arrow type. ``pyarrow.scalar`` makes the same, but first imports pandas."""
    pa = arrow()
    if isinstance(value, str | bytes):
        data = value.encode() if isinstance(value, str) else value
        parts = [pa.py_buffer(np.array([0, len(data)], np.int64)), pa.py_buffer(data)]
    else:
        parts = [pa.py_buffer(np.array([value], NUMBERS[kind.id - FIRST_NUMBER]))]
    return pa.Array.from_buffers(kind, 1, [None, *parts], 0)[0]


def leaf_values(array: Any, feature: Feature, rows: RowOrigins) -> Any:
    """The values of an array without lists, as a column. Missing ones are the default, which need not fit the type of the array.

    Raises:
        BadValue: A value is missing or does not fit.
    """
    if feature.is_text:
        return _text(array, feature, rows)
    kind, fill = feature.numpy_dtype.kind, None
    if array.null_count:
        fill = _default_of(feature)
        if fill is None and kind not in "fmM":
            raise missing(rows[int(np.flatnonzero(is_null(array))[0])])
    if kind not in "mM":
        return _numbers(array, feature, rows, np.nan if array.null_count and fill is None else fill)
    found = _times(array, feature, rows)
    return found if fill is None else _fill_in(found, array, fill)


def _default_of(feature: Feature) -> Any:
    """The default of one value. One of several values is that of a whole row, not of one value in it."""
    return feature.default if np.ndim(feature.default) == 0 else None


def _fill_in(found: npt.NDArray[Any], array: Any, fill: Any) -> npt.NDArray[Any]:
    """The values that were found in an array, and ``fill`` where it has none."""
    found = np.array(found)
    found[is_null(array)] = np.array(fill, found.dtype)
    return found


def _numbers(array: Any, feature: Feature, rows: RowOrigins, fill: Any) -> npt.NDArray[Any]:
    """Numbers or truth values. ``fill`` stands for those that are missing; ``None``: none is."""
    types, dtype, given = arrow().types, feature.numpy_dtype, array
    is_float = types.is_floating(array.type)
    if dtype.kind == "b" and (is_float or types.is_integer(array.type)):
        found = _truths(numbers_or_zero(array), rows)
        return found if fill is None else _fill_in(found, given, fill)
    if dtype.kind == "b" and types.is_temporal(array.type):
        raise BadValue(rows[0] if len(array) else 0, "bool", str(array.type))
    if dtype.kind == "f" and types.is_integer(array.type):
        found = _integers_as_floats(numbers_or_zero(array), dtype, rows)
        return found if fill is None else _fill_in(found, given, fill)
    if not (is_float and dtype.kind == "f"):  # NumPy knows all floats.
        array = _cast(array, feature, rows)
    if fill is not None and dtype in FILLED and array.type == arrow_type(Feature(dtype)):
        array, fill = array.fill_null(scalar(np.array(fill, dtype).item(), array.type)), None
    # Arrow's memory is read-only and shared: a batch is the caller's own, so rows are copied when they are picked.
    found = _narrow(np.ascontiguousarray(numbers_or_zero(array)), dtype, rows)
    return found if fill is None else _fill_in(found, given, fill)


def _truths(numbers: npt.NDArray[Any], rows: RowOrigins) -> npt.NDArray[np.bool_]:
    """Numbers that are all 0 or 1 as truth values."""
    found: npt.NDArray[np.bool_] = numbers == 1
    wrong = np.flatnonzero(~found & (numbers != 0))
    if len(wrong):
        first = int(wrong[0])
        raise BadValue(rows[first], "bool, or the numbers 0 and 1", repr(numbers[first].item()))
    return found


def _integers_as_floats(integers: npt.NDArray[Any], dtype: np.dtype[Any], rows: RowOrigins) -> npt.NDArray[Any]:
    """Integers as floats of the same value. Arrow refuses all large ones, and rounds those that become ``float16``."""
    if integers.itemsize >= dtype.itemsize and not (is_kept := exact_mask(integers, dtype)).all():
        first = int(np.argmin(is_kept))
        raise BadValue(rows[first], f"an integer that {dtype} holds", str(integers[first]))
    return integers.astype(dtype)


def _text(array: Any, feature: Feature, rows: RowOrigins) -> Strings:
    """Text or bytes, which share Arrow's memory."""
    large = arrow().large_string() if feature.dtype == "str" else arrow().large_binary()
    array = _cast(array, feature, rows, large)
    if array.null_count:
        fill = _default_of(feature)
        if fill is None:
            raise missing(rows[int(np.flatnonzero(is_null(array))[0])])
        array = array.fill_null(scalar(fill, large))
    try:
        return Strings.from_arrow(array)
    except ValueError as error:
        raise BadValue(
            _first_undecodable(array, rows), "UTF-8 text", str(error).partition("found ")[2][:120]
        ) from error


def _times(array: Any, feature: Feature, rows: RowOrigins) -> npt.NDArray[Any]:
    """Times or durations, NaT where one is missing."""
    types, dtype = arrow().types, feature.numpy_dtype
    if types.is_string(array.type) or types.is_large_string(array.type):
        return _points_in_text(array, dtype, rows)
    if types.is_integer(array.type):
        return _numbers_or_nat(_cast(array, feature, rows, arrow().int64())).view(dtype)
    if types.is_timestamp(array.type) and dtype == np.dtype("M8[D]"):
        return _days(array, rows)
    try:
        return _times_of(_cast(array, feature, rows)).astype(dtype)
    except TypeError as error:  # Arrow has no such unit.
        raise BadValue(rows[0] if len(array) else 0, str(dtype), str(array.type)) from error


def _times_of(array: Any) -> npt.NDArray[Any]:
    """Points in time, durations or days of Arrow in NumPy's unit of the same name, NaT where one is missing. A copy."""
    pa = arrow()
    if pa.types.is_date32(array.type):
        return _numbers_or_nat(array.cast(pa.int32()).cast(pa.int64())).view("M8[D]")
    code = "m8" if pa.types.is_duration(array.type) else "M8"
    return _numbers_or_nat(array.cast(pa.int64())).view(f"{code}[{array.type.unit}]")


def _numbers_or_nat(array: Any) -> npt.NDArray[np.int64]:
    """A copy of 64-bit integers, with that of NaT where one is missing."""
    found = np.array(numbers_of(array), np.int64)
    if array.null_count:
        found[is_null(array)] = NAT
    return found


def _days(array: Any, rows: RowOrigins) -> npt.NDArray[Any]:
    """Points in time that are midnights. Arrow would leave out the time of day, and takes the day of a time zone, not of UTC."""
    points = _times_of(array.cast(arrow().timestamp(array.type.unit), safe=False))
    days = points.astype("M8[D]")
    wrong = np.flatnonzero((days.astype(points.dtype) != points) & ~np.isnat(points))
    if len(wrong):
        raise BadValue(rows[int(wrong[0])], "datetime64[D]", f"{points[wrong[0]]}, which has a time of day")
    return np.asarray(days)


def _points_in_text(array: Any, dtype: np.dtype[Any], rows: RowOrigins) -> npt.NDArray[Any]:
    """ISO 8601 times, parsed by Arrow, with time zones converted to UTC; by NumPy where Arrow lacks the unit or the year, or only some have a
    time zone.
    """
    pa, kinds = arrow(), []
    with suppress(TypeError):
        kinds.append(arrow_type(Feature(dtype)))
    kinds += [pa.timestamp(kind.unit, "UTC") for kind in kinds if pa.types.is_timestamp(kind)]
    for kind in kinds:
        with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return _times_of(array.cast(kind)).astype(dtype)
    texts = ["NaT" if text is None else text for text in array.to_pylist()]
    found = np.full(len(texts), "NaT", dtype)
    for position, text in enumerate(texts):
        try:
            if text != "NaT":
                found[position] = point_in_time(text, dtype)
        except ValueError as error:
            raise BadValue(rows[position], str(dtype), repr(text[:60])) from error
    return found


def _narrow(found: npt.NDArray[Any], dtype: np.dtype[Any], rows: RowOrigins) -> npt.NDArray[Any]:
    """Floats may be rounded, but not become infinite."""
    with np.errstate(over="ignore"):
        narrow: npt.NDArray[Any] = found.astype(dtype, copy=False)
    if narrow is not found and dtype.kind == "f" and dtype.itemsize < found.dtype.itemsize:
        beyond = np.flatnonzero(np.isinf(narrow) & np.isfinite(found))
        if len(beyond):
            first = int(beyond[0])
            raise BadValue(rows[first], f"a number that {dtype} holds", repr(found[first].item()))
    return narrow


def _first_undecodable(array: Any, rows: RowOrigins) -> int:
    for position in range(len(array)):
        try:
            array[position].as_py()
        except UnicodeDecodeError:
            return rows[position]
    return 0


def _cast(array: Any, feature: Feature, rows: RowOrigins, wanted: Any = None) -> Any:
    """The array as a type, by default that of the feature, if no integer changes."""
    pa, kind = arrow(), array.type
    wanted = arrow_type(Feature(feature.dtype)) if wanted is None else wanted
    if kind == wanted:
        return array
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(wanted) and kind.unit == wanted.unit:
        return array.cast(wanted, safe=False)  # the same instants, without a time zone
    if pa.types.is_decimal(kind) and pa.types.is_floating(wanted):
        return _floats(array)
    if pa.types.is_time(kind):
        array = array.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).cast(pa.int64())
        if pa.types.is_duration(wanted) or pa.types.is_timestamp(wanted):  # since midnight, or that of 1970-01-01
            array = array.cast(pa.duration(kind.unit) if pa.types.is_duration(wanted) else pa.timestamp(kind.unit))
    try:
        return array.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise BadValue(_first_bad(array, wanted, rows), feature.dtype, str(error).splitlines()[0][:120]) from error


def _floats(array: Any) -> Any:
    """Decimals as the nearest ``float64``. Arrow's own conversion is off by a bit for every third to tenth number."""
    pa, kind = arrow(), array.type
    if kind.precision > EXACT_DIGITS or not 0 <= kind.scale <= EXACT_DIGITS:
        return array.cast(pa.string()).cast(pa.float64())
    # Both the digits and the power of ten are exact, so only their quotient is rounded.
    whole = getattr(pa, f"decimal{kind.bit_width}")(kind.precision, 0)
    digits = pa.Array.from_buffers(whole, len(array), array.buffers(), array.null_count, array.offset)
    return arrow_compute().divide(digits.cast(pa.float64()), scalar(10.0**kind.scale, pa.float64()))


def _first_bad(array: Any, wanted: Any, rows: RowOrigins) -> int:
    """The row of the first value that cannot be cast, found by bisection."""
    pa = arrow()
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            array[low:middle].cast(wanted)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            high = middle
        else:
            low = middle
    return rows[low] if len(array) else 0
