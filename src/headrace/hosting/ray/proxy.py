"""What the HTTP proxies of Ray Serve do when a replica ends: they answer 503 with Retry-After, as an endpoint on one machine does.

Ray Serve's proxy answers 500, or breaks the connection, when a replica dies with a request. It calls a function that an environment variable names
for more layers around it; :func:`middlewares` is that function.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from headrace import _optional

__all__ = ["VARIABLE", "ReplicaGuard", "middlewares"]

VARIABLE = "RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH"
"""The environment variable of a Serve controller for the function that returns layers of its proxies."""
PATHS = ("/invocations", "/ping", "/execution-parameters", "/metrics")
UNAVAILABLE = 503
TIMED_OUT = 408
JSON = b"application/json"
VARIANT = b"x-amzn-invoked-production-variant"  # in every answer of a container
ENDED = "the replica ended while it had this request; send it again"
BUSY = "no replica can take this request now; send it again"

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Receive = Callable[[], Awaitable[Message]]


class ReplicaGuard:
    """A layer around a proxy of Ray Serve, for the paths of our endpoints. Others pass unchanged.

    An answer is passed on once its body has arrived: a client then sees a whole answer of a replica, or 503.

    Args:
        app: The proxy.
    """

    def __init__(self, app: Callable[[Message, Receive, Send], Awaitable[None]]) -> None:
        self._app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or not str(scope.get("path", "")).endswith(PATHS):
            await self._app(scope, receive, send)
            return
        answer = _HeldAnswer(send)
        try:
            await self._app(scope, receive, answer.take)
        except Exception:
            if answer.has_begun:
                raise
        if not answer.has_begun:
            await answer.refuse(ENDED)


class _HeldAnswer:
    """One answer, held back until its body arrives."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._head: Message | None = None
        self._body = bytearray()
        self._is_refused = False
        self.has_begun = False

    async def take(self, message: Message) -> None:
        """Take a message from the proxy."""
        if self._is_refused:
            return
        if message["type"] == "http.response.start":
            self._head = message
            return
        if self.has_begun or message["type"] != "http.response.body" or self._head is None:
            await self._send(message)
            return
        if _is_of_serve(self._head):
            self._is_refused = True
            await self.refuse(BUSY)
            return
        head = self._head
        self._body += message.get("body", b"")
        if message.get("more_body") and not self._is_whole(head):
            return
        self.has_begun = True
        await self._send(head)
        await self._send({**message, "body": bytes(self._body)})

    def _is_whole(self, head: Message) -> bool:
        """Whether the body has the length that its head declares. Without one, each piece is passed on as it comes."""
        declared = dict(head["headers"]).get(b"content-length")
        return declared is None or len(self._body) >= int(declared)

    async def refuse(self, reason: str) -> None:
        """Answer 503."""
        self.has_begun = True
        body = json.dumps({"status": UNAVAILABLE, "error": "Service Unavailable", "message": reason}).encode()
        headers = [(b"content-type", JSON), (b"retry-after", b"1"), (b"content-length", b"%d" % len(body))]
        await self._send({"type": "http.response.start", "status": UNAVAILABLE, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})


def _is_of_serve(head: Message) -> bool:
    """Whether Ray Serve itself refuses the request: it is overloaded, or has no replica. Our own refusals are JSON."""
    headers = {name.lower(): value for name, value in head["headers"]}
    is_ours = VARIANT in headers or headers.get(b"content-type", b"").startswith(JSON)
    return head["status"] in (UNAVAILABLE, TIMED_OUT) and not is_ours


def middlewares() -> list[Any]:
    """The layers for a proxy of Ray Serve."""
    return [_optional.require("starlette.middleware", extra="serve").Middleware(ReplicaGuard)]
