"""Connections of clients: what is no HTTP, heads without an end, clients that leave, and the short way for invocations."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from penstock import _optional
from penstock.errors import RequestError
from penstock.hosting.invocations import WITHOUT_BODY, Answer, Head, Invocations, phrase_of
from penstock.hosting.workers.dispatch import Waiting

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as _Base
else:
    _Base = object

__all__ = ["KEEP_ALIVE_S", "PRESENCE", "Presence", "protocol"]

KEEP_ALIVE_S = 75
"""How long a connection may be silent before a request and between requests."""
MOST_HEAD_BYTES = 64 << 10  # beyond what the first read has brought
PATH = b"/invocations"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
PRESENCE = "penstock.presence"
"""Under this name, the scope of a request holds whether its client is there."""


class Presence:
    """Whether a client is still there.

    Attributes:
        on_lost: Called when it leaves.
    """

    __slots__ = ("on_lost",)

    def __init__(self) -> None:
        self.on_lost: Callable[[], None] | None = None


def protocol(invocations: Invocations) -> type[asyncio.Protocol]:
    """What the server speaks on each connection.

    Args:
        invocations: Has requests answered.

    Raises:
        MissingExtra: uvicorn or httptools is not installed.
    """
    base = _optional.require("uvicorn.protocols.http.httptools_impl", extra="serve").HttpToolsProtocol
    return type("Connection", (_Connection, base), {"invocations": invocations})


class _Invocation:
    """One request on the short way. For the server's protocol it is a cycle of request and answer like its own."""

    __slots__ = (
        "body",
        "disconnected",
        "head",
        "is_whole",
        "keep_alive",
        "response_complete",
        "size",
        "timer",
        "waiting",
    )

    def __init__(self, *, keep_alive: bool) -> None:
        self.head: Head | None = None
        self.body: list[bytes] = []
        self.size = 0
        self.is_whole = self.disconnected = self.response_complete = False
        self.keep_alive = keep_alive
        self.timer: asyncio.TimerHandle | None = None
        self.waiting: Waiting | None = None

    @property
    def message_event(self) -> _Invocation:
        return self

    def set(self) -> None:
        """Nobody sleeps until something comes."""


class _Connection(_Base):
    """One connection. The server's own protocol takes heads of any length and waits for their end without limit.

    Invocations do not go through the application, its layers and a task, which would take as long again as everything else
    that a server does for a request. Whatever is not the usual case does: a request that came before the last answer, a
    client that does not read, another path.
    """

    invocations: Invocations

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._presence = Presence()
        self._head_bytes = 0
        self._in_head, self._has_begun = True, False
        self._silence: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._silence = self.loop.call_later(KEEP_ALIVE_S, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)
        if self._presence.on_lost is not None:
            self._presence.on_lost()
        cycle = self._cycle
        if isinstance(cycle, _Invocation) and not cycle.response_complete:
            self._note_loss(cycle)

    @property
    def _cycle(self) -> Any:
        return self.cycle

    def data_received(self, data: bytes) -> None:
        self._has_begun = False
        super().data_received(data)
        if self._in_head and not self.transport.is_closing():
            self._watch_head(len(data))
        elif isinstance(cycle := self._cycle, _Invocation) and not cycle.is_whole and cycle.timer is None:
            cycle.timer = self.loop.call_later(self.invocations.timeout_s, self._give_up_body, cycle)

    def _watch_head(self, size: int) -> None:
        if not self._has_begun:
            self._head_bytes += size
        if self._head_bytes > MOST_HEAD_BYTES:
            self._refuse(431, f"the head of the request has more than {MOST_HEAD_BYTES} bytes")
        elif self._silence is None:
            self._silence = self.loop.call_later(KEEP_ALIVE_S, self._give_up)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope[PRESENCE] = self._presence  # type: ignore[literal-required]
        self._in_head, self._has_begun, self._head_bytes = True, True, 0

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_waiting()
        if self._is_usual():
            self._begin()
        else:
            super().on_headers_complete()

    def _is_usual(self) -> bool:
        return (
            self.url == PATH
            and self.parser.get_method() == b"POST"
            and (self._cycle is None or self._cycle.response_complete)
            and not self.flow.write_paused
            and not self.parser.should_upgrade()
        )

    def _begin(self) -> None:
        keep_alive = self.parser.should_keep_alive() and self.parser.get_http_version() != "1.0"
        cycle = _Invocation(keep_alive=keep_alive)
        self.cycle = cycle  # type: ignore[assignment]
        try:
            cycle.head = self.invocations.head(self.headers)
        except RequestError as error:
            self._write(cycle, self.invocations.refused(error))
            return
        if self.expect_100_continue:
            self.transport.write(CONTINUE)

    def on_body(self, body: bytes) -> None:
        cycle = self._cycle
        if not isinstance(cycle, _Invocation):
            super().on_body(body)
        elif not cycle.response_complete:
            cycle.size += len(body)
            cycle.body.append(body)
            try:
                self.invocations.check_size(cycle.size)
            except RequestError as error:
                self._write(cycle, self.invocations.refused(error))

    def on_message_complete(self) -> None:
        cycle = self._cycle
        if not isinstance(cycle, _Invocation):
            super().on_message_complete()
            return
        cycle.is_whole = True
        if cycle.timer is not None:
            cycle.timer.cancel()
        if cycle.head is not None and not cycle.response_complete:
            body = cycle.body[0] if len(cycle.body) == 1 else b"".join(cycle.body)
            cycle.body = []
            cycle.waiting = self.invocations.submit(cycle.head, body, lambda answer: self._write(cycle, answer))

    def _write(self, cycle: _Invocation, answer: Answer) -> None:
        """Answer in one piece, so that the client is woken up once."""
        if cycle.response_complete:
            return  # It has left.
        cycle.response_complete = True
        cycle.waiting = None
        cycle.body = []
        if not self.transport.is_closing():
            parts = [_status_line(answer.status)]
            for name, value in (*self.server_state.default_headers, *answer.headers):
                parts += (name, b": ", value, b"\r\n")
            if answer.status not in WITHOUT_BODY:
                parts.append(b"content-length: %d\r\n" % len(answer.body))
            parts += (b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n", answer.body)
            self.transport.write(b"".join(parts))
            if not cycle.keep_alive:
                self.transport.close()
        self.on_response_complete()

    def _give_up_body(self, cycle: _Invocation) -> None:
        cycle.keep_alive = False  # the rest of the body would be taken for a request
        if not cycle.response_complete:
            self._write(cycle, self.invocations.refused(self.invocations.too_slow()))
        else:
            self.transport.close()

    def _note_loss(self, cycle: _Invocation) -> None:
        cycle.response_complete = True
        if cycle.timer is not None:
            cycle.timer.cancel()
        if cycle.waiting is not None:
            cycle.waiting.leave()
        else:
            self.invocations.refused(RequestError(400, "the client left before its request was complete"))

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, msg)

    def _unsupported_upgrade_warning(self) -> None:
        """Whoever asks for another protocol gets an answer in this one."""

    def _give_up(self) -> None:
        self._silence = None
        if self._head_bytes or self._has_begun:
            self._refuse(408, f"the head of the request was not complete within {KEEP_ALIVE_S} s")
        else:
            self.transport.close()

    def _stop_waiting(self) -> None:
        if self._silence is not None:
            self._silence.cancel()
            self._silence = None

    def _refuse(self, status: int, reason: str) -> None:
        """Answer what never became a request, and close."""
        phrase = phrase_of(status)
        body = json.dumps({"status": status, "error": phrase, "message": reason}).encode()
        head = f"HTTP/1.1 {status} {phrase}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        self.transport.write(head.encode() + body)
        self.transport.close()


@lru_cache(maxsize=64)
def _status_line(status: int) -> bytes:
    return f"HTTP/1.1 {status} {phrase_of(status)}\r\n".encode()
