"""What this process may run on, and what of it is left for a call."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from headrace.io.cgroups import cpu_limit, whole_cpus

__all__ = ["among_others", "spare_cores", "usable_cores"]

_of_thread = threading.local()


def usable_cores() -> int:
    """How many cores this process may use: those it is bound to, where the system says so, and no more than its container is allowed
    to keep busy.
    """
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    allowed = _allowed_cores()
    return bound if allowed is None else min(bound, allowed)


@cache
def _allowed_cores() -> int | None:
    limit = cpu_limit()
    return None if limit is None else whole_cpus(limit)


@contextmanager
def among_others() -> Iterator[None]:
    """While this is entered, this thread is one of several at work, which all have something to do: see :func:`spare_cores`."""
    before = getattr(_of_thread, "is_one_of_several", False)
    _of_thread.is_one_of_several = True
    try:
        yield
    finally:
        _of_thread.is_one_of_several = before


def spare_cores() -> int:
    """How many threads may work on one call: as many as there are cores, for the main thread on its own. Any other thread is taken
    for one of several.
    """
    if threading.current_thread() is not threading.main_thread() or getattr(_of_thread, "is_one_of_several", False):
        return 1
    return usable_cores()
