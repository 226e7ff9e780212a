"""Footers and chunks of ArrayRecord files behind URLs: only what is needed is fetched, everything at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from headrace.contracts.values import Indices
from headrace.formats.array_record.footer import ChunkTable, Footer, footer_begin, read_footer
from headrace.formats.array_record.unpack import HasBuffer
from headrace.io.local.fileset import FileSet
from headrace.io.store.object import sparse_views
from headrace.io.threads import prefetch

__all__ = ["Reached", "chunk_ends", "fetch_footers", "reach", "reached_in_order"]


TAIL_BYTES = 1 << 20  # fetched first: the last block, and a footer of up to 50,000 chunks before it
MOST_FOOTER_BYTES = 64 << 20  # a footer that says it is larger is looked at in a copy of the file, on the disk
FIRST_BYTES = 256 << 10
STRETCH_BYTES = 8 << 20  # fetched at a time when chunks are read in order
STRETCHES_AHEAD = 2
PART_BYTES = 2 << 20  # by one request: a stretch comes by several at once


class Reached:
    """The files of a set as far as some chunks of them need: what :class:`ChunkReader` asks of a set of files.

    Args:
        files: All of them.
        near: For some, what was fetched.
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

    def touched(self, size: int, *, scattered: int = 0) -> None:
        """What was fetched goes by itself."""


def fetch_footers(files: FileSet) -> list[Footer]:
    """The footers of all files.

    Raises:
        CorruptFile: A file was cut off, or its end is damaged.
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
    """``int64 (k,)``: where the chunks of all files end, at the latest."""
    return np.concatenate([np.append(footer.begins[1:], footer.begin)[: len(footer.begins)] for footer in footers])


def reach(files: FileSet, table: ChunkTable, ends: Indices, chunks: Indices, *, joined: int | None = None) -> Reached:
    """Fetch some chunks (rising)."""
    file_of = table.file_of[chunks]
    asked = []
    remote = [number for number in np.unique(file_of).tolist() if files.by_range(number)]
    for number in remote:
        mine = chunks[file_of == number]
        begins = table.begins[mine]
        asked.append((files.remote(number), begins, ends[mine] - begins))
    return Reached(files, dict(zip(remote, sparse_views(asked, most_joined=joined) if asked else [], strict=True)))


def reached_in_order(files: FileSet, table: ChunkTable, ends: Indices) -> Iterator[tuple[int, int, Reached]]:
    """All chunks in order: the first and one past the last of a stretch, and its files, the next ones being fetched meanwhile."""

    def stretches() -> Iterator[tuple[int, int, Reached]]:
        start, most = 0, FIRST_BYTES
        while start < len(table.begins):
            last = int(table.file_firsts[table.file_of[start] + 1])
            stop = start + max(1, int(np.searchsorted(ends[start:last], table.begins[start] + most, side="right")))
            yield start, stop, reach(files, table, ends, np.arange(start, stop), joined=PART_BYTES)
            start, most = stop, min(2 * most, STRETCH_BYTES)

    return prefetch(stretches(), depth=STRETCHES_AHEAD)
