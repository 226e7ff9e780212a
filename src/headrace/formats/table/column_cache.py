"""Decoded columns that a table keeps: some blocks, or all rows, in memory or in a temporary file.

Nothing here holds a lock while a process may fork: single operations on a dict are atomic, and locks belong to one process.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from headrace.contracts.strings import Strings
from headrace.contracts.values import Indices, Ragged, join, size_of, take_rows
from headrace.io.cache.folder import cache_folder, cache_limit_bytes
from headrace.io.system import usable_memory
from headrace.io.threads import FORKS

__all__ = ["ColumnFile", "KeptColumns", "ProcessLocks", "RecurringTexts", "ScatterCount", "WholeColumns"]


MEMORY_SHARE = 8
"""One part in so many of the memory of this machine or container is what one table keeps."""
LEAST_BYTES = 64 << 20
MOST_KEPT_BYTES = 256 << 20
PASSING_BYTES = 64 << 20
"""So much is kept of columns that are read in order and do not all fit."""
MOST_WHOLE_BYTES = 4 << 30
FEW_PIECES = 4
LEAST_RECURRING_BYTES, LEAST_RECURRING_EACH, LEAST_RECURRING_RATIO = 4 << 20, 256, 8
"""Of texts that are held once each: bytes of all rows together, of each on average, and beside what they take so."""
WRITTEN_ROWS = 64
"""Of texts that recur, at a time: written out, they take far more memory."""
MOST_BEYOND = 2
"""How often more memory than planned whole columns may take: they are planned by the first block."""
TOUCHES = 4
"""How often rows are picked from each piece of the files, on average, before whole columns are made."""


class RecurringTexts:
    """A column of text or bytes, or of lists of those, in which each text is held once. Its rows are picked as those of other columns,
    and become :class:`Strings` or lists of them.

    Args:
        texts: Those that occur, ``(k,)``.
        codes: The column with the number of its text in place of each value: integers ``(n, ...)``, or lists of them.
    """

    def __init__(self, texts: Strings, codes: npt.NDArray[np.integer[Any]] | Ragged) -> None:
        self._texts = texts
        self._codes = codes

    @classmethod
    def of(cls, column: Any) -> RecurringTexts:
        """A column of any kind as one of these, in which each value has a text of its own."""
        if isinstance(column, cls):
            return column
        texts: Any = column.values if isinstance(column, Ragged) else column
        codes = np.arange(texts.size).reshape(texts.shape)
        flat = texts if texts.ndim == 1 else texts.reshape(-1)
        return cls(flat, Ragged(codes, column.offsets) if isinstance(column, Ragged) else codes)

    def __len__(self) -> int:
        return len(self._codes)

    def __getitem__(self, rows: slice | Indices) -> Any:
        codes: Any = self._codes[rows] if isinstance(rows, slice) else take_rows(self._codes, rows)
        has_lists = isinstance(self._codes, Ragged)
        return Ragged(self._texts_at(codes.values), codes.offsets) if has_lists else self._texts_at(codes)

    def _texts_at(self, codes: npt.NDArray[Any]) -> Strings:
        texts = self._texts.take(codes.reshape(-1))
        return texts if codes.ndim == 1 else texts.reshape(codes.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of texts and numbers."""
        return self._texts.nbytes + size_of(self._codes)

    def is_worth_it(self) -> bool:
        """Whether all rows, which are no lists, would take far more memory written out. Native code decides by the same numbers."""
        rows, lengths = len(self), self._texts.lengths
        if rows * int(lengths.max(initial=0)) < max(LEAST_RECURRING_BYTES, rows * LEAST_RECURRING_EACH):
            return False
        total = int(lengths[np.asarray(self._codes)].sum())
        least = max(LEAST_RECURRING_BYTES, rows * LEAST_RECURRING_EACH, LEAST_RECURRING_RATIO * self.nbytes)
        return total >= least

    @classmethod
    def concatenate(cls, columns: Sequence[Any]) -> RecurringTexts:
        """Columns end to end, of which some may be of other kinds."""
        parts = list(map(cls.of, columns))
        firsts = np.cumsum([0, *(len(part._texts) for part in parts[:-1])])
        codes = [_add(part._codes, first) for part, first in zip(parts, firsts, strict=True)]
        return cls(Strings.concatenate([part._texts for part in parts]), join(codes))


def _add(codes: Any, first: np.integer[Any]) -> Any:
    if isinstance(codes, Ragged):
        return Ragged(_add(codes.values, first), codes.offsets)
    return np.add(codes, first, dtype=np.int64)


def memory_share(most: int) -> int:
    """The bytes of columns that one table keeps in memory: an eighth of it, at least 64 MiB, at most ``most``."""
    return min(max((usable_memory() or 0) // MEMORY_SHARE, LEAST_BYTES), most)


class KeptColumns:
    """Decoded columns by block and name. The oldest are dropped when they exceed a number of bytes.

    Without a lock: two threads may keep the same column twice, which costs nothing but time.
    """

    def __init__(self, most_bytes: int | None = None) -> None:
        self.most_bytes: int = memory_share(MOST_KEPT_BYTES) if most_bytes is None else most_bytes
        self._columns: dict[tuple[int, str], tuple[Any, int]] = {}
        self._bytes = 0

    def get(self, block: int, name: str) -> Any:
        """The column, or ``None``."""
        found = self._columns.get((block, name))
        return None if found is None else found[0]

    def put(self, block: int, name: str, column: Any) -> None:
        """Keep a column, unless it alone exceeds the limit."""
        size = size_of(column)
        if size > self.most_bytes or (block, name) in self._columns:
            return
        self._columns[block, name] = (column, size)
        self._bytes += size
        self._shrink(self.most_bytes)

    def pass_on(self, block_bytes: int, all_bytes: int) -> None:
        """Note that reading goes on in order: from one block to the next one, which has about ``block_bytes`` of ``all_bytes``.

        Drops the oldest columns if not all of them fit: after the last block, the first one would be gone anyway. Two blocks stay,
        because other threads may still read the one before.
        """
        if all_bytes > self.most_bytes:
            self._shrink(max(PASSING_BYTES, 2 * block_bytes))

    def forget(self, names: Iterable[str]) -> None:
        """Drop these columns of all blocks."""
        unwanted = set(names)
        for key in [key for key in list(self._columns) if key[1] in unwanted]:
            self._drop(key)

    def _shrink(self, most_bytes: int) -> None:
        while self._bytes > most_bytes:
            try:
                oldest = next(iter(self._columns))
            except (StopIteration, RuntimeError):  # Another thread dropped it.
                return
            self._drop(oldest)

    def _drop(self, key: tuple[int, str]) -> None:
        self._bytes -= self._columns.pop(key, (None, 0))[1]


class ScatterCount:
    """How scattered the rows are that were asked for by index.

    Counts are approximate: threads may count at once.
    """

    def __init__(self) -> None:
        self.refused: set[str] = set()
        """Columns that cannot be made whole."""
        self._touched = 0

    def note(self, touched: int, count: int) -> bool:
        """Note that one call needs ``touched`` of ``count`` pieces of the files. Returns whether all rows should be made available at once."""
        self._touched += touched if touched > 1 or count < FEW_PIECES else 0
        return touched >= max(FEW_PIECES, count // 4) or self._touched > TOUCHES * count


class ProcessLocks:
    """Locks by key, for the threads of one process. A forked child has its own: a thread of its parent may hold one."""

    def __init__(self) -> None:
        self._locks: dict[Any, Lock] = {}

    def __getitem__(self, key: Any) -> Lock:
        return self._locks.setdefault((FORKS.count, key), Lock())


class ColumnFile:
    """A column whose rows are appended to temporary files, which no one else sees, and then mapped.

    The files have no name, so they go when the column does, however the process ends.

    Args:
        folder: Where they are.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: list[IO[bytes]] = []
        self._ends: list[int] = []
        self._pattern: Any = None

    def append(self, column: Any) -> None:
        """Write the rows of a column.

        Raises:
            OSError: The disk is full.
        """
        if isinstance(column, RecurringTexts):
            for first in range(0, len(column), WRITTEN_ROWS):
                self.append(column[first : first + WRITTEN_ROWS])
            return
        if self._pattern is None:
            self._pattern = column
        for number, array in enumerate(_arrays_in(column)):
            is_offsets = _is_offsets(number, column)
            if number == len(self._files):
                self._files.append(tempfile.TemporaryFile(dir=self._folder, buffering=0))  # noqa: SIM115 - see close()
                self._ends.append(0)
                if is_offsets:
                    _write(self._files[number], np.zeros(1, np.int64))
            if not is_offsets:
                _write(self._files[number], array)
            elif len(array) > 1:
                moved = array[1:] + (self._ends[number] - int(array[0]))
                self._ends[number] = int(moved[-1])
                _write(self._files[number], moved)

    def mapped(self) -> Any:
        """The whole column, mapped read-only."""
        arrays = []
        for file, pattern in zip(self._files, _arrays_in(self._pattern), strict=True):
            size = os.fstat(file.fileno()).st_size
            shape = (-1, *pattern.shape[1:])
            flat = np.memmap(file, pattern.dtype, "r") if size else np.zeros(0, pattern.dtype)
            arrays.append(np.asarray(flat).reshape(shape) if size else pattern[:0])
        self.close()
        return _assemble(self._pattern, iter(arrays))

    def close(self) -> None:
        """Close the files; what is mapped stays."""
        for file in self._files:
            file.close()
        self._files = []


def _arrays_in(column: Any) -> list[npt.NDArray[Any]]:
    """The arrays that a column consists of; offsets before what they point into."""
    if isinstance(column, Ragged):
        return [column.offsets, *_arrays_in(column.values)]
    if isinstance(column, Strings):
        return [column.offsets, column.content]
    return [column]


def _is_offsets(number: int, column: Any) -> bool:
    """Whether array ``number`` of a column holds offsets."""
    while isinstance(column, Ragged) and number:
        column, number = column.values, number - 1
    return number == 0 and isinstance(column, (Ragged, Strings))


def _assemble(pattern: Any, arrays: Iterator[npt.NDArray[Any]]) -> Any:
    """A column of the kind of ``pattern`` from its arrays."""
    first = next(arrays)
    if isinstance(pattern, Ragged):
        return Ragged(_assemble(pattern.values, arrays), first)
    if isinstance(pattern, Strings):
        inner = int(np.prod(pattern.shape[1:], dtype=np.int64))
        rows = (len(first) - 1) // inner if inner else len(pattern)
        return Strings.trust(next(arrays), first, pattern.is_text, (rows, *pattern.shape[1:]))
    return first


def _write(file: IO[bytes], array: npt.NDArray[Any]) -> None:
    left = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    while left:
        left = left[file.write(left) :]


class WholeColumns:
    """Columns of all rows, which random access reads from. Made by one thread each, from blocks in order.

    Args:
        most_bytes: How much of them is kept in memory. What would exceed it is written to temporary files in the cache folder, if
            there is room for it, and mapped.
    """

    def __init__(self, most_bytes: int | None = None) -> None:
        self.most_bytes: int = memory_share(MOST_WHOLE_BYTES) if most_bytes is None else most_bytes
        self._columns: dict[str, Any] = {}
        self._memory_bytes = 0
        self._file_bytes = 0
        self._refused = False
        """Whether they have turned out to be too large."""

    def get(self, name: str) -> Any:
        """The column, or ``None``."""
        return self._columns.get(name)

    def put(self, name: str, column: Any) -> None:
        """Keep a column that is in memory anyway."""
        self._columns[name] = column

    def fits_memory(self, estimate: int) -> bool:
        """Whether columns of about this many bytes fit in memory."""
        return self._memory_bytes + estimate <= self.most_bytes

    def has_room(self, estimate: int) -> bool:
        """Whether columns of about this many bytes can be kept at all."""
        return not self._refused and (self.fits_memory(estimate) or self._fits_disk(estimate))

    def _fits_disk(self, estimate: int) -> bool:
        return self._file_bytes + estimate <= cache_limit_bytes(cache_folder("decoded"))

    def fill(self, names: tuple[str, ...], blocks: Iterable[dict[str, Any]], estimate: int) -> bool:
        """Join the columns of all blocks. Returns whether there was room for them."""
        try:
            held = self._fill(names, blocks, in_memory=self.fits_memory(estimate))
        except OSError:  # The disk is full, or there is no folder to write to.
            held = False
        self._refused = self._refused or not held
        return held

    def _fill(self, names: tuple[str, ...], blocks: Iterable[dict[str, Any]], *, in_memory: bool) -> bool:
        """Join columns in memory or in files; those of texts that recur in memory, since written out they may take any room. Returns
        whether what is held in memory, which the first block does not show, was not too much.
        """
        parts: dict[str, list[Any]] = {}
        held = 0
        with _column_files(() if in_memory else names) as files:
            for number, block in enumerate(blocks):
                for name in names:
                    if number == 0 and (in_memory or isinstance(block[name], RecurringTexts)):
                        parts[name] = []
                    if name not in parts:
                        files[name].append(block[name])
                        continue
                    parts[name].append(block[name])
                    held += size_of(block[name])
                if self._memory_bytes + held > MOST_BEYOND * max(self.most_bytes, LEAST_BYTES):
                    return False
            for name in names:
                if name in parts:
                    self._columns[name] = _join(parts.pop(name))
                    self._memory_bytes += size_of(self._columns[name])
                else:
                    self._columns[name] = files[name].mapped()
                    self._file_bytes += size_of(self._columns[name])
        return True


def _join(columns: list[Any]) -> Any:
    if any(isinstance(column, RecurringTexts) for column in columns):
        return RecurringTexts.concatenate(columns)
    return join(columns)


@contextmanager
def _column_files(names: tuple[str, ...]) -> Iterator[dict[str, ColumnFile]]:
    folder = cache_folder("decoded")
    files = {name: ColumnFile(folder) for name in names}
    try:
        yield files
    finally:
        for file in files.values():
            file.close()
