"""Requests, responses, and the handlers that endpoints, pipelines and batch transform call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

__all__ = ["AnswersMany", "Handler", "Request", "Response"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One invocation: the body and what the client said about it."""

    body: bytes
    content_type: str
    """As it came, parameters such as ``; charset=utf-8`` included."""
    accept: str = "*/*"
    headers: Mapping[str, str] = field(default_factory=dict)
    """The other headers, names in lower case (``x-amzn-sagemaker-custom-attributes``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """An answer."""

    body: bytes
    content_type: str
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@runtime_checkable
class Handler(Protocol):
    """A loaded model that answers requests; called from several threads only if its container allows that.

    Raises :class:`headrace.errors.RequestError` for an answer with another status than 200.
    """

    def __call__(self, request: Request, /) -> Response: ...


@runtime_checkable
class AnswersMany(Protocol):
    """A handler that answers requests which arrived together faster together.

    The answers come in the order of the requests and equal those of one call each; a request that fails has its
    error in its place instead of failing the others.
    """

    def answer_many(self, requests: Sequence[Request], /) -> Sequence[Response | Exception]: ...
