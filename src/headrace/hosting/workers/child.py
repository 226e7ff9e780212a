"""The main program of a worker process: loads the containers once, then answers requests."""

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
from headrace.errors import RequestError
from headrace.hosting.failures import ContainerError, as_failure
from headrace.hosting.pipeline import (
    CallObserver,
    PipelineMember,
    SerialPipeline,
    describe_execution_parameters,
    serial_pipeline,
)
from headrace.hosting.stage import Stage, container_names, load_handler
from headrace.hosting.workers.frames import FrameReceiver, pack, pack_answers, requests_from
from headrace.hosting.workers.isolated import isolated_handler
from headrace.hosting.workers.process import CurrentContainer, end_with_parent, ignore_output_errors
from headrace.io.system import usable_cores

__all__ = ["CallRecorder", "describe", "load_pipeline", "main"]

AWAKE_S = 1e-3
"""How long a worker polls for its next request before it sleeps: about the time in which a client follows up on an answer."""
DEFAULT_ACCEPT = "SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT"


class CallRecorder(threading.local):
    """Records the container calls of the request that this thread answers.

    Attributes:
        channel: The number of the channel that the thread serves.
    """

    def __init__(self, current: CurrentContainer) -> None:
        self.made: list[tuple[str, float, int]] = []
        self.channel = 0
        self._current = current

    def call_started(self, name: str) -> None:
        self._current.enter(self.channel, name)

    def call_ended(self, name: str, seconds: float, count: int) -> None:
        self.made.append((name, seconds, count))

    def take(self) -> list[tuple[str, float, int]]:
        """The calls since the last time. Notes that no container has the request now."""
        self._current.enter(self.channel, None)
        made, self.made = self.made, []
        return made


def load_pipeline(
    stages: Sequence[Stage],
    *,
    direct: bool,
    max_between_bytes: int,
    observer: CallObserver | None = None,
    channels: int = 1,
) -> SerialPipeline:
    """Load every stage.

    Raises:
        ContainerError: A stage does not load; it has the name and the reason.
    """
    members = []
    for stage, name in zip(stages, container_names(stages), strict=True):
        try:
            handler = isolated_handler(stage, name, channels=channels) if stage.needs_process else load_handler(stage)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            failure = as_failure(error)
            place = name if len(stages) > 1 else None
            kind = failure.kind if isinstance(failure, ContainerError) else type(error).__name__
            trace = failure.trace if isinstance(failure, ContainerError) else ""
            raise ContainerError(kind, failure.reason, trace=trace, container=place) from error
        default = stage.environment.get(DEFAULT_ACCEPT) or os.environ.get(DEFAULT_ACCEPT)
        members.append(PipelineMember(handler=handler, name=name, default_accept=default))
    return serial_pipeline(members, direct=direct, max_between_bytes=max_between_bytes, observer=observer)


def describe(pipeline: SerialPipeline) -> dict[str, Any]:
    """What the server needs to know about a loaded pipeline."""
    many = isinstance(pipeline, AnswersMany)
    return {"ready": True, "many": many, **describe_execution_parameters(pipeline.members[0].handler)}


def main() -> None:
    """Answer requests until the server ends. The arguments are descriptors: shared memory, the pipe from the server, sockets."""
    memory, parent_pipe, *numbers = map(int, sys.argv[1:])
    end_with_parent(parent_pipe)
    ignore_output_errors()
    # A Ctrl-C reaches all processes. The server drains first and then ends the workers.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    channels = [socket.socket(fileno=number) for number in numbers]
    inheritable = False
    for channel in channels:
        channel.set_inheritable(inheritable)
    os.set_inheritable(parent_pipe, inheritable)
    receivers = [FrameReceiver(channel) for channel in channels]
    frame = receivers[0].receive()
    if frame is None:
        return
    with shim.inside():  # once, because entering it for each request costs some per cent
        spec = frame.head["spec"]
        calls = CallRecorder(CurrentContainer(memory, len(channels), spec["names"]))
        os.close(memory)
        _work(spec, channels, receivers, calls)
    # Threads and exit handlers of the script must not keep this process alive.
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(0)


def _work(
    spec: dict[str, Any], channels: Sequence[socket.socket], receivers: Sequence[FrameReceiver], calls: CallRecorder
) -> None:
    handler = _load(spec, channels, calls)
    for number, (channel, receiver) in enumerate(zip(channels, receivers, strict=True)):
        if number:
            threading.Thread(target=_serve, args=(channel, receiver, handler, calls, number), daemon=True).start()
    # Polling threads would slow each other down.
    is_alone = len(channels) == 1 and usable_cores() > 1 and hasattr(os, "sched_yield")
    _serve(channels[0], receivers[0], handler, calls, 0, awake_s=AWAKE_S if is_alone else 0.0)


def _load(spec: dict[str, Any], channels: Sequence[socket.socket], calls: CallRecorder) -> SerialPipeline:
    sys.path.extend(folder for folder in spec["path"] if folder not in sys.path)
    try:
        pipeline = load_pipeline(
            [Stage.from_json(plain) for plain in spec["stages"]],
            direct=spec["direct"],
            max_between_bytes=spec["max_between_bytes"],
            observer=calls,
            channels=len(channels),
        )
        # The model and its libraries are hundreds of thousands of objects that stay. Collecting them again and again would cost
        # some per cent of the time, and pauses of tens of milliseconds.
        gc.collect()
        gc.freeze()
        channels[0].sendall(pack(describe(pipeline)))
    except Exception as error:  # noqa: BLE001 - sent to the server, which reports it
        failure = as_failure(error)
        trace = failure.trace if isinstance(failure, ContainerError) else "".join(traceback.format_exception(error))
        print(trace, file=sys.stderr, flush=True)  # noqa: T201 - standard error is the log
        with contextlib.suppress(OSError):
            channels[0].sendall(pack({"ready": False, "reason": str(failure), "trace": trace}))
        os._exit(1)
    return pipeline


def _serve(
    channel: socket.socket,
    receiver: FrameReceiver,
    handler: Handler,
    calls: CallRecorder,
    number: int,
    *,
    awake_s: float = 0.0,
) -> None:
    calls.channel = number
    while (frame := receiver.receive(awake_s)) is not None:
        requests = requests_from(frame)
        answers = _answers(handler, requests)
        for answer in answers:
            if isinstance(answer, ContainerError):
                print(answer.trace or answer, file=sys.stderr, flush=True)  # noqa: T201 - standard error is the log
        try:
            channel.sendall(_pack(answers, calls.take()))
        except OSError:
            return  # The server has ended.


def _pack(answers: Sequence[Response | Exception], made: Sequence[tuple[str, float, int]]) -> bytes:
    """The frame of the answers. One that no frame can hold is replaced by an error."""
    try:
        return pack_answers(answers, made)
    except Exception:  # noqa: BLE001 - a container may put anything into its answer
        return pack_answers([_as_packable(answer) for answer in answers], made)


def _as_packable(answer: Response | Exception) -> Response | Exception:
    try:
        pack_answers([answer])
    except Exception as error:  # noqa: BLE001 - as above
        return RequestError(500, f"the container's answer cannot be sent: {type(error).__name__}: {error}")
    return answer


def _answers(handler: Handler, requests: Sequence[Request]) -> Sequence[Response | Exception]:
    if len(requests) > 1 and isinstance(handler, AnswersMany):
        return handler.answer_many(requests)
    answers: list[Response | Exception] = []
    for request in requests:
        try:
            answers.append(handler(request))
        except Exception as error:  # noqa: BLE001 - the error is the answer
            answers.append(error)
    return answers
