"""The output of a host: shown as it comes, and kept."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path

__all__ = ["HostLog", "show"]


def show(line: str) -> None:
    """Write a line to the standard output at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class HostLog:
    """Lines of one host.

    Args:
        path: Where they are kept.
        host: What they begin with when they are shown.
        show: Shows a line.
    """

    def __init__(self, path: Path, host: str, show: Callable[[str], None]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a", encoding="utf-8", errors="replace", buffering=1)
        self._host = host
        self._show = show
        self._lock = threading.Lock()  # a container may log from several threads

    def write(self, line: str) -> None:
        """Take a line without its end."""
        with self._lock:
            self._file.write(line + "\n")
            self._show(f"{self._host} | {line}")

    def close(self) -> None:
        """No more lines will come."""
        self._file.close()
