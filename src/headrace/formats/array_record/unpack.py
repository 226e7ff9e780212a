"""Unpacking chunks into records, on several cores."""

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

__all__ = ["BadChunk", "HasBuffer", "open_chunks", "parallel_map", "read_record"]


MOST_BYTES = 64 << 20
"""How much is decoded at once, where that can be chosen."""
MOST_OWN_BYTES = 128 << 10
"""Larger Zstandard frames are the library's where it is installed: of 1 MB of text it makes a third more a second, while
our own code is fastest when it decodes two small frames interleaved."""


class HasBuffer(Protocol):
    """A file as memory: mapped, or a window on what was fetched of it."""

    path: str
    buffer: memoryview
    size: int


class BadChunk(Exception):
    """One of several chunks is damaged.

    Args:
        number: Which of them: the first that is damaged.
        fault: What is wrong with it.
        before: The chunks before it, opened; ``None`` where there are none.
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
    """Read, check and decompress chunks: as many as decode to ``most_bytes`` together, but at least one.

    Args:
        file: The file they are in.
        begins: ``int64 (n,)``, n > 0: where they begin.
        counts: ``int64 (n,)``: how many records each must have, where that is known.
        verify: Whether their data are held against their hashes. Headers always are.
        most_bytes: See above.
        threads: How many may work on it.

    Raises:
        BadChunk: One of them is damaged. It holds the chunks before that one.
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
            most_own=_most_own(is_own=engines().zstd.is_own),
        )
        unpack(chunks, file)
    except (_native.FormatError, BadChunk) as error:
        bad = error if isinstance(error, BadChunk) else BadChunk(error.record, _describe_chunk(error, file.path))
        if bad.number > 0:
            # All chunks pass one check before any passes the next: another one before it may fail a later check. Then this raises.
            some = None if counts is None else counts[: bad.number]
            bad.before = open_chunks(
                file, begins[: bad.number], some, verify=verify, most_bytes=most_bytes, threads=threads
            )
        if bad is error:
            raise
        raise bad from error
    return chunks


@cache
def _most_own(*, is_own: bool) -> int:
    """The largest Zstandard frame, in decoded bytes, that our decoder takes."""
    if not is_own:
        return 0
    return MOST_OWN_BYTES if _optional.available("zstandard") else 1 << 62


def read_record(file: HasBuffer, begin: int, *, verify: bool) -> memoryview:
    """The record of a chunk of one.

    Raises:
        BadChunk: It is damaged.
    """
    try:
        chunk = _native.open_chunk(
            file.buffer, begin, 1, verify=verify, most_own=_most_own(is_own=engines().zstd.is_own)
        )
        unpack(chunk, file)
    except _native.FormatError as error:
        raise BadChunk(0, _describe_chunk(error, file.path)) from error
    return chunk.view(0)


def unpack(chunks: _native.Chunks, file: HasBuffer) -> None:
    """Decompress whatever chunks wait for: what is not Zstandard, or is so in a way of its own."""
    while not chunks.ready:
        for codec, source, target, number in chunks.jobs():
            unpacker = library(codec)
            try:
                with guard_reads(source):
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


def _describe_chunk(error: _native.FormatError, path: str) -> CorruptRecord:
    fault = describe(error, Where(path=path, offset=int(error.offset)))
    return CorruptRecord(fault.where.at(path=path), expected=fault.expected, found=fault.found, hint=fault.hint)


def _undecodable(chunks: _native.Chunks, number: int, file: HasBuffer, expected: str, found: str) -> CorruptRecord:
    return CorruptRecord(Where(path=file.path, offset=chunks.begin(number)), expected=expected, found=found)


T = TypeVar("T")


def parallel_map(work: Callable[[int, int], list[T]], count: int, *, least: int) -> list[T]:
    """The results of ``work(start, stop)`` over all of ``count`` items, in order, computed on as many cores as pay off.

    The work must release the GIL for most of its time. :func:`headrace.io.system.spare_cores` says when cores are spare.

    Args:
        work: Gives the results for some of the items.
        count: How many items there are.
        least: Fewer than these are not worth waking a thread.
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
    """Threads that wait for work. A forked child does not inherit them: it has its own."""
    return ThreadPool(max(1, usable_cores() - 1), thread_name_prefix="headrace-unpack")
