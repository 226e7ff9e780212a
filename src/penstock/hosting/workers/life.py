"""A process that ends when the one that started it does."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading

if sys.platform == "linux":
    import ctypes

__all__ = ["end_with"]

PR_SET_PDEATHSIG = 1


def end_with(life: int) -> None:
    """End this process and its group when the other end of a pipe is closed.

    A thread waits for that. Where code that never gives up the interpreter's lock would keep the thread from running,
    Linux is asked to kill us as well.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    threading.Thread(target=_wait, args=(life,), name="penstock-life", daemon=True).start()


def _wait(life: int) -> None:
    with contextlib.suppress(OSError):
        while os.read(life, 1):
            pass
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
