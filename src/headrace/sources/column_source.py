"""Columns in memory as examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Indices, Ragged
from headrace.errors import SchemaMismatch, Where
from headrace.sources.stacking import as_columns, schema_of
from headrace.sources.views import Source

__all__ = ["ColumnSource"]


class ColumnSource(Source):
    """Examples that lie in memory as columns: ``{"image": ndarray (n, ...), "label": ndarray (n,)}``."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self.columns = as_columns(columns)
        lengths = {name: _length(column) for name, column in self.columns.items()}
        if len(set(lengths.values())) > 1:
            raise SchemaMismatch(Where(), expected="columns of equal length", found=str(lengths))
        self._schema = schema_of(self.columns)
        self._length = next(iter(lengths.values()), 0)

    @property
    def schema(self) -> Schema:
        return self._schema

    @property
    def cuts_cleanly(self) -> bool:
        return True

    def __len__(self) -> int:
        return self._length

    def _batch(self, indices: Indices) -> Batch:
        return {name: _rows(column, indices) for name, column in self.columns.items()}


def _length(column: Any) -> int:
    return int(column.shape[0]) if hasattr(column, "tocsr") else len(column)


def _rows(column: Any, indices: Indices) -> Any:
    if isinstance(column, list):
        return [column[i] for i in indices]
    if isinstance(column, Ragged):
        return column.take(indices)
    return column.tocsr()[indices] if hasattr(column, "tocsr") else np.asarray(column)[indices]
