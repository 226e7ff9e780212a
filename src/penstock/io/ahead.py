"""Work that goes on in a thread while its results are used."""

from __future__ import annotations

import contextlib
import os
import queue
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

__all__ = ["ahead"]

T = TypeVar("T")


class _Last(Generic[T]):
    """The end of the items, and the error that made it."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def ahead(items: Iterable[T], *, depth: int = 8) -> Iterator[T]:
    """The same items, made by a thread of their own up to ``depth`` of them in advance.

    An exception of theirs is raised here, in its place. Closing this generator stops the thread and closes ``items``.
    """
    ready: queue.Queue[T | _Last[T]] = queue.Queue(depth)
    stop = threading.Event()
    thread = threading.Thread(target=_fill, args=(items, ready, stop), name="penstock-ahead", daemon=True)
    thread.start()
    process = os.getpid()
    try:
        while True:
            if os.getpid() != process:
                raise RuntimeError("this reading began before the process was forked; begin it anew in the child")
            item = ready.get()
            if not isinstance(item, _Last):
                yield item
                continue
            if item.error is not None:
                raise item.error
            return
    finally:
        stop.set()
        if os.getpid() == process:
            _join(thread, ready)


def _fill(items: Iterable[T], ready: queue.Queue[T | _Last[T]], stop: threading.Event) -> None:
    error: BaseException | None = None
    try:
        for item in items:
            ready.put(item)
            if stop.is_set():
                break
    except BaseException as failure:  # noqa: BLE001 - it is raised again where the items are used
        error = failure
    finally:
        close = getattr(items, "close", None)
        if close is not None:
            close()
        ready.put(_Last(error))


def _join(thread: threading.Thread, ready: queue.Queue[T | _Last[T]]) -> None:
    """The thread may be waiting for room."""
    while thread.is_alive() and not sys.is_finalizing():  # When the process ends, threads like ours just stop.
        with contextlib.suppress(queue.Empty):
            ready.get(timeout=0.01)
    if not sys.is_finalizing():
        thread.join()
