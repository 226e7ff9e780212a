"""The task of a system over one shape: an epoch, its check and its timing."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.compare.tasks import Timing, expect
from benchmarks.shapes.files import ShapeFiles, grid_of
from benchmarks.shapes.values import Cells, cells_of, digest_rows

TOLERANCE = 4.0  # of a mean colour from 0 to 255: decoders differ by rounding, other images by far more


@dataclass(slots=True, kw_only=True)
class Reading:
    """Read every row once.

    Attributes:
        files: What is read.
        epoch: Starts an epoch: an iterable of batches, in the form that the library returns. Batches are only counted while the
            clock runs.
        columns: The columns of a batch, in a form that `cells_of` takes: arrays, sequences, or pairs of flat values and lengths.
        exact: Whether pixels must equal libjpeg-turbo's.
        single: Whether the library returns floats of 32 bits for those of 64.
    """

    files: ShapeFiles
    epoch: Callable[[], Iterable[Any]]
    columns: Callable[[Any], Mapping[str, Any]]
    exact: bool = False
    single: bool = False
    batches: int = field(default=0, init=False)

    def check(self) -> None:
        """Every bit of every row, and the order."""
        found = []
        self.batches = 0
        for batch in self.epoch():
            self.batches += 1
            found.append(self._check_batch(self.columns(batch)))
        digests = np.concatenate(found)
        expect(len(digests) == self.files.rows, f"{self.files.rows} rows, found {len(digests)}")
        expected = self.files.digests(single=self.single)
        if not self.files.shape.shuffled:
            expect(np.array_equal(digests, expected), "every row, in the order of the file")
        else:
            expect(np.array_equal(np.sort(digests), np.sort(expected)), "every row exactly once")
            few = len(np.unique(expected)) < 20
            expect(few or not np.array_equal(digests, expected), "another order than that of the file")

    def run(self) -> Timing:
        """Iterate, counting batches only."""
        gc.collect()
        clock = time.perf_counter
        batches, first, last = 0, None, 0.0
        cpu, start = time.process_time(), clock()
        for _ in self.epoch():
            batches += 1
            last = clock()
            if first is None:
                first = last - start
        wall = clock() - start
        expect(batches == self.batches or not self.batches, f"{self.batches} batches, found {batches}")
        return Timing(
            epoch_s=last - start, first_s=first, wall_s=wall, cpu_s=time.process_time() - cpu, rows=self.files.rows
        )

    def _check_batch(self, columns: Mapping[str, Any]) -> np.ndarray:
        """The digests of a batch's rows."""
        cells: dict[str, Cells] = {}
        rows = 0
        for name, column in self.files.shape.names:
            if not column.is_image:
                cells[name] = cells_of(columns[name], column)
                rows = _rows(cells[name], column.strings)
        digests = digest_rows(cells, rows, single=self.single)
        for name, column in self.files.shape.names:
            if column.is_image:
                numbers = next(cells[key].flat for key, other in self.files.shape.names if other.kind == "k")
                self._check_images(np.asarray(columns[name]), numbers.tolist(), column.shape)
        return digests

    def _check_images(self, pixels: np.ndarray, numbers: list[int], shape: tuple[int, ...]) -> None:
        side = self.files.shape.crop
        expected = (len(numbers), *((side, side) if side else shape[:2]), 3)
        expect(pixels.dtype == np.uint8 and pixels.shape == expected, f"uint8 {expected}, found {pixels.shape}")
        if side:  # random: the tests of the decoder compare crops
            expect(len(pixels) < 2 or pixels.std() > 1, "pixels of photographs")
            return
        for image, number in zip(pixels, numbers, strict=True):
            grid = self.files.grids[number % len(self.files.grids)]
            far = float(np.abs(grid_of(image) - grid).max())
            expect(far < TOLERANCE, f"the picture of each number, found a mean colour {far:.1f} away")
        if self.exact:
            import simplejpeg

            encoded = self.files.encoded[numbers[0]]
            if encoded[:2] == b"\xff\xd8":
                expect(np.array_equal(pixels[0], simplejpeg.decode_jpeg(encoded)), "simplejpeg's pixels")


@dataclass(slots=True, kw_only=True)
class Records:
    """Read records, several in a call.

    Attributes:
        files: What is read.
        open: Opens the files: a function that returns the records at these indices. Only their number is looked at while the clock
            runs. Every epoch opens them again, before the clock starts, so that chunks kept from earlier epochs do not count.
    """

    files: ShapeFiles
    open: Callable[[], Callable[[np.ndarray], Any]]
    epochs: int = field(default=0, init=False)

    def calls(self) -> list[np.ndarray]:
        """The indices of each call of one epoch: where the order is random, another sample in every epoch.

        Of chunks of several records, half as many records as chunks: as in a dataset far larger than memory, few of them meet
        a chunk that was read before.
        """
        rows, shape = self.files.rows, self.files.shape
        self.epochs += 1
        order = np.arange(rows)
        if shape.shuffled:
            some = rows if shape.group == 1 else rows // shape.group // 2
            order = np.random.default_rng(self.epochs).permutation(rows)[: max(some, shape.batch)]
        return [order[start : start + shape.batch] for start in range(0, len(order), shape.batch)]

    def check(self) -> None:
        """Every byte of an epoch's records, in the order asked for."""
        ((name, column),) = self.files.shape.names
        expected, read = self.files.digests(), self.open()
        for indices in self.calls():
            cells = cells_of(list(read(indices)), column)
            expect(
                np.array_equal(digest_rows({name: cells}, len(indices)), expected[indices]),
                "the records asked for",
            )

    def run(self) -> Timing:
        """Read, counting records only."""
        rows, calls, read = 0, self.calls(), self.open()
        gc.collect()
        cpu, start = time.process_time(), time.perf_counter()
        for indices in calls:
            rows += len(read(indices))
        wall = time.perf_counter() - start
        expect(rows == sum(map(len, calls)), "as many records as asked for")
        return Timing(epoch_s=wall, first_s=None, wall_s=wall, cpu_s=time.process_time() - cpu, rows=rows)


def _rows(cells: Cells, strings: int) -> int:
    if cells.lengths is not None:
        return len(cells.lengths)
    return len(cells.flat) // (strings or 1)
