"""TIFFs: parts and JPEGs that are missing or too small, 16-bit samples, inverted and signed ones."""

import io
import struct
import tracemalloc
import zlib

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_sample_images
from tests.codecs.images.files import noise

import headrace as hr
from headrace.codecs.images import tiff as tiff_module
from headrace.codecs.images.decode import ImageDecoder
from headrace.codecs.images.open import open_image
from headrace.codecs.images.tiff import check_parts
from headrace.contracts.feature import Feature
from headrace.contracts.images import ImageOptions

RAW, JPEG, DEFLATE = 1, 7, 8
SHORT, LONG, UNDEFINED = 3, 4, 7
TYPES = {SHORT: "H", LONG: "I", UNDEFINED: "B"}


def tiff(height, width, parts, tags, *, order="<"):
    """A TIFF of these compressed parts. ``tags`` are values by number, or types with values."""
    is_tiled = 322 in tags
    entries = {256: width, 257: height, 277: 1, **tags}
    out = {"<": b"II*\0", ">": b"MM\0*"}[order] + bytes(4)
    offsets = []
    for part in parts:
        offsets.append(len(out))
        out += part + bytes(len(part) % 2)
    entries |= {(324 if is_tiled else 273): offsets, (325 if is_tiled else 279): list(map(len, parts))}
    directory = []
    for tag, value in sorted(entries.items()):
        kind, values = value if isinstance(value, tuple) else (LONG if tag in (273, 279, 324, 325) else SHORT, value)
        values = values if isinstance(values, (list, bytes)) else [values]
        content = struct.pack(f"{order}{len(values)}{TYPES[kind]}", *values)
        if len(content) > 4:
            place, out = len(out), out + content + bytes(len(content) % 2)
            content = struct.pack(f"{order}I", place)
        directory.append(struct.pack(f"{order}HHI", tag, kind, len(values)) + content.ljust(4, b"\0"))
    at = len(out)
    out += struct.pack(f"{order}H", len(directory)) + b"".join(directory) + bytes(4)
    return out[:4] + struct.pack(f"{order}I", at) + out[8:]


def pixels_of(image):
    header = open_image(image)
    out = np.zeros((header.height, header.width, header.channels), header.dtype)
    header.pixels_into(out)
    return out


def decode(image, channels=None):
    feature = Feature("uint8", (None, None, channels), encoding="tiff")
    return ImageDecoder(feature, ImageOptions(), exact=False).images([image])[0]


def photograph(height=64, width=48):
    return np.ascontiguousarray(load_sample_images().images[0][100 : 100 + height, 100 : 100 + width])


def jpeg(pixels, *, subsampling=0):
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG", quality=90, subsampling=subsampling)
    return out.getvalue()


def of_jpegs(height, width, pixels, *, subsampling=0, **tags):
    """A TIFF of JPEGs in YCbCr, one for each array."""
    more = {int(tag[1:]): value for tag, value in tags.items()}
    chroma = {0: [1, 1], 1: [2, 1], 2: [2, 2]}[subsampling]
    parts = [jpeg(part, subsampling=subsampling) for part in pixels]
    return tiff(height, width, parts, {258: [8, 8, 8], 259: JPEG, 262: 6, 277: 3, 530: chroma, **more})


@pytest.mark.parametrize("subsampling", [0, 1, 2])
def test_jpegs_that_fill_their_strips_and_tiles(subsampling):
    pixels = photograph()
    whole = [
        of_jpegs(64, 48, [pixels], subsampling=subsampling),
        of_jpegs(64, 48, [pixels], subsampling=subsampling, t278=64),
        of_jpegs(64, 48, [pixels], subsampling=subsampling, t278=(LONG, (1 << 32) - 1)),
        of_jpegs(64, 48, [pixels[:32], pixels[32:]], subsampling=subsampling, t278=32),
        of_jpegs(56, 48, [pixels[:32], pixels[32:56]], subsampling=subsampling, t278=32),  # a shorter last strip
        of_jpegs(56, 48, [pixels[:32], pixels[32:]], subsampling=subsampling, t278=32),  # which libtiff cuts off
    ]
    for image in whole:
        found = decode(image)
        assert np.abs(found.astype(int) - pixels[: len(found)]).mean() < 12
    wide = photograph(64, 64)
    quarters = [wide[y : y + 32, x : x + 32] for y in (0, 32) for x in (0, 32)]
    tiles = of_jpegs(50, 40, quarters, subsampling=subsampling, t322=32, t323=32)
    assert np.abs(decode(tiles).astype(int) - wide[:50, :40]).mean() < 12


@pytest.mark.parametrize("subsampling", [0, 1, 2])
def test_jpegs_smaller_than_their_strip_or_tile_are_damage(subsampling):
    pixels = photograph()
    short = [
        of_jpegs(128, 48, [pixels], subsampling=subsampling),
        of_jpegs(128, 48, [pixels], subsampling=subsampling, t278=128),
        of_jpegs(64, 96, [pixels], subsampling=subsampling),
        of_jpegs(64, 48, [pixels[:32], pixels[32:56]], subsampling=subsampling, t278=32),
        of_jpegs(64, 48, [pixels[:24], pixels[32:]], subsampling=subsampling, t278=32),
        of_jpegs(30, 30, [pixels[:16, :32]], subsampling=subsampling, t322=32, t323=32),
        of_jpegs(30, 30, [pixels[:32, :16]], subsampling=subsampling, t322=32, t323=32),
    ]
    for image in short:
        with pytest.raises(hr.CorruptRecord, match=r"a JPEG of \d+ x \d+ in a part of \d+ x \d+"):
            decode(image)


@pytest.mark.parametrize("subsampling", [0, 1])
def test_planes_of_jpegs(subsampling):
    """Planes of colours are as small as the subsampling says."""
    across = 1 + subsampling
    planes = [noise(64, 48, 1)[:, :, 0], *(noise(64, 48 // across, 1, seed=k)[:, :, 0] for k in (1, 2))]
    tags = {258: [8, 8, 8], 259: JPEG, 262: 6, 277: 3, 284: 2, 530: [across, 1]}

    def check(image):
        check_parts(Image.open(io.BytesIO(image)).tag_v2, image)

    check(tiff(64, 48, list(map(jpeg, planes)), tags))
    planes[2] = planes[2][:56]
    with pytest.raises(ValueError, match=f"a JPEG of 56 x {48 // across} in a part of 64 x {48 // across}"):
        check(tiff(64, 48, list(map(jpeg, planes)), tags))


@pytest.mark.parametrize("compression", [RAW, DEFLATE])
def test_strips_that_are_missing_are_damage(compression):
    pixels = photograph()
    rows = [pixels[:32].tobytes(), pixels[32:].tobytes()]
    parts = rows if compression == RAW else list(map(zlib.compress, rows))
    tags = {258: [8, 8, 8], 259: compression, 262: 2, 277: 3, 278: 32}
    np.testing.assert_array_equal(decode(tiff(64, 48, parts, tags)), pixels)
    with pytest.raises(hr.CorruptRecord, match="1 of its 2 parts"):
        decode(tiff(64, 48, parts[:1], tags))


def test_verify_lists_what_is_short(tmp_path):
    pixels = photograph()
    path = tmp_path / "a.tfrecord"
    images = [of_jpegs(64, 48, [pixels]), of_jpegs(128, 48, [pixels])]
    hr.write(path, {"image": np.array(images, object)})
    assert [fault.where.record for fault in hr.verify(path, images=True).faults] == [1]


def deep(pixels, photometric, *, order="<", compression=RAW, **tags):
    content = pixels.astype(f"{order}u2").tobytes()
    channels = pixels.shape[2]
    more = {258: [16] * channels, 259: compression, 262: photometric, 277: channels}
    more |= {int(tag[1:]): value for tag, value in tags.items()}
    parts = [content if compression == RAW else zlib.compress(content)]
    return tiff(*pixels.shape[:2], parts, more, order=order)


def deep_noise(channels):
    return np.random.default_rng(channels).integers(0, 1 << 16, (7, 9, channels), np.uint16)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("compression", [RAW, DEFLATE])
def test_samples_of_16_bits_keep_both_bytes(order, compression):
    how = {"order": order, "compression": compression}
    kinds = [
        (deep(deep_noise(1), 1, **how), deep_noise(1)),
        (deep(deep_noise(3), 2, **how), deep_noise(3)),
        (deep(deep_noise(4), 2, **how, t338=2), deep_noise(4)),
        (deep(deep_noise(4), 2, **how, t338=0), deep_noise(4)[:, :, :3]),  # the fourth is no alpha
    ]
    for image, wanted in kinds:
        found = pixels_of(image)
        assert found.dtype == np.uint16
        np.testing.assert_array_equal(found, wanted)
    with pytest.raises(hr.SchemaMismatch, match="one of uint16"):
        decode(kinds[1][0])


@pytest.mark.parametrize("compression", [RAW, DEFLATE])
def test_0_may_be_white(compression):
    grey = deep_noise(1)
    np.testing.assert_array_equal(pixels_of(deep(grey, 0, compression=compression)), 65535 - grey)
    eight = (grey >> 8).astype(np.uint8)
    content = eight.tobytes() if compression == RAW else zlib.compress(eight.tobytes())
    image = tiff(7, 9, [content], {258: 8, 259: compression, 262: 0})
    np.testing.assert_array_equal(pixels_of(image), 255 - eight)


REFUSED = {
    "signed": tiff(2, 3, [bytes(6)], {258: 8, 259: RAW, 262: 1, 339: 2}),
    "multiplied by alpha": deep(deep_noise(4), 2, t338=1),
    "16-bit inks": deep(deep_noise(4), 5),
    "in planes": tiff(7, 9, [bytes(126)] * 3, {258: [16] * 3, 259: RAW, 262: 2, 277: 3, 284: 2}),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_samples_that_would_be_misread_are_refused(kind):
    with pytest.raises(hr.UnsupportedData, match=kind):
        decode(REFUSED[kind])


@pytest.mark.parametrize("tags", [{322: 1, 323: 1}, {278: 1}])
def test_missing_parts_are_counted_before_anything_is_done_for_each(tags):
    """9000 x 9000 parts took gigabytes."""
    height, width = (9000, 9000) if 322 in tags else (65_000, 1)
    image = tiff(height, width, [bytes(64)], {258: 8, 259: RAW, 262: 1, **tags})
    entries = Image.open(io.BytesIO(image)).tag_v2
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=f"1 of its {height * width} parts"):
            check_parts(entries, image)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def at_one_place(image, count):
    """The TIFF with the place of its first strip for all."""
    for tag in (273, 279):
        at = image.index(struct.pack("<HHI", tag, LONG, count))
        (values,) = struct.unpack_from("<I", image, at + 8)
        image = image[:values] + image[values : values + 4] * count + image[values + 4 * count :]
    return image


def test_jpegs_of_another_size_are_refused_before_their_codes_are_read(monkeypatch):
    """A few bytes that were read again for each of thousands of strips took minutes."""
    monkeypatch.setattr(tiff_module._native, "is_jpeg_sound", None)
    pixels = photograph()
    for image in (
        at_one_place(of_jpegs(64, 48, [pixels, *[pixels[:1]] * 63], t278=1), 64),
        of_jpegs(64, 40, [pixels]),
        of_jpegs(8, 48, [pixels]),
        of_jpegs(8, 8, [pixels], t322=8192, t323=8192),
    ):
        with pytest.raises(hr.CorruptRecord, match="a JPEG of 64 x 48 in a part of|tiles of 8192 x 8192"):
            decode(image)


def test_parts_at_one_place_are_checked_once(monkeypatch):
    checked = []
    monkeypatch.setattr(tiff_module, "check_scans", checked.append)
    pixels = photograph()
    image = at_one_place(of_jpegs(64, 48, [pixels[:16]] * 4, t278=16), 4)
    found = decode(image)
    np.testing.assert_array_equal(found[16:32], found[:16])
    assert len(checked) == 1


def test_parts_that_overlap_are_damage():
    pixels = photograph()
    image = of_jpegs(64, 48, [pixels[:16]] * 4, t278=16)
    at = image.index(struct.pack("<HHI", 279, LONG, 4))
    (sizes,) = struct.unpack_from("<I", image, at + 8)
    image = image[:sizes] + struct.pack("<4I", *[len(image)] * 4) + image[sizes + 16 :]
    with pytest.raises(hr.CorruptRecord, match="parts that overlap"):
        decode(image)


@pytest.mark.parametrize(
    ("tags", "order"),
    [
        ({258: 32, 262: 1}, ">"),
        ({258: 16, 262: 0}, ">"),
        ({258: [16, 16], 262: 1, 277: 2, 338: 2}, "<"),
        ({258: [8, 8], 262: 1, 277: 2, 284: 2, 338: 2}, "<"),
    ],
)
def test_whole_images_that_pillow_does_not_read_are_no_damage(tags, order):
    samples, planes = tags.get(277, 1), 2 if 284 in tags else 1
    size = 4 * 5 * samples * np.max(tags[258]) // 8 // planes
    whole = tiff(4, 5, [bytes(size)] * planes, {259: RAW, 278: 4, **tags}, order=order)
    with pytest.raises(hr.UnsupportedData, match="a TIFF (of|with)"):
        decode(whole)
    if planes == 1:  # their one part lies before the directory
        with pytest.raises(hr.CorruptRecord):
            decode(whole[:-6])
