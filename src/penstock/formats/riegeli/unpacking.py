"""From chunks in a file to their records."""

from __future__ import annotations

from typing import Protocol

from penstock import _native
from penstock._faults import describe
from penstock.contracts.protocols import Indices
from penstock.errors import CorruptRecord, Where
from penstock.formats.riegeli.codecs import library, zstandard

__all__ = ["BadChunk", "HasBuffer", "open_chunks", "read_record"]

MOST_BYTES = 64 << 20
"""How much is decoded at once, where that can be chosen."""
LEAST_TOGETHER = 4  # frames that are worth a call of their own
MOST_TOGETHER_BYTES = 16 << 20  # the library's results are fresh memory, and copied: not for large ones


class HasBuffer(Protocol):
    """A file as memory: mapped, or a window on what was fetched of it."""

    path: str
    buffer: memoryview
    size: int


class BadChunk(Exception):
    """One of several chunks is damaged. ``number`` is which of them; ``fault`` says how."""

    def __init__(self, number: int, fault: CorruptRecord) -> None:
        super().__init__(str(fault))
        self.number = number
        self.fault = fault


def open_chunks(
    file: HasBuffer, begins: Indices, counts: Indices | None = None, *, verify: bool, most_bytes: int = MOST_BYTES
) -> _native.Chunks:
    """Read, check and decompress chunks: as many as decode to ``most_bytes`` together, but at least one.

    Args:
        file: The file they are in.
        begins: ``int64 (n,)``, n > 0: where they begin.
        counts: ``int64 (n,)``: how many records each must have, where that is known.
        verify: Whether their data are held against their hashes. Headers always are.

    Raises:
        BadChunk: One of them is damaged.
        MissingExtra: The library for their codec is not installed.
    """
    try:
        chunks = _native.open_chunks(file.buffer, begins, counts, most_bytes=most_bytes, verify=verify)
        unpack(chunks, file)
    except _native.FormatError as error:
        raise BadChunk(error.record, _described(error, file.path)) from error
    return chunks


def read_record(file: HasBuffer, begin: int, *, verify: bool) -> memoryview:
    """The record of a chunk of one.

    Raises:
        BadChunk: It is damaged.
    """
    try:
        chunk = _native.open_chunk(file.buffer, begin, 1, verify=verify)
        if not chunk.ready:
            found = _unpacked_frame(chunk)
            if found is not None:
                return found
            unpack(chunk, file)
    except _native.FormatError as error:
        raise BadChunk(0, _described(error, file.path)) from error
    return chunk.view(0)


def _unpacked_frame(chunk: _native.Chunks) -> memoryview | None:
    """The content of the one frame that a chunk waits for, without a copy; ``None`` where it is something else."""
    frame = chunk.frame
    if frame is None:
        return None
    unpacker = zstandard()
    try:
        return memoryview(unpacker.unpack(frame))
    except unpacker.errors:
        return None  # What is wrong shows when it is unpacked as everything else is.


def unpack(chunks: _native.Chunks, file: HasBuffer) -> None:
    """Decompress whatever chunks wait for."""
    while not chunks.ready:
        together = _unpack_together(chunks, file)
        for codec, source, target, number in chunks.jobs(framed=not together):
            unpacker = library(codec)
            try:
                size = unpacker.unpack_into(source, target)
            except unpacker.errors as error:
                raise BadChunk(
                    number, _undecodable(chunks, number, file, "a sound compressed stream", str(error))
                ) from error
            if size != len(target):
                found = f"{size}" if size < len(target) else "more"
                expected = f"{len(target)} decompressed bytes"
                raise BadChunk(number, _undecodable(chunks, number, file, expected, found))
        chunks.advance()


def _unpack_together(chunks: _native.Chunks, file: HasBuffer) -> bool:
    """Decompress many small frames at once, if that is what there is to do, and it can be done."""
    if len(chunks) < LEAST_TOGETHER or chunks.held_bytes > MOST_TOGETHER_BYTES:
        return False
    segments = chunks.segments()
    if len(segments) < LEAST_TOGETHER:
        return False
    unpacker = zstandard()
    try:
        chunks.fill(unpacker.unpack_all(file.buffer, segments))
    except unpacker.errors:
        return False  # One by one it will show which.
    return True


def _described(error: _native.FormatError, path: str) -> CorruptRecord:
    fault = describe(error, Where(path=path, offset=int(error.offset)))
    return CorruptRecord(fault.where.at(path=path), expected=fault.expected, found=fault.found, hint=fault.hint)


def _undecodable(chunks: _native.Chunks, number: int, file: HasBuffer, expected: str, found: str) -> CorruptRecord:
    return CorruptRecord(Where(path=file.path, offset=chunks.begin(number)), expected=expected, found=found)
