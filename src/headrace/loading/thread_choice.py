"""Whether threads should make the batches of a loader, found by trying both ways.

Threads pay if batches are expensive, native and small enough for the caches. They do not pay if passing a batch from one core
to another costs more than making it, if Python code makes the batches and holds the interpreter lock, or if other programs use
the cores. Formats and sizes do not distinguish these cases, but the clock does: the time from one request of the consumer to
the next, for each example, includes all of these costs, and the consumer's own work.

So a loader whose ``threads`` were left out runs a *trial*. Segments of jobs made by threads take turns with segments that the consumer
makes itself, as with ``threads=0``. The faster way is kept, and after a while it is tried again, because the consumer or the machine may
have changed. The order, the contents of the batches and the state never depend on the choice.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any
from weakref import WeakKeyDictionary

from headrace._arguments import whole
from headrace.io.system import usable_cores

__all__ = ["ThreadChoice", "count_threads", "remembered_choice"]

MAX_THREADS = 16
FIRST_NS = 20_000_000
"""The first segment of threads: it also opens files and fills caches, and most loaders go on with threads."""
SEGMENT_NS = {True: 2_000_000, False: 1_000_000}
"""The least duration of a later segment, with threads and without. A trial costs little even where one way is much slower."""
INLINE_JOBS = 2
"""The fewest jobs of a segment without threads."""
ROUNDS = 3
"""Segments of each way in a trial. The fastest of each counts, because other programs only ever make one slower."""
DEAR_ROUNDS, DEAR_NS = 2, 50_000_000
"""Fewer are enough once the consumer has made batches for this long, because chance delays are small beside that."""
CLOSE = 0.85, 1.1
"""Shares of the time between which a trial lasts longer, because chance could decide it. It costs little, as the ways cost nearly the same."""
CLOSE_FACTOR = 3
"""How many times as many segments such a trial has."""
GAIN = 0.97
"""Threads must take at most this share of the time: they also use a core that the consumer may need, and a trial is not exact."""
PATIENCE_NS, MOST_PATIENCE_NS = 500_000_000, 30_000_000_000
"""How long the first choice holds. Each later one holds twice as long, up to the limit."""


class Segment:
    """The cost of consecutive jobs made in one way."""

    __slots__ = ("examples", "jobs", "ns")

    def __init__(self) -> None:
        self.ns: int = 0
        self.examples: int = 0
        self.jobs: int = 0


class ThreadChoice:
    """Chooses between threads and none, from the costs of earlier jobs. Several loops may share one.

    Args:
        ahead: How many jobs threads start in advance. A segment has at least twice as many, so that starting and draining threads
            hardly counts.
    """

    def __init__(self, ahead: int) -> None:
        self.uses_threads: bool = True
        """Whether threads should make the next job."""
        self.is_trying: bool = True
        """Whether a trial is running."""
        self._least_jobs = {True: 2 * ahead, False: INLINE_JOBS}
        self._first_ns = FIRST_NS
        self._patience_ns = PATIENCE_NS
        self._held_ns = 0
        self._inline_ns = 0
        self._segments = {True: Segment(), False: Segment()}
        self._costs: dict[bool, list[float]] = {True: [], False: []}

    def note(self, ns: int, examples: int, *, by_threads: bool) -> None:
        """Take a job into account.

        Args:
            ns: The time from the consumer's request of it to the next request.
            examples: Examples in it; 0 if only time is added to the job before.
            by_threads: Whether it was given to the threads.
        """
        if not self.is_trying:
            self._held_ns += ns
            if self._held_ns >= self._patience_ns:
                self._start_trial()
            return
        segment = self._segments[by_threads]
        segment.ns += ns
        segment.examples += examples
        segment.jobs += examples > 0
        if not by_threads:
            self._inline_ns += ns
        if by_threads != self.uses_threads:
            return  # A job that was given before the last change of ways.
        if self._finish(not by_threads):
            return
        if segment.jobs >= self._least_jobs[by_threads] and segment.ns >= self._least_ns(by_threads):
            self.uses_threads = not by_threads

    def _least_ns(self, by_threads: bool) -> int:  # noqa: FBT001 - it is a key
        return max(SEGMENT_NS[by_threads], self._first_ns if by_threads else 0)

    def _finish(self, by_threads: bool) -> bool:  # noqa: FBT001 - it is a key
        """Close a segment, all of whose jobs have been used. Returns whether it was the last one of the trial."""
        segment = self._segments[by_threads]
        if not segment.examples:
            return False
        self._costs[by_threads].append(segment.ns / segment.examples)
        self._segments[by_threads] = Segment()
        if by_threads:
            self._first_ns = 0
        rounds = min(map(len, self._costs.values()))
        least = DEAR_ROUNDS if self._inline_ns >= DEAR_NS else ROUNDS
        if rounds < least:
            return False
        share = min(self._costs[True]) / min(self._costs[False])
        if rounds < CLOSE_FACTOR * least and CLOSE[0] < share < CLOSE[1]:
            return False
        self.is_trying = False
        self.uses_threads = share <= GAIN
        return True

    def _start_trial(self) -> None:
        self.is_trying = True
        self._held_ns = self._inline_ns = 0
        self._patience_ns = min(2 * self._patience_ns, MOST_PATIENCE_NS)
        self._segments = {True: Segment(), False: Segment()}
        self._costs = {True: [], False: []}


_remembered: WeakKeyDictionary[Any, dict[Hashable, ThreadChoice]] = WeakKeyDictionary()


def count_threads(threads: int | None) -> int:
    """How many threads a loader has: as many as asked for, by default one fewer than there are cores."""
    if threads is None:
        return min(max(usable_cores() - 1, 1), MAX_THREADS)
    return whole(threads, "threads")


def remembered_choice(source: object, settings: Hashable, ahead: int) -> ThreadChoice:
    """The choice for a source under some settings: loaders made later continue with what earlier ones found."""
    try:
        return _remembered.setdefault(source, {}).setdefault((settings, ahead), ThreadChoice(ahead))
    except TypeError:  # a source that cannot be hashed or weakly referenced
        return ThreadChoice(ahead)
