"""Photographs of any size: zooms into scikit-learn's two sample photographs, encoded by Pillow."""

from __future__ import annotations

import io
import zlib
from functools import lru_cache

import numpy as np

from benchmarks.shapes.shape import Column

_DISTINCT = 200  # encoded photographs of a column; more rows repeat them


def encoded_photographs(column: Column, rows: int) -> list[bytes]:
    """The encoded photograph of each row."""
    count = min(rows, _DISTINCT)
    rng = np.random.default_rng(zlib.crc32(str(column).encode()))
    made = [_encode(_zoom(rng, column.shape), column, rng) for _ in range(count)]
    return [made[row % count] for row in range(rows)]


@lru_cache
def _photographs() -> list[object]:
    from PIL import Image

    try:
        from sklearn.datasets import load_sample_images
    except ImportError:  # the same kind of picture, though synthetic
        from benchmarks.image_data import draw_picture

        rng = np.random.default_rng(7)
        return [Image.fromarray(draw_picture(rng)).resize((640, 427)) for _ in range(2)]
    return [Image.fromarray(pixels) for pixels in load_sample_images().images]


def _zoom(rng: np.random.Generator, shape: tuple[int, ...]) -> object:
    """A random part of a photograph, of the shape's proportions, mirrored half of the time."""
    from PIL import Image

    height, width = shape[:2]
    source = _photographs()[int(rng.integers(2))]
    most = min(source.width / width, source.height / height)
    part = most * rng.uniform(0.6, 1.0)
    x, y = rng.uniform(0, source.width - part * width), rng.uniform(0, source.height - part * height)
    found = source.resize((width, height), Image.Resampling.LANCZOS, (x, y, x + part * width, y + part * height))
    return found.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if rng.random() < 0.5 else found


def _encode(picture: object, column: Column, rng: np.random.Generator) -> bytes:
    out = io.BytesIO()
    if column.kind == "g":
        picture.save(out, "PNG", compress_level=6)
    else:
        quality = int(rng.integers(column.size[0], column.size[1] + 1))
        picture.save(out, "JPEG", quality=quality, progressive=column.kind == "p", optimize=False)
    return out.getvalue()
