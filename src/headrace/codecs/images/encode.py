"""Encode pixels as images, and convert between pixel types. Arrays are ``(height, width, channels)`` of ``uint8`` or ``uint16``."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace import _optional
from headrace.contracts.feature import IMAGE_AXES, Feature
from headrace.errors import SchemaMismatch, UnsupportedData, Where

__all__ = ["ImageEncoder", "Pixels", "apply_colour_key", "apply_orientation", "common_channels", "convert_pixels"]


Pixels = npt.NDArray[Any]

GREY_ALPHA, RGB, RGBA = 2, 3, 4
LUMA = (19595, 38470, 7471)
"""0.299, 0.587, 0.114 of ITU-R BT.601 in 1/65536, like libjpeg and Pillow. The luma of 16-bit samples still fits into 32 bits."""
LUMA_PIXELS = 1 << 14
"""So many at once stay in the cache."""
WIDE = 257  # 255 * 257 == 65535


def common_channels(found: set[int]) -> int:
    """The fewest channels that hold all these images: colour if any has it, alpha if any has it."""
    return (RGB if max(found) >= RGB else 1) + bool(found & {GREY_ALPHA, RGBA})


def convert_pixels(pixels: Pixels, channels: int, dtype: str) -> Pixels:
    """The same image with ``channels`` channels, as ``dtype``.

    Grey is repeated for colour, and colour becomes luma. Missing alpha is opaque, and excess alpha is dropped. ``uint8`` is
    multiplied by 257 for ``uint16``; the upper byte of ``uint16`` becomes ``uint8``.
    """
    if pixels.dtype != dtype:
        pixels = pixels.astype(np.uint16) * WIDE if dtype == "uint16" else (pixels >> 8).astype(np.uint8)
    if pixels.shape[2] == channels:
        return pixels
    colours, alpha = _split_alpha(pixels)
    if channels < RGB and colours.shape[2] == RGB:
        colours = _luma(colours)
    elif channels >= RGB and colours.shape[2] == 1:
        colours = np.repeat(colours, RGB, axis=2)
    if channels in (1, RGB):
        return colours
    if alpha is None:
        alpha = np.full((*colours.shape[:2], 1), np.iinfo(pixels.dtype).max, pixels.dtype)
    return np.concatenate([colours, alpha], axis=2)


def _split_alpha(pixels: Pixels) -> tuple[Pixels, Pixels | None]:
    """Split off the alpha channel, if any."""
    if pixels.shape[2] in (1, RGB):
        return pixels, None
    return pixels[:, :, :-1], pixels[:, :, -1:]


def _luma(colours: Pixels) -> Pixels:
    luma = np.empty((*colours.shape[:2], 1), colours.dtype)
    step = max(1, LUMA_PIXELS // max(1, colours.shape[1]))
    for top in range(0, len(colours), step):
        rows = colours[top : top + step].astype(np.uint32)
        luma[top : top + step, :, 0] = (
            rows[:, :, 0] * LUMA[0] + rows[:, :, 1] * LUMA[1] + rows[:, :, 2] * LUMA[2] + 0x8000
        ) >> 16
    return luma


def apply_colour_key(pixels: Pixels, key: Any) -> Pixels:
    """Add an alpha channel that is 0 for pixels of the colour ``key``, as in PNG's ``tRNS``."""
    alpha = np.where((pixels == np.asarray(key)).all(axis=2, keepdims=True), 0, np.iinfo(pixels.dtype).max)
    return np.concatenate([pixels, alpha.astype(pixels.dtype)], axis=2)


def apply_orientation(pixels: Pixels, orientation: int) -> Pixels:
    """The upright image, as a view. ``orientation`` is EXIF's, 1 to 8; other values change nothing."""
    if orientation in (5, 6, 7, 8):
        pixels = pixels.swapaxes(0, 1)
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    return pixels


JPEG_QUALITY = 95
OPTIONS: dict[str, dict[str, Any]] = {"webp": {"lossless": True, "exact": True}}
CHANNELS = {"jpeg": (1, 3), "png": (1, 2, 3, 4), "webp": (3, 4), "bmp": (1, 3), "tiff": (1, 2, 3, 4)}


class ImageEncoder:
    """Encodes pixels in the feature's encoding: ``"jpeg"`` with quality 95; ``"png"``, ``"webp"``, ``"bmp"`` and ``"tiff"`` losslessly.

    Args:
        feature: dtype, shape and encoding of one image.

    Raises:
        UnsupportedData: The encoding does not support these channels or this depth.
    """

    def __init__(self, name: str, feature: Feature) -> None:
        self.name = name
        self.feature = feature
        self.kind: str = str(feature.encoding)
        channels = feature.shape[-1]
        deep_colours = feature.dtype == "uint16" and (channels != 1 or self.kind not in ("png", "tiff"))
        known = CHANNELS.get(self.kind, ())
        if len(feature.shape) != IMAGE_AXES or deep_colours or (channels not in known and (channels or not known)):
            raise UnsupportedData(
                Where(feature=name),
                expected=f"one image a row to be encoded as {' or '.join(CHANNELS)}, of uint8 with as many channels as that has "
                "(of uint16: grey, as PNG or TIFF)",
                found=repr(feature),
            )

    def encoded(self, pixels: Any, record: int) -> bytes:
        """Encode one image. Encoded bytes are returned unchanged.

        Raises:
            SchemaMismatch: The image has another shape or dtype, or one that the encoding cannot hold.
        """
        if isinstance(pixels, bytes):
            return pixels
        image = np.ascontiguousarray(pixels)
        wanted = self.feature.shape
        fits = image.ndim == IMAGE_AXES and all(w in (None, n) for w, n in zip(wanted, image.shape, strict=True))
        if not fits or image.dtype != self.feature.dtype or image.shape[2] not in CHANNELS[self.kind]:
            raise SchemaMismatch(
                Where(record=record, feature=self.name),
                expected=f"pixels of {self.feature.dtype} with shape {wanted} for {self.kind}",
                found=f"{image.dtype} with shape {image.shape}",
            )
        try:
            return _jpeg(image) if self.kind == "jpeg" else _by_pillow(image, self.kind)
        except (ValueError, OSError) as error:  # too long a side for the encoding, or no pixel
            raise SchemaMismatch(
                Where(record=record, feature=self.name),
                expected=f"pixels that {self.kind} can hold",
                found=f"{image.dtype} with shape {image.shape}: {error}",
                hint="source.map can crop or resize images. JPEG holds up to 65,500 pixels a side, WebP 16,383.",
            ) from error


def _jpeg(pixels: Pixels) -> bytes:
    turbo = _optional.require("simplejpeg", extra="images")
    encoded: bytes = turbo.encode_jpeg(pixels, JPEG_QUALITY, "GRAY" if pixels.shape[2] == 1 else "RGB")
    return encoded


def _by_pillow(pixels: Pixels, kind: str) -> bytes:
    pillow = _optional.require("PIL.Image", extra="images")
    out = io.BytesIO()
    image = pillow.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
    image.save(out, kind.upper(), **OPTIONS.get(kind, {}))
    return out.getvalue()
