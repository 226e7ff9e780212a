"""Native decoding of plain PNG files, compared with Pillow; damaged files."""

import io
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from tests.codecs.images.files import chunk

from headrace.codecs.images import open as opened
from headrace.codecs.images.decode import ImageDecoder
from headrace.codecs.images.png import decode_png, plain_header
from headrace.contracts.feature import Feature
from headrace.contracts.images import ImageOptions
from headrace.errors import CorruptRecord

pytestmark = pytest.mark.usefixtures("own_engines")  # These tests are for our own decoder.
MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}


def with_pillow(pixels, **options):
    buffer = io.BytesIO()
    plain = pixels[..., 0] if pixels.shape[2] == 1 else pixels
    Image.fromarray(plain, MODES[pixels.shape[2]]).save(buffer, "PNG", **options)
    return buffer.getvalue()


def filtered(pixels, filters):
    """A PNG whose rows use these filters, written from the specification."""
    height, width, channels = pixels.shape
    step = channels * pixels.itemsize
    rows = pixels.astype(pixels.dtype.newbyteorder(">")).view(np.uint8).reshape(height, -1).astype(int)
    lines = []
    for y in range(height):
        above = rows[y - 1] if y else np.zeros_like(rows[0])
        left = np.concatenate([np.zeros(step, int), rows[y, :-step]])
        corner = np.concatenate([np.zeros(step, int), above[:-step]])
        estimate = left + above - corner
        distances = np.stack([abs(estimate - left), abs(estimate - above), abs(estimate - corner)])
        nearest = np.choose(distances.argmin(0), [left, above, corner])
        guess = [0 * left, left, above, (left + above) // 2, nearest][filters[y]]
        lines.append(bytes([filters[y]]) + ((rows[y] - guess) % 256).astype(np.uint8).tobytes())
    colours = {1: 0, 3: 2, 2: 4, 4: 6}[channels]
    head = struct.pack(">IIBBBBB", width, height, 8 * pixels.itemsize, colours, 0, 0, 0)
    body = zlib.compress(b"".join(lines))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


@given(st.integers(1, 4), st.integers(1, 9), st.integers(1, 9), st.sampled_from(["uint8", "uint16"]), st.data())
def test_every_filter_is_undone(channels, height, width, dtype, data):
    seed = data.draw(st.integers(0, 2**32 - 1))
    pixels = np.random.default_rng(seed).integers(0, np.iinfo(dtype).max, (height, width, channels), dtype)
    file = filtered(pixels, data.draw(st.lists(st.integers(0, 4), min_size=height, max_size=height)))
    found = decode_png([file, file], plain_header(file))
    assert found.dtype == pixels.dtype
    np.testing.assert_array_equal(found, [pixels, pixels])


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("level", [0, 1, 9])
def test_files_written_by_pillow(channels, level):
    y, x = np.mgrid[:40, :30]
    pixels = np.stack([(x * 3 + y * k) % 256 for k in range(channels)], -1).astype(np.uint8)
    file = with_pillow(pixels, compress_level=level)
    np.testing.assert_array_equal(decode_png([file], plain_header(file))[0], pixels)


@settings(deadline=None)
@given(
    st.one_of(
        st.binary(min_size=1, max_size=2000),
        st.tuples(st.binary(min_size=1, max_size=9), st.integers(1, 4000)).map(
            lambda reported: reported[0] * reported[1]
        ),
        st.tuples(st.integers(0, 99), st.integers(1, 70_000), st.integers(2, 256)).map(
            lambda reported: bytes(
                np.random.default_rng(reported[0]).geometric(1 / reported[2], reported[1]).clip(1, 255).tolist()
            )
        ),
    ),
    st.integers(0, 9),
    st.sampled_from([zlib.Z_DEFAULT_STRATEGY, zlib.Z_FIXED, zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE, zlib.Z_FILTERED]),
    st.integers(9, 15),
)
def test_whatever_zlib_writes_is_decompressed(content, level, strategy, window):
    compressor = zlib.compressobj(level, zlib.DEFLATED, window, 9, strategy)
    half = len(content) // 2
    parts = [compressor.compress(b"\0" + content[:half]), compressor.flush(zlib.Z_FULL_FLUSH)]  # several blocks
    stream = b"".join([*parts, compressor.compress(content[half:]), compressor.flush()])
    file = one_row(len(content), stream)
    assert decode_png([file, file], plain_header(file)).tobytes() == content * 2


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300), st.booleans(), st.data())
def test_streams_that_zlib_refuses_are_refused_and_no_others(noise, is_headed, data):
    stream = bytearray(b"\x78\x9c" + noise if is_headed else zlib.compress(noise[:60], data.draw(st.integers(0, 9))))
    for _ in range(data.draw(st.integers(0, 3))):
        stream[data.draw(st.integers(0, len(stream) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        expected = zlib.decompress(bytes(stream))
    except zlib.error:
        expected = None
    size = max(1, len(expected or b"") - 1)
    file = one_row(size, bytes(stream))
    is_image = expected is not None and len(expected) == size + 1 and expected[0] == 0
    if is_image:
        assert decode_png([file], plain_header(file)).tobytes() == expected[1:]
    elif expected is None or len(expected) != size + 1 or expected[0] > 4:
        with pytest.raises(CorruptRecord):
            decode_png([file], plain_header(file))


def one_row(width, stream):
    """A gray image of one row, made of a compressed stream."""
    head = struct.pack(">IIBBBBB", width, 1, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", stream) + chunk(b"IEND", b"")


def test_only_plain_images_are_decoded_natively():
    pixels = np.zeros((4, 4, 3), np.uint8)
    assert plain_header(interlaced(pixels)) is None
    transparent = io.BytesIO()
    Image.fromarray(pixels).save(transparent, "PNG", transparency=(0, 0, 0))
    file = transparent.getvalue()
    assert decode_png([file], plain_header(file)) is None
    other = with_pillow(np.zeros((4, 5, 3), np.uint8))
    plain = with_pillow(pixels)
    assert decode_png([plain, other], plain_header(plain)) is None
    large = with_pillow(np.zeros((999, 999, 3), np.uint8))
    assert decode_png([large, plain], plain_header(large)) is None  # not "too small for its pixels"
    assert plain_header(b"\xff\xd8") is None


def test_chunks_between_and_pixels_in_several_chunks():
    pixels = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    file = filtered(pixels, [0] * 4)
    body = zlib.compress(b"".join(b"\0" + row.tobytes() for row in pixels))
    parts = chunk(b"tEXt", b"a\0b") + chunk(b"IDAT", body[:5]) + chunk(b"IDAT", b"") + chunk(b"IDAT", body[5:])
    several = file[:33] + parts + chunk(b"IEND", b"")
    np.testing.assert_array_equal(decode_png([several], plain_header(several))[0], pixels)


def test_every_cut_is_reported():
    file = filtered(np.arange(48, dtype=np.uint8).reshape(4, 4, 3), [1, 2, 3, 4])
    header = plain_header(file)
    for size in range(33, len(file)):
        with pytest.raises(CorruptRecord) as caught:
            decode_png([file, file[:size]], header)
        assert caught.value.where.record == 1
    for size in range(33):
        assert plain_header(file[:size]) is None


def test_every_flipped_byte_is_reported_or_harmless():
    pixels = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    file = filtered(pixels, [1, 2, 3, 4])
    for at in range(len(file)):
        bad = bytearray(file)
        bad[at] ^= 0x55
        header = plain_header(bytes(bad))
        if header is None:
            continue
        try:
            found = decode_png([bytes(bad)], header)
        except CorruptRecord:
            continue
        assert found is None or (found == pixels).all(), at


def test_a_header_that_promises_too_much_takes_no_memory():
    head = struct.pack(">IIBBBBB", 1 << 30, 1 << 30, 16, 6, 0, 0, 0)
    file = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"0")) + chunk(b"IEND", b"")
    with pytest.raises(CorruptRecord, match="cannot be as many"):
        decode_png([file], plain_header(file))
    bomb = struct.pack(">IIBBBBB", 2, 2, 8, 0, 0, 0, 0)
    body = zlib.compress(bytes(10_000_000))
    file = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", bomb) + chunk(b"IDAT", body) + chunk(b"IEND", b"")
    with pytest.raises(CorruptRecord, match="expected 6 bytes of pixels"):
        decode_png([file], plain_header(file))


def with_key(pixels):
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG", transparency=tuple(int(value) for value in pixels[0, 0]))
    return buffer.getvalue()


def interlaced(pixels):
    """An image of one pixel has only one of the seven passes, so its interlaced form is the same."""
    file = bytearray(with_pillow(pixels[:1, :1]))
    file[28] = 1
    file[29:33] = struct.pack(">I", zlib.crc32(file[12:29]))
    return bytes(file)


def test_pngs_of_many_sizes_and_kinds_are_decoded_one_by_one(monkeypatch):
    random = np.random.default_rng(3)
    colours = [random.integers(0, 256, (5 + k, 9 - k, 3), np.uint8) for k in range(4)]
    deep = random.integers(0, 65536, (4, 6, 3), np.uint16)
    files = [
        *map(with_pillow, colours),
        with_pillow(colours[0][..., :1]),
        interlaced(colours[1]),
        filtered(deep, [1] * 4),
    ]
    opened_by_pillow = []
    monkeypatch.setattr(
        opened, "_open", lambda image, kind, by=opened._open: opened_by_pillow.append(image) or by(image, kind)
    )
    feature = Feature("uint16", (None, None, 3), encoding="png")
    found = ImageDecoder(feature, ImageOptions(), exact=False).images(files)
    wanted = [*colours, np.repeat(colours[0][..., :1], 3, axis=2), colours[1][:1, :1]]
    for pixels, expected in zip(found, wanted, strict=False):
        np.testing.assert_array_equal(pixels, expected.astype(np.uint16) * 257)
    np.testing.assert_array_equal(found[-1], deep)
    assert opened_by_pillow == [files[5]]


def test_images_of_several_million_pixels_are_decoded_natively(monkeypatch):
    y, x = np.mgrid[:1500, :1600]
    pixels = np.stack([x + y * k for k in range(3)], -1).astype(np.uint8)
    monkeypatch.setattr(opened, "_open", lambda image, kind: pytest.fail("Pillow opened it"))
    for shape in ((1500, 1600, 3), (None, None, 3)):
        decoder = ImageDecoder(Feature("uint8", shape, encoding="png"), ImageOptions(), exact=False)
        (found,) = decoder.images([with_pillow(pixels, compress_level=1)])
        np.testing.assert_array_equal(found, pixels)


def test_images_of_24_megapixels_are_decoded_natively(monkeypatch):
    pixels = np.zeros((4000, 6100, 1), np.uint8)
    pixels[-300:, -400:] = np.random.default_rng(5).integers(0, 256, (300, 400, 1))
    monkeypatch.setattr(opened, "_open", lambda image, kind: pytest.fail("Pillow opened it"))
    decoder = ImageDecoder(Feature("uint8", pixels.shape, encoding="png"), ImageOptions(), exact=False)
    np.testing.assert_array_equal(decoder.images([with_pillow(pixels, compress_level=1)])[0], pixels)


def test_a_transparent_colour_becomes_alpha():
    random = np.random.default_rng(4)
    pixels = random.integers(0, 256, (5, 7, 3), np.uint8)
    feature = Feature("uint8", (None, None, 4), encoding="png")
    decoded = ImageDecoder(feature, ImageOptions(), exact=False)
    plain, keyed = decoded.images([with_pillow(pixels), with_key(pixels[:4])])
    assert plain[..., 3].min() == 255
    assert keyed[0, 0, 3] == 0


def test_a_damaged_one_among_many_sizes_is_named():
    files = [with_pillow(np.full((4 + k, 5, 3), k, np.uint8)) for k in range(4)]
    damaged = bytearray(files[2])
    damaged[-20] ^= 1
    files[2] = bytes(damaged)
    feature = Feature("uint8", (None, None, 3), encoding="png")
    with pytest.raises(CorruptRecord, match="checksum") as error:
        ImageDecoder(feature, ImageOptions(), exact=False).images(files)
    assert error.value.where.record == 2


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_pillow_decodes_the_same(request, channels, dtype):
    rng = np.random.default_rng(channels)
    pixels = rng.integers(0, np.iinfo(dtype).max, (3, 5, 7, channels), dtype)
    files = [filtered(one, [4, 0, 1, 2, 3]) for one in pixels]
    damaged = bytearray(files[1])
    damaged[-20] ^= 1
    found = []
    for engine in ("own_engines", "library_engines"):
        request.getfixturevalue(engine)
        header = plain_header(files[0])
        found.append(decode_png(files, header))
        assert decode_png([files[0], filtered(pixels[0, :4], [0] * 4)], header) is None
        with pytest.raises(CorruptRecord) as caught:
            decode_png([files[0], bytes(damaged)], header)
        assert caught.value.where.record == 1
    assert found[0].dtype == found[1].dtype == dtype
    np.testing.assert_array_equal(found[0], pixels)
    np.testing.assert_array_equal(found[1], pixels)
