"""A container in a process of its own, seen from the pipeline as a handler like any other."""

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
from headrace.hosting.workers.frames import Receiver, answers_from, pack_requests
from headrace.hosting.workers.process import WorkerProcess, alone, order_for

__all__ = ["BatchingIsolatedHandler", "IsolatedHandler", "isolated_handler"]

LOG = logging.getLogger("headrace.hosting")
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 30.0


class IsolatedHandler:
    """A handler whose container runs in another process, with its own environment and perhaps another Python.

    When that process dies, the requests that it had are answered with 503 (none, where it had none), and the next request
    starts it anew: after a pause that grows while it dies again and again, and during which requests are answered with 503
    at once.
    """

    def __init__(self, stage: Stage, name: str, running: _Running) -> None:
        self._stage = stage
        self._name = name
        self._lock = threading.Lock()
        self._pause_s = 0.0
        self._not_before = 0.0
        self._why = ""
        self._running = running
        self.execution_parameters = running.told.get("execution_parameters")

    @property
    def pid(self) -> int:
        """The process that answers now."""
        return self._running.process.pid

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

    def close(self) -> None:
        """End the process."""
        self._running.process.kill()

    def _ask(self, requests: Sequence[Request]) -> Sequence[Response | Exception]:
        running = self._alive()
        answers = running.ask(requests)
        if answers is not None:
            self._pause_s = 0.0
            return answers
        reason = self._lost(running)
        return [
            RequestError(503, f"the process of {self._name} {reason} while it had this request; send it again")
        ] * len(requests)

    def _alive(self) -> _Running:
        with self._lock:
            if not self._running.dead:
                if not self._running.process.has_ended:
                    return self._running
                self._bury(self._running)
            wait_s = self._not_before - time.monotonic()
            if wait_s > 0:
                raise RequestError(
                    503, f"the process of {self._name} {self._why}; it is started again in {wait_s:.1f} s"
                )
            try:
                self._running = _Running(self._stage, self._running.channels)
            except ContainerError as error:
                self._postpone(f"does not load: {error}")
                raise RequestError(503, f"the process of {self._name} {self._why}") from error
            return self._running

    def _lost(self, running: _Running) -> str:
        with self._lock:
            if running is self._running and not running.dead:
                self._bury(running)
            return self._why

    def _bury(self, running: _Running) -> None:
        running.dead = True
        running.process.kill()
        self._postpone(running.process.wait())
        LOG.warning("the process of %s %s", self._name, self._why)

    def _postpone(self, why: str) -> None:
        self._why = why
        self._not_before = time.monotonic() + self._pause_s
        self._pause_s = min(max(2 * self._pause_s, FIRST_PAUSE_S), LONGEST_PAUSE_S)


class BatchingIsolatedHandler(IsolatedHandler):
    """The same for a container that answers requests together."""

    def answer_many(self, requests: Sequence[Request], /) -> Sequence[Response | Exception]:
        """Answer requests together; in the place of each that fails is its error."""
        return self._ask(requests)


class _Running:
    """One life of the process."""

    def __init__(self, stage: Stage, channels: int) -> None:
        self.channels = channels
        order = order_for([alone(stage)])
        self.process = WorkerProcess(
            order, channels=channels, interpreter=stage.interpreter, environment=stage.environment
        )
        self.dead = False
        self.told: dict[str, Any] = {}
        self._free: queue.SimpleQueue[Any] = queue.SimpleQueue()
        connections = [(sock, Receiver(sock)) for sock in self.process.sockets]
        message = connections[0][1].receive()
        self.told = {"reason": f"its process {self._end()}"} if message is None else message.head
        if not self.told.get("ready"):
            self.process.kill()
            raise ContainerError("LoadError", self.told["reason"], trace=self.told.get("trace", ""))
        for connection in connections:
            self._free.put(connection)

    def ask(self, requests: Sequence[Request]) -> Sequence[Response | Exception] | None:
        """The answers, or ``None`` when the process is gone."""
        sock, receiver = connection = self._free.get()
        try:
            sock.sendall(pack_requests(requests))
            message = receiver.receive()
            answers = None if message is None else answers_from(message)
        except OSError:
            answers = None
        finally:
            self._free.put(connection)
        return answers if answers is not None and len(answers) == len(requests) else None

    def _end(self) -> str:
        self.process.kill()
        return self.process.wait()


def isolated_handler(stage: Stage, name: str, *, channels: int = 1) -> IsolatedHandler:
    """Start the process of a stage, and wait until its model is loaded.

    Raises:
        ContainerError: It does not load.
    """
    running = _Running(stage, channels)
    kind = BatchingIsolatedHandler if running.told.get("many") else IsolatedHandler
    return kind(stage, name, running)
