"""PNG images of one size and kind, many at a time.

Only what data sets are made of: 8 and 16 bits, gray or colours, with or without alpha, not interlaced. For all else there is
:func:`plain_header`, which says so, and a library.

Source of the format: the PNG specification (ISO/IEC 15948), sections 5 (chunks), 9 (filters) and 11.2 (header, palette, data).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.errors import CorruptRecord, Where

__all__ = ["PLAIN_PIXELS", "PngHeader", "decode_png", "has_colour_key", "is_png", "plain_header"]

PLAIN_PIXELS = 1 << 20
"""Images of more pixels are left to a library: here the decompressed stream of one lies in memory beside its pixels."""

SIGNATURE = b"\x89PNG\r\n\x1a\n"
HEADER_END = 33
CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}
MOST_SIDE = 1 << 31
_CHUNK = struct.Struct(">I4s")
_IHDR = struct.Struct(">IIBBBBB")
_CRC = struct.Struct(">I")


@dataclass(frozen=True, slots=True, kw_only=True)
class PngHeader:
    """What the images of a call have in common.

    Args:
        width, height: In pixels.
        bits: Of one sample: 8 or 16.
        channels: 1 gray, 2 gray and alpha, 3 colours, 4 colours and alpha.
    """

    width: int
    height: int
    bits: int
    channels: int

    @property
    def row_bytes(self) -> int:
        """Bytes of one row of samples."""
        return self.width * self.pixel_bytes

    @property
    def pixel_bytes(self) -> int:
        """Bytes of one pixel."""
        return self.channels * self.bits // 8


def is_png(file: bytes) -> bool:
    """Whether some bytes begin as a PNG file does."""
    return file.startswith(SIGNATURE)


def plain_header(file: bytes) -> PngHeader | None:
    """The header of a PNG file that :func:`decode_png` takes; ``None`` for any other, and for a damaged one."""
    return _header_of(bytes(file[:HEADER_END]))


@lru_cache(maxsize=1024)
def _header_of(head: bytes) -> PngHeader | None:
    if len(head) < HEADER_END or not head.startswith(SIGNATURE + b"\0\0\0\rIHDR"):
        return None
    width, height, bits, colours, compression, filters, interlace = _IHDR.unpack_from(head, 16)
    known = colours in CHANNELS and bits in (8, 16) and (compression, filters, interlace) == (0, 0, 0)
    if not known or not 0 < width < MOST_SIDE or not 0 < height < MOST_SIDE:
        return None
    if zlib.crc32(head[12:29]) != _CRC.unpack_from(head, 29)[0]:
        return None
    return PngHeader(width=width, height=height, bits=bits, channels=CHANNELS[colours])


def has_colour_key(file: bytes) -> bool:
    """Whether a PNG says, before its pixels, that a colour stands for transparency. Damage is for reading to find."""
    at = HEADER_END
    while at + _CHUNK.size <= len(file):
        length, kind = _CHUNK.unpack_from(file, at)
        if kind in (b"tRNS", b"IDAT", b"IEND"):
            return bool(kind == b"tRNS")
        at += 12 + length
    return False


def decode_png(files: Sequence[bytes], header: PngHeader) -> npt.NDArray[Any] | None:
    """The pixels of PNG files that all have the header of the first.

    Returns:
        ``uint8`` or ``uint16 (n, height, width, channels)``; ``None`` where a file has another header, or transparency that
        is not a channel.

    Raises:
        CorruptRecord: A file is damaged; ``where.record`` is its position.
    """
    try:
        samples = _native.decode_png(files, header.height, header.row_bytes, header.pixel_bytes)
    except _native.FormatError as error:
        raise _damaged(error, len(files[error.record])) from error
    if samples is None:
        return None
    shape = (len(files), header.height, header.width, header.channels)
    if header.bits == 16:
        return samples.view(">u2").astype(np.uint16).reshape(shape)
    return samples.reshape(shape)


def _damaged(error: _native.FormatError, size: int) -> CorruptRecord:
    """What is wrong with a file of so many bytes."""
    expected, found = {
        "header": (f"{error.expected} bytes of pixels", f"a file of {size} bytes, which cannot be as many"),
        "truncated": ("a whole PNG", f"the end of the file after {size} bytes, or of the pixels in it"),
        "payload_checksum": ("pixels with the checksum that is stored", "others"),
        "wrong_count": (
            f"{error.expected} bytes of pixels",
            "more of them" if error.found > error.expected else "fewer",
        ),
        "range": ("rows with a filter that PNG has", f"one with filter {error.found}"),
    }.get(error.fault, ("compressed pixels", "a stream that is none"))
    return CorruptRecord(Where(record=error.record), expected=expected, found=found)
