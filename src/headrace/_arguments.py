"""Checks of arguments of public calls, so that wrong ones fail at once."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "check_callable",
    "check_choice",
    "check_fill",
    "check_flag",
    "check_integer",
    "check_integers",
    "check_names",
    "check_offsets",
    "check_position",
    "check_positions",
    "check_row",
    "check_text",
    "check_vector",
    "choose_fill",
    "function",
    "index_error",
    "list_feature_names",
    "list_row_numbers",
    "refuse_rows",
]


def check_flag(value: object, name: str) -> bool:
    """Check a flag: ``True`` or ``False``, also NumPy's.

    Raises:
        TypeError: It is neither.
    """
    if isinstance(value, bool) or (type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_")):
        return bool(value)
    raise TypeError(f"{name} must be True or False, got {value!r}")


def check_integer(value: Any, name: str, *, least: int = 0, most: int | None = None) -> int:
    """Check an integer, also NumPy's.

    Raises:
        TypeError: It is not an integer.
        ValueError: It is less than ``least``, or more than ``most``.
    """
    try:
        if isinstance(value, bool):
            raise TypeError  # noqa: TRY301 - handled below, like other types
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {value!r}") from None
    if number < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")
    if most is not None and number > most:
        raise ValueError(f"{name} must be at most {most}, got {value}")
    return number


def check_choice(value: object, name: str, choices: Sequence[str | None]) -> None:
    """Check that an argument is one of a few strings.

    Raises:
        TypeError: It is not a string.
        ValueError: It is another string.
    """
    if value is None and None in choices:
        return
    *words, last = [repr(each) for each in choices if each is not None]
    wanted = f"{', '.join(words)} or {last}" if words else last
    if not isinstance(value, str):
        raise TypeError(f"{name} must be {wanted}, got {value!r}")
    if value not in choices:
        raise ValueError(f"{name} must be {wanted}, got {value!r}")


def function(value: object, name: str) -> Callable[..., Any] | None:
    """Check a function, or ``None``.

    Raises:
        TypeError: It is neither.
    """
    if value is None or callable(value):
        return value
    raise TypeError(f"{name} must be a function, got {value!r}")


def check_text(value: object, name: str, *others: type) -> None:
    """Check that an argument is a string, ``None``, or an instance of given types.

    Raises:
        TypeError: It is not.
    """
    if value is not None and not isinstance(value, (str, *others)):
        wanted = " or ".join(["text", *(f"a headrace.{each.__name__}" for each in others)])
        raise TypeError(f"{name} must be {wanted}, got {value!r}")


def check_names(value: object, name: str) -> None:
    """Check that an argument is an iterable of names, or ``None``. A single string is refused: its letters would be the names.

    Raises:
        TypeError: It is something else.
    """
    if value is None:
        return
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        example = [value] if isinstance(value, (str, bytes)) else ["cat", "dog"]
        raise TypeError(f"{name} must be several names, such as {example!r}, got {value!r}")
    if isinstance(value, Sequence) and not all(isinstance(each, str) for each in value):
        raise TypeError(f"{name} must be several names, got {value!r}")


def list_feature_names(features: Any, name: str) -> tuple[str, ...]:
    """Feature names as a tuple, from one name or several.

    Raises:
        TypeError: It is something else.
        ValueError: There is none.
    """
    found = (features,) if isinstance(features, str) else features
    if isinstance(found, bytes) or not isinstance(found, Iterable):
        raise TypeError(f"{name} must be the name of a feature, or several names, got {features!r:.60}")
    found = tuple(found)
    if not all(isinstance(each, str) for each in found):
        raise TypeError(f"{name} must be the name of a feature, or several names, got {features!r:.60}")
    if not found:
        raise ValueError("at least one feature is needed")
    return found


def index_error(array: npt.NDArray[Any]) -> TypeError:
    """The error for an index that is not several integers."""
    message = "indices are a sequence of integers"
    if array.ndim == 0 and array.dtype.kind in "iu":
        return TypeError(f"{message}, got {array}: hr.Loader(source, {array}) iterates over batches of {array}")
    if array.ndim == 0:
        others = "source[...] also takes an integer, a slice, a mask, a feature's name or a list of names"
        return TypeError(f"{message}, got {array.item()!r:.60}: {others}")
    hint = (
        f": source[{array.tolist()!r:.60}] has several features" if array.dtype.kind == "U" and array.ndim == 1 else ""
    )
    return TypeError(f"{message}, got {array.dtype} with shape {array.shape}{hint}")


def check_position(index: int, count: int, what: str = "record") -> int:
    """Convert an index to a position from 0 to ``count - 1``. A negative index counts from the end.

    Raises:
        IndexError: It is outside.
        TypeError: It is no integer.
    """
    try:
        position = operator.index(index)
    except TypeError:
        several = f". For several {what}s: [{what}s[i] for i in range(10)]"
        raise TypeError(f"expected an integer, the number of a {what}, found {type(index).__name__}{several}") from None
    if not -count <= position < count:
        raise IndexError(f"{what} {position} of {count}")
    return position % count


def check_positions(rows: npt.ArrayLike, n: int) -> npt.NDArray[np.int64]:
    """Check positions among ``n`` rows. Negative ones count from the end; none of those returned is negative.

    Raises:
        TypeError: They are not integers. Booleans are refused: NumPy would read them as positions 1 and 0.
        IndexError: One is outside.
    """
    found = check_integers(rows)
    if not found.size:
        return found
    low, high = int(found.min()), int(found.max())
    if low < -n or high >= n:
        raise IndexError(f"row {low if low < -n else high} of {n}")
    wanted = found.astype(np.int64, copy=False)
    return wanted if low >= 0 else np.where(wanted < 0, wanted + n, wanted)


def check_row(index: Any) -> int:
    """Check the position of one row of a ragged column.

    Raises:
        TypeError: It is no integer.
    """
    try:
        return operator.index(index)
    except TypeError:
        hint = "ragged.take([0, 2]) has several rows, ragged.take(numpy.flatnonzero(mask)) those of a mask"
        raise TypeError(f"expected an integer or a slice, found {type(index).__name__}: {hint}") from None


def list_row_numbers(rows: Any) -> Sequence[Any]:
    """Rows as a list, because an iterator gives them only once.

    Raises:
        TypeError: They are no iterable.
    """
    if isinstance(rows, (list, tuple)):
        return rows
    if not hasattr(rows, "__iter__") and not hasattr(rows, "__getitem__"):
        raise TypeError(f"expected rows, such as [[1, 2], [3]], found {type(rows).__name__} {rows!r:.60}")
    return list(rows)


def refuse_rows(rows: Iterable[Any], error: Exception) -> None:
    """Raise an error that says why rows cannot be joined, in place of NumPy's.

    Raises:
        TypeError: A row is neither an array nor a list.
        ValueError: Their values have different shapes.
    """
    for at, row in enumerate(rows):
        is_sequence = hasattr(row, "__len__") and hasattr(row, "__getitem__") and getattr(row, "ndim", None) != 0
        if not is_sequence or isinstance(row, (str, bytes, dict)):
            found = f"{type(row).__name__} {row!r:.60} in row {at}"
            raise TypeError(
                f"expected rows that are arrays or lists, found {found}: [value] is a row of one"
            ) from error
    if type(error) is ValueError:
        hint = "Rows of rows are hr.Ragged(hr.Ragged.from_list(inner_rows), offsets)"
        found = str(error).rstrip(".")
        raise ValueError(f"expected rows whose values have one shape, found others: {found}. {hint}") from error


def check_integers(given: npt.ArrayLike) -> npt.NDArray[Any]:
    """Check positions whose range is not known here: integers in one axis, or a single one.

    Raises:
        TypeError: They are others. Booleans are refused: NumPy would read them as positions 1 and 0.
    """
    found = np.asarray(_to_host(given))
    if found.ndim > 1:
        raise TypeError(f"positions must be in one axis, got an array of shape {found.shape}")
    if not found.size:
        return np.zeros(found.shape, np.int64)
    if found.dtype.kind not in "iu":
        hint = ". numpy.flatnonzero(mask) has those of a mask" if found.dtype.kind == "b" else ""
        raise TypeError(f"positions must be integers, got {found.dtype}{hint}")
    return found


def check_offsets(given: Any, total: int) -> npt.NDArray[np.int64]:
    """Check offsets of rows in ``total`` values. Integers of any kind become contiguous ``int64``.

    Raises:
        ValueError: They are no integers in one axis, do not run from 0 to ``total``, or fall.
    """
    found = np.asarray(_to_host(given))
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise ValueError(f"expected offsets of int64 in one axis, found {found.dtype} of shape {found.shape}")
    if not found.size or found[0] != 0 or found[-1] != total:
        raise ValueError(f"offsets must run from 0 to {total}, one more than there are rows")
    falling = np.flatnonzero(found[1:] < found[:-1])
    if falling.size:
        row = int(falling[0])
        raise ValueError(
            f"offsets must run from 0 to {total} without falling, found {found[row : row + 2].tolist()} for row {row}"
        )
    return np.ascontiguousarray(found, np.int64)


def check_vector(given: Any, dtype: type[np.uint8 | np.int64]) -> npt.NDArray[Any]:
    """Check values of one dtype in one axis, or a buffer of them. They become contiguous and aligned.

    Raises:
        ValueError: They are of another dtype, or in several axes.
    """
    if isinstance(given, (bytes, bytearray, memoryview)):
        given = np.frombuffer(given, dtype)
    array = np.asarray(given)
    if array.ndim != 1 or (array.dtype != dtype and (array.size or array.dtype.kind not in "iuf")):
        raise ValueError(f"expected {np.dtype(dtype)} of one axis, found {array.dtype} of shape {array.shape}")
    return np.require(array, dtype, ["C", "A"])


def _to_host(given: Any) -> Any:
    """A tensor of PyTorch on the host, where NumPy can read it; anything else as it is."""
    return given.cpu() if hasattr(given, "cpu") else given


def check_fill(dtype: Any, fill: Any) -> None:
    """Refuse a fill value that the dtype would change.

    Args:
        dtype: Of NumPy or PyTorch.
        fill: A number, or several.

    Raises:
        TypeError: It is no number.
        ValueError: The dtype does not hold it. Only floats may be rounded.
    """
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


def check_callable(given: Any, name: str) -> Any:
    """The argument, if it can be called.

    Raises:
        TypeError: It cannot.
    """
    if not callable(given):
        hint = f": write filter(hr.condition({given!r}))" if isinstance(given, str) and name == "predicate" else ""
        raise TypeError(f"{name} must be a function of an example, got {given!r:.80}{hint}")
    return given
