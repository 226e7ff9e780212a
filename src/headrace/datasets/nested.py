"""Stored values of examples, grouped by nested sequences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.contracts.values import Indices, take_rows

__all__ = ["Nested"]

Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Nested:
    """Concatenated values, and the sequences that contain them.

    Args:
        parts: Columns of equal length: the values of a feature, one column for each key that it is stored under.
        offsets: For each level of sequences, from the outermost, the offsets of its sequences in the next level.
    """

    parts: list[Any]
    offsets: tuple[Offsets, ...] = ()

    def __len__(self) -> int:
        return len(self.offsets[0]) - 1 if self.offsets else len(self.parts[0])

    def rows(self, start: int, stop: int) -> Nested:
        """A range of the outermost level, as views."""
        if not self.offsets:
            return Nested([part[start:stop] for part in self.parts])
        outer = self.offsets[0][start : stop + 1]
        inner = self.inside().rows(int(outer[0]), int(outer[-1]))
        return Nested(inner.parts, (outer - outer[0], *inner.offsets))

    def take(self, indices: Indices) -> Nested:
        """Elements of the outermost level at these positions, copied."""
        if not self.offsets:
            return Nested([take_rows(part, indices) for part in self.parts])
        outer = self.offsets[0]
        lengths = np.diff(outer)[indices]
        ends = np.cumsum(lengths, dtype=np.int64)
        chosen = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(outer[indices] - (ends - lengths), lengths)
        inner = self.inside().take(chosen)
        return Nested(inner.parts, (np.concatenate([np.zeros(1, np.int64), ends]), *inner.offsets))

    def inside(self) -> Nested:
        """The values without the outermost level."""
        return Nested(self.parts, self.offsets[1:])

    def record_of(self, position: int) -> int:
        """Index in the outermost level of the element that contains a value."""
        for offsets in reversed(self.offsets):
            position = int(np.searchsorted(offsets, position, side="right")) - 1
        return position

    def find_unlike(self, other: Nested) -> tuple[int, int, int] | None:
        """The first sequence that has another length in ``other``: its index in the outermost level, and both lengths."""
        for depth, (own, others) in enumerate(zip(self.offsets, other.offsets, strict=True)):
            # Each sequence, not only their sum: otherwise values would move to the next example.
            wrong = np.flatnonzero(own != others)
            if len(wrong):
                at = int(wrong[0]) - 1
                record = Nested([], self.offsets[:depth]).record_of(at)
                return record, int(own[at + 1] - own[at]), int(others[at + 1] - others[at])
        return None
