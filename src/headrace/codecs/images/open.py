"""One encoded image: its header, then its pixels. Native code reads plain JPEG and PNG, libjpeg-turbo (simplejpeg) other JPEGs,
and Pillow the rest.
"""

from __future__ import annotations

import io
from contextlib import suppress
from functools import cache
from types import ModuleType
from typing import Any, Protocol

import numpy as np

from headrace import _native, _optional
from headrace.codecs.images import png, tiff
from headrace.codecs.images.encode import Pixels, apply_colour_key, apply_orientation, convert_pixels
from headrace.codecs.images.png import PLAIN_PIXELS, PngHeader, colour_key, decode_png, has_transparency, plain_header
from headrace.codecs.images.png_checks import check_png, checked_pixels
from headrace.contracts.images import begins_as_image, encoding_of
from headrace.errors import CorruptRecord, MissingExtra
from headrace.io.engines import engines

__all__ = ["BOMBS", "LYING", "ImageHeader", "is_upright_jpeg", "open_image", "orientation_of", "surely_upright"]

EXTRA = "images"
HINT = "Without it, decode=False leaves images as the bytes that they are stored as."
COLOUR_SPACES = {1: "GRAY", 3: "RGB", 4: "RGBA"}
JPEG_CHANNELS = {"Gray": 1, "YCbCr": 3, "RGB": 3}
CMYK = ("CMYK", "YCCK")
MODES = {"1": "L", "L": "L", "LA": "LA", "La": "LA", "RGBA": "RGBA", "RGBa": "RGBA", "PA": "RGBA"} | dict.fromkeys(
    ("P", "RGB", "RGBX", "CMYK", "YCbCr", "LAB", "HSV"), "RGB"
)
BOMBS = ("DecompressionBombError", "DecompressionBombWarning")
WITH_ALPHA = {"L": "LA", "RGB": "RGBA"}


LARGE_SCREEN = 1 << 24
"""Pixels of a GIF from which its first frame has to cover some of them."""
SCREENS = 16
"""How many times as many they may be as those of that frame."""


class ImageHeader(Protocol):
    """An image whose header has been read."""

    height: int
    width: int
    channels: int
    dtype: str

    def pixels_into(self, out: Pixels, /) -> None:
        """Decode into ``out``: ``(height, width, any channels)``, contiguous.

        Raises:
            Exception: The image is damaged. The class depends on the decoder; Pillow raises any.
        """


@cache
def _turbo() -> ModuleType:
    return _optional.require("simplejpeg", extra=EXTRA, hint=HINT)


@cache
def _pillow() -> ModuleType:
    return _optional.require("PIL.Image", extra=EXTRA, hint=HINT)


def _open(image: bytes, kind: str) -> Any:
    """Open an image in Pillow. Only the detected kind is tried, because Pillow also reads kinds that run programs."""
    return _pillow().open(io.BytesIO(image), formats=(kind.upper(),))


def open_image(image: bytes, *, oriented: bool = False) -> ImageHeader:
    """Read the header of an encoded image.

    Raises:
        MissingExtra: The packages of the extra ``images`` are not installed.
        NotImplementedError: The samples are neither 8- nor 16-bit integers.
        Exception: The image cannot be read.
    """
    kind = encoding_of(image)
    if kind is None and not begins_as_image(image):
        raise ValueError("they begin as no kind of image" if image else "an empty file or value")
    found: ImageHeader | None = None
    is_upright = not oriented or surely_upright(image)
    if kind == "jpeg":
        found = _TurboJpeg.of(image)
    elif kind == "png" and is_upright:
        found = _PlainPng.of(image)
    if found is None:
        found = _by_pillow(image, kind or "bmp")
    return found if is_upright else _Upright.of(found, image)


def _by_pillow(image: bytes, kind: str) -> ImageHeader:
    try:
        return _PillowImage(image, kind)
    except MissingExtra:
        raise
    except Exception as error:
        if kind == "png" and type(error).__name__ not in BOMBS:
            check_png(image)  # It names the fault, for which Pillow has few words.
        if kind == "tiff" and type(error).__name__ == "UnidentifiedImageError":
            tiff.refuse_unknown(image)
        raise


def is_upright_jpeg(image: bytes) -> bool:
    """Whether no orientation turns a JPEG. ``False`` for one whose header cannot be read.

    Raises:
        MissingExtra: Pillow is not installed.
    """
    if surely_upright(image):
        return True
    try:
        return orientation_of(_open(image, "jpeg")) == 1
    except MissingExtra:
        raise
    except Exception:  # noqa: BLE001 - Pillow raises errors of any class; decoding the image reports it
        return False


class _TurboJpeg:
    dtype = "uint8"

    def __init__(self, image: bytes, height: int, width: int, colour_space: str) -> None:
        self.image = image
        self.height, self.width = height, width
        self.is_cmyk = colour_space in CMYK
        self.channels = 3 if self.is_cmyk else JPEG_CHANNELS[colour_space]

    @classmethod
    def of(cls, image: bytes) -> _TurboJpeg | None:
        """``None`` for subsamplings that libjpeg-turbo's simple interface lacks: Pillow reads those."""
        try:
            height, width, colour_space, _ = _turbo().decode_jpeg_header(image)
        except ValueError:
            return None
        except KeyError:  # simplejpeg reads 4:4:1 subsampling, but has no name for it
            (width, height), colour_space = _open(image, "jpeg").size, "YCbCr"
        known = colour_space in JPEG_CHANNELS or colour_space in CMYK
        return cls(image, height, width, colour_space) if known else None

    def _decoded(self, colour_space: str, buffer: Pixels | None = None) -> Pixels:
        tiff.check_scans(self.image)  # libjpeg-turbo sets no limit
        # strict is simplejpeg's default: libjpeg's warnings (such as a truncated image) are errors.
        decoded: Pixels = _turbo().decode_jpeg(self.image, colour_space, buffer=buffer)
        return decoded

    def _cmyk_as_rgb(self) -> Pixels:
        """As Pillow converts it. Pillow alone would not notice a truncated image: it ignores libjpeg's warnings."""
        inks = ~self._decoded("CMYK")  # stored inverted, as Adobe does
        found = _pillow().frombytes("CMYK", (inks.shape[1], inks.shape[0]), inks.tobytes())
        return np.asarray(found.convert("RGB"))

    def pixels_into(self, out: Pixels, /) -> None:
        if self.is_cmyk:
            out[...] = convert_pixels(self._cmyk_as_rgb(), out.shape[2], str(out.dtype))
            return
        colour_space = COLOUR_SPACES.get(out.shape[2])
        if colour_space is None or out.dtype != np.uint8:
            # For grey, libjpeg returns the stored luma, which is more exact than converting to colour and back.
            natural = self._decoded(COLOUR_SPACES[1 if out.shape[2] < 3 else self.channels])
            out[...] = convert_pixels(natural, out.shape[2], str(out.dtype))
            return
        if out.shape[2] == self.channels and engines().jpeg.is_own and _native.decode_jpeg_into(self.image, out):
            return
        decoded = self._decoded(colour_space, buffer=out)
        if decoded.shape != out.shape:
            raise ValueError(f"pixels of shape {decoded.shape} and a header that says {out.shape}")


class _PlainPng:
    def __init__(self, image: bytes, header: PngHeader) -> None:
        self.image = image
        self.header = header
        self.height, self.width, self.channels = header.height, header.width, header.channels
        self.dtype = header.dtype

    @classmethod
    def of(cls, image: bytes) -> _PlainPng | None:
        """``None`` for kinds left to Pillow, and for large images, which would be in memory twice."""
        header = plain_header(image)
        if header is None or header.height * header.width > PLAIN_PIXELS:
            return None
        has_palette = header.is_packed and header.channels > 1
        return cls(image, header) if has_palette or not has_transparency(image) else None

    def pixels_into(self, out: Pixels, /) -> None:
        try:
            pixels = decode_png([self.image], self.header)
        except CorruptRecord:
            pixels = None
        if pixels is None:  # Pillow reports the damage.
            _by_pillow(self.image, "png").pixels_into(out)
        else:
            out[...] = convert_pixels(pixels[0], out.shape[2], str(out.dtype))


class _PillowImage:
    def __init__(self, image: bytes, kind: str) -> None:
        self.image = image
        self.kind = kind
        self.opened = _open(png.without_notes(image) if kind == "png" else image, kind)
        self.width, self.height = self.opened.size
        self.key = colour_key(image) if kind == "png" else None
        self.transparency = self.opened.info.get("transparency")
        if kind == "png" and self.opened.mode != "P":
            self.transparency = None  # The key is exact.
        self.is_deep_png = kind == "png" and png.is_deep(image)
        self.is_deep_tiff = kind == "tiff" and tiff.has_deep_colours(self.opened)
        self.is_inverted = kind == "tiff" and tiff.is_inverted(self.opened)
        self.mode = "" if self.is_deep_png else self._mode()
        is_deep_grey = self.mode.startswith("I;16")
        self.dtype = "uint16" if self.is_deep_png or self.is_deep_tiff or is_deep_grey else "uint8"
        if self.is_deep_png:
            self.channels = png.deep_channels(image, self.key)
        else:
            self.channels = 1 if is_deep_grey else len(self.mode) + (self.key is not None)

    def _mode(self) -> str:
        """The lossless mode to convert to."""
        found: str = self.opened.mode
        if found.startswith("I;16"):
            return found
        if found not in MODES:
            raise NotImplementedError(f"an image of Pillow's mode {found!r}")
        mode = "RGB" if self.kind == "gif" else MODES[found]  # whether a palette is all grey is incidental
        if self.transparency is not None or (found == "P" and self.opened.palette.mode == "RGBA"):
            return WITH_ALPHA.get(mode, mode)
        return mode

    def pixels_into(self, out: Pixels, /) -> None:
        pixels = self._pixels()
        if pixels.shape[:2] != out.shape[:2]:
            raise ValueError(f"pixels of shape {pixels.shape} and a header that says {self.height} x {self.width}")
        out[...] = convert_pixels(pixels, out.shape[2], str(out.dtype))

    def _pixels(self) -> Pixels:
        if self.kind == "png":
            return self._png_pixels()
        if self.kind == "jpeg":
            tiff.check_scans(self.image)
            _check_jpeg(self.image)
        elif self.kind == "tiff":
            tiff.check_parts(self.opened.tag_v2, self.image)
        elif self.kind == "gif":
            _check_screen(self.opened)
        if self.kind in ("bmp", "webp") and _claimed_bytes(self.image, self.kind) > len(self.image):
            raise ValueError(f"the header says {_claimed_bytes(self.image, self.kind)} bytes")
        if self.is_deep_tiff:
            return tiff.deep_pixels(_pillow(), self.image)
        try:
            return self._converted()
        except ValueError as error:
            if self.kind == "tiff" and "raw mode" in str(error):  # Pillow's words for samples that it cannot unpack
                raise NotImplementedError(
                    f"a TIFF of samples in an order that Pillow does not read: {error}"
                ) from error
            raise

    def _png_pixels(self) -> Pixels:
        if self.is_deep_png:
            pixels = checked_pixels(self.image, lambda: png.deep_pixels(_pillow(), self.image))
        else:
            last_row = (0, self.height - 1, self.width, self.height)
            checked_pixels(self.image, lambda: np.asarray(self.opened.crop(last_row)))
            pixels = self._converted()
        return pixels if self.key is None else apply_colour_key(pixels, self.key)

    def _converted(self) -> Pixels:
        loaded = self.opened if self.opened.mode == self.mode else self.opened.convert(self.mode)
        pixels = np.asarray(loaded)
        if self.dtype == "uint16":
            pixels = pixels.astype(np.uint16)
            if self.is_inverted:
                pixels = ~pixels
        return pixels[:, :, None] if pixels.ndim == 2 else pixels


class _Upright:
    """An image rotated by its EXIF orientation."""

    def __init__(self, image: ImageHeader, orientation: int) -> None:
        self.image = image
        self.orientation = orientation
        self.channels, self.dtype = image.channels, image.dtype
        sides = (image.height, image.width)
        self.height, self.width = sides[::-1] if orientation in LYING else sides

    @classmethod
    def of(cls, image: ImageHeader, encoded: bytes) -> ImageHeader:
        opened = image.opened if isinstance(image, _PillowImage) else _open(encoded, "jpeg")
        if isinstance(image, _PillowImage) and image.kind == "png":
            with suppress(Exception):  # Pillow raises errors of any class, here about notes that change no pixel.
                opened = _open(encoded, "png")
        orientation = orientation_of(opened)
        return image if orientation == 1 else cls(image, orientation)

    def pixels_into(self, out: Pixels, /) -> None:
        lying = np.empty((self.image.height, self.image.width, out.shape[2]), out.dtype)
        self.image.pixels_into(lying)
        out[...] = apply_orientation(lying, self.orientation)


def _check_jpeg(image: bytes) -> None:
    """Pillow ignores libjpeg's warnings, and returns grey where pixels are missing.

    Raises:
        ValueError: The compressed pixels are damaged or incomplete.
        NotImplementedError: It is of a kind for which that is unknown.
    """
    is_sound = _native.is_jpeg_sound(image)
    if is_sound is None:
        raise NotImplementedError("a JPEG of unusual subsampling without Huffman codes")
    if not is_sound:
        raise ValueError("the compressed pixels are damaged or incomplete")


def _check_screen(opened: Any) -> None:
    """Refuse a GIF of a few bytes that is filled up to a screen of any size: it takes seconds, and several times the memory of its pixels.

    Raises:
        NotImplementedError: The first frame covers little of a large screen.
    """
    left, top, right, bottom = opened.tile[0][1] if opened.tile else (0, 0, *opened.size)
    pixels = opened.width * opened.height
    if pixels > LARGE_SCREEN and pixels > SCREENS * (right - left) * (bottom - top):
        raise NotImplementedError(
            f"a GIF of {opened.height} x {opened.width} whose first frame has only {bottom - top} x {right - left}"
        )


def _claimed_bytes(image: bytes, kind: str) -> int:
    """The length that the image's header declares."""
    if kind == "webp":
        return int.from_bytes(image[4:8], "little") + 8
    return int.from_bytes(image[2:6], "little")


ORIENTATION = 0x0112
LYING = (5, 6, 7, 8)
"""The orientations that exchange height and width."""
MARKER, SCAN, FILL = 0xFF, 0xDA, 0xFF
JPEG_MARKS = (b"Exif", b"tiff:Orientation")
PNG_MARKS = (b"eXIf", b"Raw profile type", b"XML:com.adobe.xmp")
"""Pillow takes an orientation from EXIF and from XMP. Without any of these bytes, there is none."""


def surely_upright(image: bytes) -> bool:
    """Whether an image is a JPEG or PNG without an orientation. ``False``: :func:`orientation_of` has to look."""
    if image.startswith(b"\x89PNG"):
        return not any(mark in image for mark in PNG_MARKS)
    if not image.startswith(b"\xff\xd8"):
        return False
    header = _jpeg_header(image)
    return not any(mark in header for mark in JPEG_MARKS)


def orientation_of(opened: Any) -> int:
    """The orientation, 1 to 8, that an image has in Pillow. Pillow applies that of a TIFF itself, so it counts as 1.

    One that cannot be read is none: notes beside the pixels do not make an image a damaged one.
    """
    try:
        found = opened.getexif().get(ORIENTATION, 1)
    except Exception:  # noqa: BLE001 - Pillow raises errors of any class
        return 1
    return found if found in range(2, 9) and opened.format != "TIFF" else 1


def _jpeg_header(image: bytes) -> bytes:
    """The segments before the pixels; all bytes if they are not in order."""
    at = 2  # after the marker that begins every JPEG
    while at + 4 <= len(image) and image[at] == MARKER:
        if image[at + 1] == SCAN:
            return image[:at]
        at = (
            tiff.skip_fill(image, at)
            if image[at + 1] == FILL
            else at + 2 + int.from_bytes(image[at + 2 : at + 4], "big")
        )
    return image
