"""Sizes of the files, and how fast they are read."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import headrace as hr
from headrace.cli.demo.digits import Files
from headrace.cli.demo.doors import arrays_source
from headrace.cli.demo.plain import plain_batches, plain_npy
from headrace.cli.terminal.console import print_table
from headrace.cli.terminal.values import size_of

__all__ = ["show_speed"]

BATCH = 64
MEASURED_S = 0.15
HEADINGS = ("files", "size", "in order", "shuffled", "the plain way")
EPOCHS = 50


def show_speed(files: Files, count: int) -> None:
    """A table: bytes, and examples a second."""
    framed, packed, arrays = hr.open(files.tfrecord), hr.open(files.gzip), arrays_source(files)
    rows = [
        _row(
            "digits.tfrecord, 4 shards",
            files.tfrecord_shards,
            framed,
            lambda: plain_batches(files.tfrecord_shards),
            count,
        ),
        _row("digits.tfrecord.gz", [files.gzip], packed, lambda: plain_batches([files.gzip]), count),
        _row(
            "images.npy, labels.npy",
            [files.images, files.labels],
            arrays,
            lambda: plain_npy(files.images, files.labels),
            count,
        ),
    ]
    print_table(HEADINGS, rows, right=HEADINGS[1:], indent=8)


def _row(
    name: str, paths: list[Path], source: hr.Source, plain: Callable[[], Iterable[Any]], count: int
) -> tuple[str, ...]:
    size = size_of(sum(path.stat().st_size for path in paths))
    in_order = _speed(lambda: hr.Loader(source, BATCH, epochs=EPOCHS), count * EPOCHS)
    shuffled = _speed(lambda: hr.Loader(source, BATCH, shuffle=True, epochs=EPOCHS), count * EPOCHS)
    return name, size, in_order, shuffled, _speed(plain, count)


def _speed(passes: Callable[[], Iterable[Any]], examples: int) -> str:
    """Examples a second, over as many passes as the measured time holds; the first one opens files and does not count."""
    for _ in passes():
        pass
    done, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < MEASURED_S:
        for _ in passes():
            pass
        done += examples
    return f"{done / (time.perf_counter() - begun):,.0f}/s"
