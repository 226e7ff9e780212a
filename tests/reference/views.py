"""Crop, resize and mirror, in the slowest and plainest way: one sample at a time in NumPy, and one draw at a time."""

from __future__ import annotations

import math

import numpy as np

FRACTION = 22


def bilinear(x: float) -> float:
    return max(0.0, 1.0 - abs(x))


def bicubic(x: float) -> float:
    x = abs(x)
    if x < 1:
        return (1.5 * x - 2.5) * x * x + 1
    return ((-0.5 * x + 2.5) * x - 4) * x + 2 if x < 2 else 0.0


def box(x: float) -> float:
    return 1.0 if -0.5 < x <= 0.5 else 0.0


def lanczos(x: float) -> float:
    return float(np.sinc(x) * np.sinc(x / 3)) if -3 <= x < 3 else 0.0


FILTERS = {"box": (box, 0.5), "bilinear": (bilinear, 1.0), "bicubic": (bicubic, 2.0), "lanczos": (lanczos, 3.0)}


def resize_columns(pixels: np.ndarray, length: int, interpolation: str) -> np.ndarray:
    """Resize the first axis."""
    before = len(pixels)
    if before == length:
        return pixels
    scale = before / length
    if interpolation == "nearest":
        return pixels[[min(int((i + 0.5) * scale), before - 1) for i in range(length)]]
    weight, support = FILTERS[interpolation]
    wide = max(scale, 1.0)
    out = np.empty((length, *pixels.shape[1:]), np.uint8)
    for i in range(length):
        centre = (i + 0.5) * scale
        begin = max(0, int(centre - support * wide + 0.5))
        end = min(before, int(centre + support * wide + 0.5))
        shares = np.array([weight((k - centre + 0.5) / wide) for k in range(begin, end)])
        fixed = np.trunc(shares / shares.sum() * (1 << FRACTION) + np.where(shares < 0, -0.5, 0.5)).astype(np.int64)
        total = np.tensordot(fixed, pixels[begin:end].astype(np.int64), 1) + (1 << (FRACTION - 1))
        out[i] = np.clip(total >> FRACTION, 0, 255)
    return out


def resize(pixels: np.ndarray, height: int, width: int, interpolation: str = "bilinear") -> np.ndarray:
    """Resize ``uint8 (h, w, channels)`` as Pillow 13: the rows first or the columns, colours weighed by their alpha."""
    if pixels.shape[2] in (2, 4) and interpolation != "nearest" and pixels.shape[:2] != (height, width):
        return divided_by_alpha(resize_samples(times_alpha(pixels), height, width, interpolation))
    return resize_samples(pixels, height, width, interpolation)


def resize_samples(pixels: np.ndarray, height: int, width: int, interpolation: str) -> np.ndarray:
    if pixels.shape[0] - height > 2 * max(0, pixels.shape[1] - width):
        pixels = resize_columns(pixels, height, interpolation)
    narrow = resize_columns(pixels.swapaxes(0, 1), width, interpolation).swapaxes(0, 1)
    return resize_columns(narrow, height, interpolation)


def times_alpha(pixels: np.ndarray) -> np.ndarray:
    alpha = pixels[:, :, -1:].astype(int)
    colours = np.floor(pixels[:, :, :-1] * alpha / 255 + 0.5)
    return np.concatenate([colours.astype(np.uint8), pixels[:, :, -1:]], axis=2)


def divided_by_alpha(pixels: np.ndarray) -> np.ndarray:
    alpha = pixels[:, :, -1:].astype(int)
    colours = np.minimum(255 * pixels[:, :, :-1].astype(int) // np.maximum(alpha, 1), 255)
    kept = np.where(alpha == 0, pixels[:, :, :-1], colours)
    return np.concatenate([kept.astype(np.uint8), pixels[:, :, -1:]], axis=2)


def random_part(height: int, width: int, scale, ratio, draws) -> tuple[int, int, int, int]:
    """Top, left, height and width of the part that ``draws`` (41 numbers, the first is for mirroring) give."""
    low, high = math.log(ratio[0]), math.log(ratio[1])
    for k in range(1, 41, 4):
        area, shape, down, across = (float(each) for each in draws[k : k + 4])
        pixels = height * width * (scale[0] + (scale[1] - scale[0]) * area)
        aspect = math.exp(low + (high - low) * shape)
        columns, rows = round(math.sqrt(pixels * aspect)), round(math.sqrt(pixels / aspect))
        if 0 < columns <= width and 0 < rows <= height:
            return int(down * (height - rows + 1)), int(across * (width - columns + 1)), rows, columns
    rows, columns = height, width
    if width / height < ratio[0]:
        rows = max(1, round(width / ratio[0]))
    elif width / height > ratio[1]:
        columns = max(1, round(height * ratio[1]))
    return (height - rows) // 2, (width - columns) // 2, rows, columns


def view(pixels: np.ndarray, options, draws) -> np.ndarray:
    """What :class:`headrace.ImageOptions` make of the pixels of an image, as ``uint8 (h, w, channels)``."""
    height, width = pixels.shape[:2]
    if options.crop is not None:
        top, left, rows, columns = random_part(height, width, options.crop.scale, options.crop.ratio, draws)
        pixels = resize(pixels[top : top + rows, left : left + columns], *options.crop.size, options.interpolation)
    elif isinstance(options.resize, tuple):
        pixels = resize(pixels, *options.resize, options.interpolation)
    elif options.resize is not None:
        short = min(height, width)
        sides = (max(1, side * options.resize // short) for side in (height, width))
        pixels = resize(pixels, *sides, options.interpolation)
    if options.center_crop is not None:
        height, width = pixels.shape[:2]
        top, left = round((height - options.center_crop[0]) / 2), round((width - options.center_crop[1]) / 2)
        pixels = pixels[top : top + options.center_crop[0], left : left + options.center_crop[1]]
    return pixels[:, ::-1] if options.flip and draws[0] < 0.5 else pixels
