"""One invocation, independent of the HTTP server: reads its head, checks limits, submits it, and makes the HTTP answer."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import Any, NamedTuple, Protocol

from headrace.contracts.serving import Request, Response
from headrace.errors import RequestError
from headrace.hosting.failures import as_failure
from headrace.hosting.metrics import Metrics
from headrace.hosting.settings import Settings
from headrace.hosting.workers.dispatch import Dispatcher, PendingRequest

__all__ = ["WITHOUT_BODY", "HttpAnswer", "Invocations", "Pool", "RequestHead", "status_phrase"]


PREFIX = "x-amzn-sagemaker-"
PREFIX_BYTES = PREFIX.encode()
CUSTOM_ATTRIBUTES = PREFIX + "custom-attributes"
INFERENCE_ID = PREFIX + "inference-id"
VARIANT = (b"x-amzn-invoked-production-variant", b"AllTraffic")
RETRY = (b"retry-after", b"1")
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
    "x-amzn-invoked-production-variant",
}
"""Headers of an answer that only the server sets."""
DEFAULT_CONTENT_TYPE = "application/json"
WITHOUT_BODY = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)

Headers = tuple[tuple[bytes, bytes], ...]


class Pool(Protocol):
    """Holds the model, in processes or threads."""

    @property
    def ready(self) -> int: ...
    @property
    def unready(self) -> str | None: ...
    @property
    def accepts(self) -> bool: ...
    @property
    def execution_parameters(self) -> Mapping[str, Any] | None: ...
    @property
    def execution_parameters_fault(self) -> str | None: ...
    async def start(self) -> None: ...
    async def stop(self) -> None: ...


@dataclass(frozen=True, slots=True)
class RequestHead:
    """The headers of a request that matter."""

    content_type: str
    accept: str
    headers: Mapping[str, str]


class HttpAnswer(NamedTuple):
    """A response before it is formatted as HTTP.

    Attributes:
        status: The status.
        headers: Names in lower case; those of the connection are added later.
        body: The body.
    """

    status: int
    headers: Headers
    body: bytes


class Invocations:
    """Answers invocations.

    Args:
        pool: Holds the model.
        dispatcher: Gives requests to the pool.
        settings: The limits.
        metrics: Counts answers.
    """

    def __init__(self, pool: Pool, dispatcher: Dispatcher, settings: Settings, metrics: Metrics) -> None:
        self._pool, self._dispatcher, self._metrics = pool, dispatcher, metrics
        self._debug = settings.debug
        self.timeout_s: float = settings.timeout_s
        self.most_bytes: int = settings.max_payload_bytes
        metrics.gauge("headrace_requests_in_flight", "Invocations without an answer yet.", lambda: dispatcher.in_flight)
        metrics.gauge(
            "headrace_requests_waiting", "Invocations that no worker works on yet.", lambda: dispatcher.queued
        )

    def read_head(self, headers: Iterable[tuple[bytes, bytes]]) -> RequestHead:
        """Read the headers of a request.

        Args:
            headers: As received, names in lower case.

        Raises:
            RequestError: 400, a header that SageMaker refuses, or a transfer coding such as gzip; 413, a declared body size over the limit.
        """
        content_type, accepted, others = "", [], {}
        for name, value in headers:
            if name == b"content-type":
                content_type = content_type or value.decode("latin-1")
            elif name == b"accept":
                accepted.append(value.decode("latin-1"))
            elif name == b"content-length":
                self._check_length(value)
            elif name == b"transfer-encoding":
                _check_coding(value)
            elif name.startswith(PREFIX_BYTES):
                others[name.decode("latin-1")] = value.decode("latin-1")
        if others:
            _check_request_headers(others)
        return RequestHead(content_type.strip() or DEFAULT_CONTENT_TYPE, ", ".join(accepted).strip() or "*/*", others)

    def _check_length(self, said: bytes) -> None:
        text = said.decode("latin-1")
        if text.isdecimal():
            self.check_size(int(text))

    def check_size(self, size: int) -> None:
        """Check the size of a body, or of the part that has arrived.

        Raises:
            RequestError: 413.
        """
        if size > self.most_bytes:
            raise RequestError(413, f"the body has {size} bytes or more, and at most {self.most_bytes} are allowed")

    def submit(self, head: RequestHead, body: bytes, deliver: Callable[[HttpAnswer], None]) -> PendingRequest | None:
        """Answer a complete request.

        Args:
            head: Its head.
            body: Its body.
            deliver: Called once with the answer, now or later; also after the client disconnected.

        Returns:
            The pending request, to cancel it; ``None`` if it is answered already.
        """
        start = time.perf_counter()

        def finish(found: Response | Exception) -> None:
            answer = self._answer(found)
            deliver(answer)
            self._count(answer.status, time.perf_counter() - start)

        if not self._pool.accepts:
            finish(RequestError(503, self._pool.unready or "the model is not ready"))
            return None
        request = Request(body=body, content_type=head.content_type, accept=head.accept, headers=head.headers)
        try:
            return self._dispatcher.submit(request, finish)
        except RequestError as error:
            finish(error)
            return None

    def refuse(self, error: RequestError) -> HttpAnswer:
        """The answer to a request that is not complete or not valid. Counts it."""
        self._count(error.status, 0.0)
        return self.error_answer(error)

    def slow_body_error(self) -> RequestError:
        """The error for a body that does not arrive in time."""
        return RequestError(408, f"the body of the request was not complete within {self.timeout_s:g} s")

    def _count(self, status: int, seconds: float) -> None:
        text = str(status)
        self._metrics.requests.add(text)
        self._metrics.request_seconds.observe(seconds, text)

    def _answer(self, found: Response | Exception) -> HttpAnswer:
        try:
            return self.error_answer(found) if isinstance(found, Exception) else self._as_http_answer(found)
        except Exception as error:  # noqa: BLE001 - a container may put anything into its answer
            return self.error_answer(error)

    def _as_http_answer(self, response: Response) -> HttpAnswer:
        """The container's response, if HTTP can express it."""
        body, status = response.body, response.status
        if len(body) > self.most_bytes:
            size = f"{len(body)} bytes, more than the {self.most_bytes} allowed"
            raise RequestError(500, f"the container's answer has {size}")
        if not 200 <= status <= 599:
            raise RequestError(500, f"the container answered with {status}, which is not an HTTP status")
        headers = _headers_with_type(response.content_type)
        if response.headers:
            headers += _check_answer_headers(response.headers)
        return HttpAnswer(status, headers, b"" if status in WITHOUT_BODY else bytes(body))

    def error_answer(self, error: Exception) -> HttpAnswer:
        """The answer for an error."""
        failure = as_failure(error)
        if isinstance(failure, RequestError):
            status = failure.status if 400 <= failure.status <= 599 else 500
            found = {"status": status, "error": status_phrase(status), "message": failure.reason}
        else:
            status = 500
            found = {"status": status, "error": failure.kind, "message": failure.reason}
            if self._debug:
                found["trace"] = failure.trace
        if failure.container is not None:
            found["container"] = failure.container
        headers: Headers = ((b"content-type", b"application/json"),)
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            headers += (RETRY,)
        return HttpAnswer(status, headers, json.dumps(found).encode())


def status_phrase(status: int) -> str:
    """The reason phrase of a status."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"


def _check_coding(value: bytes) -> None:
    if value.strip().lower() != b"chunked":  # a script would get the body as it is, compressed
        raise RequestError(400, f"Transfer-Encoding {value.decode('latin-1')!r} is not supported: send chunked alone")


def _check_request_headers(headers: Mapping[str, str]) -> None:
    attributes = headers.get(CUSTOM_ATTRIBUTES)
    if attributes and (len(attributes) > MOST_ATTRIBUTES or not VISIBLE.fullmatch(attributes)):
        raise RequestError(400, f"{CUSTOM_ATTRIBUTES} must be at most {MOST_ATTRIBUTES} visible ASCII characters")
    identity = headers.get(INFERENCE_ID)
    if identity is not None and not (1 <= len(identity) <= MOST_INFERENCE_ID and VISIBLE.fullmatch(identity)):
        raise RequestError(400, f"{INFERENCE_ID} must be 1 to {MOST_INFERENCE_ID} visible ASCII characters")


@lru_cache(maxsize=64)
def _headers_with_type(content_type: str) -> Headers:
    return VARIANT, *_check_answer_headers({"content-type": content_type}, ours=frozenset())


def _check_answer_headers(given: Mapping[str, str], ours: Iterable[str] = OURS) -> Headers:
    headers = []
    for name, value in given.items():
        if name.lower() in ours:
            continue
        if not TOKEN.fullmatch(name) or not HEADER_VALUE.fullmatch(value):
            raise RequestError(500, f"the container answered with an invalid header: {name!r}: {value!r}")
        headers.append((name.lower().encode(), value.encode("latin-1")))
    return tuple(headers)
