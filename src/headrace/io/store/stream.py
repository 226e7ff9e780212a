"""Reads remote files in order, with prefetching."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future
from contextlib import closing
from functools import partial
from typing import Protocol, Self

from headrace.errors import CorruptFile
from headrace.io.local.mapped import MappedFile
from headrace.io.store.client import submit
from headrace.io.store.requests import FetchedRange, RangeRequest, Version, check_unchanged, fetch_one, stream_object

__all__ = ["BLOCK_BYTES", "RemoteObject", "RemoteReader", "RemoteStream"]


FIRST_BLOCK_BYTES = 256 << 10
BLOCK_BYTES = 8 << 20
"""The largest part to prefetch when a file is read in order."""
MOST_AHEAD = 4  # parts requested or waiting


class RemoteObject(Protocol):
    """The part of :class:`~headrace.io.store.object.RemoteFile` that reading in order and copying need."""

    path: str
    has_ranges: bool

    @property
    def size(self) -> int: ...
    @property
    def version(self) -> Version: ...
    @property
    def is_certain(self) -> bool: ...
    @property
    def has_copy(self) -> bool: ...
    def known(self) -> Self: ...
    def copy(self) -> MappedFile: ...


class RemoteStream:
    """The bytes of a remote file in order, prefetched: first one small block, then larger ones, and more of them in parallel.

    Args:
        file: The file.
    """

    def __init__(self, file: RemoteObject) -> None:
        self.path: str = file.path
        self.fault: CorruptFile | None = None
        """Always ``None``: the store states where an object ends."""
        self._file = file.known()

    def __iter__(self) -> Iterator[bytes]:
        with closing(self.parts()) as parts:
            yield from map(bytes, parts)

    def parts(self) -> Generator[memoryview, None, None]:
        """The bytes, in parts of any size. Closing cancels pending requests."""
        if self._file.has_copy:
            yield from _blocks_of(self._file.copy().buffer)
            return
        yield from (
            self._fetch() if self._file.has_ranges else stream_object(self.path, self._file.version, BLOCK_BYTES)
        )
        check_unchanged(self.path, self._file.version)

    def _fetch(self) -> Generator[memoryview, None, None]:
        blocks = _blocks(self._file.size)
        waiting: deque[Future[FetchedRange]] = deque()
        depth = 1
        try:
            while True:
                while len(waiting) < depth and (block := next(blocks, None)) is not None:
                    ask = RangeRequest(self.path, *block, version=self._file.version)
                    waiting.append(submit(self.path, partial(fetch_one, ask)))
                if not waiting:
                    return
                yield waiting.popleft().result().content
                depth = min(depth + 1, MOST_AHEAD)
        finally:
            for future in waiting:
                future.cancel()


class RemoteReader:
    """A remote file that is read in order, like an open file."""

    def __init__(self, file: RemoteObject) -> None:
        self._parts = RemoteStream(file).parts()
        self._part = memoryview(b"")

    def read(self, size: int, /) -> bytes:
        """Up to ``size`` bytes; none at the end."""
        while not self._part:
            following = next(self._parts, None)
            if following is None:
                return b""
            self._part = following
        found, self._part = self._part[:size], self._part[size:]
        return bytes(found)

    def close(self) -> None:
        """Cancel pending requests."""
        self._parts.close()


def _blocks_of(buffer: memoryview) -> Iterator[memoryview]:
    return (buffer[start : start + BLOCK_BYTES] for start in range(0, len(buffer), BLOCK_BYTES))


def _blocks(size: int) -> Iterator[tuple[int, int]]:
    """Blocks that grow, so that reading only the first records does not fetch megabytes."""
    start, length = 0, FIRST_BLOCK_BYTES
    while start < size:
        yield start, min(size, start + length)
        start, length = start + length, min(2 * length, BLOCK_BYTES)
