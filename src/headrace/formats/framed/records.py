"""Records of framed formats: bytes by index and in order, from plain and compressed files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace._arguments import check_position
from headrace._faults import describe
from headrace._native import bounds
from headrace.contracts.records import Checked, OnCorrupt, Skipped
from headrace.contracts.values import Indices
from headrace.errors import CorruptRecord, DataError, UnsupportedData, Where, shorten_path
from headrace.formats.framed.scan import RUN_BYTES, ByteStream, RecordFraming, RecordRun, Scan, verify_content
from headrace.formats.index.build import record_index
from headrace.formats.index.index import RecordIndex
from headrace.formats.index.parts import IndexRequest
from headrace.formats.index.places import record_bytes
from headrace.io.cache.inflate import parse_compression
from headrace.io.cache.mirror import check_copy
from headrace.io.cache.read_ahead import FilesInOrder
from headrace.io.local.fileset import Buffers, FileSet
from headrace.io.local.mapped import MappedFile
from headrace.io.local.open import PipeStream
from headrace.io.paths import is_pipe

__all__ = ["FramedRecords", "NoLength", "bounds", "verify_framed"]


class NoLength(UnsupportedData, TypeError):
    """The length is unknown and there is no random access. It is a ``TypeError`` so that ``list()`` still works."""


class FramedRecords:
    """The records of files of one framed format, concatenated in order.

    Reading in order needs no index. ``len`` and random access build one on first use and store it in the user's
    cache folder. Compressed files are inflated once, into the cache. Picklable; safe in threads and after fork.

    Args:
        framing: The framing of the format.
        paths: The files, as :func:`headrace.io.paths.expand` gives them.
        compression: ``"gzip"``, ``"zlib"``, ``"none"``; ``None`` detects it for each file from its content.
        on_corrupt: ``"raise"``, or ``"skip"`` to skip damaged records and count them in ``skipped``. ``len`` and
            indices then count only the intact ones.
        verify: ``False`` skips payload checksums. Lengths are still checked whenever records are located.
    """

    def __init__(
        self,
        framing: RecordFraming,
        paths: Sequence[str],
        *,
        compression: str | None = None,
        on_corrupt: OnCorrupt = "raise",
        verify: bool = True,
    ) -> None:
        if on_corrupt not in ("raise", "skip"):
            raise ValueError(f"on_corrupt must be 'raise' or 'skip', got {on_corrupt!r}")
        self.framing = framing
        self.format: str = framing.name
        self.paths: tuple[str, ...] = tuple(paths)
        self.on_corrupt: OnCorrupt = on_corrupt
        self.verify = verify
        self._compression = None if compression is None else parse_compression(compression)
        self._forget_joined()
        self._files = FileSet(self.paths, compression=self._compression, is_plain=framing.is_plain, pinned=True)
        self._index: RecordIndex | None = None
        self._skipped: dict[int, Skipped] = {}
        self._pipes: dict[int, PipeStream] = {}

    @property
    def index(self) -> RecordIndex:
        """The offsets of the records. Built on first use, or loaded from the cache.

        Raises:
            CorruptRecord, CorruptFile: A file is damaged and ``on_corrupt`` is ``"raise"``.
            UnsupportedData: An input is a pipe.
        """
        if self._index is None:
            self._refuse_pipes()
            self._keep(
                record_index(self.framing, self._files, on_corrupt=self.on_corrupt, compression=self._compression)
            )
            assert self._index is not None
        return self._index

    def _keep(self, index: RecordIndex) -> None:
        for number, file in enumerate(index.files):
            self._skipped[number] = Skipped(len(file.skipped), file.skipped_bytes)
        self._index = index

    def index_request(self) -> IndexRequest:
        """What the index is made from, for making it elsewhere."""
        return IndexRequest(self.framing, self.paths, self.on_corrupt, self._compression)

    def _refuse_pipes(self) -> None:
        for path in self.paths:
            if is_pipe(path):
                raise NoLength(
                    Where(path=path),
                    expected="a file, for the number of records and for reading in any order",
                    found="a pipe",
                    hint="Iterate over it, or copy it to a file first.",
                )

    @property
    def skipped(self) -> Skipped:
        """What ``on_corrupt="skip"`` has skipped so far (in total, once there is an index)."""
        parts = list(self._skipped.values())
        return Skipped(sum(part.records for part in parts), sum(part.bytes for part in parts))

    @property
    def prefers_streaming(self) -> bool:
        """Whether reading in order would start sooner: true for pipes, and for files not yet inflated or fetched."""
        if self._index is not None and not self._files.is_remote:
            return False
        return any(map(is_pipe, self.paths)) or self._files.waits_for_inflating()

    def __len__(self) -> int:
        return len(self.index)

    def stored_bytes(self, first: int, stop: int) -> int:
        """About how many bytes the records from ``first`` up to ``stop`` take, with their framing."""
        return record_bytes(self.index, first, stop)

    @property
    def lengths(self) -> tuple[int, ...]:
        """The number of records in each file."""
        return tuple(file.records for file in self.index.files)

    def __getitem__(self, index: int) -> memoryview:
        """The payload of one record, as a view that keeps its memory alive."""
        at = check_position(index, len(self))
        try:
            return self._spans_of(np.array([at], np.int64)).view(0)
        except _native.FormatError as error:
            raise self._fault_at(error, at) from error

    def __iter__(self) -> Iterator[memoryview]:
        """The payloads in order, checked, without an index."""
        for run in self._runs(self.contents(), verify=self.verify):
            buffer, starts, end = run.for_users()
            yield from self.framing.payloads(buffer, starts, end)

    def spans(self, indices: Indices) -> _native.Spans:
        """The payloads of these records (``int64 (n,)``, none negative), in the given order. Checksums are
        verified when payloads are read, so each byte is touched once.

        Raises:
            IndexError: An index is out of range.
            CorruptRecord: A record is not at its indexed offset.
        """
        index = self.index
        if len(indices):
            low, high = _native.bounds(indices)
            if not 0 <= low <= high < len(index):
                raise IndexError(f"records {low} to {high} of {len(index)}")
        return self._spans_of(indices)

    def _spans_of(self, indices: Indices) -> _native.Spans:
        """Like :meth:`spans`, for indices known to be in range."""
        try:
            return self.framing.gather(*self._places(indices), verify=self._verify_later)
        except _native.FormatError as error:
            raise self._fault_at(error, int(indices[error.record])) from error

    def _fault_at(self, error: _native.FormatError, index: int) -> DataError:
        where = self.where(index)
        self.check_copy(where.path)
        return describe(error, where)

    def check_copy(self, path: str | None) -> None:
        """Make sure that a fault in a compressed or remote file is not one of its copy in the cache.

        Raises:
            CorruptFile: The copy is damaged.
        """
        if path in self.paths and not is_pipe(path):
            content = self._files.stream(self.paths.index(path))
            if isinstance(content, MappedFile):
                check_copy(content)

    def _forget_joined(self) -> None:
        self._joined: tuple[Buffers, Indices] | None = None
        self._may_join = len(self.paths) > 1

    def _as_one_buffer(self, index: RecordIndex) -> tuple[Buffers, Indices] | None:
        """All files as one buffer, and the offset of every record in it, if they are mapped on adjacent pages.

        Then no record's file is looked up, which takes a noticeable share of the time where files are small and many. Only if lengths have
        checksums: that of a record that has changed could lead into the next file.
        """
        if self._may_join and self._files.all_buffers() is not None:
            self._may_join = False
            is_checked = self._verify_later and self.framing.has_length_checksums
            if is_checked and not self._files.is_remote and self._files.worth_mapping(index.total_bytes):
                found = self._files.joined()
                starts = None if found is None else index.joined_starts(found[1])
                self._joined = None if found is None or starts is None else (found[0], starts)
        return self._joined

    def _places(self, indices: Indices) -> tuple[Buffers, npt.NDArray[np.int32] | None, Indices]:
        """The buffers, the buffer that holds each record, and the offsets in it."""
        index = self.index
        scattered = len(indices) > 0 and abs(int(indices[-1]) - int(indices[0])) >= 2 * len(indices)
        joined = self._as_one_buffer(index)
        if joined is not None and (scattered or self._files.keeps_pages(index.total_bytes)):
            return joined[0], None, joined[1][indices]
        which, offsets = index.locate(indices)
        if index.compares_content:
            index.compare_content(self._files, indices, which, offsets)
        if self._files.is_remote and len(indices) and self._files.worth_fetching(_numbers(which)):
            return self._files.fetched(which, offsets, index.ends(indices, self._files.size) - offsets)
        if not len(indices) or self._files.worth_mapping(index.total_bytes):
            if not scattered and len(indices):
                first, last = (0, 0) if which is None else (int(which[0]), int(which[-1]))
                size = index.total_bytes * len(indices) // len(index)
                self._files.passed(size, of=index.total_bytes, first=first, last=last)
            buffers, which = self._files.buffers(which)
            return buffers, which, offsets
        sizes = index.ends(indices, self._files.size) - offsets
        block, starts = self._files.read(which, offsets, sizes)
        return [block], None, starts

    @property
    def _verify_later(self) -> bool:
        """Whether checksums are still to be verified. A scan that skips damage has verified them already."""
        return self.verify and self.on_corrupt == "raise"

    def first_spans(self, *sizes: int) -> Iterator[tuple[int, _native.Spans]]:
        """Blocks of the first records, of these ``sizes``, for type inference. Nothing is inflated ahead or cached."""
        runs = self._runs(self._heads(), verify=self.on_corrupt == "skip" and self.verify)
        return self._spans_of_blocks(_regroup(runs, iter(sizes)))

    def iter_spans(
        self, records: int | None = None, *, max_bytes: int = RUN_BYTES
    ) -> Iterator[tuple[int, _native.Spans]]:
        """All records in order, without an index.

        Args:
            records: Block size in records (the last may be smaller); ``None``: as many as fit ``max_bytes``.
            max_bytes: Approximate block size in bytes.

        Yields:
            The number of the block's first record, and its payloads. Checksums are verified when payloads are read.

        Raises:
            CorruptRecord, CorruptFile: At the first fault, after a block of the records before it.
        """
        runs = self.iter_runs(max_bytes=max_bytes)
        return self._spans_of_blocks(([run] for run in runs) if records is None else _regroup(runs, repeat(records)))

    def iter_runs(self, *, max_bytes: int = RUN_BYTES) -> Iterator[RecordRun]:
        """Like :meth:`iter_spans`, as the places of adjacent records."""
        verify = self.on_corrupt == "skip" and self.verify
        return self._runs(self.contents(), verify=verify, run_bytes=max_bytes)

    def _spans_of_blocks(self, blocks: Iterator[list[RecordRun]]) -> Iterator[tuple[int, _native.Spans]]:
        first = 0
        for block in blocks:
            spans = self._gather(block)
            yield first, spans
            first += len(spans)

    def _gather(self, block: list[RecordRun]) -> _native.Spans:
        if len(block) == 1:
            return self.framing.gather([block[0].buffer], None, block[0].starts, verify=self._verify_later)
        which = np.repeat(np.arange(len(block), dtype=np.int32), [len(run) for run in block])
        starts = np.concatenate([run.starts for run in block])
        return self.framing.gather([run.buffer for run in block], which, starts, verify=self._verify_later)

    def _runs(
        self, contents: Iterator[MappedFile | ByteStream], *, verify: bool, run_bytes: int = RUN_BYTES
    ) -> Iterator[RecordRun]:
        for number, content in enumerate(contents):
            scan = Scan(self.framing, content, verify=verify, on_corrupt=self.on_corrupt, run_bytes=run_bytes)
            try:
                yield from scan
            except CorruptRecord as error:
                self.check_copy(error.where.path)
                raise
            finally:
                if len(scan.faults) > self._skipped.get(number, Skipped()).records:
                    self._skipped[number] = Skipped(len(scan.faults), sum(size for _, size in scan.faults))

    def contents(self) -> Iterator[MappedFile | ByteStream]:
        """The decompressed content of each file, or the bytes of a pipe, for one pass in order."""
        with closing(FilesInOrder(self._files)) as files:
            for number in range(len(self.paths)):
                yield self._pipe(number) or files.content(number)
                if not self.framing.has_checksums:  # Nothing else would show that the last row was cut.
                    self._files.check_in_place(number)

    def _heads(self) -> Iterator[MappedFile | ByteStream]:
        return (self._pipe(number) or self._files.head(number) for number in range(len(self.paths)))

    def _pipe(self, number: int) -> PipeStream | None:
        if number in self._files.versions.local:
            return None  # It was a file when the set was opened.
        if number not in self._pipes and is_pipe(self.paths[number]):
            self._pipes[number] = PipeStream(self.paths[number])
        return self._pipes.get(number)

    def where(self, index: int) -> Where:
        """Path, number of the record in its file, and byte offset of record ``index``."""
        return self.index.where(index)

    def where_in_order(self, index: int) -> Where:
        """Like :meth:`where`, for files that may be too damaged to index: scans for the record."""
        if self._index is not None:
            return self._index.where(index)
        before = 0
        try:
            for run in self._runs(self.contents(), verify=self.on_corrupt == "skip" and self.verify):
                if index < before + len(run):
                    return run.where(index - before)
                before += len(run)
        except DataError as error:
            return Where(path=error.where.path)
        return Where()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_index": None, "_pipes": {}, "_joined": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget_joined()

    def __repr__(self) -> str:
        files = repr(shorten_path(self.paths[0])) if len(self.paths) == 1 else f"{len(self.paths)} files"
        return f"{type(self).__name__}({files})"


def _numbers(which: npt.NDArray[np.int32] | None) -> list[int]:
    """The files that occur; ``None``: there is only one."""
    return [0] if which is None else np.unique(which).tolist()


def verify_framed(records: FramedRecords) -> Iterator[Checked]:
    """Check every length and checksum of every file."""
    for content in records.contents():
        yield from verify_content(records.framing, content)


def _regroup(runs: Iterator[RecordRun], sizes: Iterator[int]) -> Iterator[list[RecordRun]]:
    """The same records in blocks of these sizes, until the sizes run out. A fault cuts the block before it short."""
    block: list[RecordRun] = []
    missing = next(sizes, 0)
    while missing:
        try:
            rest = next(runs)
        except StopIteration:
            break
        except DataError:
            if block:
                yield block
            raise
        while missing and len(rest) >= missing:
            head, rest = rest.cut(missing)
            yield [*block, head]
            block, missing = [], next(sizes, 0)
        if missing and len(rest):
            block.append(rest)
            missing -= len(rest)
    if block:
        yield block
