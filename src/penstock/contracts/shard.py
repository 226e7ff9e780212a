"""Which part of the data one process reads."""

from __future__ import annotations

import operator
from dataclasses import dataclass

__all__ = ["Shard"]


@dataclass(frozen=True, slots=True)
class Shard:
    """Rank ``rank`` of ``world`` processes that read the same data together.

    Raises:
        TypeError: A number is not whole.
        ValueError: ``rank`` is not in ``[0, world)``.

    >>> Shard(1, 4)
    Shard(rank=1, world=4)
    """

    rank: int = 0
    world: int = 1

    def __post_init__(self) -> None:
        if operator.index(self.world) < 1:
            raise ValueError(f"world must be at least 1, got {self.world}")
        if not 0 <= operator.index(self.rank) < self.world:
            raise ValueError(f"rank must be in [0, {self.world}), got {self.rank}")
