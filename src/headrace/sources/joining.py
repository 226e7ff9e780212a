"""Several sources as one: one behind the other, or side by side."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Indices
from headrace.errors import Where
from headrace.sources.over import OverSeveral
from headrace.sources.parts import features_of_all, gathered, refuse_other_features

if TYPE_CHECKING:
    from headrace.sources.views import Source

__all__ = ["Concatenating", "Zipping"]


class Concatenating(OverSeveral):
    """The examples of one source after those of the other."""

    def __init__(self, parents: tuple[Source, ...]) -> None:
        refuse_other_features(parents)
        super().__init__(parents)

    @property
    def schema(self) -> Schema:
        return self.parents[0].schema

    @property
    def cuts_cleanly(self) -> bool:
        return all(parent.cuts_cleanly and parent.schema == self.schema for parent in self.parents)

    @cached_property
    def _ends(self) -> Indices:
        return np.cumsum([len(parent) for parent in self.parents], dtype=np.int64)

    def __len__(self) -> int:
        return int(self._ends[-1])

    def _place(self, index: int) -> tuple[Source, int]:
        part = int(np.searchsorted(self._ends, index, side="right"))
        return self.parents[part], index - (int(self._ends[part - 1]) if part else 0)

    def where(self, index: int) -> Where:
        parent, local = self._place(index)
        return parent.where(local)

    def _narrowed(self, names: tuple[str, ...]) -> Source:
        first, *others = (parent._narrowed(names) for parent in self.parents)
        return first.concat(*others)

    def encoded(self) -> Source:
        first, *others = (parent.encoded() for parent in self.parents)
        return first.concat(*others)

    def _batch(self, indices: Indices) -> Batch:
        return gathered(self.parents, self._ends, indices)


class Zipping(OverSeveral):
    """The features of several sources side by side."""

    def __init__(self, parents: tuple[Source, ...]) -> None:
        super().__init__(parents)
        self._schema = features_of_all(parents)

    @property
    def schema(self) -> Schema:
        return self._schema

    @property
    def cuts_cleanly(self) -> bool:
        return all(parent.cuts_cleanly for parent in self.parents)

    def __len__(self) -> int:
        return len(self.parents[0])

    def where(self, index: int) -> Where:
        return self.parents[0].where(index)

    def encoded(self) -> Source:
        first, *others = (parent.encoded() for parent in self.parents)
        return first.zip(*others)

    def _batch(self, indices: Indices) -> Batch:
        return {name: column for parent in self.parents for name, column in parent._batch(indices).items()}
