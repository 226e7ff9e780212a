"""Children made by fork, for tests of what is left of a thing in a child."""

from __future__ import annotations

import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable

__all__ = ["exit_code", "fork"]

MOST_S = 120
"""A child that hangs is ended after so long, by a signal."""


def fork(work: Callable[[], object]) -> int:
    """Start a child that ends with 0 if ``work()`` is true, with 1 if it is false, with 2 if it raises. Gives its process id."""
    with warnings.catch_warnings():
        # JAX warns of every fork once it is loaded, and Python (from 3.12 on) once there are threads. Work here uses neither.
        warnings.filterwarnings("ignore", message=".*fork", category=RuntimeWarning)
        warnings.filterwarnings("ignore", message=".*fork", category=DeprecationWarning)
        child = os.fork()
    if child != 0:
        return child
    code = 2
    try:
        signal.alarm(MOST_S)
        code = 0 if work() else 1
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)  # and not back into the tests, which go on in the parent


def exit_code(child: int) -> int:
    """Wait for the end of a child."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
