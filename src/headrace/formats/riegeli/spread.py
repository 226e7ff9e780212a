"""Work of one call on several cores."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import TypeVar

from headrace.io.cores import spare_cores, usable_cores
from headrace.io.threads import ThreadPool

__all__ = ["spread"]

T = TypeVar("T")


def spread(work: Callable[[int, int], list[T]], count: int, *, least: int) -> list[T]:
    """The results of ``work(start, stop)`` over all of ``count`` items, in order, from as many cores as it is worth.

    The work must let go of the interpreter for most of its time. See :func:`headrace.io.cores.spare_cores` for whom that is done.

    Args:
        work: Gives the results for some of the items.
        count: How many items there are.
        least: Fewer than these are not worth waking a thread.
    """
    worth = count // least
    parts = min(spare_cores(), worth) if worth > 1 else 1
    if parts < 2:
        return work(0, count)
    bounds = [count * number // parts for number in range(parts + 1)]
    waiting = [_helpers(os.getpid()).submit(work, *part) for part in pairwise(bounds[1:])]
    done = work(0, bounds[1])
    for part in waiting:
        done += part.result()
    return done


@cache
def _helpers(_process: int) -> ThreadPool:
    """Threads that wait for work. A forked child does not inherit them: it has its own."""
    return ThreadPool(max(1, usable_cores() - 1), thread_name_prefix="headrace-unpack")
