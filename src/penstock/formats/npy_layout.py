"""What the headers of some ``.npy`` files say together: where each row lies, and what it is."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.contracts.feature import Feature
from penstock.contracts.protocols import Indices
from penstock.contracts.schema import Schema
from penstock.errors import SchemaMismatch, Where
from penstock.formats.npy_header import NpyHeader

__all__ = ["Layout", "native_endian"]


class Layout(NamedTuple):
    """What the headers of all files say together."""

    headers: list[NpyHeader]
    firsts: Indices
    """Number of each file's first row, and of all rows."""
    begins: Indices
    """Where the rows of each file begin, in bytes."""
    stored: np.dtype[Any] | None
    """The dtype of the rows where they can be copied as they lie, without regard to their file; else ``None``."""
    dtype: np.dtype[Any]
    row_shape: tuple[int, ...]
    row_bytes: int

    @classmethod
    def of(cls, headers: list[NpyHeader]) -> Layout:
        first = headers[0]
        alike = all(header.dtype == first.dtype and not header.is_fortran for header in headers)
        return cls(
            headers,
            np.cumsum([0, *(header.rows for header in headers)], dtype=np.int64),
            np.array([header.data_offset for header in headers], np.int64),
            first.dtype if alike and first.row_bytes else None,
            first.dtype.newbyteorder("="),
            first.row_shape,
            first.row_bytes,
        )

    @property
    def schema(self) -> Schema:
        """A plain array is the one feature ``values``; the fields of a structured array are a feature each."""
        if self.dtype.names is None:
            return Schema({"values": Feature(self.dtype, self.row_shape)})
        return Schema({name: _field(self.dtype, name, self.row_shape) for name in self.dtype.names})


def native_endian(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same values; the memory is turned over in place where it can be."""
    if rows.dtype.isnative:
        return rows
    if rows.dtype.names is not None:
        return rows.astype(rows.dtype.newbyteorder("="))
    return rows.byteswap(inplace=True).view(rows.dtype.newbyteorder("="))


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
