"""Native decoding of PNG files with a palette or of fewer than 8 bits, compared with NumPy and Pillow."""

import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.codecs.images.files import chunk

from headrace.codecs.images import open as opened
from headrace.codecs.images.decode import ImageDecoder
from headrace.codecs.images.png import decode_png, plain_header
from headrace.contracts.feature import Feature
from headrace.contracts.images import ImageOptions
from headrace.errors import DataError

GREY, PALETTE = 0, 3
SIGNATURE = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def own(request):
    request.getfixturevalue("own_engines")


def header_chunk(height, width, bits, kind):
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, kind, 0, 0, 0))


def pixels_chunk(numbers, bits, filters=None):
    """Rows of numbers, packed as the specification says, with these filters (0, 1 or 2)."""
    lines, above = [], None
    for y, row in enumerate(numbers):
        digits = "".join(f"{number:0{bits}b}" for number in row)
        digits += "0" * (-len(digits) % 8)
        packed = np.array([int(digits[at : at + 8], 2) for at in range(0, len(digits), 8)])
        above = np.zeros_like(packed) if above is None else above
        how = 0 if filters is None else filters[y]
        guess = [0 * packed, np.concatenate([[0], packed[:-1]]), above][how]
        lines.append(bytes([how]) + ((packed - guess) % 256).astype(np.uint8).tobytes())
        above = packed
    return chunk(b"IDAT", zlib.compress(b"".join(lines)))


def packed_png(numbers, bits, kind, palette=b"", alpha=b"", filters=None):
    parts = [SIGNATURE, header_chunk(*numbers.shape, bits, kind)]
    parts += [chunk(name, content) for name, content in ((b"PLTE", palette), (b"tRNS", alpha)) if content]
    return b"".join([*parts, pixels_chunk(numbers, bits, filters), chunk(b"IEND", b"")])


def by_decoder(file, channels, engine=ImageOptions()):
    return ImageDecoder(Feature("uint8", (None, None, channels), encoding="png"), engine, exact=False).images([file])[0]


@st.composite
def images(draw):
    """A file and its pixels by NumPy."""
    kind, bits = draw(st.sampled_from([(GREY, 1), (GREY, 2), (GREY, 4), *((PALETTE, bits) for bits in (1, 2, 4, 8))]))
    height, width = draw(st.integers(1, 5)), draw(st.integers(1, 19))
    filters = draw(st.lists(st.integers(0, 2), min_size=height, max_size=height))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    if kind == GREY:
        numbers = random.integers(0, 1 << bits, (height, width))
        pixels = numbers[..., None] * (255 // ((1 << bits) - 1))
        return packed_png(numbers, bits, GREY, filters=filters), pixels.astype(np.uint8)
    size = draw(st.integers(1, 1 << bits))
    numbers = random.integers(0, size, (height, width))
    colours = random.integers(0, 256, (size, 3), np.uint8)
    stored = random.integers(0, 256, draw(st.integers(0, size)), np.uint8)
    file = packed_png(numbers, bits, PALETTE, colours.tobytes(), stored.tobytes(), filters)
    if not len(stored):
        return file, colours[numbers]
    alpha = np.concatenate([stored, np.full(size - len(stored), 255, np.uint8)])
    return file, np.concatenate([colours, alpha[:, None]], 1)[numbers]


@pytest.mark.usefixtures("own")
@given(images())
def test_numbers_become_samples(image):
    file, pixels = image
    header = plain_header(file)
    assert header.channels == pixels.shape[2]
    for found in decode_png([file, file], header):
        np.testing.assert_array_equal(found, pixels)


@pytest.mark.usefixtures("library_engines")
@given(images())
def test_pillow_finds_the_same(image):
    file, pixels = image
    assert plain_header(file) is None  # Its decoder of plain files knows no palettes.
    np.testing.assert_array_equal(by_decoder(file, pixels.shape[2]), pixels)


@pytest.mark.usefixtures("own")
@given(images())
def test_a_decoder_of_any_channels_finds_the_same(image):
    file, pixels = image
    found = by_decoder(file, 4)
    colours = np.repeat(pixels, 3, axis=2) if pixels.shape[2] == 1 else pixels[..., :3]
    np.testing.assert_array_equal(found[..., :3], colours)
    np.testing.assert_array_equal(found[..., 3], pixels[..., 3] if pixels.shape[2] == 4 else 255)


@pytest.mark.usefixtures("own")
def test_files_of_one_size_are_decoded_in_one_call(monkeypatch):
    monkeypatch.setattr(opened, "_open", lambda image, kind: pytest.fail("Pillow opened it"))
    numbers = np.arange(12).reshape(3, 4) % 5
    colours = np.arange(45, dtype=np.uint8).reshape(3, 5, 3)  # a palette for each
    files = [packed_png(numbers, 4, PALETTE, one.tobytes()) for one in colours]
    decoder = ImageDecoder(Feature("uint8", (3, 4, 3), encoding="png"), ImageOptions(), exact=False)
    np.testing.assert_array_equal(decoder.images(files), colours[:, numbers])


NUMBERS = np.arange(6).reshape(2, 3) % 4
COLOURS = bytes(range(12))
HEAD, PIXELS, END = header_chunk(2, 3, 2, PALETTE), pixels_chunk(NUMBERS, 2), chunk(b"IEND", b"")
UNUSUAL = {
    "a colour beyond the palette": [chunk(b"PLTE", COLOURS[:9]), PIXELS],
    "no palette": [PIXELS],
    "a palette of 4 bytes": [chunk(b"PLTE", COLOURS[:4]), PIXELS],
    "an empty palette": [chunk(b"PLTE", b""), PIXELS],
    "more colours than numbers": [chunk(b"PLTE", COLOURS + b"abc"), PIXELS],
    "two palettes": [chunk(b"PLTE", COLOURS), chunk(b"PLTE", COLOURS[::-1]), PIXELS],
    "a palette behind the pixels": [PIXELS, chunk(b"PLTE", COLOURS)],
    "a second palette behind the pixels": [chunk(b"PLTE", COLOURS), PIXELS, chunk(b"PLTE", COLOURS[::-1])],
    "more alpha than colours": [chunk(b"PLTE", COLOURS), chunk(b"tRNS", b"abcde"), PIXELS],
    "empty alpha": [chunk(b"PLTE", COLOURS), chunk(b"tRNS", b""), PIXELS],
    "alpha before the palette": [chunk(b"tRNS", b"abcd"), chunk(b"PLTE", COLOURS), PIXELS],
    "alpha behind the pixels": [chunk(b"PLTE", COLOURS), PIXELS, chunk(b"tRNS", b"abcd")],
    "alpha twice": [chunk(b"PLTE", COLOURS), chunk(b"tRNS", b"abcd"), chunk(b"tRNS", b"dcba"), PIXELS],
}


@pytest.mark.parametrize("parts", UNUSUAL.values(), ids=UNUSUAL)
def test_unusual_palettes_are_left_to_pillow(request, parts):
    file = b"".join([SIGNATURE, HEAD, *parts, END])
    request.getfixturevalue("own_engines")
    assert decode_png([file], plain_header(file)) is None
    found = []
    for engine in ("own_engines", "library_engines"):
        request.getfixturevalue(engine)
        try:
            found.append(by_decoder(file, 4).tolist())
        except DataError as error:
            found.append(str(error))
    assert found[0] == found[1]


@pytest.mark.usefixtures("own")
def test_a_grey_that_is_transparent_is_left_to_pillow():
    file = packed_png(NUMBERS, 2, GREY, alpha=b"\0\1")
    assert decode_png([file], plain_header(file)) is None
    np.testing.assert_array_equal(by_decoder(file, 2)[..., 1], np.where(NUMBERS == 1, 0, 255))


@pytest.mark.usefixtures("own")
def test_every_cut_and_flip_is_reported_or_harmless():
    file = packed_png(NUMBERS, 2, PALETTE, COLOURS, b"abcd")
    header = plain_header(file)
    pixels = decode_png([file], header)
    for cut in range(33, len(file)):
        with pytest.raises(DataError):
            by_decoder(file[:cut], 4)
    for at in range(33, len(file)):
        bad = bytearray(file)
        bad[at] ^= 1
        with pytest.raises(DataError):
            decode_png([bytes(bad)], header)
    assert pixels.shape == (1, 2, 3, 4)


@pytest.mark.usefixtures("own")
def test_a_small_file_of_a_large_image_is_decoded_alone_before_memory_is_taken():
    side = 1 << 12
    rows = zlib.compress(bytes((1 + side // 8) * (side - 1)))  # a row is missing
    file = b"".join(
        [SIGNATURE, header_chunk(side, side, 1, PALETTE), chunk(b"PLTE", b"abcdef"), chunk(b"IDAT", rows), END]
    )
    decoder = ImageDecoder(Feature("uint8", (side, side, 3), encoding="png"), ImageOptions(), exact=False)
    with pytest.raises(DataError) as error:
        decoder.images([file] * 100)  # 5 GB if it were believed
    assert error.value.where.record == 0
