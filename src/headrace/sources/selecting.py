"""Some of the features of a source, under names of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Example, Indices
from headrace.sources.over import OverOne

if TYPE_CHECKING:
    from headrace.sources.views import Source

__all__ = ["Selecting"]


class Selecting(OverOne):
    """The features whose names are the values of ``names``, under those that are its keys."""

    def __init__(self, parent: Source, names: Mapping[str, str]) -> None:
        super().__init__(parent._narrowed(tuple(dict.fromkeys(names.values()))))
        self.names = dict(names)
        self._schema = Schema({new: parent.schema[old] for new, old in names.items()})

    @property
    def schema(self) -> Schema:
        return self._schema

    def encoded(self) -> Source:
        return self.parent.encoded()._named(self.names)

    def _batch(self, indices: Indices) -> Batch:
        return self._renamed(self.parent._batch(indices))

    def _example(self, index: int) -> Example:
        return self._renamed(self.parent._example(index))

    def __iter__(self) -> Iterator[Example]:
        """All examples in order, without an index where the parent needs none."""
        return map(self._renamed, self.parent)

    def stream(self, batch_size: int) -> Iterator[Batch] | None:
        """As the parent does, if it does."""
        batches = self.parent.stream(batch_size) if hasattr(self.parent, "stream") else None
        return None if batches is None else map(self._renamed, batches)

    def _renamed(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {new: values[old] for new, old in self.names.items()}
