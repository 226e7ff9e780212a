"""Ctrl-C while the ``headrace`` command is still importing: one line, as later, where Python would show a traceback.

The package is imported before any code of the command runs, so it has to look itself what it was started as. Where it is
imported as a library, signals are left as they are.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from itertools import pairwise
from pathlib import PurePath
from types import FrameType

__all__ = ["INTERRUPTED", "raise_on_interrupt"]

INTERRUPTED = 130


def raise_on_interrupt() -> None:
    """Let Ctrl-C raise ``KeyboardInterrupt`` from now on, as it does in every Python program."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(_number: int, _frame: FrameType | None) -> None:
    # Not by an exception: what imports a module may take it for a reason to go on without it. Nothing was begun that wants tidying.
    with contextlib.suppress(OSError):
        if sys.stderr is not None:  # it is where the process was started without one: 2 is then some other file
            os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)


def _is_the_command() -> bool:
    # What the process itself was given: a process that another one spawns has the ``sys.argv`` of that one.
    given, program = sys.orig_argv, sys.argv[0] if getattr(sys, "argv", None) else ""
    if program == "-m":  # as long as Python looks for the module
        return ("-m", "headrace") in pairwise(given)
    return program in given and PurePath(program).stem == "headrace"


if _is_the_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, _end)
