"""Join and pad arrays of numbers and times without changing a value.

NumPy converts integers that share no dtype to floats, which rounds them, and times to the finest of their units, which may not reach them.
Text columns and tensors are recognised by their attributes, because their classes are in higher layers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.exceptions import DTypePromotionError

from headrace._arguments import choose_fill
from headrace.errors import SchemaMismatch, Where

__all__ = [
    "MASKED",
    "align",
    "exact_mask",
    "fill_masked",
    "is_safe",
    "is_unchanged",
    "join_rows",
    "kept_mask",
    "place_values",
    "refuse_dtypes",
    "to_array",
    "to_arrays",
]

HALF = 2  # the bytes of a float16, which holds no large numbers
MOST_EXACT = 1 << 53  # every integer up to here is a float64
TIMES = frozenset({np.datetime64, np.timedelta64})
SAFE = frozenset({np.ndarray, bool, int, float}) | TIMES
"""What becomes an array unchanged, unlike lists."""
MASKED = frozenset({np.ma.MaskedArray, type(np.ma.masked)})
"""Arrays from which ``np.asarray`` takes what they hide."""
HINT = "Write all numbers of a feature as floats, or all as integers that one dtype holds."
FIELDS_HINT = "All values of a feature are of one kind: make a feature of each field of a structured array."
TIMES_HINT = "Give all times of a feature one unit that holds them, as with x.astype('datetime64[us]')."


def to_array(value: Any, floats: type[np.floating[Any]] = np.float64, made: Any = None) -> npt.NDArray[Any]:
    """``np.asarray(value)``, but integers and times in a list keep their exact values.

    Args:
        value: An array, a number, or lists of numbers.
        floats: What floats will be stored as: integers beside them must fit, too.
        made: ``np.asarray(value)``, if it is there.

    Raises:
        SchemaMismatch: No dtype holds the integers of a list, or one of them is beyond 64 bits. Or no unit holds its times.
        ValueError: The rows of a list have different lengths.

    >>> to_array([1, 2**63 + 1])
    array([                  1, 9223372036854775809], dtype=uint64)
    """
    if type(value) is np.ndarray and value.dtype.kind != "O":
        return value
    array = np.asarray(value if made is None else made)
    kind = array.dtype.kind
    if kind == "O":
        _refuse_long(array.flat)
    if kind in "mMO" and array.ndim and not hasattr(value, "__array__"):
        _check_times(value, array)
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
    return kind != "O" and (kind not in "fcmM" or types <= SAFE)


def is_unchanged(joined: npt.NDArray[Any], arrays: Iterable[npt.NDArray[Any]]) -> bool:
    """Whether arrays were certainly made and joined without a change: only large integers are rounded. Times must be aligned before."""
    kind = joined.dtype.kind
    if kind in "fc":
        sizes = np.abs(joined) if joined.itemsize > HALF else np.zeros(0)
        is_large = (sizes >= MOST_EXACT) & (sizes < np.inf)
        return not is_large.any() and any(array.dtype.kind in "fc" and array.size for array in arrays)
    return kind != "O"


def align(arrays: Sequence[npt.NDArray[Any]]) -> Sequence[npt.NDArray[Any]]:
    """The arrays, in dtypes that NumPy joins without changing a number or a time. Empty arrays are ignored.

    Raises:
        SchemaMismatch: There are none. ``where.record`` is the position of the first array that does not fit.
    """
    dtypes = {array.dtype for array in arrays if array.size}
    if len(dtypes) < 2:
        return arrays
    kinds = {dtype.kind for dtype in dtypes}
    if kinds & {"m", "M"}:
        _check_units(arrays)
    elif kinds & {"f", "c"}:
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
        found, hint = f"masked ones of {value.dtype}", "Fill them first, with array.filled(...)."
        raise SchemaMismatch(Where(record=at), expected="values", found=found, hint=hint)
    return value.filled(np.nan) if np.ma.is_masked(value) else value.filled()


def join_rows(rows: Sequence[Any], dtype: npt.DTypeLike | None) -> tuple[npt.NDArray[Any], list[int]]:
    """Arrays or lists end to end, ``(sum of lengths, *inner)``, and the length of each.

    If a text or bytes value in a list ends in NULs, the result is an object array, because other arrays drop them.

    Raises:
        SchemaMismatch: ``dtype`` is None, and no dtype holds all numbers, or rows mix numbers, text and bytes. Or ``dtype`` does not hold a
            value (only floats may be rounded), or no unit all times. Or values are masked that are no floats. ``where.record`` is the row.
    """
    types = set(map(type, rows))
    if types & MASKED:
        rows = [fill_masked(row, at) for at, row in enumerate(rows)]
    if dtype is not None and np.dtype(dtype).kind in "biufcmMSU":
        return _join_as(rows, np.dtype(dtype))
    arrays: Sequence[npt.NDArray[Any]] = [np.asarray(row, dtype=dtype) for row in rows]
    dtypes = {array.dtype for array in arrays}
    may_be_text = dtype is None and any(each.kind in "SU" for each in dtypes)
    if may_be_text and any(array.size and array.dtype.kind in "SU" for array in arrays):
        arrays = _keep_text(rows, arrays)
        return _concatenate(arrays, None), list(map(len, arrays))
    is_kept = dtype is not None or is_safe(types, dtypes)
    if not is_kept and any(each.kind in "mM" for each in dtypes):
        arrays = align(to_arrays(rows, arrays))
    values = _concatenate(arrays, dtype)
    if not is_kept and not is_unchanged(values, arrays):
        values = _concatenate(align(to_arrays(rows)), dtype)
    return values, list(map(len, arrays))


def to_arrays(rows: Sequence[Any], made: Sequence[Any] | None = None) -> list[npt.NDArray[Any]]:
    """:func:`to_array` of each row, of which ``made`` has ``np.asarray`` if it is given. ``where.record`` of an error is the row."""
    arrays = []
    for at, row in enumerate(rows):
        try:
            arrays.append(to_array(row, made=None if made is None else made[at]))
        except SchemaMismatch as error:
            raise error.relocated(Where(record=at)) from error
    return arrays


def _join_as(rows: Sequence[Any], dtype: np.dtype[Any]) -> tuple[npt.NDArray[Any], list[int]]:
    """:func:`join_rows` for a dtype that may not hold all values."""
    arrays = to_arrays(rows) if dtype.kind in "mM" else [np.asarray(row) for row in rows]
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
    if not array.size or array.dtype.kind not in {"S": "SU", "U": "SU", "m": "mM", "M": "mM"}.get(dtype.kind, "biufc"):
        found = np.asarray(row, dtype)  # NumPy converts it, or refuses it
        if dtype.kind in "mM" and array.dtype.kind in "SUO":  # but changes times that this unit does not hold
            for item in array.reshape(-1).tolist():
                if type(item) in TIMES or not isinstance(item, (int, np.integer, np.bool_)):
                    _convert(np.asarray(item, f"{dtype.kind}8"), dtype, at)
        return found
    is_real = array.dtype.kind == "c" and dtype.kind != "c"
    found, kept = array, np.zeros(array.shape, bool)
    with np.errstate(all="ignore"), suppress(OverflowError):  # days in attoseconds
        if dtype.kind not in "mM" or dtype.kind == array.dtype.kind:
            found = (array.real if is_real else array).astype(dtype)
            kept = kept_mask(array, found)
    if kept.all():
        return found
    expected, lost = f"values that {dtype} holds", array[~kept].flat[0]
    hint = "Leave the dtype out, or give one that holds them."
    raise SchemaMismatch(Where(record=at), expected=expected, found=f"{lost!s:.60} ({array.dtype})", hint=hint)


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
    try:
        return np.concatenate(full) if full else np.zeros(0, dtype)
    except DTypePromotionError:
        refuse_dtypes(arrays)
        raise


def refuse_dtypes(arrays: Sequence[npt.NDArray[Any]]) -> None:
    """Raise for the first array whose dtype has none in common with those before, as structured ones and numbers.

    Raises:
        SchemaMismatch: There is one. ``where.record`` is its position.
    """
    joined = None
    for at, array in sorted(enumerate(arrays), key=lambda pair: not pair[1].size):  # empty ones may be of any
        try:
            joined = array.dtype if joined is None else np.result_type(joined, array.dtype)
        except DTypePromotionError:
            expected, found = f"{joined}, as before", str(array.dtype)
            raise SchemaMismatch(Where(record=at), expected=expected, found=found, hint=FIELDS_HINT) from None


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


def _check_times(value: Any, array: npt.NDArray[Any]) -> None:
    """Refuse a list in which NumPy changes times to the unit of others, takes numbers for times, or finds no unit for all."""
    if all(type(item) in TIMES and item.dtype == array.dtype for item in value):
        return
    items = _list_items(value)
    is_times = all(isinstance(item, (np.generic, np.ndarray)) and item.dtype.kind in "mM" for item in items)
    if is_times or array.dtype.kind != "O":
        _check_units([np.asarray(item) for item in items], are_rows=False)


def _list_items(value: Any) -> list[Any]:
    """What the lists in a value hold, end to end."""
    if hasattr(value, "dtype") or isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        return [value]
    return [each for item in value for each in _list_items(item)]


def _check_units(arrays: Sequence[npt.NDArray[Any]], *, are_rows: bool = True) -> None:
    """Refuse times that change in the unit that NumPy joins them in. ``where.record`` is the position of the first that does, if they are rows."""
    full = [(at if are_rows else None, array) for at, array in enumerate(arrays) if array.size]
    joined = full[0][1].dtype if full else np.dtype(object)
    for at, array in full:
        is_one = False
        with suppress(TypeError, OverflowError):  # months and days, days and attoseconds
            joined, is_one = np.result_type(joined, array.dtype), array.dtype.kind == joined.kind
        if not is_one:
            raise _times_error(array, at)
    for at, array in full:
        if array.dtype != joined and not (kept := kept_mask(array, array.astype(joined))).all():
            raise _times_error(array[~kept], at)


def _times_error(array: npt.NDArray[Any], at: int | None) -> SchemaMismatch:
    found = f"{array.flat[0]} ({array.dtype}) among others"
    return SchemaMismatch(Where(record=at), expected="times that one unit holds", found=found, hint=TIMES_HINT)


def _refuse_long(items: Iterable[Any]) -> None:
    for item in items:
        if type(item) is int and not -(1 << 63) <= item < 1 << 64:
            raise SchemaMismatch(Where(), expected="integers of at most 64 bits", found=str(item))


def _change_error(number: Any, at: int | None = None) -> SchemaMismatch:
    expected = "numbers that one dtype holds exactly"
    return SchemaMismatch(Where(record=at), expected=expected, found=f"the integer {number} among others", hint=HINT)


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
