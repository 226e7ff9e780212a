"""The EXIF orientation of encoded images: which of them surely have none, so that the fast decoders may read them."""

from __future__ import annotations

from typing import Any

__all__ = ["LYING", "orientation_of", "surely_upright"]

ORIENTATION = 0x0112
LYING = (5, 6, 7, 8)
"""The orientations that exchange height and width."""
MARKER, SCAN, FILL = 0xFF, 0xDA, 0xFF
JPEG_MARKS = (b"Exif", b"tiff:Orientation")
PNG_MARKS = (b"eXIf", b"Raw profile type", b"XML:com.adobe.xmp")
"""Pillow takes an orientation from EXIF and from XMP. Without any of these bytes, there is none."""


def surely_upright(image: bytes) -> bool:
    """Whether an image is a JPEG or PNG without an orientation. ``False``: :func:`orientation_of` has to look."""
    if image.startswith(b"\x89PNG"):
        return not any(mark in image for mark in PNG_MARKS)
    if not image.startswith(b"\xff\xd8"):
        return False
    header = _jpeg_header(image)
    return not any(mark in header for mark in JPEG_MARKS)


def orientation_of(opened: Any) -> int:
    """The orientation, 1 to 8, that an image has in Pillow. Pillow applies that of a TIFF itself, so it counts as 1."""
    found = opened.getexif().get(ORIENTATION, 1)
    return found if found in range(2, 9) and opened.format != "TIFF" else 1


def _jpeg_header(image: bytes) -> bytes:
    """The segments before the pixels; all bytes if they are not in order."""
    at = len(b"\xff\xd8")
    while at + 4 <= len(image) and image[at] == MARKER:
        if image[at + 1] == SCAN:
            return image[:at]
        at += 1 if image[at + 1] == FILL else 2 + int.from_bytes(image[at + 2 : at + 4], "big")
    return image
