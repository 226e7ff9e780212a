"""Which positions each rank reads, and how many batches of them one job makes.

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

A :class:`JobSizer` finds how many batches a job is worth, from the durations of earlier jobs, and a :class:`CutChoice` whether they are cut from
a larger one. A :class:`Segment` is what some jobs cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from headrace.contracts.protocols import SizeEstimate
from headrace.contracts.values import Indices

__all__ = ["BatchRun", "Cursor", "CutChoice", "JobMemory", "JobSizer", "RoundPlan", "Segment", "part_bounds"]


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


PASSED_NS = 4_000_000
"""The target duration of a job for another thread or process. Threads that pass jobs of 1 ms wait for the interpreter lock and for each other
so often that an epoch may take longer than without threads, and the waiting makes jobs seem long, and so even shorter."""
INLINE_NS = 1_000_000
"""The target duration of a job that the consumer makes itself, if all of its batches are cut from a larger one."""
SINGLES_NS = 2_000_000
"""The same if it makes them one by one: each job costs 50 us beside its batches."""
MAX_BLOCK_BYTES = 4 << 20
"""The most bytes in a job of several batches. With half of it, threads pass so many jobs of large batches that they wait for each other; with twice
as much, batches leave the cache before the consumer uses them."""
AHEAD_BYTES = 16 << 20
"""The most bytes that each thread makes in advance, but at least one job: the first epoch meets as much new memory, which costs
up to 2 ms a megabyte in a virtual machine that has returned it to its host. Later epochs take as long with 1 job ahead as with 2 (2026-11-29)."""
MOST_EXPECTED_BYTES = 4 * MAX_BLOCK_BYTES
"""The most bytes that a job may be expected to have, if its rows are larger than those of the jobs before."""
MAX_BATCHES = 256
INLINE_BLOCK_BYTES = 1 << 20
"""The most bytes in a job that the consumer makes itself: a larger block would leave the core's own cache before it is used."""
LEAST_CUT = 4
"""The consumer cuts its batches from a larger one only if at least this many fit into it (as a first guess twice as many if they take less than a
nanosecond for ``COPIED_PER_NS`` bytes), and two take no longer than ``INLINE_NS``."""
COPIED_PER_NS = 6
LEAST_TRIED_BYTES = 8 << 10
"""Batches from this size on are made both ways now and then. Making 30 to 130 KB in a call of its own takes 0.6 to 0.9 of the time if they are only
copied, because the memory of the batch before is still in the core's own cache; it takes 1.1 to 2.3 times as long if a call costs more than that."""
FIRST_PAUSE, MOST_PAUSE = 6, 192
"""The jobs before the first trial, and the most between two."""
BETTER = 0.95
"""The share of the time that the other way may take at most: a trial is one job."""
WINS = 2  # trials in a row that change the choice


@dataclass(slots=True)
class CutChoice:
    """Whether the consumer cuts its batches from a larger one, or makes them one by one: found by trying both."""

    cuts: bool | None = None
    """The choice; ``None``: the guess holds."""
    is_trial: bool = False
    """Whether the next job is made the other way."""
    _cost: float = 0.0  # nanoseconds for a batch made as chosen
    _jobs: int = 0  # since the last trial
    _pause: int = FIRST_PAUSE
    _wins: int = 0

    def next_way(self, guess: bool) -> bool:  # noqa: FBT001 - one of two ways
        """Whether the next job should cut its batches."""
        chosen = guess if self.cuts is None else self.cuts
        return chosen is not self.is_trial

    def note(self, batch_ns: float, guess: bool) -> None:  # noqa: FBT001 - one of two ways
        """Take a job into account that was made as :meth:`next_way` said.

        Args:
            batch_ns: Nanoseconds for each of its batches.
            guess: The way that was guessed.
        """
        if not self.is_trial:
            self._cost = (self._cost + batch_ns) / 2 if self._cost else batch_ns
            self._jobs += 1
            self.is_trial = self._jobs >= self._pause
            return
        self.is_trial, self._jobs = False, 0
        if batch_ns >= BETTER * self._cost:
            self._wins, self._pause = 0, min(2 * max(self._pause, FIRST_PAUSE), MOST_PAUSE)
            return
        self._wins, self._pause = self._wins + 1, 1
        if self._wins == WINS:
            chosen = guess if self.cuts is None else self.cuts
            self.cuts, self._cost, self._wins, self._pause = not chosen, batch_ns, 0, FIRST_PAUSE


@dataclass(slots=True)
class JobMemory:
    """What one pass of a loader knows of the one before: what its :class:`JobSizer` had found at its end."""

    batches: int = 1
    inline_batches: int = 1
    batch_ns: float = 0.0
    ways: CutChoice = field(default_factory=CutChoice)


class Segment:
    """The cost of consecutive jobs made in one way."""

    __slots__ = ("clocked_ns", "cpu_ns", "examples", "jobs", "ns")

    def __init__(self) -> None:
        self.ns = self.cpu_ns = 0
        self.clocked_ns: int = 0  # the part of ``ns`` whose processor time is known
        self.examples = self.jobs = 0

    @property
    def cost(self) -> float:
        """Nanoseconds for each example."""
        return max(self.ns, 1) / max(self.examples, 1)

    @property
    def effort(self) -> float | None:
        """Nanoseconds of all processors for each example, if they are known."""
        return self.cost * self.cpu_ns / self.clocked_ns if self.clocked_ns else None


class MadeJob(Protocol):
    """What a finished job made, and how long that took."""

    run: BatchRun
    batches: list[Any]
    bytes: int
    reading_ns: int
    transform_ns: int
    handover_ns: int


class JobSizer:
    """Finds how many batches to make in one job, from the durations of earlier jobs.

    Args:
        can_grow: Whether a job may make several batches by cutting a larger one.
        memory: Of the pass before, kept up to date. This pass begins with one batch, too, because its rows may be a thousand times as large:
            those of other files, or of a file that is sorted by size. Then it goes on with up to half as many as that one.
    """

    def __init__(self, *, can_grow: bool, memory: JobMemory | None = None) -> None:
        self._can_grow = can_grow
        self._memory = memory = JobMemory() if memory is None else memory
        self.batches: int = 1
        self.inline_batches: int = 1
        """The same for a job that the consumer makes itself."""
        self.cuts: bool = can_grow
        """Whether such a job should cut its batches from a larger one."""
        self.sizes: SizeEstimate | None = None
        """Of the examples at each position, where that is known: so that a job is not too large if its rows are far larger than those before."""
        self._batch_bytes = 0.0  # in the latest job
        self._half, self._inline_half = memory.batches // 2, memory.inline_batches // 2
        self._batch_ns = memory.batch_ns

    def note(self, block: MadeJob, *, passed: bool = False) -> None:
        """Take a finished job into account.

        Args:
            block: What it made: all batches of its run, or only the first if the others are made one by one.
            passed: Whether another thread or process made it.
        """
        if not (count := len(block.batches)):
            return
        spent = (block.reading_ns + block.transform_ns + block.handover_ns) / count
        # Averaged, because the first jobs open files and fault pages in, and are not typical.
        self._batch_ns = (self._batch_ns + spent) / 2 if self._batch_ns else spent
        batch_bytes = max(block.bytes / count, 1.0)
        self._batch_bytes = batch_bytes
        if self._can_grow:
            self.batches = self._within(PASSED_NS, MAX_BLOCK_BYTES / batch_bytes, max(2 * self.batches, self._half))
            if count == block.run.batches:
                self._choose_way(batch_bytes, spent if count > 1 and not passed else 0.0)
        self._size_inline(batch_bytes)
        if self.sizes is not None:
            run = block.run
            self.sizes.note(run.start, run.start + count * run.step, block.bytes)
        memory = self._memory
        memory.batches, memory.inline_batches, memory.batch_ns = self.batches, self.inline_batches, self._batch_ns

    def note_singles(self, batches: int, spent_ns: int) -> None:
        """Take batches into account that the consumer has made one by one."""
        if self._can_grow and batches > 1 and spent_ns:
            self._choose_way(self._batch_bytes, spent_ns / batches)
            self._size_inline(self._batch_bytes)

    def _size_inline(self, batch_bytes: float) -> None:
        # Of batches made one by one none waits for another one, however many there are.
        target_ns, by_size = (INLINE_NS, INLINE_BLOCK_BYTES / batch_bytes) if self.cuts else (SINGLES_NS, MAX_BATCHES)
        self.inline_batches = self._within(target_ns, by_size, max(2 * self.inline_batches, self._inline_half))

    def _choose_way(self, batch_bytes: float, batch_ns: float) -> None:
        """Choose how the consumer makes its next batches, after a job that took ``batch_ns`` for each; 0: not known, or not by the consumer."""
        self._batch_bytes = batch_bytes
        least = 2 * LEAST_CUT if batch_bytes > COPIED_PER_NS * self._batch_ns else LEAST_CUT
        guess = least * batch_bytes <= INLINE_BLOCK_BYTES and 2 * self._batch_ns <= INLINE_NS
        can_cut = LEAST_CUT * batch_bytes <= INLINE_BLOCK_BYTES and 2 * self._batch_ns <= INLINE_NS
        if not can_cut or batch_bytes < LEAST_TRIED_BYTES:
            self.cuts = guess
            return
        ways = self._memory.ways
        if batch_ns:
            ways.note(batch_ns, guess)
        self.cuts = ways.next_way(guess)

    def plan(self, start: int, step: int, *, passed: bool) -> int:
        """The number of batches of the next job.

        Args:
            start: The position of the first round.
            step: Positions in a round.
            passed: Whether the job goes to another thread or process.
        """
        count = self.batches if passed else self.inline_batches
        if self.sizes is None or not (passed or self.cuts):
            return count
        return self.sizes.fitting(start, step, count, MOST_EXPECTED_BYTES)

    def limit_ahead(self, most: int, least: int) -> int:
        """The number of jobs to start in advance: ``most``, or as many as :data:`AHEAD_BYTES` allow for each of ``least`` threads, but one for each."""
        return max(least, min(most, int(AHEAD_BYTES * least // max(self._batch_bytes * self.batches, 1.0))))

    def _within(self, target_ns: int, by_size: float, most: int) -> int:
        by_time = round(target_ns / max(self._batch_ns, 1.0))
        return max(1, min(by_time, int(by_size), most, MAX_BATCHES))
