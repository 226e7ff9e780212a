"""A model in the server's own process, answered in threads: for tests, and where no process may be started."""

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
from headrace.hosting.pipeline import Observer
from headrace.hosting.settings import Settings
from headrace.hosting.workers.dispatch import Dispatcher, Waiting

__all__ = ["LocalPool"]

LOG = logging.getLogger("headrace.hosting")


class LocalPool:
    """The same as :class:`~headrace.hosting.workers.pool.WorkerPool`, without workers.

    A call that takes longer than the limit is answered with 504, and goes on: a thread cannot be ended.

    Args:
        make: Loads the model, which tells an observer of its calls; is called once, in a thread.
        settings: ``threads`` is how many calls there are at a time.
        dispatcher: Gives the threads their work.
        metrics: Is told of the calls.
    """

    pids: Sequence[int] = ()

    def __init__(
        self,
        make: Callable[[Observer], Handler],
        settings: Settings,
        dispatcher: Dispatcher,
        metrics: Metrics,
    ) -> None:
        self._make, self._settings, self._dispatcher, self._metrics = make, settings, dispatcher, metrics
        self._threads = ThreadPoolExecutor(settings.threads, thread_name_prefix="headrace-handler")
        self._loading: asyncio.Task[None] | None = None
        self.unready: str | None = "the model is still being loaded"
        self.execution_parameters: Mapping[str, Any] | None = None

    @property
    def ready(self) -> int:
        """1 when the model is loaded."""
        return int(self.unready is None)

    @property
    def accepts(self) -> bool:
        """Whether a request can be answered."""
        return self.unready is None

    async def start(self) -> None:
        """Begin to load the model."""
        self._loading = asyncio.create_task(self._load())

    async def stop(self) -> None:
        """Take no more; calls that go on are not waited for."""
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
        found = getattr(members[0].handler if members else handler, "execution_parameters", None)
        self.execution_parameters = found() if callable(found) else found
        self.unready = None
        for _ in range(self._settings.threads):
            self._dispatcher.attach(_ThreadChannel(handler, self._threads, self._dispatcher, calls))


class _Calls(threading.local):
    """What the containers do in each of the threads."""

    def __init__(self, loop: asyncio.AbstractEventLoop, metrics: Metrics) -> None:
        self.channel: _ThreadChannel | None = None
        self._loop, self._metrics = loop, metrics

    def begins(self, name: str) -> None:
        if self.channel is not None:
            self.channel.container = name

    def ended(self, name: str, seconds: float, count: int) -> None:  # noqa: ARG002 - batches are counted where they start
        with contextlib.suppress(RuntimeError):  # The loop is closed: nobody looks at the metrics any more.
            self._loop.call_soon_threadsafe(lambda: self._metrics.container_seconds.observe(seconds, name))


class _ThreadChannel:
    def __init__(self, handler: Handler, threads: ThreadPoolExecutor, dispatcher: Dispatcher, calls: _Calls) -> None:
        self._handler, self._threads, self._dispatcher, self._calls = handler, threads, dispatcher, calls
        self._is_alone = len(getattr(handler, "members", ())) <= 1
        self.many = isinstance(handler, AnswersMany)
        self.container: str | None = None

    def at_work(self) -> str | None:
        return None if self._is_alone else self.container

    def start(self, batch: Sequence[Waiting]) -> None:
        loop = asyncio.get_running_loop()
        task = loop.run_in_executor(self._threads, self._answers, batch)
        task.add_done_callback(lambda done: self._finish(batch, done))

    def _answers(self, batch: Sequence[Waiting]) -> Sequence[Response | Exception]:
        requests = [waiting.request for waiting in batch]
        self._calls.channel, self.container = self, None
        try:
            if len(requests) > 1 and isinstance(self._handler, AnswersMany):
                return self._handler.answer_many(requests)
            return [self._handler(requests[0])]
        except Exception as error:  # noqa: BLE001 - it is the answer
            failure = as_failure(error)
            if isinstance(failure, ContainerError):
                LOG.error("%s", failure.trace or failure)  # noqa: TRY400 - its trace, not ours
            return [failure] * len(requests)

    def _finish(self, batch: Sequence[Waiting], done: asyncio.Future[Sequence[Response | Exception]]) -> None:
        error = RequestError(503, "the endpoint is stopping") if done.cancelled() else None
        self._dispatcher.settle(batch, [error] * len(batch) if error else done.result())
        self._dispatcher.done(self)
