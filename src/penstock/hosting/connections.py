"""Connections of clients: what is no HTTP, heads without an end, and clients that leave."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from penstock import _optional

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as _Base
else:
    _Base = object

__all__ = ["KEEP_ALIVE_S", "PRESENCE", "Presence", "protocol"]

KEEP_ALIVE_S = 75
"""How long a connection may be silent before a request and between requests."""
MOST_HEAD_BYTES = 64 << 10  # beyond what the first read has brought
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


def protocol() -> type[asyncio.Protocol]:
    """What the server speaks on each connection.

    Raises:
        MissingExtra: uvicorn or httptools is not installed.
    """
    base = _optional.require("uvicorn.protocols.http.httptools_impl", extra="serve").HttpToolsProtocol
    return type("Connection", (_Connection, base), {})


class _Connection(_Base):
    """One connection. The server's own protocol takes heads of any length and waits for their end without limit."""

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

    def data_received(self, data: bytes) -> None:
        self._has_begun = False
        super().data_received(data)
        if not self._in_head or self.transport.is_closing():
            return
        if not self._has_begun:
            self._head_bytes += len(data)
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
        super().on_headers_complete()

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
        phrase = HTTPStatus(status).phrase
        body = json.dumps({"status": status, "error": phrase, "message": reason}).encode()
        head = f"HTTP/1.1 {status} {phrase}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        self.transport.write(head.encode() + body)
        self.transport.close()
