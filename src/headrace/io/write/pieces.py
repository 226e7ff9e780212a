"""A new file put together from pieces: bytes, and ranges of other files. Their places are known, so several are written at once.

A range of a file is copied within the system, which may share the blocks of both files instead (XFS, Btrfs) or let the file server copy
(NFS 4.2). No byte passes through this process then.

Only threads of one process write into a file. Tasks of several machines could do so too, but one that is believed dead and is not would
write into a file that has its name by now, and folders that show a store as files lose what several machines write to one file.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from headrace import _native
from headrace.contracts.protocols import Piece
from headrace.io.faults import name_in_errors
from headrace.io.threads import ThreadPool

__all__ = ["BytesPiece", "FilePiece", "pieces_of_files", "pieces_of_range", "write_pieces"]

PIECE_BYTES = 16 << 20
"""The most that one thread copies at once."""
BLOCK_BYTES = 1 << 20
"""Read at once where the system does not copy."""
CANNOT_COPY = {errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.EBADF, errno.ETXTBSY}
HAS_COPY = hasattr(os, "copy_file_range")
HAS_PLACES = hasattr(os, "pwrite") and hasattr(os, "pread")


@dataclass(frozen=True, slots=True)
class BytesPiece:
    """Bytes in memory.

    Args:
        data: The bytes.
    """

    data: bytes

    @property
    def size(self) -> int:
        """How many."""
        return len(self.data)

    def content(self) -> bytes:
        """The bytes."""
        return self.data


@dataclass(frozen=True, slots=True)
class FilePiece:
    """A range of a file.

    Args:
        path: The file.
        start, stop: Byte offsets.
    """

    path: str
    start: int
    stop: int

    @property
    def size(self) -> int:
        """How many bytes."""
        return self.stop - self.start

    def content(self) -> bytes:
        """The bytes."""
        with name_in_errors(self.path), open(self.path, "rb") as file:
            file.seek(self.start)
            return _whole(file.read(self.size), self.size, self.path)


def pieces_of_range(path: str, start: int, stop: int) -> Iterator[FilePiece]:
    """A range of a file in pieces of at most 16 MiB."""
    for at in range(start, stop, PIECE_BYTES):
        yield FilePiece(path, at, min(at + PIECE_BYTES, stop))


def pieces_of_files(paths: Iterable[str]) -> Iterator[FilePiece]:
    """Whole files, one after another."""
    for path in paths:
        with name_in_errors(path):
            size = os.stat(path).st_size
        yield from pieces_of_range(path, 0, size)


def write_pieces(pieces: Sequence[Piece], fd: int, start: int, path: str, *, threads: int, durable: bool) -> int:
    """Write pieces one after another into an open file, several at a time.

    Args:
        pieces: The pieces.
        fd: The file, open for writing.
        start: Where the first one begins.
        path: The name of the file in errors.
        threads: How many are written at once.
        durable: Start writing each one to the disk, because the file will be synced.

    Returns:
        Where the last one ends.
    """
    places = []
    for piece in pieces:
        places.append(start)
        start += piece.size
    put = partial(_put, fd, path, durable)
    if threads < 2 or len(pieces) < 2 or not HAS_PLACES:
        for piece, at in zip(pieces, places, strict=True):
            put(piece, at)
        return start
    with ThreadPool(min(threads, len(pieces)), thread_name_prefix="headrace-pieces") as pool:
        for _ in pool.map(put, pieces, places):
            pass
    return start


def _put(fd: int, path: str, durable: bool, piece: Piece, at: int) -> None:  # noqa: FBT001 - by partial
    if isinstance(piece, FilePiece):
        _copy(piece, fd, path, at)
    else:
        with name_in_errors(path):
            _write_at(fd, memoryview(piece.content()).cast("B"), at)
    if durable:
        _native.start_writing_back(fd, at, piece.size)


def _copy(piece: FilePiece, fd: int, path: str, at: int) -> None:
    start, left = piece.start, piece.size
    with name_in_errors(piece.path):
        source = open(piece.path, "rb", buffering=0)  # noqa: SIM115 - closed below; errors name the file that is written
    with name_in_errors(piece.path), source:
        while left and HAS_COPY:
            try:
                with name_in_errors(path):
                    done = os.copy_file_range(source.fileno(), fd, left, start, at)
            except OSError as error:
                if error.errno not in CANNOT_COPY:
                    raise
                break
            if not done:  # some file systems answer so instead of refusing
                break
            start, at, left = start + done, at + done, left - done
        source.seek(start)
        while left:
            with name_in_errors(piece.path):
                size = min(left, BLOCK_BYTES)
                block: Any = _whole(source.read(size), 1, piece.path)
            with name_in_errors(path):
                _write_at(fd, memoryview(block), at)
            at, left = at + len(block), left - len(block)


def _whole(data: bytes, least: int, path: str) -> bytes:
    if len(data) < least:
        raise OSError(errno.EIO, "the file became shorter while it was copied", path)
    return data


def _write_at(fd: int, view: memoryview, at: int) -> None:
    if not HAS_PLACES:
        os.lseek(fd, at, os.SEEK_SET)
    while view:
        done = os.pwrite(fd, view, at) if HAS_PLACES else os.write(fd, view)
        view, at = view[done:], at + done
