"""From positions to finished batches: what one job of a loader does, and cutting a batch into smaller ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from time import perf_counter_ns
from typing import Any

import numpy as np

from headrace.contracts.protocols import Locates, ReadsBatches, Sampler
from headrace.contracts.values import Batch, Indices, Ragged
from headrace.errors import SchemaMismatch, TransformError, Where
from headrace.loading.plan import BatchRun

__all__ = ["BatchMaker", "Block", "EpochStream", "JobSizer", "bytes_of", "check_rows", "cut_batch"]


def cut_batch(batch: Batch, size: int, count: int) -> list[Batch]:
    """``count`` consecutive parts of ``size`` examples each: views of the columns, no copies (sparse columns are copied).

    >>> [part["x"].tolist() for part in cut({"x": np.arange(6)}, 3, 2)]
    [[0, 1, 2], [3, 4, 5]]
    """
    if count == 1:
        return [batch]
    columns = list(batch.items())
    return [{name: column[start : start + size] for name, column in columns} for start in range(0, count * size, size)]


def check_rows(batch: Batch, rows: int) -> None:
    """A source must give as many rows as it was asked for.

    Raises:
        SchemaMismatch: a column is shorter or longer.
    """
    for name, column in batch.items():
        found = column.shape[0] if hasattr(column, "shape") else len(column)
        if found != rows:
            raise SchemaMismatch(
                Where(feature=name),
                expected=f"{rows} rows from the source",
                found=str(found),
                hint="The source is at fault.",
            )


def bytes_of(batch: Batch) -> int:
    """The size of a batch's numbers, in bytes; objects count as references."""
    size = 0
    for column in batch.values():  # asked for every batch: no call for what nearly all columns are
        size += column.nbytes if type(column) is np.ndarray else _bytes_of(column)
    return size


def _bytes_of(column: Any) -> int:
    if isinstance(column, np.ndarray):
        return column.nbytes
    if isinstance(column, Ragged):
        return _bytes_of(column.values) + column.offsets.nbytes
    if isinstance(column, list):
        return sum(_bytes_of(value) for value in column)
    held = column if hasattr(column, "nbytes") else getattr(column, "data", None)  # scipy's arrays: what they store
    return int(getattr(held, "nbytes", 0))


TARGET_NS = 1_000_000
"""A job should take this long: far more than handing it over costs, far less than anyone would wait for."""
MAX_BLOCK_BYTES = 2 << 20
"""More than this in one job falls out of the core's cache before the consumer looks at it."""
MAX_BATCHES = 256


@dataclass(slots=True)
class Block:
    """What one job made: the batches of a run in order, up to the error that stands in place of the next one."""

    run: BatchRun
    batches: list[Any]
    error: Exception | None = None
    bytes: int = 0
    reading_ns: int = 0
    transform_ns: int = 0
    handover_ns: int = 0
    carrying_ns: int = 0

    def add(self, other: Block) -> None:
        """Append what another job made."""
        self.batches += other.batches
        self.error = other.error
        self.bytes += other.bytes
        self.reading_ns += other.reading_ns
        self.transform_ns += other.transform_ns
        self.handover_ns += other.handover_ns
        self.carrying_ns += other.carrying_ns


class JobSizer:
    """How many batches to make in one job, found from the first ones.

    Args:
        can_grow: Whether a job may make several batches by cutting one larger batch.
        target_ns: How long a job should take.
    """

    def __init__(self, *, can_grow: bool, target_ns: int = TARGET_NS) -> None:
        self.batches = 1
        self._can_grow = can_grow
        self._target_ns = target_ns
        self._batch_ns = 0.0

    def note(self, block: Block) -> None:
        """Learn from a finished job."""
        count = len(block.batches)
        if not self._can_grow or not count:
            return
        spent = (block.reading_ns + block.transform_ns + block.handover_ns) / count
        # Half and half: the first jobs open files and find pages, and say little about the later ones.
        self._batch_ns = (self._batch_ns + spent) / 2 if self._batch_ns else spent
        by_time = round(self._target_ns / max(self._batch_ns, 1.0))
        by_size = MAX_BLOCK_BYTES * count // max(block.bytes, 1)
        self.batches = max(1, min(by_time, by_size, 2 * self.batches, MAX_BATCHES))


@dataclass(frozen=True, slots=True)
class BatchMaker:
    """Reads, cuts, transforms and converts batches. Used by several threads at once.

    Args:
        source: Where the examples come from.
        sampler: Position to index.
        transform: The user's function on every batch.
        convert: The last step: into the arrays of another library.
    """

    source: ReadsBatches
    sampler: Sampler
    transform: Callable[[Batch], Any] | None
    convert: Callable[[Any], Any] | None

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

    def _make_singly(self, run: BatchRun) -> Block:
        """Batch by batch, up to the one that fails: the sound ones before it are handed out first."""
        whole = Block(run, [])
        for number in range(run.batches):
            whole.add(self.make(run.only(number)))
            if whole.error is not None:
                break
        return whole

    def _read(self, run: BatchRun) -> Block:
        indices = _indices(self.sampler, run)
        batch = self.source.batch(indices)
        check_rows(batch, len(indices))
        return Block(run, cut_batch(batch, run.size, run.batches), bytes=bytes_of(batch))

    def finish(self, block: Block) -> Block:
        """Apply the user's function and the conversion to batches that were read."""
        if self.transform is not None:
            begun = perf_counter_ns()
            _apply(partial(self._transformed, block.run, self.transform), block)
            block.transform_ns = perf_counter_ns() - begun
        if self.convert is not None:
            begun, convert = perf_counter_ns(), self.convert
            _apply(lambda _, batch: convert(batch), block)
            block.handover_ns = perf_counter_ns() - begun
        return block

    def _transformed(self, run: BatchRun, transform: Callable[[Batch], Any], number: int, batch: Batch) -> Any:
        try:
            return transform(batch)
        except Exception as error:
            start, stop = run.positions(number)
            name = getattr(transform, "__qualname__", type(transform).__name__)
            place = (
                f"map_batch={name} on batch {run.number + number} of epoch {run.epoch} (positions {start} to {stop})"
            )
            raise TransformError(place, self._where(run.epoch, start, stop), error) from error

    def _where(self, epoch: int, start: int, stop: int) -> Where:
        """The place of a batch's first example."""
        if start == stop:
            return Where()
        index = int(self.sampler.indices(epoch, start, start + 1)[0])
        return self.source.where(index) if isinstance(self.source, Locates) else Where(record=index)


def _apply(function: Callable[[int, Any], Any], block: Block) -> None:
    """Every batch through a function of number and batch, up to the first that fails."""
    done: list[Any] = []
    for number, batch in enumerate(block.batches):
        try:
            done.append(function(number, batch))
        except Exception as error:  # noqa: BLE001 - it is raised in the consumer's thread, in its turn
            block.error = error
            break
    block.batches = done


def _indices(sampler: Sampler, run: BatchRun) -> Indices:
    """The indices of a run; asks once where its batches follow one another."""
    if run.step == run.size or run.batches == 1:
        indices = sampler.indices(run.epoch, run.begin, run.begin + run.batches * run.size)
    else:
        indices = np.concatenate([sampler.indices(run.epoch, *run.positions(number)) for number in range(run.batches)])
    indices = np.ascontiguousarray(indices, np.int64)
    if len(indices) != run.batches * run.size:
        wanted = run.batches * run.size
        raise ValueError(f"{type(sampler).__name__}.indices gave {len(indices)} indices for {wanted} positions")
    return indices


class EpochStream:
    """Batches that a source gives in order, for one epoch. Pulled by one thread at a time.

    Args:
        batches: The source's batches; all but the last hold ``batch_size`` examples.
        maker: Finishes them.
        epoch: The epoch they are.
        batch_size: Examples in a batch.
        drop_last: Leave out a last batch that holds fewer.
    """

    def __init__(
        self, batches: Iterator[Batch], maker: BatchMaker, epoch: int, batch_size: int, *, drop_last: bool
    ) -> None:
        self.ended = False
        self._maker = maker
        self._epoch = epoch
        self._batch_size = batch_size
        # One batch is looked at ahead, because the position after the last batch is the start of the next epoch.
        self._batches = _with_last(self._full(batches) if drop_last else batches)
        self._position = 0

    def jobs(self) -> Iterator[Callable[[], Block]]:
        """One job a batch, until a finished job has seen the end; jobs begun behind the end make nothing."""
        while not self.ended:
            yield self.pull

    def pull(self) -> Block:
        """The next batch; none behind the end."""
        begun = perf_counter_ns()
        try:
            batch, is_last = next(self._batches, (None, True))
            if batch is not None and not is_last:
                check_rows(batch, self._batch_size)
        except Exception as error:  # noqa: BLE001 - it is raised in the consumer's thread, in its turn
            self.ended = True
            return Block(self._run(0, is_last=False), [], error, reading_ns=perf_counter_ns() - begun)
        self.ended = self.ended or is_last
        if batch is None:
            return Block(self._run(0, is_last=False), [])
        block = Block(self._run(_rows(batch), is_last=is_last), [batch], bytes=bytes_of(batch))
        block.reading_ns = perf_counter_ns() - begun
        return self._maker.finish(block)

    def _run(self, rows: int, *, is_last: bool) -> BatchRun:
        start, self._position = self._position, self._position + rows
        return BatchRun(self._epoch, start // self._batch_size, start, rows, start, rows, 1, is_last)

    def _full(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        return (batch for batch in batches if _rows(batch) == self._batch_size)


def _rows(batch: Batch) -> int:
    column = next(iter(batch.values()))
    return int(column.shape[0]) if hasattr(column, "shape") else len(column)


def _with_last(batches: Iterator[Batch]) -> Iterator[tuple[Batch, bool]]:
    """Every batch with whether it is the last. A failure comes after the batch that it follows."""
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
