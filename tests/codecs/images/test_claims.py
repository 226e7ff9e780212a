"""Batches of images whose headers declare far more pixels than they have: an error with its place, before memory for all is taken."""

import io
import struct
import time

import numpy as np
import pytest
from PIL import Image
from tests.codecs.images.files import jpeg, made, noise

import headrace as hr
from headrace.codecs.images.decode import LIKELY_BYTES, TRUSTED_BYTES, ImageDecoder, feature_of_images
from headrace.contracts.feature import Feature
from headrace.contracts.images import ImageOptions
from headrace.datasets.pixels import decode_images
from headrace.errors import UnsupportedData

SIDE = 4500
COUNT = 512  # 31 GB of pixels, if all headers are believed


def claiming(side=SIDE):
    image = bytearray(jpeg(16, 16))
    at = image.index(b"\xff\xc0") + 5
    image[at : at + 4] = side.to_bytes(2, "big") * 2
    return bytes(image)


def claiming_gif(side=SIDE):
    image = bytearray(made(noise(16, 16, 1), "gif"))
    image[6:10] = side.to_bytes(2, "little") * 2
    at = image.index(b",", 13 + 3 * 256)
    image[at + 5 : at + 9] = side.to_bytes(2, "little") * 2
    return bytes(image)


@pytest.fixture(params=["own_engines", "library_engines"], autouse=True)
def either_engine(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def opened(tmp_path):
    def write(images, **options):
        path = tmp_path / "a.tfrecord"
        hr.write(path, {"image": np.array(images, object)})
        return hr.open(path, decode=ImageOptions(**options))

    return write


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"any_size": True},
        {"flip": True},
        {"layout": "NCHW"},
        {"dtype": "float32"},
        {"resize": 4000},
        {"channels": 1},
        {"channels": 4},
    ],
)
def test_the_first_that_lies_is_named(opened, options):
    with pytest.raises(hr.CorruptRecord, match="a complete, intact image") as error:
        opened([claiming()] * COUNT, **options).batch(range(COUNT))
    assert error.value.where.record == 0
    assert error.value.where.path.endswith("a.tfrecord")


def test_other_kinds_that_lie(opened):
    with pytest.raises(hr.DataError) as error:
        opened([claiming_gif()] * COUNT).batch(range(COUNT))
    assert error.value.where.record == 0


@pytest.mark.parametrize("options", [{}, {"flip": True}])
@pytest.mark.parametrize("earlier", [None, 2])
def test_an_earlier_damaged_one_comes_first(opened, options, earlier):
    side = 1000
    sound = jpeg(side, side, quality=60)
    images = [sound] * 40
    images[9] = claiming(side)
    if earlier is not None:
        images[earlier] = sound[:-1000]
    assert len(images) * side * side * 3 > TRUSTED_BYTES
    assert side * side * 3 < LIKELY_BYTES * len(sound)
    with pytest.raises(hr.CorruptRecord) as error:
        opened(images, **options).batch(range(len(images)))
    assert error.value.where.record == (9 if earlier is None else earlier)


def test_those_of_several_sizes_are_allocated_one_by_one(opened):
    images = [claiming(SIDE - number) for number in range(COUNT)]
    with pytest.raises(hr.CorruptRecord) as error:
        opened(images).batch(range(COUNT))
    assert error.value.where.record == 0


def test_images_of_prepared_datasets():
    with pytest.raises(hr.CorruptRecord) as error:
        decode_images([claiming()] * COUNT, (SIDE, SIDE, 3), "uint8")
    assert error.value.where.record == 0


@pytest.mark.parametrize("options", [{}, {"flip": True}])
def test_flat_images_are_decoded_as_they_claim(opened, options):
    """Their bytes say too little of them, so they are decoded twice."""
    side, count = 1200, 20
    pixels = np.full((side, side, 3), 77, np.uint8)
    image = made(pixels, "jpeg")
    assert count * side * side * 3 > TRUSTED_BYTES
    assert side * side * 3 > LIKELY_BYTES * len(image)
    found = opened([image] * count, **options).batch(range(count))["image"]
    assert found.shape == (count, side, side, 3)
    assert (found == 77).all()


def test_usual_images_are_decoded_once(monkeypatch, opened):
    side = 1000
    source = opened([jpeg(side, side, quality=60)] * 40)
    monkeypatch.setattr(ImageDecoder, "_decode_alone", lambda *_: pytest.fail("decoded by itself"))
    assert source.batch(range(40))["image"].shape == (40, side, side, 3)


def test_a_small_gif_is_not_filled_up_to_a_large_screen():
    out = io.BytesIO()
    Image.fromarray(np.zeros((16, 16), np.uint8)).save(out, "gif")
    image = bytearray(out.getvalue())
    image[6:10] = struct.pack("<HH", 9900, 9000)
    feature = Feature("uint8", (None, None, 3), encoding="gif")
    with pytest.raises(UnsupportedData, match="a GIF of 9000 x 9900 whose first frame has only 16 x 16"):
        ImageDecoder(feature, ImageOptions(), exact=True).images([bytes(image)])
    image[6:10] = struct.pack("<HH", 32, 48)
    assert ImageDecoder(feature, ImageOptions(), exact=True).images([bytes(image)]).shape == (1, 48, 32, 3)


def test_fill_bytes_of_a_jpeg_are_skipped_at_once():
    image = jpeg(16, 24)
    filled = image[:2] + b"\xff" * (5 << 20) + image[2:]
    options = ImageOptions(oriented=True)
    start = time.process_time()
    feature = feature_of_images(Feature("bytes", encoding="jpeg"), [filled], options)
    assert ImageDecoder(feature, options, exact=True).images([filled]).shape == (1, 16, 24, 3)
    assert time.process_time() - start < 3


def test_images_of_kinds_that_libraries_do_not_read_are_not_called_damaged():
    jpeg_of_12_bits = bytearray(made(noise(16, 24), "jpeg"))
    at = jpeg_of_12_bits.index(b"\xff\xc0")
    jpeg_of_12_bits[at + 1], jpeg_of_12_bits[at + 4] = 0xC1, 12
    bmp = bytearray(made(noise(4, 5), "bmp"))
    masks = struct.pack("<3I", 0xFF, 0xFF00, 0xFF0000)
    bmp = bmp[:28] + struct.pack("<HI", 32, 3) + bmp[34:54] + masks + bytes(80)
    bmp[2:6], bmp[10:14] = struct.pack("<I", len(bmp)), struct.pack("<I", 66)
    for kind, image in (("jpeg", jpeg_of_12_bits), ("bmp", bmp)):
        feature = Feature("uint8", (None, None, 3), encoding=kind)
        with pytest.raises(UnsupportedData, match="a kind that is read"):
            ImageDecoder(feature, ImageOptions(), exact=True).images([bytes(image)])
