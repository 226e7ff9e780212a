"""How the batches of a run are made.

A job makes one run: the sampler computes its indices, the source reads them, and each batch passes through the user's function and the
conversion (:class:`BatchMaker`). A :class:`Block` holds the result. Small batches are cut from one that the source reads in one call. A
consumer that makes large ones itself gets them one by one (:class:`OpenRun`), so that each takes the memory of the one before, which is still
in the processor's cache. :class:`JobSizer` finds how many batches a job is worth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import perf_counter_ns
from typing import Any, Protocol

import numpy as np

from headrace import _native
from headrace.contracts.protocols import (
    Locates,
    ReadsBatches,
    ReadsChecked,
    ReadsRuns,
    Sampler,
    class_defines,
    defines,
    offers,
)
from headrace.contracts.random_keys import RandomKeys, read_batch
from headrace.contracts.values import Batch, Indices, SizeEstimate, bytes_of_column, cut_batch
from headrace.errors import SchemaMismatch, TransformError, Where
from headrace.loading.rounds import BatchRun
from headrace.sampling.samplers import InOrder

__all__ = ["BatchMaker", "Block", "JobMemory", "JobSizer", "OpenRun", "check_rows"]


def check_rows(batch: Batch, rows: int) -> None:
    """Check that a source returned as many rows as it was asked for.

    Raises:
        SchemaMismatch: A column is shorter or longer.
    """
    for name, column in batch.items():
        found = column.shape[0] if hasattr(column, "shape") else len(column)
        if found != rows:
            raise SchemaMismatch(
                Where(feature=name),
                expected=f"{rows} rows from the source",
                found=str(found),
                hint="This is a bug in the source.",
            )


def _check_and_measure(batch: Batch, rows: int) -> int:
    """:func:`~headrace.contracts.values.bytes_of`, after :func:`check_rows`: in one loop, because for small batches two are noticeable."""
    size = 0
    for name, column in batch.items():
        if type(column) is np.ndarray and column.ndim and len(column) == rows:
            size += column.nbytes
        else:
            check_rows({name: column}, rows)
            size += bytes_of_column(column)
    return size


class Clocks(Protocol):
    """Sums to which each batch adds."""

    bytes: int
    reading_ns: int
    transform_ns: int
    handover_ns: int


PASSED_NS = 4_000_000
"""The target duration of a job for another thread or process. Threads that pass jobs of 1 ms wait for the interpreter lock and for each other
so often that an epoch may take longer than without threads, and the waiting makes jobs seem long, and so even shorter."""
INLINE_NS = 1_000_000
"""The target duration of a job that the consumer makes itself."""
MAX_BLOCK_BYTES = 4 << 20
"""The most bytes in a job of several batches. With half of it, threads pass so many jobs of large batches that they wait for each other; with twice
as much, batches leave the cache before the consumer uses them."""
MOST_EXPECTED_BYTES = 4 * MAX_BLOCK_BYTES
"""The most bytes that a job may be expected to have, if its rows are larger than those of the jobs before."""
MAX_BATCHES = 256
INLINE_BLOCK_BYTES = 1 << 20
"""The most bytes in a job that the consumer makes itself: a larger block would leave the core's own cache before it is used."""
LEAST_CUT = 4
"""The consumer cuts its batches from a larger one only if at least this many fit into it (twice as many if they take less than a nanosecond for
``COPIED_PER_NS`` bytes), and two take no longer than ``INLINE_NS``. A call for each batch of 128 to 256 KB takes up to twice as long (Parquet with
26 columns of text); only batches that are copied about as fast as memory allows gain more (up to an eighth) by staying in the core's own cache."""
COPIED_PER_NS = 6


@dataclass(slots=True)
class Block:
    """The result of a job: the batches of a run in order, up to an error in place of the next one."""

    run: BatchRun
    batches: list[Any]
    error: Exception | None = None
    bytes: int = 0
    reading_ns: int = 0
    transform_ns: int = 0
    handover_ns: int = 0
    carrying_ns: int = 0
    rest: OpenRun | None = None
    """The other batches of the run, if they are made one by one."""

    def add(self, other: Block) -> None:
        """Append the result of another job."""
        self.batches += other.batches
        self.error = other.error
        self.bytes += other.bytes
        self.reading_ns += other.reading_ns
        self.transform_ns += other.transform_ns
        self.handover_ns += other.handover_ns
        self.carrying_ns += other.carrying_ns


@dataclass(slots=True)
class JobMemory:
    """What one pass of a loader knows of the one before: what its :class:`JobSizer` had found at its end."""

    batches: int = 1
    inline_batches: int = 1
    batch_ns: float = 0.0


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
        self._half, self._inline_half = memory.batches // 2, memory.inline_batches // 2
        self._batch_ns = memory.batch_ns

    def note(self, block: Block) -> None:
        """Take a finished job into account."""
        if not (count := len(block.batches)):
            return
        spent = (block.reading_ns + block.transform_ns + block.handover_ns) / count
        # Averaged, because the first jobs open files and fault pages in, and are not typical.
        self._batch_ns = (self._batch_ns + spent) / 2 if self._batch_ns else spent
        batch_bytes = max(block.bytes / count, 1.0)
        if self._can_grow:
            self.batches = self._within(PASSED_NS, MAX_BLOCK_BYTES / batch_bytes, max(2 * self.batches, self._half))
            least = 2 * LEAST_CUT if batch_bytes > COPIED_PER_NS * self._batch_ns else LEAST_CUT
            self.cuts = least * batch_bytes <= INLINE_BLOCK_BYTES and 2 * self._batch_ns <= INLINE_NS
        # Of batches made one by one none waits for another one, however many there are.
        by_size = INLINE_BLOCK_BYTES / batch_bytes if self.cuts else MAX_BATCHES
        self.inline_batches = self._within(INLINE_NS, by_size, max(2 * self.inline_batches, self._inline_half))
        if self.sizes is not None:
            run = block.run
            self.sizes.note(run.start, run.start + count * run.step, block.bytes)
        memory = self._memory
        memory.batches, memory.inline_batches, memory.batch_ns = self.batches, self.inline_batches, self._batch_ns

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

    def _within(self, target_ns: int, by_size: float, most: int) -> int:
        by_time = round(target_ns / max(self._batch_ns, 1.0))
        return max(1, min(by_time, int(by_size), most, MAX_BATCHES))


@dataclass(frozen=True, slots=True)
class BatchMaker:
    """Reads, cuts, transforms and converts batches. Used by several threads at once.

    Args:
        source: Where the examples come from.
        sampler: Position to index.
        transform: The user's function on every batch.
        convert: The last step: converts to arrays of another library.
        seed: Of the random numbers that the source draws; ``None`` if it draws none.
    """

    source: ReadsBatches
    sampler: Sampler
    transform: Callable[[Batch], Any] | None
    convert: Callable[[Any], Any] | None
    seed: int | None = None

    def make(self, run: BatchRun) -> Block:
        """The batches of a run."""
        begun = perf_counter_ns()
        try:
            block = self._read(run)
        except Exception as error:  # noqa: BLE001 - it is raised in the consumer's thread, in its turn
            if run.batches == 1:
                return Block(run, [], error, reading_ns=perf_counter_ns() - begun)
            return self._make_singly(run)
        block.reading_ns = perf_counter_ns() - begun
        return self.finish(block)

    def begin(self, run: BatchRun) -> Block:
        """The first batch of a run. The others are made when they are requested."""
        if run.batches == 1:
            return self.make(run)
        begun = perf_counter_ns()
        try:
            read = self._reader_of_batches(run)
        except Exception:  # noqa: BLE001 - raised after the batches before it
            return self._make_singly(run)
        rest = OpenRun(self, run, read, (perf_counter_ns() - begun) // run.batches)
        block = Block(run, [], rest=rest)
        try:
            block.batches.append(rest.make(block))
        except Exception as error:  # noqa: BLE001 - raised in the consumer's thread
            return Block(run.only(0), [], error, reading_ns=perf_counter_ns() - begun)
        return block

    def _make_singly(self, run: BatchRun) -> Block:
        """Make the batches one by one, so that the ones before the failing one are yielded first."""
        whole = Block(run, [])
        for number in range(run.batches):
            whole.add(self.make(run.only(number)))
            if whole.error is not None:
                break
        return whole

    def _read(self, run: BatchRun) -> Block:
        if (in_order := self._reader_in_order(run)) is not None:
            return _cut_pieces(in_order.run(run.begin, run.stop, run.size), run)
        indices = _indices(self.sampler, run)
        if self.seed is None:
            batch = _reader_of(self.source, indices)(indices)
        else:
            batch = read_batch(self.source, indices, RandomKeys(self.seed, run.epoch, run.every_position()))
        return _cut_pieces([(run.batches, batch)], run)

    def _reader_of_batches(self, run: BatchRun) -> Callable[[int], Batch]:
        """A function that reads the batch of this number in a run."""
        begin, size, seed = run.begin, run.size, self.seed
        if (in_order := self._reader_in_order(run)) is not None:
            return lambda number: in_order.run(begin + number * size, begin + (number + 1) * size, size)[0][1]
        indices = _indices(self.sampler, run)
        if seed is None:
            read = _reader_of(self.source, indices)
            return lambda number: read(indices[number * size : (number + 1) * size])

        def read_seeded(number: int) -> Batch:
            keys = RandomKeys(seed, run.epoch, run.only(number).every_position())
            return read_batch(self.source, indices[number * size : (number + 1) * size], keys)

        return read_seeded

    def _reader_in_order(self, run: BatchRun) -> ReadsRuns | None:
        """What reads the adjacent rows of a run without their indices, which may take more bytes than the rows; ``None``: read by index."""
        if type(self.sampler) is not InOrder or self.seed is not None or not defines(self.source, ReadsChecked):
            return None
        if not run.is_adjacent or not run.size or not run.stop <= self.sampler.n <= len(self.source):
            return None
        read: Any = self.source.checked_reader()
        return read if class_defines(read.__class__, ReadsRuns) else None

    def finish(self, block: Block) -> Block:
        """Apply the user's function and the conversion to batches."""
        if self.transform is not None:
            begun = perf_counter_ns()
            _apply(partial(self.apply_transform, block.run, self.transform), block)
            block.transform_ns = perf_counter_ns() - begun
        if self.convert is not None:
            begun, convert = perf_counter_ns(), self.convert
            _apply(lambda _, batch: convert(batch), block)
            block.handover_ns = perf_counter_ns() - begun
        return block

    def apply_transform(self, run: BatchRun, transform: Callable[[Batch], Any], number: int, batch: Batch) -> Any:
        """The user's function on batch ``number`` of a run; its errors name the batch."""
        try:
            return transform(batch)
        except Exception as error:
            start, stop = run.positions(number)
            name = getattr(transform, "__qualname__", type(transform).__name__)
            which = run.number + number
            place = f"map_batch={name} on batch {which} of epoch {run.epoch} (positions {start} to {stop})"
            raise TransformError(place, self._where(run.epoch, start, stop), error) from error

    def _where(self, epoch: int, start: int, stop: int) -> Where:
        """The place of a batch's first example."""
        if start == stop:
            return Where()
        index = int(self.sampler.indices(epoch, start, start + 1)[0])
        return self.source.where(index) if offers(self.source, Locates) else Where(record=index)


class OpenRun:
    """The batches of a run, made one by one in the consumer's thread.

    Args:
        maker: Makes them.
        run: Which.
        read: Reads the batch of a number.
        prepared_ns: A batch's share of the time that making ``read`` took.
    """

    __slots__ = ("_maker", "_number", "_prepared_ns", "_read", "_run", "left", "size", "spent_ns")

    def __init__(self, maker: BatchMaker, run: BatchRun, read: Callable[[int], Batch], prepared_ns: int) -> None:
        self._maker, self._run, self._read, self._prepared_ns = maker, run, read, prepared_ns
        self._number = 0
        self.left: int = run.batches
        self.size: int = run.size
        self.spent_ns: int = 0
        """How long the latest batch took."""

    def make(self, clocks: Clocks) -> Any:
        """The next batch. Its size and times are added to ``clocks``."""
        maker, run, number = self._maker, self._run, self._number
        self._number, self.left = number + 1, self.left - 1
        begun = started = perf_counter_ns()
        batch: Any = self._read(number)
        clocks.bytes += _check_and_measure(batch, run.size)
        done = perf_counter_ns()
        clocks.reading_ns += done - begun + self._prepared_ns
        if maker.transform is not None:
            batch = maker.apply_transform(run, maker.transform, number, batch)
            begun, done = done, perf_counter_ns()
            clocks.transform_ns += done - begun
        if maker.convert is not None:
            batch = maker.convert(batch)
            ended = perf_counter_ns()
            clocks.handover_ns += ended - done
            done = ended
        self.spent_ns = done - started
        return batch


def _cut_pieces(pieces: list[tuple[int, Batch]], run: BatchRun) -> Block:
    """The batches of a run that was read in pieces, each of several batches."""
    block = Block(run, [])
    for count, batch in pieces:
        block.bytes += _check_and_measure(batch, count * run.size)
        block.batches += cut_batch(batch, run.size, count)
    return block


def _apply(function: Callable[[int, Any], Any], block: Block) -> None:
    """Apply a function of number and batch to every batch, up to the first that fails."""
    done: list[Any] = []
    for number, batch in enumerate(block.batches):
        try:
            done.append(function(number, batch))
        except Exception as error:  # noqa: BLE001 - it is raised in the consumer's thread, in its turn
            block.error = error
            break
    block.batches = done


def _indices(sampler: Sampler, run: BatchRun) -> Indices:
    """The indices of a run, by one call if its batches are adjacent."""
    if run.is_adjacent:
        indices = sampler.indices(run.epoch, run.begin, run.stop)
    else:
        indices = np.concatenate([sampler.indices(run.epoch, *run.positions(number)) for number in range(run.batches)])
    indices = np.ascontiguousarray(indices, np.int64)
    if len(indices) != (wanted := run.batches * run.size):
        raise ValueError(f"{type(sampler).__name__}.indices gave {len(indices)} indices for {wanted} positions")
    return indices


def _reader_of(source: ReadsBatches, indices: Indices) -> Callable[[Indices], Batch]:
    """What reads parts of these indices: ``source.batch``, or its reader without a check, if all of them are in range."""
    if len(indices) and defines(source, ReadsChecked):
        low, high = _native.bounds(indices)
        if 0 <= low <= high < len(source):
            return source.checked_reader()
    return source.batch
