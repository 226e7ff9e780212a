"""Verify ArrayRecord files, and salvage damaged ones."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from headrace import _native
from headrace.contracts.records import Salvaged
from headrace.contracts.values import Indices
from headrace.errors import CorruptFile, CorruptRecord, DataError, Where
from headrace.formats.array_record.footer import Footer
from headrace.formats.array_record.join import ChunksOf, copy_chunks
from headrace.formats.array_record.scan import BEGIN, COUNT, DECODED, END, ScanResult, scan_file
from headrace.formats.array_record.unpack import BadChunk, open_chunks
from headrace.io.local.mapped import MappedFile
from headrace.io.local.open import map_file
from headrace.io.paths import PathLike

__all__ = ["Stretch", "salvage", "verify_file"]


STRETCH_BYTES = 4 << 20


@dataclass(slots=True)
class Stretch:
    """A run of verified chunks, or the faults around them.

    Args:
        path: The file.
        bytes: Bytes of the file checked since the last stretch.
        faults: The faults found.
        spans: The records of the intact chunks.
        numbers: ``int64 (n,)``: the number of each of these records in the file.
        begins: ``int64 (n,)``: the offset of its chunk.
    """

    path: str
    bytes: int = 0
    faults: list[DataError] = field(default_factory=list)
    spans: _native.Spans | None = None
    numbers: Indices = field(default_factory=lambda: np.zeros(0, np.int64))
    begins: Indices = field(default_factory=lambda: np.zeros(0, np.int64))

    def where(self, position: int) -> Where:
        """The location of one of the records."""
        return Where(path=self.path, record=int(self.numbers[position]), offset=int(self.begins[position]))


def verify_file(file: MappedFile, *, has_footer: bool = True) -> Iterator[Stretch]:
    """Check block and chunk headers, data, and footer and postscript if present; decompress every chunk."""
    found = scan_file(file, has_footer=has_footer)
    faults = [damage.fault for damage in found.damage]
    faults += [_bad_block(file, offset) for offset in _native.bad_block_headers(file.buffer)]
    if found.footer is not None:
        faults += _contradictions(file, found, found.footer)
    checked = 0
    firsts = _first_numbers(found)
    start = 0
    while start < len(found.chunks):
        stretch, stop = _decode_stretch(file, found, firsts, start)
        stretch.bytes = int((found.chunks[start:stop, END] - found.chunks[start:stop, BEGIN]).sum())
        stretch.faults, faults = faults + stretch.faults, []
        checked += stretch.bytes
        yield stretch
        start = stop
    yield Stretch(file.path, file.size - checked, faults)


def _decode_stretch(file: MappedFile, found: ScanResult, firsts: Indices, start: int) -> tuple[Stretch, int]:
    """Decode chunks from ``start`` on. Also return where to continue, which is past a chunk that cannot be decoded."""
    begins = found.begins[start : start + STRETCH_BYTES // 64]
    fault: DataError | None = None
    try:
        chunks = open_chunks(file, begins, verify=False, most_bytes=STRETCH_BYTES)
    except BadChunk as error:
        place = error.fault.where.at(record=int(firsts[start + error.number]))
        fault = CorruptRecord(place, expected=error.fault.expected, found=error.fault.found)
        if error.before is None:
            return Stretch(file.path, faults=[fault]), start + 1
        chunks = error.before
    stop = start + len(chunks)
    counts = found.counts[start:stop]
    spans = chunks.spans()
    before = np.cumsum(counts) - counts
    numbers = np.repeat(firsts[start:stop] - before, counts) + np.arange(len(spans))
    stretch = Stretch(file.path, 0, [], spans, numbers, np.repeat(begins[: stop - start], counts))
    if fault is not None:
        stretch.faults.append(fault)
        stop += 1
    return stretch, stop


def _first_numbers(found: ScanResult) -> Indices:
    """The number in the file of the first record of each intact chunk. Lost records count if the footer lists them."""
    if found.footer is None:
        return np.cumsum(found.counts) - found.counts
    counts = found.footer.counts
    firsts = np.cumsum(counts) - counts
    return firsts[np.searchsorted(found.footer.begins, found.begins)]


def _contradictions(file: MappedFile, found: ScanResult, footer: Footer) -> Iterator[DataError]:
    """Where the footer and the chunks disagree."""
    at = np.searchsorted(found.begins, footer.begins)
    there = np.isin(footer.begins, found.begins)
    alike = there.copy()
    alike[there] = found.counts[at[there]] == footer.counts[there]
    alike[there] &= found.chunks[at[there], DECODED] == footer.decoded_sizes[there]
    for number in np.flatnonzero(~alike).tolist():
        begin = int(footer.begins[number])
        if any(damage.begin <= begin < damage.end for damage in found.damage):
            continue  # already reported
        chunk = found.chunks[at[number]] if there[number] else None
        yield CorruptFile(
            Where(path=file.path, offset=begin),
            expected=f"a chunk of {footer.counts[number]} records and {footer.decoded_sizes[number]} bytes, as the footer says",
            found="none" if chunk is None else f"one of {chunk[COUNT]} records and {chunk[DECODED]} bytes",
        )


def _bad_block(file: MappedFile, offset: int) -> CorruptFile:
    return CorruptFile(
        Where(path=file.path, offset=offset),
        expected="a block header with a correct hash",
        found="a damaged one",
        hint="No record is lost: block headers only help to find chunks after damage.",
    )


def salvage(path: PathLike, out: PathLike) -> Salvaged:
    """Copy every intact chunk of an ArrayRecord file into a new one, even if the footer is lost.

    Chunks are copied without decompression, and records keep their order. A chunk is intact if its hashes match.

    Args:
        path: The damaged file. It is not changed.
        out: The new file, which appears under its name once complete.

    Raises:
        CorruptFile: There is no intact chunk of records.
    """
    file = map_file(os.fspath(path))
    found = scan_file(file)
    if not len(found.chunks) and (found.damage or found.footer is None):
        raise CorruptFile(Where(path=file.path), expected="at least one intact chunk of records", found="none")
    options = found.footer.options if found.footer is not None else f"group_size:{found.counts.max(initial=1)}"
    decoded_sizes = np.ascontiguousarray(found.chunks[:, DECODED])
    copy_chunks([ChunksOf(file, found.begins, decoded_sizes, found.counts)], out, options)
    lost_bytes = sum(damage.end - damage.begin for damage in found.damage)
    lost = None if found.footer is None else int(found.footer.counts.sum() - found.counts.sum())
    return Salvaged(records=int(found.counts.sum()), lost_records=lost, lost_bytes=lost_bytes)
