"""Runs one process: passes on its output line by line, stops it on request, and reports how it ended."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from headrace.containers.orphans import ProcessGuard

__all__ = ["ProcessResult", "run"]

READ_BYTES = 1 << 16
LINE_LIMIT_BYTES = 1 << 16  # longer lines are passed on in parts of this size
KEPT_LINES = 400  # of standard error, for the reason of a failure
POLL_S = 0.2
DRAIN_S = 5.0  # a grandchild may keep the output open after the process has ended


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessResult:
    """How a process ended.

    Args:
        status: Its exit status; negative: the signal that killed it.
        errors: The last lines of its standard error.
        was_stopped: Whether it was asked to stop.
        was_killed: Whether it did not stop in time and was killed.
    """

    status: int
    errors: tuple[str, ...]
    was_stopped: bool = False
    was_killed: bool = False


def run(
    command: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    log: Callable[[str], None],
    stop: threading.Event,
    grace_s: float,
    signal_group: bool = False,
) -> ProcessResult:
    """Run a command to its end.

    Args:
        command: Program and arguments, without a shell.
        cwd: Its working folder.
        environment: All of its variables.
        log: Called with each line of its output and standard error.
        stop: When set, the process gets SIGTERM, and SIGKILL ``grace_s`` later. The processes that it has started end with it.
        grace_s: How long it may take to stop.
        signal_group: Whether SIGTERM goes to the processes that it has started, too; for shells, which do not pass it on.

    Raises:
        OSError: It cannot be started.
    """
    guard = ProcessGuard()
    process = subprocess.Popen(  # noqa: S603 - the user's own command
        list(command),
        cwd=cwd,
        env={**environment, **guard.environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    guard.add_group(process.pid)
    watch = _Watcher(process, log, stop, grace_s, signal_group=signal_group)
    try:
        watch.wait()
    finally:
        _signal_group(process.pid, signal.SIGKILL)
        guard.remove_group(process.pid)
        process.wait()
        guard.kill_all()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
    return ProcessResult(
        status=process.returncode,
        errors=tuple(watch.errors),
        was_stopped=watch.stopped_at is not None,
        was_killed=watch.was_killed,
    )


def _signal_group(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


class _Watcher:
    """Reads the output of a process until it ends, and stops it on request."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        log: Callable[[str], None],
        stop: threading.Event,
        grace_s: float,
        *,
        signal_group: bool,
    ) -> None:
        self.errors: deque[str] = deque(maxlen=KEPT_LINES)
        self.stopped_at: float | None = None
        self.was_killed = False
        self._process = process
        self._log = log
        self._stop = stop
        self._grace_s = grace_s
        self._signal_group = signal_group
        self._rest: dict[int, bytes] = {}

    def wait(self) -> None:
        with selectors.DefaultSelector() as selector:
            for pipe in (self._process.stdout, self._process.stderr):
                assert pipe is not None
                os.set_blocking(pipe.fileno(), False)
                selector.register(pipe, selectors.EVENT_READ)
            ended_at: float | None = None
            while selector.get_map():
                for key, _ in selector.select(POLL_S):
                    if not self._read(key.fileobj):  # type: ignore[arg-type]
                        selector.unregister(key.fileobj)
                if ended_at is None and self._has_ended():
                    ended_at = time.monotonic()
                    _signal_group(
                        self._process.pid, signal.SIGKILL
                    )  # in SageMaker, its children end with the container
                if ended_at is not None and time.monotonic() - ended_at > DRAIN_S:
                    break
                self._check_stop()
        while not self._has_ended():  # it has closed its output and is still running
            self._check_stop()
            self._stop.wait(POLL_S) if self.stopped_at is None else time.sleep(POLL_S)

    def _has_ended(self) -> bool:
        """Whether it has ended. Does not reap it, so that no other process gets its number."""
        if not hasattr(os, "waitid"):  # macOS with a Python before 3.13
            return self._process.poll() is not None
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _read(self, pipe: IO[bytes]) -> bool:
        """Pass on available output. Returns whether more may come."""
        number = pipe.fileno()
        try:
            part = os.read(number, READ_BYTES)
        except BlockingIOError:
            return True
        lines = (self._rest.get(number, b"") + part).split(b"\n")
        rest = lines.pop()
        if not part or len(rest) > LINE_LIMIT_BYTES:
            lines, rest = [*lines, rest] if rest else lines, b""
        self._rest[number] = rest
        for line in lines:
            self._log_line(line, is_error=pipe is self._process.stderr)
        return bool(part)

    def _log_line(self, line: bytes, *, is_error: bool) -> None:
        text = line.decode("utf-8", "replace").rstrip("\r").rpartition("\r")[2]  # the last state of a progress bar
        if is_error:
            self.errors.append(text)
        self._log(text)

    def _check_stop(self) -> None:
        if not self._stop.is_set() or self._has_ended():
            return
        if self.stopped_at is None:
            self.stopped_at = time.monotonic()
            if self._signal_group:
                _signal_group(self._process.pid, signal.SIGTERM)
            else:
                os.kill(self._process.pid, signal.SIGTERM)
        elif not self.was_killed and time.monotonic() - self.stopped_at >= self._grace_s:
            self.was_killed = True
            _signal_group(self._process.pid, signal.SIGKILL)
