"""``python -m benchmarks.flows.tables``: statistics, writing and converting of whole tables, for Headrace alone.

Small rows, text, vectors and images. An earlier commit is measured in a checkout of its own that `make setup` has set up: an editable install
ignores PYTHONPATH.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import numpy as np

import headrace as hr

ROWS, ROUNDS = 100_000, 5


def tables(rows: int) -> dict[str, dict[str, object]]:
    """Columns by the name of their table. The texts are 5,000 different words of eight letters."""
    rng = np.random.default_rng(0)
    words = np.array(["".join(map(chr, letters)) for letters in rng.integers(97, 123, (5_000, 8))], object)
    numbers = {f"f{k}": rng.random(rows).astype(np.float32) for k in range(6)}
    texts = {f"s{k}": words[rng.integers(0, len(words), rows)] for k in range(3)}
    few = max(rows // 20, 1)
    return {
        "6 floats, 3 texts": {**numbers, **texts},
        "vectors of 256 floats": {"x": rng.random((rows // 4, 256)).astype(np.float32)},
        "images of 64 x 64 x 3": {"x": rng.integers(0, 256, (few, 64, 64, 3)).astype(np.uint8)},
    }


def tasks(folder: Path, rows: int) -> Iterator[tuple[str, Callable[[], object]]]:
    """What is timed, by its name."""
    for name, columns in tables(rows).items():
        formats = ("tfrecord", "parquet", "csv", "jsonl") if name.startswith("6") else ("npy",)
        for format in formats:
            path = folder / f"{name[0]}.{format}"
            source = hr.ColumnSource(columns)
            hr.write(path, source)
            yield f"write {name}: {format}", lambda path=path, source=source: hr.write(path, source)
            yield f"stats of {name}: {format}", lambda path=path: hr.stats(path)
    yield "convert tfrecord to parquet", lambda: hr.convert(folder / "6.tfrecord", folder / "c.parquet", overwrite=True)
    yield (
        "convert csv to tfrecord",
        lambda: hr.convert(
            folder / "6.csv",
            folder / "c.tfrecord",
            overwrite=True,
            schema=hr.open(folder / "6.tfrecord").schema,
        ),
    )
    examples = list(hr.ColumnSource(tables(rows)["6 floats, 3 texts"]))
    yield "write a list of examples: jsonl", lambda: hr.write(folder / "list.jsonl", examples)
    yield "write a list of examples in four shards: jsonl", lambda: hr.write(folder / "list.jsonl@4", examples)


def measure(folder: Path, rows: int, rounds: int) -> dict[str, float]:
    """The median seconds of each task."""
    found = {}
    for name, task in tasks(folder, rows):
        task()
        seconds = []
        for _ in range(rounds):
            begun = time.perf_counter()
            task()
            seconds.append(time.perf_counter() - begun)
        found[name] = median(seconds)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name, seconds in measure(Path(folder), given.rows, given.rounds).items():
            print(f"{name:50} {seconds * 1e3:8.1f} ms")


if __name__ == "__main__":
    main()
