"""Encoded images for tests: golden files, and small ones made here."""

import io
import struct
import zlib
from pathlib import Path

import numpy as np
import simplejpeg
from PIL import Image

GOLDEN = Path(__file__).parents[2] / "golden" / "images"
EXPECTED = dict(np.load(GOLDEN / "expected_tensorflow.npz"))
"""The pixels of every golden image as TensorFlow's decoders give them."""
SOUND = sorted(path.name for path in GOLDEN.iterdir() if "_cut" not in path.name and path.name in EXPECTED)


def golden(name):
    return (GOLDEN / name).read_bytes()


def noise(height, width, channels=3, *, seed=0):
    """Pixels that no lossy codec preserves and no filter predicts."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), dtype=np.uint8)


def jpeg(height=16, width=24, channels=3, *, seed=0, quality=90):
    pixels = noise(height, width, channels, seed=seed)
    return simplejpeg.encode_jpeg(pixels, quality, "RGB" if channels == 3 else "GRAY")


def made(pixels, kind="png", **options):
    """Pixels ``(h, w, c)`` encoded by Pillow."""
    out = io.BytesIO()
    Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels).save(out, kind, **options)
    return out.getvalue()


def chunk(kind, body):
    """A chunk of a PNG file."""
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
