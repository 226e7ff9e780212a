"""Serial inference: each request passes through several containers, as in SageMaker's inference pipelines."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from headrace.contracts.serving import AnswersMany, Handler, Request, Response
from headrace.errors import RequestError
from headrace.hosting.failures import as_failure, with_container

__all__ = [
    "BatchingPipeline",
    "CallObserver",
    "PipelineMember",
    "SerialPipeline",
    "describe_execution_parameters",
    "serial_pipeline",
]

LOG = logging.getLogger("headrace.hosting")
MOST_CONTAINERS = 15
DEFAULT_ACCEPT = "application/json"
TARGET_CONTAINER = "x-amzn-sagemaker-target-container-hostname"
MOST_REASON_CHARACTERS = 2048  # SageMaker truncates a container's message to this
ANY = ("", "*/*")


class CallObserver(Protocol):
    """Receives the calls of containers."""

    def call_started(self, name: str, /) -> None:
        """A call begins."""
        ...

    def call_ended(self, name: str, seconds: float, count: int, /) -> None:
        """A call for ``count`` requests took ``seconds``."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineMember:
    """A loaded container of a pipeline."""

    handler: Handler
    name: str
    """Its hostname, or ``container-1``, ``container-2``, ..."""
    default_accept: str | None = None
    """The content type of its answers to requests without ``Accept``: its ``SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT``."""


class SerialPipeline:
    """A handler that passes each request through its members in order.

    The client's Content-Type goes to the first member and the client's Accept to the last. The others get the default
    of their container, or ``application/json``. The content type of each answer is that of the next request. The first
    failure ends the request; its error names the member.

    Args:
        members: 1 to 15. A single member is not named in errors, and its answers are passed on with any status.
        direct: Send each request to the one member that its header ``X-Amzn-SageMaker-Target-Container-Hostname`` names.
        max_between_bytes: Largest body between two members.
        observer: Receives the calls.

    Raises:
        ValueError: No members, too many, or two with one name.
    """

    def __init__(
        self,
        members: Sequence[PipelineMember],
        *,
        direct: bool = False,
        max_between_bytes: int = 5 << 20,
        observer: CallObserver | None = None,
    ) -> None:
        if not 1 <= len(members) <= MOST_CONTAINERS:
            raise ValueError(f"a pipeline has 1 to {MOST_CONTAINERS} containers, got {len(members)}")
        if len({member.name for member in members}) < len(members):
            raise ValueError(f"two containers have the same name: {', '.join(member.name for member in members)}")
        self.members: tuple[PipelineMember, ...] = tuple(members)
        self._direct = direct and len(members) > 1
        self._by_name = {member.name: member for member in members}
        self._max_between_bytes = max_between_bytes
        self._observer = observer

    def __call__(self, request: Request, /) -> Response:
        """Answer one request.

        Raises:
            RequestError: A member refused it; ``container`` is its name.
            ContainerError: The code of a member failed.
        """
        answer: Response | Exception
        if self._direct:
            answer = self._answer_directly(request)
        else:
            answer = self._answer_one(request)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _answer_one(self, request: Request) -> Response | Exception:
        """As :meth:`_answer` does for one request, without the lists."""
        asked = request
        answer: Response | Exception = UNANSWERED
        for position, member in enumerate(self.members):
            accept = self._accept_for(position, request)
            if isinstance(answer, Response):  # of the previous member
                body, content_type = answer.body, answer.content_type
                asked = Request(body=body, content_type=content_type, accept=accept, headers=request.headers)
            elif accept != request.accept:
                asked = _with_accept(request, accept)
            answer = self._check_answer(position, self._call_once(member, asked))
            if isinstance(answer, Exception):
                break
        return answer

    def _answer(self, requests: Sequence[Request]) -> list[Response | Exception]:
        if self._direct:
            return [self._answer_directly(request) for request in requests]
        answers: list[Response | Exception] = [UNANSWERED] * len(requests)
        open_requests = dict(enumerate(requests))
        for position, member in enumerate(self.members):
            asked = [self._request_for(position, request, requests[i]) for i, request in open_requests.items()]
            found = self._call(member, asked)
            for i, answer in zip(list(open_requests), found, strict=True):
                answers[i] = checked = self._check_answer(position, answer)
                if isinstance(checked, Response):
                    open_requests[i] = _next_request(checked, requests[i])
                else:
                    del open_requests[i]
        return answers

    def _answer_directly(self, request: Request) -> Response | Exception:
        name = request.headers.get(TARGET_CONTAINER)
        member = self._by_name.get(name or "")
        if member is None:
            found = f"is {name!r}" if name else "is missing"
            names = ", ".join(self._by_name)
            return RequestError(400, f"the header {TARGET_CONTAINER} {found}: it must name one of {names}")
        answer = self._call_once(member, _with_default_accept(request, member))
        return with_container(answer, member.name) if isinstance(answer, Exception) else answer

    def _request_for(self, position: int, request: Request, first: Request) -> Request:
        """The request for the member at ``position``, which differs in its Accept header."""
        return _with_accept(request, self._accept_for(position, first))

    def _accept_for(self, position: int, first: Request) -> str:
        default = self.members[position].default_accept
        if position < len(self.members) - 1:
            return default or DEFAULT_ACCEPT
        return default if default and first.accept.strip() in ANY else first.accept

    def _check_answer(self, position: int, answer: Response | Exception) -> Response | Exception:
        """An answer to pass on, or the failure that ends the request."""
        if len(self.members) == 1:
            return with_container(answer, None) if isinstance(answer, Exception) else answer
        name = self.members[position].name
        if isinstance(answer, Exception):
            return with_container(answer, name)
        if not 200 <= answer.status < 300:
            text = answer.body.decode("utf-8", "replace")[:MOST_REASON_CHARACTERS]
            return RequestError(answer.status, text, container=name)
        if position + 1 < len(self.members) and len(answer.body) > self._max_between_bytes:
            return self._size_error(position, answer)
        return answer

    def _size_error(self, position: int, answer: Response) -> RequestError:
        name, next_name = self.members[position].name, self.members[position + 1].name
        limit = f"{self._max_between_bytes / (1 << 20):g} MB"
        return RequestError(
            413,
            f"Received response from {name} with status code {answer.status}. However, the request payload from {name} to "
            f"{next_name} is {len(answer.body)} bytes, which has exceeded the maximum limit of {limit}.",
            container=name,
        )

    def _call(self, member: PipelineMember, requests: Sequence[Request]) -> Sequence[Response | Exception]:
        if not requests:
            return []
        if self._observer is not None:
            self._observer.call_started(member.name)
        start = time.perf_counter()
        answers = _ask(member.handler, requests)
        if self._observer is not None:
            self._observer.call_ended(member.name, time.perf_counter() - start, len(requests))
        return answers

    def _call_once(self, member: PipelineMember, request: Request) -> Response | Exception:
        answer: Any
        if self._observer is not None:
            self._observer.call_started(member.name)
        start = time.perf_counter()
        try:
            answer = member.handler(request)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - whatever a container raises is the answer to this request
            answer = as_failure(error)
        if self._observer is not None:
            self._observer.call_ended(member.name, time.perf_counter() - start, 1)
        return answer if isinstance(answer, Response) else _as_answer(answer)


class BatchingPipeline(SerialPipeline):
    """A pipeline whose members all answer batches, so that whole batches pass through it."""

    def answer_many(self, requests: Sequence[Request], /) -> Sequence[Response | Exception]:
        """Answer a batch. A request that fails has its error in place of a response."""
        return self._answer(requests)


def serial_pipeline(
    members: Sequence[PipelineMember],
    *,
    direct: bool = False,
    max_between_bytes: int = 5 << 20,
    observer: CallObserver | None = None,
) -> SerialPipeline:
    """A pipeline of these members. It has ``answer_many`` if all of them have it.

    >>> def upper(request):
    ...     return Response(body=request.body.upper(), content_type="text/plain")
    >>> pipeline = serial_pipeline([PipelineMember(handler=upper, name="container-1")])
    >>> pipeline(Request(body=b"abc", content_type="text/plain")).body
    b'ABC'
    """
    together = not direct and all(isinstance(member.handler, AnswersMany) for member in members)
    kind = BatchingPipeline if together else SerialPipeline
    return kind(members, direct=direct, max_between_bytes=max_between_bytes, observer=observer)


def describe_execution_parameters(handler: Handler) -> dict[str, Any]:
    """What a handler reports as ``execution_parameters``, or as ``execution_parameters_fault`` why it reports nothing.

    A fault is no reason not to serve: only batch transform asks for them.
    """
    found = getattr(handler, "execution_parameters", None)
    try:
        parameters = found() if callable(found) else found
        json.dumps(parameters)
    except Exception as error:
        failure = as_failure(error)
        LOG.warning("the container reports no execution parameters: %s", failure, exc_info=error)
        return {"execution_parameters": None, "execution_parameters_fault": str(failure)}
    return {"execution_parameters": parameters}


UNANSWERED = RequestError(500, "the pipeline returned no answer")


def _with_default_accept(request: Request, member: PipelineMember) -> Request:
    if member.default_accept and request.accept.strip() in ANY:
        return _with_accept(request, member.default_accept)
    return request


def _with_accept(request: Request, accept: str) -> Request:
    if request.accept == accept:
        return request
    return Request(body=request.body, content_type=request.content_type, accept=accept, headers=request.headers)


def _next_request(answer: Response, first: Request) -> Request:
    return Request(body=answer.body, content_type=answer.content_type, headers=first.headers)


def _ask(handler: Handler, requests: Sequence[Request]) -> Sequence[Response | Exception]:
    """All answers, by one call if the handler answers batches."""
    if len(requests) > 1 and isinstance(handler, AnswersMany):
        try:
            answers = handler.answer_many(requests)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException:  # noqa: BLE001 - one request may have failed the batch: ask for each alone
            return [_ask_one(handler, request) for request in requests]
        if len(answers) == len(requests):
            return [_as_answer(answer) for answer in answers]
        found = f"answer_many returned {len(answers)} answers to {len(requests)} requests"
        return [RequestError(500, found) for _ in requests]
    return [_ask_one(handler, request) for request in requests]


def _ask_one(handler: Handler, request: Request) -> Response | Exception:
    answer: Any
    try:
        answer = handler(request)
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:  # noqa: BLE001 - whatever a container raises is the answer to this request
        return as_failure(error)
    return _as_answer(answer)


def _as_answer(answer: Any) -> Response | Exception:
    if isinstance(answer, (Response, Exception)):
        return answer
    return RequestError(500, f"the container returned {type(answer).__name__}, not a Response")
