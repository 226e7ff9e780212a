"""Ctrl-C during the imports of the ``headrace`` command: one line, as later, not a traceback.

The package is imported before any code of the command runs, so it has to detect the command itself. Imported as a library, it
leaves signals alone.
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
    """Restore Python's handler: Ctrl-C raises ``KeyboardInterrupt``."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(_number: int, _frame: FrameType | None) -> None:
    # Not by an exception, which code around an import might catch. There is nothing to clean up yet.
    with contextlib.suppress(OSError):
        if sys.stderr is not None:  # without a stderr, descriptor 2 may be another file
            os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)


def _is_the_command() -> bool:
    # sys.orig_argv belongs to this process; a spawned process copies sys.argv from its parent.
    given, program = sys.orig_argv, sys.argv[0] if getattr(sys, "argv", None) else ""
    if program == "-m":  # while Python looks for the module
        return ("-m", "headrace") in pairwise(given)
    return program in given and PurePath(program).stem == "headrace"


if _is_the_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, _end)
