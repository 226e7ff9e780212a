"""Random access to tables that are stored in blocks: the columns of blocks that were read are kept for a while."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.contracts.columns import join, reordered
from headrace.contracts.values import Batch, Indices, Ragged

__all__ = ["BlockTable", "KeptColumns"]

KEPT_BYTES = 256 << 20
"""Of decoded columns that one table keeps."""
OBJECT_BYTES = 64  # a Python bytes or str, about, besides what it holds


class KeptColumns:
    """Decoded columns by block and name; the oldest go when there are too many bytes.

    No lock, which another thread could hold when the process forks: single operations on a dict are atomic, and a column that
    two threads decode at once is decoded twice.
    """

    def __init__(self, most_bytes: int = KEPT_BYTES) -> None:
        self.most_bytes = most_bytes
        self._columns: dict[tuple[int, str], tuple[Any, int]] = {}
        self._bytes = 0

    def get(self, block: int, name: str) -> Any:
        """The column, or ``None``."""
        found = self._columns.get((block, name))
        return None if found is None else found[0]

    def put(self, block: int, name: str, column: Any) -> None:
        """Keep a column, unless it is larger than all that may be kept."""
        size = _size_of(column)
        if size > self.most_bytes or (block, name) in self._columns:
            return
        self._columns[block, name] = (column, size)
        self._bytes += size
        while self._bytes > self.most_bytes:
            try:
                oldest = next(iter(self._columns))
            except (StopIteration, RuntimeError):  # Another thread was faster.
                return
            self._bytes -= self._columns.pop(oldest, (None, 0))[1]


class BlockTable:
    """The part of a table that finds rows in blocks. A subclass gives ``_firsts`` and ``_read_block``."""

    _kept: KeptColumns

    @property
    @abstractmethod
    def _firsts(self) -> Indices:
        """``int64 (k + 1,)``: number of the first row of each block, and of all rows."""

    @abstractmethod
    def _read_block(self, block: int, names: Sequence[str]) -> Batch:
        """These columns of a whole block."""

    def __len__(self) -> int:
        return int(self._firsts[-1])

    def batch(self, indices: Indices, names: tuple[str, ...]) -> Batch:
        """Rows by index; each block that is needed is decoded once, and kept."""
        firsts = self._firsts
        if len(indices) and not 0 <= int(indices.min()) <= int(indices.max()) < firsts[-1]:
            raise IndexError(f"rows {indices.min()} to {indices.max()} of {firsts[-1]}")
        if not len(indices):
            return self._no_rows(names)
        which = np.searchsorted(firsts, indices, side="right") - 1
        blocks = np.unique(which).tolist()
        if len(blocks) == 1:
            columns = self._block(blocks[0], names)
            return {name: reordered(columns[name], indices - firsts[blocks[0]]) for name in names}
        picked = [np.flatnonzero(which == block) for block in blocks]
        order = np.argsort(np.concatenate(picked))
        parts: dict[str, list[Any]] = {name: [] for name in names}
        for block, mine in zip(blocks, picked, strict=True):
            columns = self._block(block, names)
            for name in names:
                parts[name].append(reordered(columns[name], indices[mine] - firsts[block]))
        return {name: reordered(join(columns), order) for name, columns in parts.items()}

    @abstractmethod
    def _no_rows(self, names: Sequence[str]) -> Batch:
        """Columns without rows."""

    def _block(self, block: int, names: Sequence[str]) -> Batch:
        found = {name: self._kept.get(block, name) for name in names}
        missing = [name for name, column in found.items() if column is None]
        if missing:
            for name, column in self._read_block(block, missing).items():
                found[name] = column
                self._kept.put(block, name, column)
        return found


def _size_of(column: Any) -> int:
    if isinstance(column, Ragged):
        return _size_of(column.values) + int(column.offsets.nbytes)
    if column.dtype == object:
        return sum(len(value) for value in column.reshape(-1)) + OBJECT_BYTES * int(column.size)
    return int(column.nbytes)
