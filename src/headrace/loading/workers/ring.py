"""The memory that workers write batches into and the consumer reads them from."""

from __future__ import annotations

import mmap
import os
import weakref
from collections import deque
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.errors import UnsupportedData, Where

__all__ = ["ROOM", "Lending", "Slots", "open_segment"]

ROOM = 1 << 36
"""Bytes of address between two slots: what one job may carry at most. Costs nothing, since only what is used is backed."""
STEP = 1 << 16


def open_segment() -> int:
    """A descriptor of shared memory without a name: it is gone with the last process that holds it, however that ends."""
    if hasattr(os, "memfd_create"):
        try:
            return os.memfd_create("headrace")
        except OSError:  # A sandbox that does not know it.
            pass
    import tempfile

    # A file that has no name from the start, or loses it at once; in memory where there is a folder that is.
    with tempfile.TemporaryFile(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as file:  # noqa: S108, PTH112
        return os.dup(file.fileno())


class Slots:
    """One segment, cut into numbered slots that grow in place. Each process has its own of these over the same segment.

    A slot grows to what a job needs and a quarter more, so that batches that get larger bit by bit do not grow it each time;
    it never shrinks. Only the worker that a slot was given to writes to it and grows it.
    """

    def __init__(self, segment: int) -> None:
        self.segment = segment
        self._mapped: dict[int, mmap.mmap] = {}

    def writable(self, slot: int, size: int) -> memoryview:
        """At least ``size`` bytes of a slot, backed by memory.

        Raises:
            UnsupportedData: a job made more than fits between two slots.
            OSError: there is not enough memory.
        """
        mapped = self._mapped.get(slot)
        if mapped is None or len(mapped) < size:
            if size > ROOM:
                raise UnsupportedData(
                    Where(), expected=f"batches of up to {ROOM:,} bytes", found=f"{size:,}", hint="Use workers=0."
                )
            wanted = min(-(-(size + size // 4) // STEP) * STEP or STEP, ROOM)
            self._back(slot * ROOM, wanted)
            mapped = self._map(slot, wanted)
        return memoryview(mapped)

    def readable(self, slot: int, size: int, room: int) -> npt.NDArray[np.uint8]:
        """The first ``size`` bytes of a slot that a worker has filled and made ``room`` bytes large."""
        mapped = self._mapped.get(slot)
        if mapped is None or len(mapped) < size:
            mapped = self._map(slot, room)
        return np.frombuffer(mapped, np.uint8, size)

    def _map(self, slot: int, size: int) -> mmap.mmap:
        # The mapping that was there before lives on for as long as arrays view it.
        self._mapped[slot] = mapped = mmap.mmap(self.segment, size, offset=slot * ROOM)
        return mapped

    def _back(self, begin: int, size: int) -> None:
        """Have memory behind a stretch now: to find out at the first touch that there is none would end the process."""
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(self.segment, begin, size)
        elif os.fstat(self.segment).st_size < begin + size:
            os.pwrite(self.segment, b"\0", begin + size - 1)

    def close(self) -> None:
        """Let go of the segment; arrays that view a slot keep it alive."""
        if self.segment >= 0:
            os.close(self.segment)
            self.segment = -1
        self._mapped.clear()


class Lending:
    """Which slots are free, and which are in the hands of the consumer. Never waits and takes no lock.

    Args:
        slots: The consumer's own slots.
        count: How many there are.
        lent: How many the consumer may hold at once; what comes beyond that is copied.
    """

    def __init__(self, slots: Slots, count: int, lent: int) -> None:
        self.count = count
        self.copied = 0
        """How many jobs were copied because the consumer still held the ones before."""
        self._slots = slots
        self._most = lent
        # Filled by whoever lets go of an array, in any thread and in the middle of anything: appending is atomic.
        self._free = deque(range(count))
        self._lent: dict[int, weakref.ref[Any]] = {}

    def take(self) -> int:
        """A free slot."""
        return self._free.popleft()

    def give_back(self, slot: int) -> None:
        """The slot may be written to again."""
        self._free.append(slot)

    def bytes_of(self, slot: int, size: int, room: int) -> npt.NDArray[np.uint8]:
        """The first ``size`` bytes of a slot that holds ``room``.

        The slot itself where the consumer holds few of them, free again when the last array over these bytes has died; else
        a copy, and the slot is free at once.
        """
        view = self._slots.readable(slot, size, room)
        if len(self._lent) >= self._most:
            self.copied += 1
            copy = view.copy()
            self.give_back(slot)
            return copy
        lent, free = self._lent, self._free

        def died(_: weakref.ref[Any]) -> None:
            del lent[slot]
            free.append(slot)

        lent[slot] = weakref.ref(view, died)
        return view

    def close(self) -> None:
        """Forget what is lent: it is of no more use here, and lives as long as the arrays over it."""
        self._lent.clear()

    @property
    def lent(self) -> int:
        """How many slots the consumer holds."""
        return len(self._lent)
