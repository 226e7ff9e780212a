import pytest
from tests.codecs.images.files import SOUND, golden

from headrace.contracts.feature import ENCODINGS
from headrace.contracts.images import (
    SUFFIXES,
    ImageOptions,
    encoding_by_counts,
    encoding_of,
    encoding_of_all,
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
    assert encoding_of_all([jpeg, jpeg]) == "jpeg"
    assert encoding_of_all([jpeg, memoryview(png)]) == "image"
    assert encoding_of_all([jpeg, b"text"]) is None
    assert encoding_of_all([]) is None


def test_the_same_from_counts():
    assert len(ENCODINGS) == 6
    assert encoding_by_counts(3, (0, 0, 3, 0, 0, 0, 0)) == "png"
    assert encoding_by_counts(3, (0, 1, 2, 0, 0, 0, 0)) == "image"
    assert encoding_by_counts(4, (1, 1, 2, 0, 0, 0, 0)) is None
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
        ({"any_size": 1}, TypeError, "any_size is True or False, got 1"),
        ({"oriented": "yes"}, TypeError, "oriented is True or False, got 'yes'"),
        ({"most_pixels": 0}, ValueError, "most_pixels must be 1 or more, got 0"),
        ({"most_pixels": 1.5}, TypeError, "float"),
    ],
)
def test_options_out_of_range(options, kind, message):
    with pytest.raises(kind, match=message):
        ImageOptions(**options)
