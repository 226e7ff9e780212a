"""From records to what is kept of their answers: one payload, or several together, in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.contracts.serving import Request, Response
from headrace.errors import RequestError, Where
from headrace.hosting.failures import as_failure
from headrace.jobs.transform.containers import ContainerProcess
from headrace.jobs.transform.joining import Joining, RecordFault
from headrace.jobs.transform.payloads import Payload, too_large
from headrace.jobs.transform.spec import TransformSpec

__all__ = ["Asking", "Failure"]


DEFAULT_CONTENT_TYPE = "application/json"
FIRST_PAUSE_S = 0.05
PASSING = (408, 429)
NOT_OF_A_RECORD = (408, 413, 429, 503, 504)
MOST_CHARACTERS = 2048


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an object failed.

    Args:
        title: ``ClientError: 400``, as SageMaker's log has it.
        reason: What was wrong.
        place: Where, for a person; empty where that is not known.
    """

    title: str
    reason: str
    place: str = ""

    @property
    def kind(self) -> str:
        """Whose fault it is: ``ClientError``, ``AlgorithmError``, ``InternalServerError``."""
        return self.title.partition(":")[0]

    @property
    def line(self) -> str:
        """All of it in one line."""
        text = " ".join(f"{self.title}: {self.reason}".split())
        return f"{text} - at {self.place}." if self.place else text


class Asking:
    """Sends payloads to the containers.

    Args:
        spec: The job.
        process: What answers.
        limit: Bytes of a request; 0: without limit.
        stop: Set when the job is to end.
    """

    def __init__(self, spec: TransformSpec, process: ContainerProcess, limit: int, stop: threading.Event) -> None:
        self.process = process
        self._spec = spec
        self._limit = limit
        self._stop = stop
        self._joining = Joining(spec)

    def outputs(self, payloads: Sequence[Payload]) -> list[bytes | Failure]:
        """What is kept of the answers, or why there are none."""
        outputs: dict[int, bytes | Failure] = {}
        requests: dict[int, Request] = {}
        for number, payload in enumerate(payloads):
            try:
                requests[number] = self._request(payload)
            except RecordFault as fault:
                outputs[number] = self._of_record("ClientError", payload, fault)
        answers = self._ask(list(requests.values()))
        for (number, _), answer in zip(requests.items(), answers, strict=True):
            outputs[number] = self._output(payloads[number], answer)
        return [outputs[number] for number in range(len(payloads))]

    def _request(self, payload: Payload) -> Request:
        body = self._joining.body(payload)
        if self._limit and len(body) > self._limit and len(body) > payload.size:
            raise RecordFault(
                str(
                    too_large(
                        Where(), f"one of {len(body)} bytes after the input_filter", self._limit, what="a request"
                    )
                )
            )
        return Request(
            body=body,
            content_type=self._spec.content_type or DEFAULT_CONTENT_TYPE,
            accept=self._spec.accept or "*/*",
        )

    def _output(self, payload: Payload, answer: Response | RequestError) -> bytes | Failure:
        if isinstance(answer, Response):
            try:
                return self._joining.output(payload, answer)
            except RecordFault as fault:
                return self._of_record("ClientError", payload, fault)
        kind = "ClientError" if answer.status < 500 else "AlgorithmError"
        reason = answer.reason + (f" (from {answer.container})" if answer.container else "")
        begin, end = self._blamed(payload, answer)
        return Failure(f"{kind}: {answer.status}", reason, self._place(payload, begin, end))

    def _ask(self, requests: list[Request]) -> list[Response | RequestError]:
        """Answers, once those that failed in passing were asked for again."""
        if not requests:
            return []
        answers = self._asked(requests)
        if len(requests) > 1:  # What ends a process, or takes too long, may be another one's fault.
            answers = [
                self._asked([request])[0] if _is_of_all(answer) else answer
                for request, answer in zip(requests, answers, strict=True)
            ]
        return [self._repeated(request, answer) for request, answer in zip(requests, answers, strict=True)]

    def _repeated(self, request: Request, answer: Response | RequestError) -> Response | RequestError:
        """The answer; that to another try, as long as it may become better."""
        for retry in range(self._spec.invocations_max_retries):
            if not isinstance(answer, RequestError) or (answer.status < 500 and answer.status not in PASSING):
                break
            if self._stop.wait(FIRST_PAUSE_S * 2**retry):
                break
            (answer,) = self._asked([request])
        return answer

    def _asked(self, requests: list[Request]) -> list[Response | RequestError]:
        return [_checked(answer) for answer in self.process.ask(requests, self._spec.invocations_timeout_s)]

    def _blamed(self, payload: Payload, error: RequestError) -> tuple[int, int]:
        """Which of the records it is that the containers refuse: halves are asked again, the first one first."""
        begin, end = 0, len(payload)
        if error.status in NOT_OF_A_RECORD:
            return begin, end
        while end - begin > 1 and not self._stop.is_set():
            middle = (begin + end) // 2
            if self._fails(payload.part(begin, middle)):
                end = middle
            elif self._fails(payload.part(middle, end)):
                begin = middle
            else:
                break  # Neither alone.
        return begin, end

    def _fails(self, payload: Payload) -> bool:
        return isinstance(self._asked([self._request(payload)])[0], RequestError)

    def _of_record(self, title: str, payload: Payload, fault: RecordFault) -> Failure:
        if fault.position is None:
            return Failure(title, fault.reason, self._place(payload, 0, len(payload)))
        if self._spec.split_type == "None":
            return Failure(title, fault.reason, str(Where(record=fault.position)))
        return Failure(title, fault.reason, self._place(payload, fault.position, fault.position + 1))

    def _place(self, payload: Payload, begin: int, end: int) -> str:
        if self._spec.split_type == "None":
            return ""
        first = payload.where(begin)
        if end - begin == 1:
            return str(first)
        last = payload.where(end - 1)
        return f"records {first.record} to {last.record}, bytes {first.offset:#x} to {last.offset:#x}"


def _is_of_all(answer: Response | RequestError) -> bool:
    return isinstance(answer, RequestError) and answer.status in NOT_OF_A_RECORD


def _checked(answer: Response | Exception) -> Response | RequestError:
    if isinstance(answer, Response):
        if 200 <= answer.status < 300:
            return answer
        return RequestError(answer.status, answer.body.decode("utf-8", "replace")[:MOST_CHARACTERS])
    failure = as_failure(answer)
    if isinstance(failure, RequestError):
        return failure
    return RequestError(500, f"{failure.kind}: {failure.reason}", container=failure.container)
