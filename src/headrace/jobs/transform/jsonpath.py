"""The subset of JSONPath that SageMaker's input and output filters support.

``$`` everything · ``$.name``, ``$['name']`` one member · ``$['a','b']`` an object of some members · ``$[0]``, ``$[-1]`` one
element · ``$[1,3,5]``, ``$[1:]``, ``$[:5]``, ``$[0,5:]`` a list of some elements · ``$.*``, ``$[*]`` all values. Steps can be chained:
``$.SageMakerOutput.predictions[0].score``. A step after several elements applies to each. A CSV row is a list.

The end of a slice is excluded, as in RFC 9535, in Jayway's JsonPath (which SageMaker's guide links) and in Python. Some examples in
that guide include it. Lists of positions (``$[1,2,3]``) mean the same in both.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

__all__ = ["JsonPath"]

MOST_CHARACTERS = 63
MOST_DIGITS = 9
NAME = re.compile(r"\.([\w-]+)")
QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"")
POSITION = re.compile(rf"-?[0-9]{{1,{MOST_DIGITS}}}")
SLICE = re.compile(rf"(-?[0-9]{{1,{MOST_DIGITS}}})?\s*:\s*(-?[0-9]{{1,{MOST_DIGITS}}})?")


@dataclass(frozen=True, slots=True)
class _Names:
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Places:
    places: tuple[int | slice, ...]

    @property
    def is_one(self) -> bool:
        return len(self.places) == 1 and isinstance(self.places[0], int)


@dataclass(frozen=True, slots=True)
class _All:
    pass


_Step: TypeAlias = _Names | _Places | _All


@dataclass(frozen=True, slots=True)
class JsonPath:
    """A parsed path.

    >>> JsonPath.parse("$[0,2:]").select(["a", "b", "c", "d"])
    ['a', 'c', 'd']
    >>> JsonPath.parse("$['id','score']").select({"id": 7, "x": 1, "score": 0.5})
    {'id': 7, 'score': 0.5}
    """

    text: str
    steps: tuple[_Step, ...]

    @classmethod
    def parse(cls, text: str) -> JsonPath:
        """Parse a path.

        Raises:
            ValueError: It has more than 63 characters, or is not in this subset of JSONPath; the message names the character.
        """
        if len(text) > MOST_CHARACTERS:
            raise ValueError(f"a JSONPath of {len(text)} characters; the limit is {MOST_CHARACTERS}")
        if not text.startswith("$"):
            raise ValueError(f"a JSONPath begins with $, got {text!r}")
        steps: list[_Step] = []
        at = 1
        while at < len(text):
            step, at = _step(text, at)
            steps.append(step)
        return cls(text, tuple(steps))

    @property
    def is_everything(self) -> bool:
        """Whether it is ``$``."""
        return not self.steps

    @property
    def takes_columns(self) -> bool:
        """Whether it applies to CSV rows."""
        return not self.steps or (len(self.steps) == 1 and not isinstance(self.steps[0], _Names))

    @property
    def has_ended_slice(self) -> bool:
        """Whether a slice has an end, so that including it would make a difference."""
        places = [place for step in self.steps if isinstance(step, _Places) for place in step.places]
        return any(isinstance(place, slice) and place.stop is not None for place in places)

    def select(self, value: Any) -> Any:
        """What the path selects from a value.

        Raises:
            LookupError: The value lacks something that the path names.
        """
        return _select(value, self.steps)

    def columns(self, width: int) -> list[int]:
        """The positions that the path selects from a row of ``width`` columns, in order.

        Raises:
            LookupError: A column does not exist, or no column is selected.
        """
        row = range(width)
        found = _select(row, self.steps) if self.steps else row
        columns = [found] if isinstance(found, int) else list(found)
        if not columns:
            raise LookupError(f"{self.text} selects nothing from {_count_of(width, 'column')}")
        return columns


def _step(text: str, at: int) -> tuple[_Step, int]:
    if text.startswith((".*", "[*]"), at):
        return _All(), at + (2 if text[at] == "." else 3)
    if found := NAME.match(text, at):
        return _Names((found[1],)), found.end()
    if text[at] == "[":
        return _bracket(text, at + 1)
    raise _syntax_error(text, at)


def _bracket(text: str, at: int) -> tuple[_Step, int]:
    names: list[str] = []
    places: list[int | slice] = []
    while True:
        at = _past_spaces(text, at)
        if found := QUOTED.match(text, at):
            names.append(re.sub(r"\\(.)", r"\1", found[1] if found[1] is not None else found[2]))
        elif found := SLICE.match(text, at):
            first, last = (None if part is None else int(part) for part in found.groups())
            places.append(slice(first, last))
        elif found := POSITION.match(text, at):
            places.append(int(found[0]))
        else:
            raise _syntax_error(text, at)
        at = _past_spaces(text, found.end())
        if names and places:
            raise ValueError(f"{text!r} mixes names and positions in brackets")
        if text.startswith("]", at):
            return _Names(tuple(names)) if names else _Places(tuple(places)), at + 1
        if not text.startswith(",", at):
            raise _syntax_error(text, at)
        at += 1


def _past_spaces(text: str, at: int) -> int:
    while text.startswith(" ", at):
        at += 1
    return at


def _syntax_error(text: str, at: int) -> ValueError:
    known = "$ . [ ] names in quotes, positions, slices without a step, *"
    place = f"at character {at + 1}" if at < len(text) else "at its end"
    return ValueError(f"{text!r} is not a JSONPath that filters support, {place}: they support {known}")


def _select(value: Any, steps: Sequence[_Step]) -> Any:
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if isinstance(step, _Names):
        found = {name: _member(value, name) for name in step.names}
        if len(step.names) == 1:
            return _select(found[step.names[0]], rest)
        return [_select(one, rest) for one in found.values()] if rest else found
    if isinstance(step, _Places):
        if step.is_one:
            return _select(_element(value, step.places[0]), rest)
        elements = [one for place in step.places for one in _elements(value, place)]
    else:
        elements = list(value.values() if isinstance(value, dict) else _list(value))
    return [_select(one, rest) for one in elements]


def _member(value: Any, name: str) -> Any:
    if not isinstance(value, dict):
        raise LookupError(f"expected an object with {name!r}, found {_kind(value)}")  # noqa: TRY004 - it is not there
    if name not in value:
        names = ", ".join(map(repr, list(value)[:8])) or "nothing"
        raise LookupError(f"expected an object with {name!r}, found one with {names}")
    return value[name]


def _elements(value: Any, place: int | slice) -> Sequence[Any]:
    return _list(value)[place] if isinstance(place, slice) else [_element(value, place)]


def _element(value: Any, place: Any) -> Any:
    values = _list(value)
    if not -len(values) <= place < len(values):
        raise LookupError(f"expected an element at position {place}, found {_count_of(len(values), 'element')}")
    return values[place]


def _list(value: Any) -> Sequence[Any]:
    if not isinstance(value, list | range):
        raise LookupError(f"expected a list, found {_kind(value)}")  # noqa: TRY004 - it is not there
    return value


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "a truth value", type(None): "null"}
    return names.get(type(value), "a number")


def _count_of(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")
