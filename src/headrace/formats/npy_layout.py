"""What the headers of some ``.npy`` files say together: where each row lies, and what it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema
from headrace.contracts.values import Indices
from headrace.errors import SchemaMismatch, Where
from headrace.formats.npy_header import NpyHeader

__all__ = ["Field", "Layout", "features_of", "fields_of", "native_endian"]


class Field(NamedTuple):
    """One feature of a structured array.

    Args:
        keys: The field, and the fields in it, that lead there.
        feature: What it is.
    """

    keys: tuple[str, ...]
    feature: Feature

    def of(self, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Its values in some rows ``(n, ...)``, in memory of their own."""
        for key in self.keys:
            rows = rows[key]
        return np.array(rows, order="C")


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
        return Schema({name: field.feature for name, field in self.fields.items()})

    @property
    def fields(self) -> dict[str, Field]:
        """Of a structured array: its features, and where they are."""
        return fields_of(self.dtype, self.row_shape)


def native_endian(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same values; the memory is turned over in place where it can be."""
    if rows.dtype.names is not None:
        native = rows.dtype.newbyteorder("=")  # NumPy's isnative passes over the byte order of sub-arrays.
        return rows if rows.dtype == native else rows.astype(native)
    if rows.dtype.isnative:
        return rows
    return rows.byteswap(inplace=True).view(rows.dtype.newbyteorder("="))


def fields_of(dtype: np.dtype[Any], row_shape: tuple[int, ...], path: str | None = None) -> dict[str, Field]:
    """The features of a structured dtype: every field that is none itself. Fields of fields are named with a dot between.

    Args:
        dtype: The structured dtype.
        row_shape: Of one row of such values.
        path: The file, for errors.

    Raises:
        SchemaMismatch: Two of them get the same name.
    """
    found: dict[str, Field] = {}
    for keys, base, shape in _leaves(dtype, (), row_shape):
        name = ".".join(keys)
        if name in found:
            raise SchemaMismatch(
                Where(path=path, feature=name),
                expected="fields whose names differ",
                found=f"two that are called {name!r}: fields of a field are named with a dot",
                hint="Rename one of them, or read the file with numpy.",
            )
        found[name] = Field(keys, Feature(base, shape))
    return found


def features_of(
    array: str, dtype: np.dtype[Any], row_shape: tuple[int, ...], path: str | None = None
) -> dict[str, Field]:
    """The features of an array that has a name: itself, or ``array.field`` for each field of a structured one.

    Raises:
        SchemaMismatch: As :func:`fields_of`.
    """
    if dtype.names is None:
        return {array: Field((), Feature(dtype, row_shape))}
    return {f"{array}.{name}": field for name, field in fields_of(dtype, row_shape, path).items()}


def _leaves(
    dtype: np.dtype[Any], keys: tuple[str, ...], shape: tuple[int, ...]
) -> Iterator[tuple[tuple[str, ...], np.dtype[Any], tuple[int, ...]]]:
    for name in dtype.names or ():
        field = dtype[name]
        if field.base.names is None:
            yield (*keys, name), field.base, shape + field.shape
        else:
            yield from _leaves(field.base, (*keys, name), shape + field.shape)
