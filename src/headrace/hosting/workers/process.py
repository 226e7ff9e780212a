"""Starts a worker process, ends it with its parent, and records which container of a pipeline has each request.

That record is a byte in memory that the worker shares with its server. The server reads it only if the worker dies or takes too
long. A message instead would wake the server for every container.
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

from headrace.containers.orphans import ProcessGuard
from headrace.errors import HeadraceError
from headrace.hosting.stage import Stage, container_names
from headrace.hosting.workers.frames import pack
from headrace.io.system import search_path, usable_cores

__all__ = [
    "CurrentContainer",
    "WorkerProcess",
    "create_shared_memory",
    "end_with_parent",
    "ignore_output_errors",
    "numeric_thread_variables",
    "python_arguments",
    "without_isolation",
    "worker_spec",
]


class CurrentContainer:
    """The container that has the request of each channel: a number per channel, 0 for none.

    Args:
        descriptor: From :func:`create_shared_memory`, here or in the other process. It may be closed afterwards.
        channels: The number of requests, or batches, in progress at a time.
        names: The names of the containers. A single container is not named.
    """

    def __init__(self, descriptor: int, channels: int, names: Sequence[str]) -> None:
        self._memory = mmap.mmap(descriptor, channels)
        self._names = (None, *names) if len(names) > 1 else (None,)
        self._numbers = {name: number for number, name in enumerate(self._names)}

    def enter(self, channel: int, name: str | None) -> None:
        """Note that a container gets the request of a channel; ``None`` after the last one."""
        self._memory[channel] = self._numbers.get(name, 0)

    def name(self, channel: int) -> str | None:
        """The container that has the request of a channel."""
        number = self._memory[channel]
        return self._names[number] if number < len(self._names) else None


def create_shared_memory(channels: int) -> int:
    """The descriptor of zeroed memory that processes can share."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("headrace-current-container")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.truncate(descriptor, channels)
    return descriptor


THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def python_arguments(module: str) -> list[str]:
    """Arguments for Python to run ``main`` of one of our modules.

    Our folder comes last on ``sys.path``, so that the interpreter uses its own packages. The working folder is not on it;
    :func:`headrace.io.system.search_path` has what the caller can import.
    """
    root = str(Path(__file__).resolve().parents[3])
    return ["-u", "-P", "-c", f"import sys; sys.path.append({root!r}); from {module} import main; main()"]


def worker_spec(stages: Sequence[Stage], *, direct: bool = False, max_between_bytes: int = 5 << 20) -> dict[str, Any]:
    """What a worker has to load, as JSON values."""
    return {
        "stages": [stage.to_json() for stage in stages],
        "names": container_names(stages),
        "direct": direct,
        "max_between_bytes": max_between_bytes,
        "path": search_path(),
    }


def numeric_thread_variables(workers: int) -> dict[str, str]:
    """Variables that give every worker its share of the processors, unless one of them is set already.

    By default, numeric libraries start a thread per processor in each process, and the workers would slow each other down.
    """
    share = str(max(1, usable_cores() // max(1, workers)))
    return {} if any(name in os.environ for name in THREADS) else dict.fromkeys(THREADS, share)


class WorkerProcess:
    """A running worker.

    It ends with this process, even if this one is killed: the worker waits on a pipe whose only writing end is here, and a watchdog
    kills a worker that cannot react. It leads its own process group, so that the processes that it starts end with it.

    Args:
        spec: What to load, from :func:`worker_spec`.
        channels: The number of requests, or batches, that it works on at a time.
        interpreter: Another Python interpreter.
        environment: Variables added to ours.
        output: A descriptor for its standard output and standard error; by default ours.

    Raises:
        HeadraceError: The system cannot pass sockets to a new process (Windows).
        OSError: The process cannot be started.
    """

    def __init__(
        self,
        spec: Mapping[str, Any],
        *,
        channels: int = 1,
        interpreter: str | None = None,
        environment: Mapping[str, str] | None = None,
        output: int | None = None,
    ) -> None:
        if sys.platform == "win32":
            raise HeadraceError("worker processes need a POSIX system; workers=0 answers in the server's own process")
        pairs = [socket.socketpair() for _ in range(channels)]
        self.sockets: list[socket.socket] = [ours for ours, _ in pairs]
        theirs = [other for _, other in pairs]
        self._parent_pipe = -1
        passed: list[int] = []
        try:
            self._tied = ProcessGuard()
            passed.append(create_shared_memory(channels))
            self.current_container: CurrentContainer = CurrentContainer(passed[0], channels, spec["names"])
            parent_pipe, self._parent_pipe = os.pipe()
            passed += [parent_pipe, *(other.fileno() for other in theirs)]
            command = [
                interpreter or sys.executable,
                *python_arguments("headrace.hosting.workers.child"),
                *map(str, passed),
            ]
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
        self.pid: int = self._process.pid
        with contextlib.suppress(OSError):  # It died already. Waiting for its answer detects that.
            self.sockets[0].sendall(pack({"spec": spec if interpreter is None else {**spec, "path": []}}))

    @property
    def has_ended(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    def wait(self, timeout_s: float | None = None) -> str:
        """Wait for its end. Returns how it ended, in words.

        Raises:
            subprocess.TimeoutExpired: It is still running.
        """
        status = self._process.wait(timeout_s)
        if status < 0:
            return f"was killed by {_signal_name(-status)}"
        return f"ended with exit status {status}"

    def kill(self) -> None:
        """Kill it and the processes that it has started, and close its sockets."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._tied.remove_group(self.pid)
        self._process.wait()
        self._close()

    def release(self) -> None:
        """Close the connections, so that it ends by itself."""
        self._close()

    def _close(self) -> None:
        for ours in self.sockets:
            ours.close()
        if self._parent_pipe >= 0:
            os.close(self._parent_pipe)
            self._parent_pipe = -1


def without_isolation(stage: Stage) -> Stage:
    """The stage for the process of an isolated container to load."""
    return replace(stage, isolated=False, interpreter=None, environment={})


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def end_with_parent(pipe: int) -> None:
    """End this process and its group when the other end of a pipe is closed.

    A thread waits for that. If native code holds the GIL and the thread cannot run, the watchdog of the parent kills this process
    (:mod:`headrace.containers.orphans`). PR_SET_PDEATHSIG would not do: it leaves the processes that we have started running, and it is
    sent already when the thread that started us ends.
    """
    threading.Thread(target=_wait, args=(pipe,), name="headrace-parent-watch", daemon=True).start()


def _wait(pipe: int) -> None:
    with contextlib.suppress(OSError):
        while os.read(pipe, 1):
            pass
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def ignore_output_errors() -> None:
    """From now on, drop output that cannot be written, so that a full disk fails no request."""
    sys.stdout, sys.stderr = _forgiving_stream(sys.stdout), _forgiving_stream(sys.stderr)


def _forgiving_stream(stream: Any) -> Any:
    try:
        raw = _ForgivingFile(stream.fileno(), "w", closefd=False)
    except (AttributeError, OSError, ValueError):
        return stream  # Python was started without this stream.
    return io.TextIOWrapper(raw, encoding=stream.encoding, errors="backslashreplace", write_through=True)


class _ForgivingFile(io.FileIO):
    """A file that drops what it cannot write."""

    def write(self, text: Any, /) -> int:
        try:
            return super().write(text) or 0
        except OSError:
            return len(text)
