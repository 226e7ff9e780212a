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

from penstock import _native
from penstock.errors import CorruptRecord, Where

__all__ = ["PngHeader", "decode_png", "is_png", "plain_header"]

SIGNATURE = b"\x89PNG\r\n\x1a\n"
HEADER_END = 33
END_CHUNK = b"\0\0\0\0IEND\xaeB`\x82"
CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}
MOST_EXPANSION = 1032  # deflate makes no more bytes of one
MOST_SIDE = 1 << 31
SMALL = 4 << 10  # compressed bytes, which make at most 4 MB: no need to stop where the pixels should end
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


def decode_png(files: Sequence[bytes], header: PngHeader) -> npt.NDArray[Any] | None:
    """The pixels of PNG files that all have the header of the first.

    Returns:
        ``uint8`` or ``uint16 (n, height, width, channels)``; ``None`` where a file has another header, or transparency that
        is not a channel.

    Raises:
        CorruptRecord: A file is damaged; ``where.record`` is its position.
    """
    first = files[0][:HEADER_END]
    streams = []
    size = (header.row_bytes + 1) * header.height
    for position, file in enumerate(files):
        if not file.startswith(first):
            return None
        try:
            stream = _stream(file, size)
        except _Damaged as error:
            raise CorruptRecord(Where(record=position), expected=error.expected, found=error.found) from error
        if stream is None:
            return None
        streams.append(stream)
    try:
        samples = _native.unfilter_png(streams, header.height, header.row_bytes, header.pixel_bytes)
    except _native.FormatError as error:
        raise CorruptRecord(
            Where(record=error.record),
            expected=f"a PNG of {header.height} rows of {header.row_bytes} bytes",
            found=f"{error.found} bytes" if error.fault == "wrong_count" else f"a row with filter {error.found}",
        ) from error
    shape = (len(files), header.height, header.width, header.channels)
    if header.bits == 16:
        return samples.view(">u2").astype(np.uint16).reshape(shape)
    return samples.reshape(shape)


class _Damaged(Exception):
    """A damaged file."""

    def __init__(self, expected: str, found: str) -> None:
        self.expected = expected
        self.found = found
        super().__init__(expected, found)


def _stream(file: bytes, size: int) -> bytes | None:
    """The decompressed stream of a file; ``None`` where a colour stands for transparency."""
    if file.endswith(END_CHUNK) and len(file) > HEADER_END + 24:
        length, kind = _CHUNK.unpack_from(file, HEADER_END)
        if kind == b"IDAT" and HEADER_END + 24 + length == len(
            file
        ):  # as most writers leave it: all pixels in one chunk
            return _inflated(_pixels(file, HEADER_END, len(file) - 12), size)
    parts, at, total = [], HEADER_END, len(file)
    while True:
        if at + 12 > total:
            raise _Damaged("a PNG chunk", f"the end of the file after {total} bytes")
        length, kind = _CHUNK.unpack_from(file, at)
        end = at + 12 + length
        if end > total:
            raise _Damaged(f"a PNG chunk of {length} bytes", f"the end of the file {total - at - 12} bytes on")
        if kind == b"IDAT":
            parts.append(_pixels(file, at, end))
        elif kind == b"IEND":
            break
        elif kind == b"tRNS":
            return None
        at = end
    return _inflated(b"".join(parts), size)


def _pixels(file: bytes, at: int, end: int) -> bytes:
    """What a chunk of pixels holds."""
    if zlib.crc32(file[at + 4 : end - 4]) != _CRC.unpack_from(file, end - 4)[0]:
        raise _Damaged("the checksum of the pixels' chunk", "another one")
    return file[at + 8 : end - 4]


def _inflated(data: bytes, size: int) -> bytes:
    if size > len(data) * MOST_EXPANSION + 64:
        raise _Damaged(f"{size} bytes of pixels", f"{len(data)} compressed ones, which cannot be as many")
    try:
        if len(data) <= SMALL:
            stream, is_whole = zlib.decompress(data, bufsize=size), True
        else:
            inflater = zlib.decompressobj()
            stream, is_whole = inflater.decompress(data, size + 1), inflater.eof
    except zlib.error as error:
        raise _Damaged("compressed pixels", str(error)) from error
    if not is_whole or len(stream) != size:
        raise _Damaged(f"{size} bytes of pixels", f"{len(stream)}, or a stream that was cut off")
    return stream
