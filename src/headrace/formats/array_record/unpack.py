"""Unpack chunks into records, on several cores."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Protocol, TypeVar

from headrace import _native, _optional
from headrace._faults import describe
from headrace.contracts.values import Indices
from headrace.errors import CorruptRecord, Where
from headrace.formats.array_record.codecs import library
from headrace.io.engines import engines
from headrace.io.local.mapped import guard_reads
from headrace.io.system import spare_cores, usable_cores
from headrace.io.threads import ThreadPool

__all__ = ["BadChunk", "HasBuffer", "most_own", "open_chunks", "parallel_map", "read_record"]


MOST_BYTES = 64 << 20
"""The most to decode at once, where there is a choice."""
MOST_OWN_BYTES = 128 << 10
"""Larger Zstandard frames that are needed whole go to the zstd library, if installed: it is a tenth faster on 1 MB of text. Our
decoder is fastest when it decodes two small frames interleaved."""


class HasBuffer(Protocol):
    """A file as memory: mapped, or a window on its fetched parts."""

    path: str
    buffer: memoryview
    size: int


class BadChunk(Exception):
    """One of several chunks is damaged.

    Args:
        number: Position of the first damaged one.
        fault: The error.
        before: The decoded chunks before it; ``None`` if there are none.
    """

    def __init__(self, number: int, fault: CorruptRecord, before: _native.Chunks | None = None) -> None:
        super().__init__(str(fault))
        self.number = number
        self.fault = fault
        self.before = before


def open_chunks(
    file: HasBuffer,
    begins: Indices,
    counts: Indices | None = None,
    *,
    verify: bool,
    most_bytes: int = MOST_BYTES,
    threads: int = 1,
) -> _native.Chunks:
    """Read, check and decompress as many chunks as decode to ``most_bytes`` in total, but at least one.

    Args:
        file: The file they are in.
        begins: ``int64 (n,)``, n > 0: their offsets.
        counts: ``int64 (n,)``: the expected number of records in each, if known.
        verify: Whether to check data against their hashes. Headers are always checked.
        most_bytes: See above.
        threads: The most threads to use.

    Raises:
        BadChunk: A chunk is damaged. The error holds the chunks before it.
        MissingExtra: The library for their codec is not installed.
    """
    try:
        chunks = _native.open_chunks(
            file.buffer,
            begins,
            counts,
            most_bytes=most_bytes,
            verify=verify,
            threads=threads,
            most_own=most_own(is_own=engines().zstd.is_own),
        )
        unpack(chunks, file)
    except (_native.FormatError, BadChunk) as error:
        bad = error if isinstance(error, BadChunk) else BadChunk(error.record, _describe_chunk(error, file.path))
        if bad.number > 0:
            # Each check runs over all chunks before the next check. An earlier chunk may still fail a later one; then this call raises.
            some = None if counts is None else counts[: bad.number]
            bad.before = open_chunks(
                file, begins[: bad.number], some, verify=verify, most_bytes=most_bytes, threads=threads
            )
        if bad is error:
            raise
        raise bad from error
    return chunks


@cache
def most_own(*, is_own: bool) -> int:
    """The largest Zstandard frame, in decoded bytes, that our decoder handles."""
    if not is_own:
        return 0
    return MOST_OWN_BYTES if _optional.available("zstandard") else 1 << 62


def read_record(file: HasBuffer, begin: int, *, verify: bool) -> memoryview:
    """The record of a single-record chunk.

    Raises:
        BadChunk: The chunk is damaged.
    """
    try:
        chunk = _native.open_chunk(
            file.buffer, begin, 1, verify=verify, most_own=most_own(is_own=engines().zstd.is_own)
        )
        unpack(chunk, file)
    except _native.FormatError as error:
        raise BadChunk(0, _describe_chunk(error, file.path)) from error
    return chunk.view(0)


def unpack(chunks: _native.Chunks, file: HasBuffer) -> None:
    """Decompress what native code left: anything but Zstandard, and unusual Zstandard frames."""
    while not chunks.ready:
        for codec, source, target, number in chunks.jobs():
            unpacker = library(codec)
            try:
                with guard_reads(source):
                    size = unpacker.unpack_into(source, target)
            except unpacker.errors as error:
                raise BadChunk(
                    number, _undecodable(chunks, number, file, "an intact compressed stream", str(error))
                ) from error
            if size != len(target):
                found = f"{size}" if size < len(target) else "more"
                expected = f"{len(target)} decompressed bytes"
                raise BadChunk(number, _undecodable(chunks, number, file, expected, found))
        chunks.advance()


def _describe_chunk(error: _native.FormatError, path: str) -> CorruptRecord:
    fault = describe(error, Where(path=path, offset=int(error.offset)))
    return CorruptRecord(fault.where.at(path=path), expected=fault.expected, found=fault.found, hint=fault.hint)


def _undecodable(chunks: _native.Chunks, number: int, file: HasBuffer, expected: str, found: str) -> CorruptRecord:
    return CorruptRecord(Where(path=file.path, offset=chunks.begin(number)), expected=expected, found=found)


T = TypeVar("T")


def parallel_map(work: Callable[[int, int], list[T]], count: int, *, least: int) -> list[T]:
    """The results of ``work(start, stop)`` over ``count`` items, in order, on as many cores as pay off.

    The work must release the GIL most of the time. :func:`headrace.io.system.spare_cores` decides which cores are free.

    Args:
        work: Returns the results for a range of items.
        count: The number of items.
        least: The fewest items worth waking a thread for.
    """
    worth = count // least
    parts = min(spare_cores(), worth) if worth > 1 else 1
    if parts < 2:
        return work(0, count)
    bounds = [count * number // parts for number in range(parts + 1)]
    waiting = [_helpers(os.getpid()).submit(work, *part) for part in pairwise(bounds[1:])]
    done = work(0, bounds[1])
    for part in waiting:
        done += part.result()
    return done


@cache
def _helpers(_process: int) -> ThreadPool:
    """Worker threads. A forked child does not inherit them, so each process has its own."""
    return ThreadPool(max(1, usable_cores() - 1), thread_name_prefix="headrace-unpack")
