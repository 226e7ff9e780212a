"""A file behind a URL: its size and version, ranges of it fetched at once, all of it in order.

Some ranges of a file at the places where they are in the file, in memory that is as large as the file only by name.

What native code reads by offset (the chunks of a Riegeli file) is read so without knowing where the bytes come from: pages that
were not filled take no memory.
"""

from __future__ import annotations

import mmap
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, closing
from functools import partial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.contracts.values import Indices
from headrace.io.cache.mirror import copy_to_cache, make_private_copy
from headrace.io.faults import NoRanges, file_changed_error
from headrace.io.local.mapped import MappedFile
from headrace.io.local.signatures import Signature
from headrace.io.store.client import run_all
from headrace.io.store.requests import FetchedRange, RangeRequest, Version, fetch, fetch_one, fetch_version
from headrace.io.store.stream import RemoteReader

__all__ = ["RemoteFile", "SparseView", "fetch_extents", "fetch_heads", "sparse_views"]


GAP_BYTES = 64 << 10
"""Ranges of one object that are no farther apart are fetched by one request: the bytes between them cost less than it does."""
MOST_JOINED_BYTES = 8 << 20


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
    asks: list[RangeRequest] = []
    begins: list[int] = []
    piece_of = np.zeros(len(offsets), np.int32)
    file = begin = end = -1
    places = zip(order.tolist(), which[order].tolist(), offsets[order].tolist(), sizes[order].tolist(), strict=True)
    for position, number, start, size in places:
        stop = start + size
        near = number == file and start <= end + GAP_BYTES and max(stop, end) - begin <= most
        if near:
            end = max(end, stop)
            asks[-1] = RangeRequest(files[number].path, begin, end, files[number].version)
        else:
            file, begin, end = number, start, stop
            asks.append(RangeRequest(files[number].path, begin, end, files[number].version))
            begins.append(begin)
        piece_of[position] = len(asks) - 1
    pieces = [answer.content for answer in _fetch_nonempty(asks)]
    return pieces, piece_of, offsets - np.array(begins, np.int64)[piece_of]


def _fetch_nonempty(asks: Sequence[RangeRequest]) -> list[FetchedRange]:
    """As :func:`fetch`; no server has a range of no bytes, so for those nothing is asked."""
    found = iter(fetch([ask for ask in asks if ask.stop is None or ask.stop > ask.start]))
    nothing = FetchedRange(memoryview(b""), Version(0, None, 0))
    return [next(found) if ask.stop is None or ask.stop > ask.start else nothing for ask in asks]


HEAD_BYTES = 4096  # fetched with the first look


class RemoteFile:
    """An object in a store.

    Implements :class:`headrace.contracts.protocols.File`. The first look at it is one request, which brings its size, its version
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
        """Whether parts of it can be had, all of one version; known after the first look."""
        self._expected = expected
        self._head: bytes | None = None
        self._version: Version | None = None
        self._copies: dict[str, MappedFile] = {}  # one at most

    def known(self) -> RemoteFile:
        """Look now, where that was not done yet."""
        fetch_heads([self])
        return self

    def expect(self, signature: Signature) -> None:
        """Refuse another version, also where it was looked at already."""
        self._expected = signature
        if self._version is not None and (self._version.is_certain or self._copies):
            self._check()

    @property
    def is_known(self) -> bool:
        """Whether it was looked at."""
        return self._version is not None

    def answered(self, version: Version, head: bytes | None) -> None:
        """Take what the first look brought; no ``head`` from a server without ranges."""
        self.has_ranges = head is not None and version.is_certain
        self._version, self._head = version, head
        if version.is_certain:
            self._check()

    def _check(self) -> None:
        if self._expected is not None and not self._signature().same_version(self._expected):
            raise file_changed_error(
                self.path, size=self._expected.size, found=self._known_version().size, what="object"
            )

    @property
    def is_certain(self) -> bool:
        """Whether another version of it would show. If not, all that is read of it comes from one copy, made by one request."""
        return self.version.is_certain

    def copy(self) -> MappedFile:
        """The copy of an object of which no one can say whether it changed.

        Raises:
            CorruptFile: It is another version than expected.
            UnsupportedData: It does not fit into the cache.
        """
        if not self._copies:
            made = make_private_copy(self)
            if self._expected is not None and not _signature_of(made).same_version(self._expected):
                raise file_changed_error(self.path, size=self._expected.size, found=made.size, what="object")
            self._copies.setdefault("", made)  # Another thread may have been faster.
        return self._copies[""]

    @property
    def has_copy(self) -> bool:
        """Whether there is such a copy."""
        return bool(self._copies)

    @property
    def head(self) -> bytes:
        """The first 4 KiB, or all of a smaller file."""
        self.known()
        if self._head is None:
            self._head = bytes(copy_to_cache(self).read(0, HEAD_BYTES))
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
        """Size, time of the last change, and a CRC-32C of the ETag; without any of those that count, of the content."""
        self.known()
        return self._signature()

    def _signature(self) -> Signature:
        version = self._known_version()
        etag = version.etag
        if not version.is_certain:
            return _signature_of(self.copy())
        # A time besides an ETag would only make the same content look like another version after it was copied anew.
        if etag is None or not version.has_strong_etag:
            return Signature(version.size, version.modified_ns)
        return Signature(version.size, 0, _native.crc32c(etag.encode()))

    def read(self, offset: int, size: int, /) -> memoryview:
        """``size`` bytes, fewer at the end of the file."""
        return self.read_many([(offset, size)])[0]

    def read_many(self, ranges: Sequence[tuple[int, int]], /) -> list[memoryview]:
        """Several ``(offset, size)`` ranges, fetched at once; near ones by one request."""
        size = self.size
        if not self.has_ranges:
            return copy_to_cache(self).read_many(ranges)
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


def _signature_of(copy: MappedFile) -> Signature:
    return Signature(copy.size, 0, _native.crc32c(copy.buffer))


def fetch_heads(files: Sequence[RemoteFile]) -> None:
    """The first look at several files, all at once."""
    unknown = [file for file in files if not file.is_known]
    if unknown:
        run_all(unknown[0].path, [partial(_fetch_head, file) for file in unknown])


async def _fetch_head(file: RemoteFile) -> None:
    try:
        answer = await fetch_one(RangeRequest(file.path, 0, HEAD_BYTES))
    except NoRanges:
        version = await fetch_version(file.path)
        file.answered(version, None if version.size else b"")
    else:
        file.answered(answer.version, bytes(answer.content))


NO_RESERVE = getattr(
    mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0
)  # Python has the name from 3.13 on


class SparseView:
    """A file of which only some ranges are there; elsewhere are zeros. Held by the views of it.

    Args:
        path: Of the file.
        buffer: As long as the file.
    """

    def __init__(self, path: str, buffer: memoryview) -> None:
        self.path = path
        self.buffer = buffer
        self.size = len(buffer)

    def read(self, offset: int, size: int, /) -> memoryview:
        """A view of ``size`` bytes, which must be of the ranges that are there."""
        return self.buffer[offset : offset + size]

    def read_many(self, ranges: Sequence[tuple[int, int]], /) -> list[memoryview]:
        """Views of several ranges."""
        return [self.read(offset, size) for offset, size in ranges]


Numbers: TypeAlias = "Sequence[int] | Indices"


def sparse_views(
    ranges: Sequence[tuple[RemoteFile, Numbers, Numbers]], *, most_joined: int | None = None
) -> list[SparseView | MappedFile]:
    """For each of several files a window with ``(file, offsets, sizes)`` in it, everything fetched at once.

    ``most_joined`` bounds how many bytes one request brings. Where a server gives no ranges, or the system no such memory, the whole file from the cache.
    """
    if not all(file.has_ranges for file, _, _ in ranges):
        return [copy_to_cache(file) for file, _, _ in ranges]
    try:
        places = [_reserve_memory(file.size) for file, _, _ in ranges]
    except (OSError, ValueError, OverflowError):
        return [copy_to_cache(file) for file, _, _ in ranges]
    which = np.repeat(np.arange(len(ranges), dtype=np.int32), [len(offsets) for _, offsets, _ in ranges])
    offsets = np.concatenate([np.asarray(offsets, np.int64) for _, offsets, _ in ranges])
    sizes = np.concatenate([np.asarray(sizes, np.int64) for _, _, sizes in ranges])
    pieces, piece_of, starts = fetch_extents(
        [file for file, _, _ in ranges], which, offsets, sizes, most_joined=most_joined
    )
    for number, offset, size, piece, start in zip(
        which.tolist(), offsets.tolist(), sizes.tolist(), piece_of.tolist(), starts.tolist(), strict=True
    ):
        places[number][offset : offset + size] = pieces[piece][start : start + size]
    return [SparseView(file.path, place.toreadonly()) for (file, _, _), place in zip(ranges, places, strict=True)]


def _reserve_memory(size: int) -> memoryview:
    if size == 0:
        return memoryview(bytearray())
    if not hasattr(mmap, "MAP_ANONYMOUS"):
        raise OSError("this system gives no memory that is there by name only")
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        memory.madvise(mmap.MADV_NOHUGEPAGE)  # Each small range would take two megabytes otherwise.
    return memoryview(memory)
