"""Find every chunk of a file by following the headers, regardless of its footer and across damage."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace._faults import describe
from headrace.contracts.values import Indices
from headrace.errors import CorruptFile, DataError, Where
from headrace.formats.array_record.footer import BLOCK_BYTES, Footer, as_footer, read_footer
from headrace.formats.array_record.unpack import BadChunk, open_chunks
from headrace.io.local.mapped import MappedFile

__all__ = ["Damage", "ScanResult", "scan_file"]


RECORD_TYPES = (ord("r"), ord("t"))
STEP = 4096
DECODED_BYTES = 4 << 20  # at a time
BEGIN, END, TYPE, COUNT, DECODED = range(5)  # columns of the native table


@dataclass(frozen=True, slots=True)
class Damage:
    """A byte range of a file that is not an intact chunk.

    Args:
        fault: What is wrong with it.
        begin, end: The byte range.
        records: How many records were lost; 1 if unknown.
    """

    fault: DataError
    begin: int
    end: int
    records: int = 1


@dataclass(slots=True)
class ScanResult:
    """The result of a scan.

    Args:
        path: The file.
        chunks: ``int64 (k, 5)``: begin, end, type, number of records and decoded size of every intact chunk of records.
        damage: Everything else.
        footer: The footer, if intact.
    """

    path: str
    chunks: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 5), np.int64))
    damage: list[Damage] = field(default_factory=list)
    footer: Footer | None = None

    @property
    def begins(self) -> Indices:
        """Offsets of the intact chunks of records."""
        return np.ascontiguousarray(self.chunks[:, BEGIN])

    @property
    def counts(self) -> Indices:
        """The number of records in each."""
        return np.ascontiguousarray(self.chunks[:, COUNT])


def scan_file(file: MappedFile, *, verify: bool = True, has_footer: bool = True, decode: bool = False) -> ScanResult:
    """Find all chunks of records in a file, and all damage.

    Args:
        file: The file.
        verify: Whether to check data against their hashes. Headers are always checked.
        has_footer: True for ArrayRecord files, whose footer is not data; plain Riegeli files have none.
        decode: Whether chunks that cannot be decoded count as damage.
    """
    found = ScanResult(file.path)
    fault = _read_footer(file, found) if has_footer else None
    tables, at = [], 0
    while at < file.size:
        table, at, error = _native.scan_chunks(file.buffer, at, most=STEP, verify=verify)
        tables.append(table)
        if error is not None:
            at = _pass(file, error, found)
    if tables:
        every = np.concatenate(tables)
        found.chunks = every[np.isin(every[:, TYPE], RECORD_TYPES) & (every[:, COUNT] > 0)]
    if has_footer:
        _set_footer_apart(file, found, fault)
    if decode:
        _leave_out_undecodable(file, found)
    return found


def _leave_out_undecodable(file: MappedFile, found: ScanResult) -> None:
    """Drop chunks that do not decode: with correct hashes if a faulty writer made them, or damaged ones if ``verify=False``."""
    intact = np.ones(len(found.chunks), bool)
    begins, start = found.begins, 0
    while start < len(begins):
        try:
            start += len(open_chunks(file, begins[start : start + STEP], verify=False, most_bytes=DECODED_BYTES))
        except BadChunk as error:
            bad = start + error.number
            begin, end, _, count, _ = found.chunks[bad].tolist()
            found.damage.append(Damage(error.fault, begin, end, count))
            intact[bad] = False
            start = bad + 1
    found.chunks = found.chunks[intact]


def _pass(file: MappedFile, error: _native.FormatError, found: ScanResult) -> int:
    """Record the damage, and return where the next chunk begins."""
    begin = int(error.offset)
    # If only the data are damaged, the header still gives the end and the record count.
    header, after, worse = _native.scan_chunks(file.buffer, begin, most=1, verify=False)
    if worse is not None:
        after = _next_listed(found.footer, begin) or _native.find_chunk(file.buffer, begin + 1)
    records = int(header[0, COUNT]) if len(header) else 1
    found.damage.append(Damage(describe(error, Where(path=file.path, offset=begin)), begin, after, max(1, records)))
    return after


def _read_footer(file: MappedFile, found: ScanResult) -> CorruptFile | None:
    """Read the footer, or return why there is none. Where headers are damaged, only the footer lists the intact chunks between."""
    try:
        found.footer = read_footer(file)
    except CorruptFile as fault:
        return fault
    return None


def _next_listed(footer: Footer | None, begin: int) -> int | None:
    """Where the next chunk after ``begin`` starts, according to the footer."""
    if footer is None or begin >= footer.begin:
        return None
    place = int(np.searchsorted(footer.begins, begin, side="right"))
    return int(footer.begins[place]) if place < len(footer.begins) else footer.begin


def _set_footer_apart(file: MappedFile, found: ScanResult, fault: CorruptFile | None) -> None:
    """Footer and postscript are chunks of records too: remove them, and use the footer to count the records lost to damage."""
    if fault is not None:
        found.footer = _footer_among(file, found)
        found.damage.append(Damage(fault, file.size, file.size, 0))
    if found.footer is not None:
        # Bytes after damage that look like a chunk may be part of a record.
        found.chunks = found.chunks[np.isin(found.chunks[:, BEGIN], found.footer.begins)]
        found.damage = [_count_lost(damage, found.footer) for damage in found.damage]


def _footer_among(file: MappedFile, found: ScanResult) -> Footer | None:
    """The footer, if only what follows it is damaged. A postscript without its footer is removed."""
    if len(found.chunks) and _is_postscript(file, int(found.chunks[-1, BEGIN])):
        found.chunks = found.chunks[:-1]
    footer = _footer_at(file, int(found.chunks[-1, BEGIN])) if len(found.chunks) else None
    # A real footer lists the chunks found. Anything else is a record that happens to parse as a footer.
    listed = footer is not None and np.isin(found.begins[:-1], footer.begins)
    return footer if np.all(listed) or np.mean(listed) > 0.5 else None


def _is_postscript(file: MappedFile, begin: int) -> bool:
    try:
        footer = _native.parse_postscript(open_chunks(file, np.array([begin], np.int64), verify=True).spans())
    except (BadChunk, _native.FormatError):
        return False
    return begin % BLOCK_BYTES == 0 and footer < begin


def _footer_at(file: MappedFile, begin: int) -> Footer | None:
    try:
        return as_footer(file, begin)
    except BadChunk:
        return None


def _count_lost(damage: Damage, footer: Footer) -> Damage:
    inside = (footer.begins >= damage.begin) & (footer.begins < damage.end)
    known = int(footer.counts[inside].sum())
    return Damage(damage.fault, damage.begin, damage.end, known)
