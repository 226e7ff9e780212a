"""One pass of a loader."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

from penstock.contracts.protocols import ReadsBatches, Sampler
from penstock.contracts.shard import Shard
from penstock.contracts.values import Batch
from penstock.loading.making import Block, Cursor, Made, Maker, Pace, Slot, Stream, jobs
from penstock.loading.plan import Layout
from penstock.loading.prefetch import Ahead, fork_count
from penstock.loading.report import Times
from penstock.sampling.samplers import MAX_EXAMPLES, InOrder

__all__ = ["Batches", "Progress", "Recipe"]


@dataclass(slots=True)
class Progress:
    """How far the consumer has come; what a loader and its newest iterator share."""

    cursor: Cursor
    running: Times | None = None
    finished: Times | None = None


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that decides what the batches of a run are, and how they are made."""

    source: ReadsBatches
    order: Callable[[], Sampler]
    layout: Layout
    shard: Shard
    transform: Callable[[Batch], Any] | None
    convert: Callable[[Any], Any] | None
    threads: int
    ahead: int
    can_stream: bool
    """Whether the order is the source's own and one rank reads it all."""

    def slots(self, start: Cursor, stop_epoch: int | None) -> Iterator[Slot]:
        """The batches of this rank from ``start`` to the beginning of ``stop_epoch``, for ever if that is ``None``."""
        n, layout, shard = len(self.order()), self.layout, self.shard
        epoch, position = start
        while stop_epoch is None or epoch < stop_epoch:
            for turn in layout.rounds(position, n):
                first, last = turn.part(shard.rank, shard.world)
                after = Cursor(epoch + 1, 0) if turn.is_last else Cursor(epoch, turn.stop)
                yield Slot(epoch, turn.start // layout.round_size, first, last, after)
            epoch, position = epoch + 1, 0

    def blocks(self, start: Cursor, stop_epoch: int | None, pace: Pace) -> tuple[Ahead[Block], int | None]:
        """The blocks from ``start`` on, and the epoch at which they end.

        They end after one epoch where the source streams it, because only then it is known how the source does the next.
        """
        if self.can_stream and start.position == 0 and (stream := self._stream(start.epoch)) is not None:
            # The stream is one after the other by nature: one thread pulls it, and the consumer waits.
            ahead = Ahead(stream.jobs(), threads=min(self.threads, 1), ahead=max(self.ahead, 2), helping=False)
            return ahead, start.epoch + 1
        maker = Maker(self.source, self.order(), self.transform, self.convert)
        made = jobs(self.slots(start, stop_epoch), maker, pace)
        return Ahead(made, threads=self.threads, ahead=self.ahead), stop_epoch

    def _stream(self, epoch: int) -> Stream | None:
        batches = self.source.stream(self.layout.batch_size)  # type: ignore[attr-defined]
        if batches is None:
            return None
        # The number of examples is not known before a stream has ended, so the order is one that goes on as long as it can.
        maker = Maker(self.source, InOrder(MAX_EXAMPLES), self.transform, self.convert)
        return Stream(batches, maker, epoch, self.layout.batch_size, drop_last=self.layout.drop_last)


class Batches(Iterator[Any]):
    """The batches from where a loader stands to the end of its epochs.

    Closed when it is exhausted, fails or is let go of; ``close()`` does it at once and waits for the threads.
    """

    def __init__(self, recipe: Recipe, progress: Progress, stop_epoch: int | None) -> None:
        self._recipe = recipe
        self._progress = progress
        self._stop_epoch = stop_epoch
        self._fetched = progress.cursor
        self._ready: list[Made] = []
        self._error: Exception | None = None
        self._blocks: Ahead[Block] | None = None
        self._blocks_end: int | None = None
        self._pace = Pace(can_grow=recipe.threads > 0 and bool(getattr(recipe.source, "cuts_cleanly", False)))
        self._forks = fork_count()
        self._is_open = True

    def __iter__(self) -> Batches:
        return self

    def __next__(self) -> Any:
        if not self._is_open:
            raise StopIteration
        entered = perf_counter_ns()
        progress = self._progress
        try:
            while not self._ready:
                self._fetch(entered)
        except StopIteration:
            self.close()
            if self._stop_epoch is not None:
                progress.cursor = Cursor(self._stop_epoch, 0)
            raise
        except BaseException:
            self.close()
            raise
        batch, slot = self._ready.pop()
        progress.cursor = slot.after
        self._book(slot, entered)
        return batch

    def _fetch(self, entered: int) -> None:
        """Get the next block's batches ready, or raise what stands in place of the next batch."""
        if self._error is not None:
            error, self._error = self._error, None
            try:
                raise error
            finally:
                del error  # Its traceback leads back here: without this, a cycle would keep the batches alive.
        block, helped_ns = self._next_block()
        if block.made:
            self._fetched = block.made[-1].slot.after
            self._pace.note(block)
        if block.made or block.error is not None:
            self._times(block, entered).add(block, helped_ns)
        self._ready = block.made[::-1]
        self._error = block.error

    def _next_block(self) -> tuple[Block, int]:
        """The next block, and how long the consumer worked on blocks itself meanwhile."""
        if self._forks != fork_count():
            # The threads and the locks of the parent are of no use here: go on from what was fetched, with new ones.
            self._blocks, self._forks = None, fork_count()
        while True:
            if self._blocks is None:
                if self._fetched.epoch == self._stop_epoch:
                    raise StopIteration
                self._blocks, self._blocks_end = self._recipe.blocks(self._fetched, self._stop_epoch, self._pace)
            helped_before = self._blocks.helped_ns
            try:
                block = next(self._blocks)
            except StopIteration:
                self._blocks.close()
                self._blocks = None
                assert self._blocks_end is not None
                self._fetched = Cursor(self._blocks_end, 0)
            else:
                return block, self._blocks.helped_ns - helped_before

    def _times(self, block: Block, entered: int) -> Times:
        """The books of a block's epoch, opened with the first block."""
        epoch = block.made[0].slot.epoch if block.made else self._fetched.epoch
        times = self._progress.running
        if times is None or times.epoch != epoch or times.ended_ns:
            times = self._progress.running = Times(epoch, entered)
        return times

    def _book(self, slot: Slot, entered: int) -> None:
        """Book the time since ``entered`` as waiting; close the books of an epoch with its last batch."""
        times = self._progress.running
        assert times is not None
        left = perf_counter_ns()
        times.waiting_ns += left - entered
        if slot.after.epoch != slot.epoch:
            times.ended_ns = left
            self._progress.finished = times

    def close(self) -> None:
        """Stop reading and wait for the threads to end."""
        self._is_open = False
        self._ready = []
        if self._blocks is not None and self._forks == fork_count():
            self._blocks.close()
        self._blocks = None
