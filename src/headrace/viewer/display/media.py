"""Images and recordings of a value, as bytes that a browser shows and never runs."""

from __future__ import annotations

import io
import wave
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.codecs.images.encode import ImageEncoder, Pixels, convert_pixels
from headrace.codecs.images.open import open_image
from headrace.codecs.images.views import decoder_of, feature_of_views
from headrace.contracts.feature import Feature
from headrace.contracts.images import ImageOptions, encoding_of
from headrace.contracts.strings import Strings
from headrace.contracts.values import Ragged
from headrace.errors import UnsupportedData, Where
from headrace.viewer.display.cells import audio_type, is_image_like

__all__ = ["MOST_PIXELS", "Media", "image_of", "item_of", "recording_of", "wave_of"]

MOST_PIXELS = 40_000_000
MOST_MEDIA_BYTES = 64 << 20
SHOWN_AS_STORED = {
    "jpeg": "image/jpeg",
    "png": "image/png",
    "gif": "image/gif",
    "webp": "image/webp",
    "bmp": "image/bmp",
}
"""Encodings that browsers show. Others are encoded again. Headrace does not recognise SVG, so it is never shown."""
GREY, COLOURS = 1, 3
DEFAULT_RATE = 16_000


@dataclass(frozen=True, slots=True)
class Media:
    """Bytes to show, with their media type."""

    body: bytes
    media_type: str


def item_of(value: Any, item: int) -> Any:
    """The ``item``-th image or recording of a value, counted in order; arrays of pixels count as one.

    Raises:
        IndexError: There are fewer.
    """
    if isinstance(value, (bytes, np.bytes_)) or is_image_like(value):
        if item:
            raise IndexError(f"the value holds one image, so there is no number {item}")
        return value
    if isinstance(value, Strings):
        return value.reshape(-1)[item]
    if isinstance(value, (Ragged, list)) or (isinstance(value, np.ndarray) and value.dtype == object):
        return value[item]
    raise IndexError("the value holds no image")


def image_of(value: Any, feature: Feature, size: int) -> Media:
    """An image to show.

    Args:
        value: Its encoded bytes, or an array of pixels.
        feature: Its feature, as stored.
        size: The longer side in pixels that it is scaled down to; 0: the whole image, as it is stored where browsers show that.

    Raises:
        UnsupportedData: It is too large, or no image.
        Exception: It is damaged.
    """
    if isinstance(value, np.ndarray):
        if value.ndim not in (2, 3):
            found = f"an array of shape {value.shape}"
            raise UnsupportedData(
                Where(), expected="an image: (height, width) or (height, width, channels)", found=found
            )
        return _encode(_scale_down(_three_axes(value), size))
    image = bytes(value)
    if len(image) > MOST_MEDIA_BYTES:
        raise UnsupportedData(
            Where(), expected=f"an image of at most {MOST_MEDIA_BYTES:,} bytes", found=f"{len(image):,} bytes"
        )
    kind = encoding_of(image)
    if not size and kind in SHOWN_AS_STORED:
        return Media(image, SHOWN_AS_STORED[kind])
    header = open_image(image)
    if header.height * header.width > MOST_PIXELS:
        raise UnsupportedData(
            Where(),
            expected=f"an image of at most {MOST_PIXELS:,} pixels",
            found=f"one of {header.height} x {header.width}",
        )
    scale = min(1.0, size / max(header.height, header.width)) if size else 1.0
    resize = None
    if scale < 1 and header.dtype == "uint8":
        resize = (max(1, round(header.height * scale)), max(1, round(header.width * scale)))
    options = ImageOptions(resize=resize, any_size=True, most_pixels=MOST_PIXELS)
    stored = Feature("bytes", encoding=feature.encoding or kind)
    pixels = decoder_of(feature_of_views(stored, [image], options), options, exact=True).images([image])[0]
    return _encode(_scale_down(np.asarray(pixels), size))


def _three_axes(pixels: Pixels) -> Pixels:
    return pixels[:, :, None] if pixels.ndim == 2 else pixels


def _scale_down(pixels: Pixels, size: int) -> Pixels:
    """Fewer pixels, by leaving some out: for pixels that no decoder scales."""
    step = max(1, -(-max(pixels.shape[:2]) // size)) if size else 1
    return pixels[::step, ::step]


def _encode(pixels: Pixels) -> Media:
    """Photographs as JPEG where they are large and opaque, others as PNG."""
    shown = np.ascontiguousarray(convert_pixels(pixels, pixels.shape[2], "uint8"))
    channels = shown.shape[2]
    is_photograph = channels in (GREY, COLOURS) and shown.shape[0] * shown.shape[1] > 64 * 64
    encoder = ImageEncoder(
        "image", Feature("uint8", (None, None, channels), encoding="jpeg" if is_photograph else "png")
    )
    return Media(encoder.encoded(shown, 0), "image/jpeg" if is_photograph else "image/png")


def recording_of(value: Any) -> Media:
    """An encoded recording.

    Raises:
        UnsupportedData: It is none, or too large.
    """
    kind = audio_type(value) if isinstance(value, bytes) else None
    if kind is None or len(value) > MOST_MEDIA_BYTES:
        raise UnsupportedData(
            Where(), expected="a WAV, FLAC, Ogg or MP3 recording of at most 64 MiB", found="something else"
        )
    return Media(value, kind)


def wave_of(samples: Any, rate: int | None) -> Media:
    """Samples as a WAV file of 16 bits.

    Args:
        samples: ``(n,)`` or ``(n, channels)``: integers of 16 bits in any integer type, or floats from -1 to 1.
        rate: Samples per second.
    """
    array = np.asarray(samples)[: MOST_MEDIA_BYTES // 2]
    if array.dtype.kind == "f":
        array = np.nan_to_num(array) * 32767
    whole = np.clip(array, -32768, 32767).astype("<i2")
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(whole.shape[1] if whole.ndim > 1 else 1)
        file.setsampwidth(2)
        file.setframerate(rate or DEFAULT_RATE)
        file.writeframes(whole.tobytes())
    return Media(out.getvalue(), "audio/wav")
