"""Footers of ArrayRecord files, which list the chunks. For remote files, only the ranges needed are fetched, in parallel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace._arguments import check_position
from headrace.contracts.records import Skipped
from headrace.contracts.values import Indices
from headrace.errors import CorruptFile, Where
from headrace.formats.array_record.unpack import BadChunk, HasBuffer, open_chunks
from headrace.io.local.fileset import FileSet
from headrace.io.store.object import sparse_views
from headrace.io.threads import prefetch

__all__ = [
    "BLOCK_BYTES",
    "COPIES",
    "SALVAGE_HINT",
    "ChunkTable",
    "Footer",
    "Reached",
    "as_footer",
    "chunk_ends",
    "fetch_footers",
    "footer_begin",
    "reach",
    "reached_in_order",
    "read_footer",
]


BLOCK_BYTES = 1 << 16
COPIES = 3
"""Of the record of a postscript."""
LEAST_BYTES = 2 * BLOCK_BYTES
FIRST_CHUNK = 64  # after the signature
SALVAGE_HINT = "`headrace verify --salvage OUT` recovers the chunks that are intact."


@dataclass(frozen=True, slots=True, eq=False)
class Footer:
    """The parsed footer of an ArrayRecord file.

    Args:
        begin: Offset of the footer itself.
        options: The writer's options, in ArrayRecord's notation.
        begins: ``int64 (k,)``: offset of each chunk of records.
        decoded_sizes: ``int64 (k,)``: decoded bytes of its records.
        counts: ``int64 (k,)``: its number of records.
    """

    begin: int
    options: str
    begins: Indices
    decoded_sizes: Indices
    counts: Indices


def read_footer(file: HasBuffer) -> Footer:
    """Find and read the footer of a file.

    Raises:
        CorruptFile: The file is truncated, or its end is damaged.
    """
    begin = footer_begin(file)
    try:
        found = as_footer(file, begin)
    except BadChunk as error:
        raise _corrupt(file, f"{error.fault.expected} in the footer", error.fault.found, begin) from error
    if found is None:
        raise _corrupt(file, "a footer that describes the chunks before it", "one that cannot", begin)
    _check_place(file, begin)
    return found


def _check_place(file: HasBuffer, begin: int) -> None:
    """Check that only the postscript follows a footer. Files that were concatenated end in that of the last one."""
    table, _, _ = _native.scan_chunks(file.buffer, begin, most=1, verify=False)
    last = file.size - BLOCK_BYTES
    # Between them is padding, which may take another block. The least file has two.
    if not 0 <= last - int(table[0, 1]) < LEAST_BYTES:
        raise _corrupt(
            file, f"a footer right before the postscript at byte {last:#x}", f"one at byte {begin:#x}", begin
        )


def footer_begin(file: HasBuffer) -> int:
    """The offset of the footer, from the last block of the file.

    Raises:
        CorruptFile: The file is truncated, or its end is damaged.
    """
    _check_size(file)
    begin = _postscript(file)
    if not FIRST_CHUNK <= begin < file.size - BLOCK_BYTES:
        raise _corrupt(file, "a footer before the postscript", f"one at byte {begin:#x}", file.size - BLOCK_BYTES)
    return begin


def as_footer(file: HasBuffer, begin: int, *, moved: bool = False) -> Footer | None:
    """The footer at ``begin``; ``None`` if that chunk is not a footer.

    Args:
        file: Its file.
        begin: Where it is.
        moved: Whether bytes before it may be missing, so that it lists chunks that would begin after it.

    Raises:
        BadChunk: The chunk is damaged.
    """
    chunks = open_chunks(file, np.array([begin], np.int64), verify=True)
    try:
        options, begins, decoded_sizes, counts = _native.parse_footer(chunks.spans())
    except _native.FormatError:
        return None
    last = int(begins[-1]) + 1 if moved and len(begins) else begin
    rising = np.all(np.diff(begins, prepend=FIRST_CHUNK - 1, append=last) > 0)
    if not rising or not np.all(counts > 0):
        return None
    return Footer(begin, options.decode("utf-8", "replace"), begins, decoded_sizes, counts)


def _check_size(file: HasBuffer) -> None:
    if file.size < LEAST_BYTES:
        raise _corrupt(file, f"at least {LEAST_BYTES} bytes, as in every complete ArrayRecord file", f"{file.size}")
    if file.size % BLOCK_BYTES:
        blocks = f"a multiple of {BLOCK_BYTES} bytes, as in every complete ArrayRecord file"
        raise _corrupt(file, blocks, f"{file.size} bytes")


def _postscript(file: HasBuffer) -> int:
    place = file.size - BLOCK_BYTES
    try:
        chunks = open_chunks(file, np.array([place], np.int64), verify=True)
        return _native.parse_postscript(chunks.spans())
    except BadChunk as error:
        raise _corrupt(file, "an ArrayRecord postscript in the last block", error.fault.found, place) from error
    except _native.FormatError as error:
        raise _corrupt(file, "an ArrayRecord postscript in the last block", "another chunk", place) from error


def _corrupt(file: HasBuffer, expected: str, found: str, offset: int | None = None) -> CorruptFile:
    return CorruptFile(
        Where(path=file.path, offset=offset),
        expected=expected,
        found=found,
        hint="The file is truncated, still being written, or damaged at its end. " + SALVAGE_HINT,
    )


@dataclass(frozen=True, slots=True, eq=False)
class ChunkTable:
    """The chunks of all files, numbered consecutively across files.

    Args:
        paths: The files.
        begins: ``int64 (k,)``: offset of each chunk in its file.
        firsts: ``int64 (k + 1,)``: number of the first record of each chunk, then the number of records.
        file_firsts: ``int64 (files + 1,)``: number of the first chunk of each file, then the number of chunks.
        file_of: ``int32 (k,)``: the file of each chunk.
        records: Total number of records.
        single: Whether every chunk holds exactly one record.
        skipped: What was left out.
    """

    paths: tuple[str, ...]
    begins: Indices
    firsts: Indices
    file_firsts: Indices
    file_of: npt.NDArray[np.int32]
    records: int
    single: bool
    skipped: Skipped

    @classmethod
    def of(
        cls, paths: tuple[str, ...], begins: Sequence[Indices], counts: Sequence[Indices], skipped: Skipped
    ) -> ChunkTable:
        """The table for a set of files, from the offsets and record counts of the chunks of each."""
        every = np.concatenate(counts)
        chunks = [len(part) for part in begins]
        return cls(
            paths,
            np.ascontiguousarray(np.concatenate(begins)),
            np.concatenate(([0], np.cumsum(every))).astype(np.int64),
            np.concatenate(([0], np.cumsum(chunks))).astype(np.int64),
            np.repeat(np.arange(len(paths), dtype=np.int32), chunks),
            int(every.sum()),
            bool((every == 1).all()),
            skipped,
        )

    def __len__(self) -> int:
        """The total number of records."""
        return self.records

    @property
    def lengths(self) -> tuple[int, ...]:
        """The number of records in each file."""
        lengths: list[int] = np.diff(self.firsts[self.file_firsts]).tolist()
        return tuple(lengths)

    def counts(self, chunks: Indices) -> Indices:
        """The number of records in each of these chunks."""
        counts: Indices = self.firsts[chunks + 1] - self.firsts[chunks]
        return counts

    def chunks_of(self, indices: Indices) -> Indices:
        """The chunk of each record."""
        if self.single:
            return indices
        return np.searchsorted(self.firsts, indices, side="right") - 1

    def where(self, index: int) -> Where:
        """Path, number in its file, and chunk offset of one record."""
        index = check_position(index, self.records)
        chunk = int(self.chunks_of(np.array([index], np.int64))[0])
        file = int(self.file_of[chunk])
        before = int(self.firsts[self.file_firsts[file]])
        return Where(path=self.paths[file], record=index - before, offset=int(self.begins[chunk]))


TAIL_BYTES = 1 << 20  # fetched first: the last block and, before it, a footer of up to 50,000 chunks
MOST_FOOTER_BYTES = 64 << 20  # a footer that claims to be larger is read from a local copy of the file
FIRST_BYTES = 256 << 10
STRETCH_BYTES = 8 << 20  # fetched at a time when reading chunks in order
STRETCHES_AHEAD = 2
PART_BYTES = 2 << 20  # per request: the parts of a stretch are fetched in parallel


class Reached:
    """The fetched parts of a set of files, in the form that :class:`ChunkReader` reads.

    Args:
        files: All of them.
        near: What was fetched, by file.
    """

    def __init__(self, files: FileSet, near: dict[int, HasBuffer]) -> None:
        self._files = files
        self._near = near

    def __len__(self) -> int:
        return len(self._files)

    def content(self, number: int) -> HasBuffer:
        """File ``number`` as memory."""
        found = self._near.get(number)
        return self._files.content(number) if found is None else found

    def buffers(self, which: npt.NDArray[np.int32] | None) -> tuple[list[Any], npt.NDArray[np.int32] | None]:
        """Buffers for native code, and the buffer of each chunk in files ``which`` (``None``: all in file 0). Files of which nothing
        was fetched are empty.
        """
        if which is None:
            return [self._buffer(0)], None
        numbers, renumbered = np.unique(which, return_inverse=True)
        return [self._buffer(number) for number in numbers.tolist()], renumbered.astype(np.int32)

    def _buffer(self, number: int) -> Any:
        return b"" if number not in self._near and self._files.by_range(number) else self.content(number).buffer

    def touched(self, size: int, *, scattered: int = 0) -> None:
        """Nothing to do: fetched parts are freed with their buffers."""


def fetch_footers(files: FileSet) -> list[Footer]:
    """The footers of all files.

    Raises:
        CorruptFile: A file is truncated, or its end is damaged.
    """
    remote = [number for number in range(len(files.paths)) if files.by_range(number)]
    sizes = {number: files.remote(number).size for number in remote}
    tails = {number: max(0, size - TAIL_BYTES) for number, size in sizes.items()}
    contents: dict[int, HasBuffer] = dict(zip(remote, _tails(files, tails), strict=True))
    begins = {number: footer_begin(contents[number]) for number in remote}
    longer = {number: begin for number, begin in begins.items() if begin < tails[number]}
    for number in [n for n, begin in longer.items() if sizes[n] - begin > MOST_FOOTER_BYTES]:
        contents[number] = files.content(number)
        del longer[number]
    contents |= zip(longer, _tails(files, longer), strict=True)
    return [read_footer(contents.get(number) or files.content(number)) for number in range(len(files.paths))]


def _tails(files: FileSet, begins: dict[int, int]) -> Sequence[HasBuffer]:
    asked = [(files.remote(number), begin) for number, begin in begins.items()]
    return sparse_views([(file, [begin], [file.size - begin]) for file, begin in asked]) if asked else []


def chunk_ends(footers: Sequence[Footer]) -> Indices:
    """``int64 (k,)``: an upper bound on where the chunks of all files end."""
    return np.concatenate([np.append(footer.begins[1:], footer.begin)[: len(footer.begins)] for footer in footers])


def reach(files: FileSet, table: ChunkTable, ends: Indices, chunks: Indices, *, joined: int | None = None) -> Reached:
    """Fetch these chunks (ascending)."""
    file_of = table.file_of[chunks]
    asked = []
    remote = [number for number in np.unique(file_of).tolist() if files.by_range(number)]
    for number in remote:
        mine = chunks[file_of == number]
        begins = table.begins[mine]
        asked.append((files.remote(number), begins, ends[mine] - begins))
    return Reached(files, dict(zip(remote, sparse_views(asked, most_joined=joined) if asked else [], strict=True)))


def reached_in_order(files: FileSet, table: ChunkTable, ends: Indices) -> Iterator[tuple[int, int, Reached]]:
    """All chunks in order: the first of a stretch, one past its last, and the files. Later stretches are prefetched."""

    def stretches() -> Iterator[tuple[int, int, Reached]]:
        start, most = 0, FIRST_BYTES
        while start < len(table.begins):
            last = int(table.file_firsts[table.file_of[start] + 1])
            stop = start + max(1, int(np.searchsorted(ends[start:last], table.begins[start] + most, side="right")))
            yield start, stop, reach(files, table, ends, np.arange(start, stop), joined=PART_BYTES)
            start, most = stop, min(2 * most, STRETCH_BYTES)

    return prefetch(stretches(), depth=STRETCHES_AHEAD)
