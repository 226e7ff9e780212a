"""Which chunk a record is in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headrace.contracts.records import Skipped
from headrace.contracts.values import Indices
from headrace.errors import Where

__all__ = ["ChunkTable"]


@dataclass(frozen=True, slots=True, eq=False)
class ChunkTable:
    """The chunks of some files, numbered on from file to file.

    Args:
        paths: The files.
        begins: ``int64 (k,)``: where each chunk begins in its file.
        firsts: ``int64 (k + 1,)``: number of the first record of each chunk, and of all records.
        file_firsts: ``int64 (files + 1,)``: number of the first chunk of each file, and of all chunks.
        file_of: ``int64 (k,)``: which file each chunk is in.
        records: How many records there are.
        single: Whether every chunk holds one of them.
        skipped: What was left out.
    """

    paths: tuple[str, ...]
    begins: Indices
    firsts: Indices
    file_firsts: Indices
    file_of: Indices
    records: int
    single: bool
    skipped: Skipped

    @classmethod
    def of(
        cls, paths: tuple[str, ...], begins: Sequence[Indices], counts: Sequence[Indices], skipped: Skipped
    ) -> ChunkTable:
        """The table for some files, from where the chunks of each begin and how many records they have."""
        every = np.concatenate(counts)
        chunks = [len(part) for part in begins]
        return cls(
            paths,
            np.ascontiguousarray(np.concatenate(begins)),
            np.concatenate(([0], np.cumsum(every))).astype(np.int64),
            np.concatenate(([0], np.cumsum(chunks))).astype(np.int64),
            np.repeat(np.arange(len(paths)), chunks),
            int(every.sum()),
            bool((every == 1).all()),
            skipped,
        )

    def __len__(self) -> int:
        """How many records there are."""
        return self.records

    @property
    def lengths(self) -> tuple[int, ...]:
        """How many records each file holds."""
        lengths: list[int] = np.diff(self.firsts[self.file_firsts]).tolist()
        return tuple(lengths)

    def counts(self, chunks: Indices) -> Indices:
        """How many records some chunks have."""
        counts: Indices = self.firsts[chunks + 1] - self.firsts[chunks]
        return counts

    def chunks_of(self, indices: Indices) -> Indices:
        """The chunk that each record is in."""
        if self.single:
            return indices
        return np.searchsorted(self.firsts, indices, side="right") - 1

    def where(self, index: int) -> Where:
        """Path, number in its file, and byte offset of the chunk of one record."""
        chunk = int(self.chunks_of(np.array([index], np.int64))[0])
        file = int(self.file_of[chunk])
        before = int(self.firsts[self.file_firsts[file]])
        return Where(path=self.paths[file], record=index - before, offset=int(self.begins[chunk]))
