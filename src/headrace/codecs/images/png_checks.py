"""What Pillow does not check in a PNG: that it is complete, its checksums, and that it has all its rows; and the name of a fault.

Source of the format: W3C, Portable Network Graphics (PNG) Specification, third edition (ISO/IEC 15948), sections 5 (chunks), 7 and 8
(rows and interlacing) and 11 (header, palette, transparency).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from headrace.codecs.images.encode import Pixels

__all__ = [
    "CHANNELS",
    "COLOURS",
    "COLOURS_ALPHA",
    "GREY",
    "GREY_ALPHA",
    "SIGNATURE",
    "check_png",
    "checked_pixels",
    "chunks",
]


SIGNATURE = b"\x89PNG\r\n\x1a\n"
COLOUR_AT, INTERLACE_AT = 25, 28
FRAME_BYTES = 12  # length, type and checksum around the content of a chunk
GREY, COLOURS, PALETTE, GREY_ALPHA, COLOURS_ALPHA = 0, 2, 3, 4, 6
CHANNELS = {GREY: 1, COLOURS: 3, GREY_ALPHA: 2, COLOURS_ALPHA: 4}
DEPTHS = {GREY: (1, 2, 4, 8, 16), PALETTE: (1, 2, 4, 8)} | dict.fromkeys((COLOURS, GREY_ALPHA, COLOURS_ALPHA), (8, 16))
PASSES = ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1))
"""The first row and column, and the steps, of each pass of an interlaced image."""
WHOLE = ((0, 0, 1, 1),)
MOST_SIDE = (1 << 31) - 1
PIECE = 1 << 18
"""The most bytes of compressed or decompressed pixels to hold while they are counted."""
_HEADER = struct.Struct(">IIBBBBB")


def chunks(image: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Type, begin and end of the content of every chunk, up to the last one.

    Raises:
        ValueError: The image ends before its last chunk.
    """
    at, kind = len(SIGNATURE), b""
    while kind != b"IEND":
        if len(image) - at < FRAME_BYTES:
            raise ValueError(f"the image ends at byte {len(image)} inside a chunk, before its last one")
        size = int.from_bytes(image[at : at + 4], "big")
        kind, begin = image[at + 4 : at + 8], at + 8
        at = begin + size + 4
        if at > len(image):
            raise ValueError(f"the chunk at byte {begin - 8} ends at byte {at} of an image of {len(image)} bytes")
        yield kind, begin, begin + size


def checked_pixels(image: bytes, decode: Callable[[], Pixels]) -> Pixels:
    """The samples of a sound PNG, or some of its last row.

    Args:
        image: The PNG.
        decode: Gives the samples that Pillow finds, before a palette or a transparent colour is applied. Pillow does not report rows
            that are missing, but leaves them 0: those of an image whose last row is 0 are counted, which takes half as long again.

    Raises:
        ValueError: The message names the fault.
        Exception: Pillow finds the image damaged, in its words.
    """
    check_png(image)
    try:
        samples = decode()
    except Exception:
        _check_rows(image)
        raise
    if image[INTERLACE_AT] or not samples[-1].any():
        _check_rows(image)
    return samples


def check_png(image: bytes) -> None:
    """Check the chunks and the header of a PNG.

    Raises:
        ValueError: The message names the fault.
    """
    whole = memoryview(image)
    seen: set[bytes] = set()
    last = b""
    for kind, begin, end in chunks(image):
        place = f"the chunk {kind.decode('latin1')!r} at byte {begin - 8}"
        if zlib.crc32(whole[begin - 4 : end]) != int.from_bytes(image[end : end + 4], "big"):
            raise ValueError(f"{place} has a wrong checksum")
        if (kind == b"IHDR") != (not seen):
            raise ValueError(f"{place} is {'a second header' if seen else 'where the header belongs'}")
        if kind == b"IDAT" and kind in seen and kind != last:
            raise ValueError(f"{place} is apart from the other pixels")
        if kind == b"tRNS" and b"IDAT" not in seen:
            _check_transparency(whole[begin:end], image[COLOUR_AT], place)
        if kind == b"IDAT" and b"PLTE" not in seen and image[COLOUR_AT] == PALETTE:
            raise ValueError("there is no palette before the pixels")
        seen.add(kind)
        last = kind
    _header(image)


def _check_transparency(content: memoryview, colours: int, place: str) -> None:
    needed = 2 * CHANNELS[colours] if colours in (GREY, COLOURS) else 0
    if len(content) < needed:
        raise ValueError(f"{place} has {len(content)} bytes instead of {needed}")


def _header(image: bytes) -> tuple[int, int, int, int, int]:
    """Width, height, bits of a sample, kind of colours, and whether it is interlaced."""
    if image[8:12] != _HEADER.size.to_bytes(4, "big"):
        raise ValueError(f"the header has {int.from_bytes(image[8:12], 'big')} bytes instead of {_HEADER.size}")
    width, height, depth, colours, compression, filters, interlace = _HEADER.unpack_from(image, 16)
    if not 0 < width <= MOST_SIDE or not 0 < height <= MOST_SIDE:
        raise ValueError(f"the header says {height} x {width} pixels")
    if depth not in DEPTHS.get(colours, ()):
        raise ValueError(f"the header says {depth} bits and colours of kind {colours}, which PNG does not have")
    if (compression, filters) != (0, 0) or interlace > 1:
        raise ValueError(
            f"the header says compression {compression}, filters {filters} and interlacing {interlace}, which PNG does not have"
        )
    return width, height, depth, colours, interlace


def _stream_bytes(width: int, height: int, pixel_bits: int, passes: Sequence[tuple[int, int, int, int]]) -> int:
    """How many bytes the rows have, each with its filter."""
    total = 0
    for first_row, first_column, row_step, column_step in passes:
        rows = len(range(first_row, height, row_step))
        columns = len(range(first_column, width, column_step))
        if columns:
            total += rows * (1 + (columns * pixel_bits + 7) // 8)
    return total


def _check_rows(image: bytes) -> None:
    """Count what the pixels decompress to, without holding it. More than the header says is ignored, as in libpng.

    Raises:
        ValueError: Rows are missing, or damaged.
    """
    width, height, depth, colours, interlace = _header(image)
    expected = _stream_bytes(width, height, depth * CHANNELS.get(colours, 1), PASSES if interlace else WHOLE)
    inflater, found = zlib.decompressobj(), 0
    try:
        for piece in _pieces(image):
            rest: Any = piece
            while len(rest) and not inflater.eof and found <= expected:
                found += len(inflater.decompress(rest, PIECE))
                rest = inflater.unconsumed_tail
        if found < expected:
            found += len(inflater.flush())
    except zlib.error as error:
        raise ValueError(f"the compressed pixels are damaged ({error})") from error
    if found < expected:
        raise ValueError(f"{found} bytes of pixels instead of the {expected} of {height} x {width}")


def _pieces(image: bytes) -> Iterator[memoryview]:
    """The compressed pixels."""
    whole = memoryview(image)
    for kind, begin, end in chunks(image):
        if kind == b"IDAT":
            for at in range(begin, end, PIECE):
                yield whole[at : min(at + PIECE, end)]
