"""Sends the payloads of many objects to the containers, several at a time, and writes the answers to files, in order."""

from __future__ import annotations

import queue
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from headrace._faults import without_skip_hint
from headrace.errors import DataError, Where
from headrace.io.write.atomic import AtomicFile
from headrace.jobs.store import InputObject
from headrace.jobs.transform.invoke import Failure, Invoker
from headrace.jobs.transform.payloads import Payload
from headrace.jobs.transform.record import version_before_reading
from headrace.jobs.tree import is_full_disk

__all__ = ["AnswerFile", "send"]


MOST_TOGETHER = 256  # payloads in one batch for containers that answer batches; more gain little
MOST_IN_SEQUENCE = 64  # payloads per message for containers that answer them one by one
MOST_BYTES = 8 << 20  # payload bytes per message, if requests have no limit
ENOUGH_S = 0.01  # work per message; the cost of passing a message is negligible against that


class AnswerFile:
    """The answers to one object.

    Args:
        source: The object.
        path: The file of the answers.
        read: Yields its payloads.
    """

    def __init__(self, source: InputObject, path: Path, read: Callable[[], Iterator[Payload]]) -> None:
        self.source = source
        self.path = path
        self.failure: Failure | None = None
        self.records: int = 0
        """The number answered so far."""
        self.passed: int = 0
        """Bytes of the object whose answers were written."""
        self.version: tuple[int, ...] = ()
        """The signature of the object when reading began."""
        self.read = read
        self._file: AtomicFile | None = None

    def add(self, payload: Payload, output: bytes | Failure) -> None:
        """Append an answer.

        Raises:
            OSError: The disk is full.
        """
        if self.failure is not None:
            return
        if isinstance(output, Failure):
            self.fail(output)
            return
        try:
            self._open().write(output)
        except OSError as error:
            self.fail(_write_failure(error))
            return
        self.records += len(payload)
        self.passed = payload.end

    def fail(self, failure: Failure) -> None:
        """Note a failure and discard the answers. Only the first failure counts."""
        if self.failure is None:
            self.failure = failure
            self.abort()

    def finish(self) -> int:
        """Give the file its name, unless something failed. Returns its size.

        Raises:
            OSError: The disk is full.
        """
        if self.failure is not None:
            return 0
        try:
            file = self._open()
            file.close()
        except OSError as error:
            self.fail(_write_failure(error))
            return 0
        return file.size

    def abort(self) -> None:
        """Discard the answers."""
        if self._file is not None:
            self._file.abort()

    def _open(self) -> AtomicFile:
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = AtomicFile(self.path)
        return self._file


class _BatchSizer:
    """Chooses the number of payloads per message: as many as a container answers in 10 ms, if it answers them one by one.

    With one payload per message, fast containers would spend most of the time waking up.
    """

    def __init__(self, *, is_many: bool) -> None:
        self._is_many = is_many
        self._most = 1

    @property
    def most(self) -> int:
        """The number of payloads for the next message."""
        return MOST_TOGETHER if self._is_many else self._most

    def note(self, count: int, seconds: float) -> None:
        """Adapt to the time that a message took."""
        self._most = max(1, min(MOST_IN_SEQUENCE, 2 * count, int(ENOUGH_S * count / max(seconds, 1e-6))))


@dataclass(frozen=True, slots=True)
class _Task:
    """A payload to send; without one, the end of an object, with the fault that ended it, if any."""

    file: AnswerFile
    payload: Payload | None = None
    fault: Failure | None = None


def send(
    files: Sequence[AnswerFile],
    invokers: Sequence[Invoker],
    *,
    limit: int,
    is_many: bool,
    on_file: Callable[[AnswerFile], None],
    on_payload: Callable[[AnswerFile], None],
) -> None:
    """Send everything.

    Args:
        files: The outputs, one per object.
        invokers: Send the payloads, one message at a time each.
        limit: Payload bytes per message.
        is_many: Whether the containers answer batches.
        on_file: Called with each file that is complete or failed.
        on_payload: Called after each payload. An exception of it stops the sending.

    Raises:
        OSError: The disk is full.
    """
    free: queue.SimpleQueue[Invoker] = queue.SimpleQueue()
    for one in invokers:
        free.put(one)
    sizer = _BatchSizer(is_many=is_many)
    waiting: deque[tuple[list[_Task], Future[list[bytes | Failure | None]]]] = deque()
    with ThreadPoolExecutor(len(invokers), "headrace transform") as threads:

        def write_next() -> None:
            batch, future = waiting.popleft()
            _write(batch, future.result(), on_file, on_payload)

        try:
            for batch in _batches(files, limit, sizer):
                waiting.append((batch, threads.submit(_outputs, batch, free, sizer)))
                if len(waiting) > len(invokers):  # so that the next batch is ready when one is answered
                    write_next()
            while waiting:
                write_next()
        except BaseException:
            for one in invokers:
                one.process.interrupt()
            for _, future in waiting:
                future.cancel()
            raise
        finally:
            for file in files:
                file.abort()


def _outputs(batch: list[_Task], free: queue.SimpleQueue[Invoker], sizer: _BatchSizer) -> list[bytes | Failure | None]:
    """An output for each task with a payload, unless its file has failed already."""
    wanted = {n: task.payload for n, task in enumerate(batch) if task.payload is not None and task.file.failure is None}
    outputs: list[bytes | Failure | None] = [None] * len(batch)
    invoker = free.get()
    start = time.perf_counter()
    try:
        for number, output in zip(wanted, invoker.outputs(list(wanted.values())), strict=True):
            outputs[number] = output
    finally:
        free.put(invoker)
    if wanted:
        sizer.note(len(wanted), time.perf_counter() - start)
    return outputs


def _write(
    batch: list[_Task],
    outputs: list[bytes | Failure | None],
    on_file: Callable[[AnswerFile], None],
    on_payload: Callable[[AnswerFile], None],
) -> None:
    for task, output in zip(batch, outputs, strict=True):
        if task.payload is None:
            if task.fault is not None:
                task.file.fail(task.fault)
            on_file(task.file)
        elif output is not None:
            task.file.add(task.payload, output)
            on_payload(task.file)


def _batches(files: Sequence[AnswerFile], limit: int, sizer: _BatchSizer) -> Iterator[list[_Task]]:
    """Tasks in order, in batches of as many payloads as ``sizer`` allows and up to ``limit`` bytes."""
    batch: list[_Task] = []
    size = count = 0
    for file in files:
        for task in _tasks(file):
            if task.payload is not None:
                own = task.payload.size
                if count and (count >= sizer.most or size + own > (limit or MOST_BYTES)):
                    yield batch
                    batch, size, count = [], 0, 0
                size, count = size + own, count + 1
            batch.append(task)
    if batch:
        yield batch


def _tasks(file: AnswerFile) -> Iterator[_Task]:
    """The payloads of an object, until one fails, and its end."""
    fault: Failure | None = None
    try:
        file.version = version_before_reading(file.source.path)
        for payload in file.read():
            if file.failure is not None:
                break
            yield _Task(file, payload)
    except DataError as error:
        fault = Failure("ClientError", str(without_skip_hint(error.relocated(Where(path=file.source.name)))))
    except OSError as error:
        fault = Failure("ClientError", f"Data download failed: {error.strerror or error}")
    yield _Task(file, fault=fault)


def _write_failure(error: OSError) -> Failure:
    """The failure of one object.

    Raises:
        OSError: The disk is full: other objects would fail, too.
    """
    if is_full_disk(error):
        raise error
    return Failure("InternalServerError", f"the answers could not be written: {error}")
