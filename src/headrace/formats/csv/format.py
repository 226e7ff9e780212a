"""CSV: rows of text, with or without a header; plain, or in one GZIP or ZLIB stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from headrace import _native
from headrace.contracts.csv import CSV, CsvDialect
from headrace.contracts.records import Format, OnCorrupt, Salvaged
from headrace.contracts.values import Indices
from headrace.errors import DataError, UnsupportedData, Where
from headrace.formats.csv.framing import CsvFraming
from headrace.formats.csv.header import needs_quotes
from headrace.formats.csv.sniff import SNIFFED_BYTES, read_head, sniff, transcoding
from headrace.formats.csv.write import CsvSink, CsvWriter, misfits
from headrace.formats.framed.records import FramedRecords, verify_framed
from headrace.formats.framed.scan import RecordRun
from headrace.io.cache.findings import Findings
from headrace.io.cache.inflate import READ_BYTES, Compression, head_of, parse_compression, wrapper_of, wrapper_of_name
from headrace.io.cache.inflated import decode_head
from headrace.io.local.fileset import FileSet
from headrace.io.local.mapped import MappedFile
from headrace.io.local.open import PipeStream, open_file
from headrace.io.paths import is_pipe
from headrace.io.urls import is_url

__all__ = ["FORMAT", "CsvRecords"]


TEXT = 6  # type code of text in native code


class CsvRecords(FramedRecords):
    """The rows of CSV files, concatenated in order; headers are not records. See :class:`FramedRecords` for the arguments.

    The dialect is detected from the first file that is not empty, and must be the same in all files.

    Args:
        options: What the caller knows about the files.
        framing: How rows are found, if already known.
    """

    framing: CsvFraming

    def __init__(
        self,
        paths: Sequence[str],
        *,
        compression: str | None = None,
        on_corrupt: OnCorrupt = "raise",
        verify: bool = True,
        options: CSV | None = None,
        framing: CsvFraming | None = None,
    ) -> None:
        given = options or CSV()
        pipe = PipeStream(paths[0]) if is_pipe(paths[0]) else None
        if framing is None:
            framing = _sniffed_framing(paths, pipe, given, compression)
        dialect = framing.dialect
        self._options = given
        super().__init__(framing, paths, compression=compression, on_corrupt=on_corrupt, verify=verify)
        if pipe is not None:
            self._pipes[0] = pipe  # Reading starts over with the sniffed bytes.
        if dialect.transcode:
            self._files = FileSet(self.paths, compression=dialect.transcode, pinned=True)

    @property
    def dialect(self) -> CsvDialect:
        """How rows are split and parsed."""
        return self.framing.dialect

    def expect(self, is_known: Callable[[tuple[str, ...]], bool]) -> None:
        """Take the first row for a header if none was found, the caller did not say so, and its names are the ones that are wanted.

        Called before anything is read.

        Args:
            is_known: Whether names of columns are those.
        """
        given = self._options
        if self.dialect.header is not None or given.header is not None or self.framing.fault is not None:
            return
        if not any(map(is_pipe, self.paths)):
            dialect = _sniff_files(self.paths, replace(given, header=True), self._compression)
            if is_known(dialect.names):
                self.framing = CsvFraming(dialect)

    def of_file(self, path: str) -> CsvRecords:
        """The rows of one of the files, found as in all of them: with the options of the caller and the header of the first file."""
        return CsvRecords([path], compression=self._compression, options=self._options, framing=self.framing)

    def stretches(self, indices: Indices) -> list[tuple[Any, int, int]] | None:
        """Where rows that follow each other lie: buffers, and in each the start of the first row and the end of the last one (or
        the start of the row after it). ``None`` for other rows, and where rows have to be looked for one by one.

        Raises:
            IndexError: A row is out of range.
            CorruptFile: A file has changed.
        """
        first, count = int(indices[0]), len(indices)
        if int(indices[-1]) - first != count - 1 or not _native.is_run(indices):
            return None
        index, files = self.index, self._files
        if not 0 <= first <= first + count <= len(index):
            raise IndexError(f"records {first} to {first + count - 1} of {len(index)}")
        if files.is_remote or index.has_skipped:
            return None
        places = index.stretches(files, first, first + count)
        if not files.worth_mapping(index.total_bytes):
            which, begins, ends = np.array(places, np.int64).T
            block, starts = files.read(which.astype(np.int32), begins, ends - begins)
            return [
                (block, start, start + size)
                for start, size in zip(starts.tolist(), (ends - begins).tolist(), strict=True)
            ]
        if places:
            size = index.total_bytes * count // len(index)
            files.passed(size, of=index.total_bytes, first=places[0][0], last=places[-1][0])
        return [(files.content(number).buffer, begin, end) for number, begin, end in places]

    def findings(self, *key: object) -> Findings | None:
        """What is kept of earlier readings of these files in this dialect; ``None`` where that would not be the same."""
        if self.on_corrupt != "raise" or self._files.is_remote or any(map(is_pipe, self.paths)):
            return None
        return Findings(self._files, self.format, repr(self.dialect), self._compression, *key)

    def heads(self) -> Iterator[tuple[memoryview, int]]:
        """The content of each file, and where its first row begins; up to the first one that has to be read in order.

        Raises:
            DataError: The header is damaged, or not that of the first file.
        """
        if self.on_corrupt != "raise" or self._files.is_remote:
            return
        for number in range(len(self.paths)):
            content = self._pipe(number) or self._files.stream(number)
            if not isinstance(content, MappedFile) or content.fault is not None:
                return
            yield content.buffer, self.framing.begin(content.buffer, content.path, last=True)

    def _gather(self, block: list[RecordRun]) -> _native.Spans:
        """The rows of a run end where a scan has just found them to end."""
        if len(block) > 1:
            return super()._gather(block)
        run = block[0]
        return _native.gather_csv([run.buffer], None, run.starts, self.dialect.marks, run.end)


def _sniffed_framing(paths: Sequence[str], pipe: PipeStream | None, given: CSV, compression: str | None) -> CsvFraming:
    try:
        return CsvFraming(
            _sniff_pipe(pipe, given) if pipe is not None else _sniff_files(paths, given, parse_compression(compression))
        )
    except DataError as fault:  # Raised when the files are read, so that `verify` still works on them.
        return CsvFraming(CsvDialect(), fault)


def _sniff_files(paths: Sequence[str], options: CSV, compression: Compression | None) -> CsvDialect:
    """The dialect, from the first file that is not empty."""
    path = next((path for path in paths if is_url(path) or (Path(path).exists() and Path(path).stat().st_size)), None)
    if path is None:
        return sniff(b"", paths[0], options, whole=True)
    file = open_file(path)
    head = bytes(file.read(0, SNIFFED_BYTES))
    wrapper = wrapper_of(head) if compression is None else compression
    is_packed = wrapper != "none" and (compression is not None or not CsvFraming(CsvDialect()).is_plain(head[:64]))
    inner = read_head(lambda size: head_of(file.read(0, max(size, READ_BYTES)), wrapper, size)) if is_packed else b""
    # Two letters can look like a zlib header, and some encodings contain control characters: then nothing inflates.
    if is_packed and (inner or compression is not None or options.encoding is None):
        head = inner
        whole = file.size < SNIFFED_BYTES // 8 and len(head) < SNIFFED_BYTES
    else:
        head = read_head(lambda size: bytes(file.read(0, size)))
        whole = file.size <= len(head)
    transcode = transcoding(head, options.encoding)
    return sniff(decode_head(head, transcode) if transcode else head, path, options, whole=whole, transcode=transcode)


def _sniff_pipe(pipe: PipeStream, options: CSV) -> CsvDialect:
    head = b""
    ended = True
    for part in islice(pipe, SNIFFED_BYTES):
        head += part
        if len(head) >= SNIFFED_BYTES:
            ended = False
            break
    if transcode := transcoding(head, options.encoding):
        raise UnsupportedData(
            Where(path=pipe.path),
            expected="text in UTF-8, or of one byte a character, from a pipe",
            found=transcode,
            hint=f"Convert it on the way: iconv -f {transcode} -t utf-8.",
        )
    return sniff(head, pipe.path, options, whole=ended)


def salvage(path: str, out: str) -> Salvaged:
    """Copy the header and every intact row. The new file is UTF-8 even if the old one was UTF-16."""
    records = CsvRecords([path], on_corrupt="skip")
    header = records.dialect.header
    with CsvWriter(out, compression=wrapper_of_name(out)) as writer:
        if header is not None:
            marks, names = records.dialect.marks, list(header)
            quoted = names if needs_quotes(records.dialect.names, marks, has_numbers=True) else []
            writer.write_text(_native.encode_csv([(TEXT, len(names), names, quoted)], 1, marks, "\n"), 0)
        for _, spans in records.iter_spans():
            writer.write_many(spans.to_bytes())
        kept = writer.records
    skipped = records.skipped
    return Salvaged(records=kept, lost_records=None if skipped.records else 0, lost_bytes=skipped.bytes)


def compression_of(paths: Sequence[str]) -> str:
    """The compression of the files: ``gzip``, or ``gzip, none`` if they differ."""
    files = FileSet(paths, compression=None, is_plain=CsvFraming(CsvDialect()).is_plain)
    return ", ".join(sorted({files.wrapper(number) for number in range(len(paths))}))


def is_csv(head: bytes) -> bool:
    """Always false: CSV looks like any text, so only the file name or the caller can identify it."""
    _ = head
    return False


FORMAT = Format(
    name="csv",
    suffixes=(".csv", ".tsv", ".tab", ".psv"),
    knows=is_csv,
    open=CsvRecords,
    options=frozenset({"on_corrupt", "verify"}),
    compressible=True,
    compression_of=compression_of,
    writer=CsvWriter,
    sink=CsvSink,
    joined_writer=CsvSink,
    misfits=misfits,
    verify=verify_framed,
    salvage=salvage,
)
