"""Atomic files, background appending, and temporary storage for bytes."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Self, cast

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.contracts.protocols import Piece
from headrace.io.faults import close_quietly, name_in_errors, name_target, refuse_special_file
from headrace.io.names import as_shard
from headrace.io.paths import PathLike
from headrace.io.store.commit import finish_object_names
from headrace.io.store.upload import check_writable, is_uploaded, staging_folder, upload
from headrace.io.system import lock, sync_folder
from headrace.io.threads import BackgroundCalls
from headrace.io.write.pending import defer_rename, remove_abandoned, temporary_name

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["Appender", "AtomicFile", "Closing", "spool", "write_atomic"]


BEHIND_BYTES = 1 << 20  # smaller files are written before a thread would have started
WRITE_BACK_BYTES = 4 << 20
"""190 MB are written and durable in 85 ms. With 16 MB at a time it takes 100 ms, with one sync at the end 145 ms."""


class Appender:
    """Appends to an open file, directly or in the background.

    Args:
        fd: Open for writing, at its start. The caller closes it.
        path: Its name in errors.
        durable: Start writing to disk early, because the file will be synced.
    """

    def __init__(self, fd: int, path: str, *, durable: bool) -> None:
        self.size: int = 0
        """Bytes appended so far, including pending ones."""
        self._fd = fd
        self._path = path
        self._durable = durable
        self._written = 0
        self._written_back = 0
        self._behind: BackgroundCalls | None = None

    def append(self, view: memoryview) -> None:
        """Append bytes now."""
        self.wait()
        self.size += len(view)
        self._write(view)

    def give(self, view: memoryview) -> None:
        """Append bytes that will not change, directly or in the background."""
        if self.size < BEHIND_BYTES:
            self.append(view)
            return
        if self._behind is None:
            self._behind = BackgroundCalls()
        self.size += len(view)
        self._behind.add(partial(self._write, view))

    def place(self, pieces: Sequence[Piece], threads: int) -> None:
        """Append pieces, several at a time."""
        from headrace.io.write.pieces import write_pieces  # imported here, because few programs write

        self.wait()
        begun = self.size
        self.size = write_pieces(pieces, self._fd, begun, self._path, threads=threads, durable=self._durable)
        self._written += self.size - begun
        self._written_back = self._written
        with name_in_errors(self._path):
            os.lseek(self._fd, 0, os.SEEK_END)

    def overwrite(self, offset: int, view: memoryview) -> None:
        """Overwrite bytes that were appended."""
        self.wait()
        with name_in_errors(self._path):
            os.lseek(self._fd, offset, os.SEEK_SET)
            self._put(view)
            os.lseek(self._fd, 0, os.SEEK_END)

    def wait(self) -> None:
        """Wait until everything is written."""
        if self._behind is not None:
            self._behind.wait()

    def abandon(self) -> None:
        """Drop pending bytes."""
        if self._behind is not None:
            self._behind.abandon()

    def _write(self, view: memoryview) -> None:
        self._put(view)
        self._written += len(view)
        # Start writing to disk early, so that the final sync is short.
        if self._durable and self._written - self._written_back >= WRITE_BACK_BYTES:
            _native.start_writing_back(self._fd, self._written_back, self._written - self._written_back)
            self._written_back = self._written

    def _put(self, view: memoryview) -> None:
        with name_in_errors(self._path):
            while view:
                view = view[os.write(self._fd, view) :]


GATHER_BYTES = 128 << 10  # small writes are joined up to here: a system call per record would cost more than its bytes


class Closing(ABC):
    """A context that calls ``close`` at its end, or ``abort`` if left by an exception."""

    @abstractmethod
    def close(self) -> None:
        """Complete what was written."""

    @abstractmethod
    def abort(self) -> None:
        """Remove what was written."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()


class AtomicFile(Closing):
    """A file that appears under its name only once complete.

    Bytes go to a hidden temporary file in the same folder, which ``close`` flushes to the disk and renames. After an exception,
    ``abort``, a kill or a power failure the final name is unchanged. A file for a store is written to the cache folder and uploaded by
    ``close``.

    Args:
        path: The final name. ``close`` replaces an existing file, or the target of a symbolic link. Permissions of a file of the same
            user are kept.
        durable: Whether ``close`` waits until the bytes are on disk. ``False`` suits caches.

    Raises:
        OSError: The folder is not writable.
        NoFiles: The folder does not exist.
        UnsupportedData: A pipe or a device has the name.
        NoFiles, Unreachable, UnsupportedData: The URL cannot be written to; see :mod:`headrace.io.store.upload`.
    """

    def __init__(self, path: PathLike, *, durable: bool = True) -> None:
        self._fd = -1
        self._is_pending = False  # the temporary file exists
        self.path: str = os.fspath(path)
        self._is_uploaded = is_uploaded(self.path)
        if self._is_uploaded:
            check_writable(self.path)
            if _is_shard(self.path, at=0):
                finish_object_names(self.path)  # what a killed run has left would make readers refuse the new shards
        else:
            refuse_special_file(self.path)
        self._durable = durable
        self._ended = False
        self._process = os.getpid()
        self._target = os.path.join(staging_folder(), "object") if self._is_uploaded else os.path.realpath(self.path)
        self._gathered = bytearray()
        folder, name = os.path.split(self._target)
        remove_abandoned(folder, name)
        self._temporary = os.path.join(folder, temporary_name(name))
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        with name_target(self._target):
            self._fd = os.open(self._temporary, flags, 0o666)
        shown = f"{self._temporary} for {self.path}" if self._is_uploaded else self.path  # a full disk is the cache's
        self._bytes = Appender(self._fd, shown, durable=durable and not self._is_uploaded)
        self._is_pending = True
        _keep_permissions(self._fd, self._target)
        # Held while this process lives, for writers on other machines.
        lock(self._fd)

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._bytes.size + len(self._gathered)

    @property
    def folder(self) -> str:
        """The folder of the temporary file, which most likely has space for more."""
        return os.path.dirname(self._target)

    @property
    def closed(self) -> bool:
        """Whether the file was closed or aborted."""
        return self._ended or self._fd < 0

    def write(self, part: Buffer | npt.NDArray[Any]) -> int:
        """Append bytes (of an array: in C order). Large parts are not copied."""
        return self._take(part, given=False)

    def give(self, part: Buffer | npt.NDArray[Any]) -> int:
        """Append bytes that will not change. A background thread may write them."""
        return self._take(part, given=True)

    def place(self, pieces: Sequence[Piece], *, threads: int = 1) -> None:
        """Append pieces, each one a part of the file whose size is known: several at a time."""
        if self.closed:
            raise ValueError(f"{self.path} is closed")
        self._flush()
        self._bytes.place(pieces, threads)

    def write_text(self, text: str) -> int:
        """Append text as UTF-8."""
        return self.write(text.encode())

    def overwrite(self, offset: int, part: Buffer) -> None:
        """Overwrite bytes that were written."""
        view = _bytes_of(part)
        if self.closed or not 0 <= offset <= self.size - len(view):
            raise ValueError(
                f"bytes {offset} to {offset + len(view)} of {self.path} cannot be overwritten: they are not written yet"
            )
        self._flush()
        self._bytes.overwrite(offset, view)

    def close(self) -> None:
        """Move the complete file into place, now or together with others (:class:`DeferredRenames`). A second call does nothing.

        Raises:
            OSError: The disk is full, the folder is gone, ... The final name is unchanged.
            Unreachable: The store refuses the upload. The final name is unchanged.
        """
        if self.closed:
            return
        self._ended = True
        try:
            self._flush()
            self._bytes.wait()
            self._check_size()
            if not self._is_uploaded and defer_rename(self):
                return
            self.make_durable()
            folder = self.give_name()
        except BaseException:
            self._discard()
            raise
        if folder:
            sync_folder(folder)

    def make_durable(self) -> None:
        """Wait until the bytes are on disk, if the file is durable."""
        if self._durable and not self._is_uploaded:
            with name_in_errors(self.path):
                os.fsync(self._fd)

    def close_fd(self) -> None:
        """Close the descriptor of a complete file that is not renamed yet."""
        if self._fd >= 0:
            with name_in_errors(self.path):  # file servers may report lost bytes only now
                os.close(self._release())

    def give_name(self, instead: str = "") -> str:
        """Rename the complete file, to its final name or to another one in the same file system. Returns the folder if it must be synced, or ""."""
        try:
            self.close_fd()
            if self._is_uploaded:
                upload(self._temporary, self.path)
                os.unlink(self._temporary)
                if _is_shard(self.path, at=-1):
                    finish_object_names(self.path)  # a journal that could not be finished before
            else:
                os.replace(self._temporary, instead or self._target)
        except BaseException:
            self._discard()
            raise
        self._is_pending = False
        if self._is_uploaded:
            return ""
        return os.path.dirname(self._target) if self._durable else ""

    def abort(self) -> None:
        """Remove what was written. Does nothing once the file has its name."""
        if self._is_pending:
            self._discard()

    def __del__(self) -> None:
        self.abort()

    def _take(self, part: Buffer | npt.NDArray[Any], *, given: bool) -> int:
        if self.closed:
            raise ValueError(f"{self.path} is closed")
        view = _bytes_of(part)
        if len(self._gathered) + len(view) >= GATHER_BYTES:
            self._flush()
        if len(view) < GATHER_BYTES:
            self._gathered += view
        elif given:
            self._bytes.give(view)
        else:
            self._bytes.append(view)
        return len(view)

    def _flush(self) -> None:
        if self._gathered:
            gathered, self._gathered = self._gathered, bytearray()
            self._bytes.append(memoryview(gathered))

    def _check_size(self) -> None:
        """Refuse to complete a file after a failed write."""
        with name_in_errors(self.path):
            found = os.fstat(self._fd).st_size
        if found != self.size:
            raise OSError(errno.EIO, f"{found} of {self.size} bytes were written", self.path)

    def _release(self) -> int:
        fd, self._fd = self._fd, -1
        return fd

    def _discard(self) -> None:
        # In a forked child the file still belongs to the parent.
        is_ours = self._process == os.getpid()
        if self._fd >= 0:
            if is_ours:
                self._bytes.abandon()
            close_quietly(self._release())
        self._gathered = bytearray()
        self._is_pending = False
        if not is_ours:
            return
        with contextlib.suppress(OSError):  # already gone, or its folder is
            os.unlink(self._temporary)


def _keep_permissions(fd: int, old: str) -> None:
    """Give a new file the permissions of the one that it replaces, now, so that others never read what was private.

    Another user's file is left alone: with its permissions, but as ours, that user might not read it.
    """
    try:
        before, found = os.stat(old), os.fstat(fd)
        if before.st_uid != found.st_uid or not stat.S_ISREG(before.st_mode):
            return
        mode = stat.S_IMODE(before.st_mode) & 0o777
        if before.st_gid != found.st_gid:
            try:
                os.fchown(fd, -1, before.st_gid)
            except OSError:  # not a group of this user: those of another one get no permissions
                mode &= 0o707
        if mode != stat.S_IMODE(found.st_mode):
            os.fchmod(fd, mode)
    except (OSError, AttributeError):  # there is none, or the file system or the platform has no permissions
        return


def _is_shard(path: str, *, at: int) -> bool:
    """Whether this is the name of the shard of this number; -1 is the last one."""
    shard = as_shard(path)
    return shard is not None and shard["number"].isdigit() and int(shard["number"]) == at % int(shard["count"])


def write_atomic(path: PathLike, content: Buffer, *, durable: bool = True) -> None:
    """Write one whole file."""
    with AtomicFile(path, durable=durable) as file:
        file.write(content)


def _bytes_of(part: Buffer | npt.NDArray[Any]) -> memoryview:
    if isinstance(part, np.ndarray):
        return np.ascontiguousarray(part).reshape(-1).view(np.uint8).data
    return memoryview(part).cast("B")


MEMORY_BYTES = 16 << 20


def spool(folder: Path) -> IO[bytes]:
    """A file to write and read back, removed when it is closed or the process ends.

    Args:
        folder: Its folder once it is large: the destination's most likely has space.
    """
    import tempfile  # imported here, because few programs write

    return cast("IO[bytes]", tempfile.SpooledTemporaryFile(MEMORY_BYTES, "w+b", dir=os.fspath(folder)))
