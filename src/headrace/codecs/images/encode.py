"""Pixels to encoded images."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from headrace import _optional
from headrace.codecs.images.pixels import Pixels
from headrace.contracts.feature import IMAGE_AXES, Feature
from headrace.errors import SchemaMismatch, UnsupportedData, Where

__all__ = ["ImageEncoder"]

JPEG_QUALITY = 95
OPTIONS: dict[str, dict[str, Any]] = {"webp": {"lossless": True, "exact": True}}
CHANNELS = {"jpeg": (1, 3), "png": (1, 2, 3, 4), "webp": (3, 4), "bmp": (1, 3), "tiff": (1, 2, 3, 4)}


class ImageEncoder:
    """Encodes pixels as a feature says: ``"jpeg"`` with quality 95; ``"png"``, ``"webp"``, ``"bmp"`` and ``"tiff"`` lose nothing.

    Args:
        feature: dtype, shape and encoding of one image.

    Raises:
        UnsupportedData: There is no such kind of image with these channels and this depth.
    """

    def __init__(self, name: str, feature: Feature) -> None:
        self.name = name
        self.feature = feature
        self.kind = str(feature.encoding)
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
        """One image, encoded. What is encoded already stays as it is.

        Raises:
            SchemaMismatch: It has another shape or dtype.
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
        return _jpeg(image) if self.kind == "jpeg" else _by_pillow(image, self.kind)


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
