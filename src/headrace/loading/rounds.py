"""Which positions each rank reads.

A :class:`RoundPlan` cuts the rest of an epoch into rounds. In each round rank ``r`` of ``world`` reads the ``r``-th block of ``batch_size``
positions. A :class:`BatchRun` holds consecutive batches of one rank.

The position that all ranks together have reached is the whole state of an epoch. The rest is planned from that number alone, so a run may
stop and resume with another world, batch size or number of threads: no position is lost or read twice.

At the end of an epoch too few positions may remain for a full round:

- They are divided among the ranks as evenly as possible, in order. The first ranks get one more if the division leaves a rest.
- If fewer than ``world`` remain, they join the round before, so that no rank is left without a batch. The last batch of the first ranks
  then holds ``batch_size + 1``. If there is no round before (the epoch, or what is left of it on resume, is smaller than ``world``), the
  last ranks get an empty batch.
- ``drop_last`` omits all of them.

So every rank always gets the same number of batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from headrace.contracts.values import Indices

__all__ = ["BatchRun", "Cursor", "RoundPlan", "part_bounds"]


class Cursor(NamedTuple):
    """The position that all ranks have reached: the whole state of a loader."""

    epoch: int
    position: int


class BatchRun(NamedTuple):
    """Batches of one rank in consecutive rounds of one epoch, as plain numbers, because a batch may take only microseconds."""

    epoch: int
    number: int
    """The number of the first batch in its epoch, counted in rounds of this size."""
    start: int
    """The position at which the first of the rounds starts."""
    step: int
    """Positions in one round, of all ranks."""
    begin: int
    """The position of this rank's first example."""
    size: int
    """Examples in each batch."""
    batches: int
    """How many batches."""
    is_last: bool
    """Whether the epoch ends with the last of them."""

    @property
    def is_adjacent(self) -> bool:
        """Whether the batches hold adjacent positions: those from ``begin`` up to :attr:`stop`."""
        return self.step == self.size or self.batches == 1

    @property
    def stop(self) -> int:
        """The position after the last one, if they are adjacent."""
        return self.begin + self.batches * self.size

    def every_position(self) -> Indices:
        """The positions of all examples in their epoch."""
        starts = self.begin + self.step * np.arange(self.batches, dtype=np.int64)
        return (starts[:, None] + np.arange(self.size, dtype=np.int64)).reshape(-1)

    def after(self, count: int) -> Cursor:
        """The cursor after ``count`` of these rounds."""
        if self.is_last and count == self.batches:
            return Cursor(self.epoch + 1, 0)
        return Cursor(self.epoch, self.start + count * self.step)

    def positions(self, number: int) -> tuple[int, int]:
        """The first position of batch ``number``, and the one after its last."""
        begin = self.begin + number * self.step
        return begin, begin + self.size

    def only(self, number: int) -> BatchRun:
        """The run that holds only batch ``number``."""
        ahead = number * self.step
        is_last = self.is_last and number == self.batches - 1
        start = self.start + ahead
        return self._replace(
            number=self.number + number, start=start, begin=self.begin + ahead, batches=1, is_last=is_last
        )


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """Cuts the rest of an epoch into rounds.

    Args:
        world: How many ranks read together.
        batch_size: Examples in a batch of one rank.
        drop_last: Omit an incomplete last round.
    """

    world: int
    batch_size: int
    drop_last: bool = False

    @property
    def round_size(self) -> int:
        """Positions in a full round."""
        return self.world * self.batch_size

    def rounds_left(self, position: int, n: int) -> int:
        """The number of rounds from ``position`` to the end of an epoch of ``n``."""
        full, odd = self._rounds(position, n)
        return full + (odd > 0)

    def runs(self, cursor: Cursor, n: int, rank: int, batches: Callable[[int], int]) -> Iterator[BatchRun]:
        """The batches of ``rank`` from ``cursor`` to the end of its epoch of ``n``.

        Args:
            cursor: Where to begin.
            n: Positions in an epoch.
            rank: The rank.
            batches: Returns the number of batches of the run that starts at a position.
        """
        epoch, start = cursor
        size, step = self.batch_size, self.round_size
        full, odd = self._rounds(start, n)
        while full:
            count = min(batches(start), full)
            full -= count
            yield BatchRun(epoch, start // step, start, step, start + rank * size, size, count, full == 0 and odd == 0)
            start += count * step
        if odd:
            begin, end = part_bounds(odd, rank, self.world)
            yield BatchRun(epoch, start // step, start, odd, start + begin, end - begin, 1, is_last=True)

    def _rounds(self, position: int, n: int) -> tuple[int, int]:
        """The number of full rounds left, and the positions in the incomplete one after them (0: none)."""
        full, rest = divmod(n - position, self.round_size)
        if self.drop_last or rest == 0:
            return full, 0
        if full and rest < self.world:
            return full - 1, rest + self.round_size
        return full, rest


def part_bounds(size: int, rank: int, world: int) -> tuple[int, int]:
    """Part ``rank`` of ``[0, size)`` in ``world`` consecutive parts. The first parts may be longer by one.

    >>> [part_bounds(7, rank, 3) for rank in range(3)]
    [(0, 3), (3, 5), (5, 7)]
    """
    each, more = divmod(size, world)
    begin = rank * each + min(rank, more)
    return begin, begin + each + (rank < more)
