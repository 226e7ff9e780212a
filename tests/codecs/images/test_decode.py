"""Golden images compared with TensorFlow's pixels, generated ones with Pillow and simplejpeg; damage, limits, conversions."""

import io
import zlib

import numpy as np
import pytest
import simplejpeg
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps
from tests.codecs.images.files import EXPECTED, SOUND, golden, jpeg, made, noise

import headrace as hr
from headrace import _optional
from headrace.codecs.images import open as opened
from headrace.codecs.images.decode import ImageDecoder, feature_of_images
from headrace.codecs.images.png import decode_png
from headrace.contracts.feature import Feature
from headrace.contracts.values import Ragged

ANY = Feature("uint8", (None, None, None), encoding="image")
OPTIONS = hr.ImageOptions()


def decoder(*shape, dtype="uint8", exact=False, **options):
    return ImageDecoder(
        Feature(dtype, shape or (None, None, None), encoding="image"), hr.ImageOptions(**options), exact=exact
    )


def pixels_of(image, **options):
    feature = feature_of_images(Feature("bytes", encoding="image"), [image], hr.ImageOptions(**options))
    return ImageDecoder(feature, hr.ImageOptions(**options), exact=False).images([image])[0]


def column(images):
    out = np.empty(len(images), object)
    out[:] = images
    return out


@pytest.mark.parametrize("name", sorted(set(SOUND) - {"colour_key.png"}))
def test_golden_images_are_what_tensorflow_sees(name):
    found = pixels_of(golden(name))
    assert found.dtype == EXPECTED[name].dtype
    np.testing.assert_array_equal(found, EXPECTED[name])


def test_a_transparent_colour_is_alpha():
    """TensorFlow ignores it; Headrace does not."""
    found, colours = pixels_of(golden("colour_key.png")), EXPECTED["colour_key.png"]
    np.testing.assert_array_equal(found[:, :, :3], colours)
    np.testing.assert_array_equal(found[:, :, 3] == 0, (colours == colours[3, 4]).all(axis=2))
    deep = golden("png16_grey.png")
    key = EXPECTED["png16_grey.png"][0, 0]
    chunk = b"tRNS" + key.astype(">u2").tobytes()
    chunk = (2).to_bytes(4, "big") + chunk + zlib.crc32(chunk).to_bytes(4, "big")
    found = pixels_of(deep[:33] + chunk + deep[33:])
    np.testing.assert_array_equal(found[:, :, :1], EXPECTED["png16_grey.png"])
    np.testing.assert_array_equal(found[:, :, 1] == 0, EXPECTED["png16_grey.png"][:, :, 0] == key)


@given(
    size=st.tuples(st.integers(1, 20), st.integers(1, 20)),
    channels=st.sampled_from([1, 2, 3, 4]),
    seed=st.integers(0, 2**32 - 1),
)
def test_lossless_images_come_back(size, channels, seed):
    pixels = noise(*size, channels, seed=seed)
    kinds = (
        ["png"] if channels == 2 else ["png", "tiff"] + (["webp"] if channels > 2 else []) + ["bmp"] * (channels == 3)
    )
    for kind in kinds:
        options = {"lossless": True, "exact": True} if kind == "webp" else {}
        np.testing.assert_array_equal(pixels_of(made(pixels, kind, **options)), pixels)


def test_images_of_one_size_are_stacked_and_equal_simplejpeg():
    images = [jpeg(seed=seed) for seed in range(5)]
    for stacked in (decoder().images(images), decoder(16, 24, 3).column(column(images))):
        assert stacked.shape == (5, 16, 24, 3)
        assert stacked.dtype == np.uint8
        assert stacked.flags.writeable
        np.testing.assert_array_equal(stacked, np.stack([simplejpeg.decode_jpeg(image) for image in images]))


def test_images_of_several_sizes_are_a_list():
    images = [jpeg(), jpeg(10, 12), made(noise(3, 4, 4))]
    found = decoder().images(images)
    assert [image.shape for image in found] == [(16, 24, 3), (10, 12, 3), (3, 4, 4)]
    np.testing.assert_array_equal(found[1], simplejpeg.decode_jpeg(images[1]))
    assert decoder().images([]).shape == (0, 0, 0, 0)
    assert decoder(4, 5, 3).images([]).shape == (0, 4, 5, 3)


def test_several_images_in_a_record():
    images = [jpeg(seed=seed) for seed in range(4)] + [jpeg(5, 6)]
    fixed = column(images[:4]).reshape(2, 2)
    assert decoder().column(fixed).shape == (2, 2, 16, 24, 3)
    ragged = Ragged(column(images[:4]), np.array([0, 1, 1, 4]))
    found = decoder().column(ragged)
    assert isinstance(found, Ragged)
    assert [len(row) for row in found] == [1, 0, 3]
    assert found[2].shape == (3, 16, 24, 3)
    nested = decoder().column(Ragged(column(images), np.array([0, 1, 1, 5])))
    assert [[image.shape for image in row] for row in nested][2] == [(16, 24, 3)] * 3 + [(5, 6, 3)]
    mixed = decoder().column(column(images[1:]).reshape(2, 2))
    assert [len(row) for row in mixed] == [2, 2]


@pytest.mark.parametrize("where", [0, 3, 4])
def test_errors_count_records_not_images(where):
    images = [jpeg(seed=seed) for seed in range(5)]
    images[where] = b"no image"
    with pytest.raises(hr.CorruptRecord, match="8 bytes: they begin as no kind of image") as error:
        decoder().column(Ragged(column(images), np.array([0, 1, 1, 4, 5])))
    assert error.value.where.record == {0: 0, 3: 2, 4: 3}[where]
    with pytest.raises(hr.CorruptRecord) as error:
        decoder().column(column([*images, jpeg()]).reshape(3, 2))
    assert error.value.where.record == where // 2


@pytest.mark.parametrize("kind", ["jpeg", "png", "bmp", "webp", "tiff"])
def test_an_image_cut_off_anywhere_is_an_error(kind):
    lossless = {"lossless": True} if kind == "webp" else {}
    whole = made(noise(9, 11), kind, **lossless)
    for length in range(len(whole)):
        with pytest.raises(hr.DataError):
            pixels_of(whole[:length])


def test_a_gif_cut_off_anywhere_is_an_error_or_lacks_nothing():
    whole = golden("palette.gif")
    for length in range(len(whole)):
        try:
            found = pixels_of(whole[:length])
        except hr.CorruptRecord:
            continue
        np.testing.assert_array_equal(found, EXPECTED["palette.gif"])
        assert length > len(whole) - 10


@pytest.mark.parametrize("name", ["palette_alpha.png", "png16_rgb.png", "png8_grey.png"])
def test_a_flipped_byte_of_a_png_is_an_error_or_equal(name):
    whole = golden(name)
    whole_pixels = pixels_of(whole)
    for at in range(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 0x41
        try:
            found = pixels_of(bytes(damaged))
        except hr.CorruptRecord:
            continue
        np.testing.assert_array_equal(found, whole_pixels)
        assert at >= len(whole) - 12 or b"IDAT" not in whole[at : at + 8]  # pixels and their checksum are never skipped


@pytest.mark.parametrize(
    "name", ["baseline.jpg", "progressive.jpg", "cmyk.jpg", "palette.gif", "rgb.webp", "grey16.tiff"]
)
def test_a_flipped_byte_is_an_error_or_an_image(name):
    """These kinds have no checksums. What must not happen is a crash, a hang or another exception."""
    whole = golden(name)
    for at in range(0, len(whole), 3):
        damaged = bytearray(whole)
        damaged[at] ^= 0x41
        try:
            found = decoder(most_pixels=1 << 20, exact=True, dtype="uint16").images([bytes(damaged)])[0]
        except hr.DataError:
            continue
        assert found.ndim == 3


@pytest.mark.parametrize("name", ["progressive_cut.jpg", "png8_rgb_cut.png", "palette_cut.gif"])
def test_truncation_is_reported_with_a_remedy(name):
    with pytest.raises(hr.CorruptRecord, match=r"expected a complete, intact image, .*decode=False leaves") as error:
        decoder().images([golden("baseline.jpg"), golden(name)])
    assert error.value.where.record == 1


def test_the_first_damaged_image_is_named_even_if_only_its_header_is_sound():
    images = [jpeg(), jpeg()[:-20], b""]
    with pytest.raises(hr.CorruptRecord, match="Premature end") as error:
        decoder().images(images)
    assert error.value.where.record == 1


def test_bombs_are_refused_before_memory_is_taken():
    image = bytearray(jpeg())
    at = image.index(b"\xff\xc0") + 5
    image[at : at + 4] = (20_000).to_bytes(2, "big") * 2
    with pytest.raises(hr.UnsupportedData, match=r"at most 89478485 pixels, found one of 20000 x 20000 .*most_pixels="):
        decoder().images([bytes(image)])
    huge = bytearray(made(noise(2, 2, 1)))
    huge[16:24] = (60_000).to_bytes(4, "big") * 2
    huge[29:33] = zlib.crc32(huge[12:29]).to_bytes(4, "big")
    with pytest.raises(hr.UnsupportedData, match="pixels"):
        decoder().images([bytes(huge)])
    with pytest.raises(hr.UnsupportedData, match="found one of 16 x 24"):
        decoder(most_pixels=16 * 24 - 1).images([jpeg()])
    assert decoder(most_pixels=16 * 24).images([jpeg()]).shape == (1, 16, 24, 3)


def test_floats_are_refused():
    with pytest.raises(hr.UnsupportedData, match="8- or 16-bit samples, found an image of Pillow's mode 'F'"):
        decoder().images([golden("float.tiff")])


@pytest.mark.parametrize(("channels", "mode"), [(1, "L"), (2, "LA"), (3, "RGB"), (4, "RGBA")])
@pytest.mark.parametrize("of", [1, 2, 3, 4])
def test_channels_as_asked_for_are_pillows(channels, mode, of):
    image = made(noise(7, 9, of))
    found = decoder(None, None, channels, exact=True).images([image])[0]
    wanted = np.asarray(Image.open(io.BytesIO(image)).convert(mode)).reshape(7, 9, channels)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(("channels", "space"), [(1, "GRAY"), (3, "RGB"), (4, "RGBA")])
@pytest.mark.parametrize("of", [1, 3])
def test_channels_of_jpeg_are_libjpegs(channels, space, of):
    found = decoder(None, None, channels, exact=True).images([jpeg(channels=of)])[0]
    np.testing.assert_array_equal(found, simplejpeg.decode_jpeg(jpeg(channels=of), space))
    both = decoder(None, None, 2, exact=True).images([jpeg(channels=of)])[0]
    np.testing.assert_array_equal(both[:, :, 0], simplejpeg.decode_jpeg(jpeg(channels=of), "GRAY")[:, :, 0])
    assert (both[:, :, 1] == 255).all()


def test_loss_is_an_error_unless_allowed():
    alpha, deep = made(noise(4, 4, 4)), golden("png16_grey.png")
    with pytest.raises(
        hr.SchemaMismatch, match=r"uint8 with shape \(None, None, 3\).*found one of uint8 with shape \(4, 4, 4\)"
    ):
        decoder(None, None, 3).images([alpha])
    with pytest.raises(hr.SchemaMismatch, match=r"found one of uint16 with shape \(13, 18, 1\)"):
        decoder().images([deep])
    np.testing.assert_array_equal(
        decoder(exact=True).images([deep])[0], (EXPECTED["png16_grey.png"] >> 8).astype(np.uint8)
    )
    np.testing.assert_array_equal(decoder(dtype="uint16").images([made(noise(4, 4))])[0], noise(4, 4) * np.uint16(257))
    np.testing.assert_array_equal(
        decoder(dtype="uint16").images([jpeg()])[0], simplejpeg.decode_jpeg(jpeg()) * np.uint16(257)
    )
    with pytest.raises(hr.SchemaMismatch, match="any_size=True"):
        decoder(16, 25, 3).images([jpeg()])


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["jpeg", "png", "webp"])
def test_orientation_is_off_and_can_be_turned_on(orientation, kind):
    exif = Image.Exif()
    exif[0x0112] = orientation
    image = made(noise(6, 8), kind, exif=exif)
    plain, upright = pixels_of(image), pixels_of(image, oriented=True)
    assert plain.shape == (6, 8, 3)
    with Image.open(io.BytesIO(image)) as opened_image:
        wanted = np.asarray(ImageOps.exif_transpose(opened_image).convert("RGB"))
    assert upright.shape == wanted.shape
    if kind == "jpeg":
        assert abs(upright.astype(int) - wanted).max() <= 3  # another libjpeg
    else:
        np.testing.assert_array_equal(upright, wanted)


def test_orientation_of_an_image_without_any():
    np.testing.assert_array_equal(pixels_of(golden("grey16.tiff"), oriented=True), EXPECTED["grey16.tiff"])
    np.testing.assert_array_equal(pixels_of(jpeg(), oriented=True), simplejpeg.decode_jpeg(jpeg()))
    assert pixels_of(golden("orientation6.jpg"), oriented=True).shape == (18, 13, 3)


@pytest.mark.parametrize(
    ("images", "options", "feature"),
    [
        ([jpeg(), jpeg()], {}, Feature("uint8", (16, 24, 3), encoding="jpeg")),
        ([jpeg(), jpeg(8, 8)], {}, Feature("uint8", (None, None, 3), encoding="jpeg")),
        ([jpeg(), jpeg(channels=1)], {}, Feature("uint8", (16, 24, 3), encoding="jpeg")),
        ([jpeg(channels=1)], {}, Feature("uint8", (16, 24, 1), encoding="jpeg")),
        ([made(noise(4, 4, 2)), made(noise(4, 4, 3))], {}, Feature("uint8", (4, 4, 4), encoding="jpeg")),
        ([golden("png16_grey.png"), jpeg(13, 18)], {}, Feature("uint16", (13, 18, 3), encoding="jpeg")),
        ([jpeg()], {"channels": 1}, Feature("uint8", (16, 24, 1), encoding="jpeg")),
        ([jpeg()], {"any_size": True}, Feature("uint8", (None, None, 3), encoding="jpeg")),
        ([b"damaged", jpeg()], {}, Feature("uint8", (16, 24, 3), encoding="jpeg")),
        ([], {}, Feature("uint8", (None, None, None), encoding="jpeg")),
        ([golden("orientation6.jpg")], {"oriented": True}, Feature("uint8", (18, 13, 3), encoding="jpeg")),
    ],
)
def test_inference_from_the_first_images(images, options, feature):
    assert feature_of_images(Feature("bytes", encoding="jpeg"), images, hr.ImageOptions(**options)) == feature


@pytest.mark.parametrize("missing", ["_turbo", "_pillow"])
def test_without_the_extra(monkeypatch, missing):
    monkeypatch.setattr(opened, missing, lambda: _optional.require("no_such_package", extra="images", hint=opened.HINT))
    image = jpeg() if missing == "_turbo" else golden("palette.gif")
    with pytest.raises(hr.MissingExtra, match=r'pip install "headrace\[images\]". Without it, decode=False'):
        decoder().images([image])


@pytest.mark.parametrize("options", [{"channels": 5}, {"channels": 0}, {"most_pixels": 0}])
def test_options_are_checked(options):
    with pytest.raises(ValueError, match="must be"):
        hr.ImageOptions(**options)


def test_memory_goes_back_to_the_pool():
    from headrace import _native

    images = [jpeg(64, 64, seed=seed) for seed in range(8)]
    decoder().images(images)
    before = _native.pool_stats()["recycled"]
    for _ in range(3):
        decoder().images(images)
    assert _native.pool_stats()["recycled"] >= before + 3


@pytest.mark.parametrize("name", ["png8_grey.png", "png8_rgba.png", "png16_rgb.png", "png16_grey_alpha.png"])
def test_small_pngs_of_one_kind_are_what_pillow_gives(name, monkeypatch):
    images = [golden(name)] * 3
    feature = feature_of_images(Feature("bytes", encoding="png"), images, OPTIONS)
    fast = ImageDecoder(feature, OPTIONS, exact=False).images(images)
    monkeypatch.setattr(ImageDecoder, "_plain_pngs", lambda self, images: None)
    np.testing.assert_array_equal(fast, ImageDecoder(feature, OPTIONS, exact=False).images(images))
    np.testing.assert_array_equal(fast[1], EXPECTED[name])


PNGS = [name for name in SOUND if name.endswith(".png")]


@pytest.mark.parametrize("name", PNGS)
@pytest.mark.parametrize("options", [OPTIONS, hr.ImageOptions(channels=1), hr.ImageOptions(channels=3)])
def test_every_golden_png_is_what_pillow_gives(name, options, monkeypatch):
    """Includes images that native code leaves to Pillow: palettes, transparent colours, fewer bits, other channels than the file's."""
    images = [golden(name)] * 2
    feature = feature_of_images(Feature("bytes", encoding="png"), images, options)
    found = ImageDecoder(feature, options, exact=True).images(images)
    monkeypatch.setattr(ImageDecoder, "_plain_pngs", lambda self, images: None)
    np.testing.assert_array_equal(found, ImageDecoder(feature, options, exact=True).images(images))


@st.composite
def small_pngs(draw):
    """A few PNGs of one size and kind, as Pillow writes them."""
    height, width, channels = draw(st.integers(1, 40)), draw(st.integers(1, 40)), draw(st.sampled_from([1, 2, 3, 4]))
    seed, smooth = draw(st.integers(0, 99)), draw(st.booleans())  # rows with similar neighbours get different filters
    level = {"compress_level": draw(st.integers(0, 9)), "optimize": draw(st.booleans())}
    images = []
    for number in range(draw(st.integers(1, 3))):
        pixels = noise(height, width, channels, seed=seed + number)
        images.append(made((np.cumsum(pixels % 3, axis=1) % 256).astype(np.uint8) if smooth else pixels, **level))
    return images


@pytest.mark.usefixtures("own_engines")  # which it counts on
@settings(max_examples=60, deadline=None)
@given(small_pngs())
def test_opened_small_pngs_are_what_pillow_gives(tmp_path_factory, images):
    path = tmp_path_factory.mktemp("pngs") / "x.tfrecord"
    hr.write(path, {"image": np.array(images, object)}, schema={"image": Feature("bytes", encoding="png")})
    ways = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headrace.codecs.images.decode.decode_png", lambda *args: ways.append(1) or decode_png(*args))
        found = hr.open(path).batch(range(len(images)))["image"]
    expected = np.stack([np.array(Image.open(io.BytesIO(image))) for image in images])
    assert ways  # by native code
    np.testing.assert_array_equal(found, expected.reshape(found.shape))


def test_skipping_damage_does_not_skip_damaged_images(tmp_path):
    """It is about records, which are intact. `verify` lists the images."""
    path = tmp_path / "x.tfrecord"
    hr.write(path, {"image": np.array([jpeg(), jpeg()[:-20], jpeg()], object)})
    source = hr.open(path, on_corrupt="skip")
    with pytest.raises(hr.CorruptRecord) as error:
        list(source)
    assert error.value.where.record == 1
    damaged = {fault.where.record for fault in hr.verify(path, images=True).faults}
    assert len(list(source[[number for number in range(3) if number not in damaged]])) == 2
