"""The error for a file that changed while it was in use."""

from __future__ import annotations

import os
from typing import Literal

from penstock.errors import CorruptFile, Where

__all__ = ["changed", "shrank"]


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
    found = f"it shrank to {left} bytes while being read" if left < size else "it shrank, or could not be read from its disk"
    is_copy = os.path.abspath(path) != copy
    return CorruptFile(
        Where(path=path),
        expected=f"the {size} bytes that " + (f"its copy in the cache ({copy})" if is_copy else "the file") + " had when it was opened",
        found=found,
        hint=("Delete the copy" if is_copy else "Write the file again, best under another name that is then renamed,") + " and open it again.",
    )
