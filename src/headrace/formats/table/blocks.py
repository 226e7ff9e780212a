"""Tables whose rows lie in blocks that are decoded as a whole."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from headrace import _native
from headrace.contracts.records import Checked
from headrace.contracts.values import Batch, Indices, join, size_of, take_rows
from headrace.errors import DataError, SchemaMismatch
from headrace.formats.index.places import BlockPlaces
from headrace.formats.table.base import TypedTable
from headrace.formats.table.column_cache import KeptColumns, ProcessLocks, ScatterCount, WholeColumns
from headrace.formats.table.copies import FittingRows, RowCopier, cut_at_blocks, is_plain
from headrace.formats.table.values import BadValue
from headrace.io.local.open import size_on_disk
from headrace.io.system import cached_property

__all__ = ["BlockReader", "BlockTable", "RowBlocks", "verify_blocks"]


WHOLE_AT_ONCE = 32
"""Columns that are joined in one pass: each may hold some temporary files open."""
AHEAD_BYTES = 32 << 20
MOST_AHEAD = 64


class _Recent(NamedTuple):
    """The block that was last read in order. Its rows are found without asking for each column."""

    names: tuple[str, ...]
    first: int
    stop: int
    size: int
    """Its bytes."""
    copier: RowCopier


class RowBlocks(ABC):
    """Rows that lie in blocks. A subclass gives :attr:`_firsts` and :meth:`_read_block`.

    Blocks that are read in order are decoded once and kept for a while. A thread that has to wait for a block that another one decodes
    takes another part of it, or the block after it. Rows from all over are read from *whole* columns, which are made of all blocks
    as soon as enough of the blocks are needed: picking rows from hundreds of blocks would take longer than decoding them.
    """

    @cached_property
    def _kept(self) -> KeptColumns:
        return KeptColumns()

    @cached_property
    def _whole(self) -> WholeColumns:
        return WholeColumns()

    @cached_property
    def _locks(self) -> ProcessLocks:
        return ProcessLocks()

    @cached_property
    def _recent(self) -> _Recent | None:
        return None

    @cached_property
    def _picker(self) -> RowCopier | None:
        return None

    @cached_property
    def _scatter(self) -> ScatterCount:
        return ScatterCount()

    @property
    @abstractmethod
    def _firsts(self) -> Indices:
        """``int64 (k + 1,)``: number of the first row of each block, and of all rows."""

    @abstractmethod
    def _read_block(self, block: int, names: Sequence[str]) -> Batch:
        """These columns of a whole block."""

    def _parts(self, block: int, names: tuple[str, ...]) -> Sequence[tuple[str, ...]]:  # noqa: ARG002 - for subclasses
        """The columns of a block in parts that several threads may decode at once."""
        return [names]

    def _group(self, block: int) -> Hashable:
        """Two parts of blocks are decoded at the same time only if their groups differ."""
        return block

    @cached_property
    def _pieces(self) -> Indices:
        """``int64 (k,)``: the number of the piece of the files that each block is in. A piece takes noticeably long to decode."""
        return np.arange(len(self._firsts) - 1)

    def _whole_columns(self, names: tuple[str, ...]) -> Batch:  # noqa: ARG002 - for subclasses
        """Those of some columns that need not be joined, because they are in one piece."""
        return {}

    def __len__(self) -> int:
        return int(self._firsts[-1])

    def _rows(self, indices: Indices, names: tuple[str, ...]) -> Batch:
        first, count = int(indices[0]), len(indices)
        if int(indices[-1]) - first == count - 1 and (count == 1 or _native.is_run(indices)):
            return self._run(first, first + count, names)
        firsts = self._firsts
        which = np.searchsorted(firsts, indices, side="right") - 1
        blocks = np.unique(which).tolist()
        if len(blocks) > 1 and not (blocks[-1] - blocks[0] == len(blocks) - 1 and bool((np.diff(indices) > 0).all())):
            self._gather_whole(blocks, names)
        whole = tuple(name for name in names if self._whole.get(name) is not None)
        found = self._picker_of(whole).pick(indices)
        if len(whole) == len(names):
            return found
        found |= self._pick(indices, which, blocks, tuple(name for name in names if name not in found))
        return {name: found[name] for name in names}

    def _picker_of(self, names: tuple[str, ...]) -> RowCopier:
        """What picks rows from these whole columns."""
        picker = self._picker
        if picker is None or picker.names != names:
            picker = self._picker = RowCopier({name: self._whole.get(name) for name in names})
        return picker

    def _run(self, start: int, stop: int, names: tuple[str, ...]) -> Batch:
        """The rows from ``start`` to ``stop``: slices of blocks."""
        block = self._recent
        if block is None or block.names != names or not block.first <= start < block.stop:
            block = self._enter(int(self._firsts.searchsorted(start, side="right")) - 1, names, stop - start)
        if stop <= block.stop:
            return block.copier.copy(start - block.first, stop - block.first)
        parts = [(block.copier, start - block.first, block.stop - block.first)]
        while block.stop < stop:
            number = int(self._firsts.searchsorted(block.stop, side="right")) - 1  # Blocks may be empty.
            block = self._enter(number, names, stop - start)
            parts.append((block.copier, 0, min(stop, block.stop) - block.first))
        return RowCopier.join(parts)

    def _enter(self, number: int, names: tuple[str, ...], gap: int) -> _Recent:
        """Begin to read a block in order. It follows the block before if at most ``gap`` rows are between them."""
        columns = self._block(number, names, until=number + 1 + self._blocks_ahead())
        first, stop = int(self._firsts[number]), int(self._firsts[number + 1])
        size = sum(map(size_of, columns.values()))
        before = self._recent
        if before is not None and before.stop <= first <= before.stop + gap:
            self._kept.pass_on(size, size * len(self) // max(stop - first, 1))
        copier = RowCopier({name: columns[name] for name in names})
        found = self._recent = _Recent(names, first, stop, size, copier)
        return found

    def _blocks_ahead(self) -> int:
        """How many blocks after the next one a thread may decode that would wait otherwise: as many as are surely kept until they are read."""
        recent = self._recent
        return 0 if recent is None else min(AHEAD_BYTES // max(recent.size, 1), MOST_AHEAD)

    def _pick(self, indices: Indices, which: Indices, blocks: list[int], names: tuple[str, ...]) -> Batch:
        """Rows of single blocks."""
        firsts = self._firsts
        if len(blocks) == 1:
            columns = self._block(blocks[0], names)
            return {name: take_rows(columns[name], indices - firsts[blocks[0]]) for name in names}
        picked = [np.flatnonzero(which == block) for block in blocks]
        order = np.argsort(np.concatenate(picked))
        parts: dict[str, list[Any]] = {name: [] for name in names}
        for block, mine in zip(blocks, picked, strict=True):
            columns = self._block(block, names)
            for name in names:
                parts[name].append(take_rows(columns[name], indices[mine] - firsts[block]))
        return {name: take_rows(join(columns), order) for name, columns in parts.items()}

    def _gather_whole(self, blocks: list[int], names: tuple[str, ...]) -> None:
        """Make whole columns if these blocks and those before them show that all are going to be needed."""
        refused, pieces = self._scatter.refused, self._pieces
        rest = tuple(name for name in names if name not in refused and self._whole.get(name) is None)
        if not rest or not self._scatter.note(len(np.unique(pieces[blocks])), int(pieces[-1]) + 1):
            return
        rows = int(self._firsts[blocks[0] + 1] - self._firsts[blocks[0]])
        sample = self._block(blocks[0], rest)
        plain = tuple(name for name in rest if is_plain(sample[name]))
        estimate = sum(size_of(sample[name]) for name in plain) * len(self) // max(rows, 1)
        try:
            if plain and self._whole.has_room(estimate):
                self._make_whole(plain, estimate)
        except (DataError, BadValue):
            pass  # The block may not be needed.
        refused.update(name for name in rest if self._whole.get(name) is None)

    def _make_whole(self, names: tuple[str, ...], estimate: int) -> None:
        """Each part by the first thread that comes; the others make other parts and wait at the end."""
        bunches = [names[at : at + WHOLE_AT_ONCE] for at in range(0, len(names), WHOLE_AT_ONCE)]
        parts = [part for bunch in bunches for part in self._parts(0, bunch)]
        waiting = []
        for part in parts:
            lock = self._locks["whole", part]
            if not lock.acquire(blocking=False):
                waiting.append(part)
                continue
            try:
                self._fill_whole(part, estimate * len(part) // len(names))
            finally:
                lock.release()
        for part in waiting:
            with self._locks["whole", part]:
                self._fill_whole(part, estimate * len(part) // len(names))

    def _fill_whole(self, names: tuple[str, ...], estimate: int) -> None:
        if all(self._whole.get(name) is not None for name in names) or not self._whole.has_room(estimate):
            return
        for name, column in self._whole_columns(names).items():
            self._whole.put(name, column)
        names = tuple(name for name in names if self._whole.get(name) is None)
        if not names:
            return
        blocks = (self._block(block, names, keep=False) for block in range(len(self._firsts) - 1))
        if self._whole.fill(names, blocks, estimate):
            self._kept.forget(names)

    def _block(self, block: int, names: Sequence[str], *, until: int = 0, keep: bool = True) -> Batch:
        """These columns of a block, each decoded by one thread.

        Args:
            block: Its number.
            names: The columns.
            until: The last of the blocks after it that this thread may decode while another one decodes this one.
            keep: Whether to keep what is decoded.
        """
        found = {name: column for name in names if (column := self._kept.get(block, name)) is not None}
        if len(found) == len(names):
            return found
        group, waiting = self._group(block), []
        for part in self._parts(block, tuple(names)):
            if all(name in found for name in part):
                continue
            lock = self._locks[group, part]
            if not lock.acquire(blocking=False):
                waiting.append(part)
                continue
            try:
                found |= self._decode(block, part, keep=keep)
            finally:
                lock.release()
        for part in waiting:
            lock = self._locks[group, part]
            for ahead in range(block + 1, min(until + 1, len(self._firsts) - 1)):
                if lock.locked():
                    self._decode_ahead(ahead, tuple(names), lock)
            with lock:
                found |= self._decode(block, part, keep=keep)
        return found

    def _decode(self, block: int, names: tuple[str, ...], *, keep: bool) -> Batch:
        """Some columns of a block. The caller holds the lock of that part."""
        found = {name: column for name in names if (column := self._kept.get(block, name)) is not None}
        missing = [name for name in names if name not in found]
        for name, column in (self._read_block(block, missing) if missing else {}).items():
            found[name] = column
            if keep:
                self._kept.put(block, name, column)
        return found

    def _decode_ahead(self, block: int, names: tuple[str, ...], other: Any) -> None:
        """Decode parts of a block that no thread has begun, as long as another lock is taken."""
        group = self._group(block)
        for part in self._parts(block, names):
            if not other.locked():
                return
            lock = self._locks[group, part]
            if any(self._kept.get(block, name) is None for name in part) and lock.acquire(blocking=False):
                try:
                    self._decode(block, part, keep=True)
                except (DataError, BadValue):
                    return  # It is raised when the rows are asked for.
                finally:
                    lock.release()


class BlockTable(RowBlocks, TypedTable):
    """A table that finds rows in blocks. A value that does not fit, such as a null, is an error only for those who ask for its row."""

    @cached_property
    def _fitting(self) -> FittingRows:
        return FittingRows(self._block, self._read_rows)

    def _rows(self, indices: Indices, names: tuple[str, ...]) -> Batch:
        if self._fitting.misfits:
            return self._fitting.pick(indices, names, self._firsts)
        try:
            return super()._rows(indices, names)
        except SchemaMismatch:
            return self._fitting.pick(indices, names, self._firsts)

    def _run(self, start: int, stop: int, names: tuple[str, ...]) -> Batch:
        if self._fitting.misfits:
            return self._fitting.pick(np.arange(start, stop), names, self._firsts)
        try:
            return super()._run(start, stop, names)
        except SchemaMismatch:
            return self._fitting.pick(np.arange(start, stop), names, self._firsts)

    def _read_rows(self, block: int, rows: Indices, names: Sequence[str]) -> Batch:
        """These columns of rows of a block, counted from its first one. A subclass converts no other rows."""
        columns = self._read_block(block, names)
        return {name: take_rows(columns[name], rows) for name in names}

    @cached_property
    def _has_text(self) -> dict[tuple[str, ...], bool]:
        return {}

    def has_text(self, names: tuple[str, ...]) -> bool:
        """Whether one of these columns is text. Kept, because every job asks, and a table may have many columns."""
        found = self._has_text.get(names)
        if found is None:
            found = self._has_text[names] = any(self.schema[name].is_text for name in names)
        return found

    def stored_bytes(self, first: int, stop: int) -> int:
        """About how many bytes the rows from ``first`` up to ``stop`` take: their share of their blocks."""
        return self._places.between(first, stop)

    @cached_property
    def _places(self) -> BlockPlaces:
        return BlockPlaces(self._firsts, self._block_sizes())

    def _block_sizes(self) -> Indices:
        """``int64 (k,)``: about how many bytes each block takes; zeros where that is not known."""
        return np.zeros(len(self._firsts) - 1, np.int64)

    def reader(self, names: tuple[str, ...]) -> BlockReader:
        """What reads these columns for indices that were checked."""
        return BlockReader(self, names)


class BlockReader:
    """Reads some columns of rows; those of several batches in pieces.

    Args:
        table: The rows.
        names: The columns.
    """

    def __init__(self, table: BlockTable, names: tuple[str, ...]) -> None:
        self._table = table
        self._names = names
        self._shares = table.has_text(names)
        """Whether rows of one block are views of it, so that only joining blocks copies them. Numbers are copied anyway."""

    def __call__(self, indices: Indices) -> Batch:
        """The rows at indices that were checked."""
        return self._table._rows(indices, self._names) if len(indices) else self._table._no_rows(self._names)

    def one(self, first: int, stop: int) -> Batch:
        """The rows of a single batch."""
        return self._table._run(first, stop, self._names)

    def run(self, first: int, stop: int, size: int) -> list[tuple[int, Batch]]:
        """The rows of batches of ``size``, joined as far as that copies no text. Each with its number of batches."""
        table, names = self._table, self._names
        if not self._shares or stop - first == size:
            return [((stop - first) // size, table._run(first, stop, names))]
        ends = cut_at_blocks(table._firsts, first, stop, size)
        return [((end - at) // size, table._run(at, end, names)) for at, end in pairwise(ends)]


def verify_blocks(table: BlockTable) -> Iterator[Checked]:
    """Read every block of every file, and check every value against the schema."""
    for path in table.paths:
        one, size, counted, reported = type(table)([path], given=table.given), size_on_disk(path), 0, ""
        try:
            firsts, names = one._firsts, tuple(one.schema)
        except DataError as fault:
            yield Checked(path, 0, size, [fault])
            continue
        for block in range(len(firsts) - 1):
            part = size * (block + 1) // (len(firsts) - 1) - counted
            counted += part
            try:
                one._read_block(block, names)
            except DataError as fault:
                yield Checked(path, 0, part, [fault] if str(fault) != reported else [])
                reported = str(fault)
            else:
                yield Checked(path, int(firsts[block + 1] - firsts[block]), part)
        yield Checked(path, 0, size - counted)
