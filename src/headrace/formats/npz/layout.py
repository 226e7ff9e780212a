"""The structures of a ZIP file as they are written: in the form of ``np.savez``, ZIP64 where a size is not known beforehand."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from headrace.formats.npy_header import header_bytes
from headrace.formats.npz.archive import (
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
)

__all__ = ["LEVEL", "Written", "directory_end", "packed_arrays"]

VERSION = 45  # of the standard: the one that has ZIP64
DATE = 0x21  # 1980-01-01, the first that there is
LEVEL = 6  # zlib's default, and np.savez_compressed's
ORDINARY = 0o600 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A member as it is written.

    Args:
        array: The name of the array.
        method: :data:`~headrace.formats.npz.archive.STORED` or ``DEFLATED``.
        crc: CRC-32 of its content.
        size: Of its content, in bytes.
        packed_bytes: As it lies in the file.
        at: Where its own header begins.
    """

    array: str
    method: int
    crc: int = 0
    size: int = 0
    packed_bytes: int = 0
    at: int = 0

    @property
    def name(self) -> bytes:
        """As stored."""
        return (self.array + ".npy").encode()

    @property
    def _flags(self) -> int:
        return 0 if self.name.isascii() else UTF8

    def local(self) -> bytes:
        """Its own header: as long whatever its size."""
        extra = EXTRA.pack(ZIP64_EXTRA, 16) + struct.pack("<2Q", self.size, self.packed_bytes)
        fixed = (LOCAL_MAGIC, VERSION, self._flags, self.method, 0, DATE, self.crc, MANY32, MANY32)
        return LOCAL.pack(*fixed, len(self.name), len(extra)) + self.name + extra

    def entry(self) -> bytes:
        """Its entry in the directory."""
        wide = [value for value in (self.size, self.packed_bytes, self.at) if value >= MANY32]
        extra = EXTRA.pack(ZIP64_EXTRA, 8 * len(wide)) + struct.pack(f"<{len(wide)}Q", *wide) if wide else b""
        fixed = ENTRY.pack(
            *(ENTRY_MAGIC, VERSION, VERSION, self._flags, self.method, 0, DATE, self.crc),
            *(min(self.packed_bytes, MANY32), min(self.size, MANY32), len(self.name), len(extra), 0, 0, 0, ORDINARY),
            min(self.at, MANY32),
        )
        return fixed + self.name + extra


def directory_end(begin: int, size: int, count: int) -> bytes:
    """What stands behind the directory of ``count`` members that begins there and is so long."""
    end64 = b""
    if begin >= MANY32 or size >= MANY32 or count >= MANY16:
        fields = (END64.size - 12, VERSION, VERSION, 0, 0, count, count, size, begin)
        end64 = END64.pack(END64_MAGIC, *fields) + LOCATOR.pack(LOCATOR_MAGIC, 0, begin + size, 1)
    few = min(count, MANY16)
    return end64 + END.pack(END_MAGIC, 0, 0, few, few, min(size, MANY32), min(begin, MANY32), 0)


def packed_arrays(arrays: Mapping[str, npt.NDArray[Any]], *, deflate: bool = False) -> bytes:
    """A whole ``.npz`` of some small arrays."""
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
