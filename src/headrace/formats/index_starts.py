"""Where records begin, collected while they are found."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import IO

import numpy as np

from headrace.contracts.values import Indices
from headrace.io.cache import cache_folder

__all__ = ["HELD_BYTES", "Starts"]

HELD_BYTES = 1 << 20


class Starts:
    """Record starts of one file, in order: few are held in memory, many lie in a file of no name in the cache folder.

    So memory does not grow with the files. Where there is no room for that file, all are held in memory.
    """

    def __init__(self) -> None:
        self._held: list[Indices] = []
        self._held_bytes = 0
        self._file: IO[bytes] | None = None
        self._filed = 0  # starts in the file
        self._can_file = True
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __del__(self) -> None:
        file = getattr(self, "_file", None)
        if file is not None:
            file.close()

    def add(self, starts: Indices) -> None:
        """Append some, as a copy: native memory goes back to where it is used again."""
        self._held.append(starts.astype("<i8"))
        self._held_bytes += starts.nbytes
        self._count += len(starts)
        if self._held_bytes >= HELD_BYTES and self._can_file:
            self._file_away()

    def _file_away(self) -> None:
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=cache_folder("index"))  # noqa: SIM115 - it lives as long as this
            for starts in self._held:
                self._file.write(starts.data)
            self._file.flush()
        except OSError:
            self._can_file = False  # What was filed before is still there; of this, nothing counts.
            return
        self._held, self._held_bytes, self._filed = [], 0, self._count

    def __iter__(self) -> Iterator[Indices]:
        """All of them, in blocks of about 1 MiB."""
        size = np.dtype("<i8").itemsize
        left = self._filed * size
        if self._file is not None:
            self._file.seek(0)
        while left and self._file is not None:
            block = self._file.read(min(left, HELD_BYTES))
            left -= len(block)
            yield np.frombuffer(block, "<i8")
        yield from self._held
