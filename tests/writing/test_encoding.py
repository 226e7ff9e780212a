"""Pixels stored as encoded images by schema."""

import numpy as np
import pytest
import simplejpeg
from tests.codecs.images.files import jpeg, noise

import headrace as hr

LOSSLESS = [("png", c) for c in (1, 2, 3, 4)] + [
    ("webp", 3),
    ("webp", 4),
    ("bmp", 1),
    ("bmp", 3),
    ("tiff", 1),
    ("tiff", 3),
]


@pytest.mark.parametrize(("encoding", "channels"), LOSSLESS)
def test_lossless_images_come_back(tmp_path, encoding, channels):
    pixels = np.stack([noise(9, 7, channels, seed=i) for i in range(5)])
    feature = hr.Feature("uint8", (9, 7, channels), encoding=encoding)
    schema = {"image": feature, "label": hr.Feature("int64")}
    hr.write(tmp_path / "x.tfrecord", {"image": pixels, "label": np.arange(5)}, schema=schema)
    source = hr.open(tmp_path / "x.tfrecord")
    if (encoding, channels) == ("bmp", 1):
        assert source.schema["image"].shape[:2] == (9, 7)
    else:
        assert source.schema["image"] == feature
    np.testing.assert_array_equal(source.batch(range(5))["image"], pixels)


def test_sizes_that_differ_and_shards(tmp_path):
    pixels = [noise(4 + i % 3, 5, 3, seed=i) for i in range(7)] + [noise(9, 9)]
    schema = {"image": hr.Feature("uint8", (None, None, 3), encoding="png")}
    with hr.Writer(tmp_path / "x.array_record@2", schema=schema) as writer:
        for image in pixels:
            writer.write({"image": image})
    found = hr.open(tmp_path / "x.array_record@2")
    assert sorted(e["image"].tobytes() for e in found) == sorted(image.tobytes() for image in pixels)


def test_deep_grey(tmp_path):
    pixels = np.arange(40, dtype=np.uint16).reshape(2, 4, 5, 1) * 1600
    hr.write(
        tmp_path / "x.tfrecord", {"image": pixels}, schema={"image": hr.Feature("uint16", (4, 5, 1), encoding="png")}
    )
    np.testing.assert_array_equal(hr.open(tmp_path / "x.tfrecord").batch([0, 1])["image"], pixels)


@pytest.mark.parametrize("channels", [1, 3])
def test_jpeg_is_simplejpegs_with_quality_95(tmp_path, channels):
    schema = {"image": hr.Feature("uint8", (None, None, channels), encoding="jpeg")}
    hr.write(tmp_path / "x.tfrecord", [{"image": noise(16, 24, channels)}], schema=schema)
    stored = hr.open(tmp_path / "x.tfrecord", decode=False)[0]["image"]
    assert stored == jpeg(channels=channels, quality=95)
    np.testing.assert_array_equal(
        hr.open(tmp_path / "x.tfrecord")[0]["image"], simplejpeg.decode_jpeg(stored, "RGB" if channels == 3 else "GRAY")
    )


def test_a_folder_of_pixels(tmp_path):
    pixels = np.stack([noise(4, 5, seed=i) for i in range(3)])
    schema = {
        "image": hr.Feature("uint8", (4, 5, 3), encoding="png"),
        "label": hr.Feature("int64", names=("cat", "dog")),
    }
    hr.write(tmp_path / "pets", {"image": pixels, "label": [1, 0, 1]}, format="image_folder", schema=schema)
    source = hr.open(tmp_path / "pets")
    assert [e["name"] for e in source] == ["cat/00000001.png", "dog/00000000.png", "dog/00000002.png"]
    np.testing.assert_array_equal(source[2]["image"], pixels[2])


def test_encoded_images_pass_through(tmp_path):
    schema = {"image": hr.Feature("uint8", (None, None, 3), encoding="jpeg")}
    hr.write(tmp_path / "x.tfrecord", [{"image": jpeg()}], schema=schema)
    assert hr.open(tmp_path / "x.tfrecord", decode=False)[0]["image"] == jpeg()


@pytest.mark.parametrize(
    "feature",
    [
        hr.Feature("uint8", (4, 4, 3), encoding="gif"),
        hr.Feature("uint8", (4, 4, 4), encoding="jpeg"),
        hr.Feature("uint16", (4, 4, 3), encoding="png"),
        hr.Feature("uint16", (4, 4, 1), encoding="webp"),
        hr.Feature("uint8", (None, 4, 4, 3), encoding="png"),
        hr.Feature("uint8", (4, 4, 3), encoding="image"),
    ],
)
def test_kinds_that_are_not_written(tmp_path, feature):
    with pytest.raises(hr.UnsupportedData, match="to be encoded as jpeg or png"):
        hr.Writer(tmp_path / "x.tfrecord", schema={"image": feature})
    assert list(tmp_path.iterdir()) == []


PIXELS = r"pixels of uint8 with shape \(4, None, 3\) for png"


@pytest.mark.parametrize(
    ("pixels", "expected"),
    [
        (noise(4, 5, 1), PIXELS),
        (noise(5, 5), PIXELS),
        (noise(4, 5)[:, :, 0], "a value of 3 axes, as the others"),
        (noise(4, 5).astype(np.float32), PIXELS),
    ],
)
def test_pixels_that_do_not_fit(tmp_path, pixels, expected):
    with pytest.raises(hr.SchemaMismatch, match=f"{expected}, found .* - at .*record 1"):
        hr.write(
            tmp_path / "x.tfrecord",
            [{"image": noise(4, 6)}, {"image": pixels}],
            schema={"image": hr.Feature("uint8", (4, None, 3), encoding="png")},
        )
    assert list(tmp_path.iterdir()) == []
