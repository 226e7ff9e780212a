"""Which kind of image some bytes are, by how they begin."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.contracts.feature import ENCODINGS, SEVERAL_KINDS, Encoding

__all__ = ["SUFFIXES", "encoding_by_counts", "encoding_of", "encoding_of_all", "is_image_name"]

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
