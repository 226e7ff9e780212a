"""What Pillow and libtiff do not check or read in a TIFF: the JPEGs inside, 16-bit colours, inverted and signed samples.

Source of the format: Adobe, TIFF, Revision 6.0 (1992), sections 7 and 15 (strips and tiles), 8 (photometric interpretation), 19 (sample
format) and 21 (YCbCr subsampling); TIFF Technical Note 2 (JPEG).
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from headrace import _native
from headrace.codecs.images.encode import Pixels

__all__ = ["check_parts", "deep_pixels", "has_deep_colours", "is_inverted"]


WIDTH, LENGTH, BITS, COMPRESSION, PHOTOMETRIC, SAMPLES, ROWS_PER_STRIP = 256, 257, 258, 259, 262, 277, 278
PLANES, TILE_WIDTH, TILE_LENGTH, SAMPLE_FORMAT, JPEG_TABLES, SUBSAMPLING = 284, 322, 323, 339, 347, 530
STRIPS, TILES = (273, 279), (324, 325)
"""The tags of the offsets of strips or tiles, and of their sizes."""
JPEG, JPEG_END, WHITE_IS_ZERO, YCBCR, SEPARATE, SIGNED = 7, b"\xff\xd9", 0, 6, 2, 2
BYTE_BITS = 8
SWAPPED = {"L": "B", "B": "L", "N": "B" if sys.byteorder == "little" else "L"}
DEEP = ("RGB;16", "RGBX;16", "RGBA;16")
"""What Pillow calls interleaved colours of 16 bits, before a letter for their byte order."""


def has_deep_colours(opened: Any) -> bool:
    """Whether the pixels of a TIFF that Pillow opened have several samples of 16 bits, of which Pillow itself keeps 8.

    Raises:
        NotImplementedError: Pillow would misread its samples.
    """
    tags = opened.tag_v2
    if SIGNED in tags.get(SAMPLE_FORMAT, ()) and opened.mode == "L":
        raise NotImplementedError("a TIFF of signed 8-bit samples")
    bits = tags.get(BITS, (1,))
    if len(bits) == 1 or max(bits) <= BYTE_BITS:
        return False
    if tags.get(PLANES) == SEPARATE or _raw_mode(opened)[:-1] not in DEEP:
        raise NotImplementedError("a TIFF of 16-bit inks, or of 16-bit colours in planes or multiplied by alpha")
    return True


def deep_pixels(pillow: Any, image: bytes) -> Pixels:
    """The pixels of a TIFF with 16-bit colours as ``uint16``: Pillow keeps one byte of each sample, so it is read twice.

    Args:
        pillow: The module ``PIL.Image``.
        image: The TIFF.
    """
    upper, lower = (_one_half(pillow, image, is_swapped=is_swapped) for is_swapped in (False, True))
    return (upper.astype(np.uint16) << BYTE_BITS) | lower


def _one_half(pillow: Any, image: bytes, *, is_swapped: bool) -> Pixels:
    with pillow.open(io.BytesIO(image), formats=("TIFF",)) as opened:
        if is_swapped:
            opened.tile = [_swap_bytes(tile) for tile in opened.tile]
        return np.asarray(opened)


def _swap_bytes(tile: Any) -> Any:
    """A part of an image in Pillow, with the other byte order."""
    raw_mode, *others = tile[3]
    parts = (*tile[:3], (raw_mode[:-1] + SWAPPED[raw_mode[-1]], *others))
    return tile._make(parts) if hasattr(tile, "_make") else parts


def _raw_mode(opened: Any) -> str:
    """How the samples are stored, in Pillow's words."""
    return str(opened.tile[0][3][0]) if opened.tile else ""


def is_inverted(opened: Any) -> bool:
    """Whether 0 is white in 16-bit grey. Pillow inverts 8-bit grey itself."""
    return opened.tag_v2.get(PHOTOMETRIC) == WHITE_IS_ZERO and _raw_mode(opened) in ("I;16", "I;16N")


def check_parts(tags: Any, image: bytes) -> None:
    """Check that a TIFF has all of its strips or tiles, and the JPEGs in them.

    Raises:
        ValueError: A part is missing, or a JPEG is damaged, incomplete or too small.
    """
    for kind in (STRIPS, TILES):
        offsets, sizes = (tags.get(tag, ()) for tag in kind)
        wanted = list(_part_sizes(tags, is_tiled=kind is TILES)) if offsets else []
        if len(offsets) < len(wanted):
            raise ValueError(f"{len(offsets)} of its {len(wanted)} parts")
        if tags.get(COMPRESSION) == JPEG:
            for offset, size, shape in zip(offsets, sizes, wanted, strict=False):
                _check_jpeg(tags.get(JPEG_TABLES, b""), image[offset : offset + size], shape)


def _check_jpeg(tables: bytes, part: bytes, shape: tuple[int, int]) -> None:
    """Check the JPEG of a strip or tile; all of them share the tables in a tag.

    libtiff ignores libjpeg's warnings, as Pillow does. It only warns of a JPEG that is smaller than its part, and the other pixels are
    what was in memory before. It refuses larger ones itself, except a last strip, which it cuts off.
    """
    whole = tables[: -len(JPEG_END)] + part[len(JPEG_END) :] if tables else part
    if _native.is_jpeg_sound(whole + JPEG_END) is False:  # the end is often left out
        raise ValueError("the compressed pixels are damaged or incomplete")
    found = _jpeg_size(whole)
    if found is None or found[0] < shape[0] or found[1] < shape[1]:
        size = "unknown size" if found is None else "{} x {}".format(*found)
        raise ValueError("a JPEG of {} in a part of {} x {}".format(size, *shape))


def _part_sizes(tags: Any, *, is_tiled: bool) -> Iterator[tuple[int, int]]:
    """Height and width of every strip or tile, plane by plane if the planes are apart. Planes of colours may be smaller."""
    width, length = tags[WIDTH], tags[LENGTH]
    part = (tags[TILE_LENGTH], tags[TILE_WIDTH]) if is_tiled else (min(tags.get(ROWS_PER_STRIP, length), length), width)
    across, down = -(-width // max(part[1], 1)), -(-length // max(part[0], 1))
    planes = tags.get(SAMPLES, 1) if tags.get(PLANES) == SEPARATE else 1
    for plane in range(planes):
        wide, high = tags.get(SUBSAMPLING, (2, 2)) if plane > 0 and tags.get(PHOTOMETRIC) == YCBCR else (1, 1)
        for number in range(across * down):
            rows = part[0] if is_tiled else min(part[0], length - number * part[0])
            yield -(-rows // high), -(-part[1] // wide)


def _jpeg_size(image: bytes) -> tuple[int, int] | None:
    """Height and width in the frame header of a JPEG."""
    at = 2
    while at + 9 <= len(image) and image[at] == 0xFF:
        marker = image[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return int.from_bytes(image[at + 5 : at + 7], "big"), int.from_bytes(image[at + 7 : at + 9], "big")
        if marker == 0xFF:  # a fill byte
            at += 1
        else:
            at += 2 + int.from_bytes(image[at + 2 : at + 4], "big")
    return None
