"""JPEGs that other libraries than ours decode: damage in them is noticed, whatever kind they are."""

import io
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from sklearn.datasets import load_sample_images
from tests.codecs.images.files import made
from tests.codecs.images.test_plain_jpeg import images, turbo
from tests.reference.jpeg import write_jpeg

import headrace as hr
from headrace import _native
from headrace.codecs.images.decode import ImageDecoder
from headrace.codecs.images.open import open_image
from headrace.codecs.images.tiff import check_scans
from headrace.contracts.feature import Feature
from headrace.contracts.images import ImageOptions

END = b"\xff\xd9"
ARITHMETIC = b"\xff\xc9"


def photograph():
    return load_sample_images().images[0][:120, :200]


def inks(**options):
    out = io.BytesIO()
    Image.fromarray(photograph()).convert("CMYK").save(out, "JPEG", quality=90, **options)
    return out.getvalue()


def odd(sampling):
    """A JPEG whose planes have sizes for which libjpeg-turbo has no name."""
    blocks = sum(across * down for across, down in sampling)
    across, down = (max(pair[axis] for pair in sampling) for axis in (0, 1))
    units = [[{0: 9 * unit - 7 * block, 5: 3} for block in range(blocks)] for unit in range(6)]
    return write_jpeg(16 * down, 24 * across, sampling, [[8] * 64] * len(sampling), units)


KINDS = {
    "cmyk": inks(),
    "progressive cmyk": inks(progressive=True),
    "cmyk with restart markers": inks(restart_marker_blocks=3),
    "cmyk of smaller planes": inks(subsampling=2),
    "progressive cmyk of smaller planes": inks(subsampling=2, progressive=True),
    "4:4:1": odd([(1, 4), (1, 1), (1, 1)]),
    "3 to 1": odd([(3, 1), (1, 1), (1, 1)]),
    "a red plane of half the width": odd([(2, 1), (2, 1), (1, 1)]),
}


def pixels_of(image):
    header = open_image(image)
    out = np.zeros((header.height, header.width, header.channels), header.dtype)
    header.pixels_into(out)
    return out


def decode(image, **options):
    return ImageDecoder(Feature("uint8", (None, None, 3)), ImageOptions(**options), exact=False).images([image])


@pytest.fixture(params=["own_engines", "library_engines"])
def either_engine(request):
    return request.getfixturevalue(request.param)


@pytest.mark.usefixtures("either_engine")
@pytest.mark.parametrize("kind", KINDS)
def test_sound_images_have_the_pixels_of_pillow(kind):
    wanted = np.asarray(Image.open(io.BytesIO(KINDS[kind])).convert("RGB"))
    np.testing.assert_array_equal(pixels_of(KINDS[kind]), wanted)
    assert _native.is_jpeg_sound(KINDS[kind])
    assert decode(KINDS[kind])[0].shape == wanted.shape


@pytest.mark.usefixtures("either_engine")
@pytest.mark.parametrize("kind", KINDS)
def test_truncated_images_are_damaged(kind):
    whole = KINDS[kind]
    scan = whole.index(b"\xff\xda") + 20
    for share in (0.1, 0.5, 0.9):
        cut = whole[: scan + int(share * (len(whole) - scan))]
        for image in (cut, cut + END):
            with pytest.raises(hr.CorruptRecord, match="a complete, intact image"):
                decode(image)


@pytest.mark.usefixtures("either_engine")
@pytest.mark.parametrize("kind", ["cmyk", "cmyk of smaller planes"])
def test_a_header_that_promises_more_pixels_is_damage(kind):
    image = bytearray(KINDS[kind])
    at = image.index(b"\xff\xc0") + 5
    image[at : at + 4] = (2000).to_bytes(2, "big") * 2
    with pytest.raises(hr.CorruptRecord, match="a complete, intact image"):
        decode(bytes(image))


def test_verify_lists_truncated_images_of_inks(tmp_path):
    path = tmp_path / "inks.tfrecord"
    whole = KINDS["cmyk"]
    hr.write_records(path, [whole, whole[: len(whole) // 2] + END])
    found = hr.verify(path, images=True)
    assert not found.ok
    with pytest.raises(hr.CorruptRecord) as error:
        hr.open(path)[1]
    assert error.value.where.record == 1


def test_kinds_that_cannot_be_checked_are_refused():
    image = KINDS["3 to 1"].replace(b"\xff\xc0", ARITHMETIC)
    assert _native.is_jpeg_sound(image) is None
    with pytest.raises(hr.UnsupportedData, match="without Huffman codes"):
        decode(image)


@settings(deadline=None)
@given(images, st.data())
def test_the_check_agrees_with_libjpeg_turbo(image, data):
    """What libjpeg-turbo warns of is not sound. Sound files are: the check may only be stricter for damaged ones."""
    assert _native.is_jpeg_sound(image)
    scan = image.index(b"\xff\xda") + 10
    changed = bytearray(image)
    at = data.draw(st.integers(scan, len(image) - 1))
    changed[at] ^= 1 << data.draw(st.integers(0, 7))
    changed = bytes(changed[: data.draw(st.integers(scan, len(image)))] + END) if data.draw(st.booleans()) else changed
    try:
        turbo(bytes(changed))
    except ValueError:
        assert not _native.is_jpeg_sound(bytes(changed))


@settings(deadline=None, max_examples=300)
@given(st.sampled_from(sorted(KINDS)), st.data())
def test_no_damage_crashes(kind, data):
    file = bytearray(KINDS[kind])
    for _ in range(data.draw(st.integers(1, 3))):
        file[data.draw(st.integers(0, len(file) - 1))] = data.draw(st.integers(0, 255))
    file = bytes(file[: data.draw(st.integers(0, len(file)))])
    assert _native.is_jpeg_sound(file) in (True, False, None)


@pytest.mark.parametrize("kind", ["TIFF", "GIF", "WEBP", "BMP"])
def test_other_kinds_that_are_truncated_are_damaged(kind):
    options = {"TIFF": {"compression": "tiff_lzw"}}.get(kind, {})
    whole = made(photograph(), kind, **options)
    for size in (len(whole) // 2, len(whole) - 50, len(whole) - 5):
        with pytest.raises(hr.CorruptRecord):
            decode(whole[:size])


@pytest.mark.parametrize("mode", ["RGB", "L", "YCbCr"])
def test_jpegs_in_tiffs_are_checked(mode):
    out = io.BytesIO()
    Image.fromarray(photograph()).convert(mode).save(out, "TIFF", compression="jpeg")
    whole = out.getvalue()
    assert pixels_of(whole).shape[:2] == (120, 200)
    at = _tag(whole, 279)  # the size of the first strip
    cut = bytearray(whole)
    cut[at : at + 2] = (int.from_bytes(whole[at : at + 2], "little") // 2).to_bytes(2, "little")
    with pytest.raises(hr.CorruptRecord, match="damaged or incomplete"):
        decode(bytes(cut))


def _tag(tiff, number):
    """Where the first value of a tag is stored."""
    directory = int.from_bytes(tiff[4:8], "little")
    for entry in range(int.from_bytes(tiff[directory : directory + 2], "little")):
        at = directory + 2 + 12 * entry
        tag, kind, count, value = struct.unpack("<HHII", tiff[at : at + 12])
        if tag == number:
            return at + 8 if count * {3: 2, 4: 4}[kind] <= 4 else value
    raise AssertionError(number)


def segment(marker, content):
    return bytes([0xFF, marker]) + struct.pack(">H", len(content) + 2) + content


def of_scans(count, *, before=b""):
    """A grey JPEG of 8 x 8 whose one block of zeros is in this many scans, which are all valid."""
    tables = segment(0xDB, b"\0" + b"\1" * 64) + segment(0xC2, struct.pack(">BHHB", 8, 8, 8, 1) + b"\1\x11\0")
    codes = b"".join(segment(0xC4, bytes([kind, 1, *[0] * 15, 0])) for kind in (0x00, 0x10))
    first = segment(0xDA, b"\1\1\0\0\0\0") + b"\x7f"
    return (
        b"\xff\xd8"
        + before
        + tables
        + codes
        + first
        + (segment(0xDA, b"\1\1\0\1\1\0") + b"\x7f") * (count - 1)
        + b"\xff\xd9"
    )


def test_jpegs_of_many_scans_are_refused_before_they_take_time():
    assert decode(of_scans(500)).shape == (1, 8, 8, 3)
    with pytest.raises(hr.errors.UnsupportedData, match="a JPEG of more than 500 scans"):
        decode(of_scans(501))
    with pytest.raises(NotImplementedError, match="a JPEG of more than 500 scans"):
        pixels_of(of_scans(501))


def test_what_looks_like_scans_in_notes_and_behind_the_image_does_not_count():
    image = of_scans(3, before=segment(0xE1, b"\xff\xda" * 1000)) + b"\xff\xda" * 1000
    assert decode(of_scans(499, before=segment(0xE1, b"\xff\xda" * 1000))).shape == (1, 8, 8, 3)
    check_scans(image)
