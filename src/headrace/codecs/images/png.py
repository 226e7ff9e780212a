"""PNG features that Pillow lacks: the lower byte of 16-bit samples, exact transparent colours, and batches of images of one size.

Only plain images are decoded here: 8 and 16 bits, gray or colour, with or without alpha, not interlaced. :func:`plain_header` finds them;
``open.py`` leaves the others to Pillow.

Source of the format: W3C, Portable Network Graphics (PNG) Specification, third edition (ISO/IEC 15948), sections 5 (chunks), 9 (filters)
and 11 (header, data, transparency).
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace import _native, _optional
from headrace.codecs.images.encode import Pixels
from headrace.codecs.images.png_checks import (
    CHANNELS,
    COLOURS,
    COLOURS_ALPHA,
    GREY,
    GREY_ALPHA,
    PALETTE,
    SIGNATURE,
    checked_pixels,
    chunks,
)
from headrace.errors import CorruptRecord, Where
from headrace.io.engines import engines

__all__ = [
    "PLAIN_PIXELS",
    "PngHeader",
    "colour_key",
    "decode_png",
    "deep_channels",
    "deep_pixels",
    "has_transparency",
    "is_deep",
    "is_png",
    "plain_header",
    "without_notes",
]


SIGNATURE_BYTES = len(SIGNATURE)
DEPTH_AT, COLOUR_AT, HEADER_END = 24, 25, 33
HEADER = slice(SIGNATURE_BYTES, HEADER_END)
MOST_SIDE = 1 << 31
SAMPLE_BITS = 16
PACKED = {(GREY, 1), (GREY, 2), (GREY, 4), (PALETTE, 1), (PALETTE, 2), (PALETTE, 4), (PALETTE, 8)}
"""Kinds of colour and bits of a sample that :func:`decode_png` makes samples of 8 bits of."""
PLAIN_PIXELS = 1 << 25
"""Larger images are left to a library, because here the decompressed stream is in memory beside the pixels."""
NOTES = (b"iCCP", b"iTXt", b"tEXt", b"zTXt")
"""Chunks that may be compressed and change no sample."""
_CHUNK = struct.Struct(">I4s")
_IHDR = struct.Struct(">IIBBBBB")
_CRC = struct.Struct(">I")


def is_deep(image: bytes) -> bool:
    """Whether a PNG has 16-bit samples."""
    return len(image) > COLOUR_AT and image[DEPTH_AT] == 16 and image[COLOUR_AT] in CHANNELS


def without_notes(image: bytes) -> bytes:
    """A PNG without its texts and colour profile. Pillow calls an image damaged whose notes are larger than it wants to decompress."""
    if not any(name in image for name in NOTES):
        return image
    try:
        kept = [image[begin - 8 : end + 4] for name, begin, end in chunks(image) if name not in NOTES]
    except ValueError:  # Reading the image reports that it is cut off.
        return image
    return b"".join([SIGNATURE, *kept])


def deep_channels(image: bytes, key: tuple[int, ...] | None) -> int:
    """The channels of a 16-bit PNG; a transparent colour adds an alpha channel."""
    return CHANNELS[image[COLOUR_AT]] + (key is not None)


def deep_pixels(pillow: Any, image: bytes) -> Pixels:
    """The samples of a 16-bit PNG as ``uint16 (h, w, c)``. Pillow itself supports only grey ones.

    Args:
        pillow: The module ``PIL.Image``.
        image: The PNG, with its chunks already checked.
    """
    kind = image[COLOUR_AT]
    return _as_bytes(pillow, image, kind) if kind in (GREY, GREY_ALPHA) else _in_halves(pillow, image, kind)


def _as_bytes(pillow: Any, image: bytes, kind: int) -> Pixels:
    """The pixels of a 16-bit PNG, read as twice as many 8-bit samples. PNG filters work on bytes, so this is exact."""
    twice = {GREY: GREY_ALPHA, GREY_ALPHA: COLOURS_ALPHA}[kind]
    header = bytearray(image[HEADER])
    header[DEPTH_AT - SIGNATURE_BYTES], header[COLOUR_AT - SIGNATURE_BYTES] = 8, twice
    header[-4:] = struct.pack(">I", zlib.crc32(header[4:-4]))
    kept = [image[begin - 8 : end + 4] for name, begin, end in chunks(image) if name in (b"IDAT", b"IEND")]
    rewritten = b"".join([image[:SIGNATURE_BYTES], header, *kept])
    with pillow.open(io.BytesIO(rewritten), formats=("PNG",)) as opened:
        return np.ascontiguousarray(opened).view(">u2").astype(np.uint16)


def _in_halves(pillow: Any, image: bytes, kind: int) -> Pixels:
    """Pillow keeps one byte of each sample. Which one depends on the byte order it assumes, so read the image both ways."""
    mode = "RGB" if kind == COLOURS else "RGBA"
    upper, lower = (_one_half(pillow, image, f"{mode};16{order}") for order in "BL")
    return (upper.astype(np.uint16) << 8) | lower


def _one_half(pillow: Any, image: bytes, raw_mode: str) -> Pixels:
    with pillow.open(io.BytesIO(without_notes(image)), formats=("PNG",)) as opened:
        tile = opened.tile[0]
        parts = (*tile[:3], raw_mode)
        opened.tile = [tile._make(parts) if hasattr(tile, "_make") else parts]
        return np.asarray(opened)


@dataclass(frozen=True, slots=True, kw_only=True)
class PngHeader:
    """The header shared by all images of a call.

    Args:
        width, height: In pixels.
        bits: Stored bits per sample: 1, 2, 4, 8 or 16.
        channels: Of the decoded pixels: 1 gray, 2 gray and alpha, 3 colour, 4 colour and alpha.
        is_packed: Whether pixels are stored as numbers of fewer than 8 bits, or of the colours of a palette.
    """

    width: int
    height: int
    bits: int
    channels: int
    is_packed: bool = False

    @property
    def dtype(self) -> str:
        """Of the decoded pixels."""
        return "uint16" if self.bits == SAMPLE_BITS else "uint8"

    @property
    def row_bytes(self) -> int:
        """Bytes of one row of samples."""
        return self.width * self.pixel_bytes

    @property
    def pixel_bytes(self) -> int:
        """Bytes of one pixel."""
        return self.channels * self.bits // 8


def is_png(file: bytes) -> bool:
    """Whether these bytes begin like a PNG file."""
    return file.startswith(SIGNATURE)


def plain_header(file: bytes) -> PngHeader | None:
    """The header of a PNG file that :func:`decode_png` supports; ``None`` for any other or damaged file."""
    has_palette = len(file) > COLOUR_AT and file[COLOUR_AT] == PALETTE
    header = _header_of(bytes(file[:HEADER_END]), has_alpha=has_palette and has_transparency(file))
    return None if header is not None and header.is_packed and not engines().png.is_own else header


@lru_cache(maxsize=1024)
def _header_of(head: bytes, *, has_alpha: bool) -> PngHeader | None:
    if len(head) < HEADER_END or not head.startswith(SIGNATURE + b"\0\0\0\rIHDR"):
        return None
    width, height, bits, colours, compression, filters, interlace = _IHDR.unpack_from(head, 16)
    is_packed = (colours, bits) in PACKED
    known = (is_packed or (colours in CHANNELS and bits in (8, 16))) and (compression, filters, interlace) == (0, 0, 0)
    if not known or not 0 < width < MOST_SIDE or not 0 < height < MOST_SIDE:
        return None
    if zlib.crc32(head[12:29]) != _CRC.unpack_from(head, 29)[0]:
        return None
    channels = 3 + has_alpha if colours == PALETTE else CHANNELS[colours]
    return PngHeader(width=width, height=height, bits=bits, channels=channels, is_packed=is_packed)


def has_transparency(file: bytes) -> bool:
    """Whether a PNG declares a transparent colour, or the alpha of its palette, before its pixels. Damage is left to the reader."""
    return _transparency_at(file) is not None


def colour_key(file: bytes) -> tuple[int, ...] | None:
    """The transparent colour of a PNG without alpha and palette, as its samples are read; ``None`` if it has none, or is damaged.

    It is stored in 16 bits a sample, of which those that a sample lacks are ignored, as in libpng. Samples of fewer than 8 bits are
    scaled to 0 up to 255, and it with them: Pillow compares it as it is stored.
    """
    at = _transparency_at(file)
    if at is None or file[COLOUR_AT] not in (GREY, COLOURS) or not 0 < file[DEPTH_AT] <= SAMPLE_BITS:
        return None
    stored = struct.Struct(f">{CHANNELS[file[COLOUR_AT]]}H")
    if int.from_bytes(file[at : at + 4], "big") < stored.size or len(file) < at + _CHUNK.size + stored.size:
        return None
    most = (1 << file[DEPTH_AT]) - 1
    scale = max(1, 255 // most)
    return tuple((sample & most) * scale for sample in stored.unpack_from(file, at + _CHUNK.size))


def _transparency_at(file: bytes) -> int | None:
    """Where the chunk of a transparent colour, or of a palette's alpha, begins."""
    at = HEADER_END
    while at + _CHUNK.size <= len(file):
        length, kind = _CHUNK.unpack_from(file, at)
        if kind in (b"tRNS", b"IDAT", b"IEND"):
            return at if kind == b"tRNS" else None
        at += 12 + length
    return None


def decode_png(files: Sequence[bytes], header: PngHeader) -> npt.NDArray[Any] | None:
    """The pixels of PNG files that all have the header of the first: by native code, or by Pillow depending on ``HEADRACE_ENGINES``.

    Returns:
        ``uint8`` or ``uint16 (n, height, width, channels)``; ``None`` if a file has another header, a transparent colour that is
        not of a palette, or an unusual palette.

    Raises:
        CorruptRecord: A file is damaged; ``where.record`` is its position.
    """
    if not engines().png.is_own:
        return _decode_by_pillow(files, header)
    try:
        if header.is_packed:
            samples = _native.decode_packed_png(files, header.height, header.width, header.bits, header.channels)
        else:
            samples = _native.decode_png(files, header.height, header.row_bytes, header.pixel_bytes)
    except _native.FormatError as error:
        raise _damage_error(error, len(files[error.record])) from error
    if samples is None:
        return None
    shape = (len(files), header.height, header.width, header.channels)
    if header.bits == SAMPLE_BITS:
        return samples.view(">u2").astype(np.uint16).reshape(shape)
    return samples.reshape(shape)


def _decode_by_pillow(files: Sequence[bytes], header: PngHeader) -> npt.NDArray[Any] | None:
    pillow = _optional.require("PIL.Image", extra="images")
    decoded = []
    for position, file in enumerate(files):
        if file[:HEADER_END] != files[0][:HEADER_END] or has_transparency(file):
            return None
        try:
            decoded.append(checked_pixels(file, partial(_pillow_pixels, pillow, file, header)))
        except Exception as error:  # Pillow raises errors of any class
            raise CorruptRecord(Where(record=position), expected="an intact PNG", found=str(error)) from error
    return np.stack(decoded)


def _pillow_pixels(pillow: Any, file: bytes, header: PngHeader) -> Pixels:
    if header.bits == SAMPLE_BITS:
        return deep_pixels(pillow, file)
    with pillow.open(io.BytesIO(file), formats=("PNG",)) as opened:
        return np.asarray(opened).reshape(header.height, header.width, header.channels)


def _damage_error(error: _native.FormatError, size: int) -> CorruptRecord:
    """The error for a damaged file of ``size`` bytes."""
    expected, found = {
        "header": (f"{error.expected} bytes of pixels", f"a file of {size} bytes, which cannot be as many"),
        "truncated": ("a whole PNG", f"the end of the file after {size} bytes, or of the pixels in it"),
        "payload_checksum": ("pixels with the checksum that is stored", "others"),
        "wrong_count": (
            f"{error.expected} bytes of pixels",
            "more of them" if error.found > error.expected else "fewer",
        ),
        "range": ("rows with a filter that PNG has", f"one with filter {error.found}"),
    }.get(error.fault, ("compressed pixels", "other data"))
    return CorruptRecord(Where(record=error.record), expected=expected, found=found)
