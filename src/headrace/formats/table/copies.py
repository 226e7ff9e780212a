"""Rows of columns in memory, copied for a batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from headrace import _native
from headrace.contracts.strings import Strings
from headrace.contracts.values import Batch, Indices, Ragged, copy_pooled, take_rows

__all__ = ["RowCopier"]


class RowCopier:
    """Copies rows of some columns: arrays of numbers in one native call, because threads that copy them one by one wait for each other.

    Args:
        columns: By name. They must not change.
    """

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self.names: tuple[str, ...] = tuple(columns)
        numbers = {name: column for name, column in columns.items() if _is_numbers(column)}
        self._numbers = tuple(numbers)
        self._copier = _native.Columns(list(numbers.values())) if numbers else None
        self._others = {name: column for name, column in columns.items() if name not in numbers}

    def copy(self, begin: int, end: int) -> Batch:
        """The rows from ``begin`` to ``end``."""
        found = {} if self._copier is None else dict(zip(self._numbers, self._copier.copy(begin, end), strict=True))
        return self._joined(found, {name: _rows_of(column, begin, end) for name, column in self._others.items()})

    def pick(self, indices: Indices) -> Batch:
        """The rows at indices that were checked."""
        found = {} if self._copier is None else dict(zip(self._numbers, self._copier.pick(indices), strict=True))
        return self._joined(found, {name: take_rows(column, indices) for name, column in self._others.items()})

    def _joined(self, numbers: Batch, others: Batch) -> Batch:
        if not others:
            return numbers
        numbers |= others
        return {name: numbers[name] for name in self.names}


def _is_numbers(column: Any) -> bool:
    """Whether a column is an array whose rows native code can copy."""
    return (
        type(column) is np.ndarray
        and column.dtype.isbuiltin == 1
        and column.dtype.kind in "biufc"
        and column.flags.c_contiguous
    )


def _rows_of(column: Any, begin: int, end: int) -> Any:
    """Copies of a block's rows, because a batch may be written to. Text is read-only and stays a view."""
    if type(column) is np.ndarray:
        return copy_pooled(column[begin:end])
    if type(column) is Strings:
        return column[begin:end]
    return _detach(column[begin:end])


def _detach(column: Any) -> Any:
    if type(column) is Strings:
        return column
    return Ragged(_detach(column.values), column.offsets) if isinstance(column, Ragged) else copy_pooled(column)
