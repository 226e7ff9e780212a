"""Payloads of many objects to the containers, a few at a time, and their answers, in order, into files."""

from __future__ import annotations

import queue
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import DataError, Where
from headrace.io.write.atomic import AtomicFile
from headrace.jobs.store import InputObject
from headrace.jobs.transform.ask import Asking, Failure
from headrace.jobs.transform.payloads import Payload
from headrace.jobs.transform.record import version_of

__all__ = ["OutputFile", "send"]


MOST_TOGETHER = 256  # payloads that are answered together: beyond that, there is little left to gain
MOST_BY_TURNS = 64  # payloads that go to a container together which answers one after the other
MOST_BYTES = 8 << 20  # of payloads that go together, where requests have no limit
ENOUGH_S = 0.01  # of work at a time: against that, going from process to process costs nothing


class OutputFile:
    """The answers to one object.

    Args:
        source: The object.
        path: Where they go.
        read: Gives its payloads.
    """

    def __init__(self, source: InputObject, path: Path, read: Callable[[], Iterator[Payload]]) -> None:
        self.source = source
        self.path = path
        self.failure: Failure | None = None
        self.records = 0
        """Answered so far."""
        self.passed = 0
        """Bytes of the object that were answered, or given up."""
        self.version: tuple[int, ...] = ()
        """Of the object, when reading it began."""
        self.read = read
        self._file: AtomicFile | None = None

    def take(self, payload: Payload, output: bytes | Failure) -> None:
        """Put an answer behind the last one."""
        if self.failure is not None:
            return
        if isinstance(output, Failure):
            self.fail(output)
            return
        try:
            self._opened().write(output)
        except OSError as error:
            self.fail(_of_writing(error))
            return
        self.records += len(payload)
        self.passed = payload.end

    def fail(self, failure: Failure) -> None:
        """Keep nothing; only the first failure counts."""
        if self.failure is None:
            self.failure = failure
            self.abort()

    def finish(self) -> int:
        """Let the file appear, unless something failed; its size."""
        if self.failure is not None:
            return 0
        try:
            file = self._opened()
            file.close()
        except OSError as error:
            self.fail(_of_writing(error))
            return 0
        return file.size

    def abort(self) -> None:
        """Let nothing appear."""
        if self._file is not None:
            self._file.abort()

    def _opened(self) -> AtomicFile:
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = AtomicFile(self.path)
        return self._file


class _Pace:
    """How many payloads go to a container together: as many as it answers in a moment, where it answers one by one.

    One payload at a time would mean that quick containers spend most of the time with waking each other up.
    """

    def __init__(self, *, is_many: bool) -> None:
        self._is_many = is_many
        self._most = 1

    @property
    def most(self) -> int:
        """So many."""
        return MOST_TOGETHER if self._is_many else self._most

    def note(self, count: int, seconds: float) -> None:
        """Learn from how long some of them took."""
        self._most = max(1, min(MOST_BY_TURNS, 2 * count, int(ENOUGH_S * count / max(seconds, 1e-6))))


@dataclass(frozen=True, slots=True)
class _Task:
    """A payload to send, or the end of an object: ``None``, or what is wrong there."""

    file: OutputFile
    payload: Payload | None = None
    fault: Failure | None = None


def send(
    files: Sequence[OutputFile],
    asking: Sequence[Asking],
    *,
    limit: int,
    is_many: bool,
    finished: Callable[[OutputFile], None],
    advanced: Callable[[OutputFile], None],
) -> None:
    """Send everything.

    Args:
        files: What is to come of each object.
        asking: As many payloads are sent at a time.
        limit: Bytes of payloads that are sent together.
        is_many: Whether the containers answer several together.
        finished: Told of each file that is to appear now, or has failed.
        advanced: Told of each payload that was answered. What it raises ends the sending.
    """
    free: queue.SimpleQueue[Asking] = queue.SimpleQueue()
    for one in asking:
        free.put(one)
    pace = _Pace(is_many=is_many)
    waiting: deque[tuple[list[_Task], Future[list[bytes | Failure | None]]]] = deque()
    with ThreadPoolExecutor(len(asking), "headrace transform") as threads:

        def settle() -> None:
            batch, future = waiting.popleft()
            _settle(batch, future.result(), finished, advanced)

        try:
            for batch in _batches(files, limit, pace):
                waiting.append((batch, threads.submit(_outputs, batch, free, pace)))
                if len(waiting) > len(asking):  # one is ready while the others are answered
                    settle()
            while waiting:
                settle()
        except BaseException:
            for one in asking:
                one.process.interrupt()
            for _, future in waiting:
                future.cancel()
            raise
        finally:
            for file in files:
                file.abort()


def _outputs(batch: list[_Task], free: queue.SimpleQueue[Asking], pace: _Pace) -> list[bytes | Failure | None]:
    """An output for each task that has a payload and is still wanted."""
    wanted = {n: task.payload for n, task in enumerate(batch) if task.payload is not None and task.file.failure is None}
    outputs: list[bytes | Failure | None] = [None] * len(batch)
    asking = free.get()
    start = time.perf_counter()
    try:
        for number, output in zip(wanted, asking.outputs(list(wanted.values())), strict=True):
            outputs[number] = output
    finally:
        free.put(asking)
    if wanted:
        pace.note(len(wanted), time.perf_counter() - start)
    return outputs


def _settle(
    batch: list[_Task],
    outputs: list[bytes | Failure | None],
    finished: Callable[[OutputFile], None],
    advanced: Callable[[OutputFile], None],
) -> None:
    for task, output in zip(batch, outputs, strict=True):
        if task.payload is None:
            if task.fault is not None:
                task.file.fail(task.fault)
            finished(task.file)
        elif output is not None:
            task.file.take(task.payload, output)
            advanced(task.file)


def _batches(files: Sequence[OutputFile], limit: int, pace: _Pace) -> Iterator[list[_Task]]:
    """Tasks in order: as many payloads as the pace allows, of up to ``limit`` bytes in all, and the ends behind them."""
    batch: list[_Task] = []
    size = count = 0
    for file in files:
        for task in _tasks(file):
            if task.payload is not None:
                own = task.payload.size
                if count and (count >= pace.most or size + own > (limit or MOST_BYTES)):
                    yield batch
                    batch, size, count = [], 0, 0
                size, count = size + own, count + 1
            batch.append(task)
    if batch:
        yield batch


def _tasks(file: OutputFile) -> Iterator[_Task]:
    """The payloads of an object, as long as none of them has failed, and its end."""
    fault: Failure | None = None
    try:
        file.version = version_of(file.source.path)
        for payload in file.read():
            if file.failure is not None:
                break
            yield _Task(file, payload)
    except DataError as error:
        fault = Failure("ClientError", str(error.relocated(Where(path=file.source.name))))
    except OSError as error:
        fault = Failure("ClientError", f"Data download failed: {error.strerror or error}")
    yield _Task(file, fault=fault)


def _of_writing(error: OSError) -> Failure:
    return Failure("InternalServerError", f"the answers could not be written: {error}")
