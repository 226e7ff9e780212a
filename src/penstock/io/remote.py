"""A file behind a URL: its size and version, ranges of it, all of it in order, or a copy of it in the cache."""

from __future__ import annotations

import os
import zlib
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, closing
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from penstock.contracts.protocols import Indices
from penstock.errors import CorruptFile, UnsupportedData, Where
from penstock.io.cache import CacheEntry, boot_id, cache_folder, cache_key, cache_limit_bytes
from penstock.io.inflated import note_of, read_note
from penstock.io.mapped import MappedFile, Signature
from penstock.io.requests import (
    Answer,
    Ask,
    NoRanges,
    Version,
    ask_one,
    fetch,
    look_whole,
    run_all,
    submit,
    whole_parts,
)

__all__ = [
    "BLOCK_BYTES",
    "RemoteFile",
    "RemoteReader",
    "RemoteStream",
    "fetch_extents",
    "find_mirrored",
    "look_at",
    "mirrored",
]

HEAD_BYTES = 4096  # fetched with the first look
FIRST_BLOCK_BYTES = 256 << 10
BLOCK_BYTES = 8 << 20
"""How large the parts are that are fetched ahead when a file is read in order."""
MOST_AHEAD = 4  # of them under way or waiting
GAP_BYTES = 64 << 10
"""Ranges of one object that are no farther apart are fetched by one request: the bytes between them cost less than it does."""
MOST_JOINED_BYTES = 8 << 20
VERSION = 1


class RemoteFile:
    """An object in a store.

    Implements :class:`penstock.contracts.protocols.File`. The first look at it is one request, which brings its size, its version
    and its first 4 KiB. Picklable (by URL and version).

    Args:
        path: The URL.
        expected: Refuse, with the first look, another version than this.

    Raises:
        NoFiles, Unreachable, CorruptFile, UnsupportedData: With the first look, as their names say.
    """

    def __init__(self, path: str, *, expected: Signature | None = None) -> None:
        self.path = path
        self.has_ranges = True
        """Whether parts of it can be had; known after the first look."""
        self._expected = expected
        self._head: bytes | None = None
        self._version: Version | None = None

    def known(self) -> RemoteFile:
        """Look now, where that was not done yet."""
        look_at([self])
        return self

    def expect(self, signature: Signature) -> None:
        """Refuse another version, also where it was looked at already."""
        self._expected = signature
        if self._version is not None:
            self._check()

    @property
    def is_known(self) -> bool:
        """Whether it was looked at."""
        return self._version is not None

    def answered(self, version: Version, head: bytes | None) -> None:
        """Take what the first look brought; no ``head`` from a server without ranges."""
        self.has_ranges = head is not None
        self._version, self._head = version, head
        self._check()

    def _check(self) -> None:
        if self._expected is not None and not self._signature().same_version(self._expected):
            raise CorruptFile(
                Where(path=self.path),
                expected=f"the object as it was when it was first looked at ({self._expected.size} bytes)",
                found=f"another version ({self._known_version().size} bytes)",
                hint="The object was changed meanwhile: open it again.",
            )

    @property
    def head(self) -> bytes:
        """The first 4 KiB, or all of a smaller file."""
        self.known()
        if self._head is None:
            self._head = bytes(mirrored(self).read(0, HEAD_BYTES))
        return self._head

    @property
    def version(self) -> Version:
        """Of what is read from now on: another one is an error."""
        self.known()
        return self._known_version()

    def _known_version(self) -> Version:
        if self._version is None:
            raise AssertionError("asked before the first look")
        return self._version

    @property
    def size(self) -> int:
        """In bytes."""
        return self.version.size

    @property
    def signature(self) -> Signature:
        """Size, time of the last change, and a CRC-32 of the ETag."""
        self.known()
        return self._signature()

    def _signature(self) -> Signature:
        version = self._known_version()
        etag = version.etag
        # A time besides an ETag would only make the same content look like another version after it was copied anew.
        if etag is None:
            return Signature(version.size, version.modified_ns)
        return Signature(version.size, 0, zlib.crc32(etag.encode()))

    def read(self, offset: int, size: int, /) -> memoryview:
        """``size`` bytes, fewer at the end of the file."""
        return self.read_many([(offset, size)])[0]

    def read_many(self, ranges: Sequence[tuple[int, int]], /) -> list[memoryview]:
        """Several ``(offset, size)`` ranges, fetched at once; near ones by one request."""
        size = self.size
        if not self.has_ranges:
            return mirrored(self).read_many(ranges)
        if all(start + length <= len(self.head) for start, length in ranges) or size <= len(self.head):
            return [memoryview(self.head)[start : start + length] for start, length in ranges]
        offsets = np.array([min(start, size) for start, _ in ranges], np.int64)
        ends = np.array([min(start + length, size) for start, length in ranges], np.int64)
        buffers, which, starts = fetch_extents([self], np.zeros(len(ranges), np.int32), offsets, ends - offsets)
        lengths = (ends - offsets).tolist()
        places = zip(which.tolist(), starts.tolist(), lengths, strict=True)
        return [buffers[number][at : at + length] if length else memoryview(b"") for number, at, length in places]

    def opened(self) -> AbstractContextManager[RemoteReader]:
        """All of it in order, as a file is read."""
        return closing(RemoteReader(self))

    def __getstate__(self) -> tuple[str, Signature | None]:
        return self.path, self._expected

    def __setstate__(self, state: tuple[str, Signature | None]) -> None:
        self.__init__(state[0], expected=state[1])  # type: ignore[misc]

    def __repr__(self) -> str:
        return f"RemoteFile({self.path!r})"


def look_at(files: Sequence[RemoteFile]) -> None:
    """The first look at several files, all at once."""
    unknown = [file for file in files if not file.is_known]
    if unknown:
        run_all(unknown[0].path, [partial(_look, file) for file in unknown])


async def _look(file: RemoteFile) -> None:
    try:
        answer = await ask_one(Ask(file.path, 0, HEAD_BYTES))
    except NoRanges:
        version = await look_whole(file.path)
        file.answered(version, None if version.size else b"")
    else:
        file.answered(answer.version, bytes(answer.content))


class RemoteStream:
    """All of a remote file in order, fetched ahead: one small block first, then larger ones, and more of them at once.

    Args:
        file: The file.
    """

    def __init__(self, file: RemoteFile) -> None:
        self.path = file.path
        self.fault: CorruptFile | None = None
        """An object ends where its store says."""
        self._file = file.known()

    def __iter__(self) -> Iterator[bytes]:
        with closing(self.parts()) as parts:
            yield from map(bytes, parts)

    def parts(self) -> Generator[memoryview, None, None]:
        """The bytes, in parts of any size. Closing stops what is still being fetched."""
        if not self._file.has_ranges:
            yield from whole_parts(self.path, self._file.version, BLOCK_BYTES)
            return
        blocks = _blocks(self._file.size)
        waiting: deque[Future[Answer]] = deque()
        depth = 1
        try:
            while True:
                while len(waiting) < depth and (block := next(blocks, None)) is not None:
                    ask = Ask(self.path, *block, version=self._file.version)
                    waiting.append(submit(self.path, partial(ask_one, ask)))
                if not waiting:
                    return
                yield waiting.popleft().result().content
                depth = min(depth + 1, MOST_AHEAD)
        finally:
            for future in waiting:
                future.cancel()


class RemoteReader:
    """A remote file that is read in order, as an open file is."""

    def __init__(self, file: RemoteFile) -> None:
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
        """Stop what is still being fetched."""
        self._parts.close()


def _blocks(size: int) -> Iterator[tuple[int, int]]:
    """Who looks at the first records only should not fetch megabytes: the blocks grow as long as more of them are wanted."""
    start, length = 0, FIRST_BLOCK_BYTES
    while start < size:
        yield start, min(size, start + length)
        start, length = start + length, min(2 * length, BLOCK_BYTES)


def fetch_extents(
    files: Sequence[RemoteFile],
    which: npt.NDArray[np.int32],
    offsets: Indices,
    sizes: Indices,
    *,
    most_joined: int | None = None,
) -> tuple[list[memoryview], npt.NDArray[np.int32], Indices]:
    """Ranges of several files, all fetched at once; near ones of one file by one request.

    Args:
        files: The files.
        which: ``int32 (n,)``: the file that each range is in.
        offsets: ``int64 (n,)``: where it begins.
        sizes: ``int64 (n,)``: how long it is.
        most_joined: How many bytes one request brings at most, unless one range is longer.

    Returns:
        What was fetched; for each range the number of the piece that holds it, and where in the piece it begins.
    """
    most = most_joined or MOST_JOINED_BYTES
    order = np.lexsort((offsets, which))
    asks: list[Ask] = []
    begins: list[int] = []
    piece_of = np.zeros(len(offsets), np.int32)
    file = begin = end = -1
    places = zip(order.tolist(), which[order].tolist(), offsets[order].tolist(), sizes[order].tolist(), strict=True)
    for position, number, start, size in places:
        stop = start + size
        near = number == file and start <= end + GAP_BYTES and max(stop, end) - begin <= most
        if near:
            end = max(end, stop)
            asks[-1] = Ask(files[number].path, begin, end, files[number].version)
        else:
            file, begin, end = number, start, stop
            asks.append(Ask(files[number].path, begin, end, files[number].version))
            begins.append(begin)
        piece_of[position] = len(asks) - 1
    pieces = [answer.content for answer in fetch_nonempty(asks)]
    return pieces, piece_of, offsets - np.array(begins, np.int64)[piece_of]


def fetch_nonempty(asks: Sequence[Ask]) -> list[Answer]:
    """As :func:`fetch`; no server has a range of no bytes, so for those nothing is asked."""
    found = iter(fetch([ask for ask in asks if ask.stop is None or ask.stop > ask.start]))
    nothing = Answer(memoryview(b""), Version(0, None, 0))
    return [next(found) if ask.stop is None or ask.stop > ask.start else nothing for ask in asks]


def find_mirrored(file: RemoteFile) -> MappedFile | None:
    """The copy of this version of a file if the cache holds it."""
    entry = _entry(file)
    try:
        content = MappedFile(file.path, entry=str(entry))
    except OSError:
        return None
    if not read_note(content, file.path) or content.size != file.size:
        entry.unlink(missing_ok=True)
        return None
    os.utime(entry)  # The time of last use, by which the oldest are thrown out.
    return content


def mirrored(file: RemoteFile) -> MappedFile:
    """A copy of the file in the cache, mapped; fetched the first time.

    Raises:
        UnsupportedData: It does not fit into the cache.
    """
    found = find_mirrored(file)
    if found is None:
        entry = CacheEntry.claim(_entry(file), wait=True)
        if entry is not None:
            _fill(entry, file)
        found = find_mirrored(file)
    if found is None:
        raise UnsupportedData(
            Where(path=file.path),
            expected=f"room for its {file.size} bytes in the cache",
            found="none",
            hint="Raise PENSTOCK_CACHE_LIMIT, or copy the file to this machine.",
        )
    return found


def _fill(entry: CacheEntry, file: RemoteFile) -> None:
    limit = cache_limit_bytes(entry.path.parent)
    try:
        if file.size > limit or not all(entry.write(part) for part in RemoteStream(file)):
            return
        if entry.write(note_of(file.size, None)):
            entry.commit(limit, durable=not boot_id())
    finally:
        entry.abort()


def _entry(file: RemoteFile) -> Path:
    version = file.version
    key = cache_key(VERSION, file.path, version.size, version.etag, version.modified_ns)
    return cache_folder("inflated") / f"{key}.inflated"
