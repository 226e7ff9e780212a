"""What Pillow and libtiff do not check or read in a TIFF: the JPEGs inside, 16-bit colours, inverted and signed samples.

Source of the format: Adobe, TIFF, Revision 6.0 (1992), sections 7 and 15 (strips and tiles), 8 (photometric interpretation), 19 (sample
format) and 21 (YCbCr subsampling); TIFF Technical Note 2 (JPEG).
"""

from __future__ import annotations

import io
import math
import re
import struct
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from headrace import _native
from headrace.codecs.images.encode import Pixels

__all__ = ["check_parts", "check_scans", "deep_pixels", "has_deep_colours", "is_inverted", "refuse_unknown"]


WIDTH, LENGTH, BITS, COMPRESSION, PHOTOMETRIC, SAMPLES, ROWS_PER_STRIP = 256, 257, 258, 259, 262, 277, 278
PLANES, TILE_WIDTH, TILE_LENGTH, SAMPLE_FORMAT, JPEG_TABLES, SUBSAMPLING = 284, 322, 323, 339, 347, 530
STRIPS, TILES = (273, 279), (324, 325)
"""The tags of the offsets of strips or tiles, and of their sizes."""
JPEG, JPEG_END, WHITE_IS_ZERO, YCBCR, SEPARATE, SIGNED = 7, b"\xff\xd9", 0, 6, 2, 2
PLACE_OF_DIRECTORY = 4  # after the byte order and the number 42
ENTRY_BYTES, ENTRY_VALUE_BYTES, WHOLE = 12, 4, {3: "H", 4: "I"}
BYTE_BITS = 8
BLOCK = 16
"""Rows and columns of the largest blocks that a JPEG consists of."""
LARGE_TILE = 1 << 24
"""Pixels that a tile may have in an image of fewer."""
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


def refuse_unknown(image: bytes) -> None:
    """Tell a TIFF of a kind that Pillow does not know from a damaged one: its first directory and all of its parts are there.

    Raises:
        NotImplementedError: It is whole.
    """
    order = "<" if image.startswith(b"II") else ">"
    try:
        (at,) = struct.unpack_from(f"{order}I", image, PLACE_OF_DIRECTORY)
        (count,) = struct.unpack_from(f"{order}H", image, at)
        entries = range(at + 2, at + 2 + ENTRY_BYTES * count, ENTRY_BYTES)
        tags = {struct.unpack_from(f"{order}H", image, entry)[0]: _numbers(image, entry, order) for entry in entries}
    except struct.error:
        return
    places = [(tags.get(offsets, ()), tags.get(sizes, ())) for offsets, sizes in (STRIPS, TILES)]
    ends = [offset + size for offsets, sizes in places for offset, size in zip(offsets, sizes, strict=False)]
    if ends and max(ends) <= len(image):
        bits, (samples,), (photometric,) = tags.get(BITS, (1,)), tags.get(SAMPLES, (1,)), tags.get(PHOTOMETRIC, (-1,))
        raise NotImplementedError(
            f"a TIFF with {samples} samples of {max(bits)} bits, this byte order, and photometric interpretation {photometric}"
        )


def _numbers(image: bytes, entry: int, order: str) -> tuple[int, ...]:
    """The values of an entry of a directory, if they are whole numbers."""
    kind, count, _ = struct.unpack_from(f"{order}HII", image, entry + 2)
    if kind not in WHOLE or not count:
        return ()
    shape = f"{order}{count}{WHOLE[kind]}"
    is_inside = struct.calcsize(shape) <= ENTRY_VALUE_BYTES
    return struct.unpack_from(
        shape, image, entry + 8 if is_inside else struct.unpack_from(f"{order}I", image, entry + 8)[0]
    )


def check_parts(tags: Any, image: bytes) -> None:
    """Check that a TIFF has all of its strips or tiles, and the JPEGs in them.

    Raises:
        ValueError: A part is missing, or a JPEG is damaged, incomplete, or does not fit its part.
        NotImplementedError: A JPEG has too many scans.
    """
    for kind in (STRIPS, TILES):
        offsets, sizes = (tags.get(tag, ()) for tag in kind)
        if not offsets:
            continue
        grid = _Grid.of(tags, is_tiled=kind is TILES)
        if len(offsets) < grid.total:  # before any work for each, because a few bytes may declare billions
            raise ValueError(f"{len(offsets)} of its {grid.total} parts")
        if tags.get(COMPRESSION) == JPEG:
            _check_jpegs(grid, tags.get(JPEG_TABLES, b""), list(zip(offsets, sizes, strict=False)), image)


def _check_jpegs(grid: _Grid, tables: bytes, places: list[tuple[int, int]], image: bytes) -> None:
    """Check the JPEG of each strip or tile; all of them share the tables in a tag. Parts at one place are checked once.

    libtiff ignores libjpeg's warnings, as Pillow does. It only warns of a JPEG that is smaller than its part, and the other pixels are
    what was in memory before. It refuses larger ones itself, except a last strip, which it cuts off.
    """
    if sum(size for _, size in set(places)) > len(image):
        raise ValueError("parts that overlap")
    if grid.is_tiled and math.prod(grid.part) > max(grid.width * grid.length, LARGE_TILE):
        raise ValueError("tiles of {} x {}".format(*grid.part))
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for (offset, size), (shape, most_rows) in zip(places, grid.parts(), strict=False):
        part = image[offset : offset + size]
        whole = tables[: -len(JPEG_END)] + part[len(JPEG_END) :] if tables else part
        is_new = (offset, size) not in found
        if is_new:
            found[offset, size] = _jpeg_size(whole)
        height, width = found[offset, size]
        if not (
            shape[0] <= height <= most_rows and width == shape[1]
        ):  # first: the other checks take time for each pixel
            raise ValueError("a JPEG of {} x {} in a part of {} x {}".format(height, width, *shape))
        if is_new:
            check_scans(whole)
            if _native.is_jpeg_sound(whole + JPEG_END) is False:  # the end is often left out
                raise ValueError("the compressed pixels are damaged or incomplete")


class _Grid(NamedTuple):
    """The strips or tiles of a TIFF."""

    width: int
    length: int
    part: tuple[int, int]
    """Height and width of a whole one."""
    is_tiled: bool
    planes: int
    subsampling: tuple[int, int]
    """Of the planes of colours: their width and height are divided by these."""

    @classmethod
    def of(cls, tags: Any, *, is_tiled: bool) -> _Grid:
        width, length = tags[WIDTH], tags[LENGTH]
        rows = min(tags.get(ROWS_PER_STRIP, length), length)
        part = (tags[TILE_LENGTH], tags[TILE_WIDTH]) if is_tiled else (rows, width)
        planes = tags.get(SAMPLES, 1) if tags.get(PLANES) == SEPARATE else 1
        subsampling = tags.get(SUBSAMPLING, (2, 2)) if tags.get(PHOTOMETRIC) == YCBCR else (1, 1)
        return cls(width, length, (max(part[0], 1), max(part[1], 1)), is_tiled, planes, subsampling)

    @property
    def in_plane(self) -> int:
        """How many a plane has."""
        return -(-self.width // self.part[1]) * -(-self.length // self.part[0])

    @property
    def total(self) -> int:
        """How many there are."""
        return self.planes * self.in_plane

    def parts(self) -> Iterator[tuple[tuple[int, int], int]]:
        """Height and width of each, plane by plane, and how many rows its JPEG may have. Planes of colours may be smaller."""
        for number in range(self.total):
            plane, at = divmod(number, self.in_plane)
            wide, high = self.subsampling if plane > 0 else (1, 1)
            left = self.part[0] if self.is_tiled else self.length - at * self.part[0]
            rows, columns = -(-min(self.part[0], left) // high), -(-self.part[1] // wide)
            # libtiff cuts off a last strip: it may be whole, and end with its last block.
            yield (rows, columns), rows if self.is_tiled or left > self.part[0] else -(-self.part[0] // BLOCK) * BLOCK


MOST_SCANS = 500
"""As many as libjpeg-turbo allows in its own tests. Each may take time for every pixel, and next to no bytes."""
NEXT_MARKER = re.compile(rb"\xff[^\x00\x01\xd0-\xd7\xff]")
"""A marker that is neither a stuffed byte, a restart nor filling."""
FILL_BYTES = re.compile(rb"\xff+")
START, SCAN, END = 0xD8, 0xDA, 0xD9


def check_scans(image: bytes) -> None:
    """Check that a JPEG has no more scans than any camera or program writes.

    Raises:
        NotImplementedError: It has.
    """
    if image.count(b"\xff\xda") <= MOST_SCANS:
        return
    scans, at = 0, 0  # Some of those bytes may be in a thumbnail, or in a film behind the image.
    while scans <= MOST_SCANS and (found := NEXT_MARKER.search(image, at)) is not None:
        at, marker = found.end(), image[found.start() + 1]
        if marker == END:
            return
        scans += marker == SCAN
        at += 0 if marker == START else int.from_bytes(image[at : at + 2], "big")
    if scans > MOST_SCANS:
        raise NotImplementedError(f"a JPEG of more than {MOST_SCANS} scans")


def skip_fill(image: bytes, at: int) -> int:
    """The last of the fill bytes from ``at`` on, with which a marker begins. There may be millions."""
    found = FILL_BYTES.match(image, at)
    return at if found is None else found.end() - 1


def _jpeg_size(image: bytes) -> tuple[int, int]:
    """Height and width in the frame header of a JPEG.

    Raises:
        ValueError: It has none.
    """
    at = 2
    while at + 9 <= len(image) and image[at] == 0xFF:
        marker = image[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return int.from_bytes(image[at + 5 : at + 7], "big"), int.from_bytes(image[at + 7 : at + 9], "big")
        if marker == 0xFF:
            at = skip_fill(image, at)
        else:
            at += 2 + int.from_bytes(image[at + 2 : at + 4], "big")
    raise ValueError("a part without the header of a JPEG")
