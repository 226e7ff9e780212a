"""Epochs of the Loader over one file: ``python -m benchmarks.flows.epoch --format tfrecord --shuffle``."""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import headrace as hr
from benchmarks.compare.clocks import cpu_seconds, forget_peak, memory_mb
from benchmarks.data import BATCH, EXAMPLE_BYTES, FULL, ROW_BYTES, SIZES, Files, bench_folder

FORMATS = ("tfrecord", "gzip", "shards", "tenfold", "npy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """What to read, and how.

    Attributes:
        format: One of `FORMATS`.
        shuffle: In a global random order, different in each epoch.
        batch: Examples per batch.
        threads: As for `headrace.Loader`.
        prefetch: As for `headrace.Loader`.
        verify: Check checksums.
    """

    format: str = "tfrecord"
    shuffle: bool = False
    batch: int = BATCH
    threads: int | None = None
    prefetch: int = 2
    verify: bool = True

    def path(self, files: Files) -> Path:
        """The data."""
        return files.shards / "all.tfrecord-*" if self.format == "shards" else getattr(files, self.format)

    def epochs(self, files: Files, count: int) -> list[tuple[float, float, int]]:
        """Time ``count`` epochs over one open source.

        Returns:
            Seconds, seconds to the first batch, and rows, of each.
        """
        source = hr.open(self.path(files), verify=self.verify)
        return [self._epoch(source, seed) for seed in range(count)]

    def _epoch(self, source: hr.Source, seed: int) -> tuple[float, float, int]:
        gc.collect()
        start, first, rows = time.perf_counter(), 0.0, 0
        loader = hr.Loader(
            source, self.batch, shuffle=self.shuffle, seed=seed, threads=self.threads, prefetch=self.prefetch
        )
        for batch in loader:
            first = first or time.perf_counter() - start
            rows += len(next(iter(batch.values())))
        return time.perf_counter() - start, first, rows


def show(flow: Flow, files: Files, epochs: int) -> str:
    """Run a flow and print one line: the first epoch, and the median of the others."""
    forget_peak()
    cpu = cpu_seconds()
    cold, *warm = flow.epochs(files, epochs + 1)
    cpu = (cpu_seconds() - cpu) / (epochs + 1)
    seconds = sorted(epoch[0] for epoch in warm)
    middle, rows = median(seconds), cold[2]
    rate = rows * (ROW_BYTES if flow.format == "npy" else EXAMPLE_BYTES) / middle / 1e9
    first = median(epoch[1] for epoch in warm)
    return (
        f"{flow.format:9}{'shuffled' if flow.shuffle else 'in order':9} {rows / middle:12,.0f}/s {rate:7.2f} GB/s"
        f"  epoch {middle:.4f} s ({seconds[0]:.4f}-{seconds[-1]:.4f})  first epoch {cold[0]:.4f} s"
        f"  first batch {first * 1e3:.2f} ms  CPU {cpu:.3f} s  peak {memory_mb()['peak']:.0f} MB"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the flows that the options name (all formats, both orders, by default)."""
    options = _parser().parse_args(arguments)
    files = Files(bench_folder(), SIZES[options.size])
    for name in [options.format] if options.format else FORMATS:
        for shuffle in [True] if options.shuffle else [False] if options.format else [False, True]:
            flow = Flow(
                format=name,
                shuffle=shuffle,
                batch=options.batch,
                threads=options.threads,
                prefetch=options.prefetch,
                verify=not options.no_verify,
            )
            print(show(flow, files, options.epochs), flush=True)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Time epochs of Headrace's Loader.")
    parser.add_argument("--format", choices=FORMATS, help="default: all, in order and shuffled")
    parser.add_argument("--shuffle", action="store_true")
    parser.add_argument("--size", choices=sorted(SIZES), default="full", help=f"default: full ({FULL.rows:,} examples)")
    parser.add_argument("--epochs", type=int, default=7, help="timed epochs after the first (default: 7)")
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--prefetch", type=int, default=2)
    parser.add_argument("--no-verify", action="store_true", help="do not check checksums")
    return parser


if __name__ == "__main__":
    sys.exit(main())
