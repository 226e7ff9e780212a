"""Errors of a request, as they pass from a container to the client."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import Any

from headrace.errors import HeadraceError, RequestError

__all__ = ["ContainerError", "as_failure", "failure_from_json", "failure_to_json", "with_container"]

INTERNAL = 500


class ContainerError(HeadraceError, RuntimeError):
    """The code of a container failed. The request is answered with 500.

    Attributes:
        kind: The name of the exception's class.
        reason: Its message.
        trace: Its traceback.
        container: The name of the container in its pipeline, or ``None``.
    """

    def __init__(self, kind: str, reason: str, *, trace: str = "", container: str | None = None) -> None:
        self.kind = kind
        self.reason = reason
        self.trace = trace
        self.container = container
        super().__init__(f"{kind}: {reason}" + (f" (from {container})" if container else ""))

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.kind, self.reason, self.trace, self.container)


def _rebuild(kind: str, reason: str, trace: str, container: str | None) -> ContainerError:
    return ContainerError(kind, reason, trace=trace, container=container)


def as_failure(error: BaseException) -> RequestError | ContainerError:
    """Convert any exception to one of the two that are answered.

    A :class:`RequestError` with status 500 and a cause wraps a failure of the container: the cause is reported.
    """
    if isinstance(error, RequestError) and error.status == INTERNAL and error.__cause__ is not None:
        kind, trace = type(error.__cause__).__name__, "".join(traceback.format_exception(error.__cause__))
        return ContainerError(kind, error.reason, trace=trace, container=error.container)
    if isinstance(error, (RequestError, ContainerError)):
        return error
    trace = "".join(traceback.format_exception(error))
    return ContainerError(type(error).__name__, str(error), trace=trace)


def with_container(error: Exception, container: str | None) -> RequestError | ContainerError:
    """The same failure with the name of its container; ``None`` if the endpoint has one container."""
    failure = as_failure(error)
    if isinstance(failure, RequestError):
        return RequestError(failure.status, failure.reason, container=container)
    return ContainerError(failure.kind, failure.reason, trace=failure.trace, container=container)


def failure_to_json(error: BaseException) -> dict[str, Any]:
    """As plain values, to send to another process."""
    failure = as_failure(error)
    plain: dict[str, Any] = {"reason": failure.reason, "container": failure.container}
    if isinstance(failure, RequestError):
        return {**plain, "status": failure.status}
    return {**plain, "kind": failure.kind, "trace": failure.trace}


def failure_from_json(plain: Mapping[str, Any]) -> RequestError | ContainerError:
    """The inverse of :func:`failure_to_json`."""
    if "status" in plain:
        return RequestError(plain["status"], plain["reason"], container=plain["container"])
    return ContainerError(plain["kind"], plain["reason"], trace=plain["trace"], container=plain["container"])
