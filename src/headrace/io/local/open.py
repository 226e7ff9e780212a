"""Opens files and URLs: for their first bytes or size, many small files at once, and pipes.

Small files are read instead of mapped, because three system calls (open, read, close) cost less than a mapping. Native code makes these
calls without the GIL, so two threads read two batches at once.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.errors import CorruptFile, NoFiles, UnsupportedData, Where
from headrace.io.cache.mirror import copy_to_cache
from headrace.io.faults import close_quietly, name_in_errors
from headrace.io.local.mapped import MappedFile, check_regular, open_to_read
from headrace.io.store.listing import objects_exist, size_below
from headrace.io.store.object import RemoteFile, fetch_heads
from headrace.io.store.requests import RangeRequest, fetch
from headrace.io.system import walk
from headrace.io.urls import is_listing, is_url

__all__ = [
    "DIFFERENT",
    "FileHead",
    "FolderReader",
    "OutsideFolder",
    "PipeStream",
    "map_file",
    "open_file",
    "read_alike",
    "read_each",
    "read_whole",
    "request_files",
    "size_on_disk",
    "total_size",
]


DIFFERENT = -1
HEAD_BYTES = 4096
FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
MOST_FOLDERS = 4096
READS_FILES = hasattr(_native, "read_files")


def read_alike(paths: Sequence[bytes], head: bytes, size: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Read files that should all consist of the same first bytes and a body of ``size`` bytes.

    Args:
        paths: Absolute paths, as the file system encodes them.
        head: The first bytes.
        size: The size of the body.

    Returns:
        ``uint8 (n, size)``, and a status for each file: 0, :data:`DIFFERENT` if its head or size differs, or an
        errno. Rows of failed files are undefined.
    """
    if READS_FILES:
        found: Any = _native.read_files(list(paths), head, size)
        return found[0], found[1]
    bodies = np.empty((len(paths), size), np.uint8)
    status = np.zeros(len(paths), np.int64)
    for position, path in enumerate(paths):
        try:
            with open(path, "rb", buffering=0) as file:
                content = file.read(len(head) + size + 1)
        except OSError as error:
            status[position] = error.errno or DIFFERENT
            continue
        if len(content) != len(head) + size or not content.startswith(head):
            status[position] = DIFFERENT
        else:
            bodies[position] = np.frombuffer(content, np.uint8, size, len(head))
    return bodies, status


def request_files(paths: Iterable[bytes | str], *, follow_links: bool = True) -> None:
    """Ask the system to read small local files ahead, all at once, if this thread has been waiting for a disk. What is not there, or no
    regular file, is left out. Not for file servers: each file would be opened twice, one after the other, and some forget what was read ahead.
    """
    if READS_FILES and _native.has_read_from_disk():
        encoded: list[bytes] = []
        for path in paths:
            with suppress(ValueError):  # a name that no file can have
                encoded.append(os.fsencode(path))
        if len(encoded) > 1:
            _native.request_files(encoded, follow_links=follow_links)


def read_whole(path: bytes | str) -> bytes:
    """Read a whole file, in half the time of a file object.

    Raises:
        NoFiles: The file does not exist.
    """
    try:
        descriptor = os.open(path, FLAGS)
    except FileNotFoundError as error:
        raise NoFiles(Where(path=os.fsdecode(path)), expected="a file", found="nothing of that name") from error
    with name_in_errors(os.fsdecode(path)):
        return _read_all(descriptor)


def _read_all(descriptor: int, regular: str | None = None) -> bytes:
    """Read a whole open file and close it. ``regular`` is the path of a file that must be regular."""
    try:
        status = os.fstat(descriptor)
        if regular is not None and not stat.S_ISREG(status.st_mode):
            if stat.S_ISDIR(status.st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), regular)
            raise OutsideFolder(f"{regular}, which is no regular file")
        content = os.read(descriptor, status.st_size)
        if len(content) == status.st_size > 0:
            return content
        parts = [content]
        while part := os.read(descriptor, 1 << 20):  # a pipe, or a file still being written
            parts.append(part)
        return b"".join(parts)
    finally:
        close_quietly(descriptor)


class OutsideFolder(Exception):
    """A symbolic link out of a folder, or something other than a regular file."""


class FolderReader:
    """Reads files below one folder. Symbolic links must stay inside it.

    Each folder is resolved once, because that takes a system call for every part of its path.

    Args:
        folder: The folder. It may be a link itself.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._root = os.path.realpath(folder or ".")
        self._real: dict[str, str] = {}

    def read(self, name: str) -> bytes:
        """Read a whole file.

        Args:
            name: Its path relative to the folder.

        Raises:
            NoFiles: The file does not exist.
            OutsideFolder: It is outside the folder, or a pipe or a device.
        """
        parent, _, base = name.rpartition("/")
        real = f"{self._real.get(parent) or self._found(parent)}{base}"
        try:
            descriptor = os.open(real, FLAGS | NO_LINK)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.EMLINK):
                raise _as_no_files(error, real) from error
            descriptor = self._behind_link(real)
        with name_in_errors(real):
            return _read_all(descriptor, real)

    def request(self, names: Iterable[str]) -> None:
        """Ask the system to read files ahead that :meth:`read` will read; see :func:`request_files`."""
        request_files(filter(None, map(self._place, names)), follow_links=False)

    def _place(self, name: str) -> str | None:
        """Where a file is, if that is inside the folder."""
        parent, _, base = name.rpartition("/")
        try:
            return f"{self._real.get(parent) or self._found(parent)}{base}"
        except (OutsideFolder, ValueError):
            return None

    def _found(self, parent: str) -> str:
        """The resolved path of a folder, with a separator at its end."""
        real = self._check(os.path.realpath(os.path.join(self.folder, parent)))
        if len(self._real) >= MOST_FOLDERS:
            self._real.clear()
        self._real[parent] = os.path.join(real, "")
        return self._real[parent]

    def _behind_link(self, link: str) -> int:
        target = self._check(os.path.realpath(link))
        try:
            return os.open(target, FLAGS | NO_LINK)
        except OSError as error:
            raise _as_no_files(error, link) from error

    def _check(self, real: str) -> str:
        if real != self._root and not real.startswith(os.path.join(self._root, "")):
            raise OutsideFolder(f"a symbolic link to {real}")
        return real


def _as_no_files(error: OSError, path: str) -> OSError:
    if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENAMETOOLONG):
        return NoFiles(Where(path=path), expected="a file", found="nothing of that name")
    return error


class FileHead:
    """A local file opened for its first bytes. Those take one system call; the rest is mapped on request.

    Implements :class:`headrace.contracts.protocols.File`.

    Args:
        path: The file.
        head_bytes: The number of bytes to read at first.

    Raises:
        NoFiles: There is no such file.
        UnsupportedData: It is a folder, a device or a socket.
    """

    def __init__(self, path: str, head_bytes: int = HEAD_BYTES) -> None:
        self.path = path
        self._mapped: MappedFile | None = None
        fd = open_to_read(path, path)
        try:
            self.size: int = check_regular(fd, path)
            self._head = memoryview(os.read(fd, min(self.size, head_bytes)))
        except OSError:
            with name_in_errors(path):
                raise
        finally:
            close_quietly(fd)

    def read(self, offset: int, size: int, /) -> memoryview:
        """``size`` bytes, fewer at the end of the file."""
        if offset + size <= len(self._head) or len(self._head) == self.size:
            return self._head[offset : offset + size]
        return self.mapped().read(offset, size)

    def read_many(self, ranges: Sequence[tuple[int, int]], /) -> list[memoryview]:
        """Several ``(offset, size)`` ranges."""
        return [self.read(offset, size) for offset, size in ranges]

    def mapped(self) -> MappedFile:
        """The whole file, mapped."""
        if self._mapped is None:
            self._mapped = MappedFile(self.path)
        return self._mapped


def open_file(path: str) -> FileHead | RemoteFile:
    """Open a local or remote file to look at its first bytes."""
    return RemoteFile(path).known() if "://" in path and is_url(path) else FileHead(path)


def map_file(path: str) -> MappedFile:
    """Map a file. A remote one is copied into the cache first."""
    return copy_to_cache(RemoteFile(path)) if is_url(path) else MappedFile(path)


def size_on_disk(path: str) -> int:
    """The size of a file in bytes, before decompression.

    Raises:
        NoFiles: It does not exist.
    """
    return total_size([path])


def total_size(paths: Sequence[str]) -> int:
    """The total size of files and folders. All URLs are queried in parallel.

    Raises:
        NoFiles: A path does not exist.
    """
    remote = [RemoteFile(path) for path in paths if is_url(path)]
    try:
        fetch_heads(remote)
    except NoFiles:
        if not any(is_listing(file.path) for file in remote):
            raise
    return sum(map(_size_in_store, remote)) + sum(_size(path) for path in paths if not is_url(path))


def _size_in_store(file: RemoteFile) -> int:
    """The size of an object, or of all objects below a folder."""
    try:
        return file.size
    except NoFiles:
        if not is_listing(file.path) or not objects_exist([file.path])[0]:
            raise
        return size_below(file.path)


def _size(path: str) -> int:
    try:
        if os.path.isdir(path):
            return sum(Path(folder, name).stat().st_size for folder, _, names in walk(path) for name in names)
        return Path(path).stat().st_size
    except FileNotFoundError as error:
        if os.path.islink(path):
            return 0  # it leads nowhere, which reading it says
        raise NoFiles(Where(path=path), expected="a file", found="nothing of that name") from error


def read_each(paths: Sequence[str]) -> list[bytes]:
    """Read many small files. Remote ones are fetched at once.

    Raises:
        NoFiles: A file does not exist; ``where.path`` names it.
    """
    remote = {path: position for position, path in enumerate(dict.fromkeys(filter(is_url, paths)))}
    fetched = fetch([RangeRequest(path) for path in remote])
    request_files(path for path in paths if path not in remote)
    return [bytes(fetched[remote[path]].content) if path in remote else read_whole(os.fspath(path)) for path in paths]


PIPE_BYTES = 1 << 20
KEPT_BYTES = 16 << 20  # of the start, which is read twice: for the schema, and for the records


class PipeStream:
    """The bytes of a pipe.

    Reading the first byte opens the pipe, which waits for a writer. It can be iterated again until more than 16 MiB are read.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.fault: CorruptFile | None = None
        """Always ``None``: a pipe ends where its writer closes it."""
        self._file: IO[bytes] | None = None
        self._kept: list[bytes] | None = []
        self._kept_bytes = 0

    def __iter__(self) -> Iterator[bytes]:
        """The bytes in parts of any size.

        Raises:
            UnsupportedData: The start of the pipe was discarded.
        """
        if self._kept is None:
            raise UnsupportedData(
                Where(path=self.path),
                expected="a file, which can be read again",
                found="a pipe from which too much was read already",
                hint="Open it once for each pass, or copy it to a file.",
            )
        yield from list(self._kept)
        if self._file is None:
            self._file = open(self.path, "rb", buffering=0)  # noqa: SIM115 - as long as this object
        while part := self._read():
            self._keep(part)
            yield part

    def _read(self) -> bytes:
        assert self._file is not None
        with name_in_errors(self.path):
            return self._file.read(PIPE_BYTES)

    def _keep(self, part: bytes) -> None:
        self._kept_bytes += len(part)
        if self._kept_bytes > KEPT_BYTES:
            self._kept = None
        if self._kept is not None:
            self._kept.append(part)

    def __del__(self) -> None:
        if self._file is not None:
            self._file.close()
