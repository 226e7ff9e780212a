"""The images of the image benchmarks: synthetic, but about as hard to compress as photographs.

Smooth noise at several scales, flat shapes and faint grain, as JPEG of quality 90. One file each in folders of classes, a CSV of their
paths, and the same bytes as records. The records are written by Headrace, with the same bytes as the reference writers
(`tests/peers`); the images by Pillow.
"""

from __future__ import annotations

import csv
import io
import os
from functools import cached_property
from pathlib import Path

import numpy as np

from benchmarks.data import Files

SIDE = 256
IMAGE_BATCH = 64
CLASSES = 10
IMAGE_BYTES = SIDE * SIDE * 3 + 8
"""What a reader hands over per example: the pixels and the label."""


class ImageFiles:
    """The images of one size, made on first use. The label of an image is its number."""

    def __init__(self, files: Files) -> None:
        self.count = files.sizes.images
        self.folder = files.folder / "images"

    @cached_property
    def root(self) -> Path:
        """``root/class/number.jpg``."""
        root = self.folder / "jpegs"
        if not (self.folder / "means.npy").exists():
            self._make(root)
        return root

    @cached_property
    def paths(self) -> list[str]:
        """The path of every image, by number."""
        return [str(self.root / f"{i % CLASSES}" / f"{i:05d}.jpg") for i in range(self.count)]

    @cached_property
    def encoded(self) -> list[bytes]:
        """The bytes of every image, by number."""
        return [Path(path).read_bytes() for path in self.paths]

    @cached_property
    def means(self) -> np.ndarray:
        """The mean colour of every image before encoding, float64 (n, 3)."""
        _ = self.root
        return np.load(self.folder / "means.npy")

    @property
    def csv(self) -> Path:
        """``path,label`` of every image, with a header."""
        path = self.root.parent / "train.csv"
        if not path.exists():
            with path.with_suffix(".tmp").open("w", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(["path", "label"])
                writer.writerows([os.path.relpath(each, path.parent), i] for i, each in enumerate(self.paths))
            path.with_suffix(".tmp").replace(path)
        return path

    @property
    def tfrecord(self) -> Path:
        """tf.Examples of ``image`` and ``label``."""
        return self._records("all.tfrecord")

    @property
    def array_record(self) -> Path:
        """The same as ArrayRecord, one per chunk."""
        return self._records("all.array_record")

    def prepare(self) -> None:
        """Make everything now."""
        _ = self.tfrecord, self.array_record, self.csv

    def _records(self, name: str) -> Path:
        path = self.root.parent / name
        if not path.exists():
            import headrace as hr

            schema = {"image": hr.Feature("bytes"), "label": hr.Feature("int64")}
            hr.write(path, ({"image": image, "label": i} for i, image in enumerate(self.encoded)), schema=schema)
        return path

    def _make(self, root: Path) -> None:
        rng = np.random.default_rng(11)
        means = np.empty((self.count, 3))
        for i in range(self.count):
            pixels = draw_picture(rng)
            means[i] = pixels.mean(axis=(0, 1))
            path = root / f"{i % CLASSES}" / f"{i:05d}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(_jpeg(pixels))
        np.save(self.folder / "means.npy", means)


def draw_picture(rng: np.random.Generator) -> np.ndarray:
    """``uint8 (256, 256, 3)``."""
    from PIL import Image, ImageDraw

    pixels = np.full((SIDE, SIDE, 3), 120, np.float32)
    for side, amplitude in ((4, 70), (16, 35), (48, 22), (128, 12)):
        noise = np.clip(128 + amplitude / 2 * rng.standard_normal((side, side, 3)), 0, 255).astype(np.uint8)
        pixels += 2 * (
            np.asarray(Image.fromarray(noise).resize((SIDE, SIDE), Image.Resampling.BICUBIC), np.float32) - 128
        )
    canvas = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
    draw = ImageDraw.Draw(canvas)
    for _ in range(int(rng.integers(3, 8))):
        colour = tuple(int(value) for value in rng.integers(0, 255, 3))
        x, y, size = (int(value) for value in rng.integers((0, 0, 16), (SIDE, SIDE, 100)))
        shape = draw.ellipse if rng.random() < 0.5 else draw.rectangle
        shape((x, y, x + size, y + size), fill=colour if rng.random() < 0.5 else None, outline=colour)
    grained = np.asarray(canvas, np.float32) + 2 * rng.standard_normal((SIDE, SIDE, 1)).astype(np.float32)
    return np.clip(grained, 0, 255).astype(np.uint8)


def _jpeg(pixels: np.ndarray) -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG", quality=90)
    return out.getvalue()
