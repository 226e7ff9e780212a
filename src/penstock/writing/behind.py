"""Writing in a thread while the next block is being encoded."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

__all__ = ["Behind"]

DEPTH = 2  # blocks that wait to be written; each is some megabytes


class Behind:
    """Calls, made in order by a thread of their own. An error of one is raised at the next call, or by :meth:`finish`."""

    def __init__(self) -> None:
        self._calls: queue.Queue[Callable[[], object] | None] = queue.Queue(DEPTH)
        self._error: BaseException | None = None
        self._failed = False
        self._thread = threading.Thread(target=self._run, name="penstock-write-behind", daemon=True)
        self._thread.start()

    def add(self, call: Callable[[], object]) -> None:
        """Have ``call`` made after those before it; waits while too many are waiting."""
        self._raise()
        self._calls.put(call)

    def finish(self) -> None:
        """Wait until all calls are made."""
        self._stop()
        self._raise()

    def abandon(self) -> None:
        """Make no further calls; an error is of no interest any more."""
        self._failed = True
        self._stop()

    def _stop(self) -> None:
        if self._thread.is_alive():
            self._calls.put(None)
            self._thread.join()

    def _raise(self) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            self._stop()
            raise error

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            if self._failed:
                continue  # What comes behind an error is not written; the queue is emptied so that nobody waits.
            try:
                call()
            except BaseException as error:  # noqa: BLE001 - raised in the thread that writes
                self._error, self._failed = error, True
