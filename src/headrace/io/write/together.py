"""Files that get their names together, once the disk has the bytes of all of them."""

from __future__ import annotations

from concurrent.futures import Future
from contextvars import ContextVar
from types import TracebackType
from typing import Protocol, Self

from headrace.io.system import sync_folder
from headrace.io.threads import ThreadPool

__all__ = ["Closable", "Ended", "Together", "joined"]


MOST_THREADS = 8  # that wait for the disk: what they wait for is mostly one commit of its journal, for all of them
MOST_OPEN = 64  # files that wait; a process may often have no more than 256 open, or 1,024


class Closable(Protocol):
    """Whatever writes files, and ends them by ``close``."""

    def close(self) -> None: ...


class Ended(Protocol):
    """A file that has all its bytes, but not its name."""

    def make_durable(self) -> None:
        """Wait until the disk has the bytes."""

    def let_go(self) -> None:
        """Close it: only its name is missing."""

    def give_name(self) -> str:
        """Put it into its place; returns the folder, whose names the disk does not have yet, or "" if it need not."""

    def abort(self) -> None:
        """Leave nothing behind. Does nothing once it has its name."""


class Together:
    """A context in which files end one after the other. They get their names when it is left, or none does after an exception.

    Threads wait for the disk meanwhile. Within another one, files get their names when that is left.
    """

    def __init__(self) -> None:
        self._files: list[Ended] = []
        self._waiting: list[Future[None]] = []
        self._threads: ThreadPool | None = None

    def close(self, writer: Closable) -> None:
        """Close what writes files; those that know of this wait for their names."""
        if _current.get() is not None:
            writer.close()
            return
        token = _current.set(self)
        try:
            writer.close()
        finally:
            _current.reset(token)

    def add(self, file: Ended) -> None:
        """Take a file that has ended."""
        self._files.append(file)
        if len(self._files) == 1:
            return  # One alone needs no thread.
        if self._threads is None:
            self._threads = ThreadPool(MOST_THREADS, thread_name_prefix="headrace-make-durable")
        while len(self._waiting) < len(self._files):
            self._waiting.append(self._threads.submit(self._files[len(self._waiting)].make_durable))
        durable = len(self._files) - MOST_OPEN - 1
        if durable >= 0:
            self._waiting[durable].result()
            self._files[durable].let_go()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            if self._threads is not None:
                self._threads.shutdown(wait=True, cancel_futures=True)
            for file in self._files:
                file.abort()

    def _finish(self) -> None:
        if self._threads is None:
            for file in self._files:
                file.make_durable()
        for waiting in self._waiting:
            waiting.result()
        folders = {file.give_name() for file in self._files}
        for folder in folders - {""}:
            sync_folder(folder)


_current: ContextVar[Together | None] = ContextVar("headrace-together", default=None)


def joined(file: Ended) -> bool:
    """Whether a file that has ended will get its name together with others."""
    together = _current.get()
    if together is None:
        return False
    together.add(file)
    return True
