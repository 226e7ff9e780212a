"""Pixels of one kind from pixels of another. Arrays are ``(height, width, channels)`` of ``uint8`` or ``uint16``."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Pixels", "common_channels", "converted", "keyed", "turned"]

Pixels = npt.NDArray[Any]

GREY_ALPHA, RGB, RGBA = 2, 3, 4
LUMA = np.array(
    [19595, 38470, 7471], np.uint64
)  # 0.299, 0.587, 0.114 of ITU-R BT.601 in 1/65536, as libjpeg and Pillow have them
WIDE = 257  # 255 * 257 == 65535


def common_channels(found: set[int]) -> int:
    """The fewest channels that hold images of all these: colours if one has them, alpha if one has it."""
    return (RGB if max(found) >= RGB else 1) + bool(found & {GREY_ALPHA, RGBA})


def converted(pixels: Pixels, channels: int, dtype: str) -> Pixels:
    """The same image with so many channels, as ``dtype``.

    Grey is repeated for colours; alpha that is missing is opaque, alpha that is too much is dropped; colours become luma.
    ``uint8`` times 257 is ``uint16``, whose upper byte is ``uint8``.
    """
    if pixels.dtype != dtype:
        pixels = pixels.astype(np.uint16) * WIDE if dtype == "uint16" else (pixels >> 8).astype(np.uint8)
    if pixels.shape[2] == channels:
        return pixels
    colours, alpha = _parted(pixels)
    if channels < RGB and colours.shape[2] == RGB:
        colours = _luma(colours)
    elif channels >= RGB and colours.shape[2] == 1:
        colours = np.repeat(colours, RGB, axis=2)
    if channels in (1, RGB):
        return colours
    if alpha is None:
        alpha = np.full((*colours.shape[:2], 1), np.iinfo(pixels.dtype).max, pixels.dtype)
    return np.concatenate([colours, alpha], axis=2)


def _parted(pixels: Pixels) -> tuple[Pixels, Pixels | None]:
    """Grey or colours, and alpha."""
    if pixels.shape[2] in (1, RGB):
        return pixels, None
    return pixels[:, :, :-1], pixels[:, :, -1:]


def _luma(colours: Pixels) -> Pixels:
    return ((colours.astype(np.uint64) @ LUMA + 0x8000) >> 16).astype(colours.dtype)[:, :, None]


def keyed(pixels: Pixels, key: Any) -> Pixels:
    """Pixels with an alpha channel that is 0 where they have the colour ``key``, as PNG's ``tRNS`` means it."""
    alpha = np.where((pixels == np.asarray(key)).all(axis=2, keepdims=True), 0, np.iinfo(pixels.dtype).max)
    return np.concatenate([pixels, alpha.astype(pixels.dtype)], axis=2)


def turned(pixels: Pixels, orientation: int) -> Pixels:
    """The image upright, a view. ``orientation`` is EXIF's: 1 to 8; other numbers leave it as it is."""
    if orientation in (5, 6, 7, 8):
        pixels = pixels.swapaxes(0, 1)
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    return pixels
