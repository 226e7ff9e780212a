"""Which examples are read, and saying so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch
from headrace.sampling.samplers import Shuffled
from headrace.sources.views import Source

__all__ = ["Sample"]

BATCH_BYTES = 4 << 20
GUESSED_BYTES = 4096  # of a value whose size varies
MOST_ROWS = 1024
SEED = 0


@dataclass(slots=True)
class Sample:
    """Some or all examples of a source.

    Args:
        source: Where they come from.
        wanted: How many at most; ``None``: all.
    """

    source: Source
    wanted: int | None
    read: int = 0
    """Examples read so far."""
    total: int | None = None
    """Examples there are, where that is known."""
    is_first: bool = False
    """Whether those read are the first ones rather than some from everywhere."""

    def batches(self) -> Iterator[tuple[Batch, int]]:
        """The batches, with how many examples each holds."""
        rows = min(_rows_for(self.source.schema), self.wanted or MOST_ROWS)
        stream: Iterator[Batch] | None = self.source.stream(rows) if hasattr(self.source, "stream") else None
        for batch, count in self._streamed(stream) if stream is not None else self._picked(rows):
            self.read += count
            yield batch, count

    def _streamed(self, stream: Iterator[Batch]) -> Iterator[tuple[Batch, int]]:
        """A compressed file that was not inflated yet: in order, since anything else would inflate all of it first."""
        self.is_first = True
        for batch in stream:
            count = _rows_of(batch)
            yield batch, count
            if self.wanted is not None and self.read >= self.wanted:
                return
        self.total = self.read

    def _picked(self, rows: int) -> Iterator[tuple[Batch, int]]:
        n = self.total = len(self.source)
        if self.wanted is None or self.wanted >= n:
            picked = np.arange(n)
        else:
            # From everywhere, since data often lie sorted; by a permutation, since every k-th may be of one kind.
            picked = np.sort(Shuffled(n, seed=SEED).indices(0, 0, self.wanted))
        for at in range(0, len(picked), rows):
            part = picked[at : at + rows]
            yield self.source.batch(part), len(part)

    @property
    def statement(self) -> str:
        """What was read, in words."""
        if self.read == self.total:
            return f"all {self.read:,} examples were read"
        if self.is_first:
            return f"the first {self.read:,} examples were read (--all reads every one)"
        return f"{self.read:,} of {self.total:,} examples were read, picked at random (--all reads every one)"


def _rows_for(schema: Schema) -> int:
    size = 0
    for feature in schema.values():
        size += (
            feature.count * feature.numpy_dtype.itemsize if feature.is_fixed and not feature.is_text else GUESSED_BYTES
        )
    return max(1, min(MOST_ROWS, BATCH_BYTES // max(1, size)))


def _rows_of(batch: Batch) -> int:
    column: Any = next(iter(batch.values()), ())
    return int(column.shape[0]) if hasattr(column, "shape") else len(column)
