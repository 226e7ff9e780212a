"""The ASGI application of an endpoint: SageMaker's paths, headers, statuses and limits, and a page at ``/`` to send requests by hand."""

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
from headrace.hosting.http.invocations import HttpAnswer, Invocations, Pool, RequestHead, status_phrase
from headrace.hosting.metrics import CONTENT_TYPE, Metrics
from headrace.hosting.settings import Settings
from headrace.hosting.workers.dispatch import PendingRequest

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request as HttpRequest
    from starlette.responses import Response as HttpResponse

__all__ = ["HEADERS", "create_app", "html"]


TEXT = (Path(__file__).parent / "page.html").read_text(encoding="utf-8")


def html(title: str) -> str:
    """The page at ``/``.

    Args:
        title: The name of the endpoint.
    """
    return TEXT.replace("{title}", markup.escape(title))


def _hash(tag: str) -> str:
    """The hash of a script or style of the page, for its content security policy."""
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
        pool: Holds the model.
        invocations: Answers requests.
        settings: The limits.
        metrics: Shown at ``/metrics``.
        title: The name of the endpoint, for the page at ``/``.

    Raises:
        MissingExtra: Starlette is not installed.
    """
    applications = _optional.require("starlette.applications", extra="serve")
    routing = _optional.require("starlette.routing", extra="serve")
    routes = _Routes(pool, invocations, settings, metrics, title)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await pool.start()
        try:
            yield
        finally:
            await pool.stop()

    app: Starlette = applications.Starlette(
        routes=[
            routing.Route("/", routes.page, methods=["GET"]),
            routing.Route("/ping", routes.ping, methods=["GET"]),
            routing.Route("/invocations", routes.invocations, methods=["POST"]),
            routing.Route("/execution-parameters", routes.execution_parameters, methods=["GET"]),
            routing.Route("/metrics", routes.metrics_page, methods=["GET"]),
        ],
        exception_handlers={404: routes.http_error, 405: routes.http_error, 500: routes.own_error},
        lifespan=lifespan,
    )
    app.state.pool, app.state.invocations, app.state.metrics = pool, invocations, metrics
    app.router.redirect_slashes = False  # SageMaker does not redirect either, and few clients send a body twice
    return app


class _Routes:
    def __init__(self, pool: Pool, invocations: Invocations, settings: Settings, metrics: Metrics, title: str) -> None:
        self._pool, self._invocations, self._settings, self._metrics = pool, invocations, settings, metrics
        self._title = title
        self._response: type[HttpResponse] = _optional.require("starlette.responses", extra="serve").Response
        self._disconnect = _optional.require("starlette.requests", extra="serve").ClientDisconnect

    async def invocations(self, request: HttpRequest) -> HttpResponse:
        try:
            head = self._invocations.read_head(request.scope["headers"])
            body = await self._body(request)
        except self._disconnect:
            error = RequestError(400, "the client disconnected before its request was complete")
            return self._over_http(self._invocations.refuse(error))
        except RequestError as error:
            return self._over_http(self._invocations.refuse(error))
        return self._over_http(await self._answer(head, body, request))

    async def _body(self, request: HttpRequest) -> bytes:
        """The whole body, within the limits of size and time."""
        parts, size = [], 0
        try:
            async with asyncio.timeout(self._invocations.timeout_s):
                async for part in request.stream():
                    size += len(part)
                    self._invocations.check_size(size)
                    parts.append(part)
        except TimeoutError:
            raise self._invocations.slow_body_error() from None
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def _answer(self, head: RequestHead, body: bytes, request: HttpRequest) -> HttpAnswer:
        future: asyncio.Future[HttpAnswer] = asyncio.get_running_loop().create_future()

        def deliver(answer: HttpAnswer) -> None:
            if not future.done():
                future.set_result(answer)

        pending = self._invocations.submit(head, body, deliver)
        if pending is None:
            return await future
        watch = asyncio.create_task(_cancel_on_disconnect(pending, request))
        try:
            return await future
        finally:
            watch.cancel()
            pending.cancel()

    def _over_http(self, answer: HttpAnswer) -> HttpResponse:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in answer.headers}
        return self._response(answer.body, status_code=answer.status, headers=headers)

    def _json(self, value: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> HttpResponse:
        return self._response(json.dumps(value), status_code=status, headers=headers, media_type="application/json")

    async def ping(self, _: HttpRequest) -> HttpResponse:
        if self._pool.unready is None:
            return self._response(b"", media_type="application/json")
        return self._over_http(self._invocations.error_answer(RequestError(503, self._pool.unready)))

    async def execution_parameters(self, _: HttpRequest) -> HttpResponse:
        if fault := self._pool.execution_parameters_fault:
            return self._over_http(self._invocations.error_answer(RequestError(500, fault)))
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
        found = {"status": status, "error": status_phrase(status), "message": f"there is no {where}; there are {known}"}
        return self._json(found, status=status, headers=getattr(error, "headers", None))

    async def own_error(self, _: HttpRequest, error: Exception) -> HttpResponse:
        return self._over_http(self._invocations.error_answer(error))


async def _cancel_on_disconnect(pending: PendingRequest, request: HttpRequest) -> None:
    """Cancel a request when its client disconnects."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    pending.cancel()
