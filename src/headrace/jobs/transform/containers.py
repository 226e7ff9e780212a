"""The containers of a job, loaded: each worker is a process that answers one request, or batch of them, at a time.

A process and not a thread: a call that takes too long can be ended, one that crashes takes nothing with it, and variables
such as ``SAGEMAKER_BATCH`` are seen by the container only.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from headrace.contracts.serving import Request, Response
from headrace.errors import JobFailed, RequestError
from headrace.hosting.stage import Stage
from headrace.hosting.workers.frames import Receiver, answers_from, pack_requests
from headrace.hosting.workers.process import WorkerProcess, order_for

__all__ = ["ContainerOutput", "ContainerProcess", "with_environment"]

END_S = 5.0
LONGEST_LINE_BYTES = 64 << 10


def with_environment(stages: Sequence[Stage], variables: Mapping[str, str]) -> list[Stage]:
    """The same containers with more variables, which come before their own."""
    return [replace(stage, environment={**stage.environment, **variables}) for stage in stages]


class ContainerOutput:
    """What containers print, line by line.

    Args:
        write: Takes a line, in a thread.
    """

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        reading, self.descriptor = os.pipe()
        self._thread = threading.Thread(target=self._read, args=(reading,), name="headrace container log", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """No more lines will come, once the processes are gone."""
        os.close(self.descriptor)
        self._thread.join(END_S)

    def _read(self, reading: int) -> None:
        with open(reading, "rb") as file:
            while line := file.readline(LONGEST_LINE_BYTES):
                self._write(line.decode("utf-8", "replace").rstrip("\r\n"))


class ContainerProcess:
    """One worker. Started at first need; and anew after it has died, or was ended because an answer took too long.

    Args:
        stages: The containers, their models unpacked.
        variables: Of the process, on top of ours.
        output: Descriptor that takes what it prints.
    """

    def __init__(self, stages: Sequence[Stage], variables: Mapping[str, str], output: int) -> None:
        self._order = order_for(stages)
        self._variables = dict(variables)
        self._output = output
        self._lock = threading.Lock()
        self._process: WorkerProcess | None = None
        self._receiver: Receiver | None = None
        self._ended = False
        self.told: Mapping[str, Any] = {}
        """What the containers said of themselves when they were loaded."""

    def load(self) -> None:
        """Load the models.

        Raises:
            JobFailed: One does not load; the message says which, and why.
        """
        with self._lock:
            if self._ended:
                raise JobFailed("the job is stopping")
            process = self._process = WorkerProcess(self._order, environment=self._variables, output=self._output)
        receiver = self._receiver = Receiver(process.sockets[0])
        message = receiver.receive()
        told = {"reason": f"its process {self._reap()}"} if message is None else message.head
        if not told.get("ready"):
            if message is not None:
                self._reap()
            raise JobFailed(f"AlgorithmError: the model does not load: {told['reason']}")
        self.told = told

    def ask(self, requests: Sequence[Request], timeout_s: float) -> list[Response | Exception]:
        """Answers in the order of the requests; what went wrong in the place of an answer. For one thread at a time."""
        try:
            if self._process is None:
                self.load()
        except (JobFailed, OSError) as error:
            return [RequestError(503, str(error))] * len(requests)
        return self._answers(requests, timeout_s)

    def interrupt(self) -> None:
        """End it for good: who waits for an answer gets an error instead. From any thread."""
        with self._lock:
            self._ended = True
            if self._process is not None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """End it."""
        if self._process is not None:
            self._taken().kill()

    def _answers(self, requests: Sequence[Request], timeout_s: float) -> list[Response | Exception]:
        assert self._process is not None
        assert self._receiver is not None
        connection = self._process.sockets[0]
        connection.settimeout(timeout_s)
        try:
            connection.sendall(pack_requests(requests))
            message = self._receiver.receive()
            answers = [] if message is None else answers_from(message)
        except TimeoutError:
            name = self._process.at_work.name(0)
            self.close()
            reason = f"no answer came within {timeout_s:g} s (invocations_timeout_s)"
            return [RequestError(504, reason, container=name)] * len(requests)
        except (OSError, ValueError, KeyError):
            answers = []
        if len(answers) == len(requests):
            return answers
        name = self._process.at_work.name(0)
        reason = f"the process of the container {self._reap()} while it had this request"
        return [RequestError(503, reason, container=name)] * len(requests)

    def _taken(self) -> WorkerProcess:
        with self._lock:
            process, self._process = self._process, None
        assert process is not None
        return process

    def _reap(self) -> str:
        """How it ended."""
        process = self._taken()
        try:
            how = process.wait(END_S)
        except subprocess.TimeoutExpired:
            how = "went silent and was ended"
        process.kill()
        return how
