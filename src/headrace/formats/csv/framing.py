"""CSV framing: one record per row, which ends at a line end outside quotes.

Source of the format: RFC 4180, and Python's ``csv`` module in strict mode where the RFC is silent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.contracts.csv import CsvDialect
from headrace.contracts.values import Indices
from headrace.errors import CorruptFile, CorruptRecord, DataError, SchemaMismatch, UnsupportedData, Where
from headrace.formats.framed.scan import RecordFraming
from headrace.io.encodings import encoding_hint_at
from headrace.io.local.mapped import guard_reads

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["BOM", "QUOTE_HINT", "CsvFraming", "first_row", "preamble"]


BOM = b"\xef\xbb\xbf"
CONTROLS = frozenset(range(32)) - frozenset(b"\t\n\r\f")
SKIP_HINT = "`headrace verify` lists every fault; on_corrupt='skip' leaves damaged rows out."
QUOTE_HINT = "Where quotes are ordinary text, open with format=hr.CSV(quote=''). " + SKIP_HINT
WIDTH_HINT = "If the delimiter is wrong, open with format=hr.CSV(delimiter=...). " + SKIP_HINT


def preamble(buffer: memoryview) -> int:
    """The size of what precedes the first row: a byte order mark, and Excel's line ``sep=;``."""
    head = _native.copy_bytes(buffer, 0, 16)
    at = len(BOM) if head.startswith(BOM) else 0
    if head[at : at + 4].lower() == b"sep=" and len(head) > at + 5:
        ends = {b"\r\n": 2, b"\n": 1, b"\r": 1}
        found = next((size for end, size in ends.items() if head[at + 5 :].startswith(end)), 0)
        return at + 5 + found if found else at
    return at


def first_row(buffer: memoryview, dialect: CsvDialect, *, last: bool) -> tuple[int, int]:
    """Where the first row begins and where the next one may. Both are equal if there is no row.

    Raises:
        FormatError: The row is broken, or the bytes end inside it.
    """
    at = preamble(buffer)
    starts, end = _native.scan_csv(
        buffer, at, len(buffer), dialect.marks, width=0, utf8=False, last=last, max_records=1
    )
    return (int(starts[0]), int(end)) if len(starts) else (len(buffer), len(buffer))


@dataclass(frozen=True, slots=True)
class CsvFraming(RecordFraming):
    """CSV for scanning, indexing, gathering and writing.

    Args:
        dialect: The dialect of the files.
        fault: Why the dialect is unknown: the error that reading the files raises.
    """

    dialect: CsvDialect
    fault: DataError | None = None

    name = "csv"
    head = 0
    tail = 1
    has_checksums = False

    @property
    def index_name(self) -> str:
        """The cache key of an index."""
        return f"csv {self.dialect.key}"

    def is_plain(self, head: bytes) -> bool:
        """Whether these first bytes are text. Two letters can look like a ZLIB header, but a ZLIB stream does not look like text."""
        return not CONTROLS.intersection(head)

    def begin(self, buffer: memoryview, path: str, *, last: bool) -> int:
        """Where the first data row begins; -1 if that needs more of the stream.

        Raises:
            SchemaMismatch: The header differs from that of the first file.
            CorruptFile: The header is broken.
        """
        if self.fault is not None:
            raise self.fault
        if self.dialect.header is None:
            return -1 if len(buffer) < 16 and not last else preamble(buffer)
        try:
            at, end = first_row(buffer, self.dialect, last=last)
        except _native.FormatError as error:
            if error.fault == "truncated" and not last:
                return -1
            raise self._broken_header(error, path) from error
        if at == end:
            return end if last else -1
        names = self._names(memoryview(_native.copy_bytes(buffer, at, end - at)))
        if names != self.dialect.header:
            raise self._other_header(names, Where(path=path, offset=at))
        return end

    def _names(self, row: memoryview) -> tuple[bytes, ...]:
        whole = bytes(row).rstrip(b"\r\n")
        return tuple(name.strip() for name in _native.values_of_csv(whole, self.dialect.marks))

    def _broken_header(self, error: _native.FormatError, path: str) -> CorruptFile:
        fault = self.fault_at(error, path, 0, 0)
        place = Where(path=path, offset=fault.where.offset)
        return CorruptFile(place, expected=f"a header: {fault.expected}", found=fault.found, hint=QUOTE_HINT)

    def _other_header(self, names: tuple[bytes, ...], where: Where) -> SchemaMismatch:
        return SchemaMismatch(
            where,
            expected=f"the header of the first file, {_show_names(self.dialect.header or ())}",
            found=_show_names(names),
            hint="Files opened together need the same header. Without headers, pass format=hr.CSV(header=False).",
        )

    def scan(
        self, buffer: memoryview, start: int, stop: int, *, verify: bool, max_records: int, last: bool = True
    ) -> tuple[Indices, int]:
        """Starts of the rows that begin in ``[start, stop)``, and where to resume. ``verify`` also checks widths and UTF-8."""
        return _native.scan_csv(
            buffer,
            start,
            stop,
            self.dialect.marks,
            width=self.dialect.width if verify else 0,
            utf8=verify and self.dialect.is_utf8,
            last=last,
            max_records=max_records,
        )

    def find(self, buffer: memoryview, start: int) -> int:
        """The position after the next line end. A row begins there, unless that line end is quoted."""
        return int(_native.find_csv(buffer, start))

    def resume_after(self, error: _native.FormatError, buffer: memoryview, *, last: bool) -> tuple[int, int]:
        """All starts count. Resume at the line after the fault, or after a complete row, at the next row."""
        if error.fault in ("wrong_count", "wire"):
            _, after = _native.scan_csv(
                buffer,
                error.offset,
                error.offset + 1,
                self.dialect.marks,
                width=0,
                utf8=False,
                last=last,
                max_records=1,
            )
            return len(error.starts), int(after)
        return len(error.starts), self.find(buffer, int(error.found) + 1)

    def gather(
        self,
        buffers: _native.Buffers | list[Any],
        which: npt.NDArray[np.int32] | None,
        offsets: Indices,
        *,
        verify: bool,
    ) -> _native.Spans:
        """The rows at these offsets, without line ends."""
        _ = verify
        return _native.gather_csv(buffers, which, offsets, self.dialect.marks)

    def payloads(self, buffer: memoryview, starts: Indices, end: int) -> Iterator[memoryview]:
        """Views of adjacent rows that end at ``end``."""
        begins = starts.tolist()
        stops = [*begins[1:], end]
        with guard_reads(buffer):
            for row, start in enumerate(begins):
                while stops[row] > start and buffer[stops[row] - 1] in b"\r\n":
                    stops[row] -= 1
        for start, stop in zip(begins, stops, strict=True):
            yield buffer[start:stop]

    def fault_at(self, error: _native.FormatError, path: str | None, record: int, base: int) -> DataError:
        """The error for a fault that native code found at row ``record`` of a file, in bytes that begin at ``base``."""
        row = Where(path=path, record=record, offset=base + int(error.offset))
        place = row.at(offset=base + int(error.found))
        if error.fault == "wrong_count":
            expected, found = f"{error.expected} fields, as there are columns", f"{error.found}"
            return CorruptRecord(row, expected=expected, found=found, hint=WIDTH_HINT)
        if error.fault == "wire":
            return CorruptRecord(
                place, expected="UTF-8 text", found="a byte that is not", hint=encoding_hint_at(path, place.offset or 0)
            )
        if error.fault == "structure":
            expected, found = "a delimiter or a line end after the closing quote", "other text"
            return CorruptRecord(place, expected=expected, found=found, hint=QUOTE_HINT)
        return CorruptRecord(place, expected="a closing quote", found="none before the end", hint=QUOTE_HINT)

    def frame_block(self, block: npt.NDArray[np.uint8], starts: Indices, sizes: Indices) -> int:
        """Terminate each row of a block. All of the block is used."""
        block[starts + sizes] = ord("\n")
        self._check_rows(block, len(starts))
        return len(block)

    def frame_payloads(self, payloads: Sequence[Buffer]) -> npt.NDArray[np.uint8]:
        """Rows with their line ends."""
        block = np.frombuffer(b"".join(part for payload in payloads for part in (payload, b"\n")), np.uint8)
        self._check_rows(block, len(payloads))
        return block

    def _check_rows(self, block: npt.NDArray[np.uint8], count: int) -> None:
        """Refuse payloads that would read back as different rows."""
        try:
            starts, _ = _native.scan_csv(
                block.data, 0, len(block), self.dialect.marks, width=0, utf8=False, last=True, max_records=len(block)
            )
            found = f"{len(starts)}"
        except _native.FormatError as error:
            starts, found = error.starts, f"a broken one, number {error.record}"
        if len(starts) != count:
            raise UnsupportedData(
                Where(),
                expected=f"{count} payloads that are a row of CSV each",
                found=found,
                hint="A row must not be empty, and its line ends must be quoted. hr.write does that for examples.",
            )


def _show_names(names: Sequence[bytes]) -> str:
    text = str([name.decode("utf-8", "backslashreplace") for name in names[:8]])
    return text if len(names) <= 8 else f"{text[:-1]}, ...] ({len(names)} names)"
