"""What a loader reads, from the rest of an epoch down to finished batches.

A :class:`RoundPlan` cuts the rest of an epoch into rounds. In each round rank ``r`` of ``world`` reads the ``r``-th block of ``batch_size``
positions. A :class:`BatchRun` holds consecutive batches of one rank. A job makes the batches of one run (:class:`BatchMaker`), and a
:class:`Block` holds its results.

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
from functools import partial
from time import perf_counter_ns
from typing import Any, NamedTuple

import numpy as np

from headrace.contracts.protocols import Locates, ReadsBatches, Sampler, offers
from headrace.contracts.random_keys import RandomKeys, read_batch
from headrace.contracts.strings import Strings
from headrace.contracts.values import Batch, Indices, Ragged
from headrace.errors import SchemaMismatch, TransformError, Where

__all__ = [
    "BatchMaker",
    "BatchRun",
    "Block",
    "Cursor",
    "JobSizer",
    "RoundPlan",
    "bytes_of",
    "check_rows",
    "cut_batch",
    "part_bounds",
]


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

    def runs(self, cursor: Cursor, n: int, rank: int, batches: Callable[[], int]) -> Iterator[BatchRun]:
        """The batches of ``rank`` from ``cursor`` to the end of its epoch of ``n``.

        Args:
            cursor: Where to begin.
            n: Positions in an epoch.
            rank: The rank.
            batches: Returns the number of batches of the next run.
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


def cut_batch(batch: Batch, size: int, count: int) -> list[Batch]:
    """Cut a batch into ``count`` parts of ``size`` examples: views of the columns (sparse columns are copied).

    >>> [part["x"].tolist() for part in cut_batch({"x": np.arange(6)}, 3, 2)]
    [[0, 1, 2], [3, 4, 5]]
    """
    if count == 1:
        return [batch]
    columns = list(batch.items())
    return [{name: column[start : start + size] for name, column in columns} for start in range(0, count * size, size)]


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


def bytes_of(batch: Batch) -> int:
    """The bytes of a batch's arrays; objects count as references."""
    size = 0
    for column in batch.values():  # no call for plain arrays, because every batch comes through here
        size += column.nbytes if type(column) is np.ndarray else _bytes_of(column)
    return size


def _bytes_of(column: Any) -> int:
    if isinstance(column, (np.ndarray, Strings)):
        return column.nbytes
    if isinstance(column, Ragged):
        return _bytes_of(column.values) + column.offsets.nbytes
    if isinstance(column, list):
        return sum(_bytes_of(value) for value in column)
    held = column if hasattr(column, "nbytes") else getattr(column, "data", None)  # the stored values of scipy's arrays
    return int(getattr(held, "nbytes", 0))


TARGET_NS = 1_000_000
"""The target duration of a job: far more than passing it between threads costs, and still short."""
MAX_BLOCK_BYTES = 2 << 20
"""More than this in one job would leave the core's cache before the consumer uses it."""
INLINE_NS = 300_000
"""The target duration of a job that the consumer makes itself. It only saves calls, and a shorter wait is worth more."""
MAX_BATCHES = 256


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

    def add(self, other: Block) -> None:
        """Append the result of another job."""
        self.batches += other.batches
        self.error = other.error
        self.bytes += other.bytes
        self.reading_ns += other.reading_ns
        self.transform_ns += other.transform_ns
        self.handover_ns += other.handover_ns
        self.carrying_ns += other.carrying_ns


class JobSizer:
    """Finds how many batches to make in one job, from the durations of earlier jobs.

    Args:
        can_grow: Whether a job may make several batches by cutting a larger one.
        target_ns: The target duration of a job.
    """

    def __init__(self, *, can_grow: bool, target_ns: int = TARGET_NS) -> None:
        self.batches = 1
        self.inline_batches = 1
        """The same for a job that the consumer makes itself."""
        self._can_grow = can_grow
        self._target_ns = target_ns
        self._batch_ns = 0.0

    def note(self, block: Block) -> None:
        """Take a finished job into account."""
        count = len(block.batches)
        if not self._can_grow or not count:
            return
        spent = (block.reading_ns + block.transform_ns + block.handover_ns) / count
        # Averaged, because the first jobs open files and fault pages in, and are not typical.
        self._batch_ns = (self._batch_ns + spent) / 2 if self._batch_ns else spent
        batch_bytes = max(block.bytes / count, 1.0)
        self.batches = self._within(self._target_ns, batch_bytes, 2 * self.batches)
        self.inline_batches = self._within(INLINE_NS, batch_bytes, 2 * self.inline_batches)

    def _within(self, target_ns: int, batch_bytes: float, most: int) -> int:
        by_time = round(target_ns / max(self._batch_ns, 1.0))
        return max(1, min(by_time, int(MAX_BLOCK_BYTES / batch_bytes), most, MAX_BATCHES))


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

    def _make_singly(self, run: BatchRun) -> Block:
        """Make the batches one by one, so that the ones before the failing one are yielded first."""
        whole = Block(run, [])
        for number in range(run.batches):
            whole.add(self.make(run.only(number)))
            if whole.error is not None:
                break
        return whole

    def _read(self, run: BatchRun) -> Block:
        indices = _indices(self.sampler, run)
        if self.seed is None:
            batch = self.source.batch(indices)
        else:
            batch = read_batch(self.source, indices, RandomKeys(self.seed, run.epoch, _positions(run)))
        check_rows(batch, len(indices))
        return Block(run, cut_batch(batch, run.size, run.batches), bytes=bytes_of(batch))

    def finish(self, block: Block) -> Block:
        """Apply the user's function and the conversion to batches."""
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
        return self.source.where(index) if offers(self.source, Locates) else Where(record=index)


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
    if run.step == run.size or run.batches == 1:
        indices = sampler.indices(run.epoch, run.begin, run.begin + run.batches * run.size)
    else:
        indices = np.concatenate([sampler.indices(run.epoch, *run.positions(number)) for number in range(run.batches)])
    indices = np.ascontiguousarray(indices, np.int64)
    if len(indices) != run.batches * run.size:
        wanted = run.batches * run.size
        raise ValueError(f"{type(sampler).__name__}.indices gave {len(indices)} indices for {wanted} positions")
    return indices


def _positions(run: BatchRun) -> Indices:
    """The positions of a run's examples in their epoch."""
    starts = run.begin + run.step * np.arange(run.batches, dtype=np.int64)
    return (starts[:, None] + np.arange(run.size, dtype=np.int64)).reshape(-1)
