"""Starting a process that answers requests, ending it with its parent, and knowing which container of a pipeline each request is in.

The container is a byte in memory that the worker shares with its server, which reads it only when the worker has died or takes too long: a
message would wake the server for every container.
"""

from __future__ import annotations

import contextlib
import io
import mmap
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from headrace.containers.orphans import Tied
from headrace.errors import HeadraceError
from headrace.hosting.stage import Stage, names_of
from headrace.hosting.workers.frames import pack
from headrace.io.system import usable_cores

__all__ = [
    "AtWork",
    "WorkerProcess",
    "alone",
    "end_with",
    "new_memory",
    "numeric_threads",
    "order_for",
    "print_anyway",
    "search_path",
    "start",
]


class AtWork:
    """One number for each channel: 0, or that of the container that has its request.

    Args:
        descriptor: What :func:`new_memory` has given, here or in the other process. It may be closed afterwards.
        channels: How many requests, or batches of them, are worked on at a time.
        names: Of the containers. One that is alone is not named.
    """

    def __init__(self, descriptor: int, channels: int, names: Sequence[str]) -> None:
        self._memory = mmap.mmap(descriptor, channels)
        self._names = (None, *names) if len(names) > 1 else (None,)
        self._numbers = {name: number for number, name in enumerate(self._names)}

    def enter(self, channel: int, name: str | None) -> None:
        """The request of a channel goes to a container, or has left the last one."""
        self._memory[channel] = self._numbers.get(name, 0)

    def name(self, channel: int) -> str | None:
        """Which container has the request of a channel."""
        number = self._memory[channel]
        return self._names[number] if number < len(self._names) else None


def new_memory(channels: int) -> int:
    """The descriptor of zeros that processes can share."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("headrace-at-work")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.truncate(descriptor, channels)
    return descriptor


THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def start(module: str) -> list[str]:
    """Arguments of Python that run ``main`` of one of our modules.

    Our own folder goes behind those of the interpreter, whose packages are its own, and the working folder is not looked
    into: what a caller can import is in :func:`search_path`.
    """
    root = str(Path(__file__).resolve().parents[3])
    return ["-u", "-P", "-c", f"import sys; sys.path.append({root!r}); from {module} import main; main()"]


def search_path() -> list[str]:
    """The folders in which this process looks for modules."""
    return [folder or str(Path.cwd()) for folder in sys.path]


def order_for(stages: Sequence[Stage], *, direct: bool = False, max_between_bytes: int = 5 << 20) -> dict[str, Any]:
    """What a worker is told to load."""
    return {
        "stages": [stage.to_json() for stage in stages],
        "names": names_of(stages),
        "direct": direct,
        "max_between_bytes": max_between_bytes,
        "path": search_path(),
    }


def numeric_threads(workers: int) -> dict[str, str]:
    """Variables that give every worker its share of the processors, where nobody has said otherwise.

    Numeric libraries take all of them in each process: workers would then keep each other from working.
    """
    share = str(max(1, usable_cores() // max(1, workers)))
    return {} if any(name in os.environ for name in THREADS) else dict.fromkeys(THREADS, share)


class WorkerProcess:
    """A running worker.

    It ends when this process does, however this one ends: the worker holds the reading end of a pipe of which only we
    hold the writing end, and a watchdog kills it where it does not look. It leads a process group of its own, so that what it
    has started ends with it.

    Args:
        order: What it is to load.
        channels: How many requests, or batches of them, it is to work on at a time.
        interpreter: Another Python than this one.
        environment: Variables on top of ours.
        output: Descriptor of what takes its output and its errors, where they are not to go where ours go.

    Raises:
        HeadraceError: This system cannot hand sockets to a new process (Windows).
        OSError: The process cannot be started.
    """

    def __init__(
        self,
        order: Mapping[str, Any],
        *,
        channels: int = 1,
        interpreter: str | None = None,
        environment: Mapping[str, str] | None = None,
        output: int | None = None,
    ) -> None:
        if sys.platform == "win32":
            raise HeadraceError("worker processes need a POSIX system; workers=0 answers in the server's own process")
        pairs = [socket.socketpair() for _ in range(channels)]
        self.sockets = [ours for ours, _ in pairs]
        theirs = [other for _, other in pairs]
        self._life = -1
        passed: list[int] = []
        try:
            self._tied = Tied()
            passed.append(new_memory(channels))
            self.at_work = AtWork(passed[0], channels, order["names"])
            life, self._life = os.pipe()
            passed += [life, *(other.fileno() for other in theirs)]
            command = [interpreter or sys.executable, *start("headrace.hosting.workers.child"), *map(str, passed)]
            self._process = subprocess.Popen(  # noqa: S603 - our own code, under the interpreter that was asked for
                command,
                pass_fds=passed,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env={**os.environ, **(environment or {}), **self._tied.environment},
            )
            self._tied.add_group(self._process.pid)
        except OSError:
            self._close()
            raise
        finally:
            for descriptor in passed[:2]:
                os.close(descriptor)
            for other in theirs:
                other.close()
        self.pid = self._process.pid
        with contextlib.suppress(OSError):  # It died already: whoever waits for its answer sees that.
            self.sockets[0].sendall(pack({"order": order if interpreter is None else _elsewhere(order)}))

    @property
    def has_ended(self) -> bool:
        """Whether it is over."""
        return self._process.poll() is not None

    def wait(self, timeout_s: float | None = None) -> str:
        """Wait for its end, and say how it ended.

        Raises:
            subprocess.TimeoutExpired: It goes on.
        """
        status = self._process.wait(timeout_s)
        if status < 0:
            return f"was killed by {_signal_name(-status)}"
        return f"ended with exit status {status}"

    def kill(self) -> None:
        """End it and everything that it has started, at once, and let go of its sockets."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._tied.remove_group(self.pid)
        self._process.wait()
        self._close()

    def release(self) -> None:
        """Tell it to end by itself: the worker sees that nobody is there any more."""
        self._close()

    def _close(self) -> None:
        for ours in self.sockets:
            ours.close()
        if self._life >= 0:
            os.close(self._life)
            self._life = -1


def _elsewhere(order: Mapping[str, Any]) -> dict[str, Any]:
    """The same order for another interpreter: it has its own folders, and is started by us already."""
    return {**order, "path": []}


def alone(stage: Stage) -> Stage:
    """What the process of an isolated stage is to load: the same, in its own process."""
    return replace(stage, isolated=False, interpreter=None, environment={})


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


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
