"""The fast path of an endpoint: connections of clients, one invocation on each, and heads of requests that were read before."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from headrace import _optional
from headrace.errors import RequestError
from headrace.hosting.http.invocations import WITHOUT_BODY, Answer, Head, Headers, Invocations, phrase_of
from headrace.hosting.http.timing import Alarm, descriptor_of, send
from headrace.hosting.workers.dispatch import Waiting

__all__ = ["KEEP_ALIVE_S", "PRESENCE", "Exchange", "KnownHeads", "Presence", "over_http", "protocol"]


class Exchange:
    """One request and its answer. For the server's protocol it is a cycle of request and answer like its own."""

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
    def message_event(self) -> Exchange:
        return self

    def set(self) -> None:
        """Nobody sleeps until something comes."""


def over_http(answer: Answer, defaults: Headers, *, keep_alive: bool) -> bytes:
    """An answer as it goes over the wire.

    Args:
        answer: The answer.
        defaults: Headers that the server puts before its own, such as the date.
        keep_alive: Whether the connection stays open.
    """
    length = b"" if answer.status in WITHOUT_BODY else b"content-length: %d\r\n" % len(answer.body)
    end = b"\r\n" if keep_alive else b"connection: close\r\n\r\n"
    return b"".join((_lines(answer.status, defaults, answer.headers), length, end, answer.body))


@lru_cache(maxsize=64)
def _lines(status: int, *headers: Headers) -> bytes:
    """The first line of an answer and some of its headers: few answers differ in more than their length."""
    lines = [f"HTTP/1.1 {status} {phrase_of(status)}\r\n".encode()]
    lines += [b"%b: %b\r\n" % pair for group in headers for pair in group]
    return b"".join(lines)


END = b"\r\n\r\n"
MOST_BYTES = 2 << 10
MOST_HEADS = 1024


class KnownHeads:
    """What heads of invocations mean, by their bytes: looking one up takes a small part of the time of reading it again.

    Only those of the usual kind are kept: the connection stays open, the length of the body is said, and there is no header
    that containers see, which would differ from one request to the next.
    """

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[Head, int]] = {}

    def find(self, data: bytes) -> tuple[Head, bytes] | None:
        """Head and body, where this is one whole request with a head that is known; ``None`` otherwise."""
        end = data.find(END, 0, MOST_BYTES) + len(END)
        known = self._known.get(data[:end])
        if known is None or len(data) - end != known[1]:
            return None
        return known[0], data[end:]

    def keep(self, data: bytes, head: Head, size: int) -> None:
        """Remember what the head of one whole request was read as.

        Args:
            data: The request. It is left out where its body is not simply what follows the head.
            head: What was read.
            size: Bytes of the body.
        """
        end = data.find(END, 0, MOST_BYTES) + len(END)
        if end < len(END) or len(data) - end != size or head.headers:
            return
        if len(self._known) >= MOST_HEADS:
            self._known.clear()  # Somebody's heads never repeat.
        self._known[data[:end]] = (head, size)


if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as _Base
else:
    _Base = object


KEEP_ALIVE_S = 75
"""How long a connection may be silent before a request and between requests."""
MOST_HEAD_BYTES = 64 << 10  # beyond what the first read has brought
PATH = b"/invocations"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
PRESENCE = "headrace.presence"
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
    return type("Connection", (_Connection, base), {"invocations": invocations, "heads": KnownHeads()})


class _Connection(_Base):
    """One connection. The server's own protocol takes heads of any length and waits for their end without limit.

    Invocations do not go through the application, its layers and a task, which would take as long again as everything else
    that a server does for a request. Whatever is not the usual case does: a request that came before the last answer, a
    client that does not read, another path. One that arrives in one piece and has a head that is known is not even parsed.
    """

    invocations: Invocations
    heads: KnownHeads

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._presence = Presence()
        self._head_bytes = 0
        self._in_head, self._has_begun = True, False
        self._is_between = True  # the parser has seen no part of a request but whole ones
        self._piece, self._is_upgrade = b"", False
        self._silence = Alarm(self.loop, KEEP_ALIVE_S, self._give_up)
        self._descriptor = -1

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._descriptor = descriptor_of(transport)
        self._silence.start()

    def connection_lost(self, exc: Exception | None) -> None:
        self._silence.close()
        super().connection_lost(exc)
        if self._presence.on_lost is not None:
            self._presence.on_lost()
        cycle = self._cycle
        if isinstance(cycle, Exchange) and not cycle.response_complete:
            self._note_loss(cycle)

    @property
    def _cycle(self) -> Any:
        return self.cycle

    def data_received(self, data: bytes) -> None:
        was_between = self._is_between
        if was_between and (known := self.heads.find(data)) is not None and self._is_free():
            self._silence.stop()
            self.cycle = cycle = Exchange(keep_alive=True)  # type: ignore[assignment]
            cycle.is_whole = True
            cycle.waiting = self.invocations.submit(*known, partial(self._write, cycle))
            return
        self._has_begun = False
        if not self._in_head:
            self._silence.stop()
        self._feed(data)
        if self.transport.is_closing():
            return
        if self._in_head:
            self._watch_head(len(data))
        elif self._is_between:
            self._finish_piece(data if was_between and self._has_begun else b"")
        elif isinstance(cycle := self._cycle, Exchange) and cycle.timer is None:
            cycle.timer = self.loop.call_later(self.invocations.timeout_s, self._give_up_body, cycle)

    def _feed(self, piece: bytes) -> None:
        self._piece = piece
        super().data_received(piece)
        self._piece = b""

    def _finish_piece(self, request: bytes) -> None:
        """What has come ended with a request, or was that request."""
        cycle = self._cycle
        if cycle.response_complete and not self._silence.is_running:
            self._silence.start()
        if not isinstance(cycle, Exchange) or cycle.head is None:
            return
        if cycle.keep_alive and not self.expect_100_continue:
            self.heads.keep(request, cycle.head, cycle.size)

    def _watch_head(self, size: int) -> None:
        if not self._has_begun:
            self._head_bytes += size
        if self._head_bytes > MOST_HEAD_BYTES:
            self._refuse(431, f"the head of the request has more than {MOST_HEAD_BYTES} bytes")
        elif not self._silence.is_running:
            self._silence.start()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope[PRESENCE] = self._presence  # type: ignore[literal-required]
        self._in_head, self._has_begun, self._head_bytes = True, True, 0
        self._is_between = False

    def on_headers_complete(self) -> None:
        self._is_upgrade = self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT"
        if self._is_upgrade:
            return
        self._in_head, self._head_bytes = False, 0
        self._silence.stop()
        if self._is_usual():
            self._begin()
        else:
            super().on_headers_complete()

    def _is_free(self) -> bool:
        cycle: Any = self.cycle  # not by the property: every request comes here
        return (cycle is None or cycle.response_complete) and not (
            self.flow.write_paused or self.transport.is_closing()
        )

    def _is_usual(self) -> bool:
        return self.url == PATH and self.parser.get_method() == b"POST" and self._is_free()

    def _begin(self) -> None:
        keep_alive = self.parser.should_keep_alive() and self.parser.get_http_version() != "1.0"
        cycle = Exchange(keep_alive=keep_alive)
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
        if not isinstance(cycle, Exchange):
            super().on_body(body)
        elif not cycle.response_complete:
            cycle.size += len(body)
            cycle.body.append(body)
            try:
                self.invocations.check_size(cycle.size)
            except RequestError as error:
                self._write(cycle, self.invocations.refused(error))

    def on_message_complete(self) -> None:
        if self._is_upgrade:
            return
        self._is_between = True
        cycle = self._cycle
        if not isinstance(cycle, Exchange):
            super().on_message_complete()
            return
        cycle.is_whole = True
        if cycle.timer is not None:
            cycle.timer.cancel()
        if cycle.head is not None and not cycle.response_complete:
            body = cycle.body[0] if len(cycle.body) == 1 else b"".join(cycle.body)
            cycle.body = []
            cycle.waiting = self.invocations.submit(cycle.head, body, partial(self._write, cycle))

    def _write(self, cycle: Exchange, answer: Answer) -> None:
        """Answer in one piece, so that the client is woken up once."""
        if cycle.response_complete:
            return  # It has left.
        cycle.response_complete = True
        cycle.waiting = None
        cycle.body = []
        if not self.transport.is_closing():
            defaults = tuple(self.server_state.default_headers)
            send(self.transport, self._descriptor, over_http(answer, defaults, keep_alive=cycle.keep_alive))
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

    def _give_up_body(self, cycle: Exchange) -> None:
        cycle.keep_alive = False  # the rest of the body would be taken for a request
        if not cycle.response_complete:
            self._write(cycle, self.invocations.refused(self.invocations.too_slow()))
        else:
            self.transport.close()

    def _note_loss(self, cycle: Exchange) -> None:
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
        """Whoever asks for another protocol, as clients of HTTP/2 do, gets an answer in this one.

        The parser takes what follows such a head for that protocol's, and not for the body that it is: it is given the head
        once more, without the wish.
        """
        error = sys.exc_info()[1]  # this is called where the parser's exception is caught
        if not self._is_upgrade or error is None:
            return
        self._is_upgrade = False
        before = self.parser
        lines = [b"%b %b HTTP/%b\r\n" % (before.get_method(), self.url, before.get_http_version().encode())]
        lines += [b"%b: %b\r\n" % pair for pair in self.headers if pair[0] != b"upgrade"]
        self.parser = type(before)(self)  # the old one takes nothing more where the connection is to be closed
        with contextlib.suppress(AttributeError):  # httptools before 0.6.3
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._feed(b"".join([*lines, b"\r\n", self._piece[error.args[0] :]]))

    def _give_up(self) -> None:
        if self._in_head and (self._head_bytes or not self._is_between):
            self._refuse(408, f"the head of the request was not complete within {KEEP_ALIVE_S} s")
        else:
            self.transport.close()

    def _refuse(self, status: int, reason: str) -> None:
        """Answer what never became a request, and close."""
        phrase = phrase_of(status)
        body = json.dumps({"status": status, "error": phrase, "message": reason}).encode()
        head = f"HTTP/1.1 {status} {phrase}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        self.transport.write(head.encode() + body)
        self.transport.close()
