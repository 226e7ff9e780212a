"""How images are decoded."""

from __future__ import annotations

import operator
from dataclasses import dataclass

__all__ = ["ImageOptions"]

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
