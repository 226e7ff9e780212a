"""Numbers of JSON Lines that a column of floats does not hold: found by their text, since a JSON reader has rounded them by then."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from headrace.contracts.values import Ragged
from headrace.formats.table.arrow_types import arrow
from headrace.formats.table.values import BadValue
from headrace.io.json_text import load_json

__all__ = ["any_beyond_exact", "check_numbers", "has_beyond_exact", "innermost", "whole_type"]


SHOWN = 60
EXACT = 2.0**53
"""Whole numbers up to here are floats of their own."""
MOST_DIGITS = 20
"""Of a whole number of 64 bits, its sign with them."""
MOST_UINT64 = (1 << 64) - 1
LONG_NUMBER = re.compile(rb"(?<![\d.eE+])\d{16,}(?![\d.eE])|[\d.][eE][+]?\d\d\d|\d{300}")
"""What a number must look like that float64 may not hold: a whole number of many digits, or a huge one."""
ROUNDS = 'A schema says what to do: schema={"NAME": headrace.Feature("float64")} rounds.'


def innermost(kind: Any) -> Any:
    """The type of the values in lists of lists."""
    while arrow().types.is_list(kind):
        kind = kind.value_type
    return kind


def has_beyond_exact(array: Any) -> bool:
    """Whether a float among some values, or in lists of them, may be a whole number that was rounded."""
    while arrow().types.is_list(array.type):
        array = array.flatten()
    return bool((np.abs(array.to_numpy(zero_copy_only=False)) >= EXACT).any())


def any_beyond_exact(columns: Iterable[Any]) -> bool:
    """Whether there is such a float in one of some columns of a batch."""
    floats = []
    for column in columns:
        values = column
        while isinstance(values, Ragged):
            values = values.values
        if values.dtype.kind == "f" and values.dtype.itemsize > 2:  # float16 ends far below, and says so itself
            floats.append(values.reshape(-1))
    if not floats:
        return False
    return bool((np.abs(floats[0] if len(floats) == 1 else np.concatenate(floats)) >= EXACT).any())


class _Whole(str):
    """The digits of a whole number."""

    __slots__ = ()

    @property
    def is_exact(self) -> bool:
        """Whether it is a float64, too."""
        return len(self) < 310 and int(self) == int(float(self)) if float(self) not in (np.inf, -np.inf) else False

    @property
    def shown(self) -> str:
        return str(self) if len(self) <= SHOWN else f"a whole number of {len(self.lstrip('-'))} digits"


def _numbers_at(line: Any, keys: tuple[str, ...], row: int) -> Iterator[_Whole | float]:
    """The numbers under some keys of a line, also in lists."""
    try:
        value = load_json(bytes(line).decode("utf-8", "replace").strip(), parse_int=_Whole)
    except ValueError as error:
        raise BadValue(row, "one JSON object a line", str(error)) from error
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += reversed(value)
        elif isinstance(value, (_Whole, float)):
            yield value


def whole_type(lines: Sequence[bytes], keys: tuple[str, ...], kind: Any) -> Any:
    """The type of a column that was taken for floats, some of them large: ``uint64`` where all are whole numbers that it holds.

    Raises:
        BadValue: It would take a number for another one.
    """
    numbers = [(row, number) for row, line in enumerate(lines) for number in _numbers_at(line, keys, row)]
    whole = [(row, number) for row, number in numbers if isinstance(number, _Whole)]
    if len(whole) == len(numbers) and all(
        len(number) <= MOST_DIGITS and 0 <= int(number) <= MOST_UINT64 for _, number in whole
    ):
        pa = arrow()
        found = pa.uint64()
        while pa.types.is_list(kind):
            found, kind = pa.list_(found), kind.value_type
        return found
    if len(whole) == len(numbers):
        row, beyond = next((row, number) for row, number in whole if not _is_int64(number))
        signs = any(number.startswith("-") for _, number in whole)
        expected = "whole numbers of 64 bits" + (", with a sign, because others are negative" if signs else "")
        raise BadValue(row, expected, beyond.shown, ROUNDS.replace("NAME", "/".join(keys)))
    for row, number in numbers:
        if not _is_held(number):
            expected = "whole numbers that float64 holds exactly, because there are fractions beside them"
            raise BadValue(row, expected, _shown_number(number), ROUNDS.replace("NAME", "/".join(keys)))
    return kind


def _is_int64(number: _Whole) -> bool:
    return len(number) <= MOST_DIGITS and -(1 << 63) <= int(number) < 1 << 63


def _is_held(number: _Whole | float) -> bool:
    return number.is_exact if isinstance(number, _Whole) else number not in (np.inf, -np.inf)


def _shown_number(number: _Whole | float) -> str:
    return number.shown if isinstance(number, _Whole) else "a number beyond float64"


def check_numbers(array: Any, lines: Sequence[bytes], keys: tuple[str, ...], *, rounds: bool) -> None:
    """Hold a column that was read as floats against its text.

    Args:
        array: The column.
        lines: What it was read from.
        keys: Where it is in them.
        rounds: Whether whole numbers may be rounded, as a schema that was given asks for.

    Raises:
        BadValue: A number became another one, or infinite.
    """
    if not (arrow().types.is_floating(innermost(array.type)) and has_beyond_exact(array)):
        return
    for row, line in enumerate(lines):
        if LONG_NUMBER.search(line) is None:
            continue
        for number in _numbers_at(line, keys, row):
            value = float(number)
            if value in (np.inf, -np.inf) or not (rounds or _is_held(number)):
                hint = "" if rounds else ROUNDS.replace("NAME", "/".join(keys))
                raise BadValue(
                    row, "numbers that float64 holds" + ("" if rounds else " exactly"), _shown_number(number), hint
                )
