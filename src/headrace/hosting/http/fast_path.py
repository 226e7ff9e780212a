"""The HTTP fast path: invocations are answered by the connection itself, without the layers of Starlette.

It subclasses uvicorn's ``HttpToolsProtocol``. ``Settings(fast_path=False)`` serves with uvicorn and Starlette alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from headrace import _optional
from headrace.errors import RequestError
from headrace.hosting.http.invocations import WITHOUT_BODY, Headers, HttpAnswer, Invocations, RequestHead, status_phrase
from headrace.hosting.http.transport import RequestTimer, send, socket_descriptor
from headrace.hosting.workers.dispatch import PendingRequest

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as _Base
else:
    _Base = object

__all__ = ["KEEP_ALIVE_S", "MOST_HEAD_BYTES", "connection_class"]

KEEP_ALIVE_S = 75
"""How long a connection may be silent, before a request and between requests."""
MOST_HEAD_BYTES = 64 << 10
TOO_LONG = f"the head of the request has more than {MOST_HEAD_BYTES} bytes"
PATH = b"/invocations"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Exchange:
    """One request and its answer. It has the attributes that uvicorn's protocol reads from its own request cycles."""

    __slots__ = (
        "body",
        "disconnected",
        "head",
        "keep_alive",
        "pending",
        "response_complete",
        "size",
        "timer",
    )

    def __init__(self, *, keep_alive: bool) -> None:
        self.head: RequestHead | None = None
        self.body: list[bytes] = []
        self.size: int = 0
        self.disconnected: bool = False
        self.response_complete: bool = False
        self.keep_alive: bool = keep_alive
        self.timer: asyncio.TimerHandle | None = None
        self.pending: PendingRequest | None = None

    @property
    def message_event(self) -> Exchange:
        return self

    def set(self) -> None:
        """No task waits for messages here."""


def _format_answer(answer: HttpAnswer, defaults: Headers, *, keep_alive: bool) -> bytes:
    """An answer as bytes.

    Args:
        answer: The answer.
        defaults: Headers that the server adds, such as the date.
        keep_alive: Whether the connection stays open.
    """
    length = b"" if answer.status in WITHOUT_BODY else b"content-length: %d\r\n" % len(answer.body)
    end = b"\r\n" if keep_alive else b"connection: close\r\n\r\n"
    return b"".join((_format_head(answer.status, defaults, answer.headers), length, end, answer.body))


@lru_cache(maxsize=64)
def _format_head(status: int, *headers: Headers) -> bytes:
    """The status line and some headers. Most answers differ in their length only, so few of these are needed."""
    lines = [f"HTTP/1.1 {status} {status_phrase(status)}\r\n".encode()]
    lines += [b"%b: %b\r\n" % pair for group in headers for pair in group]
    return b"".join(lines)


def connection_class(invocations: Invocations) -> type[asyncio.Protocol]:
    """The protocol class for uvicorn's ``http`` setting.

    Args:
        invocations: Answers the requests.

    Raises:
        MissingExtra: uvicorn or httptools is not installed.
    """
    base = _optional.require("uvicorn.protocols.http.httptools_impl", extra="serve").HttpToolsProtocol
    return type("Connection", (_Connection, base), {"invocations": invocations})


class _Connection(_Base):
    """One connection.

    An invocation does not pass through the ASGI application and a task of its own, which would take about as long as
    everything else that the server does for a request. Anything unusual does: another path, a request that arrives before the
    last answer was sent, a client that does not read its answers.

    It also limits the size of request heads, and the time until they are complete, and the bytes between and after the chunks of a
    body, such as trailers. uvicorn's protocol limits none of them.
    """

    invocations: Invocations

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._head_bytes = self._unused_bytes = 0
        self._in_head, self._began_message = True, False
        self._has_advanced = False
        self._is_between_requests = True
        self._piece, self._is_upgrade = b"", False
        self._previous: Any = None
        """What ``cycle`` was before the last request that takes the way of uvicorn."""
        self._is_ending = False
        self._silence = RequestTimer(self.loop, KEEP_ALIVE_S, self._end_silence)
        self._descriptor = -1

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._descriptor = socket_descriptor(transport)
        self._silence.start()

    def connection_lost(self, exc: Exception | None) -> None:
        self._silence.close()
        super().connection_lost(exc)
        cycle = self._cycle
        if isinstance(cycle, Exchange) and not cycle.response_complete:
            self._abandon(cycle)

    @property
    def _cycle(self) -> Any:
        return self.cycle

    def data_received(self, data: bytes) -> None:
        if self._is_ending:
            return
        self._began_message = self._has_advanced = False
        if not self._in_head:
            self._silence.stop()
        self._feed(data)
        if self.transport.is_closing() or self._is_ending:
            return
        if self._in_head:
            self._check_head(len(data))
        elif self._is_between_requests:
            if self._cycle.response_complete and not self._silence.is_running:
                self._silence.start()
        else:
            if isinstance(cycle := self._cycle, Exchange) and cycle.timer is None:
                cycle.timer = self.loop.call_later(self.invocations.timeout_s, self._end_slow_body, cycle)
            self._unused_bytes = 0 if self._has_advanced else self._unused_bytes + len(data)
            if self._unused_bytes > MOST_HEAD_BYTES:
                self._refuse_trailers()

    def _feed(self, piece: bytes) -> None:
        self._piece = piece
        super().data_received(piece)
        self._piece = b""

    def _check_head(self, size: int) -> None:
        if not self._began_message:
            self._head_bytes += size
        if self._head_bytes > MOST_HEAD_BYTES:
            self._refuse(431, TOO_LONG)
        elif not self._silence.is_running:
            self._silence.start()

    def _refuse_trailers(self) -> None:
        """Refuse a request that goes on and on without a body: trailers, or an extension of a chunk."""
        cycle = self._cycle
        reason = f"more than {MOST_HEAD_BYTES} bytes of the request, after its head, belong to no body"
        if not isinstance(cycle, Exchange):
            if cycle.response_started or self.pipeline:
                self.transport.close()
            else:
                self._refuse(431, reason)
        elif cycle.response_complete:
            self.transport.close()
        else:
            cycle.keep_alive = False
            self._write(cycle, self.invocations.refuse(RequestError(431, reason)))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._began_message, self._head_bytes = True, True, 0
        self._is_between_requests = False

    def on_headers_complete(self) -> None:
        self._is_upgrade = self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT"
        if self._is_upgrade:
            return
        may_be_long = self._head_bytes + len(self._piece) > MOST_HEAD_BYTES
        self._in_head, self._head_bytes, self._unused_bytes = False, 0, 0
        self._has_advanced = True
        self._silence.stop()
        if self.url == PATH and self.parser.get_method() == b"POST" and self._is_free():
            self._begin(may_be_long=may_be_long)
        else:
            self._previous = self._cycle
            super().on_headers_complete()

    def _is_free(self) -> bool:
        cycle = self._cycle
        return (cycle is None or cycle.response_complete) and not (
            self.flow.write_paused or self.transport.is_closing()
        )

    def _begin(self, *, may_be_long: bool) -> None:
        keep_alive = self.parser.should_keep_alive() and self.parser.get_http_version() != "1.0"
        cycle = Exchange(keep_alive=keep_alive)
        self.cycle = cycle  # type: ignore[assignment]
        try:
            if may_be_long:
                self._check_headers()
            cycle.head = self.invocations.read_head(self.headers)
        except RequestError as error:
            self._write(cycle, self.invocations.refuse(error))
            return
        if self.expect_100_continue:
            self.transport.write(CONTINUE)

    def _check_headers(self) -> None:
        """Refuse a head that arrived whole, and so was not counted while it arrived.

        Raises:
            RequestError: 431, it is too long.
        """
        if sum(len(name) + len(value) for name, value in self.headers) > MOST_HEAD_BYTES:
            raise RequestError(431, TOO_LONG)

    def on_chunk_header(self) -> None:
        """Called by the parser after the size of a chunk, also of the last one, which is empty."""
        self._has_advanced = True

    def on_body(self, body: bytes) -> None:
        self._has_advanced = True
        cycle = self._cycle
        if not isinstance(cycle, Exchange):
            super().on_body(body)
        elif not cycle.response_complete:
            cycle.size += len(body)
            cycle.body.append(body)
            try:
                self.invocations.check_size(cycle.size)
            except RequestError as error:
                self._write(cycle, self.invocations.refuse(error))

    def on_message_complete(self) -> None:
        if self._is_upgrade:
            return
        self._is_between_requests = True
        cycle = self._cycle
        if not isinstance(cycle, Exchange):
            super().on_message_complete()
            return
        if cycle.timer is not None:
            cycle.timer.cancel()
        if cycle.head is not None and not cycle.response_complete:
            body = cycle.body[0] if len(cycle.body) == 1 else b"".join(cycle.body)
            cycle.body = []
            cycle.pending = self.invocations.submit(cycle.head, body, partial(self._write, cycle))

    def _write(self, cycle: Exchange, answer: HttpAnswer) -> None:
        """Answer in one write, so that the client wakes up once."""
        if cycle.response_complete:
            return  # The client has disconnected.
        cycle.response_complete = True
        cycle.pending = None
        cycle.body = []
        if not self.transport.is_closing():
            defaults = tuple(self.server_state.default_headers)
            send(self.transport, self._descriptor, _format_answer(answer, defaults, keep_alive=cycle.keep_alive))
            if not cycle.keep_alive:
                self.transport.close()
        self.on_response_complete()

    def on_response_complete(self) -> None:
        if self.pipeline or self.transport.is_closing():
            super().on_response_complete()
            return
        self.server_state.total_requests += 1
        self.flow.resume_reading()
        self._silence.start()

    def _end_slow_body(self, cycle: Exchange) -> None:
        cycle.keep_alive = False  # the rest of the body would be read as a request
        if not cycle.response_complete:
            self._write(cycle, self.invocations.refuse(self.invocations.slow_body_error()))
        else:
            self.transport.close()

    def _abandon(self, cycle: Exchange) -> None:
        cycle.response_complete = True
        if cycle.timer is not None:
            cycle.timer.cancel()
        if cycle.pending is not None:
            cycle.pending.cancel()
        else:
            self.invocations.refuse(RequestError(400, "the client disconnected before its request was complete"))

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, msg)

    def _unsupported_upgrade_warning(self) -> None:
        """Answer a request for another protocol, as HTTP/2 clients send them, in HTTP/1.1.

        The parser takes the bytes after such a head for the other protocol, not for the body that they are. So a new parser
        gets the head again, without the ``Upgrade`` header.
        """
        error = sys.exc_info()[1]  # uvicorn calls this where it handles the parser's exception
        if not self._is_upgrade or error is None:
            return
        self._is_upgrade = False
        before = self.parser
        lines = [b"%b %b HTTP/%b\r\n" % (before.get_method(), self.url, before.get_http_version().encode())]
        lines += [b"%b: %b\r\n" % pair for pair in self.headers if pair[0] != b"upgrade"]
        self.parser = type(before)(self)  # the old one accepts nothing after a request with Connection: close
        with contextlib.suppress(AttributeError):  # httptools before 0.6.3
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._feed(b"".join([*lines, b"\r\n", self._piece[error.args[0] :]]))

    def _end_silence(self) -> None:
        if self._in_head and (self._head_bytes or not self._is_between_requests):
            self._refuse(408, f"the head of the request was not complete within {KEEP_ALIVE_S} s")
        else:
            self.transport.close()

    def _refuse(self, status: int, reason: str) -> None:
        """Answer bytes that never became a request, and close.

        If whole requests came before them, their answers are sent instead, the last one with ``Connection: close``.
        """
        if self._ends_with_answers():
            return
        phrase = status_phrase(status)
        body = json.dumps({"status": status, "error": phrase, "message": reason}).encode()
        head = f"HTTP/1.1 {status} {phrase}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        self.transport.write(head.encode() + body)
        self.transport.close()

    def _ends_with_answers(self) -> bool:
        """Whether requests wait for their answers. The connection then ends with the last one, and what arrives until then is ignored."""
        last = self._cycle
        if last is None:
            return False
        if self.pipeline and self.pipeline[0][0] is last and last.more_body:
            self.pipeline.popleft()  # the request that is broken
            last = self._previous
        is_whole = last.pending is not None if isinstance(last, Exchange) else not last.more_body
        if not is_whole or last.response_complete:
            return False
        last.keep_alive = False
        self._is_ending = True
        self._silence.stop()
        return True
