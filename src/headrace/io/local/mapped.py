"""Mapped files, open files for random access, and limits on how much is mapped.

Another process may truncate a mapped file while it is in use. Native functions detect that and raise the
:class:`~headrace.errors.CorruptFile` of :func:`headrace.io.faults.file_shrank_error` (see ``native/core/base/mapped_files.hpp``). Python code
reads mapped bytes through :meth:`MappedFile.read`, which copies, or inside :func:`guard_reads`.

Mapped pages count as memory of the process once they are touched. A sequential reader of a large set releases the pages it has read, so
memory does not grow with the files. Mapping them again costs less than reading into recycled memory (1.9 GB: an epoch takes 0.28 s from a
map, with or without releasing, and 0.45 s by reading). Random access to a map is several times faster than reads of 3 KB, so files stay
mapped while the set is small compared with the memory of the machine or container. The kernel evicts pages when it needs them. Larger
sets are read.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.contracts.values import Indices
from headrace.errors import CorruptFile, UnsupportedData, Where
from headrace.io.faults import close_quietly, file_shrank_error, name_in_errors
from headrace.io.local.signatures import FLAGS, BlockSums, Signature, no_file_error
from headrace.io.system import lock, most_open, usable_memory

__all__ = [
    "WINDOW_BYTES",
    "Descriptor",
    "Descriptors",
    "MappedFile",
    "can_map_more",
    "gives_views",
    "guard_reads",
    "limit_open",
    "read_ranges",
    "scattered_limit",
    "views",
]


IN_ORDER_MAPPED_BYTES = 256 << 20
"""Sets up to this size keep all pages for the next epoch."""
PASSED_BYTES = 64 << 20
"""How much of a larger set stays mapped behind a sequential reader."""
SCATTERED_MEMORY_SHARE = 0.25
MAPPED_BYTES = "HEADRACE_MAPPED_BYTES"
WINDOW_BYTES = 64 << 10  # what the kernel maps for one page fault
CAN_READ = hasattr(_native, "read_ranges")
MAPPINGS = 65_530  # of a process where the system does not say


@cache
def most_mapped() -> int:
    """How many files this process maps at once if it needs them: half of what the system allows, because memory and libraries need mappings too."""
    try:
        with open("/proc/sys/vm/max_map_count", encoding="utf-8") as file:
            return int(file.read()) // 2
    except (OSError, ValueError):
        return MAPPINGS // 2


def can_map_more() -> bool:
    """Whether a set that has many files mapped may map another one without dropping some."""
    return _native.HAS_MAPPED_FILE and _native.count_mapped() < most_mapped()


@cache
def scattered_limit() -> int:
    """The most bytes in total to map for random access. ``HEADRACE_MAPPED_BYTES`` overrides it."""
    given = os.environ.get(MAPPED_BYTES)
    if given is not None:
        return int(given)
    memory = usable_memory()
    return 1 << 30 if memory is None else int(memory * SCATTERED_MEMORY_SHARE)


def gives_views() -> bool:
    """Whether users get views of mapped bytes. With ``HEADRACE_MAPPED_BYTES=0`` they get copies: a view of a truncated file ends the process."""
    given = os.environ.get(MAPPED_BYTES)
    return given is None or int(given) > 0


_native.on_lost_file(file_shrank_error)


class MappedFile:
    """A file mapped read-only into memory. No descriptor stays open.

    Implements :class:`headrace.contracts.protocols.File`. Picklable (mapped again by path).

    Args:
        path: A relative path stays valid when the process changes its folder.
        expected: Refuse other versions of the file.
        entry: The cached file with the content, if ``path`` is compressed or remote.
        among: Where the files of its set are, which are mapped behind each other.

    Raises:
        NoFiles: There is no such file.
        CorruptFile: The file is not the expected version.
        UnsupportedData: It is a folder, a device or a socket.
    """

    __slots__ = ("_mapping", "_opened", "buffer", "fault", "path", "signature", "size")

    def __init__(
        self,
        path: str,
        *,
        expected: Signature | None = None,
        entry: str | None = None,
        among: _native.AdjacentPlaces | None = None,
    ) -> None:
        self.path: str = path
        self.fault: CorruptFile | None = None
        """The fault after the last byte, if the original compressed file is damaged."""
        self._opened = os.path.abspath(entry or path)
        fd = open_to_read(self._opened, path)
        try:
            self._map(fd, among, in_cache=entry is not None)
            if expected is not None:
                self.signature.check(expected, path)
        except OSError:
            with name_in_errors(path):
                raise
        finally:
            close_quietly(fd)

    def _map(self, fd: int, among: _native.AdjacentPlaces | None, *, in_cache: bool) -> None:
        if in_cache:
            lock(fd, shared=True)  # keeps the entry in the cache while it is mapped
        if _native.HAS_MAPPED_FILE:
            mapping = _map_natively(fd, self.path, self._opened, among)
            self._mapping: Any = mapping
            self.signature: Signature = Signature.of_open(fd, mapping)
            self.size: int = self.signature.size
        else:
            self.size = check_regular(fd, self.path)
            self.signature = Signature.of_open(fd)
            # An empty file cannot be mapped.
            self._mapping = mmap.mmap(fd, self.size, access=mmap.ACCESS_READ) if self.size else b""
        self.buffer: memoryview[int] = memoryview(self._mapping)
        """For native functions. Other code may read it only inside :func:`guard_reads`. Views of it keep the mapping alive."""

    @property
    def opened(self) -> str:
        """The file that is mapped: ``path``, or its copy in the cache."""
        return self._opened

    def cut(self, size: int) -> None:
        """Keep only the first ``size`` bytes."""
        self.buffer = memoryview(self._mapping)[:size]
        self.size = size

    def read(self, offset: int, size: int, /) -> memoryview:
        """A copy of ``size`` bytes, fewer at the end of the file.

        Raises:
            CorruptFile: The file shrank.
        """
        return memoryview(_native.copy_bytes(self.buffer, offset, size))

    def read_many(self, ranges: Sequence[tuple[int, int]], /) -> list[memoryview]:
        """Copies of several ``(offset, size)`` ranges."""
        return [self.read(offset, size) for offset, size in ranges]

    def view(self, offset: int, size: int, /) -> memoryview:
        """Like :meth:`read`, for users: without a copy if :func:`gives_views`. Reading such a view after the file shrank ends the
        process.
        """
        return self.buffer[offset : offset + size] if gives_views() else self.read(offset, size)

    def expect_all(self) -> None:
        """Have what is missing read in large parts, because all of it will be read; until reads are scattered."""
        if self.size and not isinstance(self._mapping, mmap.mmap):
            self._mapping.expect_all()

    def expect_scattered_reads(self, *, scattered: bool) -> None:
        """Turn read-ahead off for random access, or on again."""
        if isinstance(self._mapping, mmap.mmap):
            if hasattr(mmap, "MADV_RANDOM"):
                self._mapping.madvise(mmap.MADV_RANDOM if scattered else mmap.MADV_NORMAL)
        elif self.size:
            self._mapping.expect_scattered_reads(scattered)

    def drop(self, offset: int = 0, size: int | None = None) -> None:
        """Release resident pages. They are read again when needed."""
        size = self.size - offset if size is None else size
        if isinstance(self._mapping, mmap.mmap):
            _drop_pages(self._mapping, offset, size)
        elif self.size:
            self._mapping.drop(offset, size)

    def is_intact(self, sums: BlockSums) -> bool:
        """Compare all of it with checksums. Pages are released on the way, because it may be larger than memory."""
        for start in range(0, self.size, PASSED_BYTES):
            stop = min(start + PASSED_BYTES, self.size)
            if sums.damaged(self.buffer, np.array([start]), np.array([stop])) >= 0:
                return False
            if self.size > IN_ORDER_MAPPED_BYTES:
                self.drop(start, stop - start)
        return True

    def __len__(self) -> int:
        return self.size

    def __reduce__(self) -> tuple[object, ...]:
        return _map_again, (self.path, self._opened, self.signature, self.size, self.fault)

    def __repr__(self) -> str:
        return f"MappedFile({self.path!r}, {self.size} bytes)"


def _map_again(path: str, opened: str, signature: Signature, size: int, fault: CorruptFile | None) -> MappedFile:
    file = MappedFile(path, expected=signature, entry=opened)
    file.cut(size)
    file.fault = fault
    return file


def open_to_read(path: str, shown: str) -> int:
    """A descriptor of a file.

    Args:
        path: Where it is.
        shown: Its name in errors.

    Raises:
        NoFiles: There is no such file.
    """
    try:
        return open_descriptor(path)
    except FileNotFoundError as error:
        raise no_file_error(shown) from error
    except OSError:
        with name_in_errors(shown):
            raise


def check_regular(fd: int, path: str) -> int:
    """The size of an open file.

    Raises:
        UnsupportedData: It is not a regular file.
    """
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        found = "a folder" if stat.S_ISDIR(status.st_mode) else "a device or a pipe"
        raise UnsupportedData(Where(path=path), expected="a file", found=found)
    return status.st_size


def _map_natively(fd: int, shown: str, path: str, among: _native.AdjacentPlaces | None) -> _native.MappedFile:
    try:
        return _native.MappedFile(fd, None, shown, path, private=not gives_views(), among=among)
    except ValueError:
        check_regular(fd, shown)
        raise


def guard_reads(*buffers: Any) -> _native.GuardedRead:
    """A context in which this thread may read mapped buffers. It ends with :class:`~headrace.errors.CorruptFile` if a file shrank, so
    what was read is valid only after it. No generator may yield inside.
    """
    return _native.GuardedRead(*buffers)


def views(buffer: memoryview, parts: Iterable[tuple[int, int]]) -> Iterator[memoryview]:
    """Parts ``[start, stop)`` of a buffer for users: views or copies, like :meth:`MappedFile.view`."""
    for start, stop in parts:
        yield (buffer[start:stop] if gives_views() else memoryview(_native.copy_bytes(buffer, start, stop - start)))


def _drop_pages(mapping: mmap.mmap, offset: int, size: int) -> None:
    """Release the whole pages inside a range."""
    start, stop = -(-offset // mmap.PAGESIZE) * mmap.PAGESIZE, (offset + size) // mmap.PAGESIZE * mmap.PAGESIZE
    if stop > start and hasattr(mapping, "madvise"):
        mapping.madvise(mmap.MADV_DONTNEED, start, stop - start)


TOO_MANY_OPEN = (errno.EMFILE, errno.ENFILE)
# No locks here, which another thread could hold during a fork: single operations on a dict are atomic.
# Of each file kept open, the oldest first: a weak reference to its set, and its number in it.
_kept: dict[int, tuple[Any, int]] = {}
_reading: dict[int, None] = {}  # the threads that read now
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reading.clear)


def close_oldest(left: int) -> None:
    """Keep only this many files open. Those that a thread is reading are closed when it is done."""
    for fd in list(_kept)[: max(len(_kept) - left, 0)]:
        files, number = _kept.pop(fd, (None, 0))
        if files is not None and (open_files := files()) is not None:
            open_files.drop(number)


def open_descriptor(path: str) -> int:
    """Open a file to read from. If this process has too many files open, some that sets keep open are closed first."""
    try:
        return os.open(path, FLAGS)
    except OSError as error:
        if error.errno not in TOO_MANY_OPEN:
            raise
    close_oldest(len(_kept) // 2)
    return os.open(path, FLAGS)


@contextmanager
def limit_open() -> Iterator[int]:
    """While this thread reads: the most files that it may have open at once. All threads together have twice as many as are kept open."""
    _reading[threading.get_ident()] = None
    try:
        yield max(2 * most_open() // max(len(_reading), 1), 1)
    finally:
        _reading.pop(threading.get_ident(), None)


class Descriptor:
    """An open file, closed when its last reference is gone."""

    __slots__ = ("fd", "path")

    def __init__(self, path: str) -> None:
        self.path: str = path
        self.fd: int = open_descriptor(path)

    def __del__(self) -> None:
        if hasattr(self, "fd"):
            _kept.pop(self.fd, None)  # first, because another thread may get the same number for its file
            close_quietly(self.fd)


class Descriptors:
    """The open files of a set, by number. All sets of a process together keep few open. Safe in threads and after fork."""

    def __init__(self) -> None:
        self._open: dict[int, Descriptor] = {}

    def get(self, number: int) -> Descriptor | None:
        """File ``number`` if it is open."""
        return self._open.get(number)

    def opened(self, number: int, file: MappedFile, *, in_cache: bool) -> Descriptor:
        """File ``number``, opened again. A file in the cache gets new times whenever it is used, and is replaced by its like only.

        Raises:
            CorruptFile: It is another version than the one that was mapped.
        """
        if len(_kept) >= (most := most_open()):
            close_oldest(most * 3 // 4)
        opened = Descriptor(file.opened)
        if not in_cache:
            with name_in_errors(file.path):
                file.signature.check_open(opened.fd, file.path)
        if (kept := self._open.setdefault(number, opened)) is opened:  # no other thread was faster
            _kept[opened.fd] = (weakref.ref(self), number)
        return kept

    def drop(self, number: int) -> None:
        """Close file ``number`` when its last reader is done."""
        self._open.pop(number, None)


def read_ranges(
    files: Sequence[Descriptor], which: npt.NDArray[np.int32] | None, offsets: Indices, sizes: Indices
) -> tuple[npt.NDArray[np.uint8], Indices]:
    """Read ranges of open files into one array.

    Returns:
        The bytes, and the offset of each range.

    Args:
        files: The files.
        which: ``int32 (n,)``: the file of each range; ``None``: all in the first.
        offsets, sizes: ``int64 (n,)``: the first byte and the length of each range.

    Raises:
        OSError: A file cannot be read; it names the file.
        FormatError: A file ends before a range does.
    """
    try:
        found: Any = _native.read_ranges([file.fd for file in files], which, offsets, sizes)
    except OSError:
        for number, file in enumerate(files):  # Native code does not report which file failed.
            mine = slice(None) if which is None else which == number
            with name_in_errors(file.path):
                _native.read_ranges([file.fd], None, offsets[mine], sizes[mine])
        found = _native.read_ranges([file.fd for file in files], which, offsets, sizes)
    return found[0], found[1]
