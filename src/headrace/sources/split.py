"""The split language of TFDS: ``"train[:80%]"``, ``"train[100:200]+test"``, ``"all"``. Integers only.

    split := part ("+" part)*        part := NAME | NAME[from:to] | NAME[kshard]

A bound is a number of examples, a percentage (``12.5%``) or a number of file shards (``2shard``); a unit on one side counts
for both; negative ones count from the end; ``_`` may group digits. A percentage is rounded to the nearest example, halves to
even, as TFDS does. ``all`` is every split, one after the other, and cannot be cut.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from headrace.errors import UnsupportedData, Where

__all__ = ["AnyName", "Piece", "parse_split", "pieces_of"]

Piece = tuple[str, int, int]

_BOUND = r"(?P<{0}>-?[\d_]+(?:\.\d+)?)(?P<{0}_unit>%|shard)?"
_PART = re.compile(
    r"(?P<name>[\w-]+)"
    rf"(?:\[(?:(?:{_BOUND.format('start')})?:(?:{_BOUND.format('stop')})?|(?P<single>-?[\d_]+)shard)\])?"
)
_PLUS = re.compile(r"\s*\+\s*")
_GRAMMAR = "a split such as 'train', 'train[:80%]', 'train[100:200]', 'train[2shard]', or several of them joined by '+'"


class AnyName(dict[str, int]):
    """Every split name means the whole source."""

    def __init__(self, n: int) -> None:
        super().__init__({"all": n})
        self.n = n

    def __missing__(self, name: str) -> int:
        return self.n

    def __contains__(self, name: object) -> bool:
        return True


def parse_split(
    text: str, sizes: Mapping[str, int], *, shard_sizes: Mapping[str, Sequence[int]] | None = None
) -> list[Piece]:
    """What a split asks for, as ``(name, start, stop)`` with ``0 <= start < stop <= sizes[name]``, in the order asked for.

    Args:
        text: The split.
        sizes: Examples in each split there is.
        shard_sizes: Examples in each file of each split, for the unit ``shard``.

    Raises:
        UnsupportedData: not a split, no such split, bounds outside it, or no example in it.

    >>> parse_split("train[:80%]+test", {"train": 100, "test": 20})
    [('train', 0, 80), ('test', 0, 20)]
    """
    pieces = pieces_of(text, sizes, shard_sizes or {})
    full = [piece for piece in pieces if piece[1] < piece[2]]
    if not full:
        raise _refused(
            text, expected="a split that holds examples", found=f"{text!r}, which holds none of {dict(sizes)}"
        )
    return full


def pieces_of(text: str, sizes: Mapping[str, int], shard_sizes: Mapping[str, Sequence[int]]) -> list[Piece]:
    """As :func:`parse_split`, with pieces that hold nothing left in."""
    return [piece for part in _PLUS.split(text) for piece in _pieces(text, part, sizes, shard_sizes)]


def _pieces(text: str, part: str, sizes: Mapping[str, int], shard_sizes: Mapping[str, Sequence[int]]) -> list[Piece]:
    match = _PART.fullmatch(part)
    if match is None:
        raise _refused(text, expected=_GRAMMAR, found=f"{part!r}")
    name, is_cut = match["name"], "[" in part
    if name == "all":
        if is_cut:
            raise _refused(text, expected="'all' without brackets", found=f"{part!r}")
        return [(each, 0, n) for each, n in sizes.items()]
    if name not in sizes:
        raise _refused(text, expected=f"one of the splits {sorted(sizes)}", found=f"{name!r}")
    n = sizes[name]
    if not is_cut:
        return [(name, 0, n)]
    ruler = _ruler(_unit(match, text), n, shard_sizes.get(name), text)
    start, stop = _bounds(match, ruler, text)
    return [(name, start, stop)]


@dataclass(frozen=True, slots=True)
class _Ruler:
    """Turns bounds in one unit into positions."""

    unit: str
    n: int
    ends: tuple[int, ...]

    @property
    def limit(self) -> int:
        """How many units the split is long."""
        return {"%": 100, "shard": len(self.ends) - 1}.get(self.unit, self.n)

    def position(self, bound: float) -> int:
        if self.unit == "%":
            position = round(bound * self.n / 100.0)
            return position + self.n if bound < 0 else position
        whole = int(bound) + (self.limit if bound < 0 else 0)
        return self.ends[whole] if self.unit == "shard" else whole


def _unit(match: re.Match[str], text: str) -> str:
    if match["single"] is not None:
        return "shard"
    units = {unit for unit in (match["start_unit"], match["stop_unit"]) if unit is not None}
    if len(units) > 1:
        raise _refused(text, expected="one unit for both bounds", found=" and ".join(sorted(units)))
    return units.pop() if units else ""


def _ruler(unit: str, n: int, shard_sizes: Sequence[int] | None, text: str) -> _Ruler:
    if unit == "shard" and shard_sizes is None:
        raise _refused(
            text, expected="bounds in examples or per cent", found="'shard', but the shards are not known here"
        )
    return _Ruler(unit, n, tuple(accumulate(shard_sizes or (), initial=0)))


def _bounds(match: re.Match[str], ruler: _Ruler, text: str) -> tuple[int, int]:
    if match["single"] is not None:
        first = _number(match["single"], ruler, text)
        first += ruler.limit if first < 0 else 0
        if first >= ruler.limit:
            raise _outside(text, match["single"], ruler)
        return ruler.position(first), ruler.position(first + 1)
    start = ruler.position(_number(match["start"], ruler, text)) if match["start"] is not None else 0
    stop = ruler.position(_number(match["stop"], ruler, text)) if match["stop"] is not None else ruler.n
    return start, stop


def _number(digits: str, ruler: _Ruler, text: str) -> float:
    try:
        value = float(digits) if ruler.unit == "%" else int(digits)
    except ValueError:
        kind = "a number" if ruler.unit == "%" else "a whole number"
        raise _refused(text, expected=f"{kind} as bound", found=repr(digits)) from None
    if abs(value) > ruler.limit:
        raise _outside(text, digits, ruler)
    return value


def _outside(text: str, digits: str, ruler: _Ruler) -> UnsupportedData:
    unit = {"%": "per cent", "shard": "shards"}.get(ruler.unit, "examples")
    return _refused(text, expected=f"bounds within {ruler.limit} {unit}", found=digits)


def _refused(text: str, *, expected: str, found: str) -> UnsupportedData:
    return UnsupportedData(Where(), expected=expected, found=found, hint=f"The split was {text!r}.")
