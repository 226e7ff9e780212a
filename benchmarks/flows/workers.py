"""The gain from a second worker: ``python -m benchmarks.flows.workers``.

Every example goes through a function that keeps Python busy for a given CPU time. One run alternates between the variants
and prints medians and the ratio of neighbours.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

import headrace as hr

SIDE = 28


@dataclass(frozen=True, slots=True)
class Busy:
    """Keeps Python busy, then returns the example.

    Attributes:
        turns: Iterations; see `turns_for`.
    """

    turns: int

    def __call__(self, example: hr.Example) -> hr.Example:
        """The example, plus a number that required the work."""
        number = 0
        for turn in range(self.turns):
            number = (number * 31 + turn) & 0xFFFF
        return {**example, "number": np.int64(number)}


def turns_for(seconds: float) -> int:
    """The iterations for a CPU time on this machine, by the fastest of some tries."""
    probe, best = Busy(20_000), float("inf")
    for _ in range(20):
        begun = time.process_time()
        probe({})
        best = min(best, time.process_time() - begun)
    return max(round(20_000 * seconds / best), 1)


def cpu_seconds() -> float:
    """CPU seconds of this process and its ended children."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def epoch(source: hr.Source, workers: int, batch: int, start_method: str) -> tuple[float, float, float]:
    """Seconds of one epoch from the first batch on, seconds up to it, and CPU seconds of all."""
    cpu, begun = cpu_seconds(), time.perf_counter()
    batches = iter(hr.Loader(source, batch, shuffle=True, workers=workers, start_method=start_method, threads=0))
    next(batches)
    first = time.perf_counter()
    for _ in batches:
        pass
    ended = time.perf_counter()
    del batches
    return ended - first, first - begun, cpu_seconds() - cpu


def main(arguments: Sequence[str] | None = None) -> int:
    """Time one epoch after the other, without workers, with one and with two."""
    parser = argparse.ArgumentParser(description="Time epochs of a transform in plain Python.")
    parser.add_argument("--ms", type=float, default=1.0, help="CPU time of the function (default: 1 ms)")
    parser.add_argument("--examples", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--start-method", default="fork", choices=["fork", "forkserver", "spawn"])
    options = parser.parse_args(arguments)
    images = np.random.default_rng(0).integers(0, 256, (options.examples, SIDE, SIDE), np.uint8)
    source = hr.ColumnSource({"image": images, "label": np.arange(options.examples)})
    busy = source.map(Busy(turns_for(options.ms / 1e3)))
    sides = (0, 1, 2)
    runs = [[epoch(busy, side, options.batch, options.start_method) for side in sides] for _ in range(options.rounds)]
    taken, firsts, cpu = ({side: [run[side][k] for run in runs] for side in sides} for k in range(3))
    for workers, seconds in taken.items():
        rate = (options.examples - options.batch) / median(seconds)
        print(
            f"workers={workers}  epoch {median(seconds):.3f} s ({min(seconds):.3f}-{max(seconds):.3f})  {rate:,.0f} examples/s"
            f"  first batch {median(firsts[workers]) * 1e3:.0f} ms  CPU {median(cpu[workers]):.3f} s (least {min(cpu[workers]):.3f})"
        )
    ratios = [one / two for one, two in zip(taken[1], taken[2], strict=True)]
    print(
        f"two workers over one: {median(ratios):.2f}x ({min(ratios):.2f}-{max(ratios):.2f}); best over best {min(taken[1]) / min(taken[2]):.2f}x"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
