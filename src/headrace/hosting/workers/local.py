"""A pool of threads in the server's own process: for tests, and where no process may be started."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from headrace.contracts.serving import AnswersMany, Handler, Response
from headrace.errors import RequestError
from headrace.hosting.failures import ContainerError, as_failure
from headrace.hosting.metrics import Metrics
from headrace.hosting.pipeline import CallObserver, describe_execution_parameters
from headrace.hosting.settings import Settings
from headrace.hosting.workers.dispatch import Dispatcher, PendingRequest

__all__ = ["LocalPool"]

LOG = logging.getLogger("headrace.hosting")


class LocalPool:
    """Like :class:`~headrace.hosting.workers.pool.WorkerPool`, with threads instead of processes.

    A call that takes too long is answered with 504 and continues, because a thread cannot be killed.

    Args:
        make: Loads the model. Called once, in a thread, with the observer of its calls.
        settings: ``threads`` is the number of concurrent calls.
        dispatcher: Gives the threads requests.
        metrics: Counts the calls.
    """

    pids: Sequence[int] = ()

    def __init__(
        self,
        make: Callable[[CallObserver], Handler],
        settings: Settings,
        dispatcher: Dispatcher,
        metrics: Metrics,
    ) -> None:
        self._make, self._settings, self._dispatcher, self._metrics = make, settings, dispatcher, metrics
        self._threads = ThreadPoolExecutor(settings.threads, thread_name_prefix="headrace-handler")
        self._loading: asyncio.Task[None] | None = None
        self.unready: str | None = "the model is still being loaded"
        self.execution_parameters: Mapping[str, Any] | None = None
        self.execution_parameters_fault: str | None = None

    @property
    def ready(self) -> int:
        """1 if the model is loaded."""
        return int(self.unready is None)

    @property
    def accepts(self) -> bool:
        """Whether a request can be answered."""
        return self.unready is None

    async def start(self) -> None:
        """Start loading the model."""
        self._loading = asyncio.create_task(self._load())

    async def stop(self) -> None:
        """Accept no more requests. Does not wait for running calls."""
        if self._loading is not None:
            self._loading.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._dispatcher.refuse(RequestError(503, "the endpoint is stopping"))

    async def _load(self) -> None:
        loop = asyncio.get_running_loop()
        calls = _Calls(loop, self._metrics)
        try:
            handler = await loop.run_in_executor(self._threads, self._make, calls)
        except Exception as error:
            self.unready = f"the model does not load: {as_failure(error)}"
            LOG.exception("%s", self.unready)
            return
        members = getattr(handler, "members", ())
        first = members[0].handler if members else handler
        described = await loop.run_in_executor(self._threads, describe_execution_parameters, first)
        self.execution_parameters = described["execution_parameters"]
        self.execution_parameters_fault = described.get("execution_parameters_fault")
        self.unready = None
        for _ in range(self._settings.threads):
            self._dispatcher.attach(_ThreadChannel(handler, self._threads, self._dispatcher, calls))


class _Calls(threading.local):
    """Notes the container that each thread calls."""

    def __init__(self, loop: asyncio.AbstractEventLoop, metrics: Metrics) -> None:
        self.channel: _ThreadChannel | None = None
        self._loop, self._metrics = loop, metrics

    def call_started(self, name: str) -> None:
        if self.channel is not None:
            self.channel.container = name

    def call_ended(self, name: str, seconds: float, count: int) -> None:  # noqa: ARG002 - batches are counted when they start
        with contextlib.suppress(RuntimeError):  # The event loop is closed, and with it the metrics page.
            self._loop.call_soon_threadsafe(lambda: self._metrics.container_seconds.observe(seconds, name))


class _ThreadChannel:
    def __init__(self, handler: Handler, threads: ThreadPoolExecutor, dispatcher: Dispatcher, calls: _Calls) -> None:
        self._handler, self._threads, self._dispatcher, self._calls = handler, threads, dispatcher, calls
        self._is_alone = len(getattr(handler, "members", ())) <= 1
        self.many = isinstance(handler, AnswersMany)
        self.container: str | None = None

    def current_container(self) -> str | None:
        return None if self._is_alone else self.container

    def start(self, batch: Sequence[PendingRequest]) -> None:
        loop = asyncio.get_running_loop()
        task = loop.run_in_executor(self._threads, self._answers, batch)
        task.add_done_callback(lambda done: self._finish(batch, done))

    def _answers(self, batch: Sequence[PendingRequest]) -> Sequence[Response | Exception]:
        requests = [pending.request for pending in batch]
        self._calls.channel, self.container = self, None
        try:
            if len(requests) > 1 and isinstance(self._handler, AnswersMany):
                return self._handler.answer_many(requests)
            return [self._handler(requests[0])]
        except BaseException as error:  # noqa: BLE001 - it is the answer, and the thread must stay usable
            failure = as_failure(error)
            if isinstance(failure, ContainerError):
                LOG.error("%s", failure.trace or failure)  # noqa: TRY400 - log the container's traceback
            return [failure] * len(requests)

    def _finish(self, batch: Sequence[PendingRequest], done: asyncio.Future[Sequence[Response | Exception]]) -> None:
        error = RequestError(503, "the endpoint is stopping") if done.cancelled() else None
        try:
            self._dispatcher.resolve(batch, [error] * len(batch) if error else done.result())
        finally:
            self._dispatcher.done(self)
