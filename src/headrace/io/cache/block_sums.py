"""Memory whose blocks have checksums, each compared when the block is first used.

What is mapped may be of any size, so checking all of it before the first use would read all of it. A block that is used is read anyway.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.contracts.values import Indices

__all__ = ["BLOCK_BYTES", "BlockSums", "Sums", "sums_of"]


BLOCK_BYTES = 64 << 10  # what the kernel maps round one fault; its sum takes some 5 microseconds

Sums = npt.NDArray[np.uint32]


def sums_of(parts: Iterable[memoryview], block_bytes: int) -> Sums:
    """The checksums of the blocks of some bytes that come in parts of any size."""
    found: list[Sums] = []
    left = b""
    for part in parts:
        if not part.nbytes:
            continue
        view = part.cast("B")
        if left:
            missing = min(block_bytes - len(left), len(view))
            left, view = left + view[:missing], view[missing:]
            if len(left) < block_bytes:
                continue
            found.append(_native.crc32c_blocks(left, block_bytes))
        whole = len(view) // block_bytes * block_bytes
        found.append(_native.crc32c_blocks(view[:whole], block_bytes))
        left = bytes(view[whole:])
    found.append(_native.crc32c_blocks(left, block_bytes))
    return np.concatenate(found)


class BlockSums:
    """The checksums of the blocks of some memory, and which blocks were compared with theirs. Safe in threads.

    Args:
        size: Of the memory, in bytes.
        sums: ``uint32 (blocks,)``.
        block_bytes: Size of a block; the last may be shorter.

    Raises:
        ValueError: There are more or fewer sums than blocks.
    """

    def __init__(self, size: int, sums: Sums, block_bytes: int) -> None:
        self.sums = (
            sums if sums.dtype == np.uint32 and sums.flags.c_contiguous else np.ascontiguousarray(sums, np.uint32)
        )
        self._size = size
        self._block_bytes = block_bytes
        self.all_sound = not len(sums)
        """Whether every block was compared."""
        if not self.all_sound:
            self._is_sound = np.zeros(len(sums), np.bool_)
        if len(sums) != -(-size // block_bytes):
            raise ValueError(f"{len(sums)} checksums for {size} bytes in blocks of {block_bytes}")

    def damaged(self, buffer: memoryview, starts: Indices, stops: Indices) -> int:
        """Compare the blocks that hold some ranges, unless they were compared before; the number of a damaged one, or -1."""
        if self.all_sound:
            return -1
        wrong, compared = _native.compare_blocks(buffer, starts, stops, self.sums, self._is_sound, self._block_bytes)
        if compared:
            self.all_sound = bool(self._is_sound.all())
        return wrong

    def damaged_anywhere(self, buffer: memoryview) -> int:
        """Compare all blocks; the number of a damaged one, or -1."""
        if self.all_sound:
            return -1
        ends = np.array((0, self._size), np.int64)
        wrong, _ = _native.compare_blocks(buffer, ends[:1], ends[1:], self.sums, self._is_sound, self._block_bytes)
        self.all_sound = wrong < 0
        return wrong
