"""From chunks in a file to their records."""

from __future__ import annotations

import numpy as np

from penstock import _native
from penstock._faults import describe
from penstock.contracts.protocols import Indices
from penstock.errors import CorruptRecord, Where
from penstock.formats.riegeli.codecs import library
from penstock.io.mapped import MappedFile

__all__ = ["BadChunk", "open_chunks", "unpack"]

MOST_BYTES = 64 << 20
"""How much is decoded at once, where that can be chosen."""


class BadChunk(Exception):
    """One of several chunks is damaged. ``number`` is which of them; ``fault`` says how."""

    def __init__(self, number: int, fault: CorruptRecord) -> None:
        super().__init__(str(fault))
        self.number = number
        self.fault = fault


def open_chunks(file: MappedFile, begins: Indices, *, verify: bool, most_bytes: int = MOST_BYTES) -> _native.Chunks:
    """Read, check and decompress chunks: as many as decode to ``most_bytes`` together, but at least one.

    Args:
        file: The file they are in.
        begins: ``int64 (n,)``, n > 0: where they begin.
        verify: Whether their data are held against their hashes. Headers always are.

    Raises:
        BadChunk: One of them is damaged.
        MissingExtra: The library for their codec is not installed.
    """
    try:
        chunks = _native.open_chunks(file.buffer, begins, most_bytes=most_bytes, verify=verify)
        unpack(chunks, file.path, begins)
    except _native.FormatError as error:
        place = Where(path=file.path, offset=int(begins[error.record]))
        fault = describe(error, place)
        raise BadChunk(error.record, CorruptRecord(place, expected=fault.expected, found=fault.found, hint=fault.hint)) from error
    return chunks


def unpack(chunks: _native.Chunks, path: str, begins: Indices) -> None:
    """Decompress whatever chunks wait for."""
    while jobs := chunks.jobs():
        for codec, source, target, number in jobs:
            unpacker = library(codec)
            try:
                size = unpacker.unpack_into(source, target)
            except unpacker.errors as error:
                raise _undecodable(number, path, begins, "a sound compressed stream", str(error)) from error
            if size != len(target):
                found = f"{size}" if size < len(target) else "more"
                raise _undecodable(number, path, begins, f"{len(target)} decompressed bytes", found)
        chunks.advance()


def _undecodable(number: int, path: str, begins: Indices, expected: str, found: str) -> BadChunk:
    place = Where(path=path, offset=int(np.asarray(begins)[number]))
    return BadChunk(number, CorruptRecord(place, expected=expected, found=found))
