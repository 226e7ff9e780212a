"""The face of an endpoint: SageMaker's paths, headers, statuses and limits, over Starlette."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol

from penstock import _optional
from penstock.contracts.serving import Request, Response
from penstock.errors import RequestError
from penstock.hosting import page
from penstock.hosting.connections import PRESENCE
from penstock.hosting.failures import ContainerError, as_failure
from penstock.hosting.metrics import CONTENT_TYPE, Metrics
from penstock.hosting.settings import Settings
from penstock.hosting.workers.dispatch import Dispatcher

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request as HttpRequest
    from starlette.responses import Response as HttpResponse

__all__ = ["Pool", "create_app"]

PREFIX = "x-amzn-sagemaker-"
CUSTOM_ATTRIBUTES = PREFIX + "custom-attributes"
INFERENCE_ID = PREFIX + "inference-id"
VARIANT = {"x-amzn-invoked-production-variant": "AllTraffic"}
MOST_ATTRIBUTES = 1024
MOST_INFERENCE_ID = 64
VISIBLE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
OURS = {
    "content-length",
    "content-type",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "upgrade",
    "trailer",
    "te",
    "date",
}
"""Headers of an answer that are the server's to set."""
DEFAULT_CONTENT_TYPE = "application/json"
MEBIBYTE = 1 << 20


class Pool(Protocol):
    """What holds the model, in processes or threads."""

    @property
    def ready(self) -> int: ...
    @property
    def unready(self) -> str | None: ...
    @property
    def accepts(self) -> bool: ...
    @property
    def execution_parameters(self) -> Mapping[str, Any] | None: ...
    async def start(self) -> None: ...
    async def stop(self) -> None: ...


def create_app(pool: Pool, dispatcher: Dispatcher, settings: Settings, metrics: Metrics, *, title: str) -> Starlette:
    """The endpoint as an ASGI application, which starts the pool when it starts and stops it when it ends.

    Args:
        pool: What holds the model.
        dispatcher: Gives it the requests.
        settings: The limits.
        metrics: What ``/metrics`` shows.
        title: Name of the endpoint, for the page at ``/``.

    Raises:
        MissingExtra: Starlette is not installed.
    """
    applications = _optional.require("starlette.applications", extra="serve")
    routing = _optional.require("starlette.routing", extra="serve")
    face = _Face(pool, dispatcher, settings, metrics, title)

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
    def __init__(self, pool: Pool, dispatcher: Dispatcher, settings: Settings, metrics: Metrics, title: str) -> None:
        self._pool, self._dispatcher, self._settings, self._metrics = pool, dispatcher, settings, metrics
        self._title = title
        self._response: type[HttpResponse] = _optional.require("starlette.responses", extra="serve").Response
        self._gone = _optional.require("starlette.requests", extra="serve").ClientDisconnect
        metrics.gauge(
            "penstock_requests_in_flight", "Invocations that are not answered yet.", lambda: dispatcher.in_flight
        )
        metrics.gauge(
            "penstock_requests_waiting", "Invocations that no worker has taken yet.", lambda: dispatcher.waiting
        )

    async def invocations(self, request: HttpRequest) -> HttpResponse:
        start = time.perf_counter()
        try:
            answer = self._checked(await self._answer(request))
        except self._gone:
            answer = self._error(RequestError(400, "the client left before its request was complete"))
        except (RequestError, ContainerError) as error:
            answer = self._error(error)
        status = str(answer.status_code)
        self._metrics.requests.add(status=status)
        self._metrics.request_seconds.observe(time.perf_counter() - start, status=status)
        return answer

    async def _answer(self, request: HttpRequest) -> Response:
        headers = {name: value for name, value in request.headers.items() if name.startswith(PREFIX)}
        _check_headers(headers)
        asked = Request(
            body=await self._body(request),
            content_type=request.headers.get("content-type", "").strip() or DEFAULT_CONTENT_TYPE,
            accept=", ".join(request.headers.getlist("accept")).strip() or "*/*",
            headers=headers,
        )
        if not self._pool.accepts:
            raise RequestError(503, self._pool.unready or "the model is not ready")
        return await self._dispatcher.answer(asked, request.scope.get(PRESENCE))

    async def _body(self, request: HttpRequest) -> bytes:
        """The whole body, as long as it is within the limits of size and time."""
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                return await self._collected(request)
        except TimeoutError:
            reason = f"the body of the request was not complete within {self._settings.timeout_s:g} s"
            raise RequestError(408, reason) from None

    async def _collected(self, request: HttpRequest) -> bytes:
        most = self._settings.max_payload_bytes
        said = request.headers.get("content-length", "")
        if said.isdecimal() and int(said) > most:
            raise _too_large(int(said), most)
        parts, size = [], 0
        async for part in request.stream():
            size += len(part)
            if size > most:
                raise _too_large(size, most)
            parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _checked(self, answer: Response) -> HttpResponse:
        """The container's answer over HTTP, if it can be one."""
        if len(answer.body) > self._settings.max_payload_bytes:
            size = (
                f"{len(answer.body)} bytes, which is more than the {self._settings.max_payload_bytes} that are allowed"
            )
            raise RequestError(500, f"the container's answer has {size}")
        if not 200 <= answer.status <= 599:
            raise RequestError(500, f"the container answered with status {answer.status}, which is none")
        headers = {name: value for name, value in answer.headers.items() if name.lower() not in OURS}
        headers["content-type"] = answer.content_type
        for name, value in headers.items():
            if not TOKEN.fullmatch(name) or not HEADER_VALUE.fullmatch(value):
                raise RequestError(500, f"the container answered with a header that is none: {name!r}: {value!r}")
        return self._response(answer.body, status_code=answer.status, headers={**VARIANT, **headers})

    def _error(self, error: Exception) -> HttpResponse:
        failure = as_failure(error)
        if isinstance(failure, RequestError):
            status = failure.status if 400 <= failure.status <= 599 else 500
            found = {"status": status, "error": _phrase(status), "message": failure.reason}
        else:
            status = 500
            found = {"status": status, "error": failure.kind, "message": failure.reason}
            if self._settings.debug:
                found["trace"] = failure.trace
        if failure.container is not None:
            found["container"] = failure.container
        headers = {"retry-after": "1"} if status == HTTPStatus.SERVICE_UNAVAILABLE else None
        return self._json(found, status=status, headers=headers)

    def _json(self, value: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> HttpResponse:
        return self._response(json.dumps(value), status_code=status, headers=headers, media_type="application/json")

    async def ping(self, _: HttpRequest) -> HttpResponse:
        if self._pool.unready is None:
            return self._response(b"", media_type="application/json")
        return self._error(RequestError(503, self._pool.unready))

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
        return self._response(page.html(self._title), headers=page.HEADERS)

    async def http_error(self, request: HttpRequest, error: Exception) -> HttpResponse:
        status = getattr(error, "status_code", 500)
        where = f"{request.method} {request.url.path}"
        known = "GET /ping, POST /invocations, GET /execution-parameters, GET /metrics, GET /"
        found = {"status": status, "error": _phrase(status), "message": f"there is no {where}; there are {known}"}
        return self._json(found, status=status, headers=getattr(error, "headers", None))

    async def own_error(self, _: HttpRequest, error: Exception) -> HttpResponse:
        return self._error(error)


def _too_large(size: int, most: int) -> RequestError:
    return RequestError(413, f"the body has {size} bytes or more, and at most {most} are allowed")


def _check_headers(headers: Mapping[str, str]) -> None:
    attributes = headers.get(CUSTOM_ATTRIBUTES)
    if attributes and (len(attributes) > MOST_ATTRIBUTES or not VISIBLE.fullmatch(attributes)):
        raise RequestError(400, f"{CUSTOM_ATTRIBUTES} must be at most {MOST_ATTRIBUTES} visible ASCII characters")
    identity = headers.get(INFERENCE_ID)
    if identity is not None and not (1 <= len(identity) <= MOST_INFERENCE_ID and VISIBLE.fullmatch(identity)):
        raise RequestError(400, f"{INFERENCE_ID} must be 1 to {MOST_INFERENCE_ID} visible ASCII characters")


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"
