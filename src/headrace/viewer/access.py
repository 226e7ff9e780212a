"""Who may look: this machine only, by its own host names, with a token that becomes a cookie, and by GET only."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any
from urllib.parse import parse_qsl, urlencode

from headrace.viewer.display.markup import Markup, element, join, page

__all__ = ["Access", "loopback_hosts"]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

POLICY = (
    "default-src 'none'; img-src 'self' data:; media-src 'self'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors "
)
HTTP_PORT = 80
STYLE = "/static/"
"""Where there is no data, so that the page without access is styled too."""
FRAMES = "http://localhost:* http://127.0.0.1:* https://localhost:* vscode-webview:"
"""Where a notebook may show the viewer in a frame."""


def loopback_hosts(port: int) -> frozenset[str]:
    """The values of the ``Host`` header that name this machine's loopback address. Others come from a page that rebinds its name."""
    return host_headers(("127.0.0.1", "localhost", "[::1]"), port)


def host_headers(names: Iterable[str], port: int) -> frozenset[str]:
    """The values of the ``Host`` header for some names. Browsers leave out port 80."""
    names = list(names)
    return frozenset([f"{name}:{port}" for name in names] + (names if port == HTTP_PORT else []))


class Access:
    """An ASGI application around another, which it protects.

    Args:
        app: The other.
        hosts: The values of the ``Host`` header that are answered.
        port: Where it listens; cookies of other viewers on this machine have other names.
        is_embedded: Whether it is shown in a frame of a notebook. Browsers keep no cookie for such a frame, so a key in the path of every
            address takes its place.
    """

    def __init__(self, app: App, *, hosts: Iterable[str], port: int, is_embedded: bool = False) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)
        self.token: str = secrets.token_urlsafe(32)
        self._session = secrets.token_urlsafe(32)
        self._cookie = f"headrace-view-{port}"
        self._is_embedded = is_embedded
        self.base: str = f"/{self._session}" if is_embedded else ""

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer or refuse one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        hosts = [value.decode("latin-1").lower() for name, value in scope["headers"] if name.lower() == b"host"]
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            await self._refuse(send, 421, "This address does not belong to the viewer.")
        elif scope["method"] not in ("GET", "HEAD"):
            await self._refuse(send, 405, "The viewer only shows data: it answers GET.", allow=b"GET, HEAD")
        elif self._is_embedded:
            await self._answer_embedded(scope, receive, send)
        elif self._knows(headers.get("cookie", "")) or scope["path"].startswith(STYLE):
            await self._answer(scope, receive, send)
        elif self._brings_token(scope) and wants_json(_query_of(scope), headers.get("accept", "")):
            await self._answer(scope, receive, send)  # A program follows no page to its cookie.
        elif self._brings_token(scope):
            await self._exchange(scope, send)
        else:
            await self._refuse(
                send, 403, "Open the address that `headrace view` printed: it holds the key to this page."
            )

    async def _answer_embedded(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        first, _, rest = scope["path"][1:].partition("/")
        if not _equal(first, self._session):
            await self._refuse(send, 403, "This page belongs to a notebook: run its cell again.")
            return
        path = "/" + rest
        await self._answer({**scope, "path": path, "raw_path": path.encode()}, receive, send)

    def _knows(self, cookies: str) -> bool:
        # Other programs of this machine share the header, and SimpleCookie gives up at the first pair that it dislikes.
        pairs = (pair.strip().partition("=") for pair in cookies.split(";"))
        return any(name == self._cookie and _equal(value, self._session) for name, _, value in pairs)

    def _brings_token(self, scope: MutableMapping[str, Any]) -> bool:
        return _equal(_query_of(scope).get("token", ""), self.token)

    async def _exchange(self, scope: MutableMapping[str, Any], send: Send) -> None:
        """Give the cookie for the token, and go to the same page without it."""
        query = [(k, v) for k, v in parse_qsl(scope["query_string"].decode("latin-1")) if k != "token"]
        # One slash, so that a path of two does not name another host.
        target = "/" + scope["path"].lstrip("/\\") + (f"?{urlencode(query)}" if query else "")
        cookie = f"{self._cookie}={self._session}; Path=/; HttpOnly; SameSite=Strict"
        # A page rather than a redirection: where a link of another page leads here, browsers keep a strict cookie from a redirection.
        link = element("p", element("a", "Go on", href=target))
        onward = element("meta", http_equiv="refresh", content=f"0;url={target}")
        body = join([Markup("<!doctype html>\n"), element("title", "headrace view"), onward, link]).encode(
            "utf-8", "replace"
        )
        headers = [(b"content-type", b"text/html; charset=utf-8"), (b"content-length", str(len(body)).encode())]
        await self._start(send, 200, [*headers, (b"set-cookie", cookie.encode())])
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        async def send_protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(each for each in self._headers() if each[0] not in own)]
            await send(message)

        await self._app(scope, receive, send_protected)

    async def _refuse(self, send: Send, status: int, reason: str, allow: bytes | None = None) -> None:
        body = page("No access", base="", navigation="", content=element("p", reason)).encode()
        headers = [(b"content-type", b"text/html; charset=utf-8"), (b"content-length", str(len(body)).encode())]
        await self._start(send, status, [*headers, *([(b"allow", allow)] if allow else [])])
        await send({"type": "http.response.body", "body": body})

    async def _start(self, send: Send, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        await send({"type": "http.response.start", "status": status, "headers": [*headers, *self._headers()]})

    def _headers(self) -> list[tuple[bytes, bytes]]:
        policy = POLICY + (FRAMES if self._is_embedded else "'none'")
        found = [
            (b"content-security-policy", policy.encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"referrer-policy", b"no-referrer"),
            (b"cross-origin-resource-policy", b"same-origin"),
            (b"cross-origin-opener-policy", b"same-origin"),
            (b"cache-control", b"no-store"),
        ]
        return found if self._is_embedded else [*found, (b"x-frame-options", b"DENY")]


def wants_json(query: Mapping[str, str], accept: str) -> bool:
    """Whether a request asks for JSON."""
    return query.get("format") == "json" or accept.startswith(("application/json", "application/x-ndjson"))


def _query_of(scope: MutableMapping[str, Any]) -> dict[str, str]:
    return dict(parse_qsl(scope["query_string"].decode("latin-1")))


def _equal(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode())
