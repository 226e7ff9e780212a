"""Kills the processes that this process has started when this process ends, even by SIGKILL.

A small separate process, the watchdog, waits on a pipe whose other end only we hold. When we end, it kills the registered process
groups and, on Linux, every process with our mark in its environment, which finds daemons that have left their group. Signals at a
parent's death (PR_SET_PDEATHSIG) would not do: they reach children only, and are sent when the thread that started the child ends.

The watchdog runs this file as a script without headrace, so it imports the standard library only.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import signal
import sys
import threading
import time
from pathlib import Path

__all__ = ["MARK", "ProcessGuard"]

MARK = "HEADRACE_STARTED_BY"
LOOK_S = 1.0
ROUNDS, PAUSE_S = 100, 0.02
IS_POSIX = os.name == "posix"


class ProcessGuard:
    """Ensures that processes started with :attr:`environment` do not outlive this one.

    Create it before the process, and add the process once it runs. If this process is killed in between, the mark is enough.
    """

    def __init__(self) -> None:
        self._mark = secrets.token_hex(16)
        _WATCHDOG.send(f"mark {self._mark}")

    @property
    def environment(self) -> dict[str, str]:
        """Variables for the process. They include the marks of this process itself."""
        return {MARK: ",".join(filter(None, (os.environ.get(MARK), self._mark)))}

    def add_group(self, leader: int) -> None:
        """Register a started process that leads its own group."""
        _WATCHDOG.send(f"add {leader}")

    def remove_group(self, leader: int) -> None:
        """Unregister a group, before its leader is reaped and another process may get its number."""
        _WATCHDOG.send(f"remove {leader}")

    def kill_all(self) -> None:
        """Kill all processes with the mark, in any group (on Linux)."""
        _kill_marked({self._mark})


class _Watchdog:
    """The watchdog process. It is started when first needed, and again if it has died."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pipe = -1
        self._lines: list[str] = []

    def send(self, line: str) -> None:
        if not IS_POSIX or not sys.executable:
            return
        with self._lock:
            self._lines.append(line)
            if line.startswith("remove "):
                self._lines = [kept for kept in self._lines if kept.split()[1] != line.split()[1]]
            try:
                os.write(self._pipe, f"{line}\n".encode())
            except OSError:  # not yet started, or killed
                self._start()

    def _start(self) -> None:
        if self._pipe >= 0:
            old, self._pipe = self._pipe, -1  # If no new pipe can be made, the number may soon be another file's.
            os.close(old)
        theirs, self._pipe = os.pipe()
        # Not by subprocess, which warns about processes that outlive Python, as this one must.
        os.set_inheritable(theirs, True)  # noqa: FBT003
        command = [sys.executable, "-I", "-S", __file__, str(theirs), str(os.getpid())]
        variables = {name: value for name, value in os.environ.items() if name != MARK}
        quiet = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
        try:
            os.posix_spawn(sys.executable, command, variables, file_actions=quiet)
            os.write(self._pipe, "".join(f"{each}\n" for each in self._lines).encode())
        except OSError:  # no more processes: then the process to watch does not start either
            return
        finally:
            os.close(theirs)

    def forget(self) -> None:
        """Forget everything in a forked process: the parent watches its own processes."""
        self._lock = threading.Lock()
        self._lines = []
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1


_WATCHDOG = _Watchdog()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_WATCHDOG.forget)


def _kill_marked(marks: set[str]) -> None:
    """Kill the processes that have one of these marks, and those that they start meanwhile."""
    for _ in range(ROUNDS):
        found = [pid for pid in _processes() if pid != os.getpid() and _has_mark(pid, marks)]
        if not found:
            return
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(PAUSE_S)


def _processes() -> list[int]:
    try:
        return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    except OSError:
        return []


def _has_mark(pid: int, marks: set[str]) -> bool:
    try:
        content = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # another user's, or ended
        return False
    begin = f"{MARK}=".encode()
    values = [part[len(begin) :] for part in content.split(b"\0") if part.startswith(begin)]
    return any(not marks.isdisjoint(value.decode("ascii", "replace").split(",")) for value in values)


def _watch(pipe: int, parent: int) -> None:
    """Read registrations from the parent until it ends, and then kill what it registered."""
    os.setsid()
    os.chdir("/")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)  # services signal all their processes; only the end of the parent counts
    marks: set[str] = set()
    groups: set[int] = set()
    rest = b""
    while True:
        if not select.select([pipe], [], [], LOOK_S)[0]:
            if os.getppid() != parent:  # A forked process may hold the pipe open.
                break
            continue
        part = os.read(pipe, 1 << 16)
        if not part:
            break
        *lines, rest = (rest + part).split(b"\n")
        for verb, argument in (line.decode().split() for line in lines):
            if verb == "mark":
                marks.add(argument)
            elif verb == "add":
                groups.add(int(argument))
            else:
                groups.discard(int(argument))
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
    _kill_marked(marks)


if __name__ == "__main__":
    _watch(int(sys.argv[1]), int(sys.argv[2]))
