"""Write ``.npz`` files batch by batch, in the layout of ``np.savez``: ZIP64, no timestamps.

The rows of an array must be contiguous, but arrive in pieces. The array with the largest rows goes straight into the
file. The others go to unnamed temporary files, and are appended once the first is complete.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from headrace.contracts.feature import Feature
from headrace.contracts.records import SPARSE_HINT, Misfit
from headrace.contracts.schema import Schema
from headrace.errors import SchemaMismatch, UnsupportedData, Where
from headrace.formats.npy.header import header_bytes
from headrace.formats.npz.directory import (
    DEFLATED,
    END,
    END64,
    END64_MAGIC,
    END_MAGIC,
    ENTRY,
    ENTRY_MAGIC,
    EXTRA,
    LOCAL,
    LOCAL_MAGIC,
    LOCATOR,
    LOCATOR_MAGIC,
    MANY16,
    MANY32,
    STORED,
    UTF8,
    ZIP64_EXTRA,
    joined_crc,
)
from headrace.io.paths import PathLike
from headrace.io.write.atomic import AtomicFile, spool

__all__ = ["COMPRESSIONS", "LEVEL", "NpzSink", "NpzWriter", "Written", "directory_end", "misfits", "packed_arrays"]


VERSION = 45  # version of the standard, the first with ZIP64
DATE = 0x21  # 1980-01-01, the earliest date
LEVEL = 6  # default of zlib and np.savez_compressed
ORDINARY = 0o600 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A member being written.

    Args:
        array: The name of the array.
        method: :data:`~headrace.formats.npz.directory.STORED` or ``DEFLATED``.
        crc: CRC-32 of its content.
        size: Size of its content, in bytes.
        packed_bytes: Its size in the file.
        at: Offset of its local header.
    """

    array: str
    method: int
    crc: int = 0
    size: int = 0
    packed_bytes: int = 0
    at: int = 0

    @property
    def name(self) -> bytes:
        """The stored name."""
        return (self.array + ".npy").encode()

    @property
    def _flags(self) -> int:
        return 0 if self.name.isascii() else UTF8

    def local(self) -> bytes:
        """Its local header, whose length does not depend on the size."""
        extra = EXTRA.pack(ZIP64_EXTRA, 16) + struct.pack("<2Q", self.size, self.packed_bytes)
        fixed = (LOCAL_MAGIC, VERSION, self._flags, self.method, 0, DATE, self.crc, MANY32, MANY32)
        return LOCAL.pack(*fixed, len(self.name), len(extra)) + self.name + extra

    def entry(self) -> bytes:
        """Its directory entry."""
        wide = [value for value in (self.size, self.packed_bytes, self.at) if value >= MANY32]
        extra = EXTRA.pack(ZIP64_EXTRA, 8 * len(wide)) + struct.pack(f"<{len(wide)}Q", *wide) if wide else b""
        fixed = ENTRY.pack(
            *(ENTRY_MAGIC, VERSION, VERSION, self._flags, self.method, 0, DATE, self.crc),
            *(min(self.packed_bytes, MANY32), min(self.size, MANY32), len(self.name), len(extra), 0, 0, 0, ORDINARY),
            min(self.at, MANY32),
        )
        return fixed + self.name + extra


def directory_end(begin: int, size: int, count: int) -> bytes:
    """The end record after a directory of ``count`` members at this offset, of this size."""
    end64 = b""
    if begin >= MANY32 or size >= MANY32 or count >= MANY16:
        fields = (END64.size - 12, VERSION, VERSION, 0, 0, count, count, size, begin)
        end64 = END64.pack(END64_MAGIC, *fields) + LOCATOR.pack(LOCATOR_MAGIC, 0, begin + size, 1)
    few = min(count, MANY16)
    return end64 + END.pack(END_MAGIC, 0, 0, few, few, min(size, MANY32), min(begin, MANY32), 0)


def packed_arrays(arrays: Mapping[str, npt.NDArray[Any]], *, deflate: bool = False) -> bytes:
    """A complete ``.npz`` of a few small arrays."""
    parts: list[bytes] = []
    members: list[Written] = []
    at = 0
    for name, array in arrays.items():
        content = header_bytes(array.dtype, array.shape) + array.tobytes()
        body = content
        if deflate:
            packer = zlib.compressobj(LEVEL, zlib.DEFLATED, -15)
            body = packer.compress(content) + packer.flush()
        method = DEFLATED if deflate else STORED
        sizes = {"size": len(content), "packed_bytes": len(body)}
        member = Written(array=name, method=method, crc=zlib.crc32(content), **sizes, at=at)
        members.append(member)
        parts += [member.local(), body]
        at += len(parts[-2]) + len(body)
    directory = b"".join(member.entry() for member in members)
    return b"".join(parts) + directory + directory_end(at, len(directory), len(members))


COMPRESSIONS = ("none", "deflate")
COPY_BYTES = 4 << 20
STORED_BLOCK = struct.Struct("<BHH")  # an uncompressed, non-final deflate block: RFC 1951, 3.2.4


def misfits(schema: Schema) -> list[Misfit]:
    """What a ``.npz`` of aligned arrays cannot hold: text, bytes, varying lengths, sparse rows."""
    return [
        Misfit(
            feature=name,
            expected="numbers of a fixed shape, as in every .npz",
            found=repr(feature),
            hint=_hint_for(feature),
        )
        for name, feature in schema.items()
        if feature.is_text or not feature.is_fixed or feature.sparse
    ]


def _hint_for(feature: Feature) -> str:
    if feature.sparse:
        return SPARSE_HINT
    one_each = "" if feature.is_text else "one file per example (format='npz_folder'), "
    return f"Write {one_each}a .tfrecord, or select the other features."


class NpzSink:
    """Writes batches to one ``.npz``, one array per feature."""

    def __init__(self, path: PathLike, schema: Schema, *, compression: str = "none") -> None:
        if compression not in COMPRESSIONS:
            raise UnsupportedData(
                Where(path=str(path)), expected="compression 'none' or 'deflate'", found=repr(compression)
            )
        for misfit in misfits(schema):
            raise UnsupportedData(
                Where(path=str(path), feature=misfit.feature),
                expected=misfit.expected,
                found=misfit.found,
                hint=misfit.hint,
            )
        arrays = {name: (f.numpy_dtype, tuple(int(n or 0) for n in f.shape)) for name, f in schema.items()}
        self.writer: NpzWriter = NpzWriter(path, arrays, deflate=compression == "deflate")

    def write_batch(self, batch: Mapping[str, Any], n: int, /) -> None:
        """Append rows."""
        self.writer.write(batch, n)

    def close(self) -> None:
        """Move the complete file into place."""
        self.writer.close()

    def abort(self) -> None:
        """Remove the unfinished file."""
        self.writer.abort()


class NpzWriter:
    """Appends rows to the arrays of one ``.npz`` file, which appears under its name at ``close``, or never.

    Args:
        path: The file.
        arrays: Dtype and row shape of each.
        deflate: Whether to compress them.
    """

    def __init__(
        self, path: PathLike, arrays: Mapping[str, tuple[npt.DTypeLike, tuple[int, ...]]], *, deflate: bool = False
    ) -> None:
        self._file = AtomicFile(path)
        self.rows: int = 0
        """Rows written so far."""
        self._arrays = {
            name: _Array(name, np.dtype(dtype), shape, deflate=deflate) for name, (dtype, shape) in arrays.items()
        }
        # This array is finished first: all its bytes must be in the file before another begins.
        self._order = sorted(self._arrays.values(), key=lambda array: -array.row_bytes)
        folder = Path(self._file.folder)
        for position, array in enumerate(self._order):
            array.begin(spool(folder) if position else self._file)
        if self._order:
            self._order[0].place(self._file)

    def write(self, batch: Mapping[str, Any], n: int) -> None:
        """Append ``n`` rows to every array.

        Raises:
            SchemaMismatch: Rows differ in shape, or their dtype does not convert without changing a value.
        """
        for name, array in self._arrays.items():
            where = Where(path=self._file.path, record=self.rows, feature=name)
            array.write(np.asarray(batch[name]), n, where)
        self.rows += n

    def close(self) -> None:
        """Move the complete file into place. A second call does nothing."""
        if self._file.closed:
            return
        try:
            for array in self._order:
                array.finish(self._file, self.rows)
            self._write_directory()
            self._file.close()
        except BaseException:
            self.abort()
            raise

    def _write_directory(self) -> None:
        begin = self._file.size
        for array in self._arrays.values():
            self._file.write(array.entry())
        self._file.write(directory_end(begin, self._file.size - begin, len(self._arrays)))

    def abort(self) -> None:
        """Remove the unfinished file. Does nothing after ``close``."""
        self._file.abort()
        for array in self._arrays.values():
            array.drop()


class _Array:
    """One array being written: its rows, and the local and ``.npy`` headers, which are filled in last."""

    def __init__(self, name: str, dtype: np.dtype[Any], row_shape: tuple[int, ...], *, deflate: bool) -> None:
        self.name = name
        self.dtype, self.row_shape = dtype, row_shape
        self.row_bytes = dtype.itemsize * int(np.prod(row_shape, dtype=np.int64))
        self.method = DEFLATED if deflate else STORED
        self._packer = zlib.compressobj(LEVEL, zlib.DEFLATED, -15) if deflate else None
        self._crc = self._bytes = self._packed = 0  # of the rows only
        self._at = -1
        self._whole_crc = 0
        self._to: AtomicFile | IO[bytes] | None = None

    def begin(self, to: AtomicFile | IO[bytes]) -> None:
        """Set the destination of the rows."""
        self._to = to

    def place(self, file: AtomicFile) -> None:
        """Reserve room for the headers at the end of the file."""
        self._at = file.size
        file.write(bytes(len(self._headers(0))))

    def write(self, rows: npt.NDArray[Any], n: int, where: Where) -> None:
        if rows.shape != (n, *self.row_shape):
            expected = f"rows of shape {self.row_shape}, {n} of them"
            raise SchemaMismatch(where, expected=expected, found=f"an array of shape {rows.shape}")
        if not np.can_cast(rows.dtype, self.dtype, "safe"):
            raise SchemaMismatch(where, expected=f"dtype {self.dtype}", found=f"{rows.dtype}")
        content = np.ascontiguousarray(rows, self.dtype).reshape(-1).view(np.uint8).data if rows.nbytes else b""
        self._crc, self._bytes = zlib.crc32(content, self._crc), self._bytes + len(content)
        self._put(content if self._packer is None else self._packer.compress(content))

    def _put(self, packed: Any) -> None:
        self._packed += len(packed)
        if self._to is not None:
            self._to.write(packed)

    def finish(self, file: AtomicFile, rows: int) -> None:
        """Append buffered rows, and fill in the headers."""
        if self._packer is not None:
            self._put(self._packer.flush())
        if self._at < 0:
            self.place(file)
            self._copy(file)
        header = self._npy_header(rows)
        self._whole_crc = joined_crc(zlib.crc32(header), self._crc, self._bytes)
        file.overwrite(self._at, self._headers(rows))

    def _copy(self, file: AtomicFile) -> None:
        waiting: Any = self._to
        waiting.seek(0)
        while block := waiting.read(COPY_BYTES):
            file.write(block)
        waiting.close()

    def drop(self) -> None:
        """Close the temporary file."""
        if self._to is not None and not isinstance(self._to, AtomicFile):
            self._to.close()

    def _npy_header(self, rows: int) -> bytes:
        return header_bytes(self.dtype, (rows, *self.row_shape))

    def _headers(self, rows: int) -> bytes:
        """The local header and the array header. Their length does not depend on the number of rows."""
        npy = self._npy_header(rows)
        # In a deflate stream, the header is a separate uncompressed block, because it must keep its offset and length.
        before = STORED_BLOCK.pack(0, len(npy), len(npy) ^ 0xFFFF) if self.method == DEFLATED else b""
        self._written = Written(
            array=self.name,
            method=self.method,
            crc=self._whole_crc,
            size=len(npy) + self._bytes,
            packed_bytes=len(before) + len(npy) + self._packed,
            at=self._at,
        )
        return self._written.local() + before + npy

    def entry(self) -> bytes:
        """The directory entry."""
        return self._written.entry()
