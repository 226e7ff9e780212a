"""About how many bytes records and rows take in their files."""

from __future__ import annotations

import numpy as np

from headrace.contracts.values import Indices
from headrace.formats.index.index import RecordIndex

__all__ = ["BlockPlaces", "record_bytes"]


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
