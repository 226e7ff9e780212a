"""An HTTP client for endpoints, with SageMaker's names for options and errors."""

from __future__ import annotations

import http.client
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Any, TypedDict
from urllib.parse import urlsplit

from headrace.errors import HeadraceError

__all__ = ["Body", "Client", "InvocationResult", "InvokeOptions", "ModelError"]

PREFIX = "X-Amzn-SageMaker-"
MOST_MESSAGE = 2048
MODEL_ERROR = 424
TIMED_OUT = 504
UNFIT = re.compile("[^\t\x20-\x7e\x80-\xff]")
Body = bytes | bytearray | memoryview | str | IO[bytes]


class ModelError(HeadraceError, RuntimeError):
    """The endpoint answered with an error. SageMaker's ``InvokeEndpoint`` raises an error of this name.

    Attributes:
        status: 424, SageMaker's status for it.
        original_status: The status of the container's answer; 0 if it did not answer in time.
        original_message: The body of that answer.
        container: The container: ``primary``, or its name in a pipeline.
    """

    status = MODEL_ERROR

    def __init__(self, original_status: int, original_message: str, *, container: str = "primary") -> None:
        self.original_status = original_status
        self.original_message: str = original_message[:MOST_MESSAGE]
        self.container = container
        side = "client" if 400 <= original_status < 500 else "server"
        super().__init__(
            f'Received {side} error ({original_status}) from {container} with message "{self.original_message}"'
        )

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.original_status, self.original_message, self.container)


def _rebuild(status: int, message: str, container: str) -> ModelError:
    return ModelError(status, message, container=container)


@dataclass(frozen=True, slots=True, kw_only=True)
class InvocationResult:
    """The answer of an endpoint to an invocation."""

    body: bytes
    content_type: str
    custom_attributes: str | None = None
    production_variant: str = "AllTraffic"


class InvokeOptions(TypedDict, total=False):
    """The options of :meth:`Client.invoke`."""

    content_type: str
    accept: str | None
    custom_attributes: str | None
    target_container_hostname: str | None
    inference_id: str | None
    timeout_s: float


class Client:
    """A client of one endpoint. Safe in threads, in forked processes and for pickling. Connections are kept open and reused.

    Args:
        address: ``http://host:port``, and a path before ``/invocations`` where several endpoints share a port.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        parts = urlsplit(address)
        try:
            port = parts.port
        except ValueError:  # not a number, or too large
            port = None
        if parts.scheme != "http" or not parts.hostname or not port:
            raise ValueError(f"the address of an endpoint is http://host:port, got {address!r}")
        self._host, self._port, self._prefix = parts.hostname, port, parts.path.rstrip("/")
        self._idle: list[tuple[int, http.client.HTTPConnection]] = []  # with the process that opened it

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.address,)

    def invoke(
        self,
        body: Body,
        *,
        content_type: str = "application/json",
        accept: str | None = None,
        custom_attributes: str | None = None,
        target_container_hostname: str | None = None,
        inference_id: str | None = None,
        timeout_s: float = 70.0,
    ) -> InvocationResult:
        """Get a prediction.

        Args:
            body: The request: bytes, a text, which is sent as UTF-8, or an open file, which is read to its end.
            content_type: Its content type.
            accept: The content type that the answer should have.
            custom_attributes: Passed on to the container; at most 1024 visible ASCII characters.
            target_container_hostname: The container that answers, for endpoints with direct invocation.
            inference_id: A name for the request; 1 to 64 characters.
            timeout_s: How long to wait for the answer.

        Raises:
            ModelError: A container or the endpoint itself answered with an error.
            ConnectionError: No endpoint listens at this address.
            TypeError: The body is something else.
            ValueError: A header holds a character that HTTP cannot send, or ``timeout_s`` is not above 0.
        """
        if timeout_s <= 0:
            raise ValueError(f"timeout_s must be above 0, got {timeout_s}")
        given = {
            "Content-Type": content_type,
            "Accept": accept,
            PREFIX + "Custom-Attributes": custom_attributes,
            PREFIX + "Target-Container-Hostname": target_container_hostname,
            PREFIX + "Inference-Id": inference_id,
        }
        headers = {name: value for name, value in given.items() if value is not None}
        _check_headers(headers)
        payload = _to_bytes(body)
        try:
            status, found, answer = self.request("POST", "/invocations", payload, headers, timeout_s=timeout_s)
        except TimeoutError as error:
            reason = "Your invocation timed out while waiting for a response from container primary."
            raise ModelError(0, reason) from error
        if not 200 <= status < 300:
            raise _model_error(status, answer)
        return InvocationResult(
            body=answer,
            content_type=found.get("content-type", ""),
            custom_attributes=found.get("x-amzn-sagemaker-custom-attributes"),
            production_variant=found.get("x-amzn-invoked-production-variant", "AllTraffic"),
        )

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        timeout_s: float = 10.0,
    ) -> tuple[int, dict[str, str], bytes]:
        """Send one HTTP request. Returns status, headers with lower-case names, and body.

        Raises:
            ConnectionError: No endpoint listens at this address.
            TimeoutError: No answer arrived in time.
        """
        kept = self._take_idle()
        if kept is not None:
            try:
                return self._once(kept, method, path, body, headers, timeout_s)
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                pass  # The endpoint closed the idle connection. It did not read this request, so send it again.
        fresh = self._open(timeout_s)
        try:
            return self._once(fresh, method, path, body, headers, timeout_s)
        except ConnectionError as error:
            raise ConnectionError(f"no endpoint listens at {self.address}: {error}") from error
        except http.client.HTTPException as error:
            raise ConnectionError(f"the server at {self.address} is not an endpoint: {error!r}") from error

    def _open(self, timeout_s: float) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self._host, self._port, timeout=timeout_s)

    def close(self) -> None:
        """Close the idle connections."""
        while (kept := self._take_idle()) is not None:
            kept.close()

    def __del__(self) -> None:
        if hasattr(self, "_idle"):
            self.close()

    def _take_idle(self) -> http.client.HTTPConnection | None:
        """An idle connection of this process. Those that it was forked with belong to the process that opened them."""
        while True:
            try:
                owner, connection = self._idle.pop()
            except IndexError:
                return None
            if owner == os.getpid():
                return connection
            connection.close()  # this copy of the socket; the other process keeps its own

    def _once(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str] | None,
        timeout_s: float,
    ) -> tuple[int, dict[str, str], bytes]:
        try:
            if connection.sock is not None:
                connection.sock.settimeout(timeout_s)
            connection.request(method, self._prefix + path, body, dict(headers or {}))
            answer = connection.getresponse()
            received = {name.lower(): value for name, value in answer.getheaders()}
            found = answer.status, received, answer.read()
        except BaseException:
            connection.close()
            raise
        if answer.will_close:
            connection.close()
        else:
            self._idle.append((os.getpid(), connection))
        return found


def _to_bytes(body: Body) -> bytes:
    found = body.read() if hasattr(body, "read") else body
    if isinstance(found, str):
        return found.encode()
    try:
        return bytes(memoryview(found))  # not bytes(found), which makes NULs of a number, and bytes of a list
    except TypeError:
        raise TypeError(
            f"the body of a request is bytes, a text or an open file, got {type(body).__name__}: convert it first, or give "
            "the predictor a serializer such as CSVSerializer()"
        ) from None


def _check_headers(headers: Mapping[str, str]) -> None:
    for name, value in headers.items():
        if unfit := UNFIT.search(value):
            raise ValueError(
                f"{name} holds the character {unfit[0]!a} at {unfit.start()}, which a header of HTTP cannot hold: "
                "use visible ASCII characters, such as the value as JSON or Base64"
            )


def _model_error(status: int, answer: bytes) -> ModelError:
    """The exception for an answer with an error status."""
    try:
        found: Any = json.loads(answer)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not {"message", "status"} <= found.keys():
        return ModelError(status, answer.decode("utf-8", "replace"))  # The container's own answer.
    message = str(found["message"])
    # SageMaker reports status 0 if a container did not answer in time.
    code = 0 if status == TIMED_OUT else status
    return ModelError(code, message, container=found.get("container") or "primary")
