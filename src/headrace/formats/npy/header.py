"""The header of a ``.npy`` file: read by native code, checked against the file, written as NumPy writes it. With the layout of several files
together, and the check of text (NumPy stores four bytes for each character, not all of which are valid).
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
FIRST_BYTES = 4096  # the headers that numpy writes are shorter
MOST_BYTES = 1 << 20  # of a header: some 40,000 fields. A longer one is neither read nor written.
GROWTH_DIGITS = 21  # NumPy leaves room for a number of this many digits, so that the first axis can grow in place
ALIGNMENT = 64
MOST_AXES = 64 if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else 32
MOST_EXTENT = 2**63 - 1  # bytes, with axes of length 0 left out, as NumPy counts


@dataclass(frozen=True, slots=True)
class NpyHeader:
    """What a header says.

    Args:
        dtype: As in the file, byte order included.
        shape: Of the whole array.
        is_fortran: Whether the first axis varies fastest.
        data_offset: Where the array begins, in bytes.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    is_fortran: bool
    data_offset: int

    @property
    def rows(self) -> int:
        """Along the first axis; 1 for a 0-d array."""
        return self.shape[0] if self.shape else 1

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Of one row."""
        return self.shape[1:]

    @property
    def row_bytes(self) -> int:
        """Of one row."""
        return self.dtype.itemsize * math.prod(self.row_shape)

    @property
    def data_bytes(self) -> int:
        """Of the whole array."""
        return self.rows * self.row_bytes


def read_header(file: MappedFile) -> NpyHeader:
    """The header of a mapped file, checked against the file's size.

    Raises:
        CorruptFile: It does not follow the format, or the file is shorter or longer than it says.
        UnsupportedData: The array holds Python objects.
    """
    return header_in(file.buffer, file.path)


def header_of(file: File, size: int) -> NpyHeader:
    """The header of a file of ``size`` bytes, of which no more than that is read.

    Raises:
        CorruptFile, UnsupportedData: As :func:`read_header`.
    """
    head = file.read(0, FIRST_BYTES)
    length = head[8:10] if bytes(head[6:7]) == b"\x01" else head[8:12]
    end = min(size, FIRST_BYTES + MOST_BYTES, 8 + len(length) + int.from_bytes(length, "little"))
    return header_in(head if end <= len(head) else file.read(0, end), file.path, size)


def header_in(content: memoryview, path: str, size: int | None = None) -> NpyHeader:
    """The header at the beginning of the content of a ``.npy``, checked against its ``size`` (that of what is given here).

    Raises:
        CorruptFile, UnsupportedData: As :func:`read_header`.
    """
    try:
        _, descr, is_fortran, shape, offset = _native.parse_npy_header(content, MOST_BYTES)
    except _native.FormatError as error:
        if error.fault == "range":
            raise CorruptFile(
                Where(path=path), expected=f"a header of at most {error.expected} bytes", found=f"{error.found}"
            ) from error
        raise describe(error, Where(path=path)) from error
    dtype = _dtype(descr, path)
    _check_extent(dtype, shape, path)
    # An array with one axis is in both orders, and reads faster in C's.
    header = NpyHeader(dtype, shape, is_fortran and len(shape) > 1, offset)
    size = len(content) if size is None else size
    if header.data_bytes != size - offset:
        raise CorruptFile(
            Where(path=path, offset=min(size, offset + header.data_bytes)),
            expected=f"{header.data_bytes} bytes of {dtype} {shape} after the header",
            found=f"{size - offset}",
            hint="The file was cut off while it was written or copied." if header.data_bytes > size - offset else "",
        )
    return header


def _check_extent(dtype: np.dtype[Any], shape: tuple[int, ...], path: str) -> None:
    """Refuse axes that no memory holds. An array may have no element for one axis of length 0, and others of any length."""
    extent = max(1, dtype.itemsize) * math.prod(length for length in shape if length)
    if dtype.subdtype is not None or len(shape) > MOST_AXES or extent > MOST_EXTENT:
        raise CorruptFile(
            Where(path=path),
            expected=f"an array of numbers, text or records with at most {MOST_AXES} axes and 2^63 - 1 bytes",
            found=f"{dtype} {shape}",
            hint="NumPy cannot hold such an array either. Save it anew.",
        )


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


class RowLayout(NamedTuple):
    """What the headers of all files say together."""

    headers: list[NpyHeader]
    firsts: Indices
    """Number of each file's first row, and of all rows."""
    begins: Indices
    """Where the rows of each file begin, in bytes."""
    stored: np.dtype[Any] | None
    """The dtype of the rows where they can be copied unchanged from every file; else ``None``."""
    dtype: np.dtype[Any]
    row_shape: tuple[int, ...]
    row_bytes: int

    @classmethod
    def of(cls, headers: list[NpyHeader]) -> RowLayout:
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
    def fields(self) -> dict[str, ArrayField]:
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


def fields_of(dtype: np.dtype[Any], row_shape: tuple[int, ...], path: str | None = None) -> dict[str, ArrayField]:
    """The features of a structured dtype: every field that is none itself. Fields of fields are named with a dot between.

    Args:
        dtype: The structured dtype.
        row_shape: Of one row of such values.
        path: The file, for errors.

    Raises:
        SchemaMismatch: Two of them get the same name.
    """
    found: dict[str, ArrayField] = {}
    for keys, base, shape in _leaves(dtype, (), row_shape):
        name = ".".join(keys)
        if name in found:
            raise SchemaMismatch(
                Where(path=path, feature=name),
                expected="fields whose names differ",
                found=f"two that are called {name!r}: fields of a field are named with a dot",
                hint="Rename one of them, or read the file with numpy.",
            )
        found[name] = ArrayField(keys, Feature(base, shape))
    return found


def features_of(
    array: str, dtype: np.dtype[Any], row_shape: tuple[int, ...], path: str | None = None
) -> dict[str, ArrayField]:
    """The features of an array that has a name: itself, or ``array.field`` for each field of a structured one.

    Raises:
        SchemaMismatch: As :func:`fields_of`.
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
"""Of Unicode. NumPy takes more without a word, and Python then ends in a SystemError when the value is made a ``str``."""


def holds_text(dtype: np.dtype[Any]) -> bool:
    """Whether values of this dtype are text, or records with text in them."""
    if dtype.names is not None:
        return any(holds_text(dtype[name]) for name in dtype.names)
    return dtype.base.kind == "U" or (dtype.base.names is not None and holds_text(dtype.base))


def check_text(rows: npt.NDArray[Any], place: Callable[[int], Where]) -> None:
    """Lister at every character of some rows.

    Args:
        rows: ``(n, ...)`` of any dtype; what is no text is passed.
        place: The place of a row.

    Raises:
        CorruptRecord: One is beyond Unicode.
    """
    if not rows.size or not holds_text(rows.dtype):
        return
    for texts in _texts(rows):
        codes = np.ascontiguousarray(texts).view(np.dtype("u4").newbyteorder(texts.dtype.byteorder))
        bad = codes.reshape(len(rows), -1) > LAST_CHARACTER
        if bad.any():
            row = int(np.flatnonzero(bad.any(axis=1))[0])
            found = int(codes.reshape(len(rows), -1)[row][bad[row]][0])
            raise CorruptRecord(place(row), expected="text, whose characters end at 0x10ffff", found=f"{found:#x}")


def _texts(rows: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
    """The array itself, or those of its fields, however deep, that are text."""
    for name in rows.dtype.names or ():
        yield from _texts(rows[name])
    if rows.dtype.kind == "U" and rows.dtype.itemsize:
        yield rows
