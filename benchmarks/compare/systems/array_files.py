"""A folder of small npy files, one for each example: Headrace, NumPy, torch, and the bare system calls."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count

import numpy as np

from benchmarks.compare.systems import expected
from benchmarks.compare.tasks import Pair, ReadTask
from benchmarks.data import BATCH, ROW_BYTES, WIDTH, Files, batch_bounds

_SEEDS = count()


def headrace(files: Files) -> ReadTask:
    """``Loader(open(folder, format="npy_folder"), 128)``; the folder is opened once."""
    import headrace as hr  # not imported in the processes of peers

    source = hr.open(files.npy_files, format="npy_folder")
    return expected.files_of_rows(files, lambda: ((batch["values"], None) for batch in hr.Loader(source, BATCH)))


def headrace_shuffled(files: Files) -> ReadTask:
    """The same, shuffled."""
    import headrace as hr

    source = hr.open(files.npy_files, format="npy_folder")

    def epoch() -> Iterator[Pair]:
        for batch in hr.Loader(source, BATCH, shuffle=True, seed=next(_SEEDS)):
            yield batch["values"], None

    return expected.files_of_rows(files, epoch, "shuffled")


def headrace_opened(files: Files) -> ReadTask:
    """The same in order, opening the folder in every epoch."""
    import headrace as hr

    path = files.npy_files

    def epoch() -> Iterator[Pair]:
        for batch in hr.Loader(hr.open(path, format="npy_folder"), BATCH):
            yield batch["values"], None

    return expected.files_of_rows(files, epoch)


def np_load(files: Files) -> ReadTask:
    """``np.stack([np.load(path) ...])``."""
    names = files.npy_file_names

    def epoch() -> Iterator[Pair]:
        for start, stop in batch_bounds(len(names)):
            yield np.stack([np.load(path) for path in names[start:stop]]), None

    return expected.files_of_rows(files, epoch)


def open_and_read(files: Files) -> ReadTask:
    """Open, read after the header (of known length) into one reused batch, close."""
    names, header = files.npy_file_names, os.path.getsize(files.npy_file_names[0]) - ROW_BYTES

    def epoch() -> Iterator[Pair]:
        buffer = np.empty((BATCH, WIDTH), np.float32)
        view = memoryview(buffer.reshape(-1).view(np.uint8))
        for start, stop in batch_bounds(len(names)):
            for row, path in enumerate(names[start:stop]):
                file = os.open(path, os.O_RDONLY)
                os.preadv(file, [view[row * ROW_BYTES : (row + 1) * ROW_BYTES]], header)
                os.close(file)
            yield buffer[: stop - start], None

    return expected.files_of_rows(files, epoch)
