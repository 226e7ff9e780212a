"""Images that are decoded smaller, and results of extreme sizes."""

import itertools
import resource
import subprocess
import sys

import numpy as np
import pytest
import simplejpeg
from PIL import Image
from tests.codecs.images.files import made, noise
from tests.codecs.images.test_views import PILLOW, decoder, photograph, reference_size, view
from tests.reference import views as reference
from tests.sweeps import some_of

from headrace.contracts.images import ImageOptions, RandomResizedCrop
from headrace.errors import UnsupportedData

SMOOTH = ("bilinear", "bicubic", "lanczos")
SIZES = [(427, 640), (854, 1280), (1708, 2560)]
MEAN, QUANTILE, MOST, MOST_OF_SMALL = 1, 10, 20, 25
"""The tolerance that docs/images.md states for each result: the mean, 99.9 % of its samples, and the largest difference of a sample."""
LEAST_SIDE = 32


def check(found, wanted):
    """Check the differences of the samples of one result."""
    error = np.abs(found.astype(int) - wanted)
    if min(found.shape[:2]) < LEAST_SIDE:
        assert error.max() <= MOST_OF_SMALL
        return
    assert error.mean() <= MEAN
    assert np.percentile(error, 99.9) <= QUANTILE
    assert error.max() <= MOST


@pytest.mark.parametrize("interpolation", SMOOTH)
@pytest.mark.parametrize("subsampling", [0, 1, 2])
def test_photographs_are_within_the_stated_tolerance(interpolation, subsampling):
    for (number, quality), (height, width) in itertools.product(((0, 75), (1, 90)), SIZES):
        image = photograph(number, quality=quality, subsampling=subsampling, height=height, width=width)
        whole = simplejpeg.decode_jpeg(image)
        for factor in some_of((4.1, 8.05, 12.05, 13.3, 14, 18, 24.1, 30, 50), 1):
            options = ImageOptions(resize=(int(height / factor), int(width / factor)), interpolation=interpolation)
            check(view(image, options), reference_size(whole, options))


@pytest.mark.parametrize("interpolation", SMOOTH)
@pytest.mark.parametrize("subsampling", [0, 1, 2])
def test_random_crops_are_within_the_stated_tolerance(interpolation, subsampling):
    random = np.random.default_rng(3)
    for number, (height, width) in itertools.product(range(2), SIZES):
        image = photograph(number, subsampling=subsampling, height=height, width=width)
        pixels = simplejpeg.decode_jpeg(image)
        whole = Image.fromarray(pixels)
        for _ in some_of(range(12), 2):
            side = int(random.integers(16, 100))
            crop = RandomResizedCrop(side, scale=(0.1, 1))
            draws = random.random(41)
            top, left, rows, columns = reference.random_part(*pixels.shape[:2], crop.scale, crop.ratio, draws)
            box = whole.crop((left, top, left + columns, top + rows))
            wanted = np.asarray(box.resize((side, side), PILLOW[interpolation])).astype(int)
            check(view(image, ImageOptions(crop=crop, interpolation=interpolation), draws), wanted)


def test_images_that_shrink_less_are_decoded_whole():
    """Halves take longer than the whole image."""
    image = photograph(height=1100, width=1100)
    for side in (92, 137, 270):
        options = ImageOptions(resize=(side, side))
        wanted = reference.resize(simplejpeg.decode_jpeg(image), side, side)
        np.testing.assert_array_equal(view(image, options), wanted)


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_results_may_be_longer_than_images_may_be_resized_to(kind):
    thin = made(noise(300, 1), kind)
    for options in (ImageOptions(resize=224), ImageOptions(resize=224, any_size=True)):
        assert view(thin, options).shape == (67200, 224, 3)
    longer = made(noise(1, 4000), kind)
    for options in (
        ImageOptions(resize=300),
        ImageOptions(resize=300, any_size=True),
        ImageOptions(resize=(65000, 2000)),
    ):
        with pytest.raises(UnsupportedData, match="becomes (300 x 1200000|65000 x 2000)") as error:
            decoder(options, [longer]).images([longer, longer])
        assert error.value.where.record == 0


TALL = """
import io, resource
import numpy as np
from PIL import Image
from headrace.codecs.images.views import decoder_of, feature_of_views
from headrace.contracts.feature import Feature
from headrace.contracts.images import ImageOptions
out = io.BytesIO()
Image.fromarray(np.arange(60000, dtype=np.uint8)[:, None]).save(out, "{kind}")
image, options = out.getvalue(), ImageOptions(resize=(1, 20000))
decode = decoder_of(feature_of_views(Feature("bytes", encoding="image"), [image], options), options, exact=False)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert decode.images([image]).shape == (1, 1, 20000, 1)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the unit of the peak is another")
@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_tall_images_take_little_memory(kind):
    """All its rows, resized, would take 1.2 GB."""
    assert resource.RUSAGE_SELF == 0
    run = subprocess.run(
        [sys.executable, "-c", TALL.format(kind=kind)], capture_output=True, text=True, check=True, timeout=100
    )
    assert int(run.stdout) < 300_000


@pytest.mark.parametrize("flip", [False, True])
def test_results_of_tall_images_are_those_of_their_parts(flip):
    image = made(noise(60000, 1, 1))
    whole = view(image, ImageOptions(resize=(2, 1300), flip=flip), np.zeros(1))
    part = view(image, ImageOptions(resize=(2, 1300), center_crop=(2, 500), flip=flip), np.zeros(1))
    np.testing.assert_array_equal(part, whole[:, 400:900])
