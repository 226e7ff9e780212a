"""Clocks and memory of a process, and the load of the machine. On systems other than Linux, memory and load are 0."""

from __future__ import annotations

import contextlib
import gc
import os
import time
from pathlib import Path

_SELF = Path("/proc/self/status")
_STAT = Path("/proc/stat")


def cpu_seconds() -> float:
    """CPU seconds of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def memory_mb() -> dict[str, float]:
    """Memory of this process in MB (10^6 bytes).

    Returns:
        ``peak``: the peak resident memory, including pages of mapped files (VmHWM); ``anonymous``: memory that the
        process holds now without file pages (RssAnon).
    """
    fields = {"VmHWM": "peak", "RssAnon": "anonymous"}
    found = dict.fromkeys(fields.values(), 0.0)
    for line in _SELF.read_text().splitlines() if _SELF.exists() else []:
        name, _, rest = line.partition(":")
        if name in fields:
            found[fields[name]] = int(rest.split()[0]) * 1024 / 1e6
    return found


def forget_peak() -> None:
    """Reset the peak of `memory_mb` to the current memory, if the system allows it."""
    gc.collect()
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def wait_until_quiet(limit: float = 0.1, patience: float = 20.0) -> float:
    """Wait until the machine uses less than ``limit`` cores, at most ``patience`` seconds.

    Call it while no measured system runs.

    Returns:
        The last load, in cores.
    """
    end = time.monotonic() + patience
    while True:
        load = _load(0.2)
        if load < limit or time.monotonic() > end:
            return load


def _load(seconds: float) -> float:
    if not _STAT.exists():
        return 0.0
    busy, start = _busy_seconds(), time.monotonic()
    time.sleep(seconds)
    return (_busy_seconds() - busy) / (time.monotonic() - start)


def _busy_seconds() -> float:
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, _STAT.read_text().split(maxsplit=9)[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
