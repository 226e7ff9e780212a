"""Sends payloads to the container processes of a job: time-outs, retries, and finding the record that causes a failure.

Containers run in processes, not threads: a call that takes too long can be killed, a crash ends nothing else, and variables such as
``SAGEMAKER_BATCH`` are seen by the container only.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headrace.contracts.serving import Request, Response
from headrace.errors import JobFailed, RequestError, Where
from headrace.hosting.failures import as_failure
from headrace.hosting.stage import Stage
from headrace.hosting.workers.frames import FrameReceiver, answers_from, pack_requests
from headrace.hosting.workers.process import WorkerProcess, worker_spec
from headrace.jobs.transform.join import Joiner, RecordFault
from headrace.jobs.transform.payloads import Payload, too_large_error
from headrace.jobs.transform.spec import TransformSpec

__all__ = ["ContainerOutput", "ContainerProcess", "Failure", "Invoker", "ProcessDied", "with_environment"]


END_S = 5.0
LONGEST_LINE_BYTES = 64 << 10


def with_environment(stages: Sequence[Stage], variables: Mapping[str, str]) -> list[Stage]:
    """The same containers with more variables, which override their own."""
    return [replace(stage, environment={**stage.environment, **variables}) for stage in stages]


class ContainerOutput:
    """The output of containers, line by line.

    Args:
        write: Called with each line, in a thread.
    """

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        reading, self.descriptor = os.pipe()
        self._thread = threading.Thread(target=self._read, args=(reading,), name="headrace container log", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Read the last lines. Call it after the processes have ended."""
        os.close(self.descriptor)
        self._thread.join(END_S)

    def _read(self, reading: int) -> None:
        with open(reading, "rb") as file:
            while line := file.readline(LONGEST_LINE_BYTES):
                self._write(line.decode("utf-8", "replace").rstrip("\r\n"))


class ProcessDied(RequestError):
    """The process of the containers ended before it answered."""


class ContainerProcess:
    """One worker process. It is started when needed, and again after it has died or was killed for taking too long.

    Args:
        stages: The containers, their models unpacked.
        variables: Environment variables of the process, added to ours.
        output: The descriptor for its output.
    """

    def __init__(self, stages: Sequence[Stage], variables: Mapping[str, str], output: int) -> None:
        self._spec = worker_spec(stages)
        self._variables = dict(variables)
        self._output = output
        self._lock = threading.Lock()
        self._process: WorkerProcess | None = None
        self._receiver: FrameReceiver | None = None
        self._ended = False
        self.loaded: Mapping[str, Any] = {}
        """What the containers reported when they were loaded."""

    def load(self) -> None:
        """Load the models.

        Raises:
            JobFailed: A model does not load; the message has the reason.
        """
        with self._lock:
            if self._ended:
                raise JobFailed("the job is stopping")
            process = self._process = WorkerProcess(self._spec, environment=self._variables, output=self._output)
        receiver = self._receiver = FrameReceiver(process.sockets[0])
        message = receiver.receive()
        loaded = {"reason": f"its process {self._reap()}"} if message is None else message.head
        if not loaded.get("ready"):
            if message is not None:
                self._reap()
            raise JobFailed(f"AlgorithmError: the model does not load: {loaded['reason']}")
        self.loaded = loaded

    def invoke(self, requests: Sequence[Request], timeout_s: float) -> list[Response | Exception]:
        """Answers in the order of the requests, with an error in place of a missing answer. For one thread at a time."""
        try:
            if self._process is None:
                self.load()
        except (JobFailed, OSError) as error:
            return [RequestError(503, str(error))] * len(requests)
        return self._answers(requests, timeout_s)

    def interrupt(self) -> None:
        """Kill it and start no other. A waiting caller gets an error. From any thread."""
        with self._lock:
            self._ended = True
            if self._process is not None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._take_process().kill()

    def _answers(self, requests: Sequence[Request], timeout_s: float) -> list[Response | Exception]:
        assert self._process is not None
        assert self._receiver is not None
        connection = self._process.sockets[0]
        connection.settimeout(timeout_s)
        try:
            connection.sendall(pack_requests(requests))
            message = self._receiver.receive()
            answers = [] if message is None else answers_from(message)
        except TimeoutError:
            name = self._process.current_container.name(0)
            self.close()
            reason = f"no answer came within {timeout_s:g} s (invocations_timeout_s)"
            return [RequestError(504, reason, container=name)] * len(requests)
        except (OSError, ValueError, KeyError):
            answers = []
        if len(answers) == len(requests):
            return answers
        name = self._process.current_container.name(0)
        reason = f"the process of the container {self._reap()} while it had this request"
        return [ProcessDied(503, reason, container=name)] * len(requests)

    def _take_process(self) -> WorkerProcess:
        with self._lock:
            process, self._process = self._process, None
        assert process is not None
        return process

    def _reap(self) -> str:
        """Wait for its end. Returns how it ended, in words."""
        process = self._take_process()
        try:
            how = process.wait(END_S)
        except subprocess.TimeoutExpired:
            how = "closed its connection and was killed"
        process.kill()
        return how


DEFAULT_CONTENT_TYPE = "application/json"
FIRST_PAUSE_S = 0.05
RETRIED = (408, 429)
OF_THE_REQUEST = (408, 413, 429, 503, 504)
MOST_CHARACTERS = 2048


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an object failed.

    Args:
        title: As in SageMaker's log: ``ClientError: 400``.
        reason: The reason.
        place: The record, in words; empty if unknown.
    """

    title: str
    reason: str
    place: str = ""

    @property
    def kind(self) -> str:
        """The cause: ``ClientError``, ``AlgorithmError`` or ``InternalServerError``."""
        return self.title.partition(":")[0]

    @property
    def line(self) -> str:
        """Title, reason and place in one line."""
        text = " ".join(f"{self.title}: {self.reason}".split())
        return f"{text} - at {self.place}." if self.place else text


class Invoker:
    """Sends payloads to one container process.

    Args:
        spec: The job.
        process: The process.
        limit: Largest request in bytes; 0: no limit.
        stop: Set to stop the job.
    """

    def __init__(self, spec: TransformSpec, process: ContainerProcess, limit: int, stop: threading.Event) -> None:
        self.process = process
        self._spec = spec
        self._limit = limit
        self._stop = stop
        self._joiner = Joiner(spec)

    def outputs(self, payloads: Sequence[Payload]) -> list[bytes | Failure]:
        """The output for each payload, or why it failed."""
        outputs: dict[int, bytes | Failure] = {}
        requests: dict[int, Request] = {}
        for number, payload in enumerate(payloads):
            try:
                requests[number] = self._request(payload)
            except RecordFault as fault:
                outputs[number] = self._record_failure("ClientError", payload, fault)
        answers = self._answer_all(list(requests.values()))
        for (number, _), answer in zip(requests.items(), answers, strict=True):
            outputs[number] = self._output(payloads[number], answer)
        return [outputs[number] for number in range(len(payloads))]

    def _request(self, payload: Payload) -> Request:
        body = self._joiner.body(payload)
        if self._limit and len(body) > self._limit and len(body) > payload.size:
            raise RecordFault(
                str(
                    too_large_error(
                        Where(), f"one of {len(body)} bytes after the input_filter", self._limit, what="a request"
                    )
                )
            )
        return Request(
            body=body,
            content_type=self._joiner.content_type or DEFAULT_CONTENT_TYPE,
            accept=self._spec.accept or "*/*",
        )

    def _output(self, payload: Payload, answer: Response | RequestError) -> bytes | Failure:
        if isinstance(answer, Response):
            try:
                return self._joiner.output(payload, answer)
            except RecordFault as fault:
                return self._record_failure("ClientError", payload, fault)
        kind = "ClientError" if answer.status < 500 else "AlgorithmError"
        reason = answer.reason + (f" (from {answer.container})" if answer.container else "")
        begin, end = self._find_record(payload, answer)
        return Failure(f"{kind}: {answer.status}", reason, self._place(payload, begin, end))

    def _answer_all(self, requests: list[Request]) -> list[Response | RequestError]:
        """Answers to requests, after retries."""
        if not requests:
            return []
        answers = self._send(requests)
        if len(requests) > 1:  # another request of the batch may have killed the process, or taken too long
            answers = [
                self._send([request])[0] if _concerns_batch(answer) else answer
                for request, answer in zip(requests, answers, strict=True)
            ]
        return [self._retry(request, answer) for request, answer in zip(requests, answers, strict=True)]

    def _retry(self, request: Request, answer: Response | RequestError) -> Response | RequestError:
        """The answer, after retrying errors that may pass."""
        for retry in range(self._spec.invocations_max_retries):
            if not isinstance(answer, RequestError) or (answer.status < 500 and answer.status not in RETRIED):
                break
            if self._stop.wait(FIRST_PAUSE_S * 2**retry):
                break
            (answer,) = self._send([request])
        return answer

    def _send(self, requests: list[Request]) -> list[Response | RequestError]:
        return [_as_result(answer) for answer in self.process.invoke(requests, self._spec.invocations_timeout_s)]

    def _find_record(self, payload: Payload, error: RequestError) -> tuple[int, int]:
        """The record that the containers refuse, by sending halves of the payload again."""
        begin, end = 0, len(payload)
        is_death = isinstance(error, ProcessDied)
        if error.status in OF_THE_REQUEST and not is_death:
            return begin, end
        kind = ProcessDied if is_death else RequestError
        while end - begin > 1 and not self._stop.is_set():
            middle = (begin + end) // 2
            if self._fails(payload.part(begin, middle), kind):
                end = middle
            elif self._fails(payload.part(middle, end), kind):
                begin = middle
            else:
                break  # Each half alone succeeds.
        return begin, end

    def _fails(self, payload: Payload, kind: type[RequestError]) -> bool:
        return isinstance(self._send([self._request(payload)])[0], kind)

    def _record_failure(self, title: str, payload: Payload, fault: RecordFault) -> Failure:
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


def _concerns_batch(answer: Response | RequestError) -> bool:
    return isinstance(answer, RequestError) and answer.status in OF_THE_REQUEST


def _as_result(answer: Response | Exception) -> Response | RequestError:
    if isinstance(answer, Response):
        if 200 <= answer.status < 300:
            return answer
        return RequestError(answer.status, answer.body.decode("utf-8", "replace")[:MOST_CHARACTERS])
    failure = as_failure(answer)
    if isinstance(failure, RequestError):
        return failure
    return RequestError(500, f"{failure.kind}: {failure.reason}", container=failure.container)
