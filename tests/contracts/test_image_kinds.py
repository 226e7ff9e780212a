import pickle
from dataclasses import replace

import numpy as np
import pytest
from tests.codecs.images.files import SOUND, golden

from headrace.contracts.feature import ENCODINGS
from headrace.contracts.images import (
    SUFFIXES,
    ImageOptions,
    RandomResizedCrop,
    encoding_by_counts,
    encoding_of,
    encoding_of_most,
    is_image_name,
)


@pytest.mark.parametrize("name", SOUND)
def test_every_golden_image_is_detected_by_its_first_bytes(name):
    image = golden(name)
    assert encoding_of(image) == SUFFIXES["." + name.rpartition(".")[2]]
    assert encoding_of(image[:32], len(image)) == encoding_of(image)


@pytest.mark.parametrize(
    "image", [b"", b"BM is a museum in London, mind", b"RIFF....WAVE", b"II*\0", b"\xff\xd8", b"GIF88a", b"\x89PNG\r\n"]
)
def test_bytes_that_are_not_images(image):
    assert encoding_of(image) is None


def test_all_of_some():
    jpeg, png = golden("grey.jpg"), golden("palette.png")
    assert encoding_of_most([jpeg, jpeg]) == "jpeg"
    assert encoding_of_most([jpeg, memoryview(png)]) == "image"
    assert encoding_of_most([jpeg, b"text"]) is None
    assert encoding_of_most([b"", jpeg, jpeg]) == "jpeg"
    assert encoding_of_most([b"", jpeg, jpeg, b"text"]) is None
    assert encoding_of_most([]) is None


def test_the_same_from_counts():
    assert len(ENCODINGS) == 6
    assert encoding_by_counts(3, (0, 0, 3, 0, 0, 0, 0)) == "png"
    assert encoding_by_counts(3, (0, 1, 2, 0, 0, 0, 0)) == "image"
    assert encoding_by_counts(4, (1, 1, 2, 0, 0, 0, 0)) == "image"
    assert encoding_by_counts(4, (2, 0, 2, 0, 0, 0, 0)) is None
    assert encoding_by_counts(0, (0,) * 7) is None


def test_names():
    assert is_image_name("a.JPG")
    assert is_image_name("a.b.tiff")
    assert not is_image_name("a.txt")
    assert not is_image_name("jpg")


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"channels": 5}, ValueError, "channels must be 1, 2, 3, 4 or None, got 5"),
        ({"channels": True}, TypeError, "channels must be an integer, got True"),
        ({"channels": "3"}, TypeError, "channels must be an integer, got '3'"),
        ({"oriented": "yes"}, TypeError, "oriented is True or False, got 'yes'"),
        ({"most_pixels": 0}, ValueError, "most_pixels must be at least 1, got 0"),
        ({"most_pixels": 1.5}, TypeError, "most_pixels must be an integer, got 1.5"),
        ({"most_pixels": "a"}, TypeError, "most_pixels must be an integer, got 'a'"),
        ({"crop": 224}, TypeError, r"crop is a headrace.RandomResizedCrop\(...\), got 224"),
        ({"crop": RandomResizedCrop(5), "resize": 6}, ValueError, "without resize and center_crop"),
        ({"crop": RandomResizedCrop(5), "center_crop": 6}, ValueError, "without resize and center_crop"),
        ({"flip": 1}, TypeError, "flip is True or False, got 1"),
        ({"resize": 0}, ValueError, "resize must be at least 1, got 0"),
        ({"resize": 65536}, ValueError, "resize must be at most 65535 pixels, got 65536"),
        ({"resize": "5"}, TypeError, "resize must be an integer, got '5'"),
        ({"resize": (5,)}, ValueError, r"resize is one number, or a height and a width, got \(5,\)"),
        ({"center_crop": (5, -1)}, ValueError, "center_crop must be at least 1, got -1"),
        ({"center_crop": True}, TypeError, "center_crop must be an integer, got True"),
        (
            {"resize": (10, 30), "center_crop": 20},
            ValueError,
            r"center_crop=\(20, 20\) .* never fits into resize=\(10, 30\)",
        ),
        ({"resize": 224, "center_crop": 256}, ValueError, r"center_crop=\(256, 256\) .* never fits into resize=224"),
        ({"interpolation": "cubic"}, ValueError, "interpolation must be 'nearest', .* or 'lanczos', got 'cubic'"),
        ({"layout": "CHW"}, ValueError, "layout must be 'NHWC' or 'NCHW', got 'CHW'"),
        ({"layout": None}, TypeError, "layout must be 'NHWC' or 'NCHW', got None"),
        ({"dtype": "float64"}, ValueError, "dtype must be 'uint8' or 'float32', got 'float64'"),
        ({"dtype": "float32", "mean": 0.5}, ValueError, "mean and std come together"),
        ({"mean": 0.5, "std": 0.5}, ValueError, "give dtype='float32' with them, got dtype=None"),
        ({"dtype": "float32", "mean": (0, 0), "std": (1, 1, 1)}, ValueError, "one for each channel, got 2 and 3"),
        (
            {"dtype": "float32", "mean": (0, 0, 0), "std": 1, "channels": 1},
            ValueError,
            "got 3 and 1 of them for 1 channels",
        ),
        ({"dtype": "float32", "mean": 0, "std": 0}, ValueError, "std must be above 0"),
        ({"dtype": "float32", "mean": "0", "std": 1}, TypeError, "mean is a number, or a sequence of numbers, got '0'"),
        ({"dtype": "float32", "mean": (), "std": 1}, TypeError, "mean is a number"),
        ({"dtype": "float32", "mean": float("nan"), "std": 1}, ValueError, "mean must be finite"),
        (
            {"dtype": "float32", "mean": np.zeros((3, 1)), "std": 1},
            TypeError,
            "mean is a number, or a sequence of numbers",
        ),
        (
            {"dtype": "float32", "mean": 0, "std": np.array(["1"])},
            TypeError,
            "std is a number, or a sequence of numbers",
        ),
    ],
)
def test_options_out_of_range(options, kind, message):
    with pytest.raises(kind, match=message):
        ImageOptions(**options)


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"size": 0}, ValueError, "size must be at least 1, got 0"),
        ({"size": 2.5}, TypeError, "size must be an integer, got 2.5"),
        ({"size": (1, 2, 3)}, ValueError, "a height and a width"),
        ({"size": 5, "scale": (0, 1)}, ValueError, "scale is the least and the largest value, above 0 and at most 1"),
        ({"size": 5, "scale": (0.5, 1.1)}, ValueError, "at most 1"),
        ({"size": 5, "scale": (0.5, 0.4)}, ValueError, "the least and the largest"),
        ({"size": 5, "scale": 0.5}, ValueError, "the least and the largest"),
        ({"size": 5, "ratio": (1, 1001)}, ValueError, "ratio is .* at most 1000"),
        ({"size": 5, "ratio": ("1", 2)}, TypeError, "ratio is a number, or a sequence of numbers"),
    ],
)
def test_random_parts_out_of_range(arguments, kind, message):
    with pytest.raises(kind, match=message):
        RandomResizedCrop(**arguments)


def test_options_are_shown_compared_and_pickled():
    options = ImageOptions(
        crop=RandomResizedCrop([8, 9], scale=[0.5, 1]), flip=True, dtype="float32", mean=0.5, std=[1]
    )
    assert repr(ImageOptions()) == "ImageOptions()"
    assert repr(options) == (
        "ImageOptions(crop=RandomResizedCrop(size=(8, 9), scale=(0.5, 1.0), ratio=(0.75, 1.3333333333333333)), flip=True, "
        "dtype='float32', mean=(0.5,), std=(1.0,))"
    )
    assert pickle.loads(pickle.dumps(options)) == options
    assert hash(options) == hash(replace(options))
    assert options.fixed_size == (8, 9)
    assert options.is_random
    assert ImageOptions(resize=(3, 4)).fixed_size == (3, 4)
    assert ImageOptions(resize=3).fixed_size is None
    assert ImageOptions(resize=[3, 4], center_crop=2).fixed_size == (2, 2)
    assert ImageOptions(channels=3, oriented=True).is_plain
    assert not ImageOptions(dtype="uint8").is_plain
    assert ImageOptions(resize=9, center_crop=(9, 20)).fixed_size == (9, 20)


def test_means_are_sequences_arrays_or_tensors():
    wanted = ImageOptions(dtype="float32", mean=(0.5, 0.25, 0.75), std=(0.5, 1, 2))
    for make in (list, np.array, lambda values: np.array(values, np.float32)):
        options = ImageOptions(dtype="float32", mean=make((0.5, 0.25, 0.75)), std=make((0.5, 1, 2)))
        assert options == wanted
        assert hash(options) == hash(wanted)
    assert ImageOptions(dtype="float32", mean=np.float32(0.5), std=np.array(2)).mean == (0.5,)
    torch = pytest.importorskip("torch")
    tensors = ImageOptions(dtype="float32", mean=torch.tensor([0.5, 0.25, 0.75]), std=torch.tensor([0.5, 1, 2]))
    assert tensors == wanted
