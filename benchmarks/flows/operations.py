"""What each operation costs: the time until it has what it needs, the time to read an example after that, memory and disk.

    python -m benchmarks.flows.operations

A TFRecord file of examples with a number, a text and a row of numbers. Times are processor time on one thread, the best of three. Memory is
what the operation itself keeps, as the size of its pickle without that of the file's source; disk is what it writes.
"""

from __future__ import annotations

import argparse
import pickle
import tempfile
import time
from pathlib import Path

import numpy as np

import headrace as hr

ROUNDS = 3


def same(example):
    return example


def twice(example):
    return [example, example]


OPERATIONS = {
    "`source[a:b]`, `head`, `skip`, `shard`": lambda source, _: source[10:-10],
    "`select`, `rename`": lambda source, _: source.select("label"),
    "`concat`, `zip`": lambda source, _: source.concat(source),
    "`map`": lambda source, _: source.map(same),
    "`sample(len(source))`": lambda source, _: source.sample(len(source)),
    "`random_split`": lambda source, _: source.random_split([0.8, 0.2])[0],
    "`sort`": lambda source, _: source.sort("label"),
    "`source[source['label'] < 5]`": lambda source, _: source[source["label"] < 5],
    "`filter(condition)`": lambda source, _: source.filter(hr.condition("label < 5")),
    "`filter(function)`": lambda source, _: source.filter(lambda example: example["label"] < 5),
    "`window(8)`": lambda source, _: source.window(8),
    "`window(8, feature=)`": lambda source, _: source.window(8, feature="tokens"),
    "`flat_map`": lambda source, _: source.flat_map(twice),
    "`hr.Packed`": lambda source, _: hr.Packed(source, 512, feature="tokens"),
    "`cache`": lambda source, folder: source.cache(folder, key="1"),
}


def write(path: Path, count: int) -> None:
    rng = np.random.default_rng(0)
    lengths = rng.integers(8, 120, count)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    columns = {
        "label": rng.integers(0, 10, count),
        "text": [f"example {number}" for number in range(count)],
        "tokens": hr.Ragged(rng.integers(0, 30_000, offsets[-1]), offsets),
    }
    hr.write(path, columns)


def clock(call):
    start = time.process_time()
    made = call()
    return time.process_time() - start, made


def counted(made):
    """A source whose length was asked for."""
    len(made)
    return made


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def measure(make, path: Path, folder: Path) -> tuple[float, float, int, int]:
    """Seconds until the length is known, seconds for 1,000 random examples, bytes kept, bytes on disk."""
    best, reading, kept, disk = float("inf"), float("inf"), 0, 0
    for number in range(ROUNDS):
        source = hr.open(path)
        _ = source[0], len(source)
        below = len(pickle.dumps(source))
        own = folder / str(number)
        took, made = clock(lambda: counted(make(source, own)))  # noqa: B023 - called at once
        best = min(best, took)
        chosen = np.random.default_rng(number).integers(0, len(made), 1000)
        made.batch(chosen[:10])
        reading = min(reading, clock(lambda: [made[int(index)] for index in chosen])[0])  # noqa: B023
        try:
            kept = max(0, len(pickle.dumps(made)) - below)
        except (pickle.PicklingError, AttributeError):  # a function without a name
            kept = made.node.chosen.nbytes if hasattr(made.node, "chosen") else 0
        disk = size_of(own) if own.exists() else 0
    return best, reading, kept, disk


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000, help="examples")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        path = folder / "a.tfrecord"
        write(path, options.count)
        print(f"{options.count:,} examples of a number, a text and 8 to 120 numbers; {path.stat().st_size:,} bytes.\n")
        print(
            "| operation | until it has a length, ms | an example, us | kept, bytes an example | on disk, bytes an example |"
        )
        print("| --- | ---: | ---: | ---: | ---: |")
        for number, (name, make) in enumerate(OPERATIONS.items()):
            took, reading, kept, disk = measure(make, path, folder / str(number))
            sizes = f"{kept / options.count:.1f} | {disk / options.count:.0f}"
            print(f"| {name} | {took * 1e3:.1f} | {reading * 1e3:.0f} | {sizes} |", flush=True)


if __name__ == "__main__":
    main()
