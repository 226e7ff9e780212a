"""Write ``.npy`` files batch by batch, byte for byte as ``np.save`` writes the whole array."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.contracts.feature import Feature
from headrace.contracts.protocols import Piece
from headrace.contracts.records import SPARSE_HINT, Misfit
from headrace.contracts.schema import Schema
from headrace.errors import SchemaMismatch, UnsupportedData, Where
from headrace.formats.npy.header import header_bytes, read_header
from headrace.io.local.mapped import MappedFile
from headrace.io.paths import PathLike
from headrace.io.write.atomic import AtomicFile, Closing
from headrace.io.write.pieces import BytesPiece, pieces_of_range

__all__ = ["ArraySink", "NpyWriter", "misfits", "pieces_of_arrays"]


class NpyWriter(Closing):
    """Appends rows to one ``.npy`` file, which appears under its name at ``close``, or never.

    Args:
        path: The file.
        dtype: The dtype of the array.
        row_shape: The shape of one row.

    Raises:
        UnsupportedData: The dtype holds Python objects.
    """

    def __init__(self, path: PathLike, dtype: npt.DTypeLike, row_shape: tuple[int, ...] = ()) -> None:
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.row_shape: tuple[int, ...] = tuple(row_shape)
        self.rows: int = 0
        """Rows written so far."""
        if self.dtype.hasobject:
            raise UnsupportedData(Where(path=str(path)), expected="a dtype without objects", found=str(self.dtype))
        header = self._header()  # may raise, so it runs before the file exists
        self._file = AtomicFile(path)
        self._file.write(header)

    def _header(self) -> bytes:
        return header_bytes(self.dtype, (self.rows, *self.row_shape))

    @property
    def path(self) -> str:
        """The final name."""
        return self._file.path

    def write(self, rows: npt.ArrayLike) -> None:
        """Append rows.

        Args:
            rows: ``(n, *row_shape)``; another dtype is converted if that cannot change a value.

        Raises:
            SchemaMismatch: The shape differs, or the dtype does not convert.
        """
        if type(rows) is np.ndarray and rows.dtype == self.dtype and rows.ndim and rows.shape[1:] == self.row_shape:
            array = rows
        else:
            array = self._converted(rows)
        if array.nbytes:
            self._file.write(array)  # in C order, of a copy where needed
        self.rows += len(array)

    def _converted(self, rows: npt.ArrayLike) -> npt.NDArray[Any]:
        """The rows in the dtype of the file, checked."""
        array = np.asarray(rows)
        if array.shape[1:] != self.row_shape or array.ndim == 0:
            found = f"an array of shape {array.shape}"
            raise SchemaMismatch(self._place(), expected=f"rows of shape {self.row_shape}, n of them", found=found)
        if not np.can_cast(array.dtype, self.dtype, "safe"):
            raise SchemaMismatch(self._place(), expected=f"dtype {self.dtype}", found=f"{array.dtype}")
        return np.ascontiguousarray(array, self.dtype)

    def _place(self) -> Where:
        return Where(path=self.path, record=self.rows)

    def close(self) -> None:
        """Move the complete file into place. A second call does nothing."""
        if self._file.closed:
            return
        try:
            self._file.overwrite(0, self._header())  # same length: the header has room for any number of rows
            self._file.close()
        except BaseException:
            self.abort()
            raise

    def abort(self) -> None:
        """Remove the unfinished file. Does nothing after ``close``."""
        self._file.abort()


def misfits(schema: Schema) -> list[Misfit]:
    """What a ``.npy`` cannot hold: text, bytes, varying lengths, sparse rows."""
    sparse = [
        Misfit(
            feature=name,
            expected="dense rows",
            found=repr(feature),
            instead=Feature(feature.dtype, feature.shape),
            hint=SPARSE_HINT,
        )
        for name, feature in schema.items()
        if feature.sparse
    ]
    return sparse + [
        Misfit(
            feature=name,
            expected="numbers of a fixed shape, as in every .npy",
            found=repr(feature),
            hint="Write a .tfrecord, or select the other features.",
        )
        for name, feature in schema.items()
        if feature.is_text or not feature.is_fixed
    ]


class ArraySink:
    """Writes batches to one ``.npy``: a single feature as a plain array, several as the fields of a structured array."""

    def __init__(self, path: PathLike, schema: Schema, *, compression: str = "none") -> None:
        if compression != "none":
            raise UnsupportedData(Where(path=str(path)), expected="a .npy without compression", found=compression)
        for misfit in misfits(schema):
            raise UnsupportedData(
                Where(path=str(path), feature=misfit.feature),
                expected=misfit.expected,
                found=misfit.found,
                hint=misfit.hint,
            )
        self.schema = schema
        if len(schema) == 1:
            feature = next(iter(schema.values()))
            self.dtype, shape = feature.numpy_dtype, tuple(int(n or 0) for n in feature.shape)
        else:
            self.dtype = np.dtype(
                [(name, f.numpy_dtype, tuple(int(n or 0) for n in f.shape)) for name, f in schema.items()]
            )
            shape = ()
        self.writer: NpyWriter = NpyWriter(path, self.dtype, shape)

    def write_batch(self, batch: Mapping[str, Any], n: int, /) -> None:
        """Append rows."""
        if len(self.schema) == 1:
            self.writer.write(np.asarray(next(iter(batch.values()))))
            return
        rows = np.empty(n, self.dtype)
        for name in self.schema:
            rows[name] = batch[name]
        self.writer.write(rows)

    def close(self) -> None:
        """Move the complete file into place."""
        self.writer.close()

    def abort(self) -> None:
        """Remove the unfinished file."""
        self.writer.abort()


def pieces_of_arrays(parts: Sequence[str]) -> list[Piece]:
    """The rows of ``.npy`` files, which :class:`NpyWriter` wrote, under one header."""
    headers = [read_header(MappedFile(part)) for part in parts]
    first, rows = headers[0], sum(header.rows for header in headers)
    pieces: list[Piece] = [BytesPiece(header_bytes(first.dtype, (rows, *first.row_shape)))]
    for part, header in zip(parts, headers, strict=True):
        pieces += pieces_of_range(part, header.data_offset, header.data_offset + header.data_bytes)
    return pieces
