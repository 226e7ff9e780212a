"""Files as memory: mapped, never loaded.

Another process may cut a mapped file off while it is in use. Native functions notice that by themselves and raise the
:class:`~headrace.errors.CorruptFile` of :func:`headrace.io.changed.shrank` (``native/core/mapped_files.hpp`` says how). Python code
reads mapped bytes through :meth:`MappedFile.read`, which copies, or inside :func:`guarded`.
"""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from headrace import _native
from headrace.errors import CorruptFile, UnsupportedData, Where
from headrace.io import mapping_limits
from headrace.io.changed import close_quietly, naming, shrank
from headrace.io.locks import lock
from headrace.io.paths import absolute
from headrace.io.signatures import FLAGS, Signature, vanished

__all__ = ["MappedFile", "guarded", "views"]

_native.on_lost_file(shrank)


class MappedFile:
    """A file mapped read-only into memory. Pages come and go with use; no descriptor stays open.

    Implements :class:`headrace.contracts.protocols.File`. Picklable (mapped again by path).

    Args:
        path: Relative paths stay valid when the process changes its folder.
        expected: Refuse the file if it is another version than this.
        entry: The file of the cache that holds the content, where ``path`` is compressed.

    Raises:
        NoFiles: There is no such file.
        CorruptFile: It is not the expected version.
        UnsupportedData: It is a folder, a device or a socket.
    """

    __slots__ = ("_mapping", "_opened", "buffer", "fault", "path", "signature", "size")

    def __init__(self, path: str, *, expected: Signature | None = None, entry: str | None = None) -> None:
        self.path = path
        self.fault: CorruptFile | None = None
        """What is wrong behind the last byte (where the compressed file that this comes from is damaged)."""
        self._opened = absolute(entry or path)
        self._map(expected, in_cache=entry is not None)

    def _map(self, expected: Signature | None, *, in_cache: bool = False) -> None:
        try:
            self._map_open(_opened(self._opened, self.path), in_cache=in_cache)
        except OSError:
            with naming(self.path):
                raise
        if expected is not None:
            self.signature.check(expected, self.path)

    def _map_open(self, fd: int, *, in_cache: bool) -> None:
        try:
            if in_cache:
                lock(fd, shared=True)  # Keeps it from being thrown out while it is mapped.
            _check_mappable(fd, self.path)
            self.signature = Signature.of_open(fd)
            self.size = self.signature.size
            self._mapping = _mapping(fd, self.size, self.path, self._opened)
        finally:
            close_quietly(fd)
        self.buffer = memoryview(self._mapping)
        """What native functions take, and nothing else may read outside of :func:`guarded`; views of it keep the mapping alive."""

    @property
    def opened(self) -> str:
        """The file that holds these bytes: ``path``, or what it was inflated to."""
        return self._opened

    def cut(self, size: int) -> None:
        """Leave out what stands behind the first ``size`` bytes."""
        self.buffer = memoryview(self._mapping)[:size]
        self.size = size

    def read(self, offset: int, size: int, /) -> memoryview:
        """A copy of ``size`` bytes, fewer at the end of the file.

        Raises:
            CorruptFile: The file was cut off.
        """
        return memoryview(_native.copy_bytes(self.buffer, offset, size))

    def read_many(self, ranges: Sequence[tuple[int, int]], /) -> list[memoryview]:
        """Copies of several ``(offset, size)`` ranges."""
        return [self.read(offset, size) for offset, size in ranges]

    def view(self, offset: int, size: int, /) -> memoryview:
        """As :meth:`read`, for users: without a copy where ``HEADRACE_MAPPED_BYTES`` lets them have views of mapped bytes. Whoever
        reads such a view when the file was cut off ends the process.
        """
        return self.buffer[offset : offset + size] if mapping_limits.gives_views() else self.read(offset, size)

    def expect_scattered_reads(self, *, scattered: bool) -> None:
        """Say whether the pages are read here and there, so that those around a missing one should not be read with it."""
        if isinstance(self._mapping, mmap.mmap):
            if hasattr(mmap, "MADV_RANDOM"):
                self._mapping.madvise(mmap.MADV_RANDOM if scattered else mmap.MADV_NORMAL)
        elif self.size:
            self._mapping.expect_scattered_reads(scattered)

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


def _check_mappable(fd: int, path: str) -> None:
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        raise UnsupportedData(
            Where(path=path), expected="a file", found="a folder" if stat.S_ISDIR(mode) else "a device or a pipe"
        )


def guarded(*buffers: Any) -> _native.GuardedRead:
    """A context in which this thread may read these buffers although their files may be cut off: leaving it raises the
    :class:`~headrace.errors.CorruptFile` then. What was read counts only after that. No generator may yield inside.
    """
    return _native.GuardedRead(*buffers)


def views(buffer: memoryview, parts: Iterable[tuple[int, int]]) -> Iterator[memoryview]:
    """Parts ``[start, stop)`` of a buffer for users: views, or copies as :meth:`MappedFile.view` has it."""
    for start, stop in parts:
        yield (
            buffer[start:stop]
            if mapping_limits.gives_views()
            else memoryview(_native.copy_bytes(buffer, start, stop - start))
        )


def _mapping(fd: int, size: int, name: str, opened: str) -> Any:
    if size == 0:
        return b""  # An empty file cannot be mapped, and need not be.
    if _native.HAS_MAPPED_FILE:
        place = os.fsencode(opened)
        shown = place if name == opened else os.fsencode(name)
        return _native.MappedFile(fd, size, shown, place, private=not mapping_limits.gives_views())
    return mmap.mmap(fd, size, access=mmap.ACCESS_READ)


def _drop_pages(mapping: mmap.mmap, offset: int, size: int) -> None:
    """Whole pages inside the range, as the system call wants them."""
    start = -(-offset // mmap.PAGESIZE) * mmap.PAGESIZE
    stop = (offset + size) // mmap.PAGESIZE * mmap.PAGESIZE
    if stop > start and hasattr(mapping, "madvise"):
        mapping.madvise(mmap.MADV_DONTNEED, start, stop - start)
