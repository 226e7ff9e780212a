"""How the batches of a run are made.

A job makes one run: the sampler computes its indices, the source reads them, and each batch passes through the user's function and the
conversion (:class:`BatchMaker`). A :class:`Block` holds the result. Small batches are cut from one that the source reads in one call. A
consumer that makes large ones itself gets them one by one (:class:`OpenRun`), so that each takes the memory of the one before, which is still
in the processor's cache.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from time import perf_counter_ns
from typing import Any, Protocol

import numpy as np

from headrace import _native
from headrace.contracts.protocols import (
    HasSchema,
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
from headrace.contracts.strings import Strings
from headrace.contracts.values import Batch, Indices, Ragged, bytes_of, cut_batch
from headrace.errors import SchemaMismatch, TransformError, Where
from headrace.loading.rounds import BatchRun
from headrace.sampling.samplers import InOrder

__all__ = ["BatchMaker", "Block", "OpenRun", "check_rows", "count_rows", "raisable"]

INT64 = np.dtype(np.int64)


def check_rows(batch: Batch, rows: int) -> None:
    """Check that a source returned as many rows as it was asked for.

    Raises:
        SchemaMismatch: A column is shorter or longer, or has no rows at all; or it returned no dict.
    """
    hint = "batch() of a source returns {feature: column}, a row for each index."
    if not hasattr(batch, "items"):
        other = f"{type(batch).__name__} {batch!r:.60}"
        raise SchemaMismatch(Where(), expected="a dict of columns from the source", found=other, hint=hint)
    for name, column in batch.items():
        if not getattr(column, "shape", hasattr(column, "__len__")):
            other = f"{type(column).__name__} {column!r:.60}"
            raise SchemaMismatch(Where(feature=name), expected=f"{rows} rows from the source", found=other, hint=hint)
        found = column.shape[0] if hasattr(column, "shape") else len(column)
        if found != rows:
            raise SchemaMismatch(
                Where(feature=name),
                expected=f"{rows} rows from the source",
                found=str(found),
                hint="This is a bug in the source.",
            )


def _check_and_measure(batch: Batch, rows: int) -> tuple[int, bool]:
    """The bytes of a batch, after :func:`check_rows`, and whether all columns are arrays."""
    found = _native.measure_batch(batch, Strings, Ragged, rows) if type(batch) is dict else None
    if found is not None:
        return found
    check_rows(batch, rows)
    return bytes_of(batch), all(type(column) is np.ndarray for column in batch.values())


class Clocks(Protocol):
    """Sums to which each batch adds."""

    bytes: int
    reading_ns: int
    transform_ns: int
    handover_ns: int


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

    def prepare(self) -> None:
        """Find out which features the first example has. Functions refuse other ones, and workers see different examples first."""
        with suppress(BaseException):  # An example that fails, or exits, does so in its turn.
            _ = self.source.schema if offers(self.source, HasSchema) else None

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
            read, is_own = self._reader_of_batches(run)
        except Exception:  # noqa: BLE001 - raised after the batches before it
            return self._make_singly(run)
        rest = OpenRun(self, run, read, (perf_counter_ns() - begun) // run.batches, is_own=is_own)
        block = Block(run, [], rest=rest)
        try:
            block.batches.append(rest.make())
            rest.settle(block)
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

    def _reader_of_batches(self, run: BatchRun) -> tuple[Callable[[int], Batch], bool]:
        """A function that reads the batch of this number in a run, and whether it reads adjacent rows of files."""
        begin, size, seed = run.begin, run.size, self.seed
        if (in_order := self._reader_in_order(run)) is not None:
            one = in_order.one
            return lambda number: one(begin + number * size, begin + (number + 1) * size), True
        indices = _indices(self.sampler, run)
        if seed is None:
            read = _reader_of(self.source, indices)
            return lambda number: read(indices[number * size : (number + 1) * size]), False

        def read_seeded(number: int) -> Batch:
            keys = RandomKeys(seed, run.epoch, run.only(number).every_position())
            return read_batch(self.source, indices[number * size : (number + 1) * size], keys)

        return read_seeded, False

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
            made = transform(batch)
        except Exception as error:
            raise self._failure(run, transform, number, error) from error
        if made is None:
            nothing = TypeError("it must return a batch, got None: is a return missing?")
            raise self._failure(run, transform, number, nothing) from nothing
        return made

    def _failure(
        self, run: BatchRun, transform: Callable[[Batch], Any], number: int, error: Exception
    ) -> TransformError:
        start, stop = run.positions(number)
        name = getattr(transform, "__qualname__", type(transform).__name__)
        place = f"map_batch={name} on batch {run.number + number} of epoch {run.epoch} (positions {start} to {stop})"
        return TransformError(place, self._where(run.epoch, start, stop), error)

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
        is_own: Whether ``read`` is ours, so that arrays of one batch show how large those of all are.
    """

    __slots__ = (
        *("_batch_bytes", "_bytes", "_handover_ns", "_is_own", "_is_read_only", "_maker", "_number", "_prepared_ns"),
        *("_read", "_run", "_spent_ns", "_transform_ns", "left", "settled", "settled_ns", "size"),
    )

    def __init__(
        self, maker: BatchMaker, run: BatchRun, read: Callable[[int], Batch], prepared_ns: int, *, is_own: bool
    ) -> None:
        self._maker, self._run, self._read, self._prepared_ns, self._is_own = maker, run, read, prepared_ns, is_own
        self._is_read_only = maker.transform is None and maker.convert is None
        self._batch_bytes = 0  # of every batch, if that is known
        self._number = 0
        self._bytes = self._spent_ns = self._transform_ns = self._handover_ns = 0  # since it was settled
        self.left: int = run.batches
        self.size: int = run.size
        self.settled: int = 0
        """Batches that :meth:`settle` has counted."""
        self.settled_ns: int = 0
        """How long they took."""

    def make(self) -> Any:
        """The next batch."""
        number = self._number
        self._number, self.left = number + 1, self.left - 1
        begun = perf_counter_ns()
        batch: Any = self._read(number)
        self._bytes += self._batch_bytes or self._measure(batch)
        if not self._is_read_only:
            batch = self._finish(number, batch)
        self._spent_ns += perf_counter_ns() - begun
        return batch

    def _measure(self, batch: Batch) -> int:
        size, are_arrays = _check_and_measure(batch, self.size)
        if self._is_own and are_arrays:
            self._batch_bytes = size
        return size

    def _finish(self, number: int, batch: Any) -> Any:
        """Apply the user's function and the conversion."""
        maker = self._maker
        if maker.transform is not None:
            begun = perf_counter_ns()
            batch = maker.apply_transform(self._run, maker.transform, number, batch)
            self._transform_ns += perf_counter_ns() - begun
        if maker.convert is not None:
            begun = perf_counter_ns()
            batch = maker.convert(batch)
            self._handover_ns += perf_counter_ns() - begun
        return batch

    def settle(self, clocks: Clocks) -> tuple[int, int]:
        """Add the sizes and times of the batches since the last call to sums. Returns how many they are, and how long they took."""
        count, spent_ns = self._number - self.settled, self._spent_ns
        clocks.bytes += self._bytes
        clocks.reading_ns += spent_ns - self._transform_ns - self._handover_ns + count * self._prepared_ns
        clocks.transform_ns += self._transform_ns
        clocks.handover_ns += self._handover_ns
        self.settled, self.settled_ns = self._number, self.settled_ns + spent_ns + count * self._prepared_ns
        self._bytes = self._spent_ns = self._transform_ns = self._handover_ns = 0
        return count, spent_ns


def _cut_pieces(pieces: list[tuple[int, Batch]], run: BatchRun) -> Block:
    """The batches of a run that was read in pieces, each of several batches."""
    block = Block(run, [])
    for count, batch in pieces:
        block.bytes += _check_and_measure(batch, count * run.size)[0]
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


def count_rows(batch: Batch) -> int:
    """The rows of a batch, by its first column."""
    column = next(iter(batch.values()))
    return int(column.shape[0]) if hasattr(column, "shape") else len(column)


def raisable(error: Exception) -> Exception:
    """The error, or a RuntimeError in place of a StopIteration, which would look like the end of the data."""
    if not isinstance(error, StopIteration):
        return error
    stray = RuntimeError("a source or an order raised StopIteration")
    stray.__cause__ = error
    return stray


def _indices(sampler: Sampler, run: BatchRun) -> Indices:
    """The indices of a run, by one call if its batches are adjacent.

    Raises:
        TypeError: They are no integers.
        ValueError: They are too few or too many.
    """
    if run.is_adjacent:
        indices = _whole(sampler.indices(run.epoch, run.begin, run.stop), sampler)
    else:
        each = [sampler.indices(run.epoch, *run.positions(number)) for number in range(run.batches)]
        indices = np.concatenate([_whole(indices, sampler) for indices in each])
    if len(indices) != (wanted := run.batches * run.size):
        raise ValueError(f"{type(sampler).__name__}.indices gave {len(indices)} indices for {wanted} positions")
    return indices


def _whole(given: Any, sampler: Sampler) -> Indices:
    """What a sampler gave as contiguous ``int64``: conversion alone would cut fractions, and read flags as 1 and 0."""
    if (found := np.asarray(given)).ndim != 1:
        raise TypeError(f"{type(sampler).__name__}.indices must give one axis of integers, got shape {found.shape}")
    if found.dtype is not INT64 and found.size:
        if found.dtype.kind not in "iu":
            raise TypeError(f"{type(sampler).__name__}.indices must give integers, got {found.dtype}")
        if found.dtype.kind == "u" and int(found.max()) > np.iinfo(np.int64).max:
            raise IndexError(f"{type(sampler).__name__}.indices gave {found.max()}, which no source has")
    return np.ascontiguousarray(found, np.int64)


def _reader_of(source: ReadsBatches, indices: Indices) -> Callable[[Indices], Batch]:
    """What reads parts of these indices: ``source.batch``, or its reader without a check, if all of them are in range."""
    if len(indices) and defines(source, ReadsChecked):
        low, high = _native.bounds(indices)
        if 0 <= low <= high < len(source):
            return source.checked_reader()
    return source.batch
