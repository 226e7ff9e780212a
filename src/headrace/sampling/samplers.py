"""Orders in which a loader reads a source, and which component of a mixture each position belongs to. Integers only, computed per position."""

from __future__ import annotations

import heapq
import math
import numbers
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.contracts.values import Indices

if TYPE_CHECKING:
    from decimal import Decimal
    from fractions import Fraction

__all__ = [
    "MAX_EXAMPLES",
    "MAX_PERIOD",
    "MAX_SEED",
    "AcrossEpochs",
    "InOrder",
    "Interleaving",
    "Shuffled",
    "Weight",
    "check_seed",
    "whole_parts",
]

MAX_EXAMPLES = 1 << 40
MAX_SEED = 1 << 64


@dataclass(frozen=True, slots=True)
class InOrder:
    """``0, 1, ..., n - 1``, in every epoch.

    >>> InOrder(5).indices(0, 1, 4)
    array([1, 2, 3])
    """

    n: int

    def __post_init__(self) -> None:
        _check_count(self.n)

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> int:
        """The index at global position ``i = epoch * n + position``."""
        return _place(i, self.n)[1]

    def indices(self, epoch: int, start: int, stop: int) -> Indices:
        """The indices at positions ``start`` up to ``stop`` of one epoch, ``int64``."""
        _check_range(epoch, start, stop, self.n)
        return np.arange(start, stop, dtype=np.int64)

    @property
    def fingerprint(self) -> str:
        """Differs for other orders."""
        return f"InOrder({self.n})"


@dataclass(frozen=True, slots=True)
class Shuffled:
    """A permutation of ``[0, n)``, different for every epoch and seed.

    Each index is computed by a keyed permutation, so the order takes no memory. It depends only on ``(seed, epoch, n)``, on
    every machine and in every release.

    Args:
        n: The number of examples, up to 2^40.
        seed: In ``[0, 2^64)``. Orders of neighbouring seeds and epochs are unrelated.

    >>> sorted(Shuffled(5, seed=7).indices(0, 0, 5).tolist())
    [0, 1, 2, 3, 4]
    """

    n: int
    seed: int

    def __init__(self, n: int, *, seed: int = 0) -> None:
        object.__setattr__(self, "n", _integer(n, "n"))  # frozen: this is the one place that may set
        object.__setattr__(self, "seed", check_seed(_integer(seed, "seed")))
        _check_count(self.n)

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> int:
        """The index at global position ``i = epoch * n + position``."""
        epoch, position = _place(i, self.n)
        return int(_native.permute(self.n, self.seed, epoch, position, position + 1)[0])

    def indices(self, epoch: int, start: int, stop: int) -> Indices:
        """The indices at positions ``start`` up to ``stop`` of one epoch, ``int64``."""
        _check_range(epoch, start, stop, self.n)
        if start == stop:
            return np.zeros(0, np.int64)
        return _native.permute(self.n, self.seed, epoch, start, stop)

    def at(self, epoch: int, positions: Indices) -> Indices:
        """The indices at any positions of one epoch, ``int64``."""
        if len(positions) == 0:
            return np.zeros(0, np.int64)
        _check_range(epoch, int(positions.min()), int(positions.max()) + 1, self.n)
        return _native.permute_at(self.n, self.seed, epoch, positions)

    def across(self, positions: Indices) -> Indices:
        """The indices at any global positions ``epoch * n + position``, ``int64``."""
        if self.n == 1 or len(positions) == 0:
            return np.zeros(len(positions), np.int64)
        epochs, places = np.divmod(positions, self.n)
        if int(epochs.min()) < 0:
            raise IndexError(
                f"position {positions.min()} of an order of {self.n}; positions count up from 0 through all epochs"
            )
        if epochs[0] == epochs[-1] and np.all(epochs == epochs[0]):
            return _native.permute_at(self.n, self.seed, int(epochs[0]), places)
        # Sorted, because a small order goes through many epochs in one batch.
        by_epoch = np.argsort(epochs, kind="stable")
        epochs, places = epochs[by_epoch], places[by_epoch]
        starts = np.flatnonzero(np.diff(epochs, prepend=-1))
        out = np.empty(len(positions), np.int64)
        for epoch, start, stop in zip(
            epochs[starts].tolist(), starts.tolist(), [*starts[1:].tolist(), len(epochs)], strict=True
        ):
            out[start:stop] = _native.permute_at(self.n, self.seed, epoch, places[start:stop])
        indices = np.empty(len(positions), np.int64)
        indices[by_epoch] = out
        return indices

    @property
    def fingerprint(self) -> str:
        """Differs for other orders."""
        return f"Shuffled({self.n}, seed={self.seed})"


def _integer(value: int, name: str) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {value!r:.60}") from None


def check_seed(seed: int) -> int:
    """Check the seed of an order.

    Raises:
        ValueError: It is not in ``[0, 2^64)``.
    """
    if not 0 <= seed < MAX_SEED:
        raise ValueError(f"a seed is in [0, 2^64), got {seed}")
    return seed


def _check_count(n: int) -> None:
    if not 0 <= _integer(n, "n") <= MAX_EXAMPLES:
        raise ValueError(f"an order has 0 to 2^40 examples, got {n}")


def _check_range(epoch: int, start: int, stop: int, n: int) -> None:
    if not (0 <= start <= stop <= n and epoch >= 0):
        raise IndexError(f"positions {start} to {stop} of epoch {epoch} are outside an order of {n}")


def _place(i: int, n: int) -> tuple[int, int]:
    i = operator.index(i)
    if i < 0 or n == 0:
        raise IndexError(f"position {i} of an order of {n}; positions count up from 0 through all epochs")
    return divmod(i, n)


Weight: TypeAlias = "float | Fraction | Decimal | str"

MAX_PERIOD = 1 << 16
"""Weights are exact if their whole parts add up to at most this."""


def whole_parts(weights: Sequence[Weight]) -> tuple[int, ...]:
    """Weights as the smallest integers in the same proportion.

    A weight means what is written: ``0.3`` is three tenths. Integers that would add up to more than 65,536 are rounded
    to add up to that; each share then differs from the given one by less than 1/65,536.

    Raises:
        TypeError: a weight is not a number.
        ValueError: a weight is not positive, or too small compared with the others.

    >>> whole_parts([0.5, 0.3, 0.2])
    (5, 3, 2)
    """
    exact = [_fraction(weight) for weight in weights]
    if not exact:
        raise ValueError("a mixture needs at least one component")
    shared = math.lcm(*(weight.denominator for weight in exact))
    parts = [int(weight * shared) for weight in exact]
    if sum(parts) // math.gcd(*parts) > MAX_PERIOD:
        parts = _round_parts(parts)
    if min(parts) == 0:
        raise ValueError(
            f"weights {list(map(str, weights))} lie too far apart: a share must be at least 1/{MAX_PERIOD}"
        )
    return tuple(part // math.gcd(*parts) for part in parts)


def _fraction(weight: Weight) -> Fraction:
    from decimal import Decimal
    from fractions import Fraction

    if isinstance(weight, (bool, np.bool_)) or not isinstance(weight, (str, Decimal, numbers.Real, np.number)):
        raise TypeError(f"a weight is a positive number, got {weight!r}, which is {type(weight).__name__}")
    try:
        value = Fraction(str(weight))
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"a weight is a positive number, got {weight!r}") from None
    if value <= 0:
        raise ValueError(f"a weight is a positive number, got {weight!r}")
    return value


def _round_parts(parts: Sequence[int]) -> list[int]:
    """Parts that add up to ``MAX_PERIOD``: rounded down, then one more for those that lost most."""
    total = sum(parts)
    floors = [part * MAX_PERIOD // total for part in parts]
    lost = [part * MAX_PERIOD % total for part in parts]
    for i in sorted(range(len(parts)), key=lambda i: -lost[i])[: MAX_PERIOD - sum(floors)]:
        floors[i] += 1
    return floors


class Interleaving:
    """The components of a mixture, position by position, without end.

    One period holds ``parts[c]`` positions of component ``c``, spread so evenly that in the first ``k`` positions, for every
    ``k``, each component's number differs from its exact share of ``k`` by less than one (of two components: by at most 1/2).

    Args:
        parts: Positions of each component in one period.

    >>> Interleaving((3, 1)).components(np.arange(8)).tolist()
    [0, 0, 1, 0, 0, 0, 1, 0]
    """

    def __init__(self, parts: Sequence[int]) -> None:
        self.parts: tuple[int, ...] = tuple(parts)
        self.period: int = sum(self.parts)
        self._pattern = _pattern(self.parts)
        self._slots = [np.flatnonzero(self._pattern == c) for c in range(len(self.parts))]
        self._draws = np.empty(self.period, np.int64)
        for slots in self._slots:
            self._draws[slots] = np.arange(len(slots))

    def components(self, positions: Indices) -> npt.NDArray[np.int64]:
        """The component of each position."""
        pattern: npt.NDArray[np.int64] = self._pattern[positions % self.period]
        return pattern

    def draws(self, positions: Indices) -> Indices:
        """For each position, how many positions before it belong to its own component."""
        turns, slots = np.divmod(positions, self.period)
        draws: Indices = turns * np.array(self.parts)[self._pattern[slots]] + self._draws[slots]
        return draws

    def position(self, component: int, draw: int) -> int:
        """The position of a component's ``draw``-th turn, counted from 0."""
        turns, slot = divmod(draw, self.parts[component])
        return turns * self.period + int(self._slots[component][slot])


def _pattern(parts: Sequence[int]) -> npt.NDArray[np.int64]:
    """One period, by Tijdeman's rule for the chairman assignment problem (Discrete Mathematics 32, 1980).

    With ``C`` components the numbers can be held within ``d = 1 - 1 / (2C - 2)`` of their shares: turn ``j`` of a component
    may not come while that would put it ahead of its share by more than ``d``, and must come before it is behind by more.
    Of those that may come, the one that must come first is taken.
    """
    period, scale = sum(parts), max(2 * len(parts) - 2, 1)
    waiting = [(-(period // -(scale * part)) - 1, c) for c, part in enumerate(parts)]
    heapq.heapify(waiting)
    ready: list[tuple[int, int]] = []
    turns = [0] * len(parts)
    pattern = np.empty(period, np.int64)
    for slot in range(period):
        while waiting and waiting[0][0] <= slot:
            _, c = heapq.heappop(waiting)
            heapq.heappush(ready, ((turns[c] * scale + scale - 1) * period // (scale * parts[c]), c))
        _, c = heapq.heappop(ready)
        pattern[slot] = c
        turns[c] += 1
        heapq.heappush(waiting, (-((turns[c] * scale + 1) * period // -(scale * parts[c])) - 1, c))
    return pattern


class AcrossEpochs:
    """Positions that go on from epoch to epoch: ``epoch * n + position``.

    Args:
        n: Positions in an epoch.
    """

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def indices(self, epoch: int, start: int, stop: int) -> Indices:
        """Positions ``start`` up to ``stop`` of one epoch."""
        return np.arange(epoch * self.n + start, epoch * self.n + stop, dtype=np.int64)

    @property
    def fingerprint(self) -> str:
        """Differs for other orders."""
        return f"Onward({self.n})"

    def __repr__(self) -> str:
        return f"AcrossEpochs(n={self.n})"
