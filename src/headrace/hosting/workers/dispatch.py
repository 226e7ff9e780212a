"""Requests that wait, and what takes them: those that wait together are answered together."""

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

__all__ = ["Channel", "Dispatcher", "Waiting", "timed_out"]

CLIENT_LEFT = 499  # no status of HTTP's, but what servers write down for it
MOST_BATCH_BYTES = 8 << 20  # rows are small: what is larger is not made faster by company


class Waiting:
    """A request and who wants its answer.

    Attributes:
        request: What is asked.
        since: When it came, by the clock of the loop.
        is_answered: Whether there is nobody any more who wants an answer.
        channel: What works on it, or ``None`` while nothing does.
    """

    __slots__ = ("_deliver", "_dispatcher", "channel", "is_answered", "request", "since")

    def __init__(
        self,
        request: Request,
        deliver: Callable[[Response | Exception], None],
        dispatcher: Dispatcher,
        since: float,
    ) -> None:
        self.request = request
        self.since = since
        self.is_answered = False
        self.channel: Channel | None = None
        self._deliver = deliver
        self._dispatcher = dispatcher

    def settle(self, answer: Response | Exception) -> None:
        """Give the answer, unless one was given: its client has gone, or its time was over."""
        if not self.is_answered:
            self.is_answered = True
            self._dispatcher.strike_out(self)
            self._deliver(answer)

    def leave(self) -> None:
        """Nobody waits for the answer any more."""
        if not self.is_answered:
            self._dispatcher.forget(self)
            self.settle(RequestError(CLIENT_LEFT, "the client left before it had its answer"))


class Channel(Protocol):
    """What works on one request, or one batch, at a time.

    It calls :meth:`Dispatcher.done` when it is free again, and :meth:`Dispatcher.detach` when it takes no more.
    """

    many: bool

    def start(self, batch: Sequence[Waiting]) -> None: ...
    def at_work(self) -> str | None:
        """Which container of a pipeline has the batch now."""
        ...


class Dispatcher:
    """Gives requests that wait to channels that are free. Lives in one event loop.

    A request that finds everything idle goes at once: this moment where the last one came alone, at the end of the turn of
    the loop otherwise, with those that arrive in the same turn. While others are being worked on it waits for company, until
    a batch is full, everything else is done, or ``gather_ms`` are over.
    """

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self._settings = settings
        self._metrics = metrics
        self._queue: deque[Waiting] = deque()
        self._free: deque[Channel] = deque()
        self._busy: set[Channel] = set()
        self._timer: asyncio.Handle | None = None
        self._at_once = False
        self._came_alone = True
        self._open: dict[Waiting, None] = {}  # in the order in which their time is over
        self._patience: asyncio.TimerHandle | None = None

    def submit(self, request: Request, deliver: Callable[[Response | Exception], None]) -> Waiting:
        """Have a request answered.

        Args:
            request: What is asked.
            deliver: Called once, with the container's answer or what it refuses, or with a ``RequestError``: 504 when the
                time is over, 499 when the client has left.

        Raises:
            RequestError: 503, there are too many requests.
        """
        if len(self._open) >= self._settings.concurrency:
            raise RequestError(503, f"{len(self._open)} requests are waiting already; try again later")
        loop = asyncio.get_running_loop()
        waiting = Waiting(request, deliver, self, loop.time())
        self._open[waiting] = None
        if self._patience is None:
            self._patience = loop.call_later(self._settings.timeout_s, self._give_up, loop)
        if self._came_alone and self._free and not self._busy and not self._queue:
            self._start(self._free.popleft(), [waiting])
        else:
            self._queue.append(waiting)
            self._schedule()
        return waiting

    def strike_out(self, waiting: Waiting) -> None:
        """It is answered."""
        del self._open[waiting]

    def _give_up(self, loop: asyncio.AbstractEventLoop) -> None:
        """Answer those whose time is over. One timer is for all: each of their own would cost more than the rest of this."""
        self._patience = None
        timeout_s = self._settings.timeout_s
        for waiting in list(self._open):
            left_s = waiting.since + timeout_s - loop.time()
            if left_s > 0:
                self._patience = loop.call_later(left_s, self._give_up, loop)
                return
            self.forget(waiting)
            waiting.settle(timed_out(timeout_s, waiting.channel))

    def forget(self, waiting: Waiting) -> None:
        """Where no worker has taken a request yet, do not keep its body."""
        with contextlib.suppress(ValueError):
            self._queue.remove(waiting)

    @property
    def in_flight(self) -> int:
        """Requests that have no answer yet."""
        return len(self._open)

    @property
    def waiting(self) -> int:
        """Requests that no channel has taken yet."""
        return len(self._queue)

    def attach(self, channel: Channel) -> None:
        """A channel is ready to take requests."""
        self._free.append(channel)
        self._schedule()

    def detach(self, channel: Channel) -> None:
        """A channel takes no more."""
        self._busy.discard(channel)
        if channel in self._free:
            self._free.remove(channel)

    def done(self, channel: Channel) -> None:
        """A channel is free again."""
        if channel in self._busy:
            self._busy.remove(channel)
            # The one that worked last goes first: its memory is warm, and an idle endpoint keeps to one worker.
            self._free.appendleft(channel)
            self._schedule()

    def refuse(self, error: RequestError) -> None:
        """Answer everything that waits with an error."""
        while self._queue:
            self._queue.popleft().settle(error)

    def _schedule(self) -> None:
        """Dispatch at the end of this turn of the loop, so that what arrived in one turn is seen together."""
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

    def _start(self, channel: Channel, batch: Sequence[Waiting]) -> None:
        self._busy.add(channel)
        self._came_alone = len(batch) == 1
        for waiting in batch:
            waiting.channel = channel
        channel.start(batch)
        self._metrics.batch_size.observe(len(batch))

    def _take(self, most: int) -> list[Waiting]:
        """The next requests whose clients are still there."""
        batch: list[Waiting] = []
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

    def settle(self, batch: Sequence[Waiting], answers: Sequence[Response | Exception]) -> None:
        """Give each request of a batch its answer."""
        if len(answers) != len(batch):
            answers = [RequestError(500, f"the worker gave {len(answers)} answers to {len(batch)} requests")] * len(
                batch
            )
        for waiting, answer in zip(batch, answers, strict=True):
            waiting.settle(answer)


def timed_out(timeout_s: float, channel: Channel | None) -> RequestError:
    """What a client is told whose time is over."""
    container = None if channel is None else channel.at_work()
    if container is None:
        return RequestError(504, f"Your invocation timed out: there was no answer within {timeout_s:g} s")
    return RequestError(
        504,
        f"Your invocation timed out while waiting for a response from container {container}: there was none within "
        f"{timeout_s:g} s",
        container=container,
    )
