"""Where records begin, while their index is made, and about how many bytes records and rows take in their files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

import numpy as np

from headrace.contracts.values import Indices
from headrace.formats.index.index import RecordIndex
from headrace.io.cache.folder import cache_folder

__all__ = ["HELD_BYTES", "BlockPlaces", "Starts", "record_bytes"]


HELD_BYTES = 1 << 20


def record_bytes(index: RecordIndex, first: int, stop: int) -> int:
    """About how many bytes the records from ``first`` up to ``stop`` take, with all that lies between them.

    The last record of a compressed file counts too little: the index does not know the size of the content.
    """
    count = len(index)
    stop = min(stop, count)
    which, starts = index.locate(np.array([first, min(stop, count - 1)]))
    if which is not None:
        starts = starts + index.ends_of_files[which]
    return int((index.ends_of_files[-1] if stop == count else starts[1]) - starts[0])


class BlockPlaces:
    """Where rows lie, as far as their blocks tell: those of one block count alike.

    Args:
        firsts: ``int64 (k + 1,)``: number of the first row of each block, and of all rows.
        sizes: ``int64 (k,)``: the bytes of each block.
    """

    __slots__ = ("_firsts", "_places")

    def __init__(self, firsts: Indices, sizes: Indices) -> None:
        # As floats, because interpolation would convert all of them each time.
        self._firsts = firsts.astype(np.float64)
        self._places = np.concatenate([np.zeros(1), np.cumsum(sizes, dtype=np.float64)])

    def between(self, first: int, stop: int) -> int:
        """About how many bytes the rows from ``first`` up to ``stop`` take."""
        begin, end = np.interp((first, stop), self._firsts, self._places)
        return int(end - begin)


class Starts:
    """Record starts of one file, in order. Few stay in memory; many go to an unnamed file in the cache folder.

    So memory does not grow with the files. If that file cannot be written, all stay in memory.
    """

    def __init__(self) -> None:
        self._held: list[Indices] = []
        self._held_bytes = 0
        self._file: IO[bytes] | None = None
        self._filed = 0  # starts stored in the file
        self._can_file = True
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __del__(self) -> None:
        file = getattr(self, "_file", None)
        if file is not None:
            file.close()

    def add(self, starts: Indices) -> None:
        """Append a copy of some starts, so that native memory returns to its pool."""
        self._held.append(starts.astype("<i8"))
        self._held_bytes += starts.nbytes
        self._count += len(starts)
        if self._held_bytes >= HELD_BYTES and self._can_file:
            self._file_away()

    def _file_away(self) -> None:
        import tempfile  # imported here, because few files have so many records

        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=cache_folder("index"))  # noqa: SIM115 - closed with this object
            for starts in self._held:
                self._file.write(starts.data)
            self._file.flush()
        except OSError:
            self._can_file = False  # Earlier starts are in the file; the rest stay in memory.
            return
        self._held, self._held_bytes, self._filed = [], 0, self._count

    def __iter__(self) -> Iterator[Indices]:
        """All starts, in blocks of about 1 MiB."""
        size = np.dtype("<i8").itemsize
        left = self._filed * size
        if self._file is not None:
            self._file.seek(0)
        while left and self._file is not None:
            block = self._file.read(min(left, HELD_BYTES))
            left -= len(block)
            yield np.frombuffer(block, "<i8")
        yield from self._held
