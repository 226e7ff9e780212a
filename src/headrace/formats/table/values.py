"""Columns from Python values, and empty columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace._numbers import kept_mask, to_array
from headrace.contracts.feature import Feature
from headrace.contracts.strings import Strings
from headrace.contracts.values import Ragged
from headrace.errors import SchemaMismatch, UnsupportedData, Where

__all__ = [
    "MISSING_HINT",
    "NAT",
    "BadValue",
    "Keys",
    "column_of",
    "convert_to_fit",
    "fill_of",
    "map_values",
    "missing",
    "name_of",
    "point_in_time",
    "rows_in",
    "twice_error",
]


NAT = int(np.iinfo(np.int64).min)
"""The number that means NaT."""
MISSING_HINT = "Open it with schema= and give the feature a default, or a dtype that has NaN."
POINT = re.compile(r"[+-]?\d{4,}(-\d\d(-\d\d([T ]\d\d(:\d\d(:\d\d(\.\d+)?)?)?)?)?)?")

ZONED = re.compile(
    r"(?P<point>.*[T ]\d\d(:\d\d(:\d\d)?)?)(?P<fraction>\.\d+)?(Z|(?P<sign>[+-])(?P<hours>\d\d)(:?(?P<minutes>\d\d))?)"
)
"""A point in time with a time zone."""
HOURS, MINUTES = 24, 60
HELD = {"b": "biuf", "i": "biuf", "u": "biuf", "f": "biuf", "c": "biufc", "m": "ium", "M": "iuM", "U": "U", "S": "S"}
"""The kinds of values that each kind may hold. Integers count the unit of times."""


Keys = tuple[str | None, ...]
"""The keys that lead to a feature in nested objects, outermost first. ``None`` stands for the items of a list of objects."""


def name_of(keys: Keys) -> str:
    """The name of the feature under some keys: ``a/b``."""
    return "/".join(key for key in keys if key is not None)


class BadValue(Exception):
    """A value that does not fit its feature. ``row`` is its row in the column."""

    def __init__(self, row: int, expected: str, found: str, hint: str = "") -> None:
        super().__init__(f"row {row}: expected {expected}, found {found}")
        self.row = row
        self.expected = expected
        self.found = found
        self.hint = hint

    def at(self, where: Where) -> SchemaMismatch:
        """The error for this value at its place."""
        return SchemaMismatch(where, expected=self.expected, found=self.found, hint=self.hint)


def twice_error(where: Where) -> UnsupportedData:
    """The error for two columns of one name, such as the keys ``a/b`` and ``b`` in ``a``."""
    return UnsupportedData(
        where,
        expected="every column name once",
        found="two columns of that name",
        hint="Rename one of them, or list the columns that you want, without this one: schema={...}.",
    )


def fill_of(feature: Feature) -> Any:
    """The value that replaces a missing one; ``None`` if a missing value is an error."""
    if feature.default is not None:
        return feature.default
    if not feature.is_fixed:
        return ()
    if feature.shape == () and feature.numpy_dtype.kind in "mM":
        return NAT
    return np.nan if feature.shape == () and np.dtype(feature.numpy_dtype).kind == "f" else None


def point_in_time(text: str, dtype: np.dtype[Any]) -> Any:
    """A time of any year, parsed from ISO 8601, or NaT. With a time zone, it is converted to UTC.

    Raises:
        ValueError: It is none, or not in the range of the unit: NumPy takes such for others.
    """
    if (zoned := ZONED.fullmatch(text)) is not None:
        text = _in_utc(zoned)
    if text != "NaT" and POINT.fullmatch(text) is None:
        raise ValueError(f"no point in time: {text!r}")
    found: Any = np.array(text, dtype)[()]
    back = str(np.datetime_as_string(found))
    if (
        back != text
        and back.rstrip("0:T.- ") != text.rstrip("0:T.- ")
        and (
            str(found.astype("M8[s]")) != str(np.datetime64(text, "s"))
            or back.partition(".")[2].rstrip("0") != text.partition(".")[2].rstrip("0")
        )
    ):
        raise ValueError(f"{text!r} is beyond {dtype}")
    return found


def _in_utc(zoned: re.Match[str]) -> str:
    """The text of a point in time in UTC. Fractions of a second are the same in every time zone."""
    if zoned["sign"] is None:
        return zoned["point"] + (zoned["fraction"] or "")
    hours, minutes = int(zoned["hours"]), int(zoned["minutes"] or 0)
    if hours >= HOURS or minutes >= MINUTES or POINT.fullmatch(zoned["point"]) is None:
        raise ValueError(f"no point in time: {zoned[0]!r}")
    offset = np.timedelta64(int(f"{zoned['sign']}{hours * MINUTES + minutes}"), "m")
    return str(np.datetime64(zoned["point"], "s") - offset) + (zoned["fraction"] or "")


def convert_to_fit(values: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any] | None:
    """Values of a file in a dtype; ``None`` if it does not hold them all. Only floats may be rounded, but not to infinity."""
    kind = values.dtype.kind
    if values.dtype == dtype:
        return values
    if kind not in HELD.get(dtype.kind, ""):
        return None
    if dtype.kind in "mM" and kind in "iu":
        counts = convert_to_fit(values, np.dtype(np.int64))
        return None if counts is None else counts.view(dtype)
    if dtype.kind in "iu" and kind in "iu":  # in less time than with a copy
        limits = np.iinfo(dtype)
        is_within = not values.size or (int(values.min()) >= limits.min and int(values.max()) <= limits.max)
        return values.astype(dtype) if is_within else None
    try:
        with np.errstate(all="ignore"):
            converted = values.astype(dtype)
    except OverflowError:  # days in attoseconds
        return None
    # NumPy also calls large integers safe as floats, and far times safe in finer units.
    is_wider = kind not in "iumM" and np.can_cast(values.dtype, dtype)
    return converted if is_wider or kept_mask(values, converted).all() else None


def column_of(values: Sequence[Any], feature: Feature, stored: np.dtype[Any] | None = None) -> Any:
    """The batch column of some values: numbers, text, bytes, or lists of them; ``None`` where one is missing.

    Args:
        values: The value of each row.
        feature: What they should become.
        stored: What integers count where the feature holds times; by default its own unit.

    Raises:
        BadValue: One does not fit.
    """
    filled = _fill_missing(values, feature)
    return _nest(filled, feature.shape, feature, np.arange(len(filled)), stored or feature.numpy_dtype)


def _fill_missing(values: Sequence[Any], feature: Feature) -> list[Any]:
    fill = fill_of(feature)
    if fill is not None and feature.shape and not isinstance(fill, (tuple, list)):
        filled = np.full(tuple(n or 0 for n in feature.shape), fill, feature.numpy_dtype)
        fill = filled if filled.dtype.kind in "mM" else filled.tolist()
    elif feature.default is not None and feature.numpy_dtype.kind in "mM":
        fill = np.array(fill, feature.numpy_dtype)[()]
    if fill is None:
        for row, value in enumerate(values):
            if value is None:
                raise missing(row)
        return list(values)
    return [fill if value is None else value for value in values]


def missing(row: int) -> BadValue:
    """The error for a missing value without a replacement."""
    return BadValue(
        row,
        "a value",
        "none (null)",
        MISSING_HINT,
    )


def _nest(
    values: list[Any],
    shape: tuple[int | None, ...],
    feature: Feature,
    rows: npt.NDArray[np.int64],
    stored: np.dtype[Any],
) -> Any:
    """Values with the axes ``shape``; ``rows`` is the row of each."""
    if not shape:
        return _leaves(values, feature, rows, stored)
    length = shape[0]
    for row, value in zip(rows.tolist(), values, strict=True):
        if not isinstance(value, (list, tuple, np.ndarray)):
            raise BadValue(row, f"a list of {feature.dtype}", repr(value)[:40])
        if length is not None and len(value) != length:
            raise BadValue(row, f"{length} values", f"{len(value)}")
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    inner = _nest(list(chain.from_iterable(values)), shape[1:], feature, np.repeat(rows, lengths), stored)
    if length is not None and not isinstance(inner, Ragged):
        return inner.reshape(len(values), length, *inner.shape[1:])
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return Ragged(inner, offsets)


def _leaves(values: list[Any], feature: Feature, rows: npt.NDArray[np.int64], stored: np.dtype[Any]) -> Any:
    if feature.shape and None in values:
        values = _fill_in_lists(values, feature, rows)
    if feature.is_text:
        return _texts(values, feature, rows)
    found = _in_dtype(values, feature.numpy_dtype, stored)
    if found is None:
        raise _worst(values, feature.numpy_dtype, rows, stored)
    return found


def _in_dtype(values: list[Any], wanted: np.dtype[Any], stored: np.dtype[Any]) -> npt.NDArray[Any] | None:
    """The values in a dtype; ``None`` if one of them does not fit."""
    if not values:
        return np.zeros(0, wanted)
    if wanted.kind in "mM":
        return _times(values, wanted, stored)
    try:
        found = to_array(values)
    except (ValueError, OverflowError):
        return None
    if found.shape != (len(values),):
        return None
    if found.dtype.kind == "b" and wanted.kind in "fc":
        return None
    if wanted.kind in "US" and found.tolist() != values:  # Arrays drop NULs at the end.
        return None
    return convert_to_fit(found, wanted)


def _times(values: list[Any], wanted: np.dtype[Any], stored: np.dtype[Any]) -> npt.NDArray[Any] | None:
    """Times that are counted, written as text, or NumPy's; NaT where one is missing. ``None`` if one of them does not fit."""
    types = set(map(type, values))
    if types <= {int, type(None)}:
        counts = np.array([NAT if value is None else value for value in values], np.int64)
        return convert_to_fit(counts.view(stored), wanted)
    fills = [at for at, value in enumerate(values) if type(value) is wanted.type and value.dtype == wanted]
    if fills and len(types) > 1:  # They have the unit of the feature, and others may not.
        others = list(values)
        for at in fills:
            others[at] = None
        found = _times(others, wanted, stored)
        if found is not None:
            found[fills] = [values[at] for at in fills]
        return found
    if wanted.kind == "M" and str in types:
        return _points_in_text(values, wanted)
    try:
        found = to_array(values)
    except (ValueError, OverflowError):
        return None
    return convert_to_fit(found, wanted) if found.shape == (len(values),) else None


def _points_in_text(values: list[Any], wanted: np.dtype[Any]) -> npt.NDArray[Any] | None:
    try:
        return np.array([point_in_time("NaT" if value is None else value, wanted) for value in values], wanted)
    except (ValueError, TypeError):
        return None


def _fill_in_lists(values: list[Any], feature: Feature, rows: npt.NDArray[np.int64]) -> list[Any]:
    """Values of lists, without missing ones. A default of several values is that of a whole row, not of one value in it."""
    fill = feature.default if np.ndim(feature.default) == 0 else None
    if fill is None and feature.numpy_dtype.kind == "f":
        fill = np.nan
    if feature.numpy_dtype.kind in "mM":
        if fill is None:
            return values  # NaT
        fill = np.array(fill, feature.numpy_dtype)[()]
    if fill is None:
        raise missing(int(rows[values.index(None)]))
    return [fill if value is None else value for value in values]


def _texts(values: list[Any], feature: Feature, rows: npt.NDArray[np.int64]) -> Any:
    kind = str if feature.dtype == "str" else bytes
    if not all(isinstance(value, kind) for value in values):
        values = [_in_kind(value, kind, int(row)) for value, row in zip(values, rows, strict=True)]
    try:
        return Strings.from_values(values, is_text=kind is str)
    except ValueError:  # Half a character, which UTF-8 cannot hold.
        column = np.empty(len(values), object)
        column[:] = values
        return column


def _in_kind(value: Any, kind: type[str | bytes], row: int) -> str | bytes:
    """Text as bytes in UTF-8, or the other way round."""
    try:
        if isinstance(value, str | bytes):
            return value if isinstance(value, kind) else value.encode() if isinstance(value, str) else value.decode()
    except UnicodeError as error:
        raise BadValue(row, "UTF-8 text", repr(value)[:40]) from error
    raise BadValue(row, kind.__name__, repr(value)[:40])


def _worst(values: list[Any], wanted: np.dtype[Any], rows: npt.NDArray[np.int64], stored: np.dtype[Any]) -> BadValue:
    """The error for the first bad value."""
    for position, value in enumerate(values):
        if _in_dtype([value], wanted, stored) is None:
            is_counted = type(value) is int and stored.kind in "mM"
            found = f"{np.array(value).view(stored)} ({stored})" if is_counted else repr(value)[:40]
            return BadValue(int(rows[position]), str(wanted), found)
    return BadValue(int(rows[0]), str(wanted), "values of several types")


def map_values(column: Any, function: Callable[[Any], Any]) -> Any:
    """The column with ``function`` applied to its innermost array."""
    if isinstance(column, Ragged):
        return Ragged(map_values(column.values, function), column.offsets)
    if isinstance(column, list):
        return [map_values(np.asarray(row), function) for row in column]
    return function(column) if column.size else column.astype(object)


def rows_in(column: Any) -> list[Any]:
    """The rows of a batch column as plain Python values, for libraries that take those."""
    if isinstance(column, Ragged):
        return column.to_list()
    if isinstance(column, list):
        return [row.tolist() if isinstance(row, np.ndarray) else row for row in column]
    if hasattr(column, "tocsr"):
        dense: list[Any] = column.toarray().tolist()
        return dense
    rows: list[Any] = column.tolist()
    return rows
