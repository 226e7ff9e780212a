"""Some of the examples of a source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts.values import Batch, Example, Indices
from headrace.errors import Where
from headrace.sources.base import compose
from headrace.sources.over import OverOne

if TYPE_CHECKING:
    from headrace.sources.views import Source

__all__ = ["Choosing"]


class Choosing(OverOne):
    """Some of the examples: a range, or an array of indices."""

    chosen: range | Indices

    def __init__(self, parent: Source, chosen: range | Indices) -> None:
        if isinstance(parent, Choosing):  # a slice of a slice is a slice of the first source
            chosen = compose(parent.chosen, chosen)
            parent = parent.parent
        super().__init__(parent)
        self.chosen = chosen

    def __len__(self) -> int:
        return len(self.chosen)

    def _indices(self, indices: Indices) -> Indices:
        if isinstance(self.chosen, range):
            return indices * self.chosen.step + self.chosen.start
        return self.chosen[indices]

    def _batch(self, indices: Indices) -> Batch:
        return self.parent._batch(self._indices(indices))

    def _narrowed(self, names: tuple[str, ...]) -> Source:
        return self.parent._narrowed(names)._chosen(self.chosen)

    def encoded(self) -> Source:
        return self.parent.encoded()._chosen(self.chosen)

    def _example(self, index: int) -> Example:
        return self.parent._example(int(self.chosen[index]))

    def where(self, index: int) -> Where:
        return self.parent.where(int(self.chosen[index]))
