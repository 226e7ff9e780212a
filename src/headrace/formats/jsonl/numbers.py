"""Detect JSON numbers that a float column cannot hold. This needs their text, because the JSON reader has rounded them already."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from headrace.contracts.values import Ragged
from headrace.formats.table.arrow_types import arrow, innermost, is_list
from headrace.formats.table.leaves import numbers_or_zero
from headrace.formats.table.values import BadValue, Keys, name_of
from headrace.io.json_text import load_json

__all__ = ["any_beyond_exact", "check_numbers", "has_beyond_exact", "integer_type"]


SHOWN = 60
EXACT = 2.0**53
"""Integers up to this one are exact floats."""
MOST_DIGITS = 20
"""The most characters of a 64-bit integer, including its sign."""
MOST_UINT64 = (1 << 64) - 1
LONG_NUMBER = re.compile(rb"(?<![\d.eE+])\d{16,}(?![\d.eE])|[\d.][eE][+]?\d\d\d|\d{300}")
"""Matches any number that float64 may not hold: many digits, or a huge value."""
INFINITY = re.compile(r"\bInf\b")
"""pyarrow's reader knows this name, too, and Python's only the long one."""
ROUNDS = 'A schema says what to do: schema={"NAME": headrace.Feature("float64")} rounds.'


def has_beyond_exact(array: Any) -> bool:
    """Whether any float in the array, nested or not, may be a rounded integer."""
    while is_list(array.type):
        array = array.flatten()
    return bool((np.abs(numbers_or_zero(array)) >= EXACT).any())


def any_beyond_exact(columns: Iterable[Any]) -> bool:
    """Whether any column of a batch has such a float."""
    floats = []
    for column in columns:
        values = column
        while isinstance(values, Ragged):
            values = values.values
        if values.dtype.kind == "f":  # float16 reports only numbers that were finite before
            floats.append(values.reshape(-1))
    if not floats:
        return False
    with np.errstate(over="ignore"):  # Beside float16, the limit is infinity.
        return bool((np.abs(floats[0] if len(floats) == 1 else np.concatenate(floats)) >= EXACT).any())


class _Integer(str):
    """The digits of an integer."""

    __slots__ = ()

    @property
    def is_exact(self) -> bool:
        """Whether float64 holds the number exactly."""
        return len(self) < 310 and int(self) == int(float(self)) if float(self) not in (np.inf, -np.inf) else False

    @property
    def shown(self) -> str:
        return str(self) if len(self) <= SHOWN else f"an integer of {len(self.lstrip('-'))} digits"


class _Fraction(float):
    """A number that is no integer. One beyond float64 is infinite, but so is the constant ``Infinity``, which is a plain float."""

    __slots__ = ()


def _numbers_at(line: Any, keys: Keys, row: int) -> Iterator[_Integer | float]:
    """The numbers under these keys of a line, including those in lists."""
    text = INFINITY.sub("Infinity", bytes(line).decode("utf-8", "replace").strip())
    try:
        value = load_json(text, parse_int=_Integer, parse_float=_Fraction)
    except ValueError as error:
        raise BadValue(row, "one JSON object a line", str(error)) from error
    found = [value]
    for key in keys:
        if key is None:
            found = [item for value in found if isinstance(value, list) for item in value]
        else:
            found = [value.get(key) for value in found if isinstance(value, dict)]
    waiting = found[::-1]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += reversed(value)
        elif isinstance(value, (_Integer, float)):
            yield value


def integer_type(lines: Sequence[bytes], keys: Keys, kind: Any) -> Any:
    """The type of a column read as floats, some of them large: ``uint64`` if it holds them all.

    Raises:
        BadValue: The type would change a number.
    """
    numbers = [(row, number) for row, line in enumerate(lines) for number in _numbers_at(line, keys, row)]
    whole = [(row, number) for row, number in numbers if isinstance(number, _Integer)]
    if len(whole) == len(numbers) and all(
        len(number) <= MOST_DIGITS and 0 <= int(number) <= MOST_UINT64 for _, number in whole
    ):
        pa = arrow()
        found = pa.uint64()
        while is_list(kind):
            found, kind = pa.list_(found), kind.value_type
        return found
    if len(whole) == len(numbers):
        row, beyond = next((row, number) for row, number in whole if not _is_int64(number))
        signs = any(number.startswith("-") for _, number in whole)
        expected = "integers of 64 bits" + (", with a sign, because others are negative" if signs else "")
        raise BadValue(row, expected, beyond.shown, ROUNDS.replace("NAME", name_of(keys)))
    for row, number in numbers:
        if not _is_held(number):
            exactly = " exactly, because there are fractions beside them" if isinstance(number, _Integer) else ""
            expected = ("integers" if exactly else "numbers") + " that float64 holds" + exactly
            raise BadValue(row, expected, _shown_number(number), ROUNDS.replace("NAME", name_of(keys)))
    return kind


def _is_int64(number: _Integer) -> bool:
    return len(number) <= MOST_DIGITS and -(1 << 63) <= int(number) < 1 << 63


def _is_held(number: _Integer | float) -> bool:
    return number.is_exact if isinstance(number, _Integer) else not _is_beyond(number)


def _is_beyond(number: _Integer | float) -> bool:
    """Whether a number is beyond float64. Infinity is not."""
    return isinstance(number, (_Integer, _Fraction)) and float(number) in (np.inf, -np.inf)


def _shown_number(number: _Integer | float) -> str:
    return number.shown if isinstance(number, _Integer) else "a number beyond float64"


def check_numbers(array: Any, lines: Sequence[bytes], keys: Keys, *, rounds: bool) -> None:
    """Check a column that was read as floats against its text.

    Args:
        array: The column.
        lines: The source lines.
        keys: Its keys in each line.
        rounds: Whether integers may be rounded, because a given schema asks for floats.

    Raises:
        BadValue: A number changed, or became infinite.
    """
    if not (arrow().types.is_floating(innermost(array.type)) and has_beyond_exact(array)):
        return
    for row, line in enumerate(lines):
        if LONG_NUMBER.search(line) is None:
            continue
        for number in _numbers_at(line, keys, row):
            if _is_beyond(number) or not (rounds or _is_held(number)):
                hint = "" if rounds else ROUNDS.replace("NAME", name_of(keys))
                expected = "numbers that float64 holds" + ("" if rounds else " exactly")
                raise BadValue(row, expected, _shown_number(number), hint)
