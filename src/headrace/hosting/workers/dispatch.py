"""Queues requests and gives them to workers in batches."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from headrace.contracts.serving import Request, Response
from headrace.errors import RequestError
from headrace.hosting.metrics import Metrics
from headrace.hosting.settings import Settings

__all__ = ["Dispatcher", "PendingRequest", "WorkerChannel", "timeout_error"]

CLIENT_LEFT = 499  # not in HTTP, but used by servers for this
MOST_BATCH_BYTES = 8 << 20  # larger requests do not gain from batches


class PendingRequest:
    """A request that has no answer yet.

    Attributes:
        request: The request.
        since: When it arrived, by the clock of the event loop.
        is_answered: Whether it was answered or cancelled.
        channel: The channel that works on it; ``None`` while it is queued.
    """

    __slots__ = ("_deliver", "_dispatcher", "channel", "is_answered", "request", "since")

    def __init__(
        self,
        request: Request,
        deliver: Callable[[Response | Exception], None],
        dispatcher: Dispatcher,
        since: float,
    ) -> None:
        self.request: Request = request
        self.since: float = since
        self.is_answered: bool = False
        self.channel: WorkerChannel | None = None
        self._deliver = deliver
        self._dispatcher = dispatcher

    def resolve(self, answer: Response | Exception) -> None:
        """Deliver an answer, unless the request was answered before: by a time-out, or because its client disconnected."""
        if not self.is_answered:
            self.is_answered = True
            self._dispatcher.remove(self)
            self._deliver(answer)

    def cancel(self) -> None:
        """The client has disconnected."""
        if not self.is_answered:
            self._dispatcher.unqueue(self)
            self.resolve(RequestError(CLIENT_LEFT, "the client disconnected before it was answered"))


class WorkerChannel(Protocol):
    """Works on one request, or one batch, at a time.

    It calls :meth:`Dispatcher.done` when it is free again, and :meth:`Dispatcher.detach` before it ends.
    """

    many: bool

    def start(self, batch: Sequence[PendingRequest]) -> None: ...
    def current_container(self) -> str | None:
        """The container of a pipeline that has the batch now."""
        ...


class Dispatcher:
    """Gives queued requests to free channels. Belongs to one event loop.

    If all channels are idle, a request starts at once: immediately if the previous batch had one request, otherwise at the end of
    the iteration of the event loop, together with the requests that arrive in it. While a channel is busy, requests wait for
    others, until a batch is full, all channels are idle, or ``gather_ms`` have passed.
    """

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self._settings = settings
        self._metrics = metrics
        self._queue: deque[PendingRequest] = deque()
        self._free: deque[WorkerChannel] = deque()
        self._busy: set[WorkerChannel] = set()
        self._timer: asyncio.Handle | None = None
        self._at_once = False
        self._last_was_alone = True
        self._open: dict[PendingRequest, None] = {}  # ordered by deadline
        self._timeout: asyncio.TimerHandle | None = None

    def submit(self, request: Request, deliver: Callable[[Response | Exception], None]) -> PendingRequest:
        """Queue a request.

        Args:
            request: The request.
            deliver: Called once with the container's answer or error, or with a ``RequestError``: 504 for a time-out, 499 if the
                client disconnected.

        Raises:
            RequestError: 503, too many requests.
        """
        if len(self._open) >= self._settings.concurrency:
            raise RequestError(503, f"{len(self._open)} requests are in flight already; try again later")
        loop = asyncio.get_running_loop()
        pending = PendingRequest(request, deliver, self, loop.time())
        self._open[pending] = None
        if self._timeout is None:
            self._timeout = loop.call_later(self._settings.timeout_s, self._give_up, loop)
        if self._last_was_alone and self._free and not self._busy and not self._queue:
            self._start(self._free.popleft(), [pending])
        else:
            self._queue.append(pending)
            self._schedule()
        return pending

    def remove(self, pending: PendingRequest) -> None:
        """Forget a request that was answered."""
        del self._open[pending]

    def _give_up(self, loop: asyncio.AbstractEventLoop) -> None:
        """Answer requests that timed out. All requests share one timer: a timer for each would cost more than the rest of this class."""
        self._timeout = None
        timeout_s = self._settings.timeout_s
        for pending in list(self._open):
            left_s = pending.since + timeout_s - loop.time()
            if left_s > 0:
                self._timeout = loop.call_later(left_s, self._give_up, loop)
                return
            self.unqueue(pending)
            pending.resolve(timeout_error(timeout_s, pending.channel))

    def unqueue(self, pending: PendingRequest) -> None:
        """Remove a request from the queue, if it is there."""
        with contextlib.suppress(ValueError):
            self._queue.remove(pending)

    @property
    def in_flight(self) -> int:
        """The number of requests without an answer."""
        return len(self._open)

    @property
    def queued(self) -> int:
        """The number of requests that no channel works on."""
        return len(self._queue)

    def attach(self, channel: WorkerChannel) -> None:
        """Add a channel that is ready for requests."""
        self._free.append(channel)
        self._schedule()

    def detach(self, channel: WorkerChannel) -> None:
        """Remove a channel."""
        self._busy.discard(channel)
        if channel in self._free:
            self._free.remove(channel)

    def done(self, channel: WorkerChannel) -> None:
        """Note that a channel is free again."""
        if channel in self._busy:
            self._busy.remove(channel)
            # The last one to work is the next: its caches are warm, and an idle endpoint uses one worker.
            self._free.appendleft(channel)
            self._schedule()

    def refuse(self, error: RequestError) -> None:
        """Answer all queued requests with an error."""
        while self._queue:
            self._queue.popleft().resolve(error)

    def _schedule(self) -> None:
        """Dispatch at the end of this iteration of the event loop, so that requests that arrive in it make one batch."""
        if not self._queue or not self._free:
            return
        loop = asyncio.get_running_loop()
        full = len(self._queue) >= self._settings.batch or not self._free[0].many
        left_s = self._queue[0].since + self._settings.gather_ms / 1e3 - loop.time()
        if full or not self._busy or left_s <= 0:
            if not self._at_once:
                self._cancel_timer()
                self._at_once = True
                self._timer = loop.call_soon(self._dispatch)
        elif self._timer is None:
            self._timer = loop.call_later(left_s, self._dispatch)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._at_once = False

    def _dispatch(self) -> None:
        self._cancel_timer()
        while self._queue and self._free:
            batch = self._take(self._settings.batch if self._free[0].many else 1)
            if batch:
                self._start(self._free.popleft(), batch)

    def _start(self, channel: WorkerChannel, batch: Sequence[PendingRequest]) -> None:
        self._busy.add(channel)
        self._last_was_alone = len(batch) == 1
        for pending in batch:
            pending.channel = channel
        channel.start(batch)
        self._metrics.batch_size.observe(len(batch))

    def _take(self, most: int) -> list[PendingRequest]:
        """Up to ``most`` queued requests that are not cancelled."""
        batch: list[PendingRequest] = []
        size = 0
        while self._queue and len(batch) < most:
            if self._queue[0].is_answered:
                self._queue.popleft()
                continue
            size += len(self._queue[0].request.body)
            if batch and size > MOST_BATCH_BYTES:
                break
            batch.append(self._queue.popleft())
        return batch

    def resolve(self, batch: Sequence[PendingRequest], answers: Sequence[Response | Exception]) -> None:
        """Deliver the answers of a batch."""
        if len(answers) != len(batch):
            answers = [RequestError(500, f"the worker returned {len(answers)} answers to {len(batch)} requests")] * len(
                batch
            )
        for pending, answer in zip(batch, answers, strict=True):
            pending.resolve(answer)


def timeout_error(timeout_s: float, channel: WorkerChannel | None) -> RequestError:
    """The error for a request that timed out."""
    container = None if channel is None else channel.current_container()
    if container is None:
        return RequestError(504, f"Your invocation timed out: no answer within {timeout_s:g} s")
    return RequestError(
        504,
        f"Your invocation timed out while waiting for a response from container {container}: none within "
        f"{timeout_s:g} s",
        container=container,
    )
