"""What went wrong with a request, as it travels from a container to the client."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import Any

from penstock.errors import PenstockError, RequestError

__all__ = ["ContainerError", "as_failure", "failure_from_json", "failure_to_json", "named"]


class ContainerError(PenstockError, RuntimeError):
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
    """Any exception as one of the two that are answered."""
    if isinstance(error, (RequestError, ContainerError)):
        return error
    trace = "".join(traceback.format_exception(error))
    return ContainerError(type(error).__name__, str(error), trace=trace)


def named(error: Exception, container: str | None) -> RequestError | ContainerError:
    """The same failure with the name of its container, where it has none."""
    failure = as_failure(error)
    if failure.container is None and container is not None:
        if isinstance(failure, RequestError):
            again: RequestError | ContainerError = RequestError(failure.status, failure.reason, container=container)
        else:
            again = ContainerError(failure.kind, failure.reason, trace=failure.trace, container=container)
        again.__cause__ = error
        return again
    return failure


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
