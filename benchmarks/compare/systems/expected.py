"""Tasks over the data files, and their expected results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.compare.tasks import Order, Pair, ReadTask, RecordsTask, WriteTask
from benchmarks.data import Files


def examples(files: Files, epoch: Callable[[], Iterable[Pair]], order: Order = "file") -> ReadTask:
    """Read the 60,000 examples once."""
    return ReadTask(epoch=epoch, checks=files.image_checks, labels=files.labels, order=order)


def repeated(files: Files, epoch: Callable[[], Iterable[Pair]], order: Order = "file") -> ReadTask:
    """Read the file that holds the examples several times over."""
    return replace(examples(files, epoch, order), times=files.sizes.growth)


def rows(files: Files, epoch: Callable[[], Iterable[Pair]], order: Order = "file") -> ReadTask:
    """Read the rows of the npy file once."""
    return ReadTask(epoch=epoch, checks=files.npy_checks, labels=None, order=order)


def files_of_rows(files: Files, epoch: Callable[[], Iterable[Pair]], order: Order = "file") -> ReadTask:
    """Read the npy files of one row each once."""
    return ReadTask(epoch=epoch, checks=files.npy_checks[: files.sizes.files], labels=None, order=order)


def records(files: Files, read: Callable[[np.ndarray], Sequence[bytes]], *, at_once: int) -> RecordsTask:
    """Read records of the ArrayRecord file in a random order: all of them in calls of 128, 10,000 one at a time."""
    order = np.random.default_rng(11).permutation(files.sizes.rows)[: None if at_once > 1 else 10_000]
    calls = np.split(order, range(at_once, len(order), at_once))
    return RecordsTask(read=read, calls=calls, checks=files.payload_checks)


def written(files: Files, name: str, write: Callable[[Path], None], *, any_order: bool = False) -> WriteTask:
    """Write the 60,000 examples as TFRecord, with the features in sorted or in any order."""
    path = files.folder / "written" / f"{name}.tfrecord"
    path.parent.mkdir(exist_ok=True)
    references = (files.tfrecord, *([files.tfrecord_label_first] if any_order else []))
    return WriteTask(write=write, path=path, references=references, rows=files.sizes.rows)
