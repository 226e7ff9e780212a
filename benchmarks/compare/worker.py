"""The process of one system: reads ``check``, ``turn`` and ``memory`` as JSON lines, and answers each with one."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from benchmarks.compare.clocks import forget_peak, memory_mb
from benchmarks.compare.tasks import Task, Timing
from benchmarks.compare.workloads import WORKLOADS
from benchmarks.data import SIZES, Files


def turn(task: Task, seconds: float, most: int) -> list[Timing]:
    """Run at least one epoch, and more until ``seconds`` have passed or ``most`` are done."""
    end = time.monotonic() + seconds
    timings = [task.run()]
    while time.monotonic() < end and len(timings) < most:
        timings.append(task.run())
    return timings


def serve(task: Task, requests: TextIO, replies: TextIO) -> None:
    """Answer requests until they end."""
    for line in requests:
        request = json.loads(line)
        json.dump(_answer(task, request), replies)
        replies.write("\n")
        replies.flush()


def _check(task: Task) -> None:
    task.check()
    forget_peak()  # the memory of the check does not belong to the system


def _answer(task: Task, request: dict[str, float]) -> object:
    actions: dict[str, Callable[[], object]] = {
        "check": lambda: _check(task),
        "turn": lambda: [asdict(timing) for timing in turn(task, request["seconds"], int(request["most"]))],
        "memory": memory_mb,
    }
    return actions[str(request["do"])]()


def _main(folder: str, size: str, workload: str, name: str) -> None:
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of libraries must not mix with replies
    systems = {system.name: system for system in WORKLOADS[workload].systems}
    serve(systems[name].task(Files(Path(folder), SIZES[size])), sys.stdin, replies)
    os._exit(0)  # some libraries take seconds to stop their threads


if __name__ == "__main__":
    _main(*sys.argv[1:])
