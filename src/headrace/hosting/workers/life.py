"""A process that ends when the one that started it does, and not for less, such as a disk that is full of its log."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import threading
from typing import Any

__all__ = ["end_with", "print_anyway"]


def end_with(life: int) -> None:
    """End this process and its group when the other end of a pipe is closed.

    A thread waits for that. Where code that never gives up the interpreter's lock keeps the thread from running, the
    watchdog of the process that started us kills us (:mod:`headrace.containers.orphans`). A signal of the kernel at the parent's
    death would come first, and leave what we have started running; and it comes when the thread that started us ends.
    """
    threading.Thread(target=_wait, args=(life,), name="headrace-life", daemon=True).start()


def _wait(life: int) -> None:
    with contextlib.suppress(OSError):
        while os.read(life, 1):
            pass
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def print_anyway() -> None:
    """From now on, what is printed and cannot be written is lost, and the request goes on: the answer is worth more."""
    sys.stdout, sys.stderr = _text(sys.stdout), _text(sys.stderr)


def _text(stream: Any) -> Any:
    try:
        raw = _Log(stream.fileno(), "w", closefd=False)
    except (AttributeError, OSError, ValueError):
        return stream  # Python was started without it.
    return io.TextIOWrapper(raw, encoding=stream.encoding, errors="backslashreplace", write_through=True)


class _Log(io.FileIO):
    def write(self, text: Any, /) -> int:
        try:
            return super().write(text) or 0
        except OSError:
            return len(text)
