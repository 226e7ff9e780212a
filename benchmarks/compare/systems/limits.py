"""Lower bounds: NumPy and plain writes that know the layout and reuse one buffer. Not usable products."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.compare.systems import expected
from benchmarks.compare.tasks import Pair, ReadTask, WriteTask
from benchmarks.data import BATCH, ROW_BYTES, WIDTH, Files, batch_bounds
from benchmarks.example_bytes import image_offset


def strided_copy(files: Files) -> ReadTask:
    """The floats of each record copied out of the mapped file; no checksum, labels not decoded."""
    labels = files.labels
    first = image_offset(WIDTH)
    records = np.memmap(files.tfrecord, np.uint8, "r").reshape(-1, files.record_bytes)
    floats = np.asarray(records)[:, first : first + ROW_BYTES]

    def epoch() -> Iterator[Pair]:
        buffer = np.empty((BATCH, WIDTH), np.float32)
        target = buffer.view(np.uint8)
        for start, stop in batch_bounds(len(labels)):
            np.copyto(target[: stop - start], floats[start:stop])
            yield buffer[: stop - start], labels[start:stop]

    return expected.examples(files, epoch)


def strided_copy_new_map(files: Files) -> ReadTask:
    """The same, mapping the file again in every epoch, which costs page faults."""
    labels = files.labels
    first = image_offset(WIDTH)

    def epoch() -> Iterator[Pair]:
        buffer = np.empty((BATCH, WIDTH), np.float32)
        target = buffer.view(np.uint8)
        records = np.memmap(files.tfrecord, np.uint8, "r").reshape(-1, files.record_bytes)
        floats = np.asarray(records)[:, first : first + ROW_BYTES]
        for start, stop in batch_bounds(len(labels)):
            np.copyto(target[: stop - start], floats[start:stop])
            yield buffer[: stop - start], labels[start:stop]

    return expected.examples(files, epoch)


def strided_copy_read(files: Files) -> ReadTask:
    """The same, reading blocks into one reused buffer instead of mapping."""
    labels = files.labels
    first = image_offset(WIDTH)

    def epoch() -> Iterator[Pair]:
        block = np.empty((BATCH, files.record_bytes), np.uint8)
        buffer = np.empty((BATCH, WIDTH), np.float32)
        target = buffer.view(np.uint8)
        with files.tfrecord.open("rb", buffering=0) as file:
            for start, stop in batch_bounds(len(labels)):
                file.readinto(memoryview(block[: stop - start].reshape(-1)))
                np.copyto(target[: stop - start], block[: stop - start, first : first + ROW_BYTES])
                yield buffer[: stop - start], labels[start:stop]

    return expected.examples(files, epoch)


def bare_write(files: Files) -> WriteTask:
    """The finished bytes written from memory."""
    data = files.tfrecord.read_bytes()
    return expected.written(files, "bare", lambda path: _write(path, data, sync=False))


def bare_write_sync(files: Files) -> WriteTask:
    """The finished bytes written from memory and made durable."""
    data = files.tfrecord.read_bytes()
    return expected.written(files, "bare-sync", lambda path: _write(path, data, sync=True))


def _write(path: Path, data: bytes, *, sync: bool) -> None:
    with path.open("wb", buffering=0) as file:
        left = memoryview(data)
        while left:
            left = left[file.write(left) :]
        if sync:
            os.fsync(file.fileno())


def slice_copy(files: Files) -> ReadTask:
    """Slices of the mapped npy file copied in order; the file is mapped once for all epochs."""
    mapped = _rows(files)
    return expected.rows(files, lambda: _slices(mapped))


def slice_copy_new_map(files: Files) -> ReadTask:
    """The same, mapping the file again in every epoch."""
    return expected.rows(files, lambda: _slices(_rows(files)))


def take(files: Files) -> ReadTask:
    """``np.take`` of a random permutation of the mapped npy file; the file is mapped once for all epochs."""
    mapped = _rows(files)

    def epoch() -> Iterator[Pair]:
        order = np.random.default_rng().permutation(len(mapped))
        buffer = np.empty((BATCH, WIDTH), np.float32)
        for start, stop in batch_bounds(len(mapped)):
            yield np.take(mapped, order[start:stop], axis=0, out=buffer[: stop - start], mode="clip"), None

    return expected.rows(files, epoch, "shuffled")


def _rows(files: Files) -> np.ndarray:
    return np.asarray(np.load(files.npy, mmap_mode="r"))


def _slices(mapped: np.ndarray) -> Iterator[Pair]:
    buffer = np.empty((BATCH, WIDTH), np.float32)
    for start, stop in batch_bounds(len(mapped)):
        np.copyto(buffer[: stop - start], mapped[start:stop])
        yield buffer[: stop - start], None
