"""Fills up rows of different lengths: what with, and where the values go.

Columns of text are known by their attributes, and so are tensors: this module is below both.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["choose_fill", "place_values"]


def choose_fill(values: Any, fill: Any) -> Any:
    """What fills up a column.

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
        return 0 if kind is None else kind()
    if kind is None:
        _check_fill(values.dtype, fill)
    elif not isinstance(fill, kind):
        raise TypeError(
            f"fill must be {kind.__name__} among {kind.__name__}, got {fill!r}. Leave it out for {kind()!r}."
        )
    return fill


def place_values(
    values: Any, take: npt.NDArray[np.int64], to: npt.NDArray[np.int64], shape: tuple[int, int], fill: Any
) -> Any:
    """Values at places of a new column, and a filling everywhere else.

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


def _check_fill(dtype: Any, fill: Any) -> None:
    """Refuse a filling of numbers that would become another one."""
    held = _numpy_dtype(dtype)
    if held.kind not in "biufc":
        return
    numbers = (fill,) if type(fill) in (int, float, bool) else np.asarray(fill, object).flat
    for number in numbers:
        try:
            fits = _holds(held, number)
        except OverflowError:  # an integer beyond all floats
            fits = False
        except (TypeError, ValueError):
            raise TypeError(f"fill must be a number among {dtype}, got {fill!r}") from None
        if not fits:
            raise ValueError(f"fill must be a number that {dtype} holds, got {fill!r}")


def _holds(dtype: np.dtype[Any], number: Any) -> bool:
    if isinstance(number, np.integer):  # beside other integers, NumPy would convert it
        number = int(number)
    elif isinstance(number, (str, bytes)):
        raise TypeError
    least, most = _range_of(dtype)
    if dtype.kind in "fc":
        size = abs(number) if dtype.kind == "c" else number
        return not math.isfinite(size) or bool(least <= size <= most)
    return bool(least <= number <= most and int(number) == number)


@cache
def _range_of(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    if dtype.kind == "b":
        return 0, 1
    limits: Any = np.iinfo(dtype) if dtype.kind in "iu" else np.finfo(dtype)
    return (limits.min, limits.max) if dtype.kind in "iu" else (limits.min.item(), limits.max.item())


def _numpy_dtype(dtype: Any) -> np.dtype[Any]:
    """The dtype, or that of NumPy which holds the same numbers as one of PyTorch."""
    if isinstance(dtype, np.dtype):
        return dtype
    name = str(dtype).rpartition(".")[2]
    found = np.sctypeDict.get(name)
    if found is not None and np.dtype(found).kind in "biufc":
        return np.dtype(found)
    # bfloat16 has the range of float32. JAX adds one of another kind to NumPy's dtypes.
    return np.dtype(np.complex64 if getattr(dtype, "is_complex", False) else np.float32)
