"""Cutting a batch into smaller ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.contracts.values import Batch, Ragged
from headrace.errors import SchemaMismatch, Where

__all__ = ["bytes_of", "check_rows", "cut"]


def cut(batch: Batch, size: int, count: int) -> list[Batch]:
    """``count`` consecutive parts of ``size`` examples each: views of the columns, no copies (sparse columns are copied).

    >>> [part["x"].tolist() for part in cut({"x": np.arange(6)}, 3, 2)]
    [[0, 1, 2], [3, 4, 5]]
    """
    if count == 1:
        return [batch]
    columns = list(batch.items())
    return [{name: column[start : start + size] for name, column in columns} for start in range(0, count * size, size)]


def check_rows(batch: Batch, rows: int) -> None:
    """A source must give as many rows as it was asked for.

    Raises:
        SchemaMismatch: a column is shorter or longer.
    """
    for name, column in batch.items():
        found = column.shape[0] if hasattr(column, "shape") else len(column)
        if found != rows:
            raise SchemaMismatch(
                Where(feature=name),
                expected=f"{rows} rows from the source",
                found=str(found),
                hint="The source is at fault.",
            )


def bytes_of(batch: Batch) -> int:
    """The size of a batch's numbers, in bytes; objects count as references."""
    size = 0
    for column in batch.values():  # asked for every batch: no call for what nearly all columns are
        size += column.nbytes if type(column) is np.ndarray else _bytes_of(column)
    return size


def _bytes_of(column: Any) -> int:
    if isinstance(column, np.ndarray):
        return column.nbytes
    if isinstance(column, Ragged):
        return _bytes_of(column.values) + column.offsets.nbytes
    if isinstance(column, list):
        return sum(_bytes_of(value) for value in column)
    held = column if hasattr(column, "nbytes") else getattr(column, "data", None)  # scipy's arrays: what they store
    return int(getattr(held, "nbytes", 0))
