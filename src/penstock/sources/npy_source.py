"""Rows of `.npy` files as examples."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.contracts.feature import Feature
from penstock.contracts.protocols import Indices
from penstock.contracts.schema import Schema
from penstock.contracts.values import Batch
from penstock.errors import SchemaMismatch, Where
from penstock.formats.npy import NpyRecords
from penstock.sources.views import Source

__all__ = ["NpySource"]


class NpySource(Source):
    """Row ``i`` of some ``.npy`` files as example ``i``.

    A plain array is the one feature ``values``; the fields of a structured array are a feature each.
    """

    def __init__(self, records: NpyRecords, columns: tuple[str, ...] | None = None) -> None:
        self.records = records
        dtype = records.dtype
        self.fields = columns if columns is not None else dtype.names
        if dtype.names is None:
            self._schema = Schema({"values": Feature(dtype, records.row_shape)})
        else:
            self._schema = Schema({name: _field(dtype, name, records.row_shape) for name in dtype.names})
        if self.fields is not None:
            self._schema = self._schema.select(self.fields)

    @property
    def schema(self) -> Schema:
        return self._schema

    @property
    def format(self) -> str:
        """``"npy"``."""
        return "npy"

    @property
    def cuts_cleanly(self) -> bool:
        return True

    def __len__(self) -> int:
        return len(self.records)

    def where(self, index: int) -> Where:
        return self.records.where(index)

    def _batch(self, indices: Indices) -> Batch:
        rows = self.records.take(indices)
        if self.records.dtype.names is None:
            return {"values": rows}
        return {name: np.ascontiguousarray(rows[name]) for name in self._schema}

    def _narrowed(self, names: tuple[str, ...]) -> Source:
        return self if self.records.dtype.names is None else NpySource(self.records, names)


def _field(dtype: np.dtype[Any], name: str, row_shape: tuple[int, ...]) -> Feature:
    field = dtype[name]
    if field.names is not None:
        raise SchemaMismatch(
            Where(feature=name),
            expected="fields that are numbers",
            found=f"the nested {field}",
            hint="Read it with numpy.",
        )
    return Feature(field.base, row_shape + field.shape)
