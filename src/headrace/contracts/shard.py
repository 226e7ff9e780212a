"""Which part of the data one process reads."""

from __future__ import annotations

from dataclasses import dataclass

from headrace._arguments import whole

__all__ = ["Shard"]


@dataclass(frozen=True, slots=True)
class Shard:
    """Rank ``rank`` of ``world`` processes that read the same data together.

    Raises:
        ValueError: ``rank`` is not in ``[0, world)``.
        TypeError: One of them is no whole number.

    >>> Shard(1, 4)
    Shard(rank=1, world=4)
    """

    rank: int = 0
    world: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "rank", whole(self.rank, "rank", least=-1)
        )  # frozen: this is the one place that may set
        object.__setattr__(self, "world", whole(self.world, "world", least=0))
        if self.world < 1:
            raise ValueError(f"world must be at least 1, got {self.world}")
        if not 0 <= self.rank < self.world:
            raise ValueError(f"rank must be in [0, {self.world}), got {self.rank}")
