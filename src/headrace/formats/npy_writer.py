"""Writing ``.npy`` files row by row, byte for byte as ``np.save`` writes the whole array."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.errors import SchemaMismatch, UnsupportedData, Where
from headrace.formats.npy_header import header_bytes
from headrace.io.atomic import AtomicFile, Closing
from headrace.io.paths import PathLike

__all__ = ["NpyWriter"]


class NpyWriter(Closing):
    """Appends rows to one ``.npy`` file, which appears under its name at ``close``, or never.

    Args:
        path: The file.
        dtype: Of the array.
        row_shape: Of one row.

    Raises:
        UnsupportedData: A dtype that holds Python objects.
    """

    def __init__(self, path: PathLike, dtype: npt.DTypeLike, row_shape: tuple[int, ...] = ()) -> None:
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.row_shape = tuple(row_shape)
        self.rows = 0
        """Rows written so far."""
        if self.dtype.hasobject:
            raise UnsupportedData(Where(path=str(path)), expected="a dtype without objects", found=str(self.dtype))
        header = self._header()  # It may be refused: before there is a file.
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
            rows: ``(n, *row_shape)``; another dtype is converted where no value can change by that.

        Raises:
            SchemaMismatch: Another shape, or a dtype that does not convert.
        """
        array = np.asarray(rows)
        if array.shape[1:] != self.row_shape or array.ndim == 0:
            found = f"an array of shape {array.shape}"
            raise SchemaMismatch(self._place(), expected=f"rows of shape {self.row_shape}, n of them", found=found)
        if not np.can_cast(array.dtype, self.dtype, "safe"):
            raise SchemaMismatch(self._place(), expected=f"dtype {self.dtype}", found=f"{array.dtype}")
        flat = np.ascontiguousarray(array, self.dtype).reshape(-1)
        if flat.nbytes:
            self._file.write(flat.view(np.uint8).data)
        self.rows += len(array)

    def _place(self) -> Where:
        return Where(path=self.path, record=self.rows)

    def close(self) -> None:
        """Put the whole file into its place. A second call does nothing."""
        if self._file.closed:
            return
        try:
            self._file.overwrite(0, self._header())  # Of the same length: it has room for any number of rows.
            self._file.close()
        except BaseException:
            self.abort()
            raise

    def abort(self) -> None:
        """Leave no file behind. Does nothing after ``close``."""
        self._file.abort()
