"""What went wrong with a request, as it travels from a container to the client."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import Any

from headrace.errors import HeadraceError, RequestError

__all__ = ["ContainerError", "as_failure", "failure_from_json", "failure_to_json", "named"]

INTERNAL = 500


class ContainerError(HeadraceError, RuntimeError):
    """The container's own code failed on a request: it is answered with 500.

    Attributes:
        kind: Name of the exception's class.
        reason: Its message.
        trace: Its traceback.
        container: Which container of a pipeline it came from, or ``None``.
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
    """Any exception as one of the two that are answered.

    A :class:`RequestError` with status 500 that has a cause is the container's own failure told by somebody else.
    """
    if isinstance(error, RequestError) and error.status == INTERNAL and error.__cause__ is not None:
        kind, trace = type(error.__cause__).__name__, "".join(traceback.format_exception(error.__cause__))
        return ContainerError(kind, error.reason, trace=trace, container=error.container)
    if isinstance(error, (RequestError, ContainerError)):
        return error
    trace = "".join(traceback.format_exception(error))
    return ContainerError(type(error).__name__, str(error), trace=trace)


def named(error: Exception, container: str | None) -> RequestError | ContainerError:
    """The same failure, with the name that its container has in the pipeline; ``None`` where it is alone."""
    failure = as_failure(error)
    if isinstance(failure, RequestError):
        return RequestError(failure.status, failure.reason, container=container)
    return ContainerError(failure.kind, failure.reason, trace=failure.trace, container=container)


def failure_to_json(error: BaseException) -> dict[str, Any]:
    """As plain values, to cross to another process."""
    failure = as_failure(error)
    plain: dict[str, Any] = {"reason": failure.reason, "container": failure.container}
    if isinstance(failure, RequestError):
        return {**plain, "status": failure.status}
    return {**plain, "kind": failure.kind, "trace": failure.trace}


def failure_from_json(plain: Mapping[str, Any]) -> RequestError | ContainerError:
    """From what :func:`failure_to_json` gave."""
    if "status" in plain:
        return RequestError(plain["status"], plain["reason"], container=plain["container"])
    return ContainerError(plain["kind"], plain["reason"], trace=plain["trace"], container=plain["container"])
