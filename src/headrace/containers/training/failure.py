"""Why a script failed: in one line for people, and as the toolkit writes it to ``output/failure``."""

from __future__ import annotations

import re
import shlex
import signal
from collections.abc import Sequence

from headrace.containers.toolkit.errors import ExecuteUserScriptError
from headrace.containers.training.process import Ended

__all__ = ["failure_text", "one_line", "reason"]

TRACEBACK = "Traceback (most recent call last):"
EXCEPTION = re.compile(
    r"[A-Za-z_][\w.]*(Error|Exception|Interrupt|Exit|Warning|Fault|Iteration|Timeout)\b|[A-Za-z_][\w.]*: "
)
REASON_LIMIT = 1024  # characters of FailureReason


def one_line(text: str) -> str:
    """A text without line ends, no longer than a FailureReason."""
    joined = " ".join(text.split())
    return joined if len(joined) <= REASON_LIMIT else joined[: REASON_LIMIT - 3] + "..."


def reason(ended: Ended, program: str) -> str:
    """What happened, in one line."""
    if ended.status < 0:
        name = _signal_name(-ended.status)
        hint = ": the machine may have run out of memory" if -ended.status == signal.SIGKILL else ""
        return one_line(f"{program} was killed by {name}{hint}")
    said = summary(ended.errors)
    return one_line(f"{program} failed with exit code {ended.status}" + (f": {said}" if said else ""))


def _signal_name(number: int) -> str:
    try:
        return f"{signal.Signals(number).name} (signal {number})"
    except ValueError:
        return f"signal {number}"


def summary(errors: Sequence[str]) -> str:
    """The exception at the end of the last traceback; the last line where there is none."""
    lines = [line for line in errors if line.strip()]
    if TRACEBACK in lines:
        behind = lines[len(lines) - lines[::-1].index(TRACEBACK) :]
        for place, line in enumerate(behind):
            if not line.startswith((" ", "\t")) and EXCEPTION.match(line):
                return " ".join([line, *behind[place + 1 : place + 4]])
    # argparse and others end with their own line, pythons without a traceback too
    return lines[-1] if lines else ""


def failure_text(ended: Ended, command: Sequence[str]) -> str:
    """The text of ``output/failure`` as the training toolkit writes it."""
    lines = list(ended.errors)
    begin = len(lines) - 1 - lines[::-1].index(TRACEBACK) if TRACEBACK in lines else max(0, len(lines) - 20)
    status = ended.status if ended.status >= 0 else 128 - ended.status
    info = "OutOfMemory: Process killed by SIGKILL (signal 9)" if status == 137 else None
    return str(ExecuteUserScriptError(shlex.join(command), status, "\n".join(lines[begin:]).strip(), info))
