"""One pass of a loader: its plan and its progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, cast

from headrace.contracts.protocols import CutsCleanly, KnowsSizes, ReadsBatches, Sampler, SizeEstimate, Streams, defines
from headrace.contracts.records import Shard
from headrace.contracts.values import Batch, bytes_of
from headrace.io.threads import FORKS
from headrace.loading.jobs import BatchMaker, Block, OpenRun, check_rows, count_rows, raisable
from headrace.loading.prefetch import OneThread, Prefetcher
from headrace.loading.report import Times
from headrace.loading.rounds import BatchRun, Cursor, JobMemory, JobSizer, RoundPlan
from headrace.loading.thread_choice import ThreadChoice
from headrace.loading.workers.pool import StartMethod
from headrace.sampling.samplers import MAX_EXAMPLES, InOrder

if TYPE_CHECKING:
    from headrace.loading.workers.processes import WorkerPrefetcher

__all__ = ["Batches", "LoaderPosition", "RunPlan"]


class LoaderPosition:
    """The consumer's progress. A loader shares it with its newest iterator.

    Args:
        start: The first position.
        finished: The times of the last finished epoch.
    """

    __slots__ = ("_start", "finished", "given", "is_open", "run", "running")

    def __init__(self, start: Cursor, finished: Times | None = None) -> None:
        self._start = start
        self.run: BatchRun | None = None
        self.is_open: bool = False
        """Whether the iterator is in use."""
        self.given: int = 0
        """Batches of ``run`` that the consumer has received."""
        self.running: Times | None = None
        self.finished: Times | None = finished

    @property
    def cursor(self) -> Cursor:
        """The cursor of the next batch."""
        return self._start if self.run is None else self.run.after(self.given)

    def move(self, cursor: Cursor) -> None:
        """Go to ``cursor``."""
        self._start, self.run = cursor, None


@dataclass(frozen=True, slots=True)
class RunPlan:
    """The settings of a pass: which batches, and how they are made."""

    source: ReadsBatches
    order: Callable[[], Sampler]
    layout: RoundPlan
    shard: Shard
    transform: Callable[[Batch], Any] | None
    convert: Callable[[Any], Any] | None
    arrive: Callable[[Any], Any] | None
    to_device: bool
    threads: int
    workers: int
    start_method: StartMethod | None
    ahead: int
    least_ahead: int  # where jobs are large
    can_stream: bool
    """Whether a single rank reads in the source's own order."""
    seed: int | None
    """The seed of the random numbers that the source draws; ``None`` if it draws none."""
    choice: ThreadChoice | None
    """Whether to use the threads, claimed for this pass; ``None``: always."""
    memory: JobMemory
    """Of the passes before."""

    def pace(self) -> JobSizer:
        """A sizer for the jobs of one pass."""
        cuts_cleanly = defines(self.source, CutsCleanly) and self.source.cuts_cleanly
        return JobSizer(can_grow=cuts_cleanly, memory=self.memory)

    def runs(self, start: Cursor, stop_epoch: int | None, pace: JobSizer) -> Iterator[BatchRun]:
        """This rank's batches from ``start`` to the beginning of ``stop_epoch``, or forever if that is ``None``.

        Epochs without a batch end at once instead of repeating forever.
        """

        def batches(position: int) -> int:
            by_threads = self.threads and self.ahead and (self.choice is None or self.choice.uses_threads)
            return pace.plan(position, self.layout.round_size, passed=bool(self.workers or by_threads))

        order = self.order()
        if type(order) is InOrder and defines(self.source, KnowsSizes):
            pace.sizes = SizeEstimate(self.source.stored_bytes)
        n = len(order)
        while stop_epoch is None or start.epoch < stop_epoch:
            yield from self.layout.runs(start, n, self.shard.rank, batches)
            if stop_epoch is None and self.layout.rounds_left(0, n) == 0:
                return
            start = Cursor(start.epoch + 1, 0)

    def _prefetcher(self, runs: Iterator[BatchRun], pace: JobSizer) -> Prefetcher[Block]:
        maker = BatchMaker(self.source, self.order(), self.transform, self.convert, self.seed)
        jobs = (partial(maker.make, run) for run in runs)
        return Prefetcher(
            jobs,
            threads=self.threads,
            ahead=partial(pace.limit_ahead, self.ahead, self.least_ahead) if self.ahead else 0,
            choice=self.choice,
            inline=lambda job: job() if pace.cuts else maker.begin(job.args[0]),
        )

    def _processes(self, runs: Iterator[BatchRun]) -> WorkerPrefetcher:
        """Workers that make NumPy batches, which are converted in this process."""
        from headrace.loading.workers.processes import WorkerPrefetcher

        order = self.order()
        return WorkerPrefetcher(
            runs,
            maker=BatchMaker(self.source, order, self.transform, None, self.seed),
            finish=BatchMaker(self.source, order, None, self.convert).finish,
            workers=self.workers,
            ahead=self.ahead,
            method=self.start_method,
            early=self.to_device,
        )

    def blocks(
        self, start: Cursor, stop_epoch: int | None, pace: JobSizer
    ) -> tuple[Prefetcher[Block] | WorkerPrefetcher, int | None]:
        """The blocks from ``start`` on, and the epoch before which they end.

        A streamed epoch is one pass of blocks, because the source then decides how to read the next one.
        """
        if self.workers:
            return self._processes(self.runs(start, stop_epoch, pace)), stop_epoch
        if self.can_stream and start.position == 0 and (stream := self._stream(start.epoch)) is not None:
            # A stream is sequential: one thread reads it, and the consumer waits.
            threads, ahead = min(self.threads, 1), max(self.ahead, 2)
            jobs = Prefetcher(stream.jobs(), threads=threads, ahead=ahead, helping=False, choice=self.choice)
            return jobs, start.epoch + 1
        return self._prefetcher(self.runs(start, stop_epoch, pace), pace), stop_epoch

    def _stream(self, epoch: int) -> EpochStream | None:
        batches = cast("Streams", self.source).stream(self.layout.batch_size)
        if batches is None:
            return None
        # The number of examples is unknown before a stream ends, so the order has no end.
        maker = BatchMaker(self.source, InOrder(MAX_EXAMPLES), self.transform, self.convert)
        return EpochStream(batches, maker, epoch, self.layout.batch_size, drop_last=self.layout.drop_last)


class Batches(Iterator[Any]):
    """The batches from the position of a loader to the end of its epochs.

    It closes when it is exhausted, fails or is garbage-collected. ``close()`` closes it at once and waits for threads or processes.
    """

    def __init__(self, recipe: RunPlan, progress: LoaderPosition, stop_epoch: int | None) -> None:
        self._recipe, self._choice = recipe, recipe.choice
        self._progress = progress
        progress.is_open = True
        self._stop_epoch = stop_epoch
        self._fetched = progress.cursor
        self._ready: list[Any] = []
        self._rest: OpenRun | None = None
        """Makes the batches after those that are ready, up to the end of their block."""
        self._error: Exception | None = None
        self._blocks: Prefetcher[Block] | WorkerPrefetcher | None = None
        self._blocks_end: int | None = None
        self._pace = recipe.pace()
        self._requested_ns = 0
        """When the consumer requested the block that it is using; 0 before the first."""
        self._used = 0
        """Examples in that block."""
        self._read_ns = 0
        """How long reading one of its batches took."""
        self._by_threads = False
        """Whether it was given to threads."""
        self._forks = FORKS.count
        self._is_open = True
        self._one_thread = OneThread()

    def __iter__(self) -> Batches:
        return self

    def __repr__(self) -> str:
        return f"<Batches of {self._recipe.source!r}, epoch {self._progress.cursor.epoch}, position {self._progress.cursor.position}>"

    def __next__(self) -> Any:
        try:
            batch = self._ready.pop() if self._ready else self._make_next()
            if self._recipe.arrive is not None:
                batch = self._recipe.arrive(batch)
        except BaseException:
            # Ctrl-C may have lost a batch. It is not counted, so the loader's next iterator makes it again.
            self.close()
            raise
        self._progress.given += 1  # No call from here on, after which a signal could strike.
        return batch

    def _make_next(self) -> Any:
        if (rest := self._rest) is None:
            with self._one_thread:
                self._fetch()
                return self._ready.pop()
        try:
            batch = rest.make()
        except StopIteration as error:
            raise raisable(error) from error
        if not rest.left:
            self._settle()
        return batch

    def _fetch(self) -> None:
        """Fetch the next batches, or raise the error in place of the next one."""
        entered = perf_counter_ns()
        self._end_epoch(entered)
        if self._requested_ns:
            self._note(entered - self._requested_ns, self._used)
        elif self._choice is not None:
            self._choice.begin()
        try:
            while not self._ready:
                self._fetch_block(entered)
        except BaseException:
            self.close()
            self._note(perf_counter_ns() - entered, 0)  # Ending threads is part of their cost.
            self._release_choice()
            raise
        self._requested_ns = entered
        times = self._progress.running
        assert times is not None
        times.waiting_ns += perf_counter_ns() - entered

    def _settle(self) -> None:
        """Count the batches that were made one by one."""
        rest, self._rest = self._rest, None
        if self._progress.running is not None:
            self._progress.running.settle()
        if rest is not None:
            self._pace.note_singles(rest.settled, rest.settled_ns)

    def _note(self, spent_ns: int, examples: int) -> None:
        """Note the cost of the block that the consumer has used up, or more time that it cost."""
        if self._choice is not None and self._requested_ns:
            self._choice.note(spent_ns, examples, by_threads=self._by_threads, read_ns=self._read_ns)

    def _release_choice(self) -> None:
        choice, self._choice = self._choice, None
        if choice is not None:
            choice.release()

    def __del__(self) -> None:
        if hasattr(self, "_progress"):
            self._progress.is_open = False
            self._release_choice()

    def _fetch_block(self, entered: int) -> None:
        if not self._is_open:
            raise StopIteration
        if self._error is not None:
            error, self._error = self._error, None
            try:
                raise raisable(error)
            finally:
                del error  # Its traceback refers to this frame, and the cycle would keep the batches alive.
        block, helped_ns = self._next_block()
        if block.batches:
            self._pace.note(block, passed=self._by_threads)
            self._times(block.run.epoch, entered).add(block, helped_ns)
            made = len(block.batches) if block.rest is None else block.run.batches
            self._fetched = block.run.after(made)
            self._progress.run, self._progress.given = block.run, 0
            self._used = block.run.size * made
            self._read_ns = block.reading_ns // len(block.batches)
        self._rest, self._error = block.rest, block.error
        self._ready = block.batches[::-1]

    def _next_block(self) -> tuple[Block, int]:
        """The next block, and how long the consumer itself made batches meanwhile."""
        if self._forks != FORKS.count:  # The parent's threads and locks are unusable here: go on with new ones.
            self._blocks, self._forks = None, FORKS.count
        while True:
            if self._blocks is None:
                if self._fetched.epoch == self._stop_epoch:
                    self._progress.move(self._fetched)
                    raise StopIteration
                self._blocks, self._blocks_end = self._recipe.blocks(self._fetched, self._stop_epoch, self._pace)
            helped_before = (blocks := self._blocks).helped_ns
            try:
                block = next(blocks)
            except StopIteration:
                blocks.close()
                self._blocks = None
                if self._blocks_end is None or (self._stop_epoch is None and self._fetched.epoch < self._blocks_end):
                    raise self._endless() from None
                self._fetched = Cursor(self._blocks_end, 0)
            else:
                self._by_threads = isinstance(blocks, Prefetcher) and blocks.by_threads
                return block, blocks.helped_ns - helped_before

    def _endless(self) -> ValueError:
        layout = self._recipe.layout
        return ValueError(f"epochs=None would never end: there is no batch of {layout.round_size} examples in an epoch")

    def _times(self, epoch: int, entered: int) -> Times:
        """The times of an epoch, started with its first block."""
        if self._progress.running is None:
            self._progress.running = Times(epoch, entered)
        return self._progress.running

    def _end_epoch(self, now: int) -> None:
        """Finish the times of an epoch once the consumer is done with its last batch."""
        progress = self._progress
        if progress.running is not None and progress.cursor.epoch != progress.running.epoch:
            progress.running.ended_ns = now
            progress.finished, progress.running = progress.running, None

    def close(self) -> None:
        """Stop reading and wait for the threads or processes to end."""
        self._is_open = self._progress.is_open = False
        self._ready = []
        self._settle()
        if self._blocks is not None and self._forks == FORKS.count:
            self._blocks.close()
        self._blocks = None


class EpochStream:
    """Batches that a source streams in order, for one epoch. Read by one thread at a time.

    Args:
        batches: The source's batches; all but the last have ``batch_size`` examples.
        maker: Finishes them.
        epoch: Their epoch.
        batch_size: Examples per batch.
        drop_last: Omit a last batch with fewer examples.
    """

    def __init__(
        self, batches: Iterator[Batch], maker: BatchMaker, epoch: int, batch_size: int, *, drop_last: bool
    ) -> None:
        self.ended: bool = False
        self._maker = maker
        self._epoch = epoch
        self._batch_size = batch_size
        # Reads one batch ahead, because the position after the last batch is the start of the next epoch.
        full = (batch for batch in batches if count_rows(batch) == batch_size) if drop_last else batches
        self._batches = _with_last(full)
        self._position = 0

    def jobs(self) -> Iterator[Callable[[], Block]]:
        """One job per batch, until a job reaches the end. Later jobs make nothing."""
        while not self.ended:
            yield self.pull

    def pull(self) -> Block:
        """The next batch; none after the end."""
        begun = perf_counter_ns()
        try:
            batch, is_last = next(self._batches, (None, True))
            if batch is not None and not is_last:
                check_rows(batch, self._batch_size)
        except Exception as error:  # noqa: BLE001 - raised in the consumer, in order
            self.ended = True
            return Block(self._run(0, is_last=False), [], error, reading_ns=perf_counter_ns() - begun)
        self.ended = self.ended or is_last
        if batch is None:
            return Block(self._run(0, is_last=False), [])
        block = Block(self._run(count_rows(batch), is_last=is_last), [batch], bytes=bytes_of(batch))
        block.reading_ns = perf_counter_ns() - begun
        return self._maker.finish(block)

    def _run(self, rows: int, *, is_last: bool) -> BatchRun:
        start, self._position = self._position, self._position + rows
        return BatchRun(self._epoch, start // self._batch_size, start, rows, start, rows, 1, is_last)


def _with_last(batches: Iterator[Batch]) -> Iterator[tuple[Batch, bool]]:
    """Every batch, and whether it is the last. A failure is raised after the batch before it."""
    held = next(batches, None)
    while held is not None:
        failure: Exception | None = None
        try:
            following = next(batches, None)
        except Exception as error:  # noqa: BLE001 - raised below
            failure, following = error, None
        yield held, following is None and failure is None
        if failure is not None:
            raise failure
        held = following
