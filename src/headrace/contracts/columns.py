"""The columns of batches: joined, and picked from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.contracts.values import Indices, Ragged

__all__ = ["join", "reordered"]


def join(columns: Sequence[Any]) -> Any:
    """Columns of several batches, end to end."""
    first = columns[0]
    if len(columns) == 1:
        return first
    if isinstance(first, Ragged) or any(isinstance(column, Ragged) for column in columns):
        ragged = [column if isinstance(column, Ragged) else _as_ragged(column) for column in columns]
        starts = np.cumsum([0, *(len(column.values) for column in ragged)])
        offsets = [ragged[0].offsets, *(c.offsets[1:] + s for c, s in zip(ragged[1:], starts[1:], strict=False))]
        return Ragged(join([column.values for column in ragged]), np.concatenate(offsets))
    if isinstance(first, list) or any(isinstance(column, list) for column in columns):
        return [item for column in columns for item in column]
    if hasattr(first, "tocsr"):
        from_rows = type(first)
        return from_rows(_vstack(columns))
    if len({column.shape[1:] for column in columns}) > 1:
        return join([_as_ragged(column) for column in columns])
    return np.concatenate(columns)


def reordered(column: Any, order: Indices) -> Any:
    """The rows of a column at these positions, copied."""
    if isinstance(column, list):
        return [column[i] for i in order]
    return column.take(order) if isinstance(column, Ragged) else column[order]


def _as_ragged(column: Any) -> Ragged:
    """A column of equal rows as a ragged one."""
    length = column.shape[1] if column.ndim > 1 else 1
    return Ragged(column.reshape(-1, *column.shape[2:]), np.arange(len(column) + 1, dtype=np.int64) * length)


def _vstack(columns: Sequence[Any]) -> tuple[Any, Any, Any]:
    indptr = [np.asarray(columns[0].indptr)]
    for column in columns[1:]:
        indptr.append(column.indptr[1:] + indptr[-1][-1])
    return (
        np.concatenate([column.data for column in columns]),
        np.concatenate([column.indices for column in columns]),
        np.concatenate(indptr),
    )
