"""Which positions each rank reads in each round. Integers only.

The state of a run is one number an epoch: the position up to which all ranks together have read. A round takes the next
``world * batch_size`` positions; rank ``r`` reads the ``r``-th block of ``batch_size`` of them. Because the rest of an epoch
is planned from that number alone, a run may stop under one world, batch size and number of threads and go on under others:
no position is lost or read twice.

The end of an epoch, where too few positions remain for a full round:

- They are divided among the ranks as evenly as possible, in order; the first ranks get one more where it does not come out.
- Fewer than ``world`` of them would leave a rank without a batch, so they join the round before: the first ranks' last
  batch then holds ``batch_size + 1``. Only where there is no round before (fewer positions left than ranks, from the start
  of the epoch or from where a run resumed) do the last ranks get a batch of no examples.
- ``drop_last`` leaves all of them out.

So every rank gets the same number of batches, always.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Layout", "Round"]


@dataclass(frozen=True, slots=True)
class Round:
    """Positions ``start`` up to ``stop`` of an epoch, one batch for every rank."""

    start: int
    stop: int
    is_last: bool

    def part(self, rank: int, world: int) -> tuple[int, int]:
        """The positions of one rank: consecutive parts, the first ones longer by one where it does not come out."""
        size, more = divmod(self.stop - self.start, world)
        start = self.start + rank * size + min(rank, more)
        return start, start + size + (rank < more)


@dataclass(frozen=True, slots=True)
class Layout:
    """How an epoch is cut into rounds.

    Args:
        world: How many ranks read together.
        batch_size: Examples in a batch of one rank.
        drop_last: Leave out what does not fill a round.
    """

    world: int
    batch_size: int
    drop_last: bool = False

    @property
    def round_size(self) -> int:
        """Positions in a full round."""
        return self.world * self.batch_size

    def count(self, position: int, n: int) -> int:
        """How many rounds are left from ``position`` to the end of an epoch of ``n``."""
        full, rest = divmod(n - position, self.round_size)
        if self.drop_last or rest == 0:
            return full
        return full + (full == 0 or rest >= self.world)

    def rounds(self, position: int, n: int) -> Iterator[Round]:
        """The rounds from ``position`` to the end of an epoch of ``n``."""
        left = self.count(position, n)
        for number in range(left):
            start = position + number * self.round_size
            is_last = number == left - 1
            stop = n if is_last and not self.drop_last else start + self.round_size
            yield Round(start, stop, is_last)
