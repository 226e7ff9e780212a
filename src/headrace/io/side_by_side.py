"""GZIP files of bytes that hardly repeat (random numbers, pictures), inflated at several places at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from headrace import _native
from headrace.io.cores import usable_cores

__all__ = ["PROBE_BYTES", "Reader", "SideBySide"]

PROBE_BYTES = 256 << 10  # tell whether it is worth while; smaller files are not
READ_BYTES = 1 << 20
MOST_THREADS = 4


class Reader(Protocol):
    """What is read in order, a part at a time."""

    def read(self, size: int, /) -> bytes: ...


class SideBySide:
    """The bytes of a GZIP file, as long as it is of the kind for which this is faster, and sound.

    Args:
        file: The file, at its beginning.
        stretch: How many compressed bytes the places of one thread each inflate at a time.
    """

    def __init__(self, file: Reader, *, stretch: int = 1 << 20) -> None:
        self.whole = False
        """After the last part: whether that was all, and the checksums were right."""
        self.crc = 0
        """The CRC-32 of the parts so far."""
        self._file = file
        self._stretch = stretch
        self._ended = False
        self._head = b""

    def __iter__(self) -> Iterator[memoryview]:
        threads = min(usable_cores(), MOST_THREADS)
        probe = min(PROBE_BYTES, 2 * self._stretch)
        self._head = self._upto(probe)
        if len(self._head) < probe:
            return
        inflater = _native.GzipInflater(self._stretch, threads)
        own = probe // 2
        inflater.give(self._head, own, last=False)
        parts = inflater.take()
        if not parts:
            return  # It has a block, or a header, that is larger than that.
        left = memoryview(self._head)[own:]
        self._head = b""
        self.crc = inflater.taken_crc
        yield from parts
        # Parts are inflated while those before them are used, and those behind them read.
        buffers = _Buffers(inflater)
        while inflater.state == "going" and (inflater.has_room or inflater.waiting):
            while inflater.has_room:
                left = self._give(inflater, buffers.next(), left)
            parts = inflater.take()
            self.crc = inflater.taken_crc
            yield from parts
        self.whole = inflater.state == "done"

    def _give(self, inflater: _native.GzipInflater, buffer: memoryview, left: memoryview) -> memoryview:
        """Give what was left and what comes behind it; what is the next part's of that."""
        size = len(left)
        buffer[:size] = left
        own = inflater.own
        wanted = own + inflater.margin
        size += self._fill(buffer[size : max(wanted, size)])
        if size < wanted or self._ended:
            own = size
        inflater.give(buffer[:size], own, last=own == size)
        return buffer[own:size]

    def again(self) -> Reader:
        """The file as it was before, where no part of it was given."""
        return _Again(self._head, self._file)

    def _upto(self, size: int) -> bytes:
        parts = []
        while size and (part := self._file.read(size)):
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _fill(self, room: memoryview) -> int:
        into = getattr(self._file, "readinto", None)
        filled = 0
        while filled < len(room) and not self._ended:
            if into is not None:
                size = into(room[filled:])
            else:
                part = self._file.read(min(READ_BYTES, len(room) - filled))
                size = len(part)
                room[filled : filled + size] = part
            filled += size
            self._ended = size == 0
        return filled


class _Buffers:
    """Memory for parts, used again when its part was taken."""

    def __init__(self, inflater: _native.GzipInflater) -> None:
        size = inflater.most_own + inflater.margin
        self._buffers = [bytearray(size) for _ in range(inflater.most_waiting + 1)]

    def next(self) -> memoryview:
        buffer = self._buffers.pop(0)
        self._buffers.append(buffer)
        return memoryview(buffer)


class _Again:
    """A file of which the first bytes were read already."""

    def __init__(self, head: bytes, file: Reader) -> None:
        self._head = head
        self._file = file

    def read(self, size: int, /) -> bytes:
        if not self._head:
            return self._file.read(size)
        part, self._head = self._head[:size], self._head[size:]
        return part
