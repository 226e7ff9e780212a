"""Between flat values with the shape of each record's and rows of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.contracts.values import Ragged
from headrace.errors import SchemaMismatch, Where

__all__ = ["nest", "offsets_of", "unnest"]

Shape = tuple[int | None, ...]


def offsets_of(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Where rows of these lengths begin and end: ``int64 (n + 1,)``."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def nest(flat: npt.NDArray[Any], shapes: npt.NDArray[np.int64], shape: Shape) -> Ragged:
    """Rows, rows of rows, and so on, down to the last axis of ``shape`` that varies.

    Args:
        flat: Values of all records, end to end.
        shapes: ``int64 (n, rank)``: each record's shape.
        shape: The feature's, with at least one ``None``.
    """
    levels = 1 + max(axis for axis, length in enumerate(shape) if length is None)
    rows = int(shapes[:, :levels].prod(axis=1).sum())
    values: Any = flat.reshape((rows, *(length for length in shape[levels:] if length is not None)))
    for level in range(levels - 1, -1, -1):
        outer = shapes[:, :level].prod(axis=1)  # how many rows of this level each record has
        values = Ragged(values, offsets_of(np.repeat(shapes[:, level], outer)))
    assert isinstance(values, Ragged)
    return values


def unnest(column: Ragged, shape: Shape, name: str) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Flat values, and each record's shape, ``int64 (n, rank)``.

    Raises:
        SchemaMismatch: Rows that have no one shape, or another than ``shape``.
    """
    shapes = np.zeros((len(column), len(shape)), np.int64)
    record = np.arange(len(column))
    values: Any = column
    level = 0
    while isinstance(values, Ragged) and level < len(shape):
        shapes[record, level] = values.lengths
        uneven = np.flatnonzero(shapes[record, level] != values.lengths)
        if len(uneven):
            where = Where(record=int(record[uneven[0]]), feature=name)
            raise SchemaMismatch(where, expected="rows of one length in each record", found="rows of several")
        record = np.repeat(record, values.lengths)
        values, level = values.values, level + 1
    inner = np.zeros(0) if isinstance(values, Ragged) else np.asarray(values)
    if isinstance(values, Ragged) or level + inner.ndim - 1 != len(shape):
        raise SchemaMismatch(Where(feature=name), expected=f"rows of shape {shape}", found="rows of another rank")
    shapes[:, level:] = inner.shape[1:]
    _check(shapes, shape, name)
    return inner.reshape(-1), shapes


def _check(shapes: npt.NDArray[np.int64], shape: Shape, name: str) -> None:
    wanted = np.array([-1 if length is None else length for length in shape])
    other = ((shapes != wanted) & (wanted >= 0)).any(axis=1)
    bad = np.flatnonzero(other & (shapes.prod(axis=1) > 0))
    if len(bad):
        where = Where(record=int(bad[0]), feature=name)
        raise SchemaMismatch(where, expected=f"shape {shape}", found=f"{tuple(shapes[bad[0]].tolist())}")
