"""What tables share: random access by blocks, of which the recent ones are kept, and writing."""

from __future__ import annotations

import io
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.contracts.records import Misfit
from headrace.contracts.values import Batch, Indices, Ragged, join, reordered
from headrace.errors import UnsupportedData, Where
from headrace.io.cache.inflate import deflater, parse_compression
from headrace.io.paths import PathLike
from headrace.io.write.atomic import AtomicFile

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["BlockTable", "ByteFile", "KeptColumns", "PackedFile", "refuse_misfits"]


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


def refuse_misfits(path: PathLike, misfits: Sequence[Misfit]) -> None:
    """Raise for the first feature that a format cannot hold.

    Raises:
        UnsupportedData: There is one.
    """
    for misfit in misfits:
        raise UnsupportedData(
            Where(path=str(path), feature=misfit.feature),
            expected=misfit.expected,
            found=misfit.found,
            hint=misfit.hint,
        )


class PackedFile:
    """An atomic file, in a GZIP or ZLIB stream if that is wanted."""

    def __init__(self, path: PathLike, compression: str) -> None:
        wrapper = parse_compression(compression) or "none"
        self._deflater: Any = None if wrapper == "none" else deflater(wrapper, -1)
        self.file = AtomicFile(path)

    def write(self, part: bytes) -> None:
        """Append bytes."""
        self.file.write(part if self._deflater is None else self._deflater.compress(part))

    def close(self) -> None:
        """Put the file into its place."""
        if not self.file.closed and self._deflater is not None:
            self.file.write(self._deflater.flush())
        self.file.close()

    def abort(self) -> None:
        """Leave no file behind."""
        self.file.abort()


class ByteFile(io.RawIOBase):
    """An atomic file as libraries want a file that they write in order. Closing it is left to its owner."""

    def __init__(self, file: AtomicFile) -> None:
        super().__init__()
        self.file = file

    def write(self, part: Buffer, /) -> int:
        """Append bytes. Libraries that end a file when they are thrown away write to one that was aborted, too."""
        return memoryview(part).nbytes if self.file.closed else self.file.write(part)

    def tell(self) -> int:
        """How many were written."""
        return self.file.size

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        """Do nothing: the owner closes, or aborts, the file itself."""

    def __del__(self) -> None:
        """Likewise."""

    def __reduce__(self) -> Any:
        raise TypeError("a file that is being written cannot be pickled")
