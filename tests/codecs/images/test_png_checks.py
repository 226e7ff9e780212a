"""PNGs of every kind of colours and depth, interlaced or not: transparent colours, missing rows, damaged chunks, named faults."""

import itertools
import os
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest
from PIL import Image
from tests.codecs.images.test_plain_png import chunk

import headrace as hr
from headrace.codecs.images.decode import ImageDecoder
from headrace.codecs.images.png_checks import PASSES, check_png
from headrace.codecs.images.views import decoder_of, feature_of_views
from headrace.contracts.feature import Feature
from headrace.contracts.images import ImageOptions, RandomResizedCrop

SIGNATURE = b"\x89PNG\r\n\x1a\n"
GREY, COLOURS, PALETTE, GREY_ALPHA, COLOURS_ALPHA = 0, 2, 3, 4, 6
SAMPLES = {GREY: 1, COLOURS: 3, PALETTE: 1, GREY_ALPHA: 2, COLOURS_ALPHA: 4}
KINDS = [(GREY, bits) for bits in (1, 2, 4, 8, 16)] + [(PALETTE, bits) for bits in (1, 2, 4, 8)]
KINDS += [(colours, bits) for colours in (COLOURS, GREY_ALPHA, COLOURS_ALPHA) for bits in (8, 16)]
ENDING = chunk(b"IEND", b"")
HEIGHT, WIDTH = 11, 13


@pytest.fixture(params=["own_engines", "library_engines"], autouse=True)
def either_engine(request):
    return request.getfixturevalue(request.param)


def header(width, height, bits, colours, *, compression=0, filters=0, interlace=0):
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, colours, compression, filters, interlace))


def rows_of(samples, bits, *, is_interlaced=False):
    """The filtered rows, of filter 0, of samples ``(h, w, c)``."""
    out = b""
    for first_row, first_column, row_step, column_step in PASSES if is_interlaced else ((0, 0, 1, 1),):
        part = samples[first_row::row_step, first_column::column_step]
        for row in part if part.shape[1] else ():
            flags = (row.reshape(-1, 1).astype(np.int64) >> np.arange(bits)[::-1]) & 1
            out += b"\0" + np.packbits(flags.reshape(-1).astype(np.uint8)).tobytes()
    return out


def random_samples(colours, bits, *, height=HEIGHT, width=WIDTH):
    return np.random.default_rng(bits + colours).integers(0, 1 << bits, (height, width, SAMPLES[colours]))


def png(samples, bits, colours, *, extra=(), is_interlaced=False, rows=None):
    height, width = samples.shape[:2]
    palette = [chunk(b"PLTE", bytes(range(3)) * (1 << bits))] if colours == PALETTE else []
    pixels = chunk(
        b"IDAT", zlib.compress(rows_of(samples, bits, is_interlaced=is_interlaced) if rows is None else rows)
    )
    head = header(width, height, bits, colours, interlace=int(is_interlaced))
    return b"".join([SIGNATURE, head, *palette, *extra, pixels, ENDING])


def decode(image, **options):
    feature = Feature("uint16" if image[24:25] == b"\x10" else "uint8", (None, None, 4), encoding="png")
    return ImageDecoder(feature, ImageOptions(**options), exact=False).images([image])[0]


@pytest.mark.parametrize("is_interlaced", [False, True])
@pytest.mark.parametrize("bits", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("above", [0, 0xFF00])
def test_a_transparent_grey_is_alpha_0(bits, above, is_interlaced):
    samples = random_samples(GREY, bits)
    most = (1 << bits) - 1
    for key in {0, 1, most, int(samples[3, 4, 0])}:
        # Bits above those of a sample are ignored, as in libpng.
        stored = struct.pack(">H", key if bits == 16 else key | (above & ~most))
        found = decode(png(samples, bits, GREY, extra=[chunk(b"tRNS", stored)], is_interlaced=is_interlaced))
        scale = 1 if bits >= 8 else 255 // most
        np.testing.assert_array_equal(found[:, :, :3], np.repeat(samples * scale, 3, axis=2))
        np.testing.assert_array_equal(found[:, :, 3] == 0, samples[:, :, 0] == key)


@pytest.mark.parametrize("is_interlaced", [False, True])
@pytest.mark.parametrize("bits", [8, 16])
def test_a_transparent_colour_is_alpha_0(bits, is_interlaced):
    samples = random_samples(COLOURS, bits)
    key = chunk(b"tRNS", samples[2, 3].astype(">u2").tobytes())
    found = decode(png(samples, bits, COLOURS, extra=[key], is_interlaced=is_interlaced))
    np.testing.assert_array_equal(found[:, :, :3], samples)
    np.testing.assert_array_equal(found[:, :, 3] == 0, (samples == samples[2, 3]).all(axis=2))


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_crops_have_the_alpha_of_the_whole_image(tmp_path, bits):
    samples = random_samples(GREY, bits)
    key = samples[3, 4].astype(">u2").tobytes()
    image = png(samples, bits, GREY, extra=[chunk(b"tRNS", key)])
    hr.write(tmp_path / "a.tfrecord", {"image": np.array([image], object)})
    whole = hr.open(tmp_path / "a.tfrecord")[0]["image"]
    assert whole.shape == (HEIGHT, WIDTH, 2)
    assert set(np.unique(whole[:, :, 1])) == {0, 255}
    crop = hr.open(tmp_path / "a.tfrecord", decode=ImageOptions(center_crop=(HEIGHT, 7)))[0]["image"]
    np.testing.assert_array_equal(crop, whole[:, 3:10])


@pytest.mark.parametrize("is_interlaced", [False, True])
@pytest.mark.parametrize(("colours", "bits"), KINDS)
def test_rows_that_are_missing_are_damage(colours, bits, is_interlaced):
    for height, width in ((HEIGHT, WIDTH), (1, 1), (2, 5), (5, 2)):
        samples = random_samples(colours, bits, height=height, width=width)
        rows = rows_of(samples, bits, is_interlaced=is_interlaced)
        options = {"is_interlaced": is_interlaced}
        whole = decode(png(samples, bits, colours, **options))
        for more in (b"\0", rows):  # libpng ignores what is too much
            again = decode(png(samples, bits, colours, rows=rows + more, **options))
            np.testing.assert_array_equal(again, whole)
        for size in {0, 1, len(rows) // 2, len(rows) - 1}:
            with pytest.raises(hr.CorruptRecord, match=f"{size} bytes of pixels instead of the {len(rows)} of"):
                decode(png(samples, bits, colours, rows=rows[:size], **options))


def test_missing_rows_are_found_by_verify_and_in_crops(tmp_path):
    samples = random_samples(COLOURS, 8)
    short = png(samples, 8, COLOURS, rows=rows_of(samples, 8)[: 5 * (1 + 3 * WIDTH)])
    path = tmp_path / "a.tfrecord"
    hr.write(path, {"image": np.array([png(samples, 8, COLOURS), short], object)})
    report = hr.verify(path, images=True)
    assert [fault.where.record for fault in report.faults] == [1]
    for options in (True, ImageOptions(crop=RandomResizedCrop(4)), ImageOptions(resize=4)):
        with pytest.raises(hr.CorruptRecord, match="of pixels instead of") as error:
            hr.open(path, decode=options).batch([0, 1])
        assert error.value.where.record == 1


def test_rows_are_counted_without_holding_them():
    """A stream of 128 MB in 128 KB: it is not the image of 60 MB that the header declares."""
    inflated = zlib.compressobj(9)
    stream = b"".join(inflated.compress(bytes(1 << 20)) for _ in range(128)) + inflated.flush()
    image = SIGNATURE + header(40_000, 1_500, 8, PALETTE, interlace=1) + chunk(b"PLTE", bytes(3))
    script = "import resource, sys, numpy; from headrace.codecs.images.png_checks import checked_pixels as check; "
    script += "image = sys.stdin.buffer.read(); before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; "
    script += "check(image, lambda: numpy.zeros((1, 1)));"
    script += "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    run = subprocess.run(
        [sys.executable, "-c", script],
        input=image + chunk(b"IDAT", stream) + ENDING,
        capture_output=True,
        check=True,
        env={**os.environ},
    )
    assert int(run.stdout) < 20_000


def parts_of(image):
    """Where every chunk of a PNG begins and ends."""
    at = len(SIGNATURE)
    while at < len(image):
        end = at + 12 + int.from_bytes(image[at : at + 4], "big")
        yield at, end
        at = end


TEXTS = [chunk(b"tEXt", b"a\0b"), chunk(b"gAMA", struct.pack(">I", 45455)), chunk(b"eXIf", b"MM\0*\0\0\0\x08\0\0")]


@pytest.mark.parametrize("colours", [COLOURS, PALETTE])
@pytest.mark.parametrize("extra", [TEXTS, [*TEXTS, chunk(b"tRNS", bytes(6))]])
def test_a_changed_bit_in_any_chunk_is_damage(colours, extra):
    image = png(random_samples(colours, 8), 8, colours, extra=extra)
    assert decode(image).shape == (HEIGHT, WIDTH, 4)
    for begin, end in parts_of(image):
        for at in {begin + 4, begin + 7, begin + 8, end - 4, end - 1}:
            damaged = bytearray(image)
            damaged[at] ^= 0x20
            with pytest.raises(hr.CorruptRecord):
                decode(bytes(damaged))


def test_a_changed_bit_does_not_hide_a_transparent_colour(tmp_path):
    image = bytearray(png(random_samples(COLOURS, 8), 8, COLOURS, extra=[chunk(b"tRNS", bytes(6))]))
    image[image.index(b"tRNS") + 3] ^= 0x20
    path = tmp_path / "a.tfrecord"
    hr.write(path, {"image": np.array([bytes(image)], object)})
    for options in (True, ImageOptions(channels=4), ImageOptions(channels=3, resize=5)):
        with pytest.raises(hr.CorruptRecord, match="the chunk 'tRNs' at byte 33 has a wrong checksum"):
            hr.open(path, decode=options)[0]


def test_large_chunks_beside_the_pixels_are_no_fault():
    samples = random_samples(COLOURS, 8)
    image = png(samples, 8, COLOURS, extra=[chunk(b"prVt", bytes(30 << 20))])
    np.testing.assert_array_equal(decode(image)[:, :, :3], samples)


def test_pixels_apart_from_each_other_and_a_second_header_are_damage():
    samples = random_samples(COLOURS, 8)
    head, stream = header(WIDTH, HEIGHT, 8, COLOURS), zlib.compress(rows_of(samples, 8))
    halves = chunk(b"IDAT", stream[:50]), chunk(b"IDAT", stream[50:])
    np.testing.assert_array_equal(decode(b"".join([SIGNATURE, head, *halves, ENDING]))[:, :, :3], samples)
    with pytest.raises(hr.CorruptRecord, match="'IDAT' at byte 110 is apart from the other pixels"):
        decode(b"".join([SIGNATURE, head, halves[0], TEXTS[0], halves[1], ENDING]))
    with pytest.raises(hr.CorruptRecord, match="'IHDR' at byte 33 is a second header"):
        decode(b"".join([SIGNATURE, head, header(WIDTH, 9, 8, COLOURS), *halves, ENDING]))


FAULTS = {
    "the header says 11 x 0 pixels": header(0, HEIGHT, 8, COLOURS),
    "the header says 0 x 13 pixels": header(WIDTH, 0, 8, COLOURS),
    "the header says 3 bits and colours of kind 2": header(WIDTH, HEIGHT, 3, COLOURS),
    "the header says 8 bits and colours of kind 5": header(WIDTH, HEIGHT, 8, 5),
    "the header says compression 1": header(WIDTH, HEIGHT, 8, COLOURS, compression=1),
    "the header says compression 0, filters 1": header(WIDTH, HEIGHT, 8, COLOURS, filters=1),
    "filters 0 and interlacing 2": header(WIDTH, HEIGHT, 8, COLOURS, interlace=2),
    "there is no palette before the pixels": header(WIDTH, HEIGHT, 8, PALETTE),
    "'IHDR' at byte 8 has a wrong checksum": header(WIDTH, HEIGHT, 8, COLOURS)[:-1] + b"?",
    "'tRNS' at byte 33 has 2 bytes instead of 6": header(WIDTH, HEIGHT, 8, COLOURS) + chunk(b"tRNS", b"\0\1"),
    "'tRNS' at byte 33 has 1 bytes instead of 2": header(WIDTH, HEIGHT, 4, GREY) + chunk(b"tRNS", b"\0"),
    "'gAMA' at byte 8 is where the header belongs": TEXTS[1],
    "the header has 9 bytes instead of 13": chunk(b"IHDR", bytes(9)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_fault_is_named(fault):
    pixels = chunk(b"IDAT", zlib.compress(rows_of(random_samples(COLOURS, 8), 8)))
    image = SIGNATURE + FAULTS[fault] + pixels + ENDING
    with pytest.raises(hr.CorruptRecord, match=fault):
        decode(image)
    with pytest.raises(ValueError, match=fault):
        check_png(image)


def test_no_damage_crashes():
    random = np.random.default_rng(0)
    whole = png(random_samples(PALETTE, 4), 4, PALETTE, extra=[*TEXTS, chunk(b"tRNS", bytes(3))], is_interlaced=True)
    for number, at in itertools.product(range(2), range(8, len(whole))):
        damaged = bytearray(whole)
        damaged[at] ^= int(random.integers(1, 256))
        with pytest.raises((hr.CorruptRecord, hr.UnsupportedData)):
            decode(bytes(damaged[: at + 1] if number else damaged))


@pytest.mark.parametrize("is_interlaced", [False, True])
@pytest.mark.parametrize(("colours", "bits"), KINDS)
def test_large_notes_do_not_damage_an_image(colours, bits, is_interlaced):
    large = zlib.compress(bytes(2 << 20), 1)
    notes = [chunk(b"zTXt", b"Comment\0\0" + large), chunk(b"iCCP", b"icc\0\0" + large)]
    notes.append(chunk(b"iTXt", b"XML:com.adobe.xmp\0\1\0\0\0" + large))
    samples = random_samples(colours, bits)
    plain = png(samples, bits, colours, is_interlaced=is_interlaced)
    before = png(samples, bits, colours, is_interlaced=is_interlaced, extra=notes)
    after = plain[: -len(ENDING)] + b"".join(notes) + ENDING
    for options in (ImageOptions(), ImageOptions(oriented=True), ImageOptions(flip=True, dtype="uint8")):
        stored = Feature("bytes", encoding="png")
        feature = feature_of_views(stored, [plain], options)
        wanted = decoder_of(feature, options, exact=False).images([plain])
        for image in (before, after):
            assert feature_of_views(stored, [image], options) == feature
            assert np.array_equal(decoder_of(feature, options, exact=False).images([image]), wanted)


def test_an_orientation_beside_large_notes_is_applied():
    exif = Image.Exif()
    exif[0x112] = 6
    notes = [chunk(b"iCCP", b"icc\0\0" + zlib.compress(bytes(2 << 20), 1)), chunk(b"eXIf", exif.tobytes()[6:])]
    image = png(random_samples(COLOURS, 8), 8, COLOURS, extra=notes)
    options = ImageOptions(oriented=True)
    assert feature_of_views(Feature("bytes", encoding="png"), [image], options).shape == (WIDTH, HEIGHT, 3)
