"""GZIP and ZLIB around a whole file: detected and inflated, with the position of every fault.

Files with little repetition (random numbers, images) are inflated in parallel.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias

import numpy as np

from headrace import _native
from headrace.errors import CorruptFile, Where
from headrace.io.engines import engines, zlib_library
from headrace.io.faults import name_in_errors
from headrace.io.system import usable_cores

__all__ = [
    "PROBE_BYTES",
    "READ_BYTES",
    "SUFFIXES",
    "Compression",
    "Inflater",
    "Opener",
    "ParallelInflater",
    "Part",
    "PlainInflater",
    "Reader",
    "deflater",
    "head_of",
    "is_empty_stream",
    "parse_compression",
    "skip_bytes",
    "wrapper_of",
    "wrapper_of_name",
]


PROBE_BYTES = 256 << 10  # enough to decide whether parallel inflating pays; it does not for smaller files
PIECE_BYTES = 1 << 20
MOST_THREADS = 4


class Reader(Protocol):
    """A file that is read in order, part by part."""

    def read(self, size: int, /) -> bytes: ...


class ParallelInflater:
    """Inflates a GZIP file in parallel, as long as that is faster and the file is intact.

    Args:
        file: The file, at its start.
        stretch: Compressed bytes that each thread inflates at a time.
    """

    def __init__(self, file: Reader, *, stretch: int = 512 << 10) -> None:
        self.whole: bool = False
        """After the last part: whether the file ended there with correct checksums."""
        self.crc: int = 0
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
            return  # A block or a header is larger than the probe.
        left = memoryview(self._head)[own:]
        self._head = b""
        self.crc = inflater.taken_crc
        yield from parts
        # Parts are inflated while earlier ones are used and later ones are read.
        buffers = _Buffers(inflater)
        while inflater.state == "going" and (inflater.has_room or inflater.waiting):
            while inflater.has_room:
                left = self._give(inflater, buffers.next(), left)
            parts = inflater.take()
            self.crc = inflater.taken_crc
            yield from parts
        self.whole = inflater.state == "done"

    def _give(self, inflater: _native.GzipInflater, buffer: memoryview, left: memoryview) -> memoryview:
        """Yield the rest of the last part and what follows; return the rest for the next part."""
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
        """The file from its start, if no part was taken."""
        return _Rewound(self._head, self._file)

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
                part = self._file.read(min(PIECE_BYTES, len(room) - filled))
                size = len(part)
                room[filled : filled + size] = part
            filled += size
            self._ended = size == 0
        return filled


class _Buffers:
    """Buffers that are reused once their part has been consumed."""

    def __init__(self, inflater: _native.GzipInflater) -> None:
        size = inflater.most_own + inflater.margin
        # Without zeros: clearing the buffers takes longer than inflating a file of a few megabytes.
        self._buffers = [np.empty(size, np.uint8).data for _ in range(inflater.most_waiting + 1)]

    def next(self) -> memoryview:
        buffer = self._buffers.pop(0)
        self._buffers.append(buffer)
        return buffer


class _Rewound:
    """A file with the first bytes that were already read put back."""

    def __init__(self, head: bytes, file: Reader) -> None:
        self._head = head
        self._file = file

    def read(self, size: int, /) -> bytes:
        if not self._head:
            return self._file.read(size)
        part, self._head = self._head[:size], self._head[size:]
        return part


Compression: TypeAlias = str
"""How a file is decoded before it is read: ``"none"``, ``"gzip"``, ``"zlib"``, or a text encoding that is transcoded to UTF-8.
Users set the encoding through a separate option.
"""

NAMES: tuple[Compression, ...] = ("none", "gzip", "zlib")
WINDOW_BITS = {"gzip": 31, "zlib": 15}
SUFFIXES: dict[str, Compression] = {".gz": "gzip", ".gzip": "gzip", ".zlib": "zlib", ".zz": "zlib"}
NUMBERS = re.compile(r"(-\d{5,}-of-\d{5,}|[-_.]\d+)+$")  # the number of a shard
READ_BYTES = 64 << 10  # measured with isal on 190 MB: 0.41 s of CPU time, against 0.50 s with 256 KiB at a time
PART_BYTES = 1 << 20  # inflated bytes per handover, because passing them between threads is expensive

Opener: TypeAlias = Callable[[], AbstractContextManager[Reader]]
"""Opens a compressed file at its start."""
Part: TypeAlias = "bytes | memoryview"
"""Inflated bytes. A view keeps its buffer from being reused."""


class Decompressor(Protocol):
    """A decompressor of ``zlib`` or ``isal``."""

    eof: bool
    unused_data: bytes
    unconsumed_tail: bytes

    def decompress(self, data: Any, max_length: int = 0, /) -> bytes: ...


def parse_compression(compression: str | None) -> Compression | None:
    """The compression that a user named; ``None``: detect it.

    Raises:
        ValueError: No such compression.
    """
    if compression is None:
        return None
    for name in NAMES:
        if compression.lower() == name or (compression == "" and name == "none"):
            return name
    raise ValueError(f"compression must be 'gzip', 'zlib', 'none' or None (detect), got {compression!r}")


def wrapper_of(head: bytes) -> Compression:
    """The compression that the first bytes suggest. A plain file may begin like this by chance: ask the format first."""
    if head[:3] == b"\x1f\x8b\x08":
        return "gzip"
    if len(head) >= 2 and _is_zlib_header(head[0], head[1]):
        return "zlib"
    return "none"


def wrapper_of_name(path: str) -> Compression:
    """The compression that a file name suggests, also of a shard."""
    return SUFFIXES.get(os.path.splitext(NUMBERS.sub("", path))[1].lower(), "none")


def _is_zlib_header(method: int, flags: int) -> bool:
    """RFC 1950: deflate, a window of up to 32 KiB, no preset dictionary, and the check bits."""
    return method & 0x0F == 8 and method >> 4 <= 7 and not flags & 0x20 and (method << 8 | flags) % 31 == 0


def head_of(packed: bytes | memoryview, compression: Compression, size: int) -> bytes:
    """Up to ``size`` decompressed bytes of a file that begins with ``packed``, of any number of members."""
    return _inflate_head(packed, compression, size)[0]


def is_empty_stream(packed: bytes) -> bool:
    """Whether the bytes of a whole file are a compressed stream without content."""
    return (wrapper := wrapper_of(packed)) != "none" and _inflate_head(packed, wrapper, 1) == (b"", True)


def _inflate_head(packed: bytes | memoryview, compression: Compression, size: int) -> tuple[bytes, bool]:
    """The first decompressed bytes, up to the first fault, and whether they end with the last member."""
    found, is_whole = b"", False
    while packed and len(found) < size:
        stream = zlib.decompressobj(wbits=WINDOW_BITS[compression])
        try:
            found += stream.decompress(packed, size - len(found))
        except zlib.error:
            return found, False
        packed, is_whole = stream.unused_data, stream.eof
    return found, is_whole


def deflater(compression: Compression, level: int) -> Any:
    """A ``zlib`` compressor whose output depends only on its input: no timestamp, no name."""
    return zlib.compressobj(level, zlib.DEFLATED, WINDOW_BITS[compression])


class Inflater:
    """Inflates one file, part by part.

    Iterating yields the decompressed bytes, including every byte before a fault. At the end ``fault`` is the error, or ``None``.

    Args:
        path: The compressed file.
        compression: ``"gzip"`` (of one or several members) or ``"zlib"``.
        opened: Opens it, if it is not a local file.
    """

    def __init__(self, path: str, compression: Compression, opened: Opener | None = None) -> None:
        self.path = path
        self._open: Opener = opened or (lambda: open(path, "rb", buffering=0))  # noqa: SIM115 - its caller does
        self.compression = compression
        self.fault: CorruptFile | None = None
        self.size: int = 0
        """Bytes yielded so far."""
        self._at = 0  # end of the part being inflated, in the compressed file
        self._library: Any = zlib_library()

    def __iter__(self) -> Iterator[Part]:
        given = 0
        with name_in_errors(self.path), self._open() as file:
            side_by_side = ParallelInflater(file) if self.compression == "gzip" and engines().gzip.is_own else None
            for part in side_by_side or ():
                given += len(part)
                self.size = given
                yield part
            if side_by_side is not None and side_by_side.whole:
                return
            if side_by_side is None or not given:
                yield from self._one_by_one(file if side_by_side is None else side_by_side.again())
                return
        # The rest does not suit parallel inflating, or is damaged.
        self.size = 0
        with name_in_errors(self.path), self._open() as file:
            yield from self._behind_the_same(given, side_by_side.crc, self._one_by_one(file))

    def _behind_the_same(self, given: int, crc: int, parts: Iterator[Part]) -> Iterator[Part]:
        """The bytes after the first ``given``, which must be the same as before."""
        at = found = 0
        for part in parts:
            if at < given:
                found = self._library.crc32(memoryview(part)[: given - at], found)
                if at + len(part) >= given and found != crc:
                    raise CorruptFile(
                        Where(path=self.path, offset=0),
                        expected=f"the first {given} inflated bytes as before",
                        found="others",
                        hint="The file was probably written while it was read. Read it again.",
                    )
            if at + len(part) > given:
                yield part[max(0, given - at) :]
            at += len(part)

    def _one_by_one(self, file: Reader) -> Iterator[Part]:
        try:
            yield from _join_parts(self._parts(file, fine_from=None))
            whole = self.fault is None or self._library is zlib
        except (zlib.error, self._library.error):
            whole = False
        if not whole:
            # Libraries do not return what they inflated of a failing part, and differ for a truncated one. So inflate it again with
            # zlib, byte by byte.
            yield from self._up_to_the_fault()

    def _parts(self, file: Reader, *, fine_from: int | None) -> Iterator[bytes]:
        stream = self._new()
        while part := file.read(READ_BYTES if fine_from is None or self._at < fine_from else 1):
            self._at += len(part)
            while part:
                if stream.eof:
                    stream = self._new()  # the next member
                yield from self._inflate(stream, part)
                part = stream.unused_data if stream.eof else b""
        if not stream.eof:
            self.fault = self._corrupt(f"the end of the {self.compression} stream", "the end of the file before it")

    def _inflate(self, stream: Decompressor, part: bytes) -> Iterator[bytes]:
        """Inflate in parts of bounded size: a few kilobytes of zeros grow a thousandfold."""
        inflated = b"-"
        while not stream.eof and (part or len(inflated) == PART_BYTES):
            inflated = stream.decompress(part, PART_BYTES)
            part = stream.unconsumed_tail
            self.size += len(inflated)
            if inflated:
                yield inflated

    def _up_to_the_fault(self) -> Iterator[Part]:
        # Libraries may report the same fault at the end of one part or at the start of the next.
        given, failing = self.size, max(0, self._at - 2 * READ_BYTES)
        self.size, self._at, self.fault, self._library = 0, 0, None, zlib
        try:
            with name_in_errors(self.path), self._open() as file:
                yield from skip_bytes(given, self._parts(file, fine_from=failing))
        except zlib.error as error:
            reason = str(error).partition(": ")[2] or str(error)
            self.fault = self._corrupt(f"an intact {self.compression} stream", reason)

    def _new(self) -> Decompressor:
        return self._library.decompressobj(wbits=WINDOW_BITS[self.compression])  # type: ignore[no-any-return]

    def _corrupt(self, expected: str, found: str) -> CorruptFile:
        return CorruptFile(
            Where(path=self.path, offset=self.size),
            expected=expected,
            found=found,
            hint="The offset counts decompressed bytes. Everything before it can be read.",
        )


class PlainInflater(Inflater):
    """An inflater that only uses a library, runs in the iterating thread, and inflates only what is requested."""

    def __iter__(self) -> Iterator[Part]:
        with name_in_errors(self.path), self._open() as file:
            yield from self._one_by_one(file)


def skip_bytes(given: int, parts: Iterable[Part]) -> Iterator[Part]:
    """The bytes after the first ``given``."""
    at = 0
    for part in parts:
        if at + len(part) > given:
            yield part[max(0, given - at) :]
        at += len(part)


def _join_parts(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Join small parts, up to ``PART_BYTES``. Parts before an error are yielded first."""
    waiting: list[bytes] = []
    size = 0
    try:
        for part in parts:
            if size + len(part) > PART_BYTES and waiting:
                yield b"".join(waiting)
                waiting, size = [], 0
            waiting.append(part)
            size += len(part)
    except Exception:
        if waiting:
            yield b"".join(waiting)
        raise
    if waiting:
        yield b"".join(waiting)
