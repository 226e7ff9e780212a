"""From positions to finished batches: what one job of a loader does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from time import perf_counter_ns
from typing import Any, NamedTuple

import numpy as np

from penstock.contracts.protocols import Indices, ReadsBatches, Sampler
from penstock.contracts.values import Batch
from penstock.errors import TransformError, Where
from penstock.loading.slicing import bytes_of, check_rows, cut

__all__ = ["Block", "Cursor", "Made", "Maker", "Pace", "Slot", "Stream", "jobs"]

TARGET_NS = 300_000
"""A job should take this long: far more than handing it over costs, far less than anyone would wait for."""
MAX_BLOCK_BYTES = 1 << 20
"""More than this in one job falls out of the core's cache before the consumer looks at it."""
MAX_BATCHES = 256


class Cursor(NamedTuple):
    """How far a run has come: the whole state of a loader."""

    epoch: int
    position: int


class Slot(NamedTuple):
    """The place of one batch in the run."""

    epoch: int
    number: int
    start: int
    stop: int
    after: Cursor


class Made(NamedTuple):
    """A finished batch."""

    batch: Any
    slot: Slot


@dataclass(slots=True)
class Block:
    """What one job made: batches in order, then perhaps the error that stands in place of the next one."""

    made: list[Made]
    error: Exception | None = None
    bytes: int = 0
    reading_ns: int = 0
    transform_ns: int = 0
    handover_ns: int = 0

    def add(self, other: Block) -> None:
        """Append what another job made."""
        self.made += other.made
        self.error = other.error
        self.bytes += other.bytes
        self.reading_ns += other.reading_ns
        self.transform_ns += other.transform_ns
        self.handover_ns += other.handover_ns


class Pace:
    """How many batches to make in one job, found from the first ones.

    Args:
        can_grow: Whether a job may make several batches by cutting one larger batch.
    """

    def __init__(self, *, can_grow: bool) -> None:
        self.batches = 1
        self._can_grow = can_grow
        self._batch_ns = 0.0

    def note(self, block: Block) -> None:
        """Learn from a finished job."""
        count = len(block.made)
        if not self._can_grow or not count:
            return
        spent = (block.reading_ns + block.transform_ns + block.handover_ns) / count
        # Half and half: the first jobs open files and find pages, and say little about the later ones.
        self._batch_ns = (self._batch_ns + spent) / 2 if self._batch_ns else spent
        by_time = round(TARGET_NS / max(self._batch_ns, 1.0))
        by_size = MAX_BLOCK_BYTES * count // max(block.bytes, 1)
        self.batches = max(1, min(by_time, by_size, 2 * self.batches, MAX_BATCHES))


@dataclass(frozen=True, slots=True)
class Maker:
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

    def make(self, slots: Sequence[Slot]) -> Block:
        """The batches of some slots of one epoch."""
        begun = perf_counter_ns()
        try:
            block = self._read(slots)
        except Exception as error:
            if len(slots) == 1:
                return Block([], error, reading_ns=perf_counter_ns() - begun)
            return self._make_singly(slots)
        block.reading_ns = perf_counter_ns() - begun
        return self.finish(block)

    def _make_singly(self, slots: Sequence[Slot]) -> Block:
        """Batch by batch, up to the one that fails: the sound ones before it are handed out first."""
        whole = Block([])
        for slot in slots:
            whole.add(self.make([slot]))
            if whole.error is not None:
                break
        return whole

    def _read(self, slots: Sequence[Slot]) -> Block:
        sizes = [slot.stop - slot.start for slot in slots]
        indices = _indices(self.sampler, slots)
        batch = self.source.batch(indices)
        check_rows(batch, len(indices))
        return Block([Made(part, slot) for part, slot in zip(cut(batch, sizes), slots, strict=True)], bytes=bytes_of(batch))

    def finish(self, block: Block) -> Block:
        """Apply the user's function and the conversion to batches that were read."""
        if self.transform is not None:
            begun = perf_counter_ns()
            self._apply(block, partial(self._transformed, self.transform))
            block.transform_ns = perf_counter_ns() - begun
        if self.convert is not None:
            begun, convert = perf_counter_ns(), self.convert
            self._apply(block, lambda made: convert(made.batch))
            block.handover_ns = perf_counter_ns() - begun
        return block

    @staticmethod
    def _apply(block: Block, function: Callable[[Made], Any]) -> None:
        done: list[Made] = []
        for made in block.made:
            try:
                done.append(Made(function(made), made.slot))
            except Exception as error:  # noqa: BLE001, PERF203 - it is raised in the consumer's thread, in its turn
                block.error = error
                break
        block.made = done

    def _transformed(self, transform: Callable[[Batch], Any], made: Made) -> Any:
        try:
            return transform(made.batch)
        except Exception as error:
            slot = made.slot
            name = getattr(transform, "__qualname__", type(transform).__name__)
            place = f"map_batch={name} on batch {slot.number} of epoch {slot.epoch} (positions {slot.start} to {slot.stop})"
            raise TransformError(place, self._where(slot), error) from error

    def _where(self, slot: Slot) -> Where:
        """The place of a batch's first example."""
        if slot.start == slot.stop:
            return Where()
        index = int(self.sampler.indices(slot.epoch, slot.start, slot.start + 1)[0])
        where = getattr(self.source, "where", None)
        return Where(record=index) if where is None else where(index)


def _indices(sampler: Sampler, slots: Sequence[Slot]) -> Indices:
    """The indices of slots of one epoch; asks once where they follow one another."""
    first, last = slots[0], slots[-1]
    if all(before.stop == after.start for before, after in pairwise(slots)):
        parts = [sampler.indices(first.epoch, first.start, last.stop)]
    else:
        parts = [sampler.indices(slot.epoch, slot.start, slot.stop) for slot in slots]
    indices = np.ascontiguousarray(parts[0] if len(parts) == 1 else np.concatenate(parts), np.int64)
    wanted = sum(slot.stop - slot.start for slot in slots)
    if len(indices) != wanted:
        raise ValueError(f"{type(sampler).__name__}.indices gave {len(indices)} indices for {wanted} positions")
    return indices


def jobs(slots: Iterator[Slot], maker: Maker, pace: Pace) -> Iterator[Callable[[], Block]]:
    """Jobs of as many consecutive slots of one epoch as the pace says when a job is drawn."""
    held: list[Slot] = []
    for slot in slots:
        held.append(slot)
        if len(held) >= pace.batches or slot.after.epoch != slot.epoch:
            yield partial(maker.make, held)
            held = []


class Stream:
    """Batches that a source gives in order, for one epoch. Pulled by one thread at a time.

    Args:
        batches: The source's batches; all but the last hold ``batch_size`` examples.
        maker: Finishes them.
        epoch: The epoch they are.
        batch_size: Examples in a batch.
        drop_last: Leave out a last batch that holds fewer.
    """

    def __init__(self, batches: Iterator[Batch], maker: Maker, epoch: int, batch_size: int, *, drop_last: bool) -> None:
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
        except Exception as error:  # noqa: BLE001 - it is raised in the consumer's thread, in its turn
            self.ended = True
            return Block([], error, reading_ns=perf_counter_ns() - begun)
        self.ended = self.ended or is_last
        if batch is None:
            return Block([])
        block = Block([Made(batch, self._slot(_rows(batch), is_last=is_last))], bytes=bytes_of(batch))
        block.reading_ns = perf_counter_ns() - begun
        return self._maker.finish(block)

    def _slot(self, rows: int, *, is_last: bool) -> Slot:
        start, self._position = self._position, self._position + rows
        after = Cursor(self._epoch + 1, 0) if is_last else Cursor(self._epoch, self._position)
        return Slot(self._epoch, start // self._batch_size, start, self._position, after)

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
