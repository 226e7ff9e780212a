"""Images and recordings as browsers get them."""

import io
import wave

import numpy as np
import pytest
from PIL import Image
from tests.viewer.conftest import picture

import headrace as hr
from headrace.viewer.display import media
from headrace.viewer.display.media import image_of, item_of, recording_of, wave_of

STORED = hr.Feature("bytes")


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "WEBP"])
def test_images_that_browsers_show_are_passed_on(kind):
    image = picture(1, kind=kind)
    shown = image_of(image, STORED, 0)
    assert (shown.body, shown.media_type) == (image, f"image/{kind.lower()}")


def test_a_tiff_is_encoded_again():
    shown = image_of(picture(1, kind="TIFF"), STORED, 0)
    assert shown.media_type == "image/png"
    assert np.array_equal(
        np.asarray(Image.open(io.BytesIO(shown.body))), np.asarray(Image.open(io.BytesIO(picture(1))))
    )


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "TIFF"])
@pytest.mark.parametrize("size", [(40, 60), (600, 20), (1, 1), (300, 400)])
def test_thumbnails_keep_the_ratio(kind, size):
    shown = Image.open(io.BytesIO(image_of(picture(2, size, kind), STORED, 32).body))
    assert max(shown.size) <= 32
    if max(size) > 32:
        assert max(shown.size) == 32


def test_sixteen_bits_and_alpha():
    out = io.BytesIO()
    Image.fromarray(np.arange(2500, dtype=np.uint16).reshape(50, 50) * 20).save(out, "PNG")
    assert max(Image.open(io.BytesIO(image_of(out.getvalue(), STORED, 16).body)).size) <= 16
    out = io.BytesIO()
    Image.fromarray(np.zeros((90, 90, 4), np.uint8)).save(out, "PNG")
    shown = Image.open(io.BytesIO(image_of(out.getvalue(), STORED, 16).body))
    assert shown.mode == "RGBA"


def test_bombs_are_refused(monkeypatch):
    monkeypatch.setattr(media, "MOST_PIXELS", 1000)
    with pytest.raises(hr.UnsupportedData, match="at most 1,000 pixels"):
        image_of(picture(0), STORED, 64)
    monkeypatch.setattr(media, "MOST_MEDIA_BYTES", 10)
    with pytest.raises(hr.UnsupportedData, match="at most 10 bytes"):
        image_of(picture(0), STORED, 0)


def test_items():
    images = hr.Strings.from_values([b"a", b"b"])
    assert item_of(images, 1) == b"b"
    assert item_of(b"a", 0) == b"a"
    for value, item in ((b"a", 1), (images, 2), (np.arange(3), 0), ("text", 0)):
        with pytest.raises(IndexError):
            item_of(value, item)


@pytest.mark.parametrize(
    "samples",
    [np.array([0, 1000, -1000, 40000]), np.array([0, 0.5, -1.0, np.nan], np.float32), np.zeros((4, 2), np.int16)],
)
def test_samples_become_a_wave_file(samples):
    shown = wave_of(samples, 8000)
    with wave.open(io.BytesIO(shown.body)) as file:
        assert (file.getframerate(), file.getsampwidth(), file.getnframes()) == (8000, 2, 4)
        assert file.getnchannels() == (2 if samples.ndim == 2 else 1)


def test_only_recordings_are_recordings():
    assert recording_of(b"fLaC....").media_type == "audio/flac"
    for value in (b"<svg", b"RIFF....AVI ", "text", b""):
        with pytest.raises(hr.UnsupportedData):
            recording_of(value)


@pytest.mark.parametrize("shape", [(), (1000,), (2, 3, 4, 3)])
def test_arrays_of_other_axes_are_no_images(shape):
    with pytest.raises(hr.UnsupportedData, match="expected an image: .*found an array of shape"):
        image_of(np.zeros(shape, np.uint8), STORED, 0)
