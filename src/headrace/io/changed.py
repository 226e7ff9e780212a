"""Errors of files that are there: changed while in use, refused by the system."""

from __future__ import annotations

import errno
import os
from types import TracebackType
from typing import Literal

from headrace.errors import CorruptFile, HeadraceError, Where

__all__ = ["changed", "close_quietly", "naming", "shrank"]


class naming:  # noqa: N801 - used like a function
    """A context in which errors of the system say which file they are about: those of calls on open files do not by themselves.

    Args:
        path: What the file is called.
    """

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, OSError) or isinstance(error, HeadraceError) or error.filename is not None:
            return
        if error.errno is not None:
            raise OSError(error.errno, error.strerror, self.path) from error


def close_quietly(fd: int) -> None:
    """Close a file of which nothing is written any more: an error that closing reports is about writes, and the file is closed."""
    try:
        os.close(fd)
    except OSError as error:
        if error.errno == errno.EBADF:  # a mistake of ours
            raise


def changed(path: str, *, size: int | None, found: str | int, what: Literal["file", "object"]) -> CorruptFile:
    """The error for another version than the one that was opened.

    Args:
        path: Of the file.
        size: In bytes, when it was first looked at, where that is known.
        found: Instead: what was found, or the size of another version.
        what: What is called so at this path.
    """
    first = "" if size is None else f" ({size} bytes)"
    return CorruptFile(
        Where(path=path),
        expected=f"the {what} as it was when it was first looked at{first}",
        found=f"another version ({found} bytes)" if isinstance(found, int) else found,
        hint=f"The {what} was changed meanwhile: open it again.",
    )


def shrank(name: bytes, opened: bytes, size: int) -> CorruptFile:
    """The error for a mapped file of ``size`` bytes that was cut off while it was read.

    Args:
        name: What the user calls it.
        opened: The file that was mapped: ``name``, or its copy in the cache.
        size: In bytes, when it was mapped.
    """
    path, copy = os.fsdecode(name), os.fsdecode(opened)
    try:
        left = os.stat(copy).st_size
    except OSError:
        left = size
    is_copy = os.path.abspath(path) != copy
    what = "its copy in the cache" if is_copy else "the file"
    return CorruptFile(
        Where(path=path),
        expected=f"{size} bytes, as when {what} was opened",
        found=f"{left}: {what} shrank while being read"
        if left < size
        else f"bytes that cannot be read: {what} shrank, or its disk fails",
        hint=f"Delete {copy} and open the file again."
        if is_copy
        else "Open it again once it is whole. To replace a file that may be in use, write another one and rename it.",
    )
