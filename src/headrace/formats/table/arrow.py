"""Arrow arrays as columns of batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from headrace._native import check_strings
from headrace._optional import require
from headrace.contracts.feature import Feature
from headrace.contracts.strings import Strings
from headrace.contracts.values import Ragged
from headrace.formats.table.arrow_types import EXACT_DIGITS, Leaf, arrow, arrow_type
from headrace.formats.table.values import NAT, BadValue, fill_of, missing, point_in_time

__all__ = ["from_arrow", "leaf_array"]

NUMBERS = ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8")
FIRST_NUMBER = 2
"""The dtypes of Arrow's integers and floats in the order of their ids, and the first id: parts of its binary interface."""
TEXTS = {13: ("i4", True), 14: ("i4", False), 34: ("i8", True), 35: ("i8", False)}
"""Arrow's ids of text and bytes, and large ones: the dtype of their offsets, and whether it is text."""


def leaf_array(table: Any, leaf: Leaf, root: int) -> Any:
    """The array of one column of a table, with structs flattened; ``root`` is the position of its first column in ``table``."""
    column = table.column(root)
    if len(leaf.path) > 1:
        column = arrow_compute().struct_field(column, list(leaf.path[1:]))
    chunks = getattr(column, "num_chunks", None)
    if chunks is None or chunks == 1:  # Combining copies even one.
        return column if chunks is None else column.chunk(0)
    return _concatenate(column.chunks) if chunks else arrow().array([], column.type)


def _concatenate(chunks: list[Any]) -> Any:
    """Chunks as one array, with offsets of 64 bits where 32 are too few."""
    pa, kind = arrow(), chunks[0].type
    try:
        return pa.concat_arrays(chunks)
    except pa.ArrowInvalid:
        return pa.concat_arrays([chunk.cast(_large(kind)) for chunk in chunks])


def _large(kind: Any) -> Any:
    """A type that holds the same values with offsets of 64 bits."""
    pa, types = arrow(), arrow().types
    if types.is_dictionary(kind):
        return _large(kind.value_type)
    if types.is_fixed_size_list(kind):
        return pa.list_(_large(kind.value_type), kind.list_size)
    if types.is_list(kind) or types.is_large_list(kind):
        return pa.large_list(_large(kind.value_type))
    if types.is_string(kind) or str(kind) == "string_view":
        return pa.large_string()
    if types.is_binary(kind) or str(kind) == "binary_view" or types.is_fixed_size_binary(kind):
        return pa.large_binary()
    return kind


def arrow_compute() -> Any:
    """``pyarrow.compute``."""
    return require("pyarrow.compute", extra="arrow")


def from_arrow(array: Any, feature: Feature) -> Any:
    """The batch column of an Arrow array under a feature.

    Raises:
        BadValue: A value does not fit: a null without default, a list of another length, a number that is too large.
    """
    return _column(array, feature.shape, feature, _RowOrigins())


class _RowOrigins:
    """The row of each value, for messages; computed on demand.

    Args:
        above: The rows of the lists that hold the values; ``None``: each value is a row.
        offsets: Of those lists, or the length of all.
    """

    def __init__(self, above: _RowOrigins | None = None, offsets: npt.NDArray[np.int64] | int | None = None) -> None:
        self.above = above
        self._offsets = offsets

    def __getitem__(self, position: int) -> int:
        if self.above is None or self._offsets is None:
            return int(position)
        if isinstance(self._offsets, int):
            return self.above[position // self._offsets]
        return self.above[int(np.searchsorted(self._offsets[1:], position, side="right"))]


def _column(array: Any, shape: tuple[int | None, ...], feature: Feature, rows: _RowOrigins) -> Any:
    if not shape and array.null_count == 0:
        found = _numbers(array)
        if found is not None and found.dtype == feature.numpy_dtype:
            return found
        if feature.is_text and (strings := _strings(array, feature)) is not None:
            return strings
    array = _plain(array)
    if not shape:
        return _leaf(array, feature, rows)
    types = arrow().types
    fixed = types.is_fixed_size_list(array.type)
    if not (fixed or types.is_list(array.type) or types.is_large_list(array.type)):
        raise BadValue(rows[0] if len(array) else 0, f"lists for the shape {feature.shape}", str(array.type))
    length = shape[0]
    is_even = fixed and array.type.list_size == length and array.null_count == 0
    offsets = length if is_even and length else _offsets(array, fixed=fixed)
    if length is not None and not is_even:
        lengths = np.diff(offsets)
        if (wrong := np.flatnonzero(lengths != length)).size:
            at = int(wrong[0])
            if array[at].is_valid:
                raise BadValue(rows[at], f"{length} values", f"{lengths[at]}")
            return _column(_with_defaults(array, feature, rows, at), shape, feature, rows)
    inner = _column(array.flatten(), shape[1:], feature, _RowOrigins(rows, offsets))
    if length is not None and not isinstance(inner, Ragged):
        return inner.reshape(len(array), length, *inner.shape[1:])
    return Ragged(inner, _offsets(array, fixed=fixed) if isinstance(offsets, int) else offsets)


def _numbers(array: Any) -> npt.NDArray[Any] | None:
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


def _strings(array: Any, feature: Feature) -> Strings | None:
    """Intact text or bytes of the feature's kind, which share Arrow's memory; ``None`` for anything else."""
    dtype, is_text = TEXTS.get(array.type.id, ("", False))
    if not dtype or not len(array) or is_text != (feature.dtype == "str"):
        return None
    _, ends, content = array.buffers()
    size = np.dtype(dtype).itemsize
    offsets = np.frombuffer(ends, dtype, len(array) + 1, array.offset * size).astype(np.int64, copy=False)
    data = np.frombuffer(content or b"", np.uint8)
    data.flags.writeable = offsets.flags.writeable = False
    return Strings.trust(data, offsets, is_text) if check_strings(data, offsets, is_text) == (-1, -1) else None


def _plain(array: Any) -> Any:
    """Dictionaries and extension types decoded to their values."""
    pa = arrow()
    if isinstance(array.type, pa.BaseExtensionType):
        shape = getattr(array.type, "shape", None)
        array = array.storage
        for length in reversed((shape or [])[1:]):
            array = _fold(array, length)
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _fold(array: Any, length: int) -> Any:
    """A list of ``a * length`` values as one of ``a`` lists of ``length``."""
    pa = arrow()
    inner = pa.FixedSizeListArray.from_arrays(array.flatten(), length)
    return pa.FixedSizeListArray.from_arrays(inner, array.type.list_size // length)


def _offsets(array: Any, *, fixed: bool) -> npt.NDArray[np.int64]:
    """Where each list begins in the values of an array of lists, and where the last one ends. A null is an empty list."""
    count = len(array)
    if array.null_count == 0 and count and not fixed:
        dtype = np.dtype(np.int64 if arrow().types.is_large_list(array.type) else np.int32)
        found = np.frombuffer(array.buffers()[1], dtype, count + 1, array.offset * dtype.itemsize)
        return np.asarray(found - found[0], np.int64)
    offsets = np.zeros(count + 1, np.int64)
    lengths: Any = np.full(count, array.type.list_size, np.int64) if fixed else None
    if lengths is None:
        lengths = _numbers(arrow_compute().list_value_length(array).fill_null(0))
    elif array.null_count:
        lengths[array.is_null().to_numpy(zero_copy_only=False)] = 0
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _with_defaults(array: Any, feature: Feature, rows: _RowOrigins, at: int) -> Any:
    """The array with nulls replaced by the default."""
    if feature.default is None or rows.above is not None or not feature.is_fixed:
        raise missing(rows[at])
    one = np.broadcast_to(np.asarray(feature.default), tuple(n or 0 for n in feature.shape)).tolist()
    values = [one if value is None else value for value in array.to_pylist()]
    kind = arrow_type(feature)
    try:
        return arrow().array(values, kind)
    except ValueError:  # ArrowInvalid names no row
        for place, value in enumerate(values):
            _check_fits(value, kind, feature, rows[place])
        raise


def _check_fits(value: Any, kind: Any, feature: Feature, row: int) -> None:
    try:
        arrow().array([value], kind)
    except ValueError as error:
        raise BadValue(row, f"values of shape {feature.shape}", str(error)[:120]) from error


def _leaf(array: Any, feature: Feature, rows: _RowOrigins) -> Any:
    if feature.numpy_dtype.kind in "mM":
        return _times(array, feature, rows)
    if feature.is_text:
        return _text(array, feature, rows)
    if array.null_count:
        array = _fill_nulls(array, feature, rows)
    if not (arrow().types.is_floating(array.type) and feature.numpy_dtype.kind == "f"):  # NumPy knows all floats.
        array = _cast(array, feature, rows)
    numbers = _numbers(array)
    found = array.to_numpy(zero_copy_only=False) if numbers is None else numbers
    # Arrow's memory is read-only and shared: a batch is the caller's own, so rows are copied when they are picked.
    return _narrow(np.ascontiguousarray(found), feature.numpy_dtype, rows)


def _text(array: Any, feature: Feature, rows: _RowOrigins) -> Strings:
    """Text or bytes, which share Arrow's memory."""
    large = arrow().large_string() if feature.dtype == "str" else arrow().large_binary()
    array = _cast(array, feature, rows, large)
    if array.null_count:
        array = _fill_nulls(array, feature, rows)
    try:
        return Strings.from_arrow(array)
    except ValueError as error:
        raise BadValue(
            _first_undecodable(array, rows), "UTF-8 text", str(error).partition("found ")[2][:120]
        ) from error


def _times(array: Any, feature: Feature, rows: _RowOrigins) -> npt.NDArray[Any]:
    """Times or durations. Missing values become NaT, or the default."""
    types, dtype = arrow().types, feature.numpy_dtype
    if array.null_count and feature.default is not None and np.ndim(feature.default) == 0:
        array = _fill_nulls(array, feature, rows)
    if types.is_string(array.type) or types.is_large_string(array.type):
        return _points_in_text(array, dtype, rows)
    if types.is_integer(array.type):
        numbers = array.cast(arrow().int64()).fill_null(NAT).to_numpy(zero_copy_only=False)
        return np.array(numbers, np.int64).view(dtype)
    try:
        found = _cast(array, feature, rows).to_numpy(zero_copy_only=False)
    except TypeError as error:  # Arrow has no such unit.
        raise BadValue(rows[0] if len(array) else 0, str(dtype), str(array.type)) from error
    return np.array(found, dtype)


def _points_in_text(array: Any, dtype: np.dtype[Any], rows: _RowOrigins) -> npt.NDArray[Any]:
    """ISO 8601 times, parsed by Arrow; by NumPy where Arrow lacks the unit or the year."""
    try:
        wanted = arrow_type(Feature(dtype))
        return np.array(array.cast(wanted).to_numpy(zero_copy_only=False), dtype)
    except (TypeError, arrow().ArrowInvalid, arrow().ArrowNotImplementedError):
        texts = ["NaT" if text is None else text for text in array.to_pylist()]
    found = np.empty(len(texts), dtype)
    for position, text in enumerate(texts):
        try:
            found[position] = point_in_time(text, dtype)
        except ValueError as error:
            raise BadValue(rows[position], str(dtype), repr(text[:60])) from error
    return found


def _narrow(found: npt.NDArray[Any], dtype: np.dtype[Any], rows: _RowOrigins) -> npt.NDArray[Any]:
    """Floats may be rounded, but not become infinite."""
    with np.errstate(over="ignore"):
        narrow: npt.NDArray[Any] = found.astype(dtype, copy=False)
    if narrow is not found and dtype.kind == "f" and dtype.itemsize < found.dtype.itemsize:
        beyond = np.flatnonzero(np.isinf(narrow) & np.isfinite(found))
        if len(beyond):
            first = int(beyond[0])
            raise BadValue(rows[first], f"a number that {dtype} holds", repr(found[first].item()))
    return narrow


def _first_undecodable(array: Any, rows: _RowOrigins) -> int:
    for position in range(len(array)):
        try:
            array[position].as_py()
        except UnicodeDecodeError:
            return rows[position]
    return 0


def _fill_nulls(array: Any, feature: Feature, rows: _RowOrigins) -> Any:
    # A default of several values is that of a whole row, not of one value in it.
    fill = feature.default if feature.default is not None and np.ndim(feature.default) == 0 else None
    if fill is None and feature.numpy_dtype.kind == "f":
        fill = fill_of(Feature(feature.dtype))
        types = arrow().types
        if types.is_decimal(array.type):
            array = _floats(array)
        elif not types.is_floating(array.type):
            array = array.cast(arrow().float64(), safe=False)
    if fill is None:
        at = int(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0])
        raise missing(rows[at])
    return array.fill_null(arrow().scalar(fill, array.type))


def _cast(array: Any, feature: Feature, rows: _RowOrigins, wanted: Any = None) -> Any:
    """The array as a type, by default that of the feature, if no integer changes."""
    pa, kind = arrow(), array.type
    wanted = arrow_type(Feature(feature.dtype)) if wanted is None else wanted
    if kind == wanted:
        return array
    if pa.types.is_timestamp(kind) and kind.unit == getattr(wanted, "unit", None):
        return array.cast(wanted, safe=False)  # the same instants, without a time zone
    if pa.types.is_decimal(kind) and pa.types.is_floating(wanted):
        return _floats(array)
    if pa.types.is_time(kind):
        return array.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).cast(pa.int64()).cast(wanted)
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
    return arrow_compute().divide(digits.cast(pa.float64()), 10.0**kind.scale)


def _first_bad(array: Any, wanted: Any, rows: _RowOrigins) -> int:
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
