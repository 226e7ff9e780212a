"""Pixels that become images, and those that cannot."""

import tracemalloc

import numpy as np
import pytest

import headrace as hr
from headrace.codecs.images.encode import ImageEncoder, convert_pixels


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        ("png", (0, 5, 3)),
        ("jpeg", (0, 5, 3)),
        ("jpeg", (2, 65_501, 3)),
        ("webp", (1, 16_384, 3)),
        ("tiff", (5, 0, 3)),
        ("bmp", (0, 0, 1)),
    ],
)
def test_pixels_that_an_encoding_cannot_hold_are_named(tmp_path, kind, shape):
    feature = hr.Feature("uint8", (None, None, None), encoding=kind)
    encoder = ImageEncoder("photo", feature)
    with pytest.raises(
        hr.SchemaMismatch, match=rf"pixels that {kind} can hold, found uint8 with shape .*record 7, feature 'photo'"
    ):
        encoder.encoded(np.zeros(shape, np.uint8), 7)
    examples = [{"photo": np.zeros((2, 2, shape[2]), np.uint8)}, {"photo": np.zeros(shape, np.uint8)}]
    with pytest.raises(hr.SchemaMismatch, match="record 1, feature 'photo'"):
        hr.write(tmp_path / "x.tfrecord", examples, schema={"photo": feature})


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_luma_is_exact_and_takes_no_memory_for_each_pixel_but_its_own(dtype):
    colours = np.random.default_rng(0).integers(0, np.iinfo(dtype).max + 1, (300, 1000, 3), dtype)
    colours[0] = np.iinfo(dtype).max
    tracemalloc.start()
    grey = convert_pixels(colours, 1, dtype)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    exact = (colours.astype(np.uint64) @ np.array([19595, 38470, 7471], np.uint64) + 0x8000) >> 16
    np.testing.assert_array_equal(grey[:, :, 0], exact)
    assert peak < grey.nbytes + (1 << 20)
