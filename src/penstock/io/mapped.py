"""Files as memory: mapped, never loaded."""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from typing import Any

from penstock import _native
from penstock.errors import CorruptFile
from penstock.io.changed import naming
from penstock.io.locks import lock
from penstock.io.paths import absolute
from penstock.io.signatures import FLAGS, Signature, vanished

__all__ = ["MappedFile"]


class MappedFile:
    """A file mapped read-only into memory. Pages come and go with use; no descriptor stays open.

    Implements :class:`penstock.contracts.protocols.File`. Picklable (mapped again by path).

    Args:
        path: Relative paths stay valid when the process changes its folder.
        expected: Refuse the file if it is another version than this.
        entry: The file of the cache that holds the content, where ``path`` is compressed.

    Raises:
        NoFiles: There is no such file.
        CorruptFile: It is not the expected version.
    """

    __slots__ = ("_mapping", "_opened", "buffer", "fault", "path", "signature", "size")

    def __init__(self, path: str, *, expected: Signature | None = None, entry: str | None = None) -> None:
        self.path = path
        self.fault: CorruptFile | None = None
        """What is wrong behind the last byte (where the compressed file that this comes from is damaged)."""
        self._opened = absolute(entry or path)
        self._map(expected, in_cache=entry is not None)

    def _map(self, expected: Signature | None, *, in_cache: bool = False) -> None:
        with naming(self.path):
            self._map_open(_opened(self._opened, self.path), in_cache=in_cache)
        if expected is not None:
            self.signature.check(expected, self.path)

    def _map_open(self, fd: int, *, in_cache: bool) -> None:
        try:
            if in_cache:
                lock(fd, shared=True)  # Keeps it from being thrown out while it is mapped.
            self.signature = Signature.of_open(fd)
            self.size = self.signature.size
            self._mapping = _mapping(fd, self.size)
        finally:
            os.close(fd)
        self.buffer = memoryview(self._mapping)
        """What native functions take; views of it keep the mapping alive."""

    @property
    def opened(self) -> str:
        """The file that holds these bytes: ``path``, or what it was inflated to."""
        return self._opened

    def cut(self, size: int) -> None:
        """Leave out what stands behind the first ``size`` bytes."""
        self.buffer = memoryview(self._mapping)[:size]
        self.size = size

    def read(self, offset: int, size: int, /) -> memoryview:
        """A view of ``size`` bytes, fewer at the end of the file."""
        return self.buffer[offset : offset + size]

    def read_many(self, ranges: Sequence[tuple[int, int]], /) -> list[memoryview]:
        """Views of several ``(offset, size)`` ranges."""
        return [self.buffer[offset : offset + size] for offset, size in ranges]

    def drop(self, offset: int = 0, size: int | None = None) -> None:
        """Let go of pages that are in memory. Reading them again brings them back."""
        size = self.size - offset if size is None else size
        if isinstance(self._mapping, mmap.mmap):
            _drop_pages(self._mapping, offset, size)
        elif self.size:
            self._mapping.drop(offset, size)

    def __len__(self) -> int:
        return self.size

    def __reduce__(self) -> tuple[object, ...]:
        return _remapped, (self.path, self._opened, self.signature, self.size, self.fault)

    def __repr__(self) -> str:
        return f"MappedFile({self.path!r}, {self.size} bytes)"


def _remapped(path: str, opened: str, signature: Signature, size: int, fault: CorruptFile | None) -> MappedFile:
    file = MappedFile(path, expected=signature, entry=opened)
    file.cut(size)
    file.fault = fault
    return file


def _opened(path: str, shown: str) -> int:
    try:
        return os.open(path, FLAGS)
    except FileNotFoundError as error:
        raise vanished(shown) from error


def _mapping(fd: int, size: int) -> Any:
    if size == 0:
        return b""  # An empty file cannot be mapped, and need not be.
    if _native.HAS_MAPPED_FILE:
        return _native.MappedFile(fd, size)
    return mmap.mmap(fd, size, access=mmap.ACCESS_READ)


def _drop_pages(mapping: mmap.mmap, offset: int, size: int) -> None:
    """Whole pages inside the range, as the system call wants them."""
    start = -(-offset // mmap.PAGESIZE) * mmap.PAGESIZE
    stop = (offset + size) // mmap.PAGESIZE * mmap.PAGESIZE
    if stop > start and hasattr(mapping, "madvise"):
        mapping.madvise(mmap.MADV_DONTNEED, start, stop - start)
