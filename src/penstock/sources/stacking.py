"""From examples to a batch and from a batch to its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from penstock.contracts.columns import join, reordered
from penstock.contracts.feature import Feature
from penstock.contracts.schema import Schema
from penstock.contracts.values import Batch, Example, Ragged
from penstock.errors import SchemaMismatch, Where

__all__ = ["join", "reordered", "row", "schema_of", "stack"]


def row(batch: Batch, index: int) -> dict[str, Any]:
    """Example ``index`` of a batch: views of its columns, no copies."""
    return {name: column[index] for name, column in batch.items()}


def stack(examples: Sequence[Example]) -> Batch:
    """Stack examples into one batch.

    Args:
        examples: ``n`` examples with equal feature names.

    Returns:
        ``ndarray (n, *shape)`` where shapes agree, a :class:`Ragged` where only the first axis differs, a list otherwise
        (images of different sizes); object arrays for ``bytes`` and ``str``.

    Raises:
        SchemaMismatch: two examples have different features.
    """
    if not examples:
        return {}
    names = list(examples[0])
    for position, example in enumerate(examples):
        if example.keys() != examples[0].keys():
            raise SchemaMismatch(Where(record=position), expected=f"the features {names}", found=str(list(example)))
    return {name: _stack_values([example[name] for example in examples]) for name in names}


def _stack_values(values: list[Any]) -> Any:
    first = values[0]
    if isinstance(first, (bytes, str)):
        column = np.empty(len(values), object)
        column[:] = values
        return column
    if isinstance(first, Ragged):
        return _nest(values)
    if hasattr(first, "tocsr"):
        return join([value.reshape((1, -1)).tocsr() for value in values])
    arrays = [np.asarray(value) for value in values]
    if all(array.shape == arrays[0].shape for array in arrays):
        return np.stack(arrays)
    if all(array.ndim for array in arrays) and len({array.shape[1:] for array in arrays if len(array)}) <= 1:
        return Ragged.from_list(arrays)
    return values


def _nest(rows: list[Ragged]) -> Ragged:
    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(item) for item in rows], out=offsets[1:])
    return Ragged(join(rows), offsets)


def schema_of(batch: Mapping[str, Any]) -> Schema:
    """The schema that the columns of a batch show: what is stacked is fixed, what is ragged varies."""
    return Schema({name: _feature_of(column) for name, column in batch.items()})


def _feature_of(column: Any) -> Feature:
    if isinstance(column, Ragged):
        inner = _feature_of(column.values)
        return Feature(inner.dtype, (None, *inner.shape))
    if isinstance(column, list):
        first = np.asarray(column[0])
        return Feature(first.dtype, (None,) * first.ndim)
    if hasattr(column, "tocsr"):
        return Feature(column.dtype, (column.shape[1],), sparse=True)
    if column.dtype == object:
        flat = column.reshape(-1)
        return Feature("str" if len(flat) and all(isinstance(v, str) for v in flat) else "bytes", column.shape[1:])
    return Feature(column.dtype, column.shape[1:])
