"""EXIF orientations: which images surely have none, and that the fast ways stay open to those."""

import io

import numpy as np
import pytest
from PIL import Image, ImageOps
from tests.codecs.images.files import made, noise
from tests.codecs.images.test_views import decoder, photograph, view

from headrace import _native
from headrace.codecs.images import open as opened
from headrace.codecs.images.decode import ImageDecoder
from headrace.codecs.images.open import is_upright_jpeg, surely_upright
from headrace.contracts.feature import Feature
from headrace.contracts.images import ImageOptions, RandomResizedCrop

XMP = b'<x:xmpmeta><rdf:Description tiff:Orientation="6"/></x:xmpmeta>'


def exif(orientation):
    found = Image.Exif()
    found[0x0112] = orientation
    return found


def turned(kind, orientation, **options):
    out = io.BytesIO()
    Image.fromarray(noise(40, 64)).save(out, kind, exif=exif(orientation), **options)
    return out.getvalue()


def upright(image):
    return np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(image))))


def test_which_images_are_surely_upright():
    assert surely_upright(photograph())
    assert surely_upright(made(noise(4, 5)))
    assert surely_upright(photograph(comment=b"taken in China"))
    assert not surely_upright(turned("JPEG", 1))  # Pillow has to look
    assert not surely_upright(turned("PNG", 1))
    assert not surely_upright(photograph(xmp=XMP))
    assert not surely_upright(b"II*\0")
    assert not surely_upright(b"\xff\xd8\xff\xe0\0\1junk Exif")


def test_upright_jpegs():
    assert is_upright_jpeg(photograph())
    assert is_upright_jpeg(turned("JPEG", 1))
    assert not is_upright_jpeg(turned("JPEG", 6))
    assert not is_upright_jpeg(photograph(xmp=XMP))
    assert not is_upright_jpeg(b"\xff\xd8\xff\xe1 Exif")


@pytest.mark.parametrize("options", [{"center_crop": 40}, {"resize": (30, 40)}, {"crop": RandomResizedCrop(24)}])
def test_upright_jpegs_take_the_native_way(options, own_engines, monkeypatch):
    del own_engines
    monkeypatch.setattr(opened, "_turbo", None)  # decodes whole images
    draws = np.random.default_rng(1).random(41)
    for image in (photograph(), photograph(exif=exif(1))):
        plain, oriented = (ImageOptions(**options, oriented=each, channels=3) for each in (False, True))
        np.testing.assert_array_equal(view(image, oriented, draws), view(image, plain, draws))


def test_upright_and_turned_images_in_one_batch():
    files = [photograph(height=60, width=60), turned("JPEG", 6), photograph(height=60, width=60, xmp=XMP)]
    options = ImageOptions(center_crop=20, oriented=True)
    found = decoder(options, files).images(files)
    for each, file in zip(found, files, strict=True):
        whole = upright(file)
        top, left = ((side - 20) // 2 for side in whole.shape[:2])
        np.testing.assert_array_equal(each, whole[top : top + 20, left : left + 20])


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_whole_images_in_one_batch(kind):
    square = made(noise(40, 64, seed=2), kind)
    files = [square, turned(kind, 3), turned(kind, 1), square]
    decode = ImageDecoder(Feature("uint8", (40, 64, 3)), ImageOptions(oriented=True), exact=False)
    found = decode.images(files)
    for each, file in zip(found, files, strict=True):
        np.testing.assert_array_equal(each, upright(file))


def test_upright_jpegs_are_decoded_as_a_batch(own_engines, monkeypatch):
    del own_engines
    calls = []
    decode_jpegs = _native.decode_jpegs
    monkeypatch.setattr(_native, "decode_jpegs", lambda *given: calls.append(given) or decode_jpegs(*given))
    image = photograph(height=40, width=64)
    decode = ImageDecoder(Feature("uint8", (40, 64, 3)), ImageOptions(oriented=True), exact=False)
    assert decode.images([image, image]).shape == (2, 40, 64, 3)
    assert len(calls) == 1


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_an_orientation_that_cannot_be_read_is_none(kind):
    out = io.BytesIO()
    Image.fromarray(noise(20, 30)).save(out, kind, exif=b"garbage!", **({"lossless": True} if kind == "WEBP" else {}))
    feature = Feature("uint8", (None, None, 3))
    (found,) = ImageDecoder(feature, ImageOptions(oriented=True), exact=False).images([out.getvalue()])
    np.testing.assert_array_equal(found, noise(20, 30))
