"""The examples that a user's predicate keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from headrace.contracts.values import Batch, Example, Indices
from headrace.errors import Where
from headrace.sources.applying import Applied
from headrace.sources.over import OverOne

if TYPE_CHECKING:
    from headrace.sources.views import Source

__all__ = ["Filtering"]


class Filtering(OverOne):
    """The examples for which a predicate is true."""

    def __init__(self, parent: Source, predicate: Callable[[Example], bool]) -> None:
        super().__init__(parent)
        self.predicate = predicate

    @cached_property
    def _kept(self) -> Source:
        return self.parent._chosen(self._true(enumerate(self.parent)))

    def kept_in(self, begin: int, end: int) -> Indices:
        """The indices from ``begin`` up to ``end`` whose examples are kept, found anew."""
        return self._true(enumerate(self.parent[begin:end], begin))

    def keep(self, indices: Indices) -> None:
        """Take these for the indices that are kept: somebody has found them by :meth:`kept_in`."""
        self.__dict__["_kept"] = self.parent._chosen(indices)

    def filters(self) -> Iterator[Filtering]:
        yield from self.parent.filters()
        if "_kept" not in self.__dict__:
            yield self

    def _true(self, examples: Iterable[tuple[int, Example]]) -> Indices:
        keeps = Applied(self.predicate, self.parent)
        kept = [i for i, example in examples if keeps(example, i)]
        return np.array(kept, np.int64)

    def __len__(self) -> int:
        return len(self._kept)

    def encoded(self) -> Source:
        return self._kept.encoded()

    def _batch(self, indices: Indices) -> Batch:
        return self._kept._batch(indices)

    def where(self, index: int) -> Where:
        return self._kept.where(index)

    def __iter__(self) -> Iterator[Example]:
        """The kept examples in order, each as soon as it is found."""
        keeps = Applied(self.predicate, self.parent)
        for i, example in enumerate(self.parent):
            if keeps(example, i):
                yield example
