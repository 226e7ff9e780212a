"""Progress of long work: a bar on a terminal or in a notebook, nothing elsewhere."""

from __future__ import annotations

import importlib
import sys
import threading
import time
from types import TracebackType
from typing import Any, Self

__all__ = ["NotebookBar", "Progress", "in_notebook", "say"]

QUIET_S = 1.0  # shorter work needs no bar
REDRAW_S = 0.2
NOTEBOOK_SHELL = "ZMQInteractiveShell"


def say(text: str) -> None:
    """Print one line about long work to stderr."""
    if sys.stderr is not None:
        sys.stderr.write(f"headrace: {text}\n")
        sys.stderr.flush()


class NotebookBar:
    """A bar in the output of a notebook's cell: HTML that is replaced, so that it needs no widgets.

    Args:
        label, total: As for :class:`Progress`.
    """

    def __init__(self, label: str, total: int | None) -> None:
        self._label = label
        self._total = total
        self._drawn = time.monotonic()
        display = importlib.import_module("IPython.display")
        self._handle = display.display(self._content(0), raw=True, display_id=True)

    def update(self, _: Any, *, completed: int) -> None:
        """Draw how much is done."""
        if time.monotonic() - self._drawn >= REDRAW_S:
            self._drawn = time.monotonic()
            self._handle.update(self._content(completed), raw=True)

    def stop(self) -> None:
        """Clear the bar."""
        self._handle.update({"text/plain": "", "text/html": ""}, raw=True)

    def _content(self, done: int) -> dict[str, str]:
        import html  # imported here, because only notebooks need it

        total = "" if self._total is None else f" of {self._total:,}"
        share = "" if not self._total else f' max="{self._total}" value="{done}"'
        text = f"{self._label}: {done:,}{total}"
        return {"text/plain": text, "text/html": f"<div>{html.escape(text)} <progress{share}></progress></div>"}


def in_notebook() -> bool:
    """Whether the output of this process goes to the cells of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == NOTEBOOK_SHELL


class Progress:
    """A progress bar on stderr, or in a notebook's cell, that appears once the work has taken a second. Safe to advance from several threads.

    Args:
        label: What is being done: "indexing".
        total: The amount of work; ``None`` if unknown.
        unit: What is counted: "records", or "bytes" (shown as MB).
        show: ``False`` for no bar. A bar also needs a terminal on stderr, or a notebook.
    """

    def __init__(self, label: str, total: int | None, unit: str, *, show: bool = True) -> None:
        self.label = label
        self.total = total
        self.unit = unit
        self.done: int = 0
        self._in_notebook = show and in_notebook()
        self._shown = self._in_notebook or (show and sys.stderr is not None and sys.stderr.isatty())
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
        if self._in_notebook:
            self._bar = NotebookBar(self.label, self.total)
            return
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
