"""Kinds of encoded images, recognised by their first bytes, and the options for decoding them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy.typing as npt

from headrace._arguments import check_choice, check_integer
from headrace.contracts.feature import ENCODINGS, SEVERAL_KINDS, Encoding

__all__ = [
    "SUFFIXES",
    "ImageOptions",
    "RandomResizedCrop",
    "begins_as_image",
    "encoding_by_counts",
    "encoding_of",
    "encoding_of_most",
    "is_image_name",
]


SUFFIXES: dict[str, Encoding] = {
    ".jpg": "jpeg",
    ".jpeg": "jpeg",
    ".jpe": "jpeg",
    ".jfif": "jpeg",
    ".png": "png",
    ".gif": "gif",
    ".bmp": "bmp",
    ".webp": "webp",
    ".tif": "tiff",
    ".tiff": "tiff",
}
"""The suffixes of images, in lower case."""

HEAD_BYTES = 32
BMP_HEAD_BYTES = 26
TIFF_HEAD_BYTES = 8


def encoding_of(image: bytes, size: int | None = None) -> Encoding | None:
    """The encoding of an image; ``None`` if the bytes are not an image. Native code has the same rules.

    Args:
        image: Its bytes; the first 32 are enough.
        size: The number of bytes, if these are not all.

    >>> encoding_of(b"GIF89a...")
    'gif'
    """
    size = len(image) if size is None else size
    if image.startswith(b"\xff\xd8\xff"):
        return "jpeg"
    if image.startswith(b"\x89PNG\r\n\x1a\n"):
        return "png"
    if image.startswith((b"GIF87a", b"GIF89a")):
        return "gif"
    if image.startswith(b"BM") and size >= BMP_HEAD_BYTES and int.from_bytes(image[2:6], "little") == size:
        return "bmp"
    if image.startswith(b"RIFF") and image[8:12] == b"WEBP":
        return "webp"
    if image.startswith((b"II*\0", b"MM\0*")) and size >= TIFF_HEAD_BYTES:
        return "tiff"
    return None


def begins_as_image(image: bytes) -> bool:
    """Whether reading tries to decode these bytes. A BMP may have a wrong length, by which alone two letters are no sign of an image."""
    return image.startswith(b"BM") or encoding_of(image) is not None


def encoding_of_most(values: Iterable[bytes | memoryview]) -> Encoding | None:
    """The encoding of values of which more than half are images; ``"image"`` if there are several kinds, else ``None``.

    The others are damage, which reading names. A column with one of them must not be left to a program that expects pixels.
    """
    kinds = [encoding_of(bytes(value[:HEAD_BYTES]), len(value)) for value in values]
    found = {kind for kind in kinds if kind is not None}
    if 2 * kinds.count(None) >= len(kinds):
        return None
    return found.pop() if len(found) == 1 else SEVERAL_KINDS


def encoding_by_counts(values: int, images: Sequence[int]) -> Encoding | None:
    """The same from the counts of native code: of all ``values``, and of those of each kind, ``(not an image, *ENCODINGS)``."""
    if 2 * sum(images[1:]) <= values:
        return None
    kinds = [encoding for encoding, count in zip(ENCODINGS, images[1:], strict=True) if count]
    return kinds[0] if len(kinds) == 1 else SEVERAL_KINDS  # type: ignore[return-value]


def is_image_name(name: str) -> bool:
    """Whether a file name has the suffix of an image."""
    _, dot, end = name.rpartition(".")
    return dot + end.lower() in SUFFIXES


CHANNELS = (1, 2, 3, 4)
MOST_SIDE = 65_535
"""Pixels of a side that an image may be resized to: as many as a JPEG may have."""
INTERPOLATIONS = ("nearest", "box", "bilinear", "bicubic", "lanczos")
LAYOUTS = ("NHWC", "NCHW")


@dataclass(frozen=True, slots=True)
class RandomResizedCrop:
    """A random part of an image, resized: ``ImageOptions(crop=RandomResizedCrop(224))``.

    As in ``torchvision.transforms.RandomResizedCrop``, an area and an aspect ratio are drawn up to ten times, until both
    sides fit, then a position. If none fits, the result is the largest central part with an allowed ratio.

    Args:
        size: Height and width of the result in pixels; one number for a square.
        scale: The range of the area, as a share of the image's; drawn uniformly.
        ratio: The range of width / height; its logarithm is drawn uniformly.

    Raises:
        TypeError, ValueError: A value has a wrong type or is out of range.

    >>> RandomResizedCrop(224).size
    (224, 224)
    """

    size: tuple[int, int]
    scale: tuple[float, float]
    ratio: tuple[float, float]

    def __init__(
        self,
        size: int | tuple[int, int],
        scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3 / 4, 4 / 3),
    ) -> None:
        put = object.__setattr__  # frozen: this is the one place that may set
        put(self, "size", _parse_size(size, "size"))
        put(self, "scale", _parse_range(scale, "scale", most=1.0))
        put(self, "ratio", _parse_range(ratio, "ratio", most=1000.0))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ImageOptions:
    """How :func:`headrace.open` decodes images: ``open(path, decode=ImageOptions(channels=3))``.

    The order is: turn upright (``oriented``); crop at random, or resize and crop the centre; mirror; convert dtype and layout.

    Random crops and mirroring depend only on the loader's seed, the epoch and the position in it; see ``Source.map(...,
    seeded=True)``. All images of one example use the same numbers, so an image and its mask stay aligned.

    Args:
        channels: Convert every image to 1 (grey), 2 (grey and alpha), 3 (RGB) or 4 (RGBA) channels. Missing channels are added (grey is
            repeated, alpha is opaque), others are dropped (colours become the luma of ITU-R BT.601). ``None``: the largest number
            found in the first images; an image with more is an error.
        any_size: Images may have any size. Otherwise, if the first images have one size, an image of another size is an error.
            With ``crop``, ``center_crop`` or both sides of ``resize``, images may have any size, and the results have one size.
        oriented: Turn and mirror images by their EXIF orientation. Off by default, as in TensorFlow.
        most_pixels: Larger images are refused before memory is allocated for them. The default is Pillow's limit for
            warnings. ``PIL.Image.MAX_IMAGE_PIXELS`` also applies to all but JPEG.
        crop: Cut out and resize a random part, for training.
        flip: Mirror left and right with probability 1/2.
        resize: Height and width, or the length of the shorter side, which keeps the aspect ratio.
        center_crop: Then crop the centre to this height and width (one number: a square). A smaller image is an error.
        interpolation: The filter of resizing: ``"nearest"``, ``"box"``, ``"bilinear"``, ``"bicubic"`` or ``"lanczos"``.
            All but the first widen when an image shrinks (antialiasing), as in Pillow.
        dtype: ``"uint8"``, or ``"float32"``: samples divided by 255. ``None``: as stored, nearly always ``uint8``. 16-bit
            images are neither resized nor made ``float32`` unless ``dtype="uint8"`` takes their upper 8 bits.
        mean, std: With ``dtype="float32"``: ``(sample / 255 - mean) / std``, one number for all channels, or one per channel, as a
            sequence, an array or a tensor.
        layout: ``"NHWC"``: ``(height, width, channels)``; ``"NCHW"``: ``(channels, height, width)``.

    Raises:
        TypeError, ValueError: An option has a wrong type or value, or two exclude each other.

    >>> ImageOptions(channels=3).channels
    3
    """

    channels: int | None = None
    any_size: bool = False
    oriented: bool = False
    most_pixels: int = 89_478_485
    crop: RandomResizedCrop | None = None
    flip: bool = False
    resize: int | tuple[int, int] | None = None
    center_crop: int | tuple[int, int] | None = None
    interpolation: str = "bilinear"
    dtype: str | None = None
    mean: float | Sequence[float] | npt.NDArray[Any] | None = None
    std: float | Sequence[float] | npt.NDArray[Any] | None = None
    layout: str = "NHWC"

    def __post_init__(self) -> None:
        put = object.__setattr__  # frozen: one of the three places that may set
        if self.channels is not None:
            put(self, "channels", _parse_channels(self.channels))
        for name in ("any_size", "oriented", "flip"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name} is True or False, got {getattr(self, name)!r}")
        put(self, "most_pixels", check_integer(self.most_pixels, "most_pixels", least=1))
        self._parse_geometry()
        self._parse_samples()

    def _parse_geometry(self) -> None:
        put = object.__setattr__
        if self.crop is not None and not isinstance(self.crop, RandomResizedCrop):
            raise TypeError(f"crop is a headrace.RandomResizedCrop(...), got {self.crop!r}")
        if self.crop is not None and (self.resize is not None or self.center_crop is not None):
            raise ValueError("crop resizes what it cuts out: give it without resize and center_crop")
        if isinstance(self.resize, (tuple, list)):
            put(self, "resize", _parse_size(self.resize, "resize"))
        elif self.resize is not None:
            put(self, "resize", _parse_side(self.resize, "resize"))
        if self.center_crop is not None:
            put(self, "center_crop", _parse_size(self.center_crop, "center_crop"))
            self._check_center()
        check_choice(self.interpolation, "interpolation", INTERPOLATIONS)

    def _check_center(self) -> None:
        """With a resize, some centers fit into no result."""
        resize, center = self.resize, self.center_crop
        if isinstance(center, tuple) and resize is not None:
            # With one number, the shorter side gets that length.
            fits = (
                min(center) <= resize if isinstance(resize, int) else center[0] <= resize[0] and center[1] <= resize[1]
            )
            if not fits:
                raise ValueError(f"center_crop={center} is cut out after resizing, and never fits into resize={resize}")

    def _parse_samples(self) -> None:
        put = object.__setattr__
        check_choice(self.layout, "layout", LAYOUTS)
        check_choice(self.dtype, "dtype", ("uint8", "float32", None))
        if (self.mean is None) != (self.std is None):
            raise ValueError("mean and std come together: (sample / 255 - mean) / std")
        if self.mean is None or self.std is None:
            return
        if self.dtype != "float32":
            raise ValueError(f"mean and std make floats: give dtype='float32' with them, got dtype={self.dtype!r}")
        mean, std = _parse_numbers(self.mean, "mean"), _parse_numbers(self.std, "std")
        counts = {len(mean), len(std)} - {1}
        if len(counts) > 1 or (counts and self.channels is not None and counts != {self.channels}):
            raise ValueError(
                f"mean and std are one number, or one for each channel, got {len(mean)} and {len(std)} of them"
                + (f" for {self.channels} channels" if self.channels is not None else "")
            )
        if not all(each > 0 for each in std):
            raise ValueError(f"std must be above 0, got {self.std}")
        put(self, "mean", mean)
        put(self, "std", std)

    def __repr__(self) -> str:
        given = [
            (each.name, getattr(self, each.name)) for each in fields(self) if getattr(self, each.name) != each.default
        ]
        return f"ImageOptions({', '.join(f'{name}={value!r}' for name, value in given)})"

    @property
    def is_random(self) -> bool:
        """Whether the pixels of an image depend on random numbers."""
        return self.flip or self.crop is not None

    @property
    def is_plain(self) -> bool:
        """Whether images are returned as stored: not cropped, resized or mirrored, as integers of shape ``(height, width,
        channels)``.
        """
        is_whole = self.resize is None and self.center_crop is None and not self.is_random
        return is_whole and self.dtype is None and self.layout == "NHWC"

    @property
    def fixed_size(self) -> tuple[int, int] | None:
        """The height and width of all results; ``None`` if they depend on the image."""
        if self.crop is not None:
            return self.crop.size
        found = self.center_crop if self.center_crop is not None else self.resize
        return found if isinstance(found, tuple) else None


def _parse_side(value: object, name: str) -> int:
    side = check_integer(value, name, least=1)
    if side > MOST_SIDE:
        raise ValueError(f"{name} must be at most {MOST_SIDE} pixels, got {side}")
    return side


def _parse_size(value: object, name: str) -> tuple[int, int]:
    """Height and width, from both or from the side of a square."""
    if not isinstance(value, (tuple, list)):
        side = _parse_side(value, name)
        return side, side
    if len(value) != 2:
        raise ValueError(f"{name} is one number, or a height and a width, got {value!r}")
    return _parse_side(value[0], name), _parse_side(value[1], name)


def _parse_channels(value: object) -> int:
    channels = check_integer(value, "channels")
    if channels not in CHANNELS:
        raise ValueError(f"channels must be 1, 2, 3, 4 or None, got {value!r}")
    return channels


def _parse_numbers(value: Any, name: str) -> tuple[float, ...]:
    """One number or several, as a tuple."""
    found = value.tolist() if hasattr(value, "tolist") else value  # arrays and tensors
    is_one = isinstance(found, (str, bytes)) or not isinstance(found, Sequence)
    given = (found,) if is_one else tuple(found)
    if not given or any(isinstance(each, (bool, str, bytes)) or not hasattr(each, "__float__") for each in given):
        raise TypeError(f"{name} is a number, or a sequence of numbers, got {value!r:.200}")
    numbers = tuple(map(float, given))
    if not all(map(math.isfinite, numbers)):
        raise ValueError(f"{name} must be finite, got {value!r}")
    return numbers


def _parse_range(value: object, name: str, *, most: float) -> tuple[float, float]:
    numbers = _parse_numbers(value, name)
    if len(numbers) != 2 or not 0 < numbers[0] <= numbers[1] <= most:
        raise ValueError(f"{name} is the least and the largest value, above 0 and at most {most:g}, got {value!r}")
    return numbers[0], numbers[1]
