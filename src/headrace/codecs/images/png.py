"""What Pillow leaves out of PNG: checksums, and the lower byte of 16-bit samples.

Source of the layout: W3C, Portable Network Graphics (PNG) Specification, third edition, sections 5, 9 and 11.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from headrace.codecs.images.pixels import Pixels, keyed

__all__ = ["check_chunks", "deep_channels", "deep_pixels", "is_deep"]

SIGNATURE_BYTES = 8
FRAME_BYTES = 12  # length, type and checksum round the content of a chunk
DEPTH_AT, COLOUR_AT = 24, 25
HEADER = slice(SIGNATURE_BYTES, SIGNATURE_BYTES + FRAME_BYTES + 13)
GREY, COLOURS, GREY_ALPHA, COLOURS_ALPHA = 0, 2, 4, 6
CHANNELS = {GREY: 1, COLOURS: 3, GREY_ALPHA: 2, COLOURS_ALPHA: 4}


def is_deep(image: bytes) -> bool:
    """Whether a PNG has samples of 16 bits."""
    return len(image) > COLOUR_AT and image[DEPTH_AT] == 16 and image[COLOUR_AT] in CHANNELS


def _chunks(image: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Type, begin and end of the content of every chunk, up to the last one.

    Raises:
        ValueError: The image ends before its last chunk.
    """
    at, kind = SIGNATURE_BYTES, b""
    while kind != b"IEND":
        if len(image) - at < FRAME_BYTES:
            raise ValueError(f"the image ends at byte {len(image)} inside a chunk, before its last one")
        size = int.from_bytes(image[at : at + 4], "big")
        kind, begin = image[at + 4 : at + 8], at + 8
        at = begin + size + 4
        if at > len(image):
            raise ValueError(f"the chunk at byte {begin - 8} ends at byte {at} of an image of {len(image)} bytes")
        yield kind, begin, begin + size


def check_chunks(image: bytes) -> None:
    """Check that a PNG is there to its end and that the checksum of every chunk is right. Pillow looks at neither.

    Raises:
        ValueError: Says what is wrong, and at which byte.
    """
    whole = memoryview(image)
    for kind, begin, end in _chunks(image):
        found = zlib.crc32(whole[begin - 4 : end])
        if found != int.from_bytes(image[end : end + 4], "big"):
            raise ValueError(f"the chunk {kind.decode('latin1')!r} at byte {begin - 8} has a wrong checksum")


def deep_channels(image: bytes, transparency: Any) -> int:
    """The channels of a 16-bit PNG; a transparent colour makes an alpha channel."""
    return CHANNELS[image[COLOUR_AT]] + (transparency is not None)


def deep_pixels(pillow: Any, image: bytes, transparency: Any) -> Pixels:
    """The pixels of a 16-bit PNG as ``uint16 (h, w, c)``. Pillow alone gives those of grey images only.

    Args:
        pillow: The module ``PIL.Image``.
        image: The PNG, its chunks checked.
        transparency: What Pillow calls the transparent colour, or ``None``.
    """
    kind = image[COLOUR_AT]
    pixels = _as_bytes(pillow, image, kind) if kind in (GREY, GREY_ALPHA) else _in_halves(pillow, image, kind)
    return pixels if transparency is None else keyed(pixels, transparency)


def _as_bytes(pillow: Any, image: bytes, kind: int) -> Pixels:
    """Filters work on bytes: one sample of 16 bits is as good as two of 8, where there is a kind with twice the samples."""
    twice = {GREY: GREY_ALPHA, GREY_ALPHA: COLOURS_ALPHA}[kind]
    header = bytearray(image[HEADER])
    header[DEPTH_AT - SIGNATURE_BYTES], header[COLOUR_AT - SIGNATURE_BYTES] = 8, twice
    header[-4:] = struct.pack(">I", zlib.crc32(header[4:-4]))
    kept = [image[begin - 8 : end + 4] for name, begin, end in _chunks(image) if name in (b"IDAT", b"IEND")]
    rewritten = b"".join([image[:SIGNATURE_BYTES], header, *kept])
    with pillow.open(io.BytesIO(rewritten), formats=("PNG",)) as opened:
        return np.ascontiguousarray(opened).view(">u2").astype(np.uint16)


def _in_halves(pillow: Any, image: bytes, kind: int) -> Pixels:
    """Pillow keeps one byte of each sample. Which one depends on the byte order that it believes in, so ask for both."""
    mode = "RGB" if kind == COLOURS else "RGBA"
    upper, lower = (_one_half(pillow, image, f"{mode};16{order}") for order in "BL")
    return (upper.astype(np.uint16) << 8) | lower


def _one_half(pillow: Any, image: bytes, raw_mode: str) -> Pixels:
    with pillow.open(io.BytesIO(image), formats=("PNG",)) as opened:
        tile = opened.tile[0]
        parts = (*tile[:3], raw_mode)
        opened.tile = [tile._make(parts) if hasattr(tile, "_make") else parts]
        return np.asarray(opened)
