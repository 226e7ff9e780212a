"""The ``.npy`` header: read by native code, checked against the file, written byte for byte like NumPy's.

Also the combined layout of several files, and the text check (NumPy stores four bytes per character, and not all of them
are valid).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace._faults import describe
from headrace.contracts.feature import MOST_AXES as MOST_FEATURE_AXES
from headrace.contracts.feature import Feature
from headrace.contracts.protocols import File
from headrace.contracts.schema import Schema
from headrace.contracts.values import Indices
from headrace.errors import CorruptFile, CorruptRecord, SchemaMismatch, UnsupportedData, Where
from headrace.io.local.mapped import MappedFile

__all__ = [
    "MAGIC",
    "MOST_BYTES",
    "ArrayField",
    "NpyHeader",
    "RowLayout",
    "check_alike",
    "check_text",
    "features_of",
    "fields_of",
    "header_bytes",
    "header_in",
    "header_of",
    "holds_text",
    "native_endian",
    "read_header",
]


MAGIC = b"\x93NUMPY"
FIRST_BYTES = 4096  # headers written by NumPy are shorter
MOST_BYTES = 1 << 20  # the longest header to read or write: about 40,000 fields
CUT_HINT = "The file was truncated while it was written or copied."
GROWTH_DIGITS = 21  # NumPy reserves this many digits, so that the first axis can grow in place
ALIGNMENT = 64
MOST_AXES = 64 if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else 32
MOST_EXTENT = 2**63 - 1  # bytes, ignoring axes of length 0, as NumPy counts


@dataclass(frozen=True, slots=True)
class NpyHeader:
    """A parsed header.

    Args:
        dtype: The dtype in the file, including byte order.
        shape: The shape of the whole array.
        is_fortran: Whether the first axis varies fastest.
        data_offset: Byte offset of the array.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    is_fortran: bool
    data_offset: int

    @property
    def rows(self) -> int:
        """The length of the first axis; 1 for a 0-d array."""
        return self.shape[0] if self.shape else 1

    @property
    def row_shape(self) -> tuple[int, ...]:
        """The shape of one row."""
        return self.shape[1:]

    @property
    def row_bytes(self) -> int:
        """The size of one row."""
        return self.dtype.itemsize * math.prod(self.row_shape)

    @property
    def data_bytes(self) -> int:
        """The size of the whole array."""
        return self.rows * self.row_bytes


def read_header(file: MappedFile) -> NpyHeader:
    """The header of a mapped file, checked against the file's size.

    Raises:
        CorruptFile: The header is invalid, or does not match the file's size.
        UnsupportedData: The array holds Python objects.
    """
    return header_in(file.buffer, file.path)


def header_of(file: File, size: int) -> NpyHeader:
    """The header of a file of ``size`` bytes. Nothing else is read.

    Raises:
        CorruptFile, UnsupportedData: Like :func:`read_header`.
    """
    head = file.read(0, FIRST_BYTES)
    length = head[8:10] if bytes(head[6:7]) == b"\x01" else head[8:12]
    end = min(size, FIRST_BYTES + MOST_BYTES, 8 + len(length) + int.from_bytes(length, "little"))
    return header_in(head if end <= len(head) else file.read(0, end), file.path, size)


def header_in(content: memoryview, path: str, size: int | None = None) -> NpyHeader:
    """The header at the start of the content of a ``.npy``, checked against its ``size`` (default: the size of ``content``).

    Raises:
        CorruptFile, UnsupportedData: Like :func:`read_header`.
    """
    try:
        _, descr, is_fortran, shape, offset = _native.parse_npy_header(content, MOST_BYTES)
    except _native.FormatError as error:
        if error.fault == "range":
            raise CorruptFile(
                Where(path=path), expected=f"a header of at most {error.expected} bytes", found=f"{error.found}"
            ) from error
        if error.fault == "truncated":
            place, found = Where(path=path, offset=error.offset), f"{error.found} before the end"
            expected = f"{error.expected} more bytes of the header"
            raise CorruptFile(place, expected=expected, found=found, hint=CUT_HINT) from error
        raise describe(error, Where(path=path)) from error
    dtype = _dtype(descr, path)
    _check_extent(dtype, shape, path)
    # A 1-d array is in both orders, and C order reads faster.
    header = NpyHeader(dtype, shape, is_fortran and len(shape) > 1, offset)
    size = len(content) if size is None else size
    if header.data_bytes != size - offset:
        raise CorruptFile(
            Where(path=path, offset=min(size, offset + header.data_bytes)),
            expected=f"{header.data_bytes} bytes of {dtype} {shape} after the header",
            found=f"{size - offset}",
            hint=CUT_HINT if header.data_bytes > size - offset else "",
        )
    return header


def _check_extent(dtype: np.dtype[Any], shape: tuple[int, ...], path: str) -> None:
    """Refuse shapes that no memory can hold. An array without elements may still have an axis of any length."""
    extent = max(1, dtype.itemsize) * math.prod(length for length in shape if length)
    if dtype.subdtype is not None or len(shape) > MOST_AXES or extent > MOST_EXTENT:
        raise CorruptFile(
            Where(path=path),
            expected=f"an array of numbers, text or records with at most {MOST_AXES} axes and 2^63 - 1 bytes",
            found=f"{dtype} {shape}",
            hint="NumPy cannot hold such an array either. Save it again.",
        )
    if len(shape) > 1 + MOST_FEATURE_AXES:
        expected, found = f"an array of at most {1 + MOST_FEATURE_AXES} axes", f"one of {len(shape)}"
        raise UnsupportedData(Where(path=path), expected=expected, found=found, hint="Reshape it, and save it again.")


def _dtype(descr: Any, path: str) -> np.dtype[Any]:
    try:
        dtype = np.lib.format.descr_to_dtype(descr)
    except (TypeError, ValueError, SyntaxError, RuntimeError, LookupError, OverflowError, MemoryError) as error:
        raise CorruptFile(Where(path=path), expected="a dtype", found=f"{descr!r:.200}") from error
    if dtype.hasobject:
        raise UnsupportedData(
            Where(path=path),
            expected="an array of numbers, text or records of those",
            found="an object array, which is a pickle",
            hint="Reading a pickle can run any code. Load it with numpy if you trust it, and save it as another dtype.",
        )
    return dtype


def header_bytes(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """The header that ``np.save`` writes for a C-ordered array, byte for byte."""
    descr = np.lib.format.dtype_to_descr(dtype)
    spare = " " * (GROWTH_DIGITS - len(repr(shape[0]))) if shape else ""
    text = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape!r}, }}{spare}"
    for version, encoding, length_bytes in ((1, "latin1", 2), (2, "latin1", 4), (3, "utf8", 4)):
        try:
            body = text.encode(encoding)
        except UnicodeEncodeError:
            continue
        before = len(MAGIC) + 2 + length_bytes
        padding = ALIGNMENT - (before + len(body) + 1) % ALIGNMENT
        length = len(body) + padding + 1
        if length < 1 << (8 * length_bytes) and length <= MOST_BYTES:
            return MAGIC + bytes((version, 0)) + length.to_bytes(length_bytes, "little") + body + b" " * padding + b"\n"
    raise UnsupportedData(
        Where(),
        expected=f"fields whose description fits into a header of {MOST_BYTES} bytes",
        found=f"{len(dtype.names or ())} fields, described in {len(text)} characters",
        hint="Write one feature with many columns instead, or a Parquet file.",
    )


class ArrayField(NamedTuple):
    """One feature of a structured array.

    Args:
        keys: The path of nested fields to it.
        feature: Its type.
    """

    keys: tuple[str, ...]
    feature: Feature

    def of(self, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A copy of its values in rows ``(n, ...)``."""
        for key in self.keys:
            rows = rows[key]
        return np.array(rows, order="C")


def check_alike(path: str, header: NpyHeader, first_path: str, first: NpyHeader) -> None:
    """Refuse a file whose rows differ in type from those of the first."""
    if header.dtype.newbyteorder("=") == first.dtype.newbyteorder("=") and header.row_shape == first.row_shape:
        return
    raise SchemaMismatch(
        Where(path=path),
        expected=f"rows of {first.dtype} with shape {first.row_shape}, as in {first_path}",
        found=f"{header.dtype} with shape {header.row_shape}",
        hint="Open them as two sources, or convert one of them.",
    )


class RowLayout(NamedTuple):
    """The combined layout of all files."""

    headers: list[NpyHeader]
    firsts: Indices
    """The number of each file's first row, then the number of rows."""
    begins: Indices
    """The byte offset of the rows in each file."""
    stored: np.dtype[Any] | None
    """The dtype of the rows if every file stores them ready to copy; else ``None``."""
    dtype: np.dtype[Any]
    row_shape: tuple[int, ...]
    row_bytes: int
    rows: int
    swapped: int
    """How many bytes the numbers have that native code swaps while it copies rows; 0 if it swaps none."""
    is_plain: bool
    """Whether copied and swapped bytes are the values: neither text, which is checked, nor of mixed byte orders."""

    @classmethod
    def of(cls, headers: list[NpyHeader]) -> RowLayout:
        first = headers[0]
        alike = all(header.dtype == first.dtype and not header.is_fortran for header in headers)
        native = first.dtype.newbyteorder("=")
        rows = sum(header.rows for header in headers)
        swapped = number_bytes(first.dtype) if alike and first.dtype != native else 0
        return cls(
            headers,
            np.cumsum([0, *(header.rows for header in headers)], dtype=np.int64),
            np.array([header.data_offset for header in headers], np.int64),
            first.dtype if alike and first.row_bytes else None,
            native,
            first.row_shape,
            first.row_bytes,
            rows,
            swapped,
            alike and first.row_bytes > 0 and (swapped > 0 or first.dtype == native) and not holds_text(native),
        )

    @property
    def schema(self) -> Schema:
        """A plain array is the single feature ``values``; each field of a structured array is a feature."""
        if self.dtype.names is None:
            return Schema({"values": Feature(self.dtype, self.row_shape)})
        return Schema({name: field.feature for name, field in self.fields.items()})

    @property
    def fields(self) -> dict[str, ArrayField]:
        """The features of a structured array, and their locations."""
        return fields_of(self.dtype, self.row_shape)


SWAPPED_BYTES = (2, 4, 8)


def number_bytes(dtype: np.dtype[Any]) -> int:
    """The bytes of each number in a value of this dtype; 0 if native code cannot swap them."""
    parts = {"c": 2, "U": dtype.itemsize // 4}.get(dtype.kind, 1)
    found = dtype.itemsize // parts if parts and dtype.names is None and dtype.subdtype is None else 0
    return found if found in SWAPPED_BYTES else 0


def native_endian(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same values in native byte order, swapped in place where possible."""
    if rows.dtype.names is not None:
        native = rows.dtype.newbyteorder("=")  # NumPy's isnative ignores the byte order of sub-arrays.
        return rows if rows.dtype == native else rows.astype(native)
    if rows.dtype.isnative:
        return rows
    return rows.byteswap(inplace=True).view(rows.dtype.newbyteorder("="))


def fields_of(dtype: np.dtype[Any], row_shape: tuple[int, ...], path: str | None = None) -> dict[str, ArrayField]:
    """The features of a structured dtype: its leaf fields. Nested names are joined by dots.

    Args:
        dtype: The structured dtype.
        row_shape: The shape of one row of such values.
        path: The file, for errors.

    Raises:
        SchemaMismatch: Two features would have the same name.
    """
    found: dict[str, ArrayField] = {}
    for keys, base, shape in _leaves(dtype, (), row_shape):
        name = ".".join(keys)
        if name in found:
            raise SchemaMismatch(
                Where(path=path, feature=name),
                expected="fields with different names",
                found=f"two named {name!r}: fields of a field are named with a dot",
                hint="Rename one of them, or read the file with numpy.",
            )
        found[name] = ArrayField(keys, Feature(base, shape))
    return found


def features_of(
    array: str, dtype: np.dtype[Any], row_shape: tuple[int, ...], path: str | None = None
) -> dict[str, ArrayField]:
    """The features of a named array: the array itself, or ``array.field`` for each field of a structured one.

    Raises:
        SchemaMismatch: Like :func:`fields_of`.
    """
    if dtype.names is None:
        return {array: ArrayField((), Feature(dtype, row_shape))}
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


LAST_CHARACTER = 0x10FFFF
"""The largest Unicode code point. NumPy accepts larger ones silently; Python raises a SystemError when it makes a ``str``."""


def holds_text(dtype: np.dtype[Any]) -> bool:
    """Whether values of this dtype are text or contain text fields."""
    if dtype.names is not None:
        return any(holds_text(dtype[name]) for name in dtype.names)
    return dtype.base.kind == "U" or (dtype.base.names is not None and holds_text(dtype.base))


def check_text(rows: npt.NDArray[Any], place: Callable[[int], Where]) -> None:
    """Check every character of these rows.

    Args:
        rows: ``(n, ...)`` of any dtype; anything but text is ignored.
        place: Returns the location of a row.

    Raises:
        CorruptRecord: A character is outside Unicode.
    """
    if not rows.size or not holds_text(rows.dtype):
        return
    for texts in _texts(rows):
        codes = np.ascontiguousarray(texts).view(np.dtype("u4").newbyteorder(texts.dtype.byteorder))
        bad = codes.reshape(len(rows), -1) > LAST_CHARACTER
        if bad.any():
            row = int(np.flatnonzero(bad.any(axis=1))[0])
            found = int(codes.reshape(len(rows), -1)[row][bad[row]][0])
            raise CorruptRecord(place(row), expected="text with code points up to 0x10ffff", found=f"{found:#x}")


def _texts(rows: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
    """The array itself or its text fields, at any depth."""
    for name in rows.dtype.names or ():
        yield from _texts(rows[name])
    if rows.dtype.kind == "U" and rows.dtype.itemsize:
        yield rows
