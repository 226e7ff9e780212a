"""Rows of columns in memory, copied for a batch: those of blocks in which others do not fit, and those of text that is parsed once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from headrace import _native
from headrace.contracts.strings import Strings
from headrace.contracts.values import Batch, Indices, Ragged, copy_pooled, holds_numbers, join, size_of, take_rows
from headrace.errors import DataError, SchemaMismatch
from headrace.formats.table.column_cache import MOST_KEPT_BYTES, ProcessLocks, RecurringTexts, memory_share
from headrace.formats.table.values import BadValue
from headrace.io.system import spare_cores
from headrace.io.threads import ThreadPool

__all__ = ["FittingRows", "ParsedRows", "RowCopier", "cut_at_blocks", "is_plain", "merge_rows"]

Parse = Callable[[Indices], Batch]
MOST_TRIES = 8
"""Columns of a block that are found not to fit, one after the other, before all are decoded row by row."""
MORE, MORE_ROWS = 8, 512
"""A second epoch is under way once an eighth more rows have been asked for than there are, and so many: opening a file looks at some, too."""
SHORT_BYTES = 256
"""The most bytes of numbers in a row that is copied twice rather than for each column by itself."""
PARSED_BYTES = 1 << 20
"""About so many bytes of columns are parsed by one thread at a time, to be kept."""


class RowCopier:
    """Copies rows of some columns: numbers and text in one native call, because threads that copy them one by one wait for each other.

    Args:
        columns: By name. They must not change.
    """

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self.names: tuple[str, ...] = tuple(columns)
        self._columns = columns
        simple = {name: column for name, column in columns.items() if _is_numbers(column) or _is_flat_text(column)}
        self._simple = tuple(simple)
        self._copier = _native.Columns(list(simple.values()), Strings) if simple else None
        self._others = {name: column for name, column in columns.items() if name not in simple}

    @classmethod
    def join(cls, parts: Sequence[tuple[RowCopier, int, int]]) -> Batch:
        """The rows of several blocks, end to end. All blocks have the same columns.

        Args:
            parts: Of each block: what copies its rows, the first of them, and the one after the last.
        """
        first = parts[0][0]
        alike = {(copier._simple, copier.names) for copier, _, _ in parts} == {(first._simple, first.names)}
        simple = [(copier._copier, begin, end) for copier, begin, end in parts if copier._copier is not None]
        joined = _native.join_rows(simple) if alike and simple else None
        done = {} if joined is None else dict(zip(first._simple, joined, strict=True))
        others = {
            name: join([copier._columns[name][begin:end] for copier, begin, end in parts])
            for name in first.names
            if name not in done
        }
        return first._joined(done, others)

    def copy(self, begin: int, end: int) -> Batch:
        """The rows from ``begin`` to ``end``."""
        found = {} if self._copier is None else dict(zip(self._simple, self._copier.copy(begin, end), strict=True))
        return self._joined(found, {name: _rows_of(column, begin, end) for name, column in self._others.items()})

    def pick(self, indices: Indices) -> Batch:
        """The rows at indices that were checked."""
        found = {} if self._copier is None else dict(zip(self._simple, self._copier.pick(indices), strict=True))
        return self._joined(found, {name: take_rows(column, indices) for name, column in self._others.items()})

    def _joined(self, simple: Batch, others: Batch) -> Batch:
        if not others:
            return simple
        simple |= others
        return {name: simple[name] for name in self.names}


def merge_rows(batches: Sequence[Batch], order: Indices) -> Batch:
    """The rows of several batches end to end, taken in an order: columns of short rows of numbers, of rows that vary in length, and of text, if they
    are alike in all batches.

    Others are left out. Long rows are better copied batch by batch than twice.

    Args:
        batches: With the same columns.
        order: ``int64``: an index for each row.
    """
    found = _merge_varying(batches, order)
    names = [name for name, column in batches[0].items() if _is_short(column)]
    try:
        columns = [[batch[name] for name in names] for batch in batches if names]
        parts = [(_native.Columns(each, Strings), 0, len(each[0])) for each in columns]
        joined = _native.join_rows(parts) if parts else None
    except (TypeError, ValueError, BufferError):  # columns of other kinds beside those of the first
        return found
    if joined is not None:
        found |= zip(names, _native.Columns(joined, Strings).pick(order), strict=True)
    return found


def _merge_varying(batches: Sequence[Batch], order: Indices) -> Batch:
    """The columns whose rows vary in length, of :func:`merge_rows`."""
    found: Batch = {}
    for name, column in batches[0].items():
        columns = [batch[name] for batch in batches] if type(column) is Ragged else []
        if columns and all(type(each) is Ragged and holds_numbers(each) for each in columns):
            with suppress(TypeError):  # of another dtype or shape
                parts = [(each.values, each.offsets) for each in columns]
                found[name] = Ragged.trust(*_native.take_varying_rows(parts, order))
    return found


class FittingRows:
    """Picks rows of blocks in which other rows may hold what does not fit, such as a null.

    Args:
        block: Decodes these columns of a block as a whole.
        rows: Decodes these columns of rows of a block only, which takes longer. Rows count from the first one of the block.
    """

    def __init__(
        self,
        block: Callable[[int, Sequence[str]], Batch],
        rows: Callable[[int, Indices, Sequence[str]], Batch],
    ) -> None:
        self._block = block
        self._rows = rows
        self.misfits: set[tuple[int, str | None]] = set()
        """Blocks, and the columns in them that cannot be decoded as a whole."""

    def pick(self, indices: Indices, names: tuple[str, ...], firsts: Indices) -> Batch:
        """These columns of some rows. ``firsts`` is the first row of each block.

        Raises:
            SchemaMismatch: One of these rows does not fit.
        """
        which = firsts.searchsorted(indices, side="right") - 1
        picked, parts = [], []
        for block in np.unique(which).tolist():
            picked.append(np.flatnonzero(which == block))
            parts.append(self._pick_in(block, indices[picked[-1]] - firsts[block], names))
        order = np.argsort(np.concatenate(picked))
        done = merge_rows(parts, order)
        return {
            name: done[name] if name in done else take_rows(join([part[name] for part in parts]), order)
            for name in names
        }

    def _pick_in(self, block: int, rows: Indices, names: tuple[str, ...]) -> Batch:
        found: Batch = {}
        for _ in range(MOST_TRIES):
            fitting = [name for name in names if (block, name) not in self.misfits]
            try:
                columns = self._block(block, fitting) if fitting else {}
                found = {name: take_rows(columns[name], rows) for name in fitting}
                break
            except SchemaMismatch as error:
                self.misfits.add((block, error.where.feature))
        if len(found) < len(names):
            found |= self._rows(block, rows, [name for name in names if name not in found])
        return {name: found[name] for name in names}


class ParsedRows:
    """Rows of text, which takes long to parse. They are kept in the second epoch, so later ones copy them.

    Nothing is kept if all of them would take more than 256 MiB or an eighth of the machine's memory, or if one is damaged.
    All free cores parse them: several threads may read at once, and a main thread that works alone is helped by others.

    Args:
        count: How many rows there are.
        most_bytes: What may be kept.
    """

    def __init__(self, count: int, most_bytes: int | None = None) -> None:
        self._count = count
        self._most_bytes = memory_share(MOST_KEPT_BYTES) if most_bytes is None else most_bytes
        self._left = count + max(count // MORE, MORE_ROWS)  # rows that are asked for before those are kept
        self._held_bytes = 0
        self._piece = 0  # rows that are parsed together, to be kept; 0 before that is decided
        self._pieces: list[Batch | None] = []
        self._locks = ProcessLocks()
        self._copier: RowCopier | None = None
        self._is_refused = False

    def read(self, indices: Indices, parse: Parse) -> Batch:
        """The rows at indices that were checked, at least one. ``parse`` is not kept: it may belong to an owner of this."""
        if self._copier is None and self._is_worth_it(indices):
            try:
                self._keep_all(parse)
            except (DataError, BadValue, MemoryError):
                self._refuse()  # The row may not be needed.
        copier = self._copier
        if copier is None:
            return self._parse_once(indices, parse)
        first, count = int(indices[0]), len(indices)
        if int(indices[-1]) - first == count - 1 and (count == 1 or _native.is_run(indices)):
            return copier.copy(first, first + count)
        return copier.pick(indices)

    def _is_worth_it(self, indices: Indices) -> bool:
        """A single row is found sooner by itself."""
        return self._piece > 0 and not self._is_refused and len(indices) > 1

    def _parse_once(self, indices: Indices, parse: Parse) -> Batch:
        batch = parse(indices)
        self._left -= len(indices)  # Threads may lose some, which only delays it.
        if self._left <= 0 and len(indices) > 1 and not self._piece and not self._is_refused:
            row_bytes = sum(map(size_of, batch.values())) / len(indices)
            if not batch or row_bytes * self._count > self._most_bytes or not all(map(is_plain, batch.values())):
                self._refuse()
            else:
                piece = max(int(PARSED_BYTES / max(row_bytes, 1)), 1)
                self._pieces = [None] * -(-self._count // piece)
                self._piece = piece
        return batch

    def _refuse(self) -> None:
        self._is_refused = True
        self._pieces = []

    def _keep_all(self, parse: Parse) -> None:
        """Parse all rows, on all cores that are free."""
        pieces = self._pieces
        helpers = min(spare_cores(), len(pieces)) - 1
        if helpers > 0:
            with ThreadPool(helpers, "headrace-text") as pool:
                others = [pool.submit(self._parse_pieces, pieces, parse, wait=False) for _ in range(helpers)]
                self._parse_pieces(pieces, parse, wait=False)
                for other in others:
                    other.result()
        else:
            self._parse_pieces(pieces, parse, wait=False)
        self._parse_pieces(pieces, parse, wait=True)
        with self._locks["whole"]:
            if self._copier is None and not self._is_refused:
                found = [piece for piece in pieces if piece is not None]
                columns = {name: join([piece[name] for piece in found]) for name in found[0]}
                if not all(map(is_plain, columns.values())):
                    return self._refuse()
                self._copier = RowCopier(columns)
                self._pieces = []
        return None

    def _parse_pieces(self, pieces: list[Batch | None], parse: Parse, *, wait: bool) -> None:
        """Parse those that no other thread has begun; with ``wait``, also those that one has given up."""
        for number in range(len(pieces)):
            lock = self._locks[number]
            if pieces[number] is None and not self._is_refused and lock.acquire(blocking=wait):
                try:
                    if pieces[number] is None:
                        pieces[number] = self._parse_piece(number, parse)
                except BaseException:
                    self._refuse()  # Others need not go on.
                    raise
                finally:
                    lock.release()
            if self._held_bytes > self._most_bytes:  # The rows that were looked at are smaller than others.
                self._refuse()

    def _parse_piece(self, number: int, parse: Parse) -> Batch:
        start = number * self._piece
        found = parse(np.arange(start, min(start + self._piece, self._count)))
        self._held_bytes += sum(map(size_of, found.values()))
        return found


def cut_at_blocks(firsts: Indices, start: int, stop: int, size: int) -> list[int]:
    """Where to cut rows so that the only pieces with rows of two blocks have ``size`` rows. All pieces are multiples of that.

    >>> cut_at_blocks(np.array([0, 10, 20]), 4, 19, 3)
    [4, 10, 19]
    >>> cut_at_blocks(np.array([0, 10, 20]), 0, 18, 3)
    [0, 9, 12, 18]
    """
    within = firsts[firsts.searchsorted(start, side="right") : firsts.searchsorted(stop, side="left")]
    begins = start + (within - start) // size * size
    ends = begins + np.where(begins < within, size, 0)
    return sorted({start, stop, *begins.tolist(), *ends.tolist()})


def is_plain(column: Any) -> bool:
    """Whether a column consists of arrays without objects."""
    if isinstance(column, Ragged):
        return is_plain(column.values)
    return isinstance(column, (Strings, RecurringTexts)) or (isinstance(column, np.ndarray) and column.dtype != object)


def _is_numbers(column: Any) -> bool:
    """Whether a column is an array whose rows native code can copy."""
    return (
        type(column) is np.ndarray
        and column.dtype.isbuiltin == 1
        and column.dtype.kind in "biufc"
        and column.flags.c_contiguous
    )


def _is_short(column: Any) -> bool:
    if _is_numbers(column):
        return bool(column.strides[0] <= SHORT_BYTES)
    return _is_flat_text(column)


def _is_flat_text(column: Any) -> bool:
    return type(column) is Strings and len(column.shape) == 1


def _rows_of(column: Any, begin: int, end: int) -> Any:
    """Copies of a block's rows, because a batch may be written to. Text is read-only and stays a view."""
    if type(column) is np.ndarray:
        return copy_pooled(column[begin:end])
    if type(column) is Strings:
        return column[begin:end]
    return _detach(column[begin:end])


def _detach(column: Any) -> Any:
    if type(column) is Strings:
        return column
    return Ragged(_detach(column.values), column.offsets) if isinstance(column, Ragged) else copy_pooled(column)
