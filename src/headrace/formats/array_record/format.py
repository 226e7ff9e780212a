"""ArrayRecord files: groups of records as chunks of a Riegeli file, with a footer that lists them. Riegeli files without
a footer can be read too.

Source of the format: the Riegeli project's ``doc/riegeli_records_file_format.md``; the ArrayRecord project's
``cpp/layout.proto`` and ``cpp/array_record_writer.h``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from headrace import _native
from headrace._arguments import check_position
from headrace.contracts.records import Checked, Format, OnCorrupt, Skipped
from headrace.contracts.values import Indices
from headrace.errors import DataError, Where, shorten_path
from headrace.formats.array_record.chunks import ChunkReader
from headrace.formats.array_record.footer import ChunkTable, Footer, chunk_ends, fetch_footers, read_footer
from headrace.formats.array_record.join import pieces_of_chunks
from headrace.formats.array_record.scan import ScanResult, scan_file
from headrace.formats.array_record.verify import salvage, verify_file
from headrace.formats.array_record.write import ArrayRecordWriter, JoinedRecordWriter
from headrace.formats.index.places import BlockPlaces
from headrace.io.local.fileset import FileSet
from headrace.io.local.mapped import MappedFile
from headrace.io.system import cached_property

__all__ = ["FORMAT", "RIEGELI", "ArrayRecordRecords", "RiegeliRecords", "is_array_record"]


FIRST_CHUNK, CHUNK_HEADER, KIND_AT = (
    64,
    40,
    24,
)  # bytes: the file signature before the header; the header; the offset of the chunk type in it
PACKINGS = {b"b": "brotli", b"z": "zstd", b"s": "snappy"}
SIGNATURE = bytes(_native.frame_signature())


class ArrayRecordRecords:
    """The records of ArrayRecord files, concatenated in order.

    The footers are the index: nothing is scanned or cached on disk. A chunk of many records is decompressed only as far as
    needed. Once it is wanted again, it is kept for later calls; such chunks take at most 1/32 of the memory of the machine or
    container, and at most 1 GiB. The hash of such a chunk is checked when it is first read in a process, and again if the
    file changed since. Chunks may differ in size, and may be
    simple or transposed. Picklable; safe in threads and after fork.

    Args:
        paths: The files, as :func:`headrace.io.paths.expand` gives them.
        on_corrupt: ``"raise"``, or ``"skip"`` to skip the records of damaged chunks and count them in ``skipped``.
            Skipping reads and decodes every chunk at first use, and needs no footer.
        verify: ``False`` skips the hashes of chunk data. Header hashes are always checked.

    Raises:
        CorruptFile: At first use: a file has no intact footer.
        MissingExtra: At first use of a chunk: the library of its codec is not installed.
    """

    format = "array_record"

    def __init__(
        self,
        paths: Sequence[str],
        *,
        on_corrupt: OnCorrupt = "raise",
        verify: bool = True,
    ) -> None:
        if on_corrupt not in ("raise", "skip"):
            raise ValueError(f"on_corrupt must be 'raise' or 'skip', got {on_corrupt!r}")
        self.paths: tuple[str, ...] = tuple(paths)
        self.on_corrupt: OnCorrupt = on_corrupt
        self.verify = verify
        self._files = FileSet(self.paths)
        self._opened: tuple[ChunkTable, ChunkReader] | None = None

    @property
    def prefers_streaming(self) -> bool:
        """Whether reading in order is faster without indices. True for remote files, which are then prefetched."""
        return self._files.is_remote and self._files.worth_fetching()

    @property
    def _table(self) -> ChunkTable:
        return self._open()[0]

    def _open(self) -> tuple[ChunkTable, ChunkReader]:
        if self._opened is None:
            skips = self.on_corrupt == "skip"
            table, ends = (self._scanned_table(), None) if skips else self._chunks()
            # The scan that finds what to skip has verified the data already.
            verify = self.verify and self.on_corrupt == "raise"
            self._files.expect([self._files.signature(number) for number in range(len(self.paths))])
            self._opened = table, ChunkReader(self._files, table, verify=verify, ends=ends)
        return self._opened

    def _footers(self) -> list[Footer]:
        if self._files.is_remote and self._files.worth_fetching():
            return fetch_footers(self._files)
        return [read_footer(file) for file in self.contents()]

    def _chunks(self) -> tuple[ChunkTable, Indices | None]:
        """Where the chunks begin, and where they end if that is needed to fetch them."""
        footers = self._footers()
        table = ChunkTable.of(self.paths, [f.begins for f in footers], [f.counts for f in footers], Skipped())
        return table, chunk_ends(footers) if self._files.is_remote else None

    def _scanned_table(self) -> ChunkTable:
        found = [scan_file(file, verify=self.verify, decode=True) for file in self.contents()]
        damage = [one for file in found for one in file.damage]
        skipped = Skipped(sum(one.records for one in damage), sum(one.end - one.begin for one in damage))
        return ChunkTable.of(self.paths, [f.begins for f in found], [f.counts for f in found], skipped)

    def contents(self) -> Iterator[MappedFile]:
        """Each file as memory."""
        return map(self._files.content, range(len(self.paths)))

    def footer(self, number: int = 0) -> Footer:
        """The footer of file ``number``: its writer's options and its chunks.

        Raises:
            CorruptFile: The file has no intact footer.
        """
        return read_footer(self._files.content(number))

    def scan(self, number: int = 0) -> ScanResult:
        """All intact chunks of file ``number`` and all damage, regardless of its footer."""
        return scan_file(self._files.content(number))

    @property
    def skipped(self) -> Skipped:
        """What ``on_corrupt="skip"`` left out."""
        return self._table.skipped if self.on_corrupt == "skip" else Skipped()

    def __len__(self) -> int:
        return len(self._table)

    def stored_bytes(self, first: int, stop: int) -> int:
        """About how many bytes the records from ``first`` up to ``stop`` take: their share of their chunks, which may be compressed."""
        return self._places.between(first, stop)

    @cached_property
    def _places(self) -> BlockPlaces:
        table = self._table
        sizes = [self._files.signature(number).size for number in range(len(self.paths))]
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])
        begins = before[table.file_of] + table.begins
        return BlockPlaces(table.firsts, np.diff(begins, append=before[-1]))

    @property
    def lengths(self) -> tuple[int, ...]:
        """The number of records in each file."""
        return self._table.lengths

    def __getitem__(self, index: int) -> memoryview:
        """The payload of one record, as a view that keeps its memory alive."""
        table, reader = self._open()
        payload = reader.one(check_position(index, table.records))
        self._files.touched(len(payload), scattered=1)
        return payload

    def __iter__(self) -> Iterator[memoryview]:
        """The payloads in order."""
        for _, spans in self.iter_spans():
            for position in range(len(spans)):
                yield spans.view(position)

    def spans(self, indices: Indices) -> _native.Spans:
        """The payloads of these records (``int64 (n,)``, none negative), in the given order.

        Raises:
            IndexError: An index is out of range.
            CorruptRecord: A chunk is damaged.
        """
        table, reader = self._open()
        if not len(indices):
            return _native.spans_of_buffers([])
        low, high = _native.bounds(indices)
        if low < 0 or high >= len(table):
            raise IndexError(f"records {low} to {high} of {len(table)}")
        spans = reader.spans(indices)
        self._files.touched(spans.total_bytes, scattered=0 if high - low <= 2 * len(indices) else len(indices))
        return spans

    def iter_spans(
        self, records: int | None = None, *, max_bytes: int = 1 << 20
    ) -> Iterator[tuple[int, _native.Spans]]:
        """All records in order.

        Args:
            records: Block size in records (the last may be smaller); ``None``: as many as fit ``max_bytes``.
            max_bytes: Approximate block size in bytes.

        Yields:
            The number of the block's first record, and its payloads.

        Raises:
            CorruptRecord: At the first damaged chunk, after a block of the records before it.
        """
        first = 0
        runs = self._runs(max_bytes)
        for spans in runs if records is None else _regroup(runs, records):
            yield first, spans
            first += len(spans)

    def _runs(self, max_bytes: int) -> Iterator[_native.Spans]:
        return self._open()[1].runs(max_bytes)

    def where(self, index: int) -> Where:
        """Path, number in its file, and chunk offset of record ``index``."""
        return self._table.where(index)

    where_in_order = where

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_places"} | {"_opened": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __repr__(self) -> str:
        files = shorten_path(self.paths[0]) if len(self.paths) == 1 else f"{len(self.paths)} files"
        return f"ArrayRecordRecords({files!r})"


def _regroup(runs: Iterator[_native.Spans], records: int) -> Iterator[_native.Spans]:
    """The same records, ``records`` at a time. Records before a fault are yielded before it is raised."""
    block: list[_native.Spans] = []
    missing = records
    try:
        for run in runs:
            start = 0
            while len(run) - start >= missing:
                yield _native.join_spans([*block, run.part(start, start + missing)])
                start, block, missing = start + missing, [], records
            if start < len(run):
                block.append(run.part(start, len(run)))
                missing -= len(run) - start
    except DataError:
        if block:
            yield _native.join_spans(block)
        raise
    if block:
        yield _native.join_spans(block)


def verify_files(records: ArrayRecordRecords) -> Iterator[Checked]:
    """Check every block, chunk, hash and count of every file. Plain Riegeli files have no footer to check."""
    for file in records.contents():
        for stretch in verify_file(file, has_footer=records.format == "array_record"):
            yield Checked(stretch.path, len(stretch.numbers), stretch.bytes, stretch.faults, stretch.spans, stretch)


def is_array_record(head: bytes) -> bool:
    """Whether these first bytes are those of a Riegeli file, which includes every ArrayRecord file."""
    return head.startswith(SIGNATURE)


def compression_of(paths: Sequence[str]) -> str:
    """The compression of the first chunk of each file; ``"none"`` for files without records."""
    return ", ".join(sorted({_first_packing(MappedFile(path)) for path in paths}))


def _first_packing(file: MappedFile) -> str:
    head = bytes(file.read(FIRST_CHUNK, CHUNK_HEADER + 1))
    kind, packing = head[KIND_AT : KIND_AT + 1], head[CHUNK_HEADER:]
    return PACKINGS.get(packing, "none") if kind in (b"r", b"t") else "none"


FORMAT = Format(
    name="array_record",
    suffixes=(".array_record", ".arrayrecord", ".riegeli"),
    knows=is_array_record,
    open=ArrayRecordRecords,
    options=frozenset({"on_corrupt", "verify"}),
    writer=ArrayRecordWriter,
    compressions=("zstd", "none", "brotli", "snappy"),
    compression_of=compression_of,
    pieces=pieces_of_chunks,
    joined_writer=JoinedRecordWriter,
    verify=verify_files,
    salvage=salvage,
)


class RiegeliRecords(ArrayRecordRecords):
    """The records of Riegeli files, concatenated in order.

    Like :class:`~headrace.formats.array_record.format.ArrayRecordRecords`, but without a footer: the chunks are found at
    first use, by following the chunk headers.
    """

    format = "riegeli"

    def _chunks(self) -> tuple[ChunkTable, None]:
        table, fault = self._found()
        if fault is not None:
            raise fault
        return table, None

    def _runs(self, max_bytes: int) -> Iterator[_native.Spans]:
        if self.on_corrupt == "skip" or self._opened is not None:
            yield from super()._runs(max_bytes)
            return
        table, fault = self._found()
        yield from ChunkReader(self._files, table, verify=self.verify).runs(max_bytes)
        if fault is not None:
            raise fault

    def _found(self) -> tuple[ChunkTable, DataError | None]:
        """The chunks before the first damage, and the error for that damage."""
        begins, counts = [], []
        fault: DataError | None = None
        for file in self.contents():
            found = scan_file(file, verify=False, has_footer=False)
            stop = found.damage[0].begin if found.damage else file.size
            before = found.begins < stop
            begins.append(found.begins[before])
            counts.append(found.counts[before])
            if found.damage:
                fault = found.damage[0].fault
                break
        return ChunkTable.of(self.paths[: len(begins)], begins, counts, Skipped()), fault


RIEGELI = Format(
    name="riegeli",
    suffixes=(),
    knows=lambda _head: False,
    open=RiegeliRecords,
    options=frozenset({"verify"}),
    verify=verify_files,
)
