"""The peers over arrays and records: NumPy, and the array_record package."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.shapes.files import ShapeFiles
from benchmarks.shapes.reading import Reading, Records


def numpy_rows(files: ShapeFiles) -> Reading:
    """Of the mapped file: ``np.array(rows[a:b])`` in order, ``np.take(out=)`` into a buffer that is used again, shuffled."""
    ((name, _),) = files.shape.names
    arrays = [np.load(path, mmap_mode="r") for path in files.paths]
    rows = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
    size = files.shape.batch

    def in_order() -> Iterator[np.ndarray]:
        for start in range(0, len(rows), size):
            yield np.array(rows[start : start + size])

    rng = np.random.default_rng(1)
    buffer = np.empty((size, *rows.shape[1:]), rows.dtype)

    def shuffled() -> Iterator[np.ndarray]:
        order = rng.permutation(len(rows))
        for start in range(0, len(rows), size):
            some = order[start : start + size]
            yield np.take(rows, some, 0, out=buffer[: len(some)], mode="clip")

    return Reading(
        files=files, epoch=shuffled if files.shape.shuffled else in_order, columns=lambda batch: {name: batch}
    )


def array_record(files: ShapeFiles) -> Records:
    """``ArrayRecordDataSource``: ``__getitems__``, or ``[i]`` where a call is one record."""
    from array_record.python.array_record_data_source import ArrayRecordDataSource

    def read_one() -> Callable[[np.ndarray], list[bytes]]:
        source = ArrayRecordDataSource(files.paths)
        return lambda indices: [source[int(indices[0])]]

    def read_many() -> Callable[[np.ndarray], list[bytes]]:
        source = ArrayRecordDataSource(files.paths)
        return lambda indices: source.__getitems__(indices.tolist())

    return Records(files=files, open=read_one if files.shape.batch == 1 else read_many)
