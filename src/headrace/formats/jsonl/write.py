"""Write JSON Lines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.contracts.feature import Feature
from headrace.contracts.records import SPARSE_HINT, Misfit
from headrace.contracts.schema import Schema
from headrace.contracts.strings import Strings
from headrace.contracts.values import Ragged
from headrace.errors import UnsupportedData, Where
from headrace.formats.table.base import PackedFile, refuse_misfits
from headrace.formats.table.values import map_values, point_in_time, rows_in
from headrace.io.paths import PathLike

__all__ = ["JsonLinesWriter", "misfits"]


SHORT_UNITS = ("ps", "fs", "as")
NUMBERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "bool")
KINDS = {np.dtype(name): number for number, name in enumerate(NUMBERS, 1)}
"""The numbers of these kinds of values in native code, and of the two below."""
TEXT, JSON = 12, 13
MOST_DEPTH = 64
"""Of the lists that native code writes."""


ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


class JsonLinesWriter:
    """Writes batches to one JSON Lines file: UTF-8, one object per line. NaN and NaT become ``null``, since JSON has neither.
    Numbers use the shortest text that reads back the same: 0.1 for the ``float32`` 0.1, not 0.10000000149011612.

    Args:
        path: The file.
        schema: The schema of the batches.
        compression: ``"gzip"``, ``"zlib"`` or ``"none"``.
        first: No effect: a file that is appended to another looks the same.

    Raises:
        UnsupportedData: A feature has no JSON form; on writing: an infinite number, or text that is not valid Unicode.
    """

    def __init__(
        self,
        path: PathLike,
        schema: Schema,
        *,
        compression: str = "none",
        first: bool = True,  # noqa: ARG002 - there is nothing before the first row
    ) -> None:
        refuse_misfits(path, misfits(schema))
        self.schema = schema
        self.rows: int = 0
        """Rows written so far."""
        self._path = str(path)
        self._file = PackedFile(path, compression)

    def write_batch(self, batch: Mapping[str, Any], n: int, /) -> None:
        """Append rows."""
        lines = self._fast_lines(batch, n)
        self._file.give(self._plain_lines(batch, n) if lines is None else lines)
        self.rows += n

    def _plain_lines(self, batch: Mapping[str, Any], n: int) -> bytes:
        """The rows as text, by way of Python values. Finds every fault."""
        names = list(self.schema)
        columns = [self._rows(batch[name], self.schema[name], name) for name in names]
        lines = [ENCODE(dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)] or ["{}"] * n
        try:
            return "\n".join([*lines, ""]).encode()
        except UnicodeEncodeError as error:
            raise UnsupportedData(Where(path=self._path), expected="Unicode text", found=str(error)) from error

    def _fast_lines(self, batch: Mapping[str, Any], n: int) -> npt.NDArray[np.uint8] | None:
        """The same text by native code; ``None`` where :meth:`_plain_lines` has to look at the values."""
        parts = []
        try:
            for name, feature in self.schema.items():
                column = batch[name]
                if len(column) != n:
                    return None
                parts.append((ENCODE(name).encode(), *self._native_column(column, feature, name)))
        except (ValueError, TypeError, UnsupportedData):  # of any column, perhaps not of the first one at fault
            return None
        return _native.encode_json_lines(parts, n) if parts else None

    def _native_column(self, column: Any, feature: Feature, name: str) -> tuple[int, list[Any], Any]:
        """A column for native code: kind, lists, values. Those that it does not know are written as JSON here.

        Raises:
            ValueError, TypeError, UnsupportedData: A value has no JSON form.
        """
        lists: list[Any] = []
        inner = column
        while isinstance(inner, Ragged):
            lists.append(inner.offsets)
            inner = inner.values
        lists += map(int, getattr(inner, "shape", ())[1:])
        is_known = len(lists) <= MOST_DEPTH
        if is_known and type(inner) is np.ndarray and not feature.is_text and inner.dtype == feature.numpy_dtype:
            numbers = self._points(inner, name) if inner.dtype.kind == "M" and inner.size else _as_numbers(inner)
            if numbers.dtype in KINDS:
                return KINDS[numbers.dtype], lists, np.ascontiguousarray(numbers).reshape(-1)
            texts = _of_one_length(numbers)
        else:
            texts = _as_texts(inner) if is_known and feature.dtype == "str" else None
        if texts is not None:
            return TEXT, lists, (texts.data, texts.offsets)
        rows = Strings.from_values([ENCODE(row) for row in self._rows(column, feature, name)], is_text=True)
        return JSON, [], (rows.data, rows.offsets)

    def _rows(self, column: Any, feature: Feature, name: str) -> list[Any]:
        kind = "O" if feature.is_text else feature.numpy_dtype.kind
        if kind == "m":
            return rows_in(map_values(column, lambda values: _or_null(values.astype(np.int64), np.isnat(values))))
        if kind == "M":
            return rows_in(map_values(column, lambda values: self._points(values, name)))
        finite = kind != "f" or _all_finite(column)
        if kind == "f" and feature.numpy_dtype.itemsize < 8:
            column = map_values(column, _shortest)
        if finite:
            return rows_in(column)
        return [self._without_nan(row, name, at) for at, row in enumerate(rows_in(column), self.rows)]

    def _points(self, values: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
        """ISO 8601 text. Near the ends of its range, NumPy does not read back what it writes."""
        texts, missing = np.datetime_as_string(values), np.isnat(values)
        is_short = np.datetime_data(values.dtype)[0] in SHORT_UNITS  # whose range has no four-digit year
        years = np.zeros(values.shape, np.int64) if is_short else values.astype("M8[Y]").astype(np.int64)
        for at in np.flatnonzero(~missing.reshape(-1) & ((years < -1970) | (years > 8029)).reshape(-1)).tolist():
            point, text = values.reshape(-1)[at], str(texts.reshape(-1)[at])
            try:
                same = point_in_time(text, values.dtype) == point
            except (ValueError, OverflowError):
                same = False
            if not same:
                where = Where(path=self._path, feature=name)
                raise UnsupportedData(
                    where,
                    expected="dates with a text form",
                    found=f"{point.astype(np.int64)} of {values.dtype}",
                )
        return _or_null(texts, missing)

    def _without_nan(self, value: Any, name: str, record: int) -> Any:
        if isinstance(value, list):
            return [self._without_nan(item, name, record) for item in value]
        if value != value:  # noqa: PLR0124 - only NaN differs from itself
            return None
        if value in (np.inf, -np.inf):
            where = Where(path=self._path, record=record, feature=name)
            hint = "Put NaN in its place, which is stored as null, or write another format, such as .parquet."
            raise UnsupportedData(where, expected="numbers that JSON has", found=repr(value), hint=hint)
        return value

    def close(self) -> None:
        """Move the complete file into place."""
        self._file.close()

    def abort(self) -> None:
        """Remove the unfinished file."""
        self._file.abort()


def _as_numbers(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Values in a dtype of native code that has the same text, where there is one."""
    if values.dtype.kind == "m" and not np.isnat(values).any():
        return values.view(np.int64)
    if values.dtype == np.float16:
        return _shortest(values)
    return values.astype(values.dtype.newbyteorder("="), copy=False)


def _of_one_length(values: npt.NDArray[Any]) -> Strings | None:
    """A column of ASCII text, such as dates; ``None`` if it is another one, or if the lengths differ."""
    if values.dtype.kind != "U" or not values.size:
        return None
    data = np.ascontiguousarray(values).astype("S").reshape(-1)
    width = data.dtype.itemsize
    if not (np.char.str_len(data) == width).all():
        return None
    return Strings.trust(data.view(np.uint8), np.arange(0, data.nbytes + 1, width), is_text=True)


def _as_texts(values: Any) -> Strings | None:
    """A column of text; ``None`` if it is another one.

    Raises:
        ValueError: A text has half a character.
    """
    if isinstance(values, Strings):
        return values if values.is_text else None
    if type(values) is not np.ndarray or values.dtype != object:
        return None
    flat = values.reshape(-1).tolist()
    return Strings.from_values(flat, is_text=True) if set(map(type, flat)) <= {str} else None


def _or_null(values: npt.NDArray[Any], missing: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
    if not missing.any():
        return values
    filled = values.astype(object)
    filled[missing] = None
    return filled


def _shortest(values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """The doubles with the shortest text that reads back as these narrower floats, whether or not by way of ``float32``."""
    with np.errstate(over="ignore", invalid="ignore"):  # a signalling NaN becomes a quiet one
        exact = values.astype(np.float64)
        short = values.astype(str).astype(np.float64)
        same = (short.astype(values.dtype) == values) & (short.astype(np.float32).astype(values.dtype) == values)
    return np.where(same, short, exact)


def _all_finite(column: Any) -> bool:
    if isinstance(column, Ragged):
        return _all_finite(column.values)
    if isinstance(column, list):
        return all(map(_all_finite, column))
    return bool(np.isfinite(column).all())


def misfits(schema: Schema) -> list[Misfit]:
    """The features that JSON cannot represent: bytes, complex numbers, sparse rows."""
    found = []
    for name, feature in schema.items():
        dtype = None if feature.is_text else np.dtype(feature.dtype)
        if feature.sparse:
            instead = Feature(feature.dtype, feature.shape)
            misfit = Misfit(feature=name, expected="dense rows", found=repr(feature), instead=instead, hint=SPARSE_HINT)
            found.append(misfit)
        elif feature.dtype == "bytes":
            hint = "JSON has no bytes: write .parquet or .avro."
            found.append(Misfit(feature=name, expected="text or numbers", found=repr(feature), hint=hint))
        elif dtype is not None and dtype.kind == "f" and dtype.itemsize > 8:
            instead = Feature("float64", feature.shape)
            found.append(Misfit(feature=name, expected="floats of up to 64 bits", found=repr(feature), instead=instead))
        elif dtype is not None and dtype.kind not in "biufmM":
            found.append(Misfit(feature=name, expected="text or numbers", found=repr(feature)))
    return found
