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

Which rank a process is, as the framework it runs under says.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from headrace._optional import require
from headrace.contracts.records import Shard
from headrace.loading.handover import To

__all__ = ["BatchRun", "Cursor", "RoundPlan", "default_shard", "part_bounds"]


class Cursor(NamedTuple):
    """How far a run of all ranks has come: the whole state of a loader."""

    epoch: int
    position: int


class BatchRun(NamedTuple):
    """Batches of one rank in consecutive rounds of one epoch.

    Plain numbers for many batches at once, because a batch may be made in a few microseconds.
    """

    epoch: int
    number: int
    """The number of the first batch in its epoch, had the whole epoch been read in rounds of this size."""
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

    def after(self, count: int) -> Cursor:
        """Where all ranks stand after ``count`` of these rounds."""
        if self.is_last and count == self.batches:
            return Cursor(self.epoch + 1, 0)
        return Cursor(self.epoch, self.start + count * self.step)

    def positions(self, number: int) -> tuple[int, int]:
        """The positions of batch ``number`` of these: from, up to."""
        begin = self.begin + number * self.step
        return begin, begin + self.size

    def only(self, number: int) -> BatchRun:
        """The run of batch ``number`` alone."""
        ahead = number * self.step
        is_last = self.is_last and number == self.batches - 1
        start = self.start + ahead
        return self._replace(
            number=self.number + number, start=start, begin=self.begin + ahead, batches=1, is_last=is_last
        )


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """How the rest of an epoch is cut into rounds.

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

    def rounds_left(self, position: int, n: int) -> int:
        """How many rounds are left from ``position`` to the end of an epoch of ``n``."""
        full, odd = self._rounds(position, n)
        return full + (odd > 0)

    def runs(self, cursor: Cursor, n: int, rank: int, batches: Callable[[], int]) -> Iterator[BatchRun]:
        """The batches of ``rank`` from ``cursor`` to the end of its epoch of ``n``.

        Args:
            cursor: Where to begin.
            n: Positions in an epoch.
            rank: The rank.
            batches: How many batches to put into a run, asked before each.
        """
        epoch, start = cursor
        size, step = self.batch_size, self.round_size
        full, odd = self._rounds(start, n)
        while full:
            count = min(batches(), full)
            full -= count
            yield BatchRun(epoch, start // step, start, step, start + rank * size, size, count, full == 0 and odd == 0)
            start += count * step
        if odd:
            begin, end = part_bounds(odd, rank, self.world)
            yield BatchRun(epoch, start // step, start, odd, start + begin, end - begin, 1, is_last=True)

    def _rounds(self, position: int, n: int) -> tuple[int, int]:
        """How many full rounds are left, and how many positions are in the odd one after them (0: there is none)."""
        full, rest = divmod(n - position, self.round_size)
        if self.drop_last or rest == 0:
            return full, 0
        if full and rest < self.world:
            return full - 1, rest + self.round_size
        return full, rest


def part_bounds(size: int, rank: int, world: int) -> tuple[int, int]:
    """Part ``rank`` of ``[0, size)`` in ``world`` consecutive parts, the first ones longer by one where it must be.

    >>> [part(7, rank, 3) for rank in range(3)]
    [(0, 3), (3, 5), (5, 7)]
    """
    each, more = divmod(size, world)
    begin = rank * each + min(rank, more)
    return begin, begin + each + (rank < more)


def default_shard(to: To) -> Shard:
    """The shard of this process where none was given: the first of these that says so, whatever batches are handed over as.

    - ``torch.distributed``, once it is initialised.
    - JAX: ``jax.process_index()`` of ``jax.process_count()``, with ``to="jax"`` or after ``jax.distributed.initialize()``. Asking starts
      JAX's backends, so call that before making a loader.
    - ``RANK`` and ``WORLD_SIZE``, which ``torchrun`` and other launchers set.
    - None of them: it is the only one.

    Raises:
        ValueError: the environment names a rank that cannot be.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return Shard(distributed.get_rank(), distributed.get_world_size())
    if to == "jax" or _is_jax_initialised():
        jax = require("jax", extra="jax")
        if jax.process_count() > 1:
            return Shard(jax.process_index(), jax.process_count())
    rank, world = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    if rank is None or world is None:
        return Shard()
    try:
        return Shard(int(rank), int(world))
    except ValueError as error:
        raise ValueError(
            f"RANK={rank!r} and WORLD_SIZE={world!r} are set, and wrong: {error}. shard= overrides them"
        ) from error


def _is_jax_initialised() -> bool:
    """Whether ``jax.distributed`` knows of other processes; JAX is not loaded for that."""
    distributed = sys.modules.get("jax.distributed")
    is_initialised = getattr(distributed, "is_initialized", None)
    return is_initialised is not None and bool(is_initialised())
