"""A pool of worker processes: starts them, gives them requests, replaces those that die, and ends them with the server."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from headrace.errors import HeadraceError, RequestError
from headrace.hosting.http.transport import RequestTimer, send, socket_descriptor
from headrace.hosting.metrics import Metrics
from headrace.hosting.settings import Settings
from headrace.hosting.workers.dispatch import Dispatcher, PendingRequest, timeout_error
from headrace.hosting.workers.frames import Frame, FrameUnpacker, answers_from, calls_from, pack_requests
from headrace.hosting.workers.process import WorkerProcess, numeric_thread_variables

__all__ = ["WorkerPool"]

LOG = logging.getLogger("headrace.hosting")
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 30.0
STEADY_S = 10.0
"""A worker that dies after answering for this long is replaced without a pause."""
END_S = 5.0
EXIT_STATUS_S = 10.0
"""How long after its connection closed the exit status of a worker may come. On a busy machine a second was too short."""


class WorkerPool:
    """Several workers, each of which holds the model.

    A worker that dies is replaced, after a pause that grows while workers die soon after their start. Its requests are answered
    with 503. Queued requests go to other workers, or wait for its replacement. While others answer, none starts with a model or a
    script that was changed since they loaded theirs: requests would be answered by one or the other in turn.

    Args:
        spec: What each worker has to load.
        settings: The number of workers, and the limits.
        dispatcher: Gives them requests.
        metrics: Counts their calls and deaths.
        files: Returns the state of each file of the models and scripts now.
    """

    def __init__(
        self,
        spec: Mapping[str, Any],
        settings: Settings,
        dispatcher: Dispatcher,
        metrics: Metrics,
        *,
        files: Callable[[], Mapping[str, object]],
    ) -> None:
        self._files = files
        self._served: Mapping[str, object] = {}  # the state of the files that the ready workers have loaded
        self._spec = spec
        self._settings = settings
        self._dispatcher = dispatcher
        self._metrics = metrics
        self._tasks: list[asyncio.Task[None]] = []
        self._workers: set[_Worker] = set()
        self._why_not = "the model is still being loaded"
        self._ever_ready = False
        self.execution_parameters: Mapping[str, Any] | None = None
        self.execution_parameters_fault: str | None = None

    async def start(self) -> None:
        """Start the workers. Does not wait until they are ready."""
        metrics = self._metrics
        metrics.gauge("headrace_workers_ready", "Workers that have loaded the model.", lambda: self.ready)
        self._tasks = [asyncio.create_task(self._keep()) for _ in range(self._settings.num_workers)]

    async def stop(self) -> None:
        """End all workers. Those that do not end by themselves are killed."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._dispatcher.refuse(RequestError(503, "the endpoint is stopping"))

    @property
    def ready(self) -> int:
        """The number of workers that have loaded the model."""
        return sum(worker.ready for worker in self._workers)

    @property
    def pids(self) -> list[int]:
        """The process numbers of the ready workers."""
        return [worker.process.pid for worker in self._workers if worker.ready]

    @property
    def unready(self) -> str | None:
        """Why no request can be answered now, or ``None``."""
        return None if self.ready else self._why_not

    @property
    def accepts(self) -> bool:
        """Whether a request can be queued: a worker is ready, or is about to be replaced."""
        return self._ever_ready or self.ready > 0

    async def _keep(self) -> None:
        """Keep one worker running."""
        pause_s = 0.0
        while True:
            started = time.monotonic()
            try:
                answered = await self._run_once()
            except Exception:
                LOG.exception("a worker could not be kept")
                answered = False
            steady = answered and time.monotonic() - started > STEADY_S
            pause_s = 0.0 if steady else min(max(2 * pause_s, FIRST_PAUSE_S), LONGEST_PAUSE_S)
            self._metrics.restarts.add()
            LOG.info("starting another worker in %.1f s", pause_s)
            await asyncio.sleep(pause_s)

    async def _run_once(self) -> bool:
        """Run one worker from its start to its end. Returns whether it was ever ready."""
        files = await asyncio.to_thread(self._files)
        if self._refuses(files):
            return False
        try:
            loop = asyncio.get_running_loop()
            worker = _Worker(self._spec, self._settings, self._dispatcher, self._metrics, loop)
        except (OSError, HeadraceError) as error:
            self._why_not = f"a worker cannot be started: {error}"
            LOG.error("%s", self._why_not)  # noqa: TRY400 - the frame is enough
            return False
        self._workers.add(worker)
        try:
            await self._run(worker, files)
        finally:
            worker.ready = False
            self._workers.discard(worker)
            await asyncio.shield(worker.end())
        return worker.was_ready

    def _refuses(self, files: Mapping[str, object]) -> bool:
        """Whether a worker that loads these files would answer differently from those that are ready. Says so in the log."""
        changed = [path for path, state in self._served.items() if files.get(path) != state]
        if not (self.ready and changed and files):
            return False
        LOG.error(
            "no worker is started: %s changed after the %d other workers had loaded it, and they go on with the old version. "
            "Create the endpoint again to serve the new one",
            changed[0],
            self.ready,
        )
        return True

    async def _run(self, worker: _Worker, files: Mapping[str, object]) -> None:
        loaded = await worker.load()
        if not loaded.get("ready"):
            self._ever_ready = self.ready > 0
            self._why_not = f"the model does not load: {loaded['reason']}"
            LOG.error("worker %d: %s", worker.process.pid, self._why_not)
            return
        if self._refuses(files):
            return
        if not self.ready:
            self._served = files
        self.execution_parameters = loaded.get("execution_parameters")
        self.execution_parameters_fault = loaded.get("execution_parameters_fault")
        self._ever_ready = worker.ready = worker.was_ready = True
        LOG.info("worker %d is ready", worker.process.pid)
        worker.attach(many=loaded["many"])
        how = await worker.death()
        self._why_not = f"the last worker {how}; another one is starting"
        LOG.warning("worker %d %s", worker.process.pid, how)


class _Worker:
    """One worker process."""

    def __init__(
        self,
        spec: Mapping[str, Any],
        settings: Settings,
        dispatcher: Dispatcher,
        metrics: Metrics,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.process = WorkerProcess(
            spec, channels=settings.threads, environment=numeric_thread_variables(settings.num_workers)
        )
        self.ready = self.was_ready = False
        self.settings, self.dispatcher, self.metrics, self.loop = settings, dispatcher, metrics, loop
        self._ended: asyncio.Future[str] = loop.create_future()
        self._channels: list[_ProcessChannel] = []
        self.too_slow = False
        threading.Thread(target=self._watch, name="headrace-worker-watch", daemon=True).start()

    def _watch(self) -> None:
        how = self.process.wait()
        with contextlib.suppress(RuntimeError):  # The event loop is closed.
            self.loop.call_soon_threadsafe(self._note_end, how)

    def _note_end(self, how: str) -> None:
        if not self._ended.done():
            self._ended.set_result(f"took longer than {self.settings.timeout_s:g} s" if self.too_slow else how)

    async def load(self) -> dict[str, Any]:
        """Wait until the model is loaded, or is known not to load."""
        for sock in self.process.sockets:
            await self._open(sock)
        first = self._channels[0]
        news: list[asyncio.Future[Any]] = [first.loaded, self._ended]
        await asyncio.wait(news, return_when=asyncio.FIRST_COMPLETED)
        if first.loaded.done() and not first.loaded.cancelled():
            return first.loaded.result()
        return {"ready": False, "reason": f"its process {await self._ended}; the log may say why"}

    async def _open(self, sock: socket.socket) -> None:
        sock.settimeout(0)
        # The transport closes its own copy of the descriptor; the process object keeps ours.
        copy = sock.dup()
        _, channel = await self.loop.create_unix_connection(
            lambda: _ProcessChannel(self, len(self._channels)), sock=copy
        )
        self._channels.append(channel)

    def attach(self, *, many: bool) -> None:
        """Accept requests."""
        for channel in self._channels:
            channel.many = many
            self.dispatcher.attach(channel)

    async def death(self) -> str:
        """Wait until the process ends, or closes one of its channels. Returns how it ended."""
        ends: list[asyncio.Future[Any]] = [self._ended, *(channel.lost for channel in self._channels)]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for channel in self._channels:
            self.dispatcher.detach(channel)
        if not self._ended.done():
            # Its connection closes a moment before its exit status is known.
            await asyncio.wait([self._ended], timeout=EXIT_STATUS_S)
        self.fail()
        return self._ended.result() if self._ended.done() else "closed its connection"

    def fail(self) -> None:
        """Answer its requests with 503."""
        how = self._ended.result() if self._ended.done() else "ended"
        for channel in self._channels:
            channel.fail(how)

    async def end(self) -> None:
        """End it. It gets a moment to end by itself."""
        for channel in self._channels:
            self.dispatcher.detach(channel)
            channel.close()
        self.process.release()
        if not self._ended.done():
            await asyncio.wait([self._ended], timeout=END_S if self.was_ready else 0)
        await asyncio.to_thread(self.process.kill)
        self.fail()


class _ProcessChannel(asyncio.Protocol):
    """One connection to a worker, for one batch at a time."""

    many = False

    def __init__(self, worker: _Worker, number: int) -> None:
        self._worker = worker
        self._number = number
        self._unpacker = FrameUnpacker()
        self._batch: Sequence[PendingRequest] = ()
        self._transport: asyncio.Transport | None = None
        self._descriptor = -1
        self._timeout = RequestTimer(worker.loop, worker.settings.timeout_s, self._end_hanging)
        self.lost: asyncio.Future[None] = worker.loop.create_future()
        self.loaded: asyncio.Future[dict[str, Any]] = worker.loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._descriptor = socket_descriptor(transport)

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._unpacker.feed(data):
                self._receive(frame)
        except (ConnectionError, ValueError, OverflowError, KeyError):
            LOG.exception("worker %d sent an invalid answer", self._worker.process.pid)
            self.close()

    def connection_lost(self, _: Exception | None) -> None:
        self._worker.dispatcher.detach(self)
        if not self.lost.done():
            self.lost.set_result(None)

    def start(self, batch: Sequence[PendingRequest]) -> None:
        self._batch = batch
        if self._transport is not None and not self._transport.is_closing():
            send(self._transport, self._descriptor, pack_requests([pending.request for pending in batch]))
        self._timeout.start()

    def current_container(self) -> str | None:
        return self._worker.process.current_container.name(self._number)

    def fail(self, how: str) -> None:
        batch, self._batch = self._batch, ()
        container = self.current_container()
        place = f" in {container}" if container else ""
        error = RequestError(
            503, f"the worker {how} while it had this request{place}; send it again", container=container
        )
        self._worker.dispatcher.resolve(batch, [error] * len(batch))
        self._timeout.close()

    def close(self) -> None:
        self._timeout.close()
        if self._transport is not None:
            self._transport.close()

    def _receive(self, frame: Frame) -> None:
        if "answers" not in frame.head:
            self.loaded.set_result(frame.head)
            return
        answers = answers_from(frame)
        self._timeout.stop()
        batch, self._batch = self._batch, ()
        self._worker.dispatcher.resolve(batch, answers)
        self._worker.dispatcher.done(self)
        for name, seconds, _ in calls_from(frame):  # after the clients got their answers
            self._worker.metrics.container_seconds.observe(seconds, name)

    def _end_hanging(self) -> None:
        """Kill the worker, which hangs. Its requests are answered with 504, now or already."""
        batch, self._batch = self._batch, ()
        error = timeout_error(self._worker.settings.timeout_s, self)
        self._worker.dispatcher.resolve(batch, [error] * len(batch))
        self._worker.too_slow = True
        self._worker.loop.run_in_executor(None, self._worker.process.kill)
