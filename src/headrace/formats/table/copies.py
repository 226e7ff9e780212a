"""Rows of columns in memory, copied for a batch, and of blocks in which others do not fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from headrace import _native
from headrace.contracts.strings import Strings
from headrace.contracts.values import Batch, Indices, Ragged, copy_pooled, join, take_rows
from headrace.errors import SchemaMismatch

__all__ = ["FittingRows", "RowCopier", "cut_at_blocks"]

MOST_TRIES = 8
"""Columns of a block that are found not to fit, one after the other, before all are decoded row by row."""


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


class FittingRows:
    """Picks rows of blocks in which other rows may hold what does not fit, such as a null.

    Args:
        block: Decodes these columns of a block as a whole.
        rows: Decodes these columns of rows of a block only, which takes longer. Rows count from the first one of the block.
    """

    def __init__(
        self,
        block: Callable[[int, Sequence[str]], Batch],
        rows: Callable[[int, Indices, Sequence[str]], Batch],
    ) -> None:
        self._block = block
        self._rows = rows
        self.misfits: set[tuple[int, str | None]] = set()
        """Blocks, and the columns in them that cannot be decoded as a whole."""

    def pick(self, indices: Indices, names: tuple[str, ...], firsts: Indices) -> Batch:
        """These columns of some rows. ``firsts`` is the first row of each block.

        Raises:
            SchemaMismatch: One of these rows does not fit.
        """
        which = firsts.searchsorted(indices, side="right") - 1
        picked, parts = [], []
        for block in np.unique(which).tolist():
            picked.append(np.flatnonzero(which == block))
            parts.append(self._pick_in(block, indices[picked[-1]] - firsts[block], names))
        order = np.argsort(np.concatenate(picked))
        return {name: take_rows(join([part[name] for part in parts]), order) for name in names}

    def _pick_in(self, block: int, rows: Indices, names: tuple[str, ...]) -> Batch:
        found: Batch = {}
        for _ in range(MOST_TRIES):
            fitting = [name for name in names if (block, name) not in self.misfits]
            try:
                columns = self._block(block, fitting) if fitting else {}
                found = {name: take_rows(columns[name], rows) for name in fitting}
                break
            except SchemaMismatch as error:
                self.misfits.add((block, error.where.feature))
        if len(found) < len(names):
            found |= self._rows(block, rows, [name for name in names if name not in found])
        return {name: found[name] for name in names}


def cut_at_blocks(firsts: Indices, start: int, stop: int, size: int) -> list[int]:
    """Where to cut rows so that the only pieces with rows of two blocks have ``size`` rows. All pieces are multiples of that.

    >>> cut_at_blocks(np.array([0, 10, 20]), 4, 19, 3)
    [4, 10, 19]
    >>> cut_at_blocks(np.array([0, 10, 20]), 0, 18, 3)
    [0, 9, 12, 18]
    """
    within = firsts[firsts.searchsorted(start, side="right") : firsts.searchsorted(stop, side="left")]
    begins = start + (within - start) // size * size
    ends = begins + np.where(begins < within, size, 0)
    return sorted({start, stop, *begins.tolist(), *ends.tolist()})


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
