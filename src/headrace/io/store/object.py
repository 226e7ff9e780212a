"""Objects in stores: size and version, ranges fetched at once, and reading in order.

A :class:`SparseView` holds some ranges of an object at their offsets. Native code that reads by offset (chunks of a Riegeli file) works on
it unchanged. Unfilled pages take no memory.
"""

from __future__ import annotations

import mmap
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, closing, suppress
from functools import partial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.contracts.values import Indices
from headrace.io.cache.mirror import copy_to_cache, download_copy, make_private_copy
from headrace.io.faults import NoRanges, UnsizedResponse, file_changed_error
from headrace.io.local.mapped import MappedFile
from headrace.io.local.signatures import Signature
from headrace.io.store.client import run_all
from headrace.io.store.requests import FetchedRange, RangeRequest, Version, fetch, fetch_one, fetch_version
from headrace.io.store.stream import RemoteReader
from headrace.io.urls import is_listing

__all__ = ["RemoteFile", "SparseView", "fetch_extents", "fetch_heads", "sparse_views"]


GAP_BYTES = 64 << 10
"""Ranges of one object with smaller gaps are fetched by one request: another request costs more than the bytes in the gaps."""
MOST_JOINED_BYTES = 8 << 20


def fetch_extents(
    files: Sequence[RemoteFile],
    which: npt.NDArray[np.int32],
    offsets: Indices,
    sizes: Indices,
    *,
    most_joined: int | None = None,
) -> tuple[list[memoryview], npt.NDArray[np.int32], Indices]:
    """Fetch ranges of several files at once, merging nearby ranges of one file into one request.

    Args:
        files: The files.
        which: ``int32 (n,)``: the file of each range.
        offsets: ``int64 (n,)``: its first byte.
        sizes: ``int64 (n,)``: its length.
        most_joined: The largest request, unless one range is longer.

    Returns:
        The fetched pieces; for each range, the number of its piece and its offset there.
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
    """Like :func:`fetch`, but without requests for empty ranges, which servers refuse."""
    found = iter(fetch([ask for ask in asks if ask.stop is None or ask.stop > ask.start]))
    nothing = FetchedRange(memoryview(b""), Version(0, None, 0))
    return [next(found) if ask.stop is None or ask.stop > ask.start else nothing for ask in asks]


HEAD_BYTES = 4096  # fetched by the first request


class RemoteFile:
    """An object in a store.

    Implements :class:`headrace.contracts.protocols.File`. The first request fetches its size, its version and its first 4 KiB.
    Picklable (by URL and version).

    Args:
        path: The URL.
        expected: Refuse other versions.

    Raises:
        NoFiles, Unreachable, CorruptFile, UnsupportedData: On the first request.
    """

    def __init__(self, path: str, *, expected: Signature | None = None) -> None:
        self.path = path
        self.has_ranges: bool = True
        """Whether ranges of one version can be fetched; known after the first request."""
        self._expected = expected
        self._head: bytes | None = None
        self._version: Version | None = None
        self._copies: dict[str, MappedFile] = {}  # one at most

    def known(self) -> RemoteFile:
        """Make the first request now, if not yet made."""
        fetch_heads([self])
        return self

    def expect(self, signature: Signature) -> None:
        """Refuse other versions, even if the version is known already."""
        self._expected = signature
        if self._version is not None and (self._version.is_certain or self._copies):
            self._check()

    @property
    def is_known(self) -> bool:
        """Whether the first request was made."""
        return self._version is not None

    def set_head(self, version: Version, head: bytes | None) -> None:
        """Take the response to the first request; no ``head`` from a server without ranges."""
        self.has_ranges = head is not None and version.is_certain
        self._version, self._head = version, head
        if version.is_certain:
            self._check()

    def set_copy(self, copy: MappedFile) -> None:
        """Take the whole object, of a server that does not say how long it is. All reads use this copy."""
        self._keep_copy(copy)
        self.set_head(Version(copy.size, None, 0), None)

    def _check(self) -> None:
        if self._expected is not None and not self._signature().same_version(self._expected):
            raise file_changed_error(
                self.path, size=self._expected.size, found=self._known_version().size, what="object"
            )

    @property
    def is_certain(self) -> bool:
        """Whether a change of version would be detected. If not, all reads use one copy, fetched by one request."""
        return self.version.is_certain

    def copy(self) -> MappedFile:
        """The copy of an object whose changes cannot be detected.

        Raises:
            CorruptFile: The object is not the expected version.
            UnsupportedData: The object does not fit into the cache.
        """
        if not self._copies:
            self._keep_copy(make_private_copy(self))
        return self._copies[""]

    def _keep_copy(self, made: MappedFile) -> None:
        if self._expected is not None and not _signature_of(made).same_version(self._expected):
            raise file_changed_error(self.path, size=self._expected.size, found=made.size, what="object")
        if self._head is not None and made.read(0, len(self._head)) != self._head:  # of another request
            raise file_changed_error(self.path, size=self.size, found="another version", what="object")
        self._copies.setdefault("", made)  # another thread may have been faster

    @property
    def has_copy(self) -> bool:
        """Whether that copy exists."""
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
        """The version that all reads must have."""
        self.known()
        return self._known_version()

    def _known_version(self) -> Version:
        if self._version is None:
            raise AssertionError("used before the first request")
        return self._version

    @property
    def size(self) -> int:
        """In bytes."""
        return self.version.size

    @property
    def signature(self) -> Signature:
        """Size, time of the last change, and a CRC-32C of the ETag, or of the content if the version is uncertain."""
        self.known()
        return self._signature()

    def _signature(self) -> Signature:
        version = self._known_version()
        etag = version.etag
        if not version.is_certain:
            return _signature_of(self.copy())
        # With an ETag, the time would only make equal content look different after the object was copied again.
        if etag is None or not version.has_strong_etag:
            return Signature(version.size, version.modified_ns)
        return Signature(version.size, 0, _native.crc32c(etag.encode()))

    def read(self, offset: int, size: int, /) -> memoryview:
        """``size`` bytes, fewer at the end of the file."""
        return self.read_many([(offset, size)])[0]

    def read_many(self, ranges: Sequence[tuple[int, int]], /) -> list[memoryview]:
        """Fetch several ``(offset, size)`` ranges at once, merging nearby ones."""
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
        """Open it for reading in order."""
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
    """Make the first request for several files, all at once."""
    unknown = [file for file in files if not file.is_known]
    if unknown:
        run_all(unknown[0].path, [partial(_fetch_head, file) for file in unknown])
    for file in unknown:
        if not file.is_known:
            file.set_copy(download_copy(file.path))


async def _fetch_head(file: RemoteFile) -> None:
    """Make the first request. A file whose server does not say how long it is, or that it has a content, stays unknown."""
    with suppress(UnsizedResponse):
        try:
            answer = await fetch_one(RangeRequest(file.path, 0, HEAD_BYTES))
        except NoRanges:
            version = await fetch_version(file.path)
            if not version.size and not is_listing(file.path):
                return  # obstore does not say whether the response was 204 (No Content): the copy does
            file.set_head(version, None if version.size else b"")
        else:
            file.set_head(answer.version, bytes(answer.content))


NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)  # Python names it from 3.13 on


class SparseView:
    """A file with only some ranges filled in, and zeros elsewhere. Views of it keep it alive.

    Args:
        path: The file.
        buffer: As large as the file.
    """

    def __init__(self, path: str, buffer: memoryview) -> None:
        self.path = path
        self.buffer = buffer
        self.size: int = len(buffer)

    def read(self, offset: int, size: int, /) -> memoryview:
        """A view of ``size`` bytes, which must be filled in."""
        return self.buffer[offset : offset + size]

    def read_many(self, ranges: Sequence[tuple[int, int]], /) -> list[memoryview]:
        """Views of several ranges."""
        return [self.read(offset, size) for offset, size in ranges]


Numbers: TypeAlias = "Sequence[int] | Indices"


def sparse_views(
    ranges: Sequence[tuple[RemoteFile, Numbers, Numbers]], *, most_joined: int | None = None
) -> list[SparseView | MappedFile]:
    """A view of each file with its ``(file, offsets, sizes)`` filled in, everything fetched at once.

    ``most_joined`` limits the bytes of one request. If a server supports no ranges or the system no such memory, whole files come from the
    cache.
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
        raise OSError("this system cannot reserve memory without backing it")
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        memory.madvise(mmap.MADV_NOHUGEPAGE)  # Each small range would take two megabytes otherwise.
    return memoryview(memory)
