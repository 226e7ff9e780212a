"""The orders in which a loader can go through a source."""

from __future__ import annotations

import operator
from dataclasses import dataclass

import numpy as np

from headrace import _native
from headrace.contracts.values import Indices

__all__ = ["MAX_EXAMPLES", "MAX_SEED", "InOrder", "Shuffled"]

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
        """Tells this order from another one."""
        return f"InOrder({self.n})"


@dataclass(frozen=True, slots=True)
class Shuffled:
    """A permutation of ``[0, n)``, another one in every epoch and for every seed.

    Every number is computed by itself (a keyed permutation), so the order takes no memory whatever ``n`` is. It depends on
    ``(seed, epoch, n)`` alone and is the same on every machine, in every release.

    Args:
        n: How many examples there are, up to 2^40.
        seed: In ``[0, 2^64)``. Orders of neighbouring seeds and epochs have nothing to do with each other.

    >>> sorted(Shuffled(5, seed=7).indices(0, 0, 5).tolist())
    [0, 1, 2, 3, 4]
    """

    n: int
    seed: int

    def __init__(self, n: int, *, seed: int = 0) -> None:
        object.__setattr__(self, "n", operator.index(n))  # frozen: this is the one place that may set
        object.__setattr__(self, "seed", operator.index(seed))
        _check_count(self.n)
        if not 0 <= self.seed < MAX_SEED:
            raise ValueError(f"a seed is in [0, 2^64), got {seed}")

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

    @property
    def fingerprint(self) -> str:
        """Tells this order from another one."""
        return f"Shuffled({self.n}, seed={self.seed})"


def _check_count(n: int) -> None:
    if not 0 <= operator.index(n) <= MAX_EXAMPLES:
        raise ValueError(f"an order has 0 to 2^40 examples, got {n}")


def _check_range(epoch: int, start: int, stop: int, n: int) -> None:
    if not (0 <= start <= stop <= n and epoch >= 0):
        raise IndexError(f"positions {start} to {stop} of epoch {epoch} are outside an order of {n}")


def _place(i: int, n: int) -> tuple[int, int]:
    i = operator.index(i)
    if i < 0 or n == 0:
        raise IndexError(f"position {i} of an order of {n}; positions count up from 0 through all epochs")
    return divmod(i, n)
