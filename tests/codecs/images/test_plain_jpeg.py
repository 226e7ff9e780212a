"""Native JPEG decoding: libjpeg-turbo's exact pixels, or left to libjpeg-turbo."""

import io
import os
import threading

import numpy as np
import pytest
import simplejpeg
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from tests.codecs.images.files import golden, jpeg, noise
from tests.reference.jpeg import extreme_jpeg, write_jpeg

from headrace import _native
from headrace.codecs.images import open as opened
from headrace.codecs.images.decode import ImageDecoder
from headrace.contracts.feature import Feature
from headrace.contracts.images import ImageOptions
from headrace.errors import CorruptRecord, SchemaMismatch

SUBSAMPLINGS = (0, 1, 2)


def pixels_of(kind, height, width, channels, seed):
    random = np.random.default_rng(seed)
    if kind == "noise":
        return noise(height, width, channels, seed=seed)
    if kind == "smooth":
        steps = random.normal(0, 2, (height, width, channels)).cumsum(0).cumsum(1)
        return (steps % 256).astype(np.uint8)
    if kind == "extreme":
        return np.repeat(np.where(random.random((height, width, 1)) < 0.5, 0, 255), channels, 2).astype(np.uint8)
    return np.broadcast_to(random.integers(0, 256, channels, np.uint8), (height, width, channels)).copy()


def encoded(pixels, **options):
    out = io.BytesIO()
    Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels).save(out, "JPEG", **options)
    return out.getvalue()


def natively(image, like):
    out = np.zeros(like.shape, np.uint8)
    return out if _native.decode_jpeg_into(image, out) else None


def turbo(image):
    grey = simplejpeg.decode_jpeg_header(image)[2] == "Gray"
    return simplejpeg.decode_jpeg(image, "GRAY" if grey else "RGB")


images = st.builds(
    lambda pixels, optimize, progressive, restart, quality, subsampling: encoded(
        pixels,
        optimize=optimize,
        progressive=progressive,
        quality=quality,
        restart_marker_blocks=restart,
        **({"subsampling": subsampling} if pixels.shape[2] == 3 else {}),
    ),
    st.builds(
        pixels_of,
        st.sampled_from(["noise", "smooth", "extreme", "flat"]),
        st.integers(1, 70),
        st.integers(5, 70),
        st.sampled_from([1, 3]),
        st.integers(0, 2**32 - 1),
    ),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0, 0, 1, 3]),
    st.sampled_from([1, 20, 50, 75, 90, 95, 100]),
    st.sampled_from(SUBSAMPLINGS),
)


@given(images)
def test_pixels_are_those_of_libjpeg_turbo(image):
    wanted = turbo(image)
    np.testing.assert_array_equal(natively(image, wanted), wanted)


@given(images, st.data())
def test_a_changed_image_is_never_mistaken_for_another(image, data):
    changed = bytearray(image)
    changed[data.draw(st.integers(0, len(image) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    changed = bytes(changed[: data.draw(st.integers(1, len(image)))]) if data.draw(st.booleans()) else bytes(changed)
    try:
        wanted = turbo(changed)
    except ValueError:
        wanted = None
    like = turbo(image) if wanted is None else wanted
    found = natively(changed, like)
    if found is not None:
        assert wanted is not None  # libjpeg-turbo accepts it too
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("start", range(0, 800, 200))
def test_coefficients_that_no_photo_has(start):
    """Products and sums beyond 16 bits, where libjpeg-turbo sometimes wraps and sometimes saturates."""
    for seed in range(start, start + 200):
        image = extreme_jpeg(seed)
        wanted = turbo(image)
        np.testing.assert_array_equal(natively(image, wanted), wanted, str(seed))


@pytest.mark.parametrize("progressive", [False, True])
def test_a_block_of_one_coefficient(progressive):
    """At each place: what a block is transformed by depends on the last one."""
    waves = np.cos((2 * np.arange(8) + 1) * np.arange(8)[:, None] * np.pi / 16)
    blocks = 128 + 100 * np.einsum("uy,vx->yuvx", waves, waves)
    pixels = np.round(blocks.reshape(8, -1, 1)).astype(np.uint8)
    image = encoded(pixels, quality=50, progressive=progressive)
    wanted = turbo(image)
    assert abs(wanted.astype(int) - pixels).max() < 40  # Each block has its coefficient.
    np.testing.assert_array_equal(natively(image, wanted), wanted)


def test_a_subsampling_that_simplejpeg_has_no_name_for():
    image = write_jpeg(32, 8, [(1, 4), (1, 1), (1, 1)], [[8] * 64] * 3, [[{0: 20 * block} for block in range(6)]])
    wanted = np.asarray(Image.open(io.BytesIO(image)))
    found = np.zeros((32, 8, 3), np.uint8)
    opened.open_image(image, oriented=False).pixels_into(found)
    np.testing.assert_array_equal(found, wanted)


def test_a_progressive_image_without_its_last_bits_is_left_to_the_library():
    """libjpeg smooths the blocks of such an image."""
    image = encoded(pixels_of("smooth", 40, 50, 3, 1), progressive=True, quality=90)
    wanted = turbo(image)
    np.testing.assert_array_equal(natively(image, wanted), wanted)
    for scan in [at for at in range(len(image)) if image[at : at + 2] == b"\xff\xda"][1:]:
        smoothed = image[:scan] + b"\xff\xd9"
        assert turbo(smoothed).shape == wanted.shape
        assert natively(smoothed, wanted) is None


@pytest.mark.parametrize("name", ["cmyk.jpg", "progressive_cut.jpg"])
def test_others_are_ignored(name):
    assert not _native.decode_jpeg_into(golden(name), np.zeros((64, 64, 3), np.uint8))


def test_another_shape_is_ignored():
    image = jpeg(16, 24)
    for shape in [(16, 23, 3), (15, 24, 3), (16, 24, 1), (24, 16, 3), (0, 0, 3)]:
        assert not _native.decode_jpeg_into(image, np.zeros(shape, np.uint8))


@pytest.mark.parametrize("version", [1, 2])
def test_libjpeg_warnings_are_ignored(version):
    image = bytearray(jpeg(16, 24))
    at = image.index(b"JFIF\0") + 5
    image[at] = version
    assert _native.decode_jpeg_into(bytes(image), np.zeros((16, 24, 3), np.uint8)) == (version == 1)


def test_a_batch_names_the_examples_it_left_out():
    damaged = jpeg(16, 24)[:-30]
    files = [jpeg(16, 24, seed=1), golden("cmyk.jpg"), jpeg(16, 24, seed=2), damaged, b""]
    pixels, others = _native.decode_jpegs(files, 16, 24, 3)
    assert pixels.shape == (5, 16, 24, 3)
    assert others == [1, 3, 4]
    for position in (0, 2):
        np.testing.assert_array_equal(pixels[position], turbo(files[position]))


@pytest.mark.parametrize("kind", [{}, {"progressive": True}, {"restart_marker_blocks": 1000}])
def test_photographs_of_more_than_24_megapixels(kind):
    pixels = np.zeros((4000, 6100, 1), np.uint8)
    pixels[-300:, -400:] = noise(300, 400, 1)
    image = encoded(pixels, **kind)
    np.testing.assert_array_equal(natively(image, pixels), turbo(image))


def test_progressive_files_whose_coefficients_take_much_memory_are_left_to_the_library():
    pixels = np.zeros((5800, 5800, 1), np.uint8)
    assert natively(encoded(pixels, progressive=True), pixels) is None
    assert natively(encoded(pixels), pixels) is not None


def test_shapes_that_cannot_be():
    with pytest.raises(ValueError, match="shape"):
        _native.decode_jpegs([], 1 << 20, 1, 3)
    with pytest.raises(TypeError):
        _native.decode_jpegs([1], 16, 24, 3)
    assert _native.decode_jpegs([], 16, 24, 3)[0].shape == (0, 16, 24, 3)


@pytest.mark.skipif("libasan" in os.environ.get("LD_PRELOAD", ""), reason="AddressSanitizer ends the process instead")
def test_memory_that_cannot_be_had_is_a_memory_error():
    with pytest.raises(MemoryError):
        _native.decode_jpegs([b""] * 65536, 65535, 65535, 3)  # more than there are addresses


@pytest.fixture(params=["own_engines", "library_engines"])
def either_engine(request):
    return request.getfixturevalue(request.param)


def decoder(*shape, **options):
    return ImageDecoder(Feature("uint8", shape, encoding="jpeg"), ImageOptions(**options), exact="channels" in options)


@pytest.mark.usefixtures("either_engine")
def test_both_ways_give_one_batch():
    files = [jpeg(seed=1), encoded(noise(16, 24), progressive=True), jpeg(channels=1, seed=2), png()]
    wanted = [turbo(files[0]), turbo(files[1]), np.repeat(turbo(files[2]), 3, axis=2), noise(16, 24, seed=9)]
    np.testing.assert_array_equal(decoder(16, 24, 3).images(files), wanted)
    for found, each in zip(decoder(None, None, 3).images([*files, jpeg(8, 8)]), wanted, strict=False):
        np.testing.assert_array_equal(found, each)


def png():
    out = io.BytesIO()
    Image.fromarray(noise(16, 24, seed=9)).save(out, "PNG")
    return out.getvalue()


@pytest.mark.usefixtures("either_engine")
def test_the_first_fault_is_named():
    files = [jpeg(seed=1), jpeg(seed=2)[:-40], jpeg(8, 8)]
    with pytest.raises(CorruptRecord) as cut:
        decoder(16, 24, 3).images(files)
    assert cut.value.where.record == 1
    with pytest.raises(SchemaMismatch) as small:
        decoder(16, 24, 3).images([files[0], files[2]])
    assert small.value.where.record == 1


def test_threads_do_not_share_what_they_work_in():
    files = [jpeg(40, 50, seed=seed, quality=50 + seed) for seed in range(30)]
    wanted = [turbo(file) for file in files]
    wrong = []

    def work(first):
        for turn in range(20):
            order = [(first + turn + i) % len(files) for i in range(len(files))]
            pixels, others = _native.decode_jpegs([files[i] for i in order], 40, 50, 3)
            if others or not all(np.array_equal(pixels[k], wanted[i]) for k, i in enumerate(order)):
                wrong.append(first)

    threads = [threading.Thread(target=work, args=(7 * k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("subsampling", SUBSAMPLINGS)
def test_a_wide_image_is_made_a_few_rows_at_a_time(subsampling, progressive):
    """Its planes do not fit into a cache, so their memory is used again."""
    pixels = pixels_of("smooth", 203, 4005, 3, 1)
    image = encoded(pixels, subsampling=subsampling, progressive=progressive, quality=75)
    wanted = turbo(image)
    np.testing.assert_array_equal(natively(image, wanted), wanted)


def test_a_large_image_is_decoded_and_its_memory_given_back():
    image = jpeg(1500, 1100)
    wanted = turbo(image)
    np.testing.assert_array_equal(natively(image, wanted), wanted)
    small = jpeg(16, 24)
    np.testing.assert_array_equal(natively(small, turbo(small)), turbo(small))
