"""Some ranges of a file at the places where they are in the file, in memory that is as large as the file only by name.

What native code reads by offset (the chunks of a Riegeli file) is read so without knowing where the bytes come from: pages that
were not filled take no memory.
"""

from __future__ import annotations

import mmap
import sys
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from headrace.contracts.values import Indices
from headrace.io.cache.mirror import mirrored
from headrace.io.local.mapped import MappedFile
from headrace.io.store.object import RemoteFile, fetch_extents

__all__ = ["Window", "windows"]


NO_RESERVE = getattr(
    mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0
)  # Python has the name from 3.13 on


class Window:
    """A file of which only some ranges are there; elsewhere are zeros. Held by the views of it.

    Args:
        path: Of the file.
        buffer: As long as the file.
    """

    def __init__(self, path: str, buffer: memoryview) -> None:
        self.path = path
        self.buffer = buffer
        self.size = len(buffer)

    def read(self, offset: int, size: int, /) -> memoryview:
        """A view of ``size`` bytes, which must be of the ranges that are there."""
        return self.buffer[offset : offset + size]

    def read_many(self, ranges: Sequence[tuple[int, int]], /) -> list[memoryview]:
        """Views of several ranges."""
        return [self.read(offset, size) for offset, size in ranges]


Numbers: TypeAlias = "Sequence[int] | Indices"


def windows(
    ranges: Sequence[tuple[RemoteFile, Numbers, Numbers]], *, most_joined: int | None = None
) -> list[Window | MappedFile]:
    """For each of several files a window with ``(file, offsets, sizes)`` in it, everything fetched at once.

    ``most_joined`` bounds how many bytes one request brings. Where a server gives no ranges, or the system no such memory, the whole file from the cache.
    """
    if not all(file.has_ranges for file, _, _ in ranges):
        return [mirrored(file) for file, _, _ in ranges]
    try:
        places = [_reserved(file.size) for file, _, _ in ranges]
    except (OSError, ValueError, OverflowError):
        return [mirrored(file) for file, _, _ in ranges]
    which = np.repeat(np.arange(len(ranges), dtype=np.int32), [len(offsets) for _, offsets, _ in ranges])
    offsets = np.concatenate([np.asarray(offsets, np.int64) for _, offsets, _ in ranges])
    sizes = np.concatenate([np.asarray(sizes, np.int64) for _, _, sizes in ranges])
    pieces, piece_of, starts = fetch_extents(
        [file for file, _, _ in ranges], which, offsets, sizes, most_joined=most_joined
    )
    for number, offset, size, piece, start in zip(
        which.tolist(), offsets.tolist(), sizes.tolist(), piece_of.tolist(), starts.tolist(), strict=True
    ):
        places[number][offset : offset + size] = pieces[piece][start : start + size]
    return [Window(file.path, place.toreadonly()) for (file, _, _), place in zip(ranges, places, strict=True)]


def _reserved(size: int) -> memoryview:
    if size == 0:
        return memoryview(bytearray())
    if not hasattr(mmap, "MAP_ANONYMOUS"):
        raise OSError("this system gives no memory that is there by name only")
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        memory.madvise(mmap.MADV_NOHUGEPAGE)  # Each small range would take two megabytes otherwise.
    return memoryview(memory)
