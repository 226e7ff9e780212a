"""What is done by another thread while this one goes on."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from functools import cache

from headrace.io.threads import ThreadPool

__all__ = ["Behind"]

DEPTH = 2  # calls that may be pending while the next is being prepared; each holds a block of about a megabyte
MOST_THREADS = 4  # for all files of a process together: a thousand shards need no thousand threads


class Behind:
    """Calls, made in order by a thread, or by whoever waits for them while no thread has time.

    An error of one is raised by the next :meth:`add` or :meth:`settle`; the calls behind it are not made. For one thread to use,
    and for one process: a forked child must leave what it inherited alone.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._calls: deque[Callable[[], object]] = deque()
        self._busy = False  # somebody makes calls
        self._error: BaseException | None = None
        self._failed = False

    def add(self, call: Callable[[], object]) -> None:
        """Have ``call`` made after those before it; waits while too many are pending."""
        with self._changed:
            self._raise()
            if self._failed:
                return
            self._calls.append(call)
            is_seen = self._busy
        if not is_seen:
            try:
                _threads(os.getpid()).submit(self._run)
            except RuntimeError:  # No thread is to be had.
                self._run()
        self._wait(DEPTH)

    def settle(self) -> None:
        """Wait until all calls are made."""
        self._wait(0)
        self._raise()

    def abandon(self) -> None:
        """Make no further calls, and wait for the end of the one being made; an error is of no interest any more."""
        with self._changed:
            self._failed = True
            self._calls.clear()
        self._wait(0)

    def _wait(self, most: int) -> None:
        """Wait until at most so many calls are pending; make them here where nobody else has begun to."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: not self._busy or len(self._calls) < most)
                if len(self._calls) + self._busy <= most:
                    return
            self._run()

    def _raise(self) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _run(self) -> None:
        with self._changed:
            if self._busy:
                return
            self._busy = True
        try:
            while (call := self._next()) is not None:
                try:
                    call()
                except BaseException as error:  # noqa: BLE001 - raised in the thread that adds
                    self._fail(error)
                del call  # What it holds must not live until the next one comes.
        except BaseException:  # Ctrl-C between two calls.
            self._busy = False
            raise

    def _next(self) -> Callable[[], object] | None:
        with self._changed:
            call = self._calls.popleft() if self._calls else None
            self._busy = call is not None
            self._changed.notify()
            return call

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            if not self._failed:
                self._error, self._failed = error, True
            self._calls.clear()


@cache
def _threads(_process: int) -> ThreadPool:
    """Threads that wait for calls. A forked child does not inherit them: it has its own."""
    return ThreadPool(MOST_THREADS, thread_name_prefix="headrace-write-behind")
