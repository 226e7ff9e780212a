"""Progress of long work: a bar on a terminal, nothing elsewhere."""

from __future__ import annotations

import importlib
import sys
import threading
import time
from types import TracebackType
from typing import Any, Self

__all__ = ["Progress", "say"]

QUIET_S = 1.0  # shorter work needs no bar


def say(text: str) -> None:
    """Print one line about long work to stderr."""
    if sys.stderr is not None:
        sys.stderr.write(f"headrace: {text}\n")
        sys.stderr.flush()


class Progress:
    """A progress bar on stderr that appears once the work has taken a second. Safe to advance from several threads.

    Args:
        label: What is being done: "indexing".
        total: The amount of work; ``None`` if unknown.
        unit: What is counted: "records", or "bytes" (shown as MB).
        show: ``False`` for no bar. A bar also needs a terminal on stderr.
    """

    def __init__(self, label: str, total: int | None, unit: str, *, show: bool = True) -> None:
        self.label = label
        self.total = total
        self.unit = unit
        self.done = 0
        self._shown = show and sys.stderr is not None and sys.stderr.isatty()
        self._begun = time.monotonic()
        self._lock = threading.Lock()
        self._bar: Any = None
        self._task: Any = None

    def advance(self, amount: int) -> None:
        """Count work that is done."""
        with self._lock:
            self.done += amount
            if not self._shown or time.monotonic() - self._begun < QUIET_S:
                return
            if self._bar is None:
                self._start()
            self._bar.update(self._task, completed=self.done)

    def _start(self) -> None:
        # Imported here, because most work needs no bar and rich takes longer to import than headrace.
        rich = importlib.import_module("rich.progress")
        console = importlib.import_module("rich.console").Console(stderr=True)
        amount = rich.DownloadColumn() if self.unit == "bytes" else rich.MofNCompleteColumn()
        columns = (rich.TextColumn("{task.description}"), rich.BarColumn(), amount, rich.TimeRemainingColumn())
        self._bar = rich.Progress(
            *columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False
        )
        self._task = self._bar.add_task(self.label, total=self.total)
        self._bar.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            if self._bar is not None:
                self._bar.stop()
                self._bar = None
