"""A first pass over compressed shards, with one inflated at a time and with one per core: ``python -m benchmarks.flows.gzip_shards``.

Eight shards of GZIP TFRecord with 64,000 images of 28 x 28 float32 in all, 8-bit noise (about 3 to 1); the cache is empty before every
pass. One run alternates between the variants and prints medians and the ratio of neighbours.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np

import headrace as hr
from headrace.io.cache import read_ahead
from headrace.io.system import usable_cores

SHARDS, ROWS, STEP = 8, 64_000, 8_000
SIDES = {"one at a time": 1, "one for each core": usable_cores()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HEADRACE_CACHE_DIR"] = f"{folder}/cache"
        path = f"{folder}/x.tfrecord@{SHARDS}"
        noise = np.random.default_rng(0).normal(128, 30, (STEP, 784)).clip(0, 255).astype(np.uint8).astype(np.float32)
        hr.write(
            path, {"image": np.concatenate([noise] * (ROWS // STEP)), "label": np.arange(ROWS)}, compression="gzip"
        )
        seconds: dict[str, list[float]] = {side: [] for side in SIDES}
        for _ in range(rounds):
            for side, cores in SIDES.items():
                seconds[side].append(first_pass(path, cores, Path(folder, "cache")))
    for side, found in seconds.items():
        print(f"{side:18} {median(found):.2f} s")
    before, after = seconds.values()
    print(f"{'ratio':18} {median(a / b for a, b in zip(before, after, strict=True)):.2f}")


def first_pass(path: str, cores: int, cache: Path) -> float:
    """Seconds of a sequential epoch with an empty cache."""
    shutil.rmtree(cache, ignore_errors=True)
    read_ahead.usable_cores = lambda: cores  # type: ignore[attr-defined]
    start = perf_counter()
    seen = sum(len(batch["label"]) for batch in hr.Loader(hr.open(path), 128))
    assert seen == ROWS
    return perf_counter() - start


if __name__ == "__main__":
    main()
