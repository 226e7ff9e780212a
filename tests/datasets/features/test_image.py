"""Images: what they accept, and what they report."""

import io

import numpy as np
import pytest
from PIL import Image as Pillow

from headrace.datasets.codec import FeaturesCodec, FeaturesEncoder
from headrace.datasets.features import FeaturesDict, Image, LabeledImage
from headrace.errors import SchemaMismatch, UnsupportedData


def through(feature, *values):
    """Values, encoded and decoded together."""
    features = FeaturesDict({"x": feature})
    encoder, codec = FeaturesEncoder(features), FeaturesCodec(features)
    return codec.decode_batch(codec.spans_of([encoder.encode({"x": value}) for value in values]))["x"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shape": (28, 28)}, r"\(height, width, channels\) with 1 to 4 channels, got \(28, 28\)"),
        ({"shape": (28, 28, 5)}, "with 1 to 4 channels"),
        ({"dtype": "int32"}, "an image is of uint8 or uint16 or float32 .* got int32"),
        ({"dtype": "uint16", "encoding_format": "jpeg"}, "a JPEG of uint8"),
        ({"encoding_format": "gif"}, r"encoding_format must be one of \('png', 'jpeg'\), got 'gif'"),
        ({"dtype": "float32"}, "a float image has one channel"),
    ],
)
def test_arguments_that_contradict_each_other(options, message):
    with pytest.raises(ValueError, match=message):
        Image(**options)


def test_classes_need_one_channel():
    with pytest.raises(ValueError, match=r"an image of classes has one channel, got shape \(2, 2, 3\)"):
        LabeledImage(shape=(2, 2, 3))


def test_classes_of_pixels(tmp_path):
    path = tmp_path / "classes.txt"
    path.write_text("sky\nsea\n")
    for labels in (["sky", "sea"], path, str(path)):
        mask = LabeledImage(labels=labels)
        assert (mask.names, mask.num_classes) == (["sky", "sea"], 2)
        assert list(mask.label_files("mask")) == [("mask.labels.txt", mask.label)]
    assert (LabeledImage(labels=2).names, LabeledImage(labels=2).num_classes) == (["0", "1"], 2)
    assert (LabeledImage().names, LabeledImage().num_classes) == ([], None)


def test_descriptions_for_readers():
    fixed, varying = Image(shape=(2, 2, 3), encoding_format="png"), Image()
    assert (fixed.varies, varying.varies) == (False, True)
    assert (fixed.schema_options, varying.schema_options) == ({"encoding": "png"}, {"encoding": "image"})
    assert Image(shape=(None, 2, 2, 3)).schema_options == {}  # an animation
    assert Image(shape=(2, 2, 1), dtype="float32").schema_options == {}
    assert "encoding_format=png" in repr(fixed)
    assert fixed.content()[1]["encodingFormat"] == "png"
    assert "encodingFormat" not in varying.content()[1]


def test_numbers_in_the_channels_of_a_png():
    first, second = np.float32([[[0.5], [-2.0]]]), np.float32([[[np.pi]], [[1e-30]]])
    together = through(Image(shape=(1, 2, 1), dtype="float32"), first, first + 1)
    assert together.dtype == np.float32
    assert together.tolist() == [first.tolist(), (first + 1).tolist()]
    apart = through(Image(shape=(None, None, 1), dtype="float32"), first, second)
    assert [pixels.tolist() for pixels in apart] == [first.tolist(), second.tolist()]


def test_16_bits():
    pixels = np.uint16([[[0], [256]], [[257], [65535]]])
    assert through(Image(shape=(2, 2, 1), dtype="uint16"), pixels)[0].tolist() == pixels.tolist()
    colours = np.zeros((2, 2, 3), np.uint16)
    with pytest.raises(UnsupportedData, match="one channel for 16-bit pixels"):
        Image(dtype="uint16").encode_example(colours)


@pytest.mark.parametrize(("channels", "mode"), [(1, "L"), (2, "LA"), (3, "RGB"), (4, "RGBA")])
def test_arrays_become_files(channels, mode):
    pixels = np.random.default_rng(0).integers(0, 256, (3, 2, channels), np.uint8)
    file = Image(shape=(None, None, channels)).encode_example(pixels)
    opened = Pillow.open(io.BytesIO(file))
    assert (opened.format, opened.mode, opened.size) == ("PNG", mode, (2, 3))
    assert np.asarray(opened).reshape(pixels.shape).tolist() == pixels.tolist()
    if channels in (1, 3):
        jpeg = Image(shape=(None, None, channels), encoding_format="jpeg").encode_example(pixels)
        assert Pillow.open(io.BytesIO(jpeg)).format == "JPEG"


def test_values_that_are_no_images():
    with pytest.raises(UnsupportedData, match="the bytes of an animation's file"):
        Image(shape=(None, None, None, 3)).encode_example(np.zeros((2, 2, 2, 3), np.uint8))
    with pytest.raises(SchemaMismatch, match="found int64 of shape"):
        Image().encode_example(np.zeros((2, 2, 3), np.int64))
    with pytest.raises(SchemaMismatch, match=r"an array, image file, path, open file or PIL.Image, found int"):
        Image().encode_example(5)
