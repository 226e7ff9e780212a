"""Find every chunk of a file by following the headers, regardless of its footer and across damage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace._faults import describe
from headrace.contracts.values import Indices
from headrace.errors import CorruptFile, DataError, Where
from headrace.formats.array_record.footer import COPIES, Footer, as_footer, read_footer
from headrace.formats.array_record.unpack import BadChunk, open_chunks
from headrace.io.local.mapped import MappedFile

__all__ = ["Damage", "ScanResult", "scan_file"]


RECORD_TYPES = (ord("r"), ord("t"))
STEP = 4096
DECODED_BYTES = 4 << 20  # at a time
MOST_OPTIONS, MOST_ENTRY = 4096, 64
"""The most bytes of a footer: for the options of the writer, and for each chunk."""
NEAR_END = 16
"""Of how many chunks at the end of a file one is intact, where bytes before them are missing."""
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
    fault = _find_footer_fault(file, found) if has_footer else None
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
    for number, opened in _open_each(file, found.begins):
        if isinstance(opened, BadChunk):
            begin, end, _, count, _ = found.chunks[number].tolist()
            found.damage.append(Damage(opened.fault, begin, end, count))
            intact[number] = False
    found.chunks = found.chunks[intact]


def _open_each(file: MappedFile, begins: Indices) -> Iterator[tuple[int, _native.Chunks | BadChunk]]:
    """Chunks, many at a time, with the number of the first of them; for one that does not decode, the error."""
    start = 0
    while start < len(begins):
        try:
            chunks = open_chunks(file, begins[start : start + STEP], verify=False, most_bytes=DECODED_BYTES)
        except BadChunk as error:
            if error.before is not None:
                yield start, error.before
            yield start + error.number, error
            start += error.number + 1
        else:
            yield start, chunks
            start += len(chunks)


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


def _find_footer_fault(file: MappedFile, found: ScanResult) -> CorruptFile | None:
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
    total = None
    if fault is not None:
        found.footer, total = _footer_among(file, found)
    if found.footer is not None:
        # Bytes after damage that look like a chunk may be part of a record.
        found.chunks = found.chunks[np.isin(found.chunks[:, BEGIN], found.footer.begins)]
        found.damage = [_count_lost(damage, found.footer) for damage in found.damage]
    lost = _count_unnoticed(found, total)
    if fault is None and lost:
        place, expected = Where(path=file.path), "a chunk, or damage, at each place that the footer lists"
        fault = CorruptFile(place, expected=expected, found=f"other chunks in the place of {lost} records")
    if fault is not None:
        found.damage.append(Damage(fault, file.size, file.size, lost))


def _count_unnoticed(found: ScanResult, total: int | None) -> int:
    """How many records are lost without damage where they were: 1 if unknown.

    Args:
        found: The chunks and the damage.
        total: How many records all footers list, if they do not list the chunks where they are; ``None`` without footers.
    """
    if found.footer is not None:
        is_noticed = np.isin(found.footer.begins, found.begins)
        for damage in found.damage:
            is_noticed |= (found.footer.begins >= damage.begin) & (found.footer.begins < damage.end)
        return int(found.footer.counts[~is_noticed].sum())
    kept, counted = int(found.counts.sum()), sum(damage.records for damage in found.damage)
    return int(not counted) if total is None or total < kept else max(0, total - kept - counted)


def _footer_among(file: MappedFile, found: ScanResult) -> tuple[Footer | None, int | None]:
    """Leave out all footers and postscripts. Return the footer, if there is one that lists the chunks where they are, and no chunk of
    records follows it; and how many records all footers list, if there are any.

    There may be several in files that were concatenated, and any place in files that bytes were added to.
    """
    candidates = np.flatnonzero(found.chunks[:, DECODED] <= MOST_OPTIONS + MOST_ENTRY * found.counts)
    footers: dict[int, Footer] = {}
    is_postscript = np.zeros(len(found.chunks) + 1, bool)
    for first, opened in _open_each(file, found.begins[candidates]):
        if isinstance(opened, BadChunk):
            continue
        numbers = candidates[first : first + len(opened)]
        spans, stops = opened.spans(), np.cumsum(found.counts[numbers]).tolist()
        for number, start, stop in zip(numbers.tolist(), [0, *stops], stops, strict=False):
            records, begin = spans.part(start, stop), int(found.begins[number])
            if _is_postscript(records, begin):
                is_postscript[number] = True
            elif _is_like_footer(records) and (footer := _footer_at(file, begin)) is not None:
                footers[number] = footer
    others = ~is_postscript[:-1]
    others[list(footers)] = False
    chunks = found.chunks[others]
    # Anything else is a record that happens to parse as a footer.
    footers = {number: one for number, one in footers.items() if is_postscript[number + 1] or _is_of(one, chunks)}
    others = ~is_postscript[:-1]
    others[list(footers)] = False
    last = int(np.flatnonzero(others)[-1]) if others.any() else -1
    found.chunks = found.chunks[others]
    number, footer = next(iter(footers.items()), (-1, None))
    total = sum(int(one.counts.sum()) for one in footers.values()) if footers else None
    if len(footers) != 1 or footer is None or number < last:
        return None, total
    listed = _are_listed(found.chunks, footer)
    is_in_place = np.all(listed) or (np.mean(listed) > 0.5 and not _has_moved(found.chunks, listed, footer))
    return footer if is_in_place else None, total


def _are_listed(chunks: npt.NDArray[np.int64], footer: Footer) -> npt.NDArray[np.bool_]:
    """Which chunks are where a footer lists one of as many records and bytes."""
    if not len(footer.begins):
        return np.zeros(len(chunks), np.bool_)
    at = np.minimum(np.searchsorted(footer.begins, chunks[:, BEGIN]), len(footer.begins) - 1)
    described = np.stack([footer.begins, footer.counts, footer.decoded_sizes], axis=1)
    alike: npt.NDArray[np.bool_] = np.all(chunks[:, (BEGIN, COUNT, DECODED)] == described[at], axis=1)
    return alike


def _has_moved(chunks: npt.NDArray[np.int64], listed: npt.NDArray[np.bool_], footer: Footer) -> bool:
    """Whether the last chunk that a footer does not list is one that it lists elsewhere, because bytes before it are missing or were added.

    Else it is inside a record, as in files of files.
    """
    _, _, _, count, decoded = chunks[~listed][-1].tolist()
    is_there = np.isin(footer.begins, chunks[listed, BEGIN])[-NEAR_END:]
    alike = (footer.counts[-NEAR_END:] == count) & (footer.decoded_sizes[-NEAR_END:] == decoded)
    return bool(np.any(alike & ~is_there))


def _is_of(footer: Footer, chunks: npt.NDArray[np.int64]) -> bool:
    """Whether a footer describes these chunks, most of them, or some of them and few others. Their places may have changed."""
    there = set(map(tuple, chunks[:, (DECODED, COUNT)].tolist()))
    described = set(zip(footer.decoded_sizes.tolist(), footer.counts.tolist(), strict=True))
    return not there or 2 * len(there & described) > min(len(there), len(described))


def _is_postscript(records: _native.Spans, begin: int) -> bool:
    """Whether records at ``begin`` are a postscript. Where bytes before it are missing, the footer that it names would be after it."""
    try:
        place = _native.parse_postscript(records)
    except _native.FormatError:
        return False
    if place < begin:
        return True
    return len(records) == COPIES and len(set(records.to_bytes())) == 1


def _is_like_footer(records: _native.Spans) -> bool:
    try:
        _native.parse_footer(records)
    except _native.FormatError:
        return False
    return True


def _footer_at(file: MappedFile, begin: int) -> Footer | None:
    try:
        return as_footer(file, begin, moved=True)
    except BadChunk:
        return None


def _count_lost(damage: Damage, footer: Footer) -> Damage:
    inside = (footer.begins >= damage.begin) & (footer.begins < damage.end)
    known = int(footer.counts[inside].sum())
    return Damage(damage.fault, damage.begin, damage.end, known)
