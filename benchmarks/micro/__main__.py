"""``python -m benchmarks.micro [words]``: time the steps whose names contain one of the words (all by default)."""

from __future__ import annotations

import sys
import timeit
from collections.abc import Sequence
from statistics import median

from benchmarks.data import FULL, Files, bench_folder
from benchmarks.micro.bodies import Body, bodies


def time_body(body: Body, repeats: int = 7) -> list[float]:
    """Seconds per call, in each of ``repeats`` runs of at least 0.05 s, in ascending order."""
    timer = timeit.Timer(body.call)
    calls, seconds = timer.autorange()
    calls = max(1, round(calls * 0.05 / seconds))
    return sorted(taken / calls for taken in timer.repeat(repeats, calls))


def line(body: Body, seconds: Sequence[float]) -> str:
    """Time per item, spread and rate, in one line."""
    middle = median(seconds) / body.items * 1e9
    low, high = (edge / body.items * 1e9 for edge in (seconds[0], seconds[-1]))
    rate = f"{body.item_bytes / middle:8.2f} GB/s" if body.item_bytes else ""
    return f"{body.name:48} {middle:12,.1f} ns/item ({low:,.1f}-{high:,.1f}) {rate}"


def main(words: Sequence[str]) -> int:
    """Time and print."""
    for body in bodies(Files(bench_folder(), FULL)):
        if not words or any(word in body.name for word in words):
            print(line(body, time_body(body)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
