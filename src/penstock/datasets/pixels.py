"""From image files to arrays of the number of channels and the dtype that a feature declares."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock import _optional
from penstock.codecs.png import decode_png, is_png, plain_header
from penstock.errors import CorruptRecord, DataError, SchemaMismatch, UnsupportedData, Where

__all__ = ["decode_images"]

Shape = tuple[int | None, ...]
LUMA = (9798, 19235, 3735)
"""Weights of red, green and blue in gray, of 32768: those of libpng, which TensorFlow uses."""
MOST_PIXELS = 1 << 30


def decode_images(files: Sequence[bytes], shape: Shape, dtype: str) -> Any:
    """Decode ``n`` image files.

    Args:
        files: PNG, JPEG, GIF, BMP or WebP.
        shape: ``(height, width, channels)``, or ``(frames, height, width, channels)`` for animations; ``None`` or 0 where
            any length will do.
        dtype: ``"uint8"`` or ``"uint16"``.

    Returns:
        ``ndarray (n, *shape)``, or a list of arrays where they differ in shape.

    Raises:
        CorruptRecord: A file is damaged; ``where.record`` is its position.
        SchemaMismatch: An image has another shape.
        MissingExtra: Pillow or simplejpeg, which it needs, is not installed.
    """
    if not files:
        return np.zeros((0, *(length or 0 for length in shape)), dtype)
    together = _png_batch(files, shape, dtype) if is_png(files[0]) else None
    if together is not None:
        return together
    images = [_decoded(file, shape, dtype, position) for position, file in enumerate(files)]
    return np.stack(images) if all(image.shape == images[0].shape for image in images) else images


def _png_batch(files: Sequence[bytes], shape: Shape, dtype: str) -> npt.NDArray[Any] | None:
    header = plain_header(files[0]) if len(shape) == 3 else None
    pixels = None if header is None else decode_png(files, header)
    if pixels is None or (pixels.shape[1:] == shape and pixels.dtype == dtype):
        return pixels
    return _checked(_converted(pixels, shape[-1], dtype), shape, 0)


def _decoded(file: bytes, shape: Shape, dtype: str, position: int) -> npt.NDArray[Any]:
    try:
        pixels = _pixels(file, shape, dtype)
        return _checked(pixels, (None, *shape), position)[0]
    except DataError as error:
        raise error.relocated(Where(record=position)) from error.__cause__


def _pixels(file: bytes, shape: Shape, dtype: str) -> npt.NDArray[Any]:
    """One image as ``(1, *shape)``."""
    if len(shape) == 4:
        return _animation(file, shape)
    if is_png(file):
        alone = _png_batch([file], (None, None, shape[-1]), dtype)
        if alone is not None:
            return alone
    elif file.startswith(b"\xff\xd8") and dtype == "uint8" and shape[-1] in (1, 3, None, 0):
        found = _jpeg(file, shape[-1] or 3)
        if found is not None:
            return found[None]
    return _converted(_with_pillow(file)[None], shape[-1], dtype)


def _jpeg(file: bytes, channels: int) -> npt.NDArray[Any] | None:
    """A JPEG's pixels; ``None`` where another library must read it (four colours)."""
    simplejpeg = _optional.require("simplejpeg", extra="images")
    try:
        found: npt.NDArray[Any] = simplejpeg.decode_jpeg(file, colorspace="GRAY" if channels == 1 else "RGB")
    except ValueError:
        return None
    return found


def _open(file: bytes) -> Any:
    pillow = _optional.require("PIL.Image", extra="images")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of sizes: checked below
            image = pillow.open(io.BytesIO(file))
    except Exception as error:
        raise CorruptRecord(
            Where(), expected="an image file", found=f"{len(file)} bytes that begin with {file[:8]!r}"
        ) from error
    if image.width * image.height > MOST_PIXELS:
        raise UnsupportedData(
            Where(), expected=f"at most {MOST_PIXELS} pixels", found=f"an image of {image.width} x {image.height}"
        )
    return image


def _with_pillow(file: bytes) -> npt.NDArray[Any]:
    image = _open(file)
    try:
        if image.mode in ("1", "CMYK", "YCbCr", "LAB", "HSV", "F"):
            image = image.convert("L" if image.mode == "1" else "RGB")
        elif image.mode in ("P", "PA") or "transparency" in image.info:
            image = image.convert("RGBA" if "transparency" in image.info or image.mode == "PA" else "RGB")
        image.load()
        pixels = np.asarray(image)
    except Exception as error:
        raise CorruptRecord(Where(), expected="a sound image file", found=str(error) or type(error).__name__) from error
    if pixels.dtype == np.int32:
        pixels = pixels.astype(np.uint16)
    return pixels[..., None] if pixels.ndim == 2 else pixels


def _animation(file: bytes, shape: Shape) -> npt.NDArray[Any]:
    image = _open(file)
    frames = []
    try:
        for number in range(getattr(image, "n_frames", 1)):
            image.seek(number)
            frames.append(np.asarray(image.convert("RGB")))
    except Exception as error:
        raise CorruptRecord(Where(), expected="a sound animation", found=str(error) or type(error).__name__) from error
    if shape[-1] not in (3, None, 0):
        raise UnsupportedData(Where(), expected="an animation of three channels", found=f"shape {shape}")
    return np.stack(frames)[None]


def _converted(pixels: npt.NDArray[Any], channels: int | None, dtype: str) -> npt.NDArray[Any]:
    """Pixels ``(n, height, width, any)`` with the channels and the dtype that are wanted."""
    if pixels.dtype.name != dtype:
        pixels = (pixels >> 8).astype(np.uint8) if dtype == "uint8" else pixels.astype(np.uint16) * 257
    found = pixels.shape[-1]
    if channels in (None, 0, found):
        return pixels
    has_alpha, wants_alpha = found in (2, 4), channels in (2, 4)
    colours = pixels[..., : found - has_alpha]
    if channels in (3, 4) and colours.shape[-1] == 1:
        colours = np.repeat(colours, 3, axis=-1)
    elif channels in (1, 2) and colours.shape[-1] == 3:
        colours = _gray(colours)
    if not wants_alpha:
        return np.ascontiguousarray(colours)
    alpha = pixels[..., -1:] if has_alpha else np.full_like(pixels[..., :1], np.iinfo(pixels.dtype).max)
    return np.concatenate([colours, alpha], axis=-1)


def _gray(colours: npt.NDArray[Any]) -> npt.NDArray[Any]:
    red, green, blue = (colours[..., i : i + 1].astype(np.uint32) * weight for i, weight in enumerate(LUMA))
    gray: npt.NDArray[Any] = (red + green + blue) >> 15
    return gray.astype(colours.dtype)


def _checked(pixels: npt.NDArray[Any], shape: Shape, position: int) -> npt.NDArray[Any]:
    wanted = shape if len(shape) == pixels.ndim else (None, *shape)
    fits = len(wanted) == pixels.ndim and all(a in (None, 0, b) for a, b in zip(wanted, pixels.shape, strict=True))
    if not fits:
        raise SchemaMismatch(
            Where(record=position), expected=f"images of shape {shape[-3:]}", found=f"one of shape {pixels.shape[1:]}"
        )
    return pixels
