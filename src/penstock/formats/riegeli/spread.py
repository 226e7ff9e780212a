"""Work of one call on several cores."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import TypeVar

from penstock.io.cores import usable_cores

__all__ = ["helping", "spread"]

T = TypeVar("T")


def helping() -> int:
    """How many threads may work on a call: all cores for the main thread. Any other is one of several that a loader runs already."""
    return usable_cores() if threading.current_thread() is threading.main_thread() else 1


def spread(work: Callable[[int, int], list[T]], count: int, *, least: int) -> list[T]:
    """The results of ``work(start, stop)`` over all of ``count`` items, in order, from as many cores as it is worth.

    The work must let go of the interpreter for most of its time. See :func:`helping` for whom that is done.

    Args:
        work: Gives the results for some of the items.
        count: How many items there are.
        least: Fewer than these are not worth waking a thread.
    """
    worth = count // least
    parts = min(helping(), worth) if worth > 1 else 1
    if parts < 2:
        return work(0, count)
    bounds = [count * number // parts for number in range(parts + 1)]
    waiting = [_helpers(os.getpid()).submit(work, *part) for part in pairwise(bounds[1:])]
    done = work(0, bounds[1])
    for part in waiting:
        done += part.result()
    return done


@cache
def _helpers(_process: int) -> ThreadPoolExecutor:
    """Threads that wait for work. A forked child does not inherit them: it has its own."""
    return ThreadPoolExecutor(max(1, usable_cores() - 1), thread_name_prefix="penstock-unpack")
