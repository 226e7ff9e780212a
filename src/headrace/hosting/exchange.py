"""One invocation on a connection that takes the short way: what has come of the request, and the answer as bytes."""

from __future__ import annotations

import asyncio
from functools import lru_cache

from headrace.hosting.invocations import WITHOUT_BODY, Answer, Head, Headers, phrase_of
from headrace.hosting.workers.dispatch import Waiting

__all__ = ["Exchange", "over_http"]


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
