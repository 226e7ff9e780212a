"""Join, compare and pad arrays of numbers and times without changing a value.

NumPy converts integers that share no dtype to floats, which rounds them. Text columns and tensors are recognised by their attributes, because
their classes are in higher layers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace._arguments import check_fill
from headrace.errors import SchemaMismatch, Where

__all__ = [
    "MASKED",
    "align",
    "choose_fill",
    "compare_times",
    "exact_mask",
    "fill_masked",
    "find_present",
    "is_safe",
    "is_unchanged",
    "join_rows",
    "kept_mask",
    "place_values",
    "take_present",
    "to_array",
]

HALF = 2  # the bytes of a float16, which holds no large numbers
MOST_EXACT = 1 << 53  # every integer up to here is a float64
SAFE = frozenset({np.ndarray, bool, int, float})
"""What becomes an array unchanged, unlike lists."""
VALUES = (np.generic, np.ndarray)
MASKED = frozenset({np.ma.MaskedArray, type(np.ma.masked)})
"""Arrays from which ``np.asarray`` takes what they hide."""
UNITS = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as")
"""Of times, the longest first."""
CALENDAR = UNITS[:2]
HINT = "Write all numbers of a feature as floats, or all as integers that one dtype holds."


def to_array(value: Any, floats: type[np.floating[Any]] = np.float64) -> npt.NDArray[Any]:
    """``np.asarray(value)``, but integers in a list keep their exact values.

    Args:
        value: An array, a number, or lists of numbers.
        floats: What floats will be stored as: integers beside them must fit, too.

    Raises:
        SchemaMismatch: No dtype holds the integers of a list, or one of them is beyond 64 bits.
        ValueError: The rows of a list have different lengths.

    >>> to_array([1, 2**63 + 1])
    array([                  1, 9223372036854775809], dtype=uint64)
    """
    if type(value) is np.ndarray and value.dtype.kind != "O":
        return value
    array = np.asarray(value)
    kind = array.dtype.kind
    if kind == "O":
        _refuse_long(array.flat)
    elif kind == "f" and array.ndim and array.itemsize > HALF and not hasattr(value, "__array__"):
        most = MOST_EXACT if floats is np.float64 else 1 << np.finfo(floats).nmant + 1
        if (np.abs(array) >= most).any():
            return _from_items(np.array(value, object), array, floats)
    return array


def is_safe(types: set[type], dtypes: set[np.dtype[Any]]) -> bool:
    """Whether joining certainly changes nothing, judged by the types alone. If not, check the result with :func:`is_unchanged`.

    Args:
        types: Those of the values.
        dtypes: Those of the arrays.
    """
    if len(dtypes) != 1:
        return not dtypes
    kind = next(iter(dtypes)).kind
    return kind != "O" and (kind not in "fc" or types <= SAFE)


def is_unchanged(joined: npt.NDArray[Any], arrays: Iterable[npt.NDArray[Any]]) -> bool:
    """Whether arrays were certainly made and joined without a change: only large integers are rounded."""
    kind = joined.dtype.kind
    if kind in "fc":
        sizes = np.abs(joined) if joined.itemsize > HALF else np.zeros(0)
        is_large = (sizes >= MOST_EXACT) & (sizes < np.inf)
        return not is_large.any() and any(array.dtype.kind in "fc" and array.size for array in arrays)
    return kind != "O"


def align(arrays: Sequence[npt.NDArray[Any]]) -> Sequence[npt.NDArray[Any]]:
    """The arrays, in dtypes that NumPy joins without changing a number. Empty arrays are ignored.

    Raises:
        SchemaMismatch: There are none. ``where.record`` is the position of the first array that does not fit.
    """
    dtypes = {array.dtype for array in arrays if array.size}
    if len(dtypes) < 2:
        return arrays
    kinds = {dtype.kind for dtype in dtypes}
    if kinds & {"f", "c"}:
        for at, array in enumerate(arrays):
            if array.dtype.kind in "iu" and array.itemsize == 8 and not (kept := exact_mask(array)).all():
                raise _change_error(array[~kept].flat[0], at)
    elif np.dtype(np.uint64) in dtypes and "i" in kinds and kinds <= {"b", "i", "u"}:
        return _as_integers(arrays)
    return arrays


def fill_masked(value: Any, at: int | None = None) -> Any:
    """A masked array with NaN in the place of what is masked; any other value as it is.

    Raises:
        SchemaMismatch: Values are masked that are no floats. ``where.record`` is ``at``.
    """
    if not isinstance(value, np.ma.MaskedArray):
        return value
    if np.ma.is_masked(value) and value.dtype.kind != "f":
        raise SchemaMismatch(
            Where(record=at),
            expected="values",
            found=f"masked ones of {value.dtype}",
            hint="Fill them first, with array.filled(...).",
        )
    return value.filled(np.nan) if np.ma.is_masked(value) else value.filled()


def find_present(column: Any) -> npt.NDArray[np.int64] | None:
    """The rows of an object column that hold a value, ``int64 (k,)``. ``None`` if the column holds no optional values, or text without gaps."""
    if type(column) is not np.ndarray or column.dtype != object or column.ndim != 1 or not len(column):
        return None
    is_present = np.fromiter((value is not None for value in column), bool, len(column))
    is_whole = bool(is_present.all()) and not (isinstance(column[0], VALUES) or hasattr(column[0], "is_text"))
    return None if is_whole else np.flatnonzero(is_present)


def take_present(column: npt.NDArray[Any], rows: npt.NDArray[np.int64], dtype: npt.DTypeLike | None = None) -> Any:
    """The values in these rows of a column of objects, as a column of their own; of ``dtype`` if there are none."""
    values = column[rows].tolist()
    if not values or isinstance(values[0], (str, bytes)):
        return np.array(values, dtype if not values else object)
    return np.stack(values) if len({np.shape(value) for value in values}) == 1 else values


def join_rows(rows: Sequence[Any], dtype: npt.DTypeLike | None) -> tuple[npt.NDArray[Any], list[int]]:
    """Arrays or lists end to end, ``(sum of lengths, *inner)``, and the length of each.

    If a text or bytes value in a list ends in NULs, the result is an object array, because other arrays drop them.

    Raises:
        SchemaMismatch: ``dtype`` is None, and no dtype holds all numbers, or rows mix numbers, text and bytes. Or ``dtype`` does not hold a
            value (only floats may be rounded). Or values are masked that are no floats. ``where.record`` is the row.
    """
    types = set(map(type, rows))
    if types & MASKED:
        rows = [fill_masked(row, at) for at, row in enumerate(rows)]
    if dtype is not None and np.dtype(dtype).kind in "biufcSU":
        return _join_as(rows, np.dtype(dtype))
    arrays: Sequence[npt.NDArray[Any]] = [np.asarray(row, dtype=dtype) for row in rows]
    dtypes = {array.dtype for array in arrays}
    if dtype is None and any(each.kind in "SU" for each in dtypes) and _has_text(arrays):
        arrays = _keep_text(rows, arrays)
        return _concatenate(arrays, None), list(map(len, arrays))
    values = _concatenate(arrays, dtype)
    is_kept = dtype is not None or is_safe(types, dtypes)
    if not is_kept and not is_unchanged(values, arrays):
        values = _concatenate(align([to_array(row) for row in rows]), dtype)
    return values, list(map(len, arrays))


def _join_as(rows: Sequence[Any], dtype: np.dtype[Any]) -> tuple[npt.NDArray[Any], list[int]]:
    """:func:`join_rows` for a dtype that may not hold all values."""
    arrays = [np.asarray(row) for row in rows]
    lengths = list(map(len, arrays))
    full = [array for array in arrays if len(array)]
    if len({array.dtype for array in full}) == 1:  # all at once, as a check takes longer than a row
        with suppress(SchemaMismatch):  # which row it is shows below
            return _convert(np.concatenate(full), dtype, 0), lengths
    return _concatenate([_convert(row, dtype, at) for at, row in enumerate(rows)], dtype), lengths


def _convert(row: Any, dtype: np.dtype[Any], at: int) -> npt.NDArray[Any]:
    """A row in a dtype. Only floats may be rounded."""
    array = np.asarray(row)
    if array.dtype == dtype:
        return array
    if not array.size or array.dtype.kind not in ("SU" if dtype.kind in "SU" else "biufc"):
        return np.asarray(row, dtype)  # NumPy converts it, or refuses it
    is_real = array.dtype.kind == "c" and dtype.kind != "c"
    with np.errstate(all="ignore"):
        found = (array.real if is_real else array).astype(dtype)
    kept = kept_mask(array, found)
    if kept.all():
        return found
    expected, lost = f"values that {dtype} holds", array[~kept].flat[0]
    hint = "Leave the dtype out, or give one that holds them."
    raise SchemaMismatch(Where(record=at), expected=expected, found=f"{lost!s:.60} ({array.dtype})", hint=hint)


def _has_text(arrays: Iterable[npt.NDArray[Any]]) -> bool:
    """Whether there is any value in an array of text or bytes."""
    return any(array.size and array.dtype.kind in "SU" for array in arrays)


def _keep_text(rows: Sequence[Any], arrays: Sequence[npt.NDArray[Any]]) -> Sequence[npt.NDArray[Any]]:
    """Arrays of text or of bytes: of objects where an array would drop the NULs at the end of a value."""
    kind = bytes if any(array.size and array.dtype.kind == "S" for array in arrays) else str
    nul: Any = b"\0" if kind is bytes else "\0"
    ends_in_nul = False
    for at, (row, array) in enumerate(zip(rows, arrays, strict=True)):
        if not array.size or (hasattr(row, "dtype") and array.dtype.kind in ("S" if kind is bytes else "UT")):
            continue
        if hasattr(row, "dtype") and array.dtype.kind != "O":
            raise _text_error(at, kind, array.flat[0])
        items = row if isinstance(row, list) and array.ndim == 1 else np.array(row, object).reshape(-1).tolist()
        items = [item.item() if isinstance(item, np.ndarray) and not item.ndim else item for item in items]
        if set(map(type, items)) != {kind} and (others := [item for item in items if not isinstance(item, kind)]):
            raise _text_error(at, kind, others[0])
        ends_in_nul = ends_in_nul or any(item.endswith(nul) for item in items if nul in item)
    if not ends_in_nul:
        return arrays
    return [
        array if array.dtype.kind == "O" else np.array(row, object) for row, array in zip(rows, arrays, strict=True)
    ]


def _text_error(at: int, kind: type, found: Any) -> SchemaMismatch:
    return SchemaMismatch(
        Where(record=at),
        expected=f"only {'text' if kind is str else 'bytes'}",
        found=f"{type(getattr(found, 'item', lambda: found)()).__name__} {found!s:.60}",
        hint="All values of a feature are of one kind: convert them first.",
    )


def _concatenate(arrays: Sequence[npt.NDArray[Any]], dtype: npt.DTypeLike | None) -> npt.NDArray[Any]:
    full = [array for array in arrays if len(array)] or arrays[:1]
    return np.concatenate(full) if full else np.zeros(0, dtype)


def exact_mask(integers: npt.NDArray[Any], dtype: npt.DTypeLike = np.float64) -> npt.NDArray[np.bool_]:
    """Which integers are also a float of a dtype."""
    limits = np.iinfo(integers.dtype)
    with np.errstate(over="ignore"):
        floats = integers.astype(dtype).astype(np.float64)
    is_within = (floats >= float(limits.min)) & (floats < float(limits.max) + 1)  # 2**64 - 1 is 2**64 as a float
    found: npt.NDArray[np.bool_] = is_within & (np.where(is_within, floats, 0).astype(integers.dtype) == integers)
    return found


def kept_mask(before: npt.NDArray[Any], after: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Which values are still the same in another dtype, apart from rounding of floats."""
    kind, other = before.dtype.kind, after.dtype.kind
    found: npt.NDArray[np.bool_]
    if kind == "b":
        return np.ones(before.shape, np.bool_)
    if kind + other in ("ff", "fc", "cc"):
        found = np.isfinite(after) | ~np.isfinite(before)
        return found
    if kind in "iu" and other in "fc":
        return exact_mask(before, np.finfo(after.dtype).dtype)
    with np.errstate(all="ignore"):
        found = after.astype(before.dtype) == before
    if kind in "mM":
        found |= np.isnat(before) & np.isnat(after)
    elif kind in "iu":  # One beyond the other type may come back the same after wrapping twice.
        found &= (after < 0) == (before < 0)
    return found


def _as_integers(arrays: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
    """Signed and unsigned integers as one of both."""
    negative = next((at for at, array in enumerate(arrays) if array.dtype.kind == "i" and (array < 0).any()), None)
    if negative is None:
        return [array.astype(np.uint64) for array in arrays]
    most = np.iinfo(np.int64).max
    large = next((at for at, array in enumerate(arrays) if array.dtype.kind == "u" and (array > most).any()), None)
    if large is None:
        return [array.astype(np.int64) for array in arrays]
    at = max(negative, large)
    array = arrays[at]
    raise _change_error((array[array < 0] if at == negative else array[array > most]).flat[0], at)


def _from_items(items: npt.NDArray[Any], array: npt.NDArray[Any], floats: type[np.floating[Any]]) -> npt.NDArray[Any]:
    """The array of a list in which some numbers are large, and may be integers."""
    integers = [item for item in items.flat if isinstance(item, (int, np.integer))]
    if len(integers) == items.size:
        if min(integers) < 0:
            raise _change_error(next(item for item in integers if item < 0 or item > np.iinfo(np.int64).max))
        return items.astype(np.uint64)
    for item in integers:
        if int(floats(item)) != item:
            raise _change_error(item)
    return array


def _refuse_long(items: Iterable[Any]) -> None:
    for item in items:
        if type(item) is int and not -(1 << 63) <= item < 1 << 64:
            raise SchemaMismatch(Where(), expected="integers of at most 64 bits", found=str(item))


def _change_error(number: Any, at: int | None = None) -> SchemaMismatch:
    expected = "numbers that one dtype holds exactly"
    return SchemaMismatch(Where(record=at), expected=expected, found=f"the integer {number} among others", hint=HINT)


def choose_fill(values: Any, fill: Any) -> Any:
    """The value to pad a column with.

    Args:
        values: The values of the column: an array, a tensor, or :class:`~headrace.contracts.strings.Strings`.
        fill: ``None``: 0, or ``""`` and ``b""`` among text and bytes.

    Raises:
        TypeError: The values are text or bytes, and ``fill`` is something else. Or they are numbers, and it is none.
        ValueError: Their dtype does not hold ``fill``. Only floats may be rounded.
    """
    kind: type | None = None
    if hasattr(values, "is_text"):
        kind = str if values.is_text else bytes
    elif values.dtype == object:
        kind = next((kind for kind in (str, bytes) if values.size and isinstance(values.flat[0], kind)), None)
    elif isinstance(values.dtype, np.dtype):
        kind = {"U": str, "S": bytes}.get(values.dtype.kind)
    if fill is None:
        if values.dtype == object and not values.size:
            return b""  # A column of objects holds text or bytes, as its feature says.
        return 0 if kind is None else kind()
    if kind is None:
        check_fill(values.dtype, fill)
    elif not isinstance(fill, kind):
        raise TypeError(
            f"fill must be {kind.__name__} among {kind.__name__}, got {fill!r}. Leave it out for {kind()!r}."
        )
    return fill


def place_values(
    values: Any, take: npt.NDArray[np.int64], to: npt.NDArray[np.int64], shape: tuple[int, int], fill: Any
) -> Any:
    """A new column, ``(*shape, *inner)``, of the kind of ``values``: values at given positions, and ``fill`` elsewhere.

    Args:
        values: ``ndarray (total, *inner)``, a tensor, or :class:`~headrace.contracts.strings.Strings`.
        take: Positions in ``values``.
        to: The place of each in the column, rows end to end.
        shape: The first two axes of the column.
        fill: As for :func:`choose_fill`.
    """
    fill = choose_fill(values, fill)
    if hasattr(values, "is_text"):
        strings = type(values)
        filling = strings.from_values(np.full((1, *values.shape[1:]), fill, object), is_text=values.is_text)
        positions = np.full(shape[0] * shape[1], len(values), np.int64)
        positions[to] = take
        taken = strings.concatenate([values, filling]).take(positions)
        return taken.reshape(*shape, *values.shape[1:])
    if hasattr(values, "new_full"):  # a tensor of PyTorch, which stays on its device
        column = values.new_full((shape[0] * shape[1], *values.shape[1:]), fill)
        column[to] = values[take]
        return column.reshape(*shape, *values.shape[1:])
    array = np.asarray(values)
    dtype = np.result_type(array, np.asarray(fill)) if array.dtype.kind in "SU" else array.dtype  # not to cut the fill
    flat = np.full((shape[0] * shape[1], *array.shape[1:]), fill, dtype)
    flat[to] = array[take]
    return flat.reshape(*shape, *array.shape[1:])


def compare_times(left: Any, right: Any) -> npt.NDArray[np.float64]:
    """Below 0 where the left is earlier, above 0 where it is later, NaN where one is missing.

    NumPy compares in the finer unit, where far times overflow. In the coarser one nothing does.

    Raises:
        TypeError: They are not two times or two durations, or have no units in common.
    """
    if left.dtype.kind != right.dtype.kind:
        raise TypeError("one is a time, the other is not, and a time is written as text, as in '2026-01-31'")
    (unit, count), (other_unit, other_count) = np.datetime_data(left.dtype), np.datetime_data(right.dtype)
    if not {unit, other_unit} <= set(UNITS):
        raise TypeError("one has no unit")
    if left.dtype.kind == "m" and (unit in CALENDAR) != (other_unit in CALENDAR):
        raise TypeError("years and months have no fixed length")
    if (UNITS.index(unit), -count) < (UNITS.index(other_unit), -other_count):
        return -compare_times(right, left)
    coarse = left.astype(right.dtype)
    order = (coarse > right).astype(np.float64) - (coarse < right)
    order = np.where((order == 0) & (coarse.astype(left.dtype) != left), 1.0, order)
    return np.where(np.isnat(left) | np.isnat(right), np.nan, order)
