"""Tasks over prepared datasets: examples by index, checked pixel by pixel."""

from __future__ import annotations

import gc
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.compare.clocks import cpu_seconds
from benchmarks.compare.prepared_data import CLASSES, PreparedFiles
from benchmarks.compare.tasks import Timing

Read = Callable[[list[int]], tuple[np.ndarray, np.ndarray]]
JPEG_TOLERANCE = 3.0
"""Levels on the average: decoders round differently."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExamplesTask:
    """Read examples in a random order.

    Attributes:
        read: Returns the images and labels at these indices, stacked.
        calls: The indices of each call.
        files: What they come from.
        photos: Whether they are the JPEGs.
    """

    read: Read
    calls: Sequence[list[int]]
    files: PreparedFiles
    photos: bool

    def check(self) -> None:
        """Check every label, every pixel of the PNGs, and the pixels of some JPEGs within the tolerance of decoders."""
        clothes = None if self.photos else self.files.clothes()
        for indices in self.calls[: 20 if self.photos else None]:
            images, labels = self.read(indices)
            assert labels.tolist() == [i % CLASSES for i in indices], "expected the labels asked for"
            assert images.dtype == np.uint8, "expected uint8 pixels"
            if clothes is not None:
                assert np.array_equal(images, clothes[indices]), "expected the pixels asked for"
                continue
            for image, index in zip(images[:4], indices[:4], strict=True):
                difference = np.abs(image.astype(int) - self.files.photo(index)).mean()
                assert difference < JPEG_TOLERANCE, "expected the picture asked for"

    def run(self) -> Timing:
        """Read, counting examples only."""
        gc.collect()
        rows = 0
        cpu, start = cpu_seconds(), time.perf_counter()
        for indices in self.calls:
            rows += len(self.read(indices)[0])
        wall = time.perf_counter() - start
        return Timing(epoch_s=wall, first_s=None, wall_s=wall, cpu_s=cpu_seconds() - cpu, rows=rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochTask:
    """Iterate over all examples once, in batches of tensors, in a random order.

    Attributes:
        epoch: Starts an epoch: batches of images and labels.
        files: What they come from.
        size: How many examples a batch has.
    """

    epoch: Callable[[], Iterable[tuple[Any, Any]]]
    files: PreparedFiles
    size: int

    def check(self) -> None:
        """Every pixel with its label, each example once, and not in the order of the files."""
        clothes = self.files.clothes()
        expected = [(zlib.crc32(image), row % CLASSES) for row, image in enumerate(clothes)]
        found, sizes = [], []
        for images, labels in self.epoch():
            assert {type(images).__module__, type(labels).__module__} == {"torch"}, "expected tensors"
            assert images.numpy().dtype == np.uint8, "expected uint8 pixels"
            assert images.shape[1:] == (28, 28, 1), "expected pictures of 28 x 28"
            assert labels.numpy().dtype == np.int64, "expected int64 labels"
            sizes.append(len(images))
            pairs = zip(images.numpy(), labels.tolist(), strict=True)
            found += [(zlib.crc32(np.ascontiguousarray(image)), label) for image, label in pairs]
        assert set(sizes[:-1]) == {self.size}, f"expected batches of {self.size}"
        assert sorted(found) == sorted(expected), "expected every example once"
        assert found != expected, "expected another order than that of the files"

    def run(self) -> Timing:
        """Iterate, looking at nothing but the number of examples."""
        gc.collect()
        rows, first = 0, None
        cpu, start = cpu_seconds(), time.perf_counter()
        for images, _ in self.epoch():
            rows += len(images)
            first = first or time.perf_counter() - start
        wall = time.perf_counter() - start
        assert rows == self.files.rows, f"expected {self.files.rows} examples, found {rows}"
        return Timing(epoch_s=wall, first_s=first, wall_s=wall, cpu_s=cpu_seconds() - cpu, rows=rows)


def examples(files: PreparedFiles, read: Read, *, photos: bool, at_once: int) -> ExamplesTask:
    """All examples in random order, with a number per call (one at a time: at most 5,000)."""
    count = files.photos if photos else files.rows
    order = np.random.default_rng(11).permutation(count)[: None if at_once > 1 else 5_000].tolist()
    calls = [order[i : i + at_once] for i in range(0, len(order), at_once)]
    return ExamplesTask(read=read, calls=calls, files=files, photos=photos)
