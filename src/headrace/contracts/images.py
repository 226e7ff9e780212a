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
"""Ends of file names, in lower case, that mean an image."""

HEAD_BYTES = 32
BMP_HEAD_BYTES = 26
TIFF_HEAD_BYTES = 8


def encoding_of(image: bytes, size: int | None = None) -> Encoding | None:
    """What an encoded image is; ``None`` for what is none. Native code tells by the same rules.

    Args:
        image: Its bytes; the first 32 will do.
        size: How many it has, if these are not all.

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
    """What all of some values are; ``"image"`` where they are of several kinds, ``None`` where one is no image."""
    kinds: set[Encoding] = set()
    for image in images:
        kind = encoding_of(bytes(image[:HEAD_BYTES]), len(image))
        if kind is None:
            return None
        kinds.add(kind)
    return None if not kinds else kinds.pop() if len(kinds) == 1 else SEVERAL_KINDS


def encoding_by_counts(values: int, images: Sequence[int]) -> Encoding | None:
    """The same from what native code counts: ``values`` in all, and of each kind ``(none, *ENCODINGS)`` so many."""
    if not values or sum(images[1:]) != values:
        return None
    kinds = [encoding for encoding, count in zip(ENCODINGS, images[1:], strict=True) if count]
    return kinds[0] if len(kinds) == 1 else SEVERAL_KINDS  # type: ignore[return-value]


def is_image_name(name: str) -> bool:
    """Whether a file name ends as images do."""
    _, dot, end = name.rpartition(".")
    return dot + end.lower() in SUFFIXES


CHANNELS = (None, 1, 2, 3, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageOptions:
    """How :func:`headrace.open` decodes images, where the defaults do not suit: ``open(path, decode=ImageOptions(channels=3))``.

    Args:
        channels: Give every image so many: 1 (grey), 2 (grey and alpha), 3 (RGB) or 4 (RGBA). What an image lacks is added
            (grey is repeated, alpha is opaque), what it has too much is taken away (alpha is dropped, colours become the
            luma of ITU-R BT.601). ``None``: as many as the first images have at most; one with more is then an error.
        any_size: Images may have any size, even if the first ones are all of one size. Without it, where the first ones
            are, an image of another size is an error.
        oriented: Turn and mirror images as their EXIF orientation says. Off by default, as in TensorFlow: what is read is
            what the pixels are.
        most_pixels: Larger images are refused before anything is allocated for them. By default the number beyond which
            Pillow warns; Pillow's own limit, ``PIL.Image.MAX_IMAGE_PIXELS``, holds besides for all but JPEG.

    Raises:
        TypeError, ValueError: An option is none of those.

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
