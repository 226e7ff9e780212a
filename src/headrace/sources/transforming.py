"""Examples as a user's function makes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Example, Indices
from headrace.sources.applying import Applied
from headrace.sources.over import OverOne
from headrace.sources.stacking import row, schema_of, stack

if TYPE_CHECKING:
    from headrace.sources.views import Source

__all__ = ["Transforming"]


class Transforming(OverOne):
    """Every example through a function."""

    def __init__(self, parent: Source, function: Callable[[Example], Example]) -> None:
        super().__init__(parent)
        self.function = function

    @property
    def cuts_cleanly(self) -> bool:
        return False

    @cached_property
    def schema(self) -> Schema:
        return schema_of(self._batch(np.zeros(1, np.int64))) if len(self) else self.parent.schema

    @cached_property
    def _no_rows(self) -> Batch:
        """Columns without rows: what the function makes of the first example says which."""
        if not len(self.parent):
            return {}
        return {name: column[:0] for name, column in self._batch(np.zeros(1, np.int64)).items()}

    def _batch(self, indices: Indices) -> Batch:
        if not len(indices):
            return dict(self._no_rows)
        batch = self.parent._batch(indices)
        made = Applied(self.function, self.parent)
        return stack([made(row(batch, k), int(i)) for k, i in enumerate(indices)])

    def __iter__(self) -> Iterator[Example]:
        """All examples in order; needs no index where the parent needs none."""
        made = Applied(self.function, self.parent)
        for i, example in enumerate(self.parent):
            yield made(example, i)
