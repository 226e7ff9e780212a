"""The application of an endpoint: SageMaker's paths, headers, statuses and limits, over Starlette; and the page at ``/``, on which one can send a
request by hand.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import html as markup
import json
import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace import _optional
from headrace.errors import RequestError
from headrace.hosting.http.fast_path import PRESENCE, Presence
from headrace.hosting.http.invocations import Answer, Head, Invocations, Pool, phrase_of
from headrace.hosting.metrics import CONTENT_TYPE, Metrics
from headrace.hosting.settings import Settings

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request as HttpRequest
    from starlette.responses import Response as HttpResponse

__all__ = ["HEADERS", "create_app", "html"]


TEXT = (Path(__file__).parent / "page.html").read_text(encoding="utf-8")


def html(title: str) -> str:
    """The page of an endpoint of this name."""
    return TEXT.replace("{title}", markup.escape(title))


def _hash(tag: str) -> str:
    """What a browser may run or apply: exactly the text that stands in the page."""
    found = re.search(rf"<{tag}>(.*?)</{tag}>", TEXT, re.DOTALL)
    assert found is not None
    return "'sha256-" + base64.b64encode(hashlib.sha256(found[1].encode()).digest()).decode() + "'"


HEADERS = {
    "content-type": "text/html; charset=utf-8",
    "content-security-policy": f"default-src 'none'; script-src {_hash('script')}; style-src {_hash('style')}; "
    "connect-src 'self'; img-src data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


MEBIBYTE = 1 << 20


def create_app(pool: Pool, invocations: Invocations, settings: Settings, metrics: Metrics, *, title: str) -> Starlette:
    """The endpoint as an ASGI application, which starts the pool when it starts and stops it when it ends.

    Args:
        pool: What holds the model.
        invocations: Has requests answered.
        settings: The limits.
        metrics: What ``/metrics`` shows.
        title: Name of the endpoint, for the page at ``/``.

    Raises:
        MissingExtra: Starlette is not installed.
    """
    applications = _optional.require("starlette.applications", extra="serve")
    routing = _optional.require("starlette.routing", extra="serve")
    face = _Face(pool, invocations, settings, metrics, title)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await pool.start()
        try:
            yield
        finally:
            await pool.stop()

    app: Starlette = applications.Starlette(
        routes=[
            routing.Route("/", face.page, methods=["GET"]),
            routing.Route("/ping", face.ping, methods=["GET"]),
            routing.Route("/invocations", face.invocations, methods=["POST"]),
            routing.Route("/execution-parameters", face.execution_parameters, methods=["GET"]),
            routing.Route("/metrics", face.metrics_page, methods=["GET"]),
        ],
        exception_handlers={404: face.http_error, 405: face.http_error, 500: face.own_error},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False  # SageMaker has no such path either, and few clients send a body twice
    return app


class _Face:
    def __init__(self, pool: Pool, invocations: Invocations, settings: Settings, metrics: Metrics, title: str) -> None:
        self._pool, self._invocations, self._settings, self._metrics = pool, invocations, settings, metrics
        self._title = title
        self._response: type[HttpResponse] = _optional.require("starlette.responses", extra="serve").Response
        self._gone = _optional.require("starlette.requests", extra="serve").ClientDisconnect

    async def invocations(self, request: HttpRequest) -> HttpResponse:
        try:
            head = self._invocations.head(request.scope["headers"])
            body = await self._body(request)
        except self._gone:
            error = RequestError(400, "the client left before its request was complete")
            return self._over_http(self._invocations.refused(error))
        except RequestError as error:
            return self._over_http(self._invocations.refused(error))
        return self._over_http(await self._answer(head, body, request.scope.get(PRESENCE) or Presence()))

    async def _body(self, request: HttpRequest) -> bytes:
        """The whole body, as long as it is within the limits of size and time."""
        parts, size = [], 0
        try:
            async with asyncio.timeout(self._invocations.timeout_s):
                async for part in request.stream():
                    size += len(part)
                    self._invocations.check_size(size)
                    parts.append(part)
        except TimeoutError:
            raise self._invocations.too_slow() from None
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def _answer(self, head: Head, body: bytes, presence: Presence) -> Answer:
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def deliver(answer: Answer) -> None:
            if not future.done():
                future.set_result(answer)

        waiting = self._invocations.submit(head, body, deliver)
        if waiting is not None:
            presence.on_lost = waiting.leave
        try:
            return await future
        finally:
            presence.on_lost = None
            if waiting is not None:
                waiting.leave()

    def _over_http(self, answer: Answer) -> HttpResponse:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in answer.headers}
        return self._response(answer.body, status_code=answer.status, headers=headers)

    def _json(self, value: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> HttpResponse:
        return self._response(json.dumps(value), status_code=status, headers=headers, media_type="application/json")

    async def ping(self, _: HttpRequest) -> HttpResponse:
        if self._pool.unready is None:
            return self._response(b"", media_type="application/json")
        return self._over_http(self._invocations.failure(RequestError(503, self._pool.unready)))

    async def execution_parameters(self, _: HttpRequest) -> HttpResponse:
        own = self._pool.execution_parameters
        default = {
            "MaxConcurrentTransforms": max(1, self._settings.num_workers) * self._settings.threads,
            "BatchStrategy": "MULTI_RECORD",
            "MaxPayloadInMB": max(1, self._settings.max_payload_bytes // MEBIBYTE),
        }
        return self._json(default if own is None else own)

    async def metrics_page(self, _: HttpRequest) -> HttpResponse:
        return self._response(self._metrics.text(), headers={"content-type": CONTENT_TYPE})

    async def page(self, _: HttpRequest) -> HttpResponse:
        return self._response(html(self._title), headers=HEADERS)

    async def http_error(self, request: HttpRequest, error: Exception) -> HttpResponse:
        status = getattr(error, "status_code", 500)
        where = f"{request.method} {request.url.path}"
        known = "GET /ping, POST /invocations, GET /execution-parameters, GET /metrics, GET /"
        found = {"status": status, "error": phrase_of(status), "message": f"there is no {where}; there are {known}"}
        return self._json(found, status=status, headers=getattr(error, "headers", None))

    async def own_error(self, _: HttpRequest, error: Exception) -> HttpResponse:
        return self._over_http(self._invocations.failure(error))
