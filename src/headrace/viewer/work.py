"""Long work behind a page: it starts when a page asks for it, goes on between requests, and its progress can be shown."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any

from headrace.io.threads import start_thread

__all__ = ["Stopped", "Work", "Works"]

AT_ONCE = 2
MOST_KEPT = 200


class Stopped(Exception):
    """The viewer ends, or this work is no longer wanted."""


class Work:
    """One piece of work and what is known of it. Read by requests while a thread does it.

    Attributes:
        done, total: Progress; ``total`` is ``None`` where it is not known.
        result: What it returned, or has so far: work may set it before it ends.
        failure: Why it failed.
        is_finished: Whether it has ended, either way.
        has_told: Whether a page has shown its failure.
    """

    def __init__(self, label: str) -> None:
        self.label = label
        self.done: int = 0
        self.total: int | None = None
        self.result: Any = None
        self.failure: str | None = None
        self.is_finished: bool = False
        self.has_told: bool = False
        self._stopping = threading.Event()
        self._ended = threading.Event()

    def advance(self, done: int, total: int | None = None) -> None:
        """Report progress.

        Raises:
            Stopped: It should end.
        """
        self.done = done
        self.total = self.total if total is None else total
        if self._stopping.is_set():
            raise Stopped

    def stop(self) -> None:
        """Make it end at its next step."""
        self._stopping.set()

    def wait(self, patience_s: float) -> None:
        """Wait until it has ended, but not for long."""
        self._ended.wait(patience_s)

    def run(self, function: Callable[[Work], Any], room: threading.Semaphore) -> None:
        """Do it, when there is room."""
        try:
            with room:
                if not self._stopping.is_set():
                    self.result = function(self)
        except Stopped:
            self.failure = "it was stopped"
        except Exception as error:  # noqa: BLE001 - shown on the page
            self.failure = str(error) or type(error).__name__
        finally:
            self.is_finished = True
            self._ended.set()

    def to_json(self) -> dict[str, Any]:
        """Its progress as JSON values."""
        return {"done": self.done, "total": self.total, "finished": self.is_finished, "failure": self.failure}


class Works:
    """All work of one viewer, each piece once."""

    def __init__(self) -> None:
        self._works: dict[Hashable, Work] = {}
        self._lock = threading.Lock()
        self._room = threading.Semaphore(AT_ONCE)

    def get(self, key: Hashable, label: str, function: Callable[[Work], Any], *, patience_s: float = 0.0) -> Work:
        """The work of this key; it starts if it is new, and again if it failed and a page has shown that, as after a fault of the network.

        Args:
            key: What it is about.
            label: What it is, for people.
            function: Does it: calls ``work.advance`` often, and returns the result.
            patience_s: How long to wait for its end.
        """
        with self._lock:
            work = self._works.get(key)
            if work is None or work.has_told:
                while len(self._works) >= MOST_KEPT:
                    self._works.pop(next(iter(self._works))).stop()
                work = self._works[key] = Work(label)
                start_thread(work.run, function, self._room, name=f"headrace-view-{label}", stop=work.stop)
        work.wait(patience_s)
        work.has_told = work.is_finished and work.failure is not None
        return work

    def find(self, key: Hashable) -> Work | None:
        """The work of this key, if it was started."""
        with self._lock:
            return self._works.get(key)

    def stop(self) -> None:
        """Make all of it end."""
        with self._lock:
            for work in self._works.values():
                work.stop()
