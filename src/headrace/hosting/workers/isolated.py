"""A container in its own process. For the pipeline it is a handler like any other."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Sequence
from typing import Any

from headrace.contracts.serving import Request, Response
from headrace.errors import RequestError
from headrace.hosting.failures import ContainerError
from headrace.hosting.stage import Stage
from headrace.hosting.workers.frames import FrameReceiver, answers_from, pack_requests
from headrace.hosting.workers.process import WorkerProcess, without_isolation, worker_spec

__all__ = ["BatchingIsolatedHandler", "IsolatedHandler", "isolated_handler"]

LOG = logging.getLogger("headrace.hosting")
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 30.0


class IsolatedHandler:
    """A handler whose container runs in another process, with its own environment and perhaps another interpreter.

    If that process dies, its requests are answered with 503, and the next request restarts it. If it dies again and again, there
    is a growing pause before the restart, and requests are answered with 503 in the meantime.
    """

    def __init__(self, stage: Stage, name: str, process: _ContainerProcess) -> None:
        self._stage = stage
        self._name = name
        self._lock = threading.Lock()
        self._pause_s = 0.0
        self._not_before = 0.0
        self._why = ""
        self._current = process
        self._loaded = process.loaded

    @property
    def pid(self) -> int:
        """The number of the current process."""
        return self._current.process.pid

    def __call__(self, request: Request, /) -> Response:
        """Answer one request.

        Raises:
            RequestError: The container refused it, or its process died.
            ContainerError: The container's code failed.
        """
        (answer,) = self._ask([request])
        if isinstance(answer, Exception):
            raise answer
        return answer

    def execution_parameters(self) -> Any:
        """What the container reports as its execution parameters; ``None`` if nothing.

        Raises:
            RequestError: Its code failed.
        """
        if fault := self._loaded.get("execution_parameters_fault"):
            raise RequestError(500, fault)
        return self._loaded.get("execution_parameters")

    def close(self) -> None:
        """End the process."""
        self._current.process.kill()

    def _ask(self, requests: Sequence[Request]) -> Sequence[Response | Exception]:
        process = self._running_process()
        answers = process.ask(requests)
        if answers is not None:
            self._pause_s = 0.0
            return answers
        reason = self._note_death(process)
        return [
            RequestError(503, f"the process of {self._name} {reason} while it had this request; send it again")
        ] * len(requests)

    def _running_process(self) -> _ContainerProcess:
        with self._lock:
            if not self._current.dead:
                if not self._current.process.has_ended:
                    return self._current
                self._collect(self._current)
            wait_s = self._not_before - time.monotonic()
            if wait_s > 0:
                raise RequestError(503, f"the process of {self._name} {self._why}; it restarts in {wait_s:.1f} s")
            try:
                self._current = _ContainerProcess(self._stage, self._current.channels)
            except ContainerError as error:
                self._postpone(f"does not load: {error}")
                raise RequestError(503, f"the process of {self._name} {self._why}") from error
            return self._current

    def _note_death(self, process: _ContainerProcess) -> str:
        with self._lock:
            if process is self._current and not process.dead:
                self._collect(process)
            return self._why

    def _collect(self, process: _ContainerProcess) -> None:
        process.dead = True
        process.process.kill()
        self._postpone(process.process.wait())
        LOG.warning("the process of %s %s", self._name, self._why)

    def _postpone(self, why: str) -> None:
        self._why = why
        self._not_before = time.monotonic() + self._pause_s
        self._pause_s = min(max(2 * self._pause_s, FIRST_PAUSE_S), LONGEST_PAUSE_S)


class BatchingIsolatedHandler(IsolatedHandler):
    """The same for a container that answers batches."""

    def answer_many(self, requests: Sequence[Request], /) -> Sequence[Response | Exception]:
        """Answer a batch. A request that fails has its error in place of a response."""
        return self._ask(requests)


class _ContainerProcess:
    """One process of the container, with its connections."""

    def __init__(self, stage: Stage, channels: int) -> None:
        self.channels = channels
        spec = worker_spec([without_isolation(stage)])
        self.process: WorkerProcess = WorkerProcess(
            spec, channels=channels, interpreter=stage.interpreter, environment=stage.environment
        )
        self.dead = False
        self.loaded: dict[str, Any] = {}
        self._free: queue.SimpleQueue[Any] = queue.SimpleQueue()
        connections = [(sock, FrameReceiver(sock)) for sock in self.process.sockets]
        frame = connections[0][1].receive()
        self.loaded = {"reason": f"its process {self._end()}"} if frame is None else frame.head
        if not self.loaded.get("ready"):
            self.process.kill()
            raise ContainerError("LoadError", self.loaded["reason"], trace=self.loaded.get("trace", ""))
        for connection in connections:
            self._free.put(connection)

    def ask(self, requests: Sequence[Request]) -> Sequence[Response | Exception] | None:
        """The answers, or ``None`` if the process has died."""
        sock, receiver = connection = self._free.get()
        try:
            sock.sendall(pack_requests(requests))
            frame = receiver.receive()
            answers = None if frame is None else answers_from(frame)
        except OSError:
            answers = None
        finally:
            self._free.put(connection)
        return answers if answers is not None and len(answers) == len(requests) else None

    def _end(self) -> str:
        self.process.kill()
        return self.process.wait()


def isolated_handler(stage: Stage, name: str, *, channels: int = 1) -> IsolatedHandler:
    """Start the process of a stage and wait until its model is loaded.

    Raises:
        ContainerError: It does not load.
    """
    process = _ContainerProcess(stage, channels)
    kind = BatchingIsolatedHandler if process.loaded.get("many") else IsolatedHandler
    return kind(stage, name, process)
