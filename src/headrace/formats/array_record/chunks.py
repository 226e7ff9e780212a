"""Reading records from chunks. Each call reads, checks and decompresses a chunk once; large chunks are cached for later calls."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.contracts.values import Indices
from headrace.errors import CorruptRecord
from headrace.formats.array_record.codecs import BROTLI, ZSTD
from headrace.formats.array_record.footer import ChunkTable, Reached, reach, reached_in_order
from headrace.formats.array_record.unpack import BadChunk, open_chunks, parallel_map, read_record
from headrace.io.engines import engines
from headrace.io.local.fileset import FileSet
from headrace.io.system import spare_cores

__all__ = ["ChunkReader"]


SLOW = (ZSTD, BROTLI)  # slow enough to be worth another core: microseconds a record, spent without the GIL
LEAST_CHUNKS = 32
KEPT_BYTES = 64 << 20  # decoded chunks cached between calls
KEPT_RECORDS = 8  # smaller chunks are not cached: they are decoded again, several at once
USUAL_AT_ONCE = 2048  # single-record chunks of at most 128 KiB each
HELD_BYTES = 256 << 20  # decoded chunks held at a time before records are taken from them


class _Opened(NamedTuple):
    """Decoded chunks that are adjacent in the requested list."""

    chunks: _native.Chunks
    number: int


class ChunkReader:
    """Reads chunks from a set of files.

    Args:
        files: The files.
        table: Where the chunks are.
        verify: Whether to check data against their hashes.
        ends: Where the chunks end, if some files are remote: the ranges needed are then fetched together.
    """

    def __init__(self, files: FileSet, table: ChunkTable, *, verify: bool, ends: Indices | None = None) -> None:
        self._set = files
        self._files: FileSet | Reached = files
        self._ends = ends
        self._pinned: dict[int, _native.Chunks] = {}
        self._table = table
        self._verify = verify
        self._keeps = len(table) >= KEPT_RECORDS * max(1, len(table.begins))
        self._is_slow = False
        self._is_usual = table.single and engines().zstd.is_own  # until proven otherwise
        self._bytes_wanted = _native.BytesWanted()
        # No lock: single operations on a dict are atomic, and a lock could be held by another thread when we are forked.
        self._kept: dict[int, _native.Chunks] = {}

    def spans(self, indices: Indices) -> _native.Spans:
        """The payloads of these records, in the given order.

        Raises:
            CorruptRecord: A chunk is damaged; the error gives the number of its first record in the file.
        """
        wanted = self._table.chunks_of(indices)
        if self._fetches:
            return self._reaching(np.unique(wanted)).spans(indices)
        return self._usual_spans(indices) if self._is_usual else self._opened_spans(indices, wanted)

    def _usual_spans(self, indices: Indices) -> _native.Spans:
        """The usual case: chunks of one small record each, as writers of training data make them. Other chunks take the general path."""
        parts = [
            self._singles(indices[start : start + USUAL_AT_ONCE]) for start in range(0, len(indices), USUAL_AT_ONCE)
        ]
        return parts[0] if len(parts) == 1 else _native.join_spans(parts)

    def _singles(self, indices: Indices) -> _native.Spans:
        which = None if len(self._files) == 1 else self._table.file_of[indices].astype(np.int32)
        buffers, which = self._set.buffers(which)
        spans, left = _native.gather_singles(
            buffers,
            which,
            self._table.begins[indices],
            verify=self._verify,
            threads=spare_cores(),
            bytes_wanted=self._bytes_wanted,
        )
        if left is None:
            return spans
        if 2 * len(left) > len(indices):
            opened = self._opened_spans(indices, indices)
            self._is_usual = len(indices) < LEAST_CHUNKS  # No damage; a small sample says little about the rest.
            return opened
        others = self._opened_spans(indices[left], indices[left])
        part_of, place_in = np.zeros(len(indices), np.int32), np.arange(len(indices))
        part_of[left], place_in[left] = 1, np.arange(len(left))
        return _native.pick_spans([spans, others], part_of, place_in)

    def _opened_spans(self, indices: Indices, wanted: Indices) -> _native.Spans:
        if self._table.single and len(self._files) == 1:
            return self._spans_of_singles(wanted)
        chunks, inverse = np.unique(wanted, return_inverse=True)
        within = indices - self._table.firsts[wanted]
        parts: list[_native.Spans] = []
        part_of = np.zeros(len(indices), np.int32)
        place_in = np.zeros(len(indices), np.int64)
        for start, stop, opened in self._bounded(chunks):
            mine = np.flatnonzero((inverse >= start) & (inverse < stop))
            source, first = _number_chunks(opened, self._table.counts(chunks[start:stop]))
            numbers = inverse[mine] - start
            part = _native.gather_chunks([one.chunks for one in opened], source[numbers], first[numbers] + within[mine])
            part_of[mine], place_in[mine] = len(parts), np.arange(len(mine))
            parts.append(part)
        return parts[0] if len(parts) == 1 else _native.pick_spans(parts, part_of, place_in)

    def one(self, index: int) -> memoryview:
        """The payload of one record.

        Raises:
            CorruptRecord: Its chunk is damaged.
        """
        if self._fetches or not self._table.single:
            return self.spans(np.array([index], np.int64)).view(0)
        file = 0 if len(self._files) == 1 else int(self._table.file_of[index])
        try:
            return read_record(self._files.content(file), self._table.begins.item(index), verify=self._verify)
        except BadChunk as error:
            raise self._placed(error, index) from error

    def runs(self, max_bytes: int) -> Iterator[_native.Spans]:
        """The payloads of all records in file order, about ``max_bytes`` at a time.

        Raises:
            CorruptRecord: At the first damaged chunk, after everything before it was yielded.
        """
        if self._fetches and self._ends is not None:
            for start, stop, files in reached_in_order(self._set, self._table, self._ends):
                yield from self._near(files, {})._runs(start, stop, max_bytes)
        else:
            yield from self._runs(0, len(self._table.begins), max_bytes)

    def _runs(self, start: int, stop: int, max_bytes: int) -> Iterator[_native.Spans]:
        while start < stop:
            chunks = np.arange(start, min(stop, start + max(1, max_bytes >> 6)))
            chunks = chunks[self._table.file_of[chunks] == self._table.file_of[start]]
            try:
                opened = self._open(chunks, most_bytes=max_bytes)
            except BadChunk as error:
                if error.before is not None:
                    yield error.before.spans()
                raise self._placed(error, int(chunks[error.number])) from error
            spans = opened.chunks.spans()
            self._files.touched(spans.total_bytes)
            yield spans
            start += opened.number

    @property
    def _fetches(self) -> bool:
        return self._ends is not None and self._files is self._set and self._set.worth_fetching()

    def _reaching(self, chunks: Indices) -> ChunkReader:
        """A reader with these chunks in memory: cached ones, and the rest fetched now."""
        pinned = {chunk: self._kept[chunk] for chunk in chunks.tolist() if chunk in self._kept}
        missing = chunks[~np.isin(chunks, list(pinned))] if pinned else chunks
        if self._ends is None:
            raise AssertionError("asked only where chunks are fetched")
        return self._near(reach(self._set, self._table, self._ends, missing), pinned)

    def _near(self, files: Reached, pinned: dict[int, _native.Chunks]) -> ChunkReader:
        near = copy(self)
        near._files, near._pinned, near._is_usual = files, pinned, False
        return near

    def _spans_of_singles(self, chunks: Indices) -> _native.Spans:
        """Payloads from one file. Everything decoded is handed over, so its size is unbounded."""
        begins = self._table.begins[chunks]
        counts = np.ones(len(chunks), np.int64)

        def opened(start: int, stop: int) -> list[_native.Spans]:
            parts = []
            while start < stop:
                try:
                    part = self._read(0, begins[start:stop], counts[start:stop], HELD_BYTES)
                except BadChunk as error:
                    raise self._placed(error, int(chunks[start + error.number])) from error
                parts.append(part.spans())
                start += len(part)
                self._is_slow = part.needed in SLOW
            return parts

        parts = parallel_map(opened, len(chunks), least=LEAST_CHUNKS) if self._is_slow else opened(0, len(chunks))
        return parts[0] if len(parts) == 1 else _native.join_spans(parts)

    def _bounded(self, chunks: Indices) -> Iterator[tuple[int, int, list[_Opened]]]:
        """Decode chunks, yielding before they take too much memory: the first chunk, one past the last, and the decoded chunks."""
        start = at = 0
        several: list[_Opened] = []
        held = 0
        while at < len(chunks):
            opened = self._opened(chunks[at:])
            several.append(opened)
            at += opened.number
            held += opened.chunks.held_bytes
            if held >= HELD_BYTES:
                yield start, at, several
                start, several, held = at, [], 0
        if several:
            yield start, at, several

    def _opened(self, chunks: Indices) -> _Opened:
        """Decode the first of these chunks, and as many of the following ones as fit the same call."""
        first = int(chunks[0])
        if self._keeps:
            return _Opened(self._kept_or_opened(first), 1)
        file = self._table.file_of[chunks]
        others = np.flatnonzero(file != file[0])
        together = chunks[: others[0]] if len(others) else chunks
        try:
            return self._open(together)
        except BadChunk as error:
            raise self._placed(error, int(together[error.number])) from error

    def _kept_or_opened(self, chunk: int) -> _native.Chunks:
        found = self._pinned.get(chunk) or self._kept.pop(chunk, None)
        if found is None:
            try:
                found = self._open(np.array([chunk], np.int64)).chunks
            except BadChunk as error:
                raise self._placed(error, chunk) from error
        if found.held_bytes <= KEPT_BYTES:
            self._kept[chunk] = found  # as the most recent
            self._let_go()
        return found

    def _let_go(self) -> None:
        kept = list(self._kept.items())
        held = sum(chunks.held_bytes for _, chunks in kept)
        for chunk, chunks in kept:
            if held <= KEPT_BYTES:
                return
            held -= chunks.held_bytes
            self._kept.pop(chunk, None)

    def _open(self, chunks: Indices, *, most_bytes: int = HELD_BYTES) -> _Opened:
        """Decode chunks of one file.

        Raises:
            BadChunk: A chunk is damaged or disagrees with the footer.
        """
        file = int(self._table.file_of[chunks[0]])
        opened = self._read(file, self._table.begins[chunks], self._table.counts(chunks), most_bytes)
        return _Opened(opened, len(opened))

    def _read(self, file: int, begins: Indices, counts: Indices, most_bytes: int) -> _native.Chunks:
        return open_chunks(
            self._files.content(file),
            begins,
            counts,
            verify=self._verify,
            most_bytes=most_bytes,
            threads=spare_cores(),
        )

    def _placed(self, error: BadChunk, chunk: int) -> CorruptRecord:
        """The error with the number of the first record of the chunk."""
        fault = error.fault
        place = self._table.where(int(self._table.firsts[chunk]))
        return CorruptRecord(place, expected=fault.expected, found=fault.found, hint=fault.hint)


def _number_chunks(opened: list[_Opened], counts: Indices) -> tuple[npt.NDArray[np.int32], Indices]:
    """For each chunk, the decoded group it is in and the number of its first record in that group."""
    source = np.repeat(np.arange(len(opened), dtype=np.int32), [one.number for one in opened])
    before = np.concatenate(([0], np.cumsum(counts)))[:-1]
    starts = np.cumsum([0, *(one.number for one in opened)])[:-1]
    return source, before - np.repeat(before[starts], [one.number for one in opened])
