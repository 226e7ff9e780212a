"""``python -m benchmarks.flows.csv``: a CSV of floats to batches and one row at random, beside pandas, PyArrow and the csv module.

All run on one core, in turn, so that noise affects all alike.
"""

from __future__ import annotations

import csv
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np

import headrace as hr

ROWS, COLUMNS, BATCH, ROUNDS, PICKED = 200_000, 20, 1024, 5, 2_000


def write_table(path: Path, rows: int) -> np.ndarray:
    """Normal numbers with all digits, under a header."""
    table = np.random.default_rng(0).normal(size=(rows, COLUMNS))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([f"f{k}" for k in range(COLUMNS)])
        writer.writerows(table.tolist())
    return table


def epoch(path: Path) -> float:
    """Headrace: open (infer types, load or build the index), one epoch in batches. Returns the sum of a column."""
    source = hr.open(path)
    return sum(float(batch["f3"].sum()) for batch in hr.Loader(source, BATCH))


def with_pandas(path: Path) -> float:
    """pandas.read_csv, the whole table."""
    import pandas as pd

    return float(pd.read_csv(path)["f3"].sum())


def with_arrow(path: Path) -> float:
    """pyarrow.csv, the whole table, one thread."""
    from pyarrow import csv as arrow_csv

    table = arrow_csv.read_csv(path, read_options=arrow_csv.ReadOptions(use_threads=False))
    return float(table["f3"].to_numpy().sum())


def with_csv_module(path: Path) -> float:
    """A loop over csv.reader that converts every field to float, in batches."""
    total, rows = 0.0, []
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.reader(file)
        next(reader)
        for row in reader:
            rows.append([float(value) for value in row])
            if len(rows) == BATCH:
                total += float(np.array(rows)[:, 3].sum())
                rows.clear()
    return total + (float(np.array(rows)[:, 3].sum()) if rows else 0.0)


def row_by_headrace(path: Path) -> Callable[[int], float]:
    """``source[i]``."""
    source = hr.open(path)
    len(source)
    return lambda index: float(source[index]["f3"])


def row_by_seeking(path: Path) -> Callable[[int], float]:
    """An array of line offsets, a read at one, split, floats: the usual hand-written solution."""
    ends = np.flatnonzero(np.fromfile(path, np.uint8) == ord("\n")) + 1
    longest = int(np.diff(ends).max())

    def row(index: int) -> float:
        with path.open("rb", buffering=0) as file:
            file.seek(int(ends[index]))
            return [float(value) for value in file.read(longest).split(b"\n", 1)[0].split(b",")][3]

    return row


EPOCHS = {"Headrace": epoch, "pandas": with_pandas, "PyArrow": with_arrow, "csv module": with_csv_module}
ROW_READERS = {"Headrace": row_by_headrace, "open, seek, split": row_by_seeking}


def measure(path: Path, table: np.ndarray, rounds: int) -> dict[str, float]:
    """Seconds of one epoch, after checking that all read the same."""
    taken: dict[str, list[float]] = {name: [] for name in EPOCHS}
    for _ in range(rounds + 1):
        for name, read in EPOCHS.items():
            begun = time.perf_counter()
            found = read(path)
            taken[name].append(time.perf_counter() - begun)
            np.testing.assert_allclose(found, table[:, 3].sum(), rtol=1e-9)
    return {name: median(seconds[1:]) for name, seconds in taken.items()}


def measure_rows(path: Path, table: np.ndarray, picked: int) -> dict[str, float]:
    """Microseconds of one row at random."""
    indices = np.random.default_rng(1).integers(0, len(table), picked).tolist()
    out = {}
    for name, make in ROW_READERS.items():
        read = make(path)
        begun = time.perf_counter()
        found = [read(index) for index in indices]
        out[name] = (time.perf_counter() - begun) / picked * 1e6
        assert found == table[indices, 3].tolist()
    return out


def main() -> None:
    """Measure and print."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HEADRACE_CACHE_DIR"] = folder
        path = Path(folder, "table.csv")
        table = write_table(path, ROWS)
        seconds = measure(path, table, ROUNDS)
        print(f"{ROWS:,} x {COLUMNS} floats, {path.stat().st_size / 1e6:.0f} MB, one epoch on one core")
        for name, taken in seconds.items():
            print(f"  {name:16} {taken:7.3f} s   {taken / seconds['Headrace']:6.2f} x Headrace's time")
        print("one row at random")
        for name, micros in measure_rows(path, table, PICKED).items():
            print(f"  {name:16} {micros:7.1f} us")


if __name__ == "__main__":
    main()
