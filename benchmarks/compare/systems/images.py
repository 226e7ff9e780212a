"""Headrace over the images, and the limit: bare decoding of bytes in memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import numpy as np
import simplejpeg

import headrace as hr
from benchmarks.compare.systems.image_expected import ImageTask
from benchmarks.compare.tasks import Pair
from benchmarks.data import Files
from benchmarks.image_data import IMAGE_BATCH, SIDE, ImageFiles

_SEEDS = count()


def tfrecord(files: Files) -> ImageTask:
    """``Loader(open(path), 64)``."""
    images = ImageFiles(files)
    return _in_order(images, images.tfrecord)


def tfrecord_shuffled(files: Files) -> ImageTask:
    """``Loader(open(path), 64, shuffle=True)``."""
    images = ImageFiles(files)
    return _shuffled(images, images.tfrecord)


def array_record(files: Files) -> ImageTask:
    """The ArrayRecord file in order."""
    images = ImageFiles(files)
    return _in_order(images, images.array_record)


def array_record_shuffled(files: Files) -> ImageTask:
    """The ArrayRecord file, shuffled."""
    images = ImageFiles(files)
    return _shuffled(images, images.array_record)


def folder(files: Files) -> ImageTask:
    """The folder of files, in its own order: class by class."""
    images = ImageFiles(files)
    source = hr.open(images.root)
    return ImageTask(
        epoch=lambda: _numbered(hr.Loader(source, IMAGE_BATCH)), files=images, order="shuffled", exact=True
    )


def folder_shuffled(files: Files) -> ImageTask:
    """The folder of files, shuffled."""
    images = ImageFiles(files)
    source = hr.open(images.root)

    def epoch() -> Iterator[Pair]:
        return _numbered(hr.Loader(source, IMAGE_BATCH, shuffle=True, seed=next(_SEEDS)))

    return ImageTask(epoch=epoch, files=images, order="shuffled", exact=True)


def table(files: Files) -> ImageTask:
    """The CSV of paths and the files, in order."""
    images = ImageFiles(files)
    source = hr.open(images.csv).rename({"path": "image"})
    return ImageTask(epoch=lambda: _pairs(hr.Loader(source, IMAGE_BATCH)), files=images, exact=True)


def table_shuffled(files: Files) -> ImageTask:
    """The CSV of paths and the files, shuffled."""
    images = ImageFiles(files)
    source = hr.open(images.csv).rename({"path": "image"})

    def epoch() -> Iterator[Pair]:
        return _pairs(hr.Loader(source, IMAGE_BATCH, shuffle=True, seed=next(_SEEDS)))

    return ImageTask(epoch=epoch, files=images, order="shuffled", exact=True)


def bare(files: Files) -> ImageTask:
    """``simplejpeg.decode_jpeg`` of bytes in memory, in two threads, each into a reused batch."""
    images = ImageFiles(files)
    encoded = images.encoded
    starts = range(0, images.count, IMAGE_BATCH)

    def decode(mine: range, batch: np.ndarray) -> None:
        for start in mine:
            for row, image in zip(batch, encoded[start : start + IMAGE_BATCH], strict=False):
                simplejpeg.decode_jpeg(image, "RGB", buffer=row)

    def epoch() -> Iterator[Pair]:
        batches = np.empty((2, IMAGE_BATCH, SIDE, SIDE, 3), np.uint8)
        threads = [threading.Thread(target=decode, args=(starts[k::2], batches[k])) for k in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        yield np.broadcast_to(batches[0, :1], (images.count, SIDE, SIDE, 3)), None

    return _Bare(epoch=epoch, files=images)


class _Bare(ImageTask):
    def check(self) -> None:
        """It keeps nothing to check: other rows are checked against its decoder."""


def _in_order(images: ImageFiles, path: Path) -> ImageTask:
    source = hr.open(path)
    return ImageTask(epoch=lambda: _pairs(hr.Loader(source, IMAGE_BATCH)), files=images, exact=True)


def _shuffled(images: ImageFiles, path: Path) -> ImageTask:
    source = hr.open(path)

    def epoch() -> Iterator[Pair]:
        return _pairs(hr.Loader(source, IMAGE_BATCH, shuffle=True, seed=next(_SEEDS)))

    return ImageTask(epoch=epoch, files=images, order="shuffled", exact=True)


def _pairs(loader: hr.Loader) -> Iterator[Pair]:
    for batch in loader:
        yield batch["image"], batch["label"]


def _numbered(loader: hr.Loader) -> Iterator[Pair]:
    """Adds the number of each image, which is its file name."""
    for batch in loader:
        yield batch["image"], np.array([int(name[-9:-4]) for name in batch["name"]])
