"""Images that are cropped, resized, mirrored and laid out while they are decoded.

Plain JPEGs go through one native call for a batch, which decodes only the blocks that are needed. Every other image is decoded whole, and
then cropped and resized by the same native code.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.codecs.images.decode import (
    ANY_SIZE_HINT,
    JPEG_CHANNELS,
    JPEG_START,
    ImageDecoder,
    feature_of_images,
    image_headers,
)
from headrace.codecs.images.encode import Pixels, common_channels
from headrace.codecs.images.open import ImageHeader
from headrace.contracts.feature import IMAGE_AXES, Feature
from headrace.contracts.images import ImageOptions
from headrace.errors import SchemaMismatch, UnsupportedData, Where
from headrace.io.engines import engines
from headrace.io.system import cached_property

__all__ = ["ViewDecoder", "decoder_of", "feature_of_views", "given_feature"]


def feature_of_views(stored: Feature, images: Sequence[bytes], options: ImageOptions) -> Feature:
    """The feature type of decoded images, as found from a sample and as the options say.

    Args:
        stored: The feature of encoded images.
        images: The sample.
        options: The decoding options.

    Returns:
        See :func:`feature_of_images`. Cropped or resized images have the size of the result, which is ``None`` only where it depends
        on the image. ``float32``, and channels before height and width, lose the encoding, which only whole images have.

    Raises:
        MissingExtra: The packages that read images are not installed.
    """
    found = feature_of_images(stored, images, options)
    if options.is_plain:
        return found
    size = options.fixed_size
    if size is None:
        geometry = _geometry(options)
        headers = [] if options.any_size else image_headers(images, options)
        sizes = {geometry.size(header.height, header.width) for header in headers}
        size = sizes.pop() if len(sizes) == 1 else None
    return _laid_out(stored, size or (None, None), found.shape[-1], options)


def given_feature(given: Feature, options: ImageOptions) -> Feature:
    """The feature type of decoded images for one in a given schema, whose last axes are height, width and channels.

    Raises:
        SchemaMismatch: It says another size, depth or number of channels than the options.
    """
    height, width, channels = given.shape[-IMAGE_AXES:]
    size = options.fixed_size
    is_deeper = given.dtype == "uint16" and options.dtype != "uint8" and not options.is_plain
    is_other = size is not None and (height not in (None, size[0]) or width not in (None, size[1]))
    if is_other or is_deeper or (options.channels is not None and channels not in (None, options.channels)):
        raise SchemaMismatch(
            Where(),
            expected=f"{'images' if options.is_plain else 'uint8 images'} of {size or 'any size'} and {options.channels or 'any'} "
            "channels, as ImageOptions says",
            found=repr(given),
            hint="Give the schema the same shape, or None for what ImageOptions says.",
        )
    channels = options.channels or channels
    if options.is_plain:
        return replace(given, shape=(*given.shape[:-1], channels))
    return _laid_out(given.stored, size or (height, width), channels, options)


def _laid_out(
    stored: Feature, size: tuple[int | None, int | None], channels: int | None, options: ImageOptions
) -> Feature:
    """The feature of results of one size, in the dtype and layout of the options."""
    is_planar = options.layout == "NCHW"
    axes = (channels, *size) if is_planar else (*size, channels)
    dtype = options.dtype or "uint8"
    encoding = None if is_planar or dtype != "uint8" else stored.encoding
    return Feature(dtype, (*stored.shape, *axes), encoding=encoding, steps=stored.steps)


def decoder_of(feature: Feature, options: ImageOptions, *, exact: bool) -> ImageDecoder:
    """The decoder for a feature of :func:`feature_of_views` or :func:`given_feature`; see :class:`ImageDecoder`."""
    return (ImageDecoder if options.is_plain else ViewDecoder)(feature, options, exact=exact)


def _geometry(options: ImageOptions, values: npt.NDArray[np.float32] | None = None) -> _native.ImageViews:
    crop = options.crop
    return _native.ImageViews(
        crop=None if crop is None else (crop.size, crop.scale, crop.ratio),
        resize=options.resize,
        center_crop=options.center_crop,  # type: ignore[arg-type]
        flip=options.flip,
        interpolation=options.interpolation,
        is_planar=options.layout == "NCHW",
        values=values,
    )


class ViewDecoder(ImageDecoder):
    """Decodes the images of one feature, and crops and resizes them. Safe in threads; decoding releases the GIL.

    Args:
        feature: The type of the results.
        options: The decoding options.
        exact: See :class:`ImageDecoder`.
    """

    def __init__(self, feature: Feature, options: ImageOptions, *, exact: bool) -> None:
        axes = feature.shape[-IMAGE_AXES:]
        is_planar = options.layout == "NCHW"
        # What is read may have any size.
        super().__init__(
            Feature("uint8", (None, None, axes[0] if is_planar else axes[-1]), encoding="image"), options, exact=exact
        )
        self.result = feature
        height, width = axes[1:] if is_planar else axes[:2]
        self.size: tuple[int, int] | None = None if height is None or width is None else (height, width)

    def images(
        self, images: Sequence[bytes], draws: npt.NDArray[np.float64] | None = None
    ) -> npt.NDArray[Any] | list[npt.NDArray[Any]]:
        """Decode ``n`` images: ``ndarray (n, *axes)`` if the results have the same size, else a list of arrays.

        Args:
            images: Encoded images.
            draws: ``float64 (n, draws)``: random numbers of each, in [0, 1).

        Raises:
            CorruptRecord, SchemaMismatch, UnsupportedData: ``where.record`` is the position of the first bad image.
        """
        if draws is None:
            draws = np.zeros((len(images), self.draws))
        if self.size is None or self.channels is None or math.prod(self.size) > self.options.most_pixels:
            return self._each(images, draws)
        if self.options.fixed_size is None:  # else only the options decide
            size = math.prod(self.size) * self.channels * np.dtype(self.result.dtype).itemsize
            self._confirm(images, size, draws)
        plain = self._plain_jpegs_at(images, draws)
        if plain is not None:
            return plain
        results = self._from_pool((len(images), *self._axes(self.size, self.channels)))
        for position, image in enumerate(images):
            self._view(self._open(image, position), image, draws[position], position, results[position])
        return results

    @property
    def draws(self) -> int:
        """How many random numbers an image needs."""
        return _geometry(self.options).draws()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_views_by_channels"}

    def _plain_jpegs_at(self, images: Sequence[bytes], draws: npt.NDArray[np.float64]) -> npt.NDArray[Any] | None:
        """Make results of one size from plain JPEGs in native code, and of others among them one by one; ``None`` if that gains nothing."""
        size, channels = self.size, self.channels
        if size is None or channels is None or not any(self._may_be_plain(image, channels) for image in images):
            return None
        results, others = self._decode_plain(images, draws, size, channels)
        for position in others:
            image = images[position]
            self._view(self._open(image, position), image, draws[position], position, results[position])
        return results

    def _may_be_plain(self, image: bytes, channels: int) -> bool:
        """Whether native code may decode an image by itself."""
        return channels in JPEG_CHANNELS and engines().jpeg.is_own and image.startswith(JPEG_START)

    def _decode_plain(
        self, images: Sequence[bytes], draws: npt.NDArray[np.float64], size: tuple[int, int], channels: int
    ) -> tuple[npt.NDArray[Any], list[int]]:
        """Results of one size from plain JPEGs, and the positions of all other images, whose results mean nothing."""
        most = self.options.most_pixels
        files = self._upright_jpegs(images)
        rows, others = _native.decode_jpeg_views(files, self._views(channels), draws, size, channels, most)
        return rows.view(self.result.dtype).reshape((len(images), *self._axes(size, channels))), others

    def _each(self, images: Sequence[bytes], draws: npt.NDArray[np.float64]) -> list[Pixels] | Pixels:
        """Make results of any size."""
        results = []
        for position, image in enumerate(images):
            header = self._open(image, position)
            channels = self.channels or header.channels
            size = self._size_of(header, position)
            if self._may_be_plain(image, channels):
                plain, others = self._decode_plain([image], draws[position : position + 1], size, channels)
                if not others:
                    results.append(plain[0])
                    continue
            out = self._from_pool(self._axes(size, channels))
            self._view(header, image, draws[position], position, out)
            results.append(out)
        if not results:
            return self._from_pool((0, *self._axes(self.size or (0, 0), self.channels or 0)))
        return np.stack(results) if len({result.shape for result in results}) == 1 else results

    def _size_of(self, header: ImageHeader, position: int) -> tuple[int, int]:
        """The size of the result for one image."""
        size = self._views(self.channels or header.channels).size(header.height, header.width)
        if size is None:
            raise self._too_small(header, position)
        if size[0] * size[1] > max(self.options.most_pixels, 1):
            raise self._too_large(f"one that becomes {size[0]} x {size[1]}", position)
        return size

    def _too_small(self, header: ImageHeader, position: int) -> SchemaMismatch:
        """The error for an image into which ``center_crop`` does not fit."""
        found, hint = (
            f"one of {header.height} x {header.width}",
            "ImageOptions(resize=...) resizes images before they are cropped.",
        )
        if self.options.resize is not None:
            size = _geometry(replace(self.options, center_crop=None)).size(header.height, header.width)
            found += f", which resize={self.options.resize} makes {' x '.join(map(str, size or ()))}"
            hint = "Give a larger resize or a smaller center_crop."
        wanted = "an image of at least {} x {}, which center_crop cuts out".format(*self.options.fixed_size or ())
        return SchemaMismatch(Where(record=position), expected=wanted, found=found, hint=hint)

    def _view(
        self, header: ImageHeader, image: bytes, draws: npt.NDArray[np.float64], position: int, out: Pixels
    ) -> None:
        """Make the result of one image in ``out``."""
        channels = self.channels or header.channels
        size = self._size_of(header, position)
        if out.shape != self._axes(size, channels):
            raise SchemaMismatch(
                Where(record=position),
                expected=f"an image that becomes one of shape {out.shape}, like the first ones or the schema",
                found=f"one that becomes {self._axes(size, channels)}",
                hint=ANY_SIZE_HINT,
            )
        pixels = np.empty((header.height, header.width, channels), np.uint8)
        try:
            header.pixels_into(pixels)
        except Exception as error:
            raise self._damage_error(error, image, position) from error
        self._views(channels).apply(pixels, draws[None], out.reshape(-1).view(np.uint8))

    def _check_fit(self, header: ImageHeader, position: int) -> None:
        if header.dtype == "uint16" and self.options.dtype != "uint8":
            raise UnsupportedData(
                Where(record=position),
                expected="an image of 8-bit samples",
                found="one of 16 bits",
                hint="decode=ImageOptions(dtype='uint8', ...) keeps the upper 8 bits.",
            )
        channels = self.channels
        if channels is not None and not self.exact and common_channels({channels, header.channels}) != channels:
            raise SchemaMismatch(
                Where(record=position),
                expected=f"an image of {channels} channels, like the first ones or the schema",
                found=f"one of {header.channels}",
                hint="decode=ImageOptions(channels=...) converts all images.",
            )

    def _axes(self, size: tuple[int, int], channels: int) -> tuple[int, int, int]:
        return (channels, *size) if self.options.layout == "NCHW" else (*size, channels)

    def _from_pool(self, shape: tuple[int, ...]) -> Pixels:
        dtype = np.dtype(self.result.dtype)
        size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        return _native.pooled(size).view(dtype).reshape(shape)

    def _views(self, channels: int) -> _native.ImageViews:
        found = self._views_by_channels.get(channels)
        if found is None:
            found = _geometry(self.options, self._values(channels))
            self._views_by_channels[channels] = found
        return found

    @cached_property
    def _views_by_channels(self) -> dict[int, _native.ImageViews]:
        return {}

    def _values(self, channels: int) -> npt.NDArray[np.float32] | None:
        """What becomes of each sample of each channel: ``float32 (channels, 256)``; ``None`` for ``uint8``."""
        options = self.options
        if options.dtype != "float32":
            return None
        mean, std = np.asarray(options.mean or (0.0,), np.float64), np.asarray(options.std or (1.0,), np.float64)
        if any(len(each) not in (1, channels) for each in (mean, std)):
            raise SchemaMismatch(
                Where(),
                expected=f"images of {max(len(mean), len(std))} channels, as mean and std have",
                found=f"{channels}",
                hint="decode=ImageOptions(channels=...) converts all images.",
            )
        samples = np.arange(256) / 255.0
        values = (samples[None] - mean[:, None]) / std[:, None]
        return np.ascontiguousarray(np.broadcast_to(values, (channels, 256)), np.float32)
