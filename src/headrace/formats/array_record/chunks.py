"""Reading records from chunks. Chunks of one record are read, checked and decompressed in one native call. Chunks of many are
decompressed as far as needed, and the recent ones are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.contracts.values import Indices
from headrace.errors import CorruptRecord
from headrace.formats.array_record.codecs import BROTLI, ZSTD
from headrace.formats.array_record.footer import ChunkTable, Reached, reach, reached_in_order
from headrace.formats.array_record.unpack import BadChunk, most_own, open_chunks, parallel_map, read_record
from headrace.io.engines import engines
from headrace.io.local.fileset import FileSet
from headrace.io.local.signatures import Signature
from headrace.io.system import cached_property, spare_cores, usable_memory

__all__ = ["ChunkReader"]


SLOW = (ZSTD, BROTLI)  # slow enough to be worth another core: microseconds a record, spent without the GIL
LEAST_CHUNKS = 32
KEPT_SHARE = 1 / 32  # of the memory of this machine or container, for recent chunks of many records
MOST_KEPT_BYTES = 1 << 30
LEAST_KEPT_BYTES = 16 << 20
USUAL_AT_ONCE = 2048  # single-record chunks
HELD_BYTES = 256 << 20  # decoded chunks held at a time before records are taken from them
WORTH_A_THREAD = 64 << 10  # decoded bytes
MOST_SHARED_SETS, MOST_SHARED_FILES, MOST_SHARED_CHUNKS = 8, 4096, 1 << 20  # whose intact chunks are remembered

Flags: TypeAlias = npt.NDArray[np.uint8]


def _is_scattered(indices: Indices) -> bool:
    low, high = _native.bounds(indices)
    return high - low > 2 * len(indices)


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
        self._table = table
        self._verify = verify
        self._is_slow = False
        self._is_own = engines().zstd.is_own
        self._is_usual = table.single and self._is_own  # until proven otherwise
        # The largest compressed chunks, in decoded bytes, to decompress natively. Taking part of one is faster natively, taking all of a
        # large one by the library.
        self._most_packed = 1 << 62 if self._is_own else 0
        self._most_packed_in_order = most_own(is_own=self._is_own)
        self._chunk_bytes = HELD_BYTES  # of a decoded chunk, once one was decoded
        self._bytes_wanted = _native.BytesWanted()

    @cached_property
    def _store(self) -> _native.ChunkStore:
        """The recent chunks of many records. It has no lock that another thread could hold when we are forked."""
        intact = _intact_chunks(self._set, self._table) if self._verify else None
        return _native.ChunkStore(self._table.firsts, self._table.begins, intact, most_bytes=_most_kept_bytes())

    def spans(self, indices: Indices) -> _native.Spans:
        """The payloads of these records, in the given order.

        Raises:
            CorruptRecord: A chunk is damaged; the error gives the number of its first record in the file.
        """
        if not self._table.single:
            return self._grouped_spans(indices)
        if self._fetches:
            return self._near(self._reach(np.unique(indices)))._opened_spans(indices, indices)
        if _native.has_read_from_disk() and _is_scattered(indices):
            self._request(indices)
        return self._usual_spans(indices) if self._is_usual else self._opened_spans(indices, indices)

    def _usual_spans(self, indices: Indices) -> _native.Spans:
        """The usual case: chunks of one record each, as writers of training data make them. Other chunks take the general path."""
        parts = [
            self._singles(indices[start : start + USUAL_AT_ONCE]) for start in range(0, len(indices), USUAL_AT_ONCE)
        ]
        return parts[0] if len(parts) == 1 else _native.join_spans(parts)

    def _singles(self, indices: Indices) -> _native.Spans:
        which = None if len(self._files) == 1 else self._table.file_of[indices]
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
        return _fill_places(spans, left, self._opened_spans(indices[left], indices[left]))

    def _grouped_spans(self, indices: Indices) -> _native.Spans:
        """From chunks of many records. Those of unusual kinds, and damaged ones, take the general path."""
        chunks = self._store.chunks_of(indices)
        if not self._fetches:
            if _native.has_read_from_disk() and _is_scattered(indices):
                self._request(self._store.pin(np.unique(chunks))[1])
            return self._gather(indices, chunks)
        pinned, missing = self._store.pin(np.unique(chunks))
        return self._near(self._reach(missing))._gather(indices, chunks, pinned)

    def _request(self, chunks: Indices) -> None:
        """Ask the system for all these chunks, because reading one after the other waits for the disk each time."""
        begins = self._table.begins
        ends = begins[np.minimum(chunks + 1, len(begins) - 1)]  # where they are known: not of the last chunk of a file
        buffers, which = self._set.buffers(None if len(self._set) == 1 else self._table.file_of[chunks])
        _native.request_ranges(buffers, which, begins[chunks], ends)

    def _gather(self, indices: Indices, chunks: Indices, pinned: _native.PinnedChunks | None = None) -> _native.Spans:
        in_order = len(indices) > 1 and int(indices[-1]) - int(indices[0]) == len(indices) - 1
        buffers, which = self._files.buffers(None if len(self._files) == 1 else self._table.file_of[chunks])
        spans, left = self._store.gather(
            buffers,
            which,
            chunks,
            indices,
            self._bytes_wanted,
            pinned,
            in_order=in_order,
            whole=self._files is not self._set,
            most_packed=self._most_packed_in_order if in_order else self._most_packed,
            threads=spare_cores(),
        )
        if left is None:
            return spans
        others = self._opened_spans(indices[left], chunks[left], in_order=in_order)
        return others if len(left) == len(indices) else _fill_places(spans, left, others)

    def _opened_spans(self, indices: Indices, wanted: Indices, *, in_order: bool = False) -> _native.Spans:
        if self._table.single and len(self._files) == 1:
            return self._spans_of_singles(wanted)
        chunks, inverse = np.unique(wanted, return_inverse=True)
        within = indices - self._table.firsts[wanted]
        parts: list[_native.Spans] = []
        part_of = np.zeros(len(indices), np.int32)
        place_in = np.zeros(len(indices), np.int64)
        for start, stop, opened in self._decode_in_parts(chunks):
            mine = np.flatnonzero((inverse >= start) & (inverse < stop))
            source, first = _number_chunks(opened, self._table.counts(chunks[start:stop]))
            numbers = inverse[mine] - start
            part = _native.gather_chunks([one.chunks for one in opened], source[numbers], first[numbers] + within[mine])
            part_of[mine], place_in[mine] = len(parts), np.arange(len(mine))
            parts.append(part)
            if not self._table.single:
                self._remember(chunks[start:stop], opened, until=int(indices[-1]) if in_order else None)
        return parts[0] if len(parts) == 1 else _native.pick_spans(parts, part_of, place_in)

    def _remember(self, chunks: Indices, opened: list[_Opened], *, until: int | None) -> None:
        """Keep decoded chunks. After reading in order ``until`` a record, only a chunk that has further ones."""
        for one in opened:
            mine, chunks = chunks[: one.number], chunks[one.number :]
            if until is None or (len(mine) == 1 and int(self._table.firsts[mine[0] + 1]) - 1 > until):
                self._store.put(mine, one.chunks)

    def one(self, index: int) -> memoryview:
        """The payload of one record.

        Raises:
            CorruptRecord: Its chunk is damaged.
        """
        if self._fetches:
            return self.spans(np.array([index], np.int64)).view(0)
        if not self._table.single:
            return self._grouped_one(index)
        number = 0 if len(self._table.paths) == 1 else self._table.file_of.item(index)
        file, begin = self._files.content(number), self._table.begins.item(index)
        if self._is_own and (found := _native.read_single(file.buffer, begin, verify=self._verify)) is not None:
            return found
        try:
            return read_record(file, begin, verify=self._verify)
        except BadChunk as error:
            raise self._relocate(error, index) from error

    def _grouped_one(self, index: int) -> memoryview:
        chunk = self._store.chunk_of(index)
        file = 0 if len(self._files) == 1 else int(self._table.file_of[chunk])
        found = self._store.take(self._files.content(file).buffer, chunk, index, self._most_packed)
        return self.spans(np.array([index], np.int64)).view(0) if found is None else found

    def runs(self, max_bytes: int) -> Iterator[_native.Spans]:
        """The payloads of all records in file order, about ``max_bytes`` at a time.

        Raises:
            CorruptRecord: At the first damaged chunk, after everything before it was yielded.
        """
        if self._fetches and self._ends is not None:
            for start, stop, files in reached_in_order(self._set, self._table, self._ends):
                yield from self._near(files)._runs(start, stop, max_bytes)
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
                raise self._relocate(error, int(chunks[error.number])) from error
            spans = opened.chunks.spans()
            self._files.touched(spans.total_bytes)
            yield spans
            start += opened.number

    @property
    def _fetches(self) -> bool:
        return self._ends is not None and self._files is self._set and self._set.worth_fetching()

    def _reach(self, chunks: Indices) -> Reached:
        """The files with these chunks fetched now."""
        if self._ends is None:
            raise AssertionError("asked only where chunks are fetched")
        return reach(self._set, self._table, self._ends, chunks)

    def _near(self, files: Reached) -> ChunkReader:
        """This reader on files with some chunks in memory."""
        near = copy(self)
        near._files, near._is_usual = files, False
        return near

    def _spans_of_singles(self, chunks: Indices) -> _native.Spans:
        """Payloads from one file. Everything decoded is handed over, so its size is unbounded."""
        begins = self._table.begins[chunks]
        counts = np.ones(len(chunks), np.int64)

        def open_from(start: int, stop: int) -> list[_native.Spans]:
            parts = []
            while start < stop:
                try:
                    part = self._read(0, begins[start:stop], counts[start:stop], HELD_BYTES)
                except BadChunk as error:
                    raise self._relocate(error, int(chunks[start + error.number])) from error
                parts.append(part.spans())
                start += len(part)
                self._is_slow = part.needed in SLOW
            return parts

        parts = parallel_map(open_from, len(chunks), least=LEAST_CHUNKS) if self._is_slow else open_from(0, len(chunks))
        return parts[0] if len(parts) == 1 else _native.join_spans(parts)

    def _decode_in_parts(self, chunks: Indices) -> Iterator[tuple[int, int, list[_Opened]]]:
        """Decode chunks, yielding before they take too much memory: the first chunk, one past the last, and the decoded chunks."""
        start = at = 0
        several: list[_Opened] = []
        held = 0
        while at < len(chunks):
            for opened in self._open_first(chunks[at:]):
                several.append(opened)
                at += opened.number
                held += opened.chunks.held_bytes
            if held >= HELD_BYTES:
                yield start, at, several
                start, several, held = at, [], 0
        if several:
            yield start, at, several

    def _open_first(self, chunks: Indices) -> list[_Opened]:
        """Decode the first of these chunks, and as many of the following ones as may be held."""
        others = np.flatnonzero(self._table.file_of[chunks] != self._table.file_of[chunks[0]])
        together = chunks[: others[0]] if len(others) else chunks
        fitting = together[: max(1, HELD_BYTES // self._chunk_bytes)]

        def open_from(start: int, stop: int) -> list[_Opened]:
            parts = []
            while start < stop:
                try:
                    parts.append(self._open(fitting[start:stop]))
                except BadChunk as error:
                    raise self._relocate(error, int(fitting[start + error.number])) from error
                start += parts[-1].number
            return parts

        if self._is_slow:
            parts = parallel_map(open_from, len(fitting), least=max(1, WORTH_A_THREAD // self._chunk_bytes))
        else:
            parts = open_from(0, len(fitting))
        self._is_slow = parts[0].chunks.needed in SLOW
        self._chunk_bytes = max(1, *(part.chunks.held_bytes // part.number for part in parts))
        return parts

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

    def _relocate(self, error: BadChunk, chunk: int) -> CorruptRecord:
        """The error with the number of the first record of the chunk."""
        fault = error.fault
        place = self._table.where(int(self._table.firsts[chunk]))
        return CorruptRecord(place, expected=fault.expected, found=fault.found, hint=fault.hint)


_INTACT: dict[tuple[tuple[str, Signature], ...], tuple[Indices, Flags]] = {}
"""For sets of files: where their chunks begin, and which had the right hash. The oldest sets are dropped."""


def _intact_chunks(files: FileSet, table: ChunkTable) -> Flags:
    """Which chunks had the right hash: ``uint8``, shared by all readers of the same versions of the same files in this process. No lock is
    needed: a flag that is set twice, or a set that two threads add, costs a hash.
    """
    count = len(table.begins)
    intact = np.zeros(count, np.uint8)
    if files.is_remote or not 0 < count <= MOST_SHARED_CHUNKS or len(files) > MOST_SHARED_FILES:
        return intact
    contents = [files.content(number) for number in range(len(files))]
    if not all(content.signature.is_settled() for content in contents):
        return intact
    key = tuple((content.opened, content.signature) for content in contents)
    known = _INTACT.pop(key, None)
    if known is None or not np.array_equal(known[0], table.begins):
        known = table.begins, intact
    _INTACT[key] = known
    for oldest in list(_INTACT)[:-MOST_SHARED_SETS]:
        _INTACT.pop(oldest, None)
    return known[1]


def _most_kept_bytes() -> int:
    """How much memory recent chunks may take: no more than an even share where several processes read."""
    memory = usable_memory()
    share = LEAST_KEPT_BYTES if memory is None else int(memory * KEPT_SHARE)
    return min(max(share, LEAST_KEPT_BYTES), MOST_KEPT_BYTES)


def _fill_places(spans: _native.Spans, missing: Indices, others: _native.Spans) -> _native.Spans:
    """The spans with ``others`` in the ``missing`` places."""
    part_of, place_in = np.zeros(len(spans), np.int32), np.arange(len(spans))
    part_of[missing], place_in[missing] = 1, np.arange(len(missing))
    return _native.pick_spans([spans, others], part_of, place_in)


def _number_chunks(opened: list[_Opened], counts: Indices) -> tuple[npt.NDArray[np.int32], Indices]:
    """For each chunk, the decoded group it is in and the number of its first record in that group."""
    source = np.repeat(np.arange(len(opened), dtype=np.int32), [one.number for one in opened])
    before = np.concatenate(([0], np.cumsum(counts)))[:-1]
    starts = np.cumsum([0, *(one.number for one in opened)])[:-1]
    return source, before - np.repeat(before[starts], [one.number for one in opened])
