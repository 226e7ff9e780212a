"""Forked children, for tests of what survives a fork."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable

__all__ = ["exit_code", "fork", "fork_killed"]

MOST_S = 120
"""A child that hangs is ended after so long, by a signal."""


def fork(work: Callable[[], object]) -> int:
    """Start a child that exits with 0 if ``work()`` is true, 1 if false, 2 if it raises. Returns its process ID."""
    with warnings.catch_warnings():
        # JAX warns of every fork once it is loaded, and Python (from 3.12 on) once there are threads. Work here uses neither.
        warnings.filterwarnings("ignore", message=".*fork", category=RuntimeWarning)
        warnings.filterwarnings("ignore", message=".*fork", category=DeprecationWarning)
        child = os.fork()
    if child != 0:
        return child
    code = 2
    try:
        faulthandler.register(signal.SIGALRM, file=2, chain=True)  # shows where it hangs
        signal.alarm(MOST_S)
        code = 0 if work() else 1
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)  # instead of returning into the tests, which continue in the parent


def fork_killed(work: Callable[[], object], share: float) -> int:
    """Start a child that kills itself in ``work()`` after this share of its function calls. Returns its process ID."""
    calls = last = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1
        if calls == last:
            os.kill(os.getpid(), signal.SIGKILL)

    def run() -> None:
        nonlocal calls, last
        threading.setprofile(count)
        sys.setprofile(count)
        work()  # imports what it needs, and starts its threads
        calls = 0
        work()
        calls, last = 0, max(1, int(calls * share))
        work()
        os.kill(os.getpid(), signal.SIGKILL)  # The previous run took fewer calls.

    return fork(run)


def exit_code(child: int) -> int:
    """Wait for the end of a child."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
