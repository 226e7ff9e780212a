"""The header of a ``.npy`` file: read by native code, checked against the file; written as NumPy writes it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace import _native
from headrace._faults import describe
from headrace.contracts.protocols import File
from headrace.errors import CorruptFile, UnsupportedData, Where
from headrace.io.mapped import MappedFile

__all__ = ["MAGIC", "MOST_BYTES", "NpyHeader", "header_bytes", "header_in", "header_of", "read_header"]

MAGIC = b"\x93NUMPY"
FIRST_BYTES = 4096  # the headers that numpy writes are shorter
MOST_BYTES = 1 << 20  # of a header: some 40,000 fields. A longer one is neither read nor written.
GROWTH_DIGITS = 21  # numpy leaves room for a number of so many digits, so that the first axis can grow in place
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
            expected=f"{header.data_bytes} bytes of {dtype} {shape} behind the header",
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
