"""Kinds of encoded images, recognised by their first bytes, and the options for decoding them."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headrace.contracts.feature import ENCODINGS, SEVERAL_KINDS, Encoding

__all__ = ["SUFFIXES", "ImageOptions", "encoding_by_counts", "encoding_of", "encoding_of_all", "is_image_name"]


SUFFIXES: dict[str, Encoding] = {
    ".jpg": "jpeg",
    ".jpeg": "jpeg",
    ".jpe": "jpeg",
    ".jfif": "jpeg",
    ".png": "png",
    ".gif": "gif",
    ".bmp": "bmp",
    ".webp": "webp",
    ".tif": "tiff",
    ".tiff": "tiff",
}
"""The suffixes of images, in lower case."""

HEAD_BYTES = 32
BMP_HEAD_BYTES = 26
TIFF_HEAD_BYTES = 8


def encoding_of(image: bytes, size: int | None = None) -> Encoding | None:
    """The encoding of an image; ``None`` if the bytes are not an image. Native code has the same rules.

    Args:
        image: Its bytes; the first 32 are enough.
        size: The number of bytes, if these are not all.

    >>> encoding_of(b"GIF89a...")
    'gif'
    """
    size = len(image) if size is None else size
    if image.startswith(b"\xff\xd8\xff"):
        return "jpeg"
    if image.startswith(b"\x89PNG\r\n\x1a\n"):
        return "png"
    if image.startswith((b"GIF87a", b"GIF89a")):
        return "gif"
    if image.startswith(b"BM") and size >= BMP_HEAD_BYTES and int.from_bytes(image[2:6], "little") == size:
        return "bmp"
    if image.startswith(b"RIFF") and image[8:12] == b"WEBP":
        return "webp"
    if image.startswith((b"II*\0", b"MM\0*")) and size >= TIFF_HEAD_BYTES:
        return "tiff"
    return None


def encoding_of_all(images: Iterable[bytes | memoryview]) -> Encoding | None:
    """The encoding of all values; ``"image"`` if there are several, ``None`` if one is not an image."""
    kinds: set[Encoding] = set()
    for image in images:
        kind = encoding_of(bytes(image[:HEAD_BYTES]), len(image))
        if kind is None:
            return None
        kinds.add(kind)
    return None if not kinds else kinds.pop() if len(kinds) == 1 else SEVERAL_KINDS


def encoding_by_counts(values: int, images: Sequence[int]) -> Encoding | None:
    """The same from the counts of native code: of all ``values``, and of those of each kind, ``(not an image, *ENCODINGS)``."""
    if not values or sum(images[1:]) != values:
        return None
    kinds = [encoding for encoding, count in zip(ENCODINGS, images[1:], strict=True) if count]
    return kinds[0] if len(kinds) == 1 else SEVERAL_KINDS  # type: ignore[return-value]


def is_image_name(name: str) -> bool:
    """Whether a file name has the suffix of an image."""
    _, dot, end = name.rpartition(".")
    return dot + end.lower() in SUFFIXES


CHANNELS = (None, 1, 2, 3, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageOptions:
    """How :func:`headrace.open` decodes images: ``open(path, decode=ImageOptions(channels=3))``.

    Args:
        channels: Convert every image to 1 (grey), 2 (grey and alpha), 3 (RGB) or 4 (RGBA) channels. Missing channels are added (grey is
            repeated, alpha is opaque), others are dropped (colours become the luma of ITU-R BT.601). ``None``: the largest number
            found in the first images; an image with more is an error.
        any_size: Images may have any size. Otherwise, if the first images have one size, an image of another size is an error.
        oriented: Turn and mirror images by their EXIF orientation. Off by default, as in TensorFlow.
        most_pixels: Larger images are refused before memory is allocated for them. The default is the number above which
            Pillow warns; Pillow's own limit, ``PIL.Image.MAX_IMAGE_PIXELS``, also holds for all but JPEG.

    Raises:
        TypeError, ValueError: An option has another type or value.

    >>> ImageOptions(channels=3).channels
    3
    """

    channels: int | None = None
    any_size: bool = False
    oriented: bool = False
    most_pixels: int = 89_478_485

    def __post_init__(self) -> None:
        if self.channels not in CHANNELS:
            raise ValueError(f"channels must be 1, 2, 3, 4 or None, got {self.channels!r}")
        for name in ("any_size", "oriented"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name} is True or False, got {getattr(self, name)!r}")
        if operator.index(self.most_pixels) < 1:
            raise ValueError(f"most_pixels must be 1 or more, got {self.most_pixels}")
