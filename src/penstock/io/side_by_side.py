"""GZIP files of bytes that hardly repeat (random numbers, pictures), inflated at several places at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from penstock import _native
from penstock.io.cores import usable_cores

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
        self._file = file
        self._stretch = stretch
        self._ended = False
        self._head = b""

    def __iter__(self) -> Iterator[bytes]:
        threads = min(usable_cores(), MOST_THREADS)
        probe = min(PROBE_BYTES, 2 * self._stretch)
        self._head = self._upto(probe)
        if len(self._head) < probe:
            return
        inflater = _native.GzipInflater(self._stretch, threads)
        buffer = bytearray(inflater.most_window)
        room = memoryview(buffer)
        filled = len(self._head)
        room[:filled] = self._head
        while True:
            used, parts = inflater.inflate(room[:filled], self._ended)
            if self._head and not parts:
                return  # It has a block, or a header, that is larger than that.
            self._head = b""
            yield from parts
            if inflater.state != "going":
                self.whole = inflater.state == "done"
                return
            room[: filled - used] = room[used:filled]
            filled = self._fill(room[: max(inflater.window, filled - used)], filled - used)

    def again(self) -> Reader:
        """The file as it was before, where no part of it was given."""
        return _Again(self._head, self._file)

    def _upto(self, size: int) -> bytes:
        parts = []
        while size and (part := self._file.read(size)):
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _fill(self, room: memoryview, filled: int) -> int:
        into = getattr(self._file, "readinto", None)
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
