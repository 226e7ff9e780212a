"""The process of one system, or of several: opens one shape after another, checks and times it. Requests and answers are JSON lines."""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO

from benchmarks.compare.clocks import forget_peak, memory_mb
from benchmarks.compare.tasks import import_all
from benchmarks.compare.worker import turn
from benchmarks.shapes.files import ShapeFiles
from benchmarks.shapes.shape import Shape

_ARROW = ("pyarrow.csv", "pyarrow.json", "pyarrow.parquet")
_LIBRARIES = {
    "ours": _ARROW,
    "tables": (*_ARROW, "pandas", "datasets"),
    "arrays": ("array_record.python.array_record_data_source",),
    "images": ("simplejpeg", "ffcv.fields.decoders", "ffcv.loader", "ffcv.transforms", "PIL.Image"),
}
"""What the modules of `benchmarks.shapes.systems` import in functions."""


class Host:
    """Holds the tasks that are measured, by the functions that made them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tasks: dict[str, Any] = {}

    def answer(self, request: dict[str, Any]) -> object:
        """Do what a request says; an exception becomes ``{"error": ...}``."""
        try:
            return getattr(self, f"do_{request.pop('do')}")(**request)
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"[:300]}

    def do_open(self, start: str, shape: str, size: str, times: int = 1) -> None:
        """Make the task (imports the libraries of the system)."""
        self.tasks[start] = _maker(start)(self._files(shape, size, times))

    def do_first(self, start: str, shape: str, size: str, times: int = 1) -> object:
        """Time the first epoch of this process, with opening the files, but without imports."""
        _import_libraries(start)
        make, files = _maker(start), self._files(shape, size, times)
        begin = time.perf_counter()
        task = make(files)
        opened = time.perf_counter() - begin
        timing = task.run()
        first = None if timing.first_s is None else opened + timing.first_s
        return [asdict(replace(timing, epoch_s=opened + timing.epoch_s, wall_s=opened + timing.wall_s, first_s=first))]

    def _files(self, shape: str, size: str, times: int) -> ShapeFiles:
        what = Shape.parse(shape)
        files = ShapeFiles(self.folder, what, what.rows(size))
        return files.repeated(times) if times > 1 else files

    def do_check(self, start: str) -> None:
        """Run one untimed epoch and compare every row."""
        self.tasks[start].check()
        forget_peak()  # the memory of the check does not belong to the system

    def do_turn(self, start: str, seconds: float, most: int) -> object:
        """Timed epochs."""
        return [asdict(timing) for timing in turn(self.tasks[start], seconds, int(most))]

    def do_alternate(self, starts: str, seconds: float) -> object:
        """Timed epochs of several tasks, which take turns, each at least once; the first one of a round is the last one of the next."""
        order = starts.split()
        timings: dict[str, list[Any]] = {start: [] for start in order}
        end = time.monotonic() + seconds
        while True:
            for start in order:
                timings[start] += map(asdict, turn(self.tasks[start], 0, 1))
            order.reverse()
            if time.monotonic() >= end:
                return timings

    def do_memory(self) -> object:
        """As `benchmarks.compare.clocks.memory_mb`."""
        return memory_mb()

    def do_close(self, start: str) -> None:
        """Forget a task."""
        self.tasks.pop(start, None)
        gc.collect()


def _maker(start: str) -> Callable[[ShapeFiles], Any]:
    """The function that makes a task."""
    module, _, function = start.partition(":")
    return getattr(import_module(f"benchmarks.shapes.systems.{module}"), function)  # type: ignore[no-any-return]


def _import_libraries(start: str) -> None:
    """Import what a system would import when it is first used."""
    if start.startswith("ours"):
        import_all()
    for name in _LIBRARIES.get(start.partition(":")[0], ()):
        with suppress(ImportError):  # Each environment has those of its systems.
            import_module(name)


def serve(host: Host, requests: TextIO, replies: TextIO) -> None:
    """Answer requests until they end."""
    for line in requests:
        json.dump(host.answer(json.loads(line)), replies)
        replies.write("\n")
        replies.flush()


def _main(folder: str) -> None:
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of libraries must not mix with replies
    serve(Host(Path(folder)), sys.stdin, replies)
    os._exit(0)  # some libraries take seconds to stop their threads


if __name__ == "__main__":
    _main(*sys.argv[1:])
