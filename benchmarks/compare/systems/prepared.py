"""Headrace over datasets that TensorFlow Datasets prepared."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import headrace as hr
from benchmarks.compare.prepared_data import CLOTHES, PHOTOS, PreparedFiles
from benchmarks.compare.systems.prepared_expected import ExamplesTask, examples
from benchmarks.data import BATCH, Files
from benchmarks.image_data import IMAGE_BATCH


def clothes_one(files: Files) -> ExamplesTask:
    """``data_source[i]``."""
    return _task(files, CLOTHES, 1)


def clothes_batch(files: Files) -> ExamplesTask:
    """``data_source.batch(128 indices)``."""
    return _task(files, CLOTHES, BATCH)


def photos_one(files: Files) -> ExamplesTask:
    """``data_source[i]``."""
    return _task(files, PHOTOS, 1)


def photos_batch(files: Files) -> ExamplesTask:
    """``data_source.batch(64 indices)``."""
    return _task(files, PHOTOS, IMAGE_BATCH)


def _task(files: Files, name: str, at_once: int) -> ExamplesTask:
    prepared = PreparedFiles(files)
    source = hr.data_source(name, "train", data_dir=prepared.folder)
    read = _one(source) if at_once == 1 else _many(source)
    return examples(prepared, read, photos=name == PHOTOS, at_once=at_once)


def _one(source: hr.Source) -> Callable[[list[int]], tuple[np.ndarray, np.ndarray]]:
    def read(indices: list[int]) -> tuple[np.ndarray, np.ndarray]:
        example = source[indices[0]]
        return example["image"][None], np.array([example["label"]])

    return read


def _many(source: hr.Source) -> Callable[[list[int]], tuple[np.ndarray, np.ndarray]]:
    def read(indices: list[int]) -> tuple[np.ndarray, np.ndarray]:
        batch = source.batch(indices)
        return batch["image"], batch["label"]

    return read
