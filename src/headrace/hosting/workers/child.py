"""What a worker process runs: load the model once, then answer what comes."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Sequence
from typing import Any

from headrace.containers.toolkit import shim
from headrace.contracts.serving import AnswersMany, Handler, Request, Response
from headrace.hosting.failures import ContainerError, as_failure
from headrace.hosting.pipeline import Member, Observer, SerialPipeline, serial_pipeline
from headrace.hosting.stage import Stage, load_handler, names_of
from headrace.hosting.workers.frames import Receiver, pack, pack_answers, requests_from
from headrace.hosting.workers.isolated import isolated_handler
from headrace.hosting.workers.process import AtWork, end_with, print_anyway
from headrace.io.system import usable_cores

__all__ = ["Calls", "build", "describe", "main"]

AWAKE_S = 1e-3
"""How long a worker looks for its next request before it sleeps: as long as a client that has its answer takes to ask again."""
DEFAULT_ACCEPT = "SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT"


class Calls(threading.local):
    """What the containers did for the request that this thread is answering, and which of them does now.

    Attributes:
        channel: Number of the channel that the thread serves.
    """

    def __init__(self, at_work: AtWork) -> None:
        self.made: list[tuple[str, float, int]] = []
        self.channel = 0
        self._at_work = at_work

    def begins(self, name: str) -> None:
        self._at_work.enter(self.channel, name)

    def ended(self, name: str, seconds: float, count: int) -> None:
        self.made.append((name, seconds, count))

    def take(self) -> list[tuple[str, float, int]]:
        """Those since the last time. The request is in no container any more."""
        self._at_work.enter(self.channel, None)
        made, self.made = self.made, []
        return made


def build(
    stages: Sequence[Stage],
    *,
    direct: bool,
    max_between_bytes: int,
    observer: Observer | None = None,
    channels: int = 1,
) -> SerialPipeline:
    """Load every stage: what answers the requests of an endpoint.

    Raises:
        ContainerError: A stage does not load; it names which, and why.
    """
    members = []
    for stage, name in zip(stages, names_of(stages), strict=True):
        try:
            handler = isolated_handler(stage, name, channels=channels) if stage.alone else load_handler(stage)
        except (Exception, SystemExit) as error:
            failure = as_failure(error)
            place = name if len(stages) > 1 else None
            kind = failure.kind if isinstance(failure, ContainerError) else type(error).__name__
            trace = failure.trace if isinstance(failure, ContainerError) else ""
            raise ContainerError(kind, failure.reason, trace=trace, container=place) from error
        default = stage.environment.get(DEFAULT_ACCEPT) or os.environ.get(DEFAULT_ACCEPT)
        members.append(Member(handler=handler, name=name, default_accept=default))
    return serial_pipeline(members, direct=direct, max_between_bytes=max_between_bytes, observer=observer)


def describe(pipeline: SerialPipeline) -> dict[str, Any]:
    """What the server has to know of a loaded pipeline."""
    found = getattr(pipeline.members[0].handler, "execution_parameters", None)
    parameters = found() if callable(found) else found
    return {"ready": True, "many": isinstance(pipeline, AnswersMany), "execution_parameters": parameters}


def main() -> None:
    """Answer until the server is gone. The arguments are descriptors: of shared memory, of the pipe that tells of the server's end, of sockets."""
    memory, life, *numbers = map(int, sys.argv[1:])
    end_with(life)
    print_anyway()
    # A Ctrl-C or a stop reaches the whole group: the server drains first, then lets us go.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    channels = [socket.socket(fileno=number) for number in numbers]
    inheritable = False
    for channel in channels:
        channel.set_inheritable(inheritable)
    os.set_inheritable(life, inheritable)
    receivers = [Receiver(channel) for channel in channels]
    message = receivers[0].receive()
    if message is None:
        return
    with shim.inside():  # for good: going in and out for each request costs some per cent of it
        order = message.head["order"]
        calls = Calls(AtWork(memory, len(channels), order["names"]))
        os.close(memory)
        _work(order, channels, receivers, calls)
    # What the script has left behind (threads, exit handlers) must not keep an orphan alive.
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(0)


def _work(
    order: dict[str, Any], channels: Sequence[socket.socket], receivers: Sequence[Receiver], calls: Calls
) -> None:
    handler = _loaded(order, channels, calls)
    for number, (channel, receiver) in enumerate(zip(channels, receivers, strict=True)):
        if number:
            threading.Thread(target=_serve, args=(channel, receiver, handler, calls, number), daemon=True).start()
    # Looking for requests in several threads would keep each from its work.
    is_alone = len(channels) == 1 and usable_cores() > 1 and hasattr(os, "sched_yield")
    _serve(channels[0], receivers[0], handler, calls, 0, awake_s=AWAKE_S if is_alone else 0.0)


def _loaded(order: dict[str, Any], channels: Sequence[socket.socket], calls: Calls) -> SerialPipeline:
    sys.path.extend(folder for folder in order["path"] if folder not in sys.path)
    try:
        pipeline = build(
            [Stage.from_json(plain) for plain in order["stages"]],
            direct=order["direct"],
            max_between_bytes=order["max_between_bytes"],
            observer=calls,
            channels=len(channels),
        )
        # The model and its libraries are hundreds of thousands of objects that stay: looking through them again and again
        # while answering costs some per cent of the time, and now and then tens of milliseconds.
        gc.collect()
        gc.freeze()
        channels[0].sendall(pack(describe(pipeline)))
    except Exception as error:  # noqa: BLE001 - told to the server, which tells the client and the log
        failure = as_failure(error)
        trace = failure.trace if isinstance(failure, ContainerError) else "".join(traceback.format_exception(error))
        print(trace, file=sys.stderr, flush=True)  # noqa: T201 - standard error is the log
        with contextlib.suppress(OSError):
            channels[0].sendall(pack({"ready": False, "reason": str(failure), "trace": trace}))
        os._exit(1)
    return pipeline


def _serve(
    channel: socket.socket,
    receiver: Receiver,
    handler: Handler,
    calls: Calls,
    number: int,
    *,
    awake_s: float = 0.0,
) -> None:
    calls.channel = number
    while (message := receiver.receive(awake_s)) is not None:
        requests = requests_from(message)
        answers = _answers(handler, requests)
        for answer in answers:
            if isinstance(answer, ContainerError):
                print(answer.trace or answer, file=sys.stderr, flush=True)  # noqa: T201 - standard error is the log
        try:
            channel.sendall(pack_answers(answers, calls.take()))
        except OSError:
            return  # The server is gone.


def _answers(handler: Handler, requests: Sequence[Request]) -> Sequence[Response | Exception]:
    if len(requests) > 1 and isinstance(handler, AnswersMany):
        return handler.answer_many(requests)
    answers: list[Response | Exception] = []
    for request in requests:
        try:
            answers.append(handler(request))
        except Exception as error:  # noqa: BLE001 - it is the answer to this request
            answers.append(error)
    return answers
