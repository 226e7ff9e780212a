"""Parts of splits: the split language of TFDS, ``"train[:80%]"``, ``"train[100:200]+test"``, ``"all"``, and objects that mean the same.

    split := part ("+" part)*        part := NAME | NAME[from:to] | NAME[kshard]

A bound is a number of examples, a percentage (``12.5%``) or a number of file shards (``2shard``); a unit on one side counts
for both; negative ones count from the end; ``_`` may group digits. A percentage is rounded to the nearest example, halves to
even, as TFDS does. ``all`` is every split, one after the other, and cannot be cut. Results are integers only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal, TypeAlias

from headrace._arguments import check_integer
from headrace.errors import UnsupportedData, Where

__all__ = ["AnyName", "Piece", "ReadInstruction", "SplitLike", "even_splits", "resolve_split", "split_names"]

Piece = tuple[str, int, int]

_BOUND = r"(?P<{0}>-?[\d_]+(?:\.\d+)?)(?P<{0}_unit>%|shard)?"
_PART = (  # compiled when it is first used, because few programs use it
    r"(?P<name>[\w-]+)"
    rf"(?:\[(?:(?:{_BOUND.format('start')})?:(?:{_BOUND.format('stop')})?|(?P<single>-?[\d_]+)shard)\])?"
)
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


def _pieces_of(text: str, sizes: Mapping[str, int], shard_sizes: Mapping[str, Sequence[int]]) -> list[Piece]:
    """The pieces ``(name, start, stop)`` of a split expression, those without examples included."""
    return [piece for part in re.split(r"\s*\+\s*", text) for piece in _pieces(text, part, sizes, shard_sizes)]


def _pieces(text: str, part: str, sizes: Mapping[str, int], shard_sizes: Mapping[str, Sequence[int]]) -> list[Piece]:
    match = re.fullmatch(_PART, part)
    if match is None:
        raise _split_error(text, expected=_GRAMMAR, found=f"{part!r}")
    name, is_cut = match["name"], "[" in part
    if name == "all":
        if is_cut:
            raise _split_error(text, expected="'all' without brackets", found=f"{part!r}")
        return [(each, 0, n) for each, n in sizes.items()]
    if name not in sizes:
        raise _split_error(text, expected=f"one of the splits {sorted(sizes)}", found=f"{name!r}")
    n = sizes[name]
    if not is_cut:
        return [(name, 0, n)]
    ruler = _ruler(_unit(match, text), n, shard_sizes.get(name), text)
    start, stop = _bounds(match, ruler, text)
    return [(name, start, stop)]


@dataclass(frozen=True, slots=True)
class _Ruler:
    """Converts bounds in one unit to positions."""

    unit: str
    n: int
    ends: tuple[int, ...]

    @property
    def limit(self) -> int:
        """The length of the split in units."""
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
        raise _split_error(text, expected="one unit for both bounds", found=" and ".join(sorted(units)))
    return units.pop() if units else ""


def _ruler(unit: str, n: int, shard_sizes: Sequence[int] | None, text: str) -> _Ruler:
    if unit == "shard" and shard_sizes is None:
        raise _split_error(
            text, expected="bounds in examples or per cent", found="'shard', but the shards are not known here"
        )
    return _Ruler(unit, n, tuple(accumulate(shard_sizes or (), initial=0)))


def _bounds(match: re.Match[str], ruler: _Ruler, text: str) -> tuple[int, int]:
    if match["single"] is not None:
        first = _number(match["single"], ruler, text)
        first += ruler.limit if first < 0 else 0
        if first >= ruler.limit:
            raise _range_error(text, match["single"], ruler)
        return ruler.position(first), ruler.position(first + 1)
    start = ruler.position(_number(match["start"], ruler, text)) if match["start"] is not None else 0
    stop = ruler.position(_number(match["stop"], ruler, text)) if match["stop"] is not None else ruler.n
    return start, stop


def _number(digits: str, ruler: _Ruler, text: str) -> float:
    try:
        value = float(digits) if ruler.unit == "%" else int(digits)
    except ValueError:
        kind = "a number" if ruler.unit == "%" else "an integer"
        raise _split_error(text, expected=f"{kind} as bound", found=repr(digits)) from None
    if abs(value) > ruler.limit:
        raise _range_error(text, digits, ruler)
    return value


def _range_error(text: str, digits: str, ruler: _Ruler) -> UnsupportedData:
    unit = {"%": "per cent", "shard": "shards"}.get(ruler.unit, "examples")
    return _split_error(text, expected=f"bounds within {ruler.limit} {unit}", found=digits)


def _split_error(text: str, *, expected: str, found: str) -> UnsupportedData:
    return UnsupportedData(Where(), expected=expected, found=found, hint=f"The split was {text!r}.")


Unit = Literal["abs", "%", "shard"]
Rounding = Literal["closest", "pct1_dropremainder"]
SHORTEST_FOR_PCT1 = 100


class _Sum:
    """A split that ``+`` joins with others."""

    def __add__(self, other: SplitLike) -> SplitSum:
        return SplitSum((*_terms(self), *_terms(other)))

    def __radd__(self, other: SplitLike) -> SplitSum:
        return SplitSum((*_terms(other), *_terms(self)))


@dataclass(frozen=True)
class ReadInstruction(_Sum):
    """A part of one split.

    Args:
        split_name: The name of the split.
        from_, to: Bounds of the part; ``None``: those of the split. Negative ones count from the end.
        unit: ``"abs"`` (examples), ``"%"``, or ``"shard"`` (files).
        rounding: For percentages: ``"closest"`` to the nearest example, halves to even; ``"pct1_dropremainder"`` rounds one
            per cent down to whole examples, so equal percentages are equally long, and drops the rest.

    Raises:
        ValueError: The unit or the rounding is unknown, or a percentage is outside -100 to 100.

    >>> ReadInstruction("train", to=10, unit="%") + ReadInstruction("test")
    ReadInstruction('train[:10%]') + ReadInstruction('test')
    """

    split_name: str
    from_: float | None = None
    to: float | None = None
    unit: Unit = "abs"
    rounding: Rounding = "closest"

    def __post_init__(self) -> None:
        if not isinstance(self.split_name, str):
            raise TypeError(f"split_name must be the name of a split, such as 'train', got {self.split_name!r:.60}")
        if self.unit not in ("abs", "%", "shard"):
            raise ValueError(f"unit must be 'abs', '%' or 'shard', got {self.unit!r}")
        if self.rounding not in ("closest", "pct1_dropremainder"):
            raise ValueError(f"rounding must be 'closest' or 'pct1_dropremainder', got {self.rounding!r}")
        if self.unit == "%" and max(abs(self.from_ or 0), abs(self.to or 0)) > 100:
            raise ValueError(f"per cent are from -100 to 100, got {self.from_} and {self.to}")

    @classmethod
    def from_spec(cls, spec: SplitLike) -> SplitLike:
        """The expression itself, because expressions are also split arguments."""
        return spec

    def __str__(self) -> str:
        unit = "" if self.unit == "abs" else self.unit
        bounds = ["" if bound is None else _digits(bound) + unit for bound in (self.from_, self.to)]
        return self.split_name if bounds == ["", ""] else f"{self.split_name}[{bounds[0]}:{bounds[1]}]"

    def __repr__(self) -> str:
        rounding = "" if self.rounding == "closest" else f", rounding={self.rounding!r}"
        return f"ReadInstruction({str(self)!r}{rounding})"

    def pieces(self, sizes: Mapping[str, int], shard_sizes: Mapping[str, Sequence[int]]) -> list[Piece]:
        """Name, start and stop."""
        if self.unit != "%" or self.rounding == "closest" or (self.from_ is None and self.to is None):
            return _pieces_of(str(self), sizes, shard_sizes)
        _pieces_of(self.split_name, sizes, shard_sizes)  # is there such a split?
        n = sizes[self.split_name]
        if n < SHORTEST_FOR_PCT1:
            raise self._split_error("a split of 100 examples or more for 'pct1_dropremainder'", f"one of {n}")
        start = 0 if self.from_ is None else self._position(self.from_, n)
        stop = n if self.to is None else self._position(self.to, n)
        return [(self.split_name, start, stop)]

    def _position(self, bound: float, n: int) -> int:
        if bound != int(bound):
            raise self._split_error("whole per cent for 'pct1_dropremainder'", f"{bound} %")
        position = int(bound) * (n // 100)
        return position + n if position < 0 else position

    def _split_error(self, expected: str, found: str) -> UnsupportedData:
        return UnsupportedData(Where(), expected=expected, found=found, hint=f"The split was {self!r}.")


@dataclass(frozen=True)
class EvenSplit(_Sum):
    """One of several equal parts of a split: see :func:`even_splits`."""

    split: SplitLike
    index: int
    count: int
    drop_remainder: bool

    def pieces(self, sizes: Mapping[str, int], shard_sizes: Mapping[str, Sequence[int]]) -> list[Piece]:
        """Name, start and stop."""
        return [self._part(piece) for piece in _all_pieces(self.split, sizes, shard_sizes)]

    def _part(self, piece: Piece) -> Piece:
        name, start, stop = piece
        each, rest = divmod(max(0, stop - start), self.count)
        extra = 0 if self.drop_remainder else rest
        begin = start + each * self.index + min(self.index, extra)
        return name, begin, begin + each + (self.index < extra)

    def __str__(self) -> str:
        return f"{self.split} ({self.index + 1} of {self.count})"


@dataclass(frozen=True)
class SplitSum(_Sum):
    """Several parts, one after the other."""

    parts: tuple[SplitLike, ...]

    def pieces(self, sizes: Mapping[str, int], shard_sizes: Mapping[str, Sequence[int]]) -> list[Piece]:
        """Name, start and stop of each."""
        return [piece for part in self.parts for piece in _all_pieces(part, sizes, shard_sizes)]

    def __str__(self) -> str:
        return "+".join(map(str, self.parts))

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.parts))


SplitLike: TypeAlias = str | ReadInstruction | EvenSplit | SplitSum
"""What ``split=`` takes: an expression, or objects that mean the same."""


def even_splits(split: SplitLike, n: int, *, drop_remainder: bool = False) -> list[EvenSplit]:
    """Divide a split into ``n`` parts that do not overlap, like TFDS.

    Args:
        split: An expression, a :class:`ReadInstruction`, or a result of this function. Parts joined by ``+`` are divided
            separately.
        n: The number of parts.
        drop_remainder: Make all parts equally long and leave out the rest; otherwise the first parts have one example
            more.

    Returns:
        ``n`` values that ``split=`` takes.

    >>> [resolve_split(part, {"train": 11}) for part in even_splits("train", 3)]
    [[('train', 0, 4)], [('train', 4, 8)], [('train', 8, 11)]]
    """
    n = check_integer(n, "n", least=1)
    return [EvenSplit(split, index, n, drop_remainder) for index in range(n)]


def resolve_split(
    split: SplitLike, sizes: Mapping[str, int], *, shard_sizes: Mapping[str, Sequence[int]] | None = None
) -> list[Piece]:
    """The ranges of a split, as ``(name, start, stop)`` with ``0 <= start < stop <= sizes[name]``, in its order.

    Args:
        split: An expression or an object.
        sizes: Examples in each split.
        shard_sizes: Examples in each file of each split, for the unit ``shard``.

    Raises:
        UnsupportedData: not a split, an unknown split, bounds outside it, or no example in it.
    """
    full = [piece for piece in _all_pieces(split, sizes, shard_sizes or {}) if piece[1] < piece[2]]
    if not full:
        raise UnsupportedData(
            Where(),
            expected="a split that holds examples",
            found=f"{str(split)!r}, which holds none of {dict(sizes)}",
            hint=f"The split was {str(split)!r}.",
        )
    return full


def split_names(split: SplitLike) -> list[str]:
    """The names of the splits in an expression or object, in order."""
    if isinstance(split, str):
        return [part.partition("[")[0].strip() for part in split.split("+")]
    if isinstance(split, SplitSum):
        return [name for part in split.parts for name in split_names(part)]
    if isinstance(split, EvenSplit):
        return split_names(split.split)
    if not isinstance(split, ReadInstruction):
        raise _unknown_split_error(split)
    return [split.split_name]


def _digits(bound: float) -> str:
    """A number without an exponent, as in the split language."""
    if bound == int(bound):
        return str(int(bound))
    return repr(bound) if "e" not in repr(bound) else f"{bound:.30f}"


def _all_pieces(split: Any, sizes: Mapping[str, int], shard_sizes: Mapping[str, Sequence[int]]) -> list[Piece]:
    if isinstance(split, str):
        return _pieces_of(split, sizes, shard_sizes)
    if not hasattr(split, "pieces"):
        raise _unknown_split_error(split)
    found: list[Piece] = split.pieces(sizes, shard_sizes)
    return found


def _unknown_split_error(split: Any) -> TypeError:
    hint = ". For several splits, make one source of each" if isinstance(split, (list, tuple, dict)) else ""
    return TypeError(
        f"a split is text, ReadInstruction, or what even_splits gave, got {type(split).__name__} {split!r:.60}{hint}"
    )


def _terms(split: Any) -> tuple[SplitLike, ...]:
    if not isinstance(split, (str, _Sum)):
        raise TypeError(f"only splits can be added to splits, got {type(split).__name__}")
    return split.parts if isinstance(split, SplitSum) else (split,)  # type: ignore[return-value]
