"""The machine and commit of a run."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

__all__ = ["commit", "machine"]

ROOT = Path(__file__).resolve().parents[1]


def commit() -> str:
    """The commit of this checkout, and whether the code differs."""
    dirty = _git("status", "--porcelain", "--", "src", "native")
    return (_git("rev-parse", "--short=12", "HEAD") or "unknown") + (" with local changes" if dirty else "")


def machine() -> str:
    """Processor, available cores, memory, system."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return f"{_processor()}, {cores} cores, {memory:.0f} GB memory, {platform.system()} {platform.release()}"


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    for line in info.read_text().splitlines() if info.exists() else []:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
