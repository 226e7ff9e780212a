"""A dataset that TensorFlow Datasets prepared, as batches of tensors for PyTorch."""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader

from benchmarks.compare.prepared_data import CLOTHES, PreparedFiles
from benchmarks.compare.systems.prepared_expected import EpochTask
from benchmarks.data import BATCH, Files


def data_loader(files: Files) -> EpochTask:
    """``DataLoader(hr.data_source(...), 128, shuffle=True)``."""
    import headrace as hr

    prepared = PreparedFiles(files)
    return _torch(prepared, hr.data_source(CLOTHES, "train", data_dir=prepared.folder))


def data_loader_over_tfds(files: Files) -> EpochTask:
    """The same over ``tfds.data_source``, which decodes with OpenCV."""
    import tensorflow_datasets as tfds

    prepared = PreparedFiles(files)
    return _torch(prepared, tfds.data_source(CLOTHES, split="train", data_dir=str(prepared.folder)))


def loader(files: Files) -> EpochTask:
    """``hr.Loader(source, 128, shuffle=True, to="torch")``."""
    import headrace as hr

    prepared = PreparedFiles(files)
    batches = hr.Loader(hr.data_source(CLOTHES, "train", data_dir=prepared.folder), BATCH, shuffle=True, to="torch")
    return _task(prepared, batches)


def _torch(prepared: PreparedFiles, source: Any) -> EpochTask:
    torch.manual_seed(7)
    return _task(prepared, DataLoader(source, batch_size=BATCH, shuffle=True))


def _task(prepared: PreparedFiles, batches: Any) -> EpochTask:
    def epoch() -> Iterator[tuple[Any, Any]]:
        for batch in batches:
            yield batch["image"], batch["label"]

    return EpochTask(epoch=epoch, files=prepared, size=BATCH)
