"""The task of a system in one epoch: its work, check and timing."""

from __future__ import annotations

import gc
import os
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from benchmarks.compare.clocks import cpu_seconds
from benchmarks.data import BATCH, WIDTH, Files, row_checks

Order = Literal["file", "shuffled"]
Pair = tuple[object, object]
"""An image batch and a label batch (None where there are no labels), as the system hands them over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """One epoch.

    Attributes:
        epoch_s: Seconds to the arrival of the last batch (of a write: to the end).
        first_s: Seconds to the first batch, or None.
        wall_s: ``epoch_s`` and closing the iterator.
        cpu_s: CPU seconds of the process.
        rows: Examples that arrived.
    """

    epoch_s: float
    first_s: float | None
    wall_s: float
    cpu_s: float
    rows: int


class Task(Protocol):
    """One system at work on one workload, in its own process."""

    def check(self) -> None:
        """Run one untimed epoch and raise AssertionError unless it gives exactly the data."""

    def run(self) -> Timing:
        """Run one timed epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A row of a table.

    Attributes:
        name: What the row is called.
        role: ``headrace``, ``peer``, or ``limit``: NumPy or plain writes that know the layout; a lower bound.
        start: ``module:function`` under `benchmarks.compare.systems`: makes the task, in the measured process.
            It is not timed. A name, not an import, so that each process holds only its own libraries.
        fresh: Time one epoch in each of several new processes, instead of several in one.
        empty_cache: Give every new process an empty cache folder.
        epochs: Stop after this many timed epochs (for slow systems), or None.
        note: A note for readers of the row.
        environment: The suffix of the environment it needs instead of `.venv-peers`.
    """

    name: str
    role: Literal["headrace", "peer", "limit"]
    start: str
    fresh: bool = False
    empty_cache: bool = False
    epochs: int | None = None
    note: str = ""
    environment: str = ""

    @property
    def python(self) -> str:
        """The interpreter that runs it."""
        if not self.environment:
            return sys.executable
        return str(Path(__file__).resolve().parents[2] / f".venv-peers-{self.environment}" / "bin" / "python")

    def task(self, files: Files) -> Task:
        """Make the task (imports the libraries of the system)."""
        module, _, function = self.start.partition(":")
        task: Task = getattr(import_module(f"benchmarks.compare.systems.{module}"), function)(files)
        if self.role == "headrace":
            import_all()
        return task


def import_all() -> None:
    """Import the modules of all of Headrace's names, which are loaded on first use, so that imports are not timed."""
    headrace = import_module("headrace")
    for name in headrace.__all__:
        getattr(headrace, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTask:
    """Read every row once.

    Attributes:
        epoch: Starts an epoch: an iterable of (image, label) batches.
        checks: Expected row checks in the order of the file, uint32 (rows,).
        labels: Expected labels, int64 (rows,), or None if the data have none.
        order: The required order.
        times: How many times the file holds the rows.
    """

    epoch: Callable[[], Iterable[Pair]]
    checks: np.ndarray
    labels: np.ndarray | None
    order: Order = "file"
    times: int = 1

    def check(self) -> None:
        """Count, shape, dtype, every byte, labels and order."""
        found = self._collect()
        labels = np.zeros(len(self.checks), np.int64) if self.labels is None else self.labels
        expected = np.tile(np.stack([self.checks, labels]), self.times)
        if self.order == "file":
            expect(np.array_equal(found, expected), "every row with its label, in the order of the file")
        else:
            expect(np.array_equal(_sorted(found), _sorted(expected)), "every row with its label, exactly once")
            expect(_is_global(found[0], expected[0]), "rows from all over the file in every part of the epoch")

    def run(self) -> Timing:
        """Iterate, counting rows only."""
        return timed(self.epoch, self._rows())

    def _rows(self) -> int:
        return len(self.checks) * self.times

    def _collect(self) -> np.ndarray:
        """Row checks and labels in arrival order, int64 (2, rows)."""
        checks, labels, sizes = [], [], []
        for image, label in self.epoch():
            rows = np.asarray(image)
            expect(rows.dtype == np.float32 and rows.shape[1:] == (WIDTH,), "float32 rows of 784")
            column = np.zeros(len(rows), np.int64) if label is None else np.asarray(label)
            expect(column.dtype == np.int64 and column.shape == rows.shape[:1], "one int64 label per row")
            checks.append(row_checks(rows))
            labels.append(column.copy())
            sizes.append(len(rows))
        expect(set(sizes[:-1]) <= {BATCH} and sizes[-1] <= BATCH, "batches of 128")
        expect(sum(sizes) == self._rows(), f"{self._rows()} rows, found {sum(sizes)}")
        return np.stack([np.concatenate(checks), np.concatenate(labels)])


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsTask:
    """Read records in a random order, without decoding them.

    Attributes:
        read: Returns the payloads at these indices as bytes.
        calls: The indices of each call.
        checks: CRC-32 of every record of the file, uint32 (rows,).
    """

    read: Callable[[np.ndarray], Sequence[bytes]]
    calls: Sequence[np.ndarray]
    checks: np.ndarray

    def check(self) -> None:
        """Every byte of every record, in the order asked for."""
        for indices in self.calls:
            found = [zlib.crc32(payload) for payload in self.read(indices)]
            expect(found == self.checks[indices].tolist(), "the records asked for")

    def run(self) -> Timing:
        """Read, counting records only."""
        gc.collect()
        rows = 0
        cpu, start = cpu_seconds(), time.perf_counter()
        for indices in self.calls:
            rows += len(self.read(indices))
        wall = time.perf_counter() - start
        return Timing(epoch_s=wall, first_s=None, wall_s=wall, cpu_s=cpu_seconds() - cpu, rows=rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixTask:
    """Read a whole file into one matrix and its labels.

    Attributes:
        read: Gives both.
        matrix: The expected matrix: an array, or a SciPy matrix in CSR form.
        labels: The expected labels.
    """

    read: Callable[[], tuple[Any, Any]]
    matrix: Any
    labels: np.ndarray

    def check(self) -> None:
        """Shape, dtype and every number."""
        matrix, labels = self.read()
        expect(matrix.shape == self.matrix.shape and matrix.dtype == self.matrix.dtype, "the matrix's shape and dtype")
        parts = ("data", "indices", "indptr") if hasattr(self.matrix, "indptr") else ()
        for part in parts:
            expect(np.array_equal(getattr(matrix, part), getattr(self.matrix, part)), f"the same {part}")
        expect(bool(parts) or np.array_equal(matrix, self.matrix), "every row")
        expect(labels.dtype == self.labels.dtype and np.array_equal(labels, self.labels), "every label")

    def run(self) -> Timing:
        """Read, counting rows only."""
        gc.collect()
        cpu, start = cpu_seconds(), time.perf_counter()
        matrix, _ = self.read()
        wall = time.perf_counter() - start
        expect(matrix.shape[0] == len(self.labels), "every row")
        return Timing(epoch_s=wall, first_s=None, wall_s=wall, cpu_s=cpu_seconds() - cpu, rows=matrix.shape[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTask:
    """Write one file.

    Attributes:
        write: Writes the file at the path.
        path: Where to.
        references: Files; the result must equal one of them byte for byte.
        rows: Examples in it.
    """

    write: Callable[[Path], None]
    path: Path
    references: tuple[Path, ...]
    rows: int

    def check(self) -> None:
        """The file has the bytes of a reference."""
        self.run()
        data = self.path.read_bytes()
        expect(any(data == path.read_bytes() for path in self.references), "the bytes of the reference file")

    def run(self) -> Timing:
        """Write again, without dirty pages of an earlier write."""
        self.path.unlink(missing_ok=True)
        os.sync()
        gc.collect()
        cpu, start = cpu_seconds(), time.perf_counter()
        self.write(self.path)
        wall = time.perf_counter() - start
        return Timing(epoch_s=wall, first_s=None, wall_s=wall, cpu_s=cpu_seconds() - cpu, rows=self.rows)


def timed(epoch: Callable[[], Iterable[Pair]], expected: int) -> Timing:
    """One epoch, counting examples only."""
    gc.collect()
    clock = time.perf_counter
    rows, first, last = 0, None, 0.0
    cpu, start = cpu_seconds(), clock()
    for image, _ in epoch():
        rows += len(image)  # type: ignore[arg-type]
        last = clock()
        if first is None:
            first = last - start
    wall = clock() - start
    expect(rows == expected, f"{expected} examples, found {rows}")
    return Timing(epoch_s=last - start, first_s=first, wall_s=wall, cpu_s=cpu_seconds() - cpu, rows=rows)


def expect(ok: object, expected: str) -> None:
    """Raise AssertionError with what was expected, unless ``ok``."""
    if not ok:
        raise AssertionError(f"expected {expected}")


def _sorted(columns: np.ndarray) -> np.ndarray:
    return columns[:, np.lexsort(columns)]


def _is_global(found: np.ndarray, expected: np.ndarray) -> bool:
    """Whether rows are far from their position in the file: in random order, a third of its length on average."""
    if len(np.unique(expected)) < 0.9 * len(expected):
        return not np.array_equal(found, expected)  # repeated rows have several positions
    moved = np.empty(len(found), np.int64)
    moved[np.argsort(found, kind="stable")] = np.argsort(expected, kind="stable")
    return float(np.abs(moved - np.arange(len(moved))).mean()) > 0.25 * len(moved)
