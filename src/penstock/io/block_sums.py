"""Memory whose blocks have checksums, each compared when the block is first used.

What is mapped may be of any size, so checking all of it before the first use would read all of it. A block that is used is read anyway.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from penstock import _native
from penstock.contracts.protocols import Indices

__all__ = ["BLOCK_BYTES", "BlockSums", "Sums", "sums_of"]

BLOCK_BYTES = 64 << 10  # what the kernel maps round one fault; its sum takes some 5 microseconds
NEIGHBOURS = 64  # blocks in a row that are compared without looking which of them are used
AHEAD = 16  # blocks that are compared before they are used, by one call

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
        self.sums = sums
        self._block_bytes = block_bytes
        self._is_sound = np.zeros(len(sums), np.bool_)
        self.all_sound = not len(sums)
        """Whether every block was compared."""
        if len(sums) != -(-size // block_bytes):
            raise ValueError(f"{len(sums)} checksums for {size} bytes in blocks of {block_bytes}")

    def damaged(self, buffer: memoryview, starts: Indices, stops: Indices) -> int:
        """Compare the blocks that some ranges are in, as far as they were not yet; the number of a damaged one, or -1."""
        if self.all_sound or not len(starts):
            return -1
        sound = self._is_sound
        low, high = int(starts.min()) // self._block_bytes, (int(stops.max()) - 1) // self._block_bytes
        if high - low < NEIGHBOURS:
            if sound[low : high + 1].all():
                return -1
            if low and sound[low - 1]:  # in order: the next ones are used next
                ahead = low + np.flatnonzero(~sound[low : high + 1 + AHEAD])
                if self._compare(buffer, ahead) < 0:
                    return -1
            return self._compare(buffer, low + np.flatnonzero(~sound[low : high + 1]))
        firsts = starts // self._block_bytes
        lasts = np.maximum((stops - 1) // self._block_bytes, firsts)
        if (lasts - firsts).max() <= 1:
            missing = np.concatenate((firsts[~sound[firsts]], lasts[~sound[lasts]]))
        else:
            missing = np.concatenate(
                [np.arange(a, b + 1) for a, b in zip(firsts.tolist(), lasts.tolist(), strict=True)]
            )
            missing = missing[~sound[missing]]
        return self._compare(buffer, np.unique(missing))

    def damaged_anywhere(self, buffer: memoryview) -> int:
        """Compare all blocks; the number of a damaged one, or -1."""
        return -1 if self.all_sound else self._compare(buffer, np.flatnonzero(~self._is_sound))

    def _compare(self, buffer: memoryview, blocks: Indices) -> int:
        """Blocks that follow one another are summed by one call."""
        if not len(blocks):
            return -1
        for run in np.split(blocks, np.flatnonzero(np.diff(blocks) > 1) + 1):
            first, last = int(run[0]), int(run[-1])
            stretch = buffer[first * self._block_bytes : (last + 1) * self._block_bytes]
            wrong = np.flatnonzero(_native.crc32c_blocks(stretch, self._block_bytes) != self.sums[first : last + 1])
            if len(wrong):
                return first + int(wrong[0])
            self._is_sound[run] = True
        self.all_sound = bool(self._is_sound.all())
        return -1
