"""Arrays by name, in the file format of MXNet (``mx.nd.save``): what Linear Learner's artifact keeps its weights in.

Source of the layout: ``NDArray::Save`` and ``NDArray::Load`` of MXNet 1.x (``src/ndarray/ndarray.cc``). Little-endian:

    file    u64 0x112, u64 0, u64 number of arrays, arrays, u64 number of names, names (u64 length, bytes)
    array   u32 magic, i32 storage (0: dense), shape, i32 device kind, i32 device, i32 type, values in C order
    shape   u32 axes, then i64 per axis

Older files have no storage kind (magic ...C8), or no magic at all and a shape of u32; both are read.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.errors import CorruptFile, UnsupportedData, Where

__all__ = ["read_params", "write_params"]

LIST = 0x112
MAGIC_V1, MAGIC_V2, MAGIC_V3 = 0xF993FAC8, 0xF993FAC9, 0xF993FACA
DENSE = 0
CPU = 1
DTYPES = {0: "<f4", 1: "<f8", 2: "<f2", 3: "u1", 4: "<i4", 5: "i1", 6: "<i8"}
FLOAT32 = 0
MOST_AXES = 32


def write_params(arrays: Mapping[str, npt.NDArray[np.float32]]) -> bytes:
    """The bytes that ``mx.nd.save`` writes for these arrays."""
    out = [struct.pack("<QQQ", LIST, 0, len(arrays))]
    for array in arrays.values():
        out.append(struct.pack("<IiI", MAGIC_V2, DENSE, array.ndim))
        out.append(struct.pack(f"<{array.ndim}q", *array.shape))
        out.append(struct.pack("<iii", CPU, 0, FLOAT32))
        out.append(np.ascontiguousarray(array, "<f4").tobytes())
    out.append(struct.pack("<Q", len(arrays)))
    for name in arrays:
        text = name.encode()
        out.append(struct.pack("<Q", len(text)) + text)
    return b"".join(out)


def read_params(content: bytes, path: str) -> dict[str, npt.NDArray[Any]]:
    """The arrays in a file, by name.

    Args:
        content: The whole file.
        path: For messages.

    Raises:
        CorruptFile: It is cut off, or no such file.
        UnsupportedData: It holds sparse arrays, or values of an unknown type.
    """
    reader = _Reader(content, path)
    if reader.take("<Q") != LIST:
        raise reader.fault("the magic number 0x112 of a list of arrays", "another")
    reader.take("<Q")
    arrays = [_array(reader) for _ in range(reader.count(4))]
    names = [reader.bytes(reader.count(1)).decode("utf-8", "replace") for _ in range(reader.count(8))]
    if len(names) != len(arrays):
        raise reader.fault(f"{len(arrays)} names, one for each array", f"{len(names)}")
    return dict(zip(names, arrays, strict=True))


class _Reader:
    """Takes values from the front, and checks that they are there."""

    def __init__(self, content: bytes, path: str) -> None:
        self._content = content
        self._path = path
        self._at = 0

    def bytes(self, size: int) -> bytes:
        if size < 0 or size > len(self._content) - self._at:
            raise self.fault(f"{size} more bytes", f"the end after {len(self._content) - self._at}")
        part = self._content[self._at : self._at + size]
        self._at += size
        return part

    def take(self, kind: str) -> int:
        return int(struct.unpack(kind, self.bytes(struct.calcsize(kind)))[0])

    def count(self, each: int) -> int:
        """A number of things that take at least ``each`` bytes."""
        found = self.take("<Q")
        if found * each > len(self._content) - self._at:
            raise self.fault(f"room for {found} items", f"{len(self._content) - self._at} bytes")
        return found

    def fault(self, expected: str, found: str) -> CorruptFile:
        return CorruptFile(Where(path=self._path, offset=self._at), expected=expected, found=found)

    def refused(self, expected: str, found: str) -> UnsupportedData:
        return UnsupportedData(Where(path=self._path, offset=self._at), expected=expected, found=found)


def _array(reader: _Reader) -> npt.NDArray[Any]:
    magic = reader.take("<I")
    if magic in (MAGIC_V2, MAGIC_V3) and (storage := reader.take("<i")) != DENSE:
        raise reader.refused("a dense array", f"storage kind {storage}")
    new = magic in (MAGIC_V1, MAGIC_V2, MAGIC_V3)
    axes = reader.take("<I") if new else magic  # Without a magic, the first number is that of the axes.
    if axes > MOST_AXES:
        raise reader.fault(f"at most {MOST_AXES} axes", str(axes))
    shape = [reader.take("<q" if new else "<I") for _ in range(axes)]
    if axes == 0 or min(shape) < 0:
        return np.zeros(0, np.float32)
    reader.bytes(8)  # the device that it was on
    kind = reader.take("<i")
    if kind not in DTYPES:
        raise reader.refused(f"one of the types {sorted(DTYPES)}", str(kind))
    dtype = np.dtype(DTYPES[kind])
    return np.frombuffer(reader.bytes(math.prod(shape) * dtype.itemsize), dtype).reshape(shape)
