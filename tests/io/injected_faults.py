"""Injects faults of the operating system one at a time: the k-th call of a kind fails, for every k of a clean run.

    faults = Faults()
    with faults.counting():
        run()
    for kind in faults.kinds:
        for number in range(faults.counts[kind]):
            with faults.failing(kind, number, errno.EIO):
                ...

Only calls on files in the given folders count, so Python and pytest are not affected. A call by path is
identified by its path, one by descriptor by the file it is open on.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import threading
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

from headrace import _native

__all__ = ["ERRORS", "Faults"]

BY_FD = ("read", "pread", "write", "fsync", "ftruncate", "fstat", "lseek", "close")
BY_PATH = ("open", "stat", "replace", "rename", "link", "unlink", "mkdir", "rmdir", "listdir", "scandir", "utime")
ERRORS = {
    "read": (errno.EIO,),
    "pread": (errno.EIO,),
    "write": (errno.ENOSPC, errno.EIO),
    "fsync": (errno.EIO, errno.ENOSPC),
    "ftruncate": (errno.EIO,),
    "fstat": (errno.EIO,),
    "lseek": (errno.EIO,),
    "close": (errno.EIO, errno.ENOSPC),
    "open": (errno.EACCES, errno.EMFILE, errno.EIO),
    "stat": (errno.EACCES, errno.EIO),
    "replace": (errno.EACCES, errno.ENOSPC),
    "rename": (errno.EACCES,),
    "link": (errno.EPERM,),
    "unlink": (errno.EACCES,),
    "mkdir": (errno.ENOSPC, errno.EACCES),
    "rmdir": (errno.EACCES,),
    "listdir": (errno.EACCES, errno.EIO),
    "scandir": (errno.EACCES, errno.EIO),
    "utime": (errno.EACCES,),
    "map": (errno.ENOMEM, errno.ENODEV),
    "native read": (errno.EIO, errno.EMFILE),
}
"""What each kind of call may fail with."""


class Faults:
    """Wraps the calls that read and write files.

    Args:
        folders: Only calls below these count.
    """

    def __init__(self, *folders: Path) -> None:
        self.folders = tuple(os.path.realpath(folder) for folder in folders)
        self.counts: Counter[str] = Counter()
        self.fired: list[str] = []
        """The paths at which calls failed."""
        self._lock = threading.Lock()
        self._fail: dict[tuple[str, int], int | str] = {}
        self._watching = False

    @contextmanager
    def counting(self):
        """Count the calls in the block."""
        with self.failing_at({}):
            yield self

    def failing(self, kind: str, number: int, error: int | str):
        """In the block, one call fails with an errno, or does only part of its work (``"short"``)."""
        return self.failing_at({(kind, number): error})

    @contextmanager
    def failing_at(self, fail: dict[tuple[str, int], int | str]):
        """In the block, several calls fail."""
        self.counts.clear()
        self.fired.clear()
        self._fail = fail
        undo = [self._wrap(os, name, self._by_fd) for name in BY_FD]
        undo += [self._wrap(os, name, self._by_path) for name in BY_PATH]
        undo.append(self._replace(builtins, "open", self._opening(builtins.open)))
        undo.append(self._replace(io, "open", builtins.open))
        if _native.HAS_MAPPED_FILE:
            undo.append(self._replace(_native, "MappedFile", self._mapping(_native.MappedFile)))
        if hasattr(_native, "read_ranges"):
            undo.append(self._replace(_native, "read_ranges", self._ranges(_native.read_ranges)))
        self._watching = True
        try:
            yield self
        finally:
            self._watching = False
            for back in reversed(undo):
                back()

    @staticmethod
    def _replace(owner, name, new):
        old = getattr(owner, name)
        setattr(owner, name, new)
        return lambda: setattr(owner, name, old)

    def _wrap(self, owner, name, way):
        return self._replace(owner, name, way(name, getattr(owner, name)))

    def _is_ours(self, path) -> bool:
        if not isinstance(path, (str, bytes, os.PathLike)):
            return False
        text = os.path.abspath(os.fsdecode(os.fspath(path)))
        return any(text == folder or text.startswith(folder + os.sep) for folder in self.folders)

    def _due(self, kind: str, path) -> int | str | None:
        """The error for this call, if any."""
        if not self._watching:
            return None
        with self._lock:
            number = self.counts[kind]
            self.counts[kind] += 1
            found = self._fail.get((kind, number))
            if found is not None:
                self.fired.append(os.fsdecode(path))
            return found

    def _path_of(self, fd):
        try:
            return READLINK(f"/proc/self/fd/{fd}")
        except OSError:
            return None

    def _by_fd(self, name, real):
        def call(fd, *args, **kwargs):
            path = self._path_of(fd) if self._watching and isinstance(fd, int) else None
            if path is None or not self._is_ours(path.removesuffix(" (deleted)")):
                return real(fd, *args, **kwargs)
            due = self._due(name, path)
            if due == "short":
                return self._short(name, real, fd, *args)
            if due is not None:
                if name == "close":
                    real(fd)  # Linux closes it even when it reports an error
                raise OSError(due, os.strerror(due))
            return real(fd, *args, **kwargs)

        return call

    @staticmethod
    def _short(name, real, fd, *args):
        """Half of the requested bytes, as the system may return."""
        if name == "write":
            return real(fd, memoryview(args[0]).cast("B")[: max(1, len(args[0]) // 2)])
        return real(fd, max(1, args[0] // 2), *args[1:])

    def _by_path(self, name, real):
        def call(path=".", *args, **kwargs):
            if not self._watching or not self._is_ours(path):
                return real(path, *args, **kwargs)
            due = self._due(name, path)
            if due is not None:
                raise OSError(due, os.strerror(due), os.fspath(path))
            return real(path, *args, **kwargs)

        return call

    def _opening(self, real):
        def call(file, *args, **kwargs):
            if not self._watching or not self._is_ours(file):
                return real(file, *args, **kwargs)
            due = self._due("open", file)
            if due is not None:
                raise OSError(due, os.strerror(due), os.fspath(file))
            opened = real(file, *args, **kwargs)
            return _Stream(opened, self, os.fspath(file))

        return call

    def _mapping(self, real):
        def call(fd, size, *args, **options):
            path = self._path_of(fd)
            if self._watching and path is not None and self._is_ours(path):
                due = self._due("map", path)
                if due is not None:
                    raise OSError(due, os.strerror(due))
            return real(fd, size, *args, **options)

        return call

    def _ranges(self, real):
        def call(fds, *args, **options):
            path = self._path_of(fds[0]) if fds else None
            if self._watching and path is not None and self._is_ours(path):
                due = self._due("native read", path)
                if due is not None:
                    raise OSError(due, os.strerror(due))
            return real(fds, *args, **options)

        return call


READLINK = os.readlink


class _Stream:
    """A file object whose reads, writes and flushes may fail."""

    def __init__(self, file, faults: Faults, path: str) -> None:
        self.__dict__.update(_file=file, _faults=faults, _path=path)

    def _check(self, kind: str) -> None:
        due = self._faults._due(kind, self._path)
        if isinstance(due, int):
            raise OSError(due, os.strerror(due))

    def read(self, *args):
        self._check("read")
        return self._file.read(*args)

    def readinto(self, *args):
        self._check("read")
        return self._file.readinto(*args)

    def readline(self, *args):
        self._check("read")
        return self._file.readline(*args)

    def write(self, *args):
        self._check("write")
        return self._file.write(*args)

    def __iter__(self):
        self._check("read")
        return iter(self._file)

    def __enter__(self):
        self._file.__enter__()
        return self

    def __exit__(self, *args):
        self.close()

    def close(self):
        if not self._file.closed:
            self._file.close()
            self._check("close")

    def __getattr__(self, name):
        return getattr(self._file, name)

    def __setattr__(self, name, value):
        setattr(self._file, name, value)
