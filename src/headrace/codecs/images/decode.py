"""Decode columns of encoded images to columns of pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.codecs.images.encode import Pixels, common_channels
from headrace.codecs.images.open import BOMBS, ImageHeader, is_upright_jpeg, open_image, surely_upright
from headrace.codecs.images.png import PLAIN_PIXELS, decode_png, is_png, plain_header
from headrace.contracts.feature import IMAGE_AXES, Feature
from headrace.contracts.images import ImageOptions
from headrace.contracts.values import Ragged
from headrace.errors import CorruptRecord, DataError, MissingExtra, SchemaMismatch, UnsupportedData, Where
from headrace.io.engines import engines

__all__ = ["ANY_SIZE_HINT", "ImageDecoder", "feature_of_images", "image_headers"]

LEFT = "decode=False leaves images as the bytes that they are stored as."
ANY_SIZE_HINT = (
    "decode=ImageOptions(any_size=True) accepts all sizes; where a schema= gives the shape, None in it does."
)
NOT_READ = ("Unsupported JPEG data precision", "sampling not implemented", "Unsupported BMP bitfields layout")
"""What libraries say of images that are sound, but of a kind that they do not read."""
DEEPER_HINT = (
    "decode=ImageOptions(dtype='uint8') keeps the upper 8 bits of all images, and a schema= of uint16 all bits."
)
JPEG_START, JPEG_CHANNELS = b"\xff\xd8\xff", (1, 3)
TRUSTED_BYTES = 64 << 20
"""The most to allocate for a declared size before an image has confirmed it."""
LIKELY_BYTES = 128
"""How many bytes of pixels a byte of an image is believed to hold. Photographs have less than half; a larger claim needs a decoded image."""


def feature_of_images(stored: Feature, images: Sequence[bytes], options: ImageOptions) -> Feature:
    """The feature type of decoded images, as found from a sample.

    Args:
        stored: The feature of encoded images.
        images: The sample. Images with unreadable headers are ignored here; reading them raises the error.
        options: The decoding options.

    Returns:
        ``uint8`` (``uint16`` if any image has 16-bit samples) of shape ``(*stored.shape, height, width, channels)``. Height
        and width are ``None`` unless all of ``images`` agree; channels are ``None`` if no header could be read.

    Raises:
        MissingExtra: The packages that read images are not installed.
    """
    found = image_headers(images, options)
    sizes = {(header.height, header.width) for header in found}
    height, width = sizes.pop() if len(sizes) == 1 and not options.any_size else (None, None)
    channels = options.channels or (common_channels({header.channels for header in found}) if found else None)
    dtype = "uint16" if any(header.dtype == "uint16" for header in found) else "uint8"
    return Feature(dtype, (*stored.shape, height, width, channels), encoding=stored.encoding, steps=stored.steps)


def image_headers(images: Sequence[bytes], options: ImageOptions) -> list[ImageHeader]:
    """The headers of images, as far as they can be read."""
    return [header for image in images if (header := _header_or_none(image, options)) is not None]


def _header_or_none(image: bytes, options: ImageOptions) -> ImageHeader | None:
    try:
        return open_image(image, oriented=options.oriented)
    except MissingExtra:
        raise
    except Exception:  # noqa: BLE001 - Pillow raises errors of any class; reading this image raises it again, with its location
        return None


class ImageDecoder:
    """Decodes the images of one feature. Safe in threads; decoding releases the GIL.

    Args:
        feature: The decoded type: dtype and, in the last three axes, height, width and channels (``None`` if varying).
        options: The decoding options.
        exact: ``True`` converts images with more channels or deeper samples than ``feature``. ``False`` makes that an error,
            because the conversion would silently lose information.
    """

    def __init__(self, feature: Feature, options: ImageOptions, *, exact: bool) -> None:
        self.feature = feature
        self.options = options
        self.exact = exact
        self.height: int | None
        self.width: int | None
        self.channels: int | None
        self.height, self.width, self.channels = feature.shape[-IMAGE_AXES:]

    @property
    def draws(self) -> int:
        """How many random numbers an image needs."""
        return 0

    def column(self, column: Any, draws: npt.NDArray[np.float64] | None = None) -> Any:
        """Decode a column of images.

        Args:
            column: ``(n,)`` or ``(n, k)`` encoded images, or a :class:`Ragged` of them.
            draws: ``float64 (n, any)``: random numbers of each record, for a decoder that uses them.

        Returns:
            For ``(n,)``: ``ndarray (n, height, width, channels)`` if all have the same size, else a list of ``n`` arrays. For
            several images per record, the same nested: ``ndarray (n, k, ...)``, a :class:`Ragged` of stacked images, or
            nested lists.

        Raises:
            CorruptRecord, SchemaMismatch, UnsupportedData: ``where.record`` is the row of the first bad image.
        """
        if isinstance(column, Ragged):
            return self._decode_ragged(column, draws)
        flat = column.reshape(-1).tolist()
        per_row = max(1, len(flat) // max(1, len(column)))
        try:
            decoded = self.images(flat, None if draws is None else np.repeat(draws, per_row, axis=0))
        except DataError as error:
            raise error.relocated(Where(record=(error.where.record or 0) // per_row)) from error.__cause__
        if column.ndim == 1:
            return decoded
        if isinstance(decoded, np.ndarray):
            return decoded.reshape((*column.shape, *decoded.shape[1:]))
        return [decoded[start : start + per_row] for start in range(0, len(flat), per_row)]

    def _decode_ragged(self, column: Ragged, draws: npt.NDArray[np.float64] | None) -> Any:
        try:
            decoded = self.column(column.values, None if draws is None else np.repeat(draws, column.lengths, axis=0))
        except DataError as error:
            row = int(np.searchsorted(column.offsets, error.where.record or 0, side="right")) - 1
            raise error.relocated(Where(record=row)) from error.__cause__
        if isinstance(decoded, list):
            starts = column.offsets.tolist()
            return [decoded[start:stop] for start, stop in pairwise(starts)]
        return Ragged(decoded, column.offsets)

    def images(
        self,
        images: Sequence[bytes],
        draws: npt.NDArray[np.float64] | None = None,  # noqa: ARG002 - for decoders that derive from this one
    ) -> npt.NDArray[Any] | list[npt.NDArray[Any]]:
        """Decode ``n`` images: ``ndarray (n, height, width, channels)`` if they have the same size, else a list of arrays.

        Raises:
            CorruptRecord, SchemaMismatch, UnsupportedData: ``where.record`` is the position of the first bad image.
        """
        plain = self._plain_pngs(images)
        if plain is None:
            plain = self._plain_jpegs(images)
        if plain is not None:
            return plain
        opened: list[ImageHeader] = []
        try:
            for position, image in enumerate(images):
                opened.append(self._open(image, position))
        except DataError:
            self._fill(opened, images)  # an earlier image may be damaged after its header
            raise
        return self._fill(opened, images)

    def _plain_pngs(self, images: Sequence[bytes]) -> npt.NDArray[Any] | None:
        """Decode PNGs of one size and kind in native code; ``None`` if they differ, or if one is damaged (Pillow then reports it)."""
        header = plain_header(images[0]) if images and is_png(images[0]) else None
        if header is None or (self.options.oriented and not all(map(surely_upright, images))):
            return None
        if header.height * header.width > min(PLAIN_PIXELS, self.options.most_pixels):
            return None
        shape = (header.height, header.width, header.channels)
        wanted = (self.height or header.height, self.width or header.width, self.channels or header.channels)
        if shape != wanted or self.feature.dtype != header.dtype:
            return None
        if header.is_packed:  # A byte of the file may become 33,000 of pixels.
            self._confirm(images, math.prod(shape))
        try:
            return decode_png(images, header)
        except CorruptRecord:
            return None

    def _plain_jpegs(self, images: Sequence[bytes]) -> npt.NDArray[Any] | None:
        """Decode JPEGs of one known size in native code, and other images among them one by one; ``None`` if that gains nothing."""
        height, width, channels = self.height, self.width, self.channels
        if height is None or width is None or channels is None or self.feature.dtype != "uint8":
            return None
        if not engines().jpeg.is_own or height * width > self.options.most_pixels:
            return None
        if channels not in JPEG_CHANNELS or not images or not images[0].startswith(JPEG_START):
            return None
        self._confirm(images, height * width * channels)
        pixels, others = _native.decode_jpegs(self._upright_jpegs(images), height, width, channels)
        for position in others:
            self._decode(images[position], pixels[position], position)
        return pixels

    def _upright_jpegs(self, images: Sequence[bytes]) -> list[bytes]:
        """The images for native code, which knows no orientation: without those that have to be turned, it leaves them out."""
        if not self.options.oriented:
            return list(images)
        return [image if image.startswith(JPEG_START) and is_upright_jpeg(image) else b"" for image in images]

    def _fill(
        self, opened: Sequence[ImageHeader], images: Sequence[bytes]
    ) -> npt.NDArray[Any] | list[npt.NDArray[Any]]:
        shapes = [(header.height, header.width, self.channels or header.channels) for header in opened]
        stacked: npt.NDArray[Any] | None = None
        if len(set(shapes)) <= 1:
            shape = shapes[0] if shapes else (self.height or 0, self.width or 0, self.channels or 0)
            self._confirm(images[: len(opened)], math.prod(shape) * np.dtype(self.feature.dtype).itemsize)
            stacked = self._from_pool((len(opened), *shape))
        found: list[npt.NDArray[Any]] = []
        for position, header in enumerate(opened):
            # Each is allocated when the ones before have shown what they are.
            found.append(self._from_pool(shapes[position]) if stacked is None else stacked[position])
            try:
                header.pixels_into(found[position])
            except Exception as error:
                raise self._damage_error(error, images[position], position) from error
        return found if stacked is None else stacked

    def _confirm(self, images: Sequence[bytes], each: int, draws: npt.NDArray[np.float64] | None = None) -> None:
        """Before a lot of memory is allocated for images, decode by themselves those that declare more pixels than their bytes likely hold.

        Args:
            images: The images.
            each: How many bytes the result of each takes.
            draws: See :meth:`images`.

        Raises:
            CorruptRecord, SchemaMismatch, UnsupportedData: ``where.record`` is the position of the first bad image.
        """
        if len(images) * each <= TRUSTED_BYTES:
            return
        for position, image in enumerate(images):
            if each <= LIKELY_BYTES * len(image):
                continue
            try:
                self._decode_alone(image, position)
            except DataError:
                self.images(images[:position], None if draws is None else draws[:position])  # may be damaged, too
                raise

    def _decode_alone(self, image: bytes, position: int) -> None:
        """Decode an image that declares more pixels than its bytes likely hold, for nothing but its faults."""
        header = self._open(image, position)
        shape = (header.height, header.width, header.channels)
        if math.prod(shape) <= LIKELY_BYTES * len(image):
            return
        try:
            header.pixels_into(np.empty(shape, header.dtype))
        except Exception as error:
            raise self._damage_error(error, image, position) from error

    def allocated(self, shape: tuple[int, ...], images: Sequence[bytes]) -> Pixels:
        """Allocate batch memory for :meth:`into`. If a lot is requested, the first of the images must have the declared size, and those
        that are small for it must be sound.
        """
        if math.prod(shape) > TRUSTED_BYTES:
            self._open(images[0], 0)
        self._confirm(images, math.prod(shape[1:]) * np.dtype(self.feature.dtype).itemsize)
        return self._from_pool(shape)

    def into(self, image: bytes, out: Pixels) -> None:
        """Decode one image into ``out``, ``(height, width, channels)``.

        Raises:
            CorruptRecord, SchemaMismatch, UnsupportedData: ``where.record`` is 0.
        """
        self._decode(image, out, 0)

    def _decode(self, image: bytes, out: Pixels, position: int) -> None:
        header = self._open(image, position)
        if (header.height, header.width) != out.shape[:2]:
            raise SchemaMismatch(
                Where(record=position),
                expected=f"an image of shape {out.shape}",
                found=f"one of {header.height} x {header.width}",
            )
        try:
            header.pixels_into(out)
        except Exception as error:
            raise self._damage_error(error, image, position) from error

    def _from_pool(self, shape: tuple[int, ...]) -> Pixels:
        dtype = np.dtype(self.feature.dtype)
        size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        return _native.pooled(size).view(dtype).reshape(shape)

    def _open(self, image: bytes, position: int) -> ImageHeader:
        try:
            header = open_image(image, oriented=self.options.oriented)
        except MissingExtra:
            raise
        except Exception as error:
            raise self._damage_error(error, image, position) from error
        if header.height * header.width > self.options.most_pixels:
            raise self._too_large(f"one of {header.height} x {header.width}", position)
        self._check_fit(header, position)
        return header

    def _check_fit(self, header: ImageHeader, position: int) -> None:
        found = (header.height, header.width, header.channels)
        fits_size = self.height in (None, header.height) and self.width in (None, header.width)
        channels, deeper = self.channels, header.dtype == "uint16" and self.feature.dtype == "uint8"
        loses = channels is not None and common_channels({channels, header.channels}) != channels
        if fits_size and (self.exact or not (loses or deeper)):
            return
        wanted = self.feature.shape[-IMAGE_AXES:]
        raise SchemaMismatch(
            Where(record=position),
            expected=f"an image of {self.feature.dtype} with shape {wanted}, like the first ones or the schema",
            found=f"one of {header.dtype} with shape {found}",
            hint=ANY_SIZE_HINT
            if not fits_size
            else DEEPER_HINT
            if deeper
            else "decode=ImageOptions(channels=...) converts all images.",
        )

    def _damage_error(self, error: Exception, image: bytes, position: int) -> DataError:
        if isinstance(error, (DataError, MemoryError)):
            raise error
        if type(error).__name__ in BOMBS:
            return UnsupportedData(
                Where(record=position),
                expected="an image of as many pixels as Pillow decodes",
                found="one larger than Pillow's PIL.Image.MAX_IMAGE_PIXELS allows",
                hint="If it is meant to be that large: PIL.Image.MAX_IMAGE_PIXELS = None, and decode=ImageOptions(most_pixels=...).",
            )
        if isinstance(error, NotImplementedError) or any(words in str(error) for words in NOT_READ):
            return UnsupportedData(
                Where(record=position),
                expected="an image of a kind that is read, of 8- or 16-bit samples",
                found=str(error),
                hint=LEFT,
            )
        reason = (
            "they end before the size, or there are none"
            if type(error).__name__ == "UnidentifiedImageError"
            else str(error)
        )
        return CorruptRecord(
            Where(record=position),
            expected="a complete, intact image",
            found=f"{len(image)} bytes: {reason or type(error).__name__}",
            hint=LEFT,
        )

    def _too_large(self, found: str, position: int) -> UnsupportedData:
        return UnsupportedData(
            Where(record=position),
            expected=f"an image of at most {self.options.most_pixels} pixels",
            found=found,
            hint="If it is meant to be that large: decode=ImageOptions(most_pixels=...).",
        )
