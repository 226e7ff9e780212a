"""Decode image files to arrays with the channels and dtype that a feature declares."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace import _optional
from headrace.codecs.images.decode import ImageDecoder
from headrace.codecs.images.png import decode_png, is_png, plain_header
from headrace.contracts.feature import Feature
from headrace.contracts.images import ImageOptions
from headrace.errors import CorruptRecord, DataError, SchemaMismatch, UnsupportedData, Where
from headrace.io.system import usable_cores
from headrace.io.threads import ThreadPool

__all__ = ["decode_images"]

Shape = tuple[int | None, ...]
LUMA = (9797, 19234, 3737)
"""Weights of red, green and blue in gray, out of 32768: those of libpng, which TensorFlow uses."""
WORTH_A_THREAD = 64 << 10  # pixels: below this, passing work to a thread takes longer than decoding
OPTIONS = ImageOptions(most_pixels=1 << 30)
_pools: dict[int, ThreadPool] = {}


def decode_images(files: Sequence[bytes], shape: Shape, dtype: str) -> Any:
    """Decode ``n`` image files, on all cores if they are large enough.

    Args:
        files: PNG, JPEG, GIF, BMP, WebP or TIFF.
        shape: ``(height, width, channels)``, or ``(frames, height, width, channels)`` for animations; ``None`` or 0 for
            any length.
        dtype: ``"uint8"`` or ``"uint16"``.

    Returns:
        ``ndarray (n, *shape)``, or a list of arrays if their shapes differ.

    Raises:
        CorruptRecord: A file is damaged; ``where.record`` is its position.
        SchemaMismatch: An image has another shape.
        MissingExtra: Pillow or simplejpeg is needed and not installed.
    """
    wanted = tuple(length or None for length in shape)
    if not files:
        return np.zeros((0, *(length or 0 for length in wanted)), dtype)
    if len(wanted) == 4:
        return _stack_or_list([_animation(file, wanted, position) for position, file in enumerate(files)])
    if is_png(files[0]):
        pixels = _png_batch(files, wanted, dtype)
        if pixels is not None:
            return pixels
    return _decode_each(files, wanted, dtype)


def _png_batch(files: Sequence[bytes], shape: Shape, dtype: str) -> npt.NDArray[Any] | None:
    """Decode PNG files of one size by native code; ``None`` if it does not support one of them."""
    header = plain_header(files[0])
    if header is None or header.is_packed:
        return None
    if header.width * header.height < WORTH_A_THREAD:
        pixels = decode_png(files, header)
    else:
        parts = _in_threads(lambda part: decode_png(part, header), _parts(files))
        pixels = None if any(part is None for part in parts) else np.concatenate(parts)
    if pixels is None or (pixels.shape[1:] == shape and pixels.dtype == dtype):
        return pixels
    return _check_shape(_convert(pixels, shape[-1], dtype), shape)


def _decode_each(files: Sequence[bytes], shape: Shape, dtype: str) -> Any:
    """Decode files of any kind in parallel."""
    decoder = _decoder(shape, dtype)
    if None not in shape:
        height, width, channels = (length or 0 for length in shape)
        return _decode_same_size(files, decoder, (len(files), height, width, channels), dtype)
    parts = _parts(files)
    found = _in_threads(lambda part: _decode_one_by_one(part, decoder, shape, dtype), parts)
    return _stack_or_list([image for part in found for image in part])


@lru_cache(maxsize=256)
def _decoder(shape: Shape, dtype: str) -> ImageDecoder:
    return ImageDecoder(Feature(dtype, shape, encoding="image"), OPTIONS, exact=True)


def _decode_same_size(
    files: Sequence[bytes], decoder: ImageDecoder, shape: tuple[int, ...], dtype: str
) -> npt.NDArray[Any]:
    """Decode images of one size in parallel, each directly into its row."""
    out = decoder.allocated(shape, files)
    _, height, width, _ = shape
    bounds = _bounds(len(files)) if len(files) * height * width > WORTH_A_THREAD else [(0, len(files))]

    def fill(bound: tuple[int, int]) -> None:
        start, stop = bound
        for position in range(start, stop):
            file = files[position]
            try:
                if is_png(file):
                    out[position] = _decode_one_by_one([file], decoder, shape[1:], dtype)[0]
                else:
                    decoder.into(file, out[position])
            except DataError as error:
                raise error.relocated(Where(record=position - start)) from error.__cause__

    _in_threads(fill, bounds)
    return out


def _decode_one_by_one(
    files: Sequence[bytes], decoder: ImageDecoder, shape: Shape, dtype: str
) -> list[npt.NDArray[Any]]:
    """Decode files of any kind and size one by one."""
    found = []
    for position, file in enumerate(files):
        try:
            pixels = _png_batch([file], shape, dtype) if is_png(file) else None
            found.append(decoder.images([file])[0] if pixels is None else pixels[0])
        except DataError as error:
            raise error.relocated(Where(record=position)) from error.__cause__
    return found


def _stack_or_list(images: list[npt.NDArray[Any]]) -> Any:
    if len(images) == 1:
        return images[0][None]
    return np.stack(images) if all(image.shape == images[0].shape for image in images) else images


def _bounds(count: int) -> list[tuple[int, int]]:
    """Split a count into consecutive parts, a few per core, because files take different times."""
    parts = min(count, 2 * usable_cores())
    return [(count * i // parts, count * (i + 1) // parts) for i in range(parts)]


def _parts(files: Sequence[bytes]) -> list[Sequence[bytes]]:
    total = sum(map(len, files))
    return [files[a:b] for a, b in _bounds(len(files))] if total >= WORTH_A_THREAD and len(files) > 1 else [files]


def _in_threads(function: Callable[[Any], Any], parts: Sequence[Any]) -> list[Any]:
    """Apply ``function`` to every part. Of several faults, raise that of the first part."""
    if len(parts) == 1:
        return [function(parts[0])]
    pool = _pools.get(os.getpid())  # a forked child has no threads of its parent
    if pool is None:
        pool = _pools.setdefault(os.getpid(), ThreadPool(usable_cores(), thread_name_prefix="headrace-images"))
    jobs = [pool.submit(function, part) for part in parts]
    found, before, fault = [], 0, None
    for job, part in zip(jobs, parts, strict=True):
        try:
            found.append(job.result())
        except DataError as error:
            fault = fault or error.relocated(Where(record=before + (error.where.record or 0)))
        before += part[1] - part[0] if isinstance(part, tuple) else len(part)
    if fault is not None:
        raise fault
    return found


def _animation(file: bytes, shape: Shape, position: int) -> npt.NDArray[Any]:
    pillow = _optional.require("PIL.Image", extra="images")
    frames, pixels = [], 0
    try:
        with pillow.open(io.BytesIO(file)) as image:
            for number in range(getattr(image, "n_frames", 1)):
                pixels += image.width * image.height
                if pixels > OPTIONS.most_pixels:
                    raise UnsupportedData(  # noqa: TRY301 - the limit belongs where the frames are counted
                        Where(record=position),
                        expected=f"at most {OPTIONS.most_pixels} pixels",
                        found=f"an animation of more, {image.width} x {image.height} each",
                    )
                image.seek(number)
                frames.append(np.asarray(image.convert("RGB")))
    except DataError:
        raise
    except Exception as error:
        raise CorruptRecord(
            Where(record=position), expected="an intact animation", found=str(error) or type(error).__name__
        ) from error
    return _check_shape(_convert(np.stack(frames), shape[-1], "uint8")[None], shape, position)[0]  # type: ignore[no-any-return]


def _convert(pixels: npt.NDArray[Any], channels: int | None, dtype: str) -> npt.NDArray[Any]:
    """Convert pixels ``(n, height, width, any)`` to the declared channels and dtype."""
    if pixels.dtype != dtype:
        pixels = (pixels >> 8).astype(np.uint8) if dtype == "uint8" else pixels.astype(np.uint16) * 257
    found = pixels.shape[-1]
    if channels in (None, found):
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
    rounding = 1 << 14 if colours.dtype == np.uint16 else 0  # as in libpng, which only rounds those of 16 bits
    gray: npt.NDArray[Any] = (red + green + blue + np.uint32(rounding)) >> 15
    return gray.astype(colours.dtype)


def _check_shape(pixels: npt.NDArray[Any], shape: Shape, position: int = 0) -> npt.NDArray[Any]:
    """Check that images, which share a shape, have the declared one."""
    found = pixels.shape[1:]
    if len(found) != len(shape) or any(a not in (None, b) for a, b in zip(shape, found, strict=True)):
        raise SchemaMismatch(Where(record=position), expected=f"images of shape {shape}", found=f"one of shape {found}")
    return pixels
