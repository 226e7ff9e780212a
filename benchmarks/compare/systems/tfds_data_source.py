"""``tfds.data_source``, decoding with OpenCV, which it recommends."""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import cv2
import numpy as np
import tensorflow_datasets as tfds

from benchmarks.compare.prepared_data import CLOTHES, PHOTOS, PreparedFiles
from benchmarks.compare.systems.prepared_expected import ExamplesTask, examples
from benchmarks.data import BATCH, Files
from benchmarks.image_data import IMAGE_BATCH

assert cv2.imdecode, "TFDS would fall back on Pillow without it, and be slower"


def clothes_one(files: Files) -> ExamplesTask:
    """``data_source[i]``."""
    return _task(files, CLOTHES, 1)


def clothes_batch(files: Files) -> ExamplesTask:
    """``data_source.__getitems__`` and ``np.stack``."""
    return _task(files, CLOTHES, BATCH)


def photos_one(files: Files) -> ExamplesTask:
    """``data_source[i]``."""
    return _task(files, PHOTOS, 1)


def photos_batch(files: Files) -> ExamplesTask:
    """``data_source.__getitems__`` and ``np.stack``."""
    return _task(files, PHOTOS, IMAGE_BATCH)


def _task(files: Files, name: str, at_once: int) -> ExamplesTask:
    prepared = PreparedFiles(files)
    source = tfds.data_source(name, split="train", data_dir=str(prepared.folder))

    def one(indices: list[int]) -> tuple[np.ndarray, np.ndarray]:
        example = source[indices[0]]
        return example["image"][None], np.array([example["label"]])

    def many(indices: list[int]) -> tuple[np.ndarray, np.ndarray]:
        rows = source.__getitems__(indices)
        return np.stack([row["image"] for row in rows]), np.array([row["label"] for row in rows])

    return examples(prepared, one if at_once == 1 else many, photos=name == PHOTOS, at_once=at_once)
