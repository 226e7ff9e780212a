"""Images cropped, resized and mirrored while they are decoded: as the plain way does it, and as Pillow and torch do."""

import contextlib
import functools
import io
import pickle

import numpy as np
import pytest
import simplejpeg
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps
from PIL import __version__ as PILLOW_VERSION
from sklearn.datasets import load_sample_images
from tests.codecs.images.files import made, noise
from tests.codecs.images.test_plain_jpeg import images, turbo
from tests.reference import views as reference

from headrace import _native
from headrace.codecs.images.views import ViewDecoder, decoder_of, feature_of_views, given_feature
from headrace.contracts.feature import Feature
from headrace.contracts.images import ImageOptions, RandomResizedCrop
from headrace.errors import CorruptRecord, SchemaMismatch, UnsupportedData
from headrace.io.engines import engines

STORED = Feature("bytes", encoding="image")
PILLOW = {
    "nearest": Image.Resampling.NEAREST,
    "box": Image.Resampling.BOX,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}


@functools.cache
def photographs():
    """China and a flower, 427 x 640."""
    images = load_sample_images().images
    for image in images:
        image.setflags(write=False)
    return images


@functools.cache
def resized_photograph(number, height, width):
    image = Image.fromarray(photographs()[number])
    return image if height is None else image.resize((width, height), Image.Resampling.LANCZOS)


def photograph(number=0, *, quality=90, subsampling=2, height=None, width=None, **options):
    out = io.BytesIO()
    resized_photograph(number, height, width).save(out, "JPEG", quality=quality, subsampling=subsampling, **options)
    return out.getvalue()


def decoder(options, sample=()):
    return decoder_of(feature_of_views(STORED, list(sample), options), options, exact=options.channels is not None)


def view(image, options, draws=None):
    """One image through a decoder."""
    rows = None if draws is None else np.asarray(draws)[None]
    return decoder(options, [image]).images([image], rows)[0]


def natively(image, options, draws):
    """The result of native code alone, or ``None``."""
    made_of = decoder(options, [image])
    height, width, channels = made_of.result.shape
    found, others = _native.decode_jpeg_views(
        [image], made_of._views(channels), np.asarray(draws)[None], (height, width), channels, 1 << 24
    )
    return None if others else found.reshape(height, width, channels)


sides = st.integers(1, 60)
draw = st.floats(0, 1, exclude_max=True)
crops = st.builds(
    RandomResizedCrop,
    st.tuples(sides, sides),
    st.tuples(st.floats(0.01, 1), st.floats(0.01, 1)).map(lambda pair: tuple(sorted(pair))),
    st.tuples(st.floats(0.2, 5), st.floats(0.2, 5)).map(lambda pair: tuple(sorted(pair))),
)
options_of_one_size = st.one_of(
    st.builds(ImageOptions, crop=crops, flip=st.booleans(), interpolation=st.sampled_from(list(PILLOW))),
    st.builds(
        lambda resize, more, **rest: ImageOptions(
            resize=(resize[0] + more[0], resize[1] + more[1]), center_crop=resize, **rest
        ),
        st.tuples(sides, sides),
        st.tuples(st.integers(0, 9), st.integers(0, 9)),
        flip=st.booleans(),
        interpolation=st.sampled_from(list(PILLOW)),
    ),
)
draws_of_an_image = st.lists(draw, min_size=41, max_size=41)


@settings(deadline=None)
@given(images, options_of_one_size, draws_of_an_image)
def test_native_decoding_is_the_plain_way(image, options, draws):
    wanted = reference.view(turbo(image), options, draws)
    found = view(image, options, draws)
    assert found.shape == wanted.shape
    if engines().jpeg.is_own:
        np.testing.assert_array_equal(natively(image, options, draws), found)
    if options.interpolation == "nearest":  # sums of steps round otherwise than products
        return
    if options.interpolation == "box" or not _is_decoded_smaller(turbo(image).shape, options, draws):
        np.testing.assert_array_equal(found, wanted)


def _is_decoded_smaller(shape, options, draws):
    """Whether the part is twelve times as large as the result, or more."""
    if options.crop is None:
        return shape[0] >= 12 * options.resize[0] and shape[1] >= 12 * options.resize[1]
    _, _, rows, columns = reference.random_part(*shape[:2], options.crop.scale, options.crop.ratio, draws)
    return rows >= 12 * options.crop.size[0] and columns >= 12 * options.crop.size[1]


@settings(deadline=None)
@given(
    st.builds(noise, st.integers(1, 50), st.integers(1, 50), st.integers(1, 4), seed=st.integers(0, 99)),
    options_of_one_size.filter(lambda options: options.interpolation != "nearest"),
    draws_of_an_image,
)
def test_pixels_of_other_images_are_the_plain_way_to_the_bit(pixels, options, draws):
    found = view(made(pixels), options, draws)
    np.testing.assert_array_equal(found, reference.view(pixels, options, draws))


def check_against_pillow(pixels, size, interpolation):
    """Up to version 12, Pillow resizes the rows before the columns in some cases where version 13 does the reverse."""
    image = Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
    wanted = np.asarray(image.resize(size[::-1], PILLOW[interpolation], reducing_gap=None))
    found = view(made(pixels), ImageOptions(resize=size, interpolation=interpolation))
    if int(PILLOW_VERSION.split(".")[0]) >= 13 or pixels.shape[0] - size[0] <= 2 * max(0, pixels.shape[1] - size[1]):
        np.testing.assert_array_equal(found, wanted.reshape(found.shape))


@pytest.mark.parametrize("interpolation", list(PILLOW))
@pytest.mark.parametrize("size", [(224, 224), (100, 300), (427, 100), (500, 700), (40, 620), (20, 640)])
def test_pillow_resizes_photographs_to_the_same_bits(interpolation, size):
    for pixels in photographs():
        check_against_pillow(pixels, size, interpolation)


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic", "lanczos"])
@pytest.mark.parametrize("part", [(88, 222, 323, 162), (40, 236, 319, 84), (0, 0, 427, 200)])
def test_pillow_resizes_tall_parts_to_the_same_bits(interpolation, part):
    top, left, height, width = part
    for pixels in photographs():
        check_against_pillow(pixels[top : top + height, left : left + width], (256, 256), interpolation)


@settings(deadline=None, max_examples=300)
@given(st.tuples(sides, sides), st.tuples(sides, sides), st.integers(1, 4), st.integers(0, 99), st.data())
def test_pillow_resizes_noise_to_the_same_bits(before, after, channels, seed, data):
    """Alpha, too. Heights round the one from which the columns come first are drawn more often."""
    if data.draw(st.booleans()):
        limit = after[0] + 2 * max(0, before[1] - after[1])
        before = (max(1, limit + data.draw(st.integers(-1, 2))), before[1])
    pixels = noise(*before, channels, seed=seed)
    if channels in (2, 4) and data.draw(st.booleans()):
        pixels[:, :, -1] = np.where(pixels[:, :, -1] < 128, 0, 255)
    interpolation = data.draw(st.sampled_from([name for name in PILLOW if name != "nearest"]))
    check_against_pillow(pixels, after, interpolation)


@pytest.mark.parametrize("interpolation", list(PILLOW))
@pytest.mark.parametrize("channels", [2, 4])
def test_what_is_transparent_does_not_shine_through(interpolation, channels):
    pixels = np.zeros((64, 64, channels), np.uint8)
    pixels[:, :, 0] = 255
    pixels[16:48, 16:48] = (0, 255) if channels == 2 else (0, 0, 255, 255)
    check_against_pillow(pixels, (10, 10), interpolation)
    found = view(made(pixels), ImageOptions(resize=(10, 10), interpolation=interpolation))
    assert found[:, :, 0][found[:, :, -1] > 0].max() == 0
    # Pixels that stay as they are keep their hidden colours.
    same = view(made(pixels), ImageOptions(resize=(64, 64), interpolation=interpolation))
    np.testing.assert_array_equal(same, pixels)
    cut = view(made(pixels), ImageOptions(center_crop=50, interpolation=interpolation))
    np.testing.assert_array_equal(cut, pixels[7:57, 7:57])


@pytest.mark.parametrize("size", [(224, 224), (100, 300), (256, 383), (500, 749)])
@pytest.mark.parametrize(("interpolation", "most", "most_of_floats"), [("bilinear", 1, 1), ("bicubic", 2, 10)])
def test_torch_resizes_photographs_alike(interpolation, most, most_of_floats, size):
    """torchvision calls this function, `transforms.v2` with bytes, `transforms` with floats: those are not clipped between
    rows and columns.
    """
    torch = pytest.importorskip("torch")
    for pixels in photographs():
        planes = torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None]
        found = view(made(pixels), ImageOptions(resize=size, interpolation=interpolation)).astype(int)
        for image, limit in ((planes, most), (planes.float(), most_of_floats)):
            resized = torch.nn.functional.interpolate(image, size, mode=interpolation, antialias=True)
            wanted = resized[0].float().permute(1, 2, 0).round().clamp(0, 255).numpy()
            assert np.abs(found - wanted).max() <= limit
            assert np.abs(found - wanted).mean() < 0.5


def reference_size(pixels, options):
    height, width = (
        options.resize
        if isinstance(options.resize, tuple)
        else (max(1, side * options.resize // min(pixels.shape[:2])) for side in pixels.shape[:2])
    )
    return np.asarray(Image.fromarray(pixels).resize((width, height), PILLOW[options.interpolation])).astype(int)


@pytest.mark.parametrize("subsampling", [0, 1, 2])
@pytest.mark.parametrize("shrink", [4, 8])
def test_shrunk_images_are_those_of_libjpeg(subsampling, shrink):
    """Pillow's draft mode is libjpeg's scaled output."""
    if not engines().jpeg.is_own or (subsampling, shrink) == (1, 8):
        pytest.skip("this is decoded whole or less small")
    image = photograph(subsampling=subsampling, height=480, width=640)
    opened = Image.open(io.BytesIO(image))
    opened.draft("RGB", (640 // shrink, 480 // shrink))
    drafted = np.asarray(opened.convert("RGB"))
    assert drafted.shape == (480 // shrink, 640 // shrink, 3)
    options = ImageOptions(resize=(480 // shrink // 3, 640 // shrink // 3))
    np.testing.assert_array_equal(natively(image, options, []), reference.resize(drafted, *options.resize))


@settings(deadline=None)
@given(images, st.data())
def test_a_crop_that_is_not_resized_is_that_of_the_whole_image(image, data):
    whole = turbo(image)
    height, width = (data.draw(st.integers(1, side)) for side in whole.shape[:2])
    options = ImageOptions(center_crop=(height, width))
    top, left = round((whole.shape[0] - height) / 2), round((whole.shape[1] - width) / 2)
    found = view(image, options)
    np.testing.assert_array_equal(found, whole[top : top + height, left : left + width])
    if engines().jpeg.is_own:
        np.testing.assert_array_equal(natively(image, options, []), found)


def test_results_of_one_size_are_one_array():
    files = [photograph(0), photograph(1, quality=75, progressive=True), made(photographs()[0][:300, :200])]
    options = ImageOptions(crop=RandomResizedCrop((60, 50)), flip=True)
    draws = np.random.default_rng(0).random((3, 41))
    made_of = decoder(options, files)
    found = made_of.images(files, draws)
    assert found.shape == (3, 60, 50, 3)
    assert found.dtype == np.uint8
    for k, file in enumerate(files):
        np.testing.assert_array_equal(found[k], made_of.images([file], draws[k : k + 1])[0])
    assert made_of.images([], draws[:0]).shape == (0, 60, 50, 3)


def test_results_of_several_sizes_are_a_list():
    files = [photograph(0), made(noise(90, 70))]
    made_of = decoder(ImageOptions(resize=50), files)
    assert made_of.result.shape == (None, None, 3)
    assert [each.shape for each in made_of.images(files)] == [(50, 74, 3), (64, 50, 3)]
    assert made_of.images(files[:1]).shape == (1, 50, 74, 3)
    same = decoder(ImageOptions(resize=50), files[:1])
    assert same.result == Feature("uint8", (50, 74, 3), encoding="image")
    with pytest.raises(SchemaMismatch, match="any_size") as error:
        same.images(files)
    assert error.value.where.record == 1


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("file", [photograph(), made(photographs()[1])])
def test_floats_and_planes(layout, file):
    size = {"resize": 40, "center_crop": 32}
    plain = view(file, ImageOptions(**size))
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    wanted = plain.transpose(2, 0, 1) if layout == "NCHW" else plain
    np.testing.assert_array_equal(view(file, ImageOptions(**size, layout=layout)), wanted)
    scaled = view(file, ImageOptions(**size, layout=layout, dtype="float32"))
    assert scaled.dtype == np.float32
    np.testing.assert_array_equal(scaled, (wanted / 255).astype(np.float32))
    normal = view(file, ImageOptions(**size, layout=layout, dtype="float32", mean=mean, std=std))
    full = ((plain / 255 - np.array(mean)) / np.array(std)).astype(np.float32)
    np.testing.assert_array_equal(normal, full.transpose(2, 0, 1) if layout == "NCHW" else full)
    half = view(file, ImageOptions(**size, layout=layout, dtype="float32", mean=0.5, std=0.5))
    np.testing.assert_array_equal(half, ((wanted / 255 - 0.5) / 0.5).astype(np.float32))


def test_floats_without_another_size():
    file = photograph(height=40, width=60)
    np.testing.assert_array_equal(
        view(file, ImageOptions(dtype="float32")), (simplejpeg.decode_jpeg(file) / 255).astype(np.float32)
    )


@pytest.mark.parametrize("orientation", range(1, 9))
def test_images_are_turned_upright_before_they_are_cropped(orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    file = photograph(height=40, width=60, exif=exif)
    upright = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(file))))
    options = ImageOptions(crop=RandomResizedCrop(20), flip=True, oriented=True)
    draws = np.random.default_rng(orientation).random(41)
    np.testing.assert_array_equal(view(file, options, draws), reference.view(upright, options, draws))


@settings(deadline=None, max_examples=50)
@given(images, sides, draw)
def test_results_of_any_size_are_those_of_one_size(image, side, chance):
    """The shorter side is known only from the image."""
    free = decoder(ImageOptions(resize=side, flip=True, any_size=True), [image])
    assert free.size is None
    found = free.images([image], np.array([[chance]]))[0]
    fixed = ImageOptions(resize=found.shape[:2], flip=True)
    np.testing.assert_array_equal(found, view(image, fixed, [chance]))


def test_features():
    files = [photograph(), made(noise(20, 30, 4))]
    crop = ImageOptions(crop=RandomResizedCrop(24))
    stored = Feature("bytes", (2,), encoding="jpeg")
    assert feature_of_views(stored, files, crop) == Feature("uint8", (2, 24, 24, 4), encoding="jpeg")
    assert feature_of_views(STORED, [], crop) == Feature("uint8", (24, 24, None), encoding="image")
    planes = ImageOptions(resize=(7, 9), layout="NCHW", channels=1)
    assert feature_of_views(stored, files, planes) == Feature("uint8", (2, 1, 7, 9))
    floats = ImageOptions(resize=10, dtype="float32", any_size=True)
    assert feature_of_views(STORED, files[:1], floats) == Feature("float32", (None, None, 3))
    whole = Feature("uint8", (None, None, 3), encoding="jpeg")
    assert given_feature(whole, ImageOptions()) == whole
    assert given_feature(whole, crop) == Feature("uint8", (24, 24, 3), encoding="jpeg")
    assert given_feature(whole, floats) == Feature("float32", (None, None, 3))
    for given_one, options in (
        (Feature("uint8", (24, 25, 3), encoding="jpeg"), crop),
        (whole, planes),
        (Feature("uint16", (None, None, 3), encoding="png"), crop),
    ):
        with pytest.raises(SchemaMismatch, match="as ImageOptions says"):
            given_feature(given_one, options)


def test_images_that_are_too_small_for_the_middle():
    file = photograph(height=30, width=40)
    made_of = decoder(ImageOptions(center_crop=31), [photograph()])
    for files in ([photograph(), file], [photograph(), made(noise(50, 30))]):
        with pytest.raises(SchemaMismatch, match=r"at least 31 x 31, which center_crop.*resize=") as error:
            made_of.images(files)
        assert error.value.where.record == 1


def test_images_that_are_too_small_after_resizing():
    made_of = decoder(ImageOptions(resize=224, center_crop=(200, 300)), [photograph()])
    for files in ([photograph(height=640, width=427)], [made(noise(640, 427))]):
        with pytest.raises(
            SchemaMismatch, match=r"of at least 200 x 300, .* 640 x 427, which resize=224 makes 335 x 224"
        ):
            made_of.images(files)


def test_results_that_would_be_too_large():
    thin = made(noise(1, 4000))
    with pytest.raises(UnsupportedData, match="becomes 300 x 1200000"):
        view(thin, ImageOptions(resize=300))
    with pytest.raises(UnsupportedData, match="at most 100 pixels"):
        view(photograph(), ImageOptions(crop=RandomResizedCrop(8), most_pixels=100), np.zeros(41))


def test_deep_images():
    deep = Image.fromarray((np.arange(600).reshape(20, 30) * 100).astype(np.uint16))
    out = io.BytesIO()
    deep.save(out, "PNG")
    with pytest.raises(UnsupportedData, match="dtype='uint8'"):
        view(out.getvalue(), ImageOptions(resize=(5, 5)))
    found = view(out.getvalue(), ImageOptions(resize=(5, 5), dtype="uint8"))
    upper = (np.asarray(deep) >> 8).astype(np.uint8)[:, :, None]
    np.testing.assert_array_equal(found, reference.resize(upper, 5, 5))


def test_means_for_another_number_of_channels():
    options = ImageOptions(resize=(5, 5), dtype="float32", mean=(0.1, 0.2, 0.3), std=1)
    with pytest.raises(SchemaMismatch, match=r"images of 3 channels, as mean and std have.*channels="):
        view(made(noise(9, 9, 1)), options)


def test_damage_is_reported_as_for_whole_images():
    sound, cut = photograph(), photograph()[:3000]
    made_of = decoder(ImageOptions(crop=RandomResizedCrop(32)), [sound])
    with pytest.raises(CorruptRecord) as error:
        made_of.images([sound, cut], np.zeros((2, 41)))
    assert error.value.where.record == 1
    with pytest.raises(CorruptRecord):
        made_of.images([b"\xff\xd8\xff"], np.zeros((1, 41)))


def test_damage_below_the_part_is_not_seen():
    file = bytearray(photograph(height=128, width=64))
    file[-20] ^= 0x55
    whole = bytes(file)
    top = ImageOptions(crop=RandomResizedCrop(16, scale=(0.1, 0.1)))
    draws = np.zeros(41)
    np.testing.assert_array_equal(view(whole, top, draws), view(photograph(height=128, width=64), top, draws))


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_no_damage_crashes(data):
    """Truncation and changed bytes give an error, or some pixels."""
    file = bytearray(
        photograph(height=40, width=48, quality=60, restart_marker_blocks=data.draw(st.sampled_from([0, 2])))
    )
    for _ in range(data.draw(st.integers(1, 3))):
        file[data.draw(st.integers(0, len(file) - 1))] = data.draw(st.integers(0, 255))
    file = bytes(file[: data.draw(st.integers(1, len(file)))])
    options = ImageOptions(crop=RandomResizedCrop(9, scale=(0.05, 1)), channels=3)
    draws = np.array(data.draw(draws_of_an_image))
    with contextlib.suppress(CorruptRecord, UnsupportedData):
        assert view(file, options, draws).shape == (9, 9, 3)


def test_a_decoder_is_pickled_and_used_again():
    options = ImageOptions(resize=(8, 9), dtype="float32", layout="NCHW")
    made_of = decoder(options, [photograph()])
    found = made_of.images([photograph()])
    again = pickle.loads(pickle.dumps(made_of))
    assert isinstance(again, ViewDecoder)
    np.testing.assert_array_equal(again.images([photograph()]), found)


@pytest.mark.parametrize(
    "wrong",
    [
        {"size": (0, 5)},
        {"size": (5, 1 << 62)},
        {"channels": 5},
        {"channels": 0},
        {"draws": np.zeros((2, 41))},
        {"draws": np.zeros((1, 40))},
        {"draws": np.ones((1, 41))},
        {"draws": np.full((1, 41), np.nan)},
        {"draws": np.full((1, 41), -0.1)},
    ],
)
def test_native_code_checks_its_arguments(wrong):
    views = _native.ImageViews(
        crop=((5, 5), (0.1, 1), (0.5, 2)),
        resize=None,
        center_crop=None,
        flip=True,
        interpolation="bilinear",
        is_planar=False,
        values=None,
    )
    arguments = {"size": (5, 5), "channels": 3, "draws": np.zeros((1, 41)), **wrong}
    with pytest.raises(ValueError, match="."):
        _native.decode_jpeg_views([photograph()], views, most_pixels=1 << 24, **arguments)
    with pytest.raises(ValueError, match="."):
        views.apply(np.zeros((4, 4, 5), np.uint8), np.zeros((1, 41)), np.zeros(75, np.uint8))
    with pytest.raises(ValueError, match="."):
        views.apply(np.zeros((0, 4, 3), np.uint8), np.zeros((1, 41)), np.zeros(75, np.uint8))
    assert not views.apply(np.zeros((4, 4, 3), np.uint8), np.zeros((1, 41)), np.zeros(74, np.uint8))
    assert views.size(0, 5) is None
