"""Batch transform on a Ray cluster: each worker holds the model, and answers one object after another."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace._ray.cluster import Cluster
from headrace._ray.connection import connect
from headrace.errors import JobFailed, WorkerDied
from headrace.hosting.prepare import prepare_stages
from headrace.hosting.stage import Stage
from headrace.jobs.actors import EventQueue, RemoteActor, check_direct, node_name, shared_folder_token, size_of_place
from headrace.jobs.store import InputObject
from headrace.jobs.transform.invoke import ContainerOutput, ContainerProcess, Failure, Invoker, with_environment
from headrace.jobs.transform.record import FileStatus
from headrace.jobs.transform.run import TransformRun, answer_file, status_of
from headrace.jobs.transform.send import AnswerFile, send
from headrace.jobs.transform.spec import ExecutionParameters, TransformSpec, variables_of

__all__ = ["RayTransformRun", "TransformWorker"]

DEATHS = 4
"""How often the worker that has an object may die before the object fails."""
POLL_S = 0.1
END_S = 10.0
SILENCE_S = 10.0
"""How long all workers may wait for their nodes before the log says so."""


class TransformWorker:
    """One worker: processes with the model on a node of the cluster.

    Args:
        spec: The job.
        stages: The containers, as on the driver.
        token: Visible if the node shares the folder of the answers.
        sample: An object of the input.
    """

    def __init__(self, spec: TransformSpec, stages: Sequence[Stage], token: Path, sample: InputObject) -> None:
        self._spec, self._stages, self._token, self._sample = spec, stages, token, sample
        self._events = EventQueue()
        self._stack = ExitStack()
        self._processes: list[ContainerProcess] = []

    def load(self) -> Iterator[list[tuple[str, Any]]]:
        """Load the model into a first process. The result is what the containers reported."""
        return self._events.run(self._load)

    def run(
        self, source: InputObject, path: Path, output: str, parameters: ExecutionParameters
    ) -> Iterator[list[tuple[str, Any]]]:
        """Answer an object. The result is its status, and why it failed."""
        return self._events.run(lambda: self._run(source, path, output, parameters))

    def close(self) -> Iterator[list[tuple[str, Any]]]:
        """End the processes. The result is ``None``, after their last lines."""
        return self._events.run(self._close)

    def _close(self) -> None:
        for process in self._processes:
            process.close()
        self._output.close()
        self._stack.close()

    def _load(self) -> Mapping[str, Any]:
        self._events.put("begun", None)
        for what, place in (("the folder of the answers", self._token), ("the input", self._sample.path)):
            if not place.exists():
                seen = place.parent if place is self._token else place
                raise JobFailed(
                    f"ClientError: node {node_name()} does not see {what}, {seen}: every node must see the same files, in a "
                    "folder that all of them share"
                )
        line = self._write_line
        ready = self._stack.enter_context(prepare_stages(self._stages, log=line))
        self._variables = variables_of(self._spec)
        self._ready = with_environment(ready, self._variables)
        self._output = ContainerOutput(line)
        first = self._start()
        first.load()
        return first.loaded

    def _write_line(self, line: str) -> None:
        self._events.put("line", line)

    def _start(self) -> ContainerProcess:
        process = ContainerProcess(self._ready, self._variables, self._output.descriptor)
        self._processes.append(process)
        return process

    def _run(
        self, source: InputObject, path: Path, output: str, parameters: ExecutionParameters
    ) -> tuple[FileStatus, Failure | None]:
        while len(self._processes) < parameters.concurrent:
            self._start()
        file = answer_file(self._spec, source, path, parameters)
        sizes: list[int] = []
        stop = threading.Event()
        send(
            [file],
            [Invoker(self._spec, process, parameters.limit, stop) for process in self._processes],
            limit=parameters.limit,
            is_many=bool(self._processes[0].loaded.get("many")),
            on_file=lambda one: sizes.append(one.finish()),
            on_payload=lambda one: self._events.put("passed", one.passed),
        )
        return status_of(file, output, sizes[0]), file.failure


@dataclass(slots=True)
class _Unit:
    """One object, and how often a worker died with it."""

    source: InputObject
    deaths: int = 0


class RayTransformRun(TransformRun):
    """One run of a job on a cluster.

    Args:
        args: As for :class:`TransformRun`.
        address: The cluster, as for :func:`headrace._ray.connection.connect`.
        workers: How many workers; by default as many as the cluster holds, and not more than objects.
        resources: What each takes of its node.
        options: As for :class:`TransformRun`.
    """

    def __init__(
        self,
        *args: Any,
        address: str | None = None,
        workers: int | None = None,
        resources: Mapping[str, float] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self._address, self._wanted = address, workers
        self._given = dict(resources or {})
        self._resources = {"CPU": float(self._spec.max_concurrent_transforms or 1), **self._given}
        self._events: queue.SimpleQueue[tuple[_Unit | None, str, Any]] = queue.SimpleQueue()
        self._units: deque[_Unit] = deque()
        self._parameters: ExecutionParameters | None = None
        self._lock = threading.Condition()
        self._is_over = False
        self._actors: set[RemoteActor] = set()
        self._silent_since: float | None = None
        """Since when the workers wait for a node. ``None``: one has begun, or the log says so."""

    def _send(self, objects: list[InputObject], stack: ExitStack) -> None:
        cluster = stack.enter_context(connect(self._address))
        check_direct(cluster)
        token = stack.enter_context(shared_folder_token(self._folder_of_answers(), self._spec.name))
        stack.callback(self._end)
        self._units.extend(_Unit(one) for one in objects)
        made = (self._spec, self._stages, token, objects[0])
        self._bar_of_all = stack.enter_context(self._bar(objects))
        self._shown: dict[str, int] = {}
        count = self._number_of_workers(cluster, len(objects))
        threads = [threading.Thread(target=self._work, args=(cluster, made), daemon=True) for _ in range(count)]
        self._silent_since = time.monotonic()
        for thread in threads:
            thread.start()
        left = len(objects)
        while left:
            self._check()
            left -= self._handle_next()
        with self._lock:
            self._is_over = True
            self._lock.notify_all()
        deadline = time.monotonic() + END_S
        while any(thread.is_alive() for thread in threads) and time.monotonic() < deadline:
            self._handle_next()

    def _number_of_workers(self, cluster: Cluster, objects: int) -> int:
        largest = max((node.cpus for node in cluster.nodes()), default=0.0)
        if "CPU" not in self._given:
            self._resources["CPU"] = min(self._resources["CPU"], largest)
        room = size_of_place(cluster, self._resources)
        if not room or not largest:
            raise JobFailed(f"ClientError: no node of the Ray cluster offers {self._resources}, which a worker takes")
        count = min(objects, self._wanted or room)
        self._log.write(f"{count} workers on Ray")
        return count

    def _handle_next(self) -> int:
        """Handle the next report. Returns 1 for the end of an object."""
        try:
            unit, kind, value = self._events.get(timeout=POLL_S)
        except queue.Empty:
            self._explain_silence()
            return 0
        return self._handle(unit, kind, value)

    def _explain_silence(self) -> None:
        if self._silent_since is not None and time.monotonic() - self._silent_since > SILENCE_S:
            self._silent_since = None
            self._log.write(
                f"the workers wait for a node of the Ray cluster with {self._resources} free (`ray status` shows what is in use)"
            )

    def _folder_of_answers(self) -> Path:
        return self._store.resolve(self._spec.output_path.rstrip("/") + "/x").parent

    def _handle(self, unit: _Unit | None, kind: str, value: Any) -> int:
        """Handle what a worker reports. Returns 1 for the end of an object."""
        if kind == "line":
            self._log.write_container_line(value)
        elif kind == "error":
            raise value
        elif kind == "begun":
            self._silent_since = None
        elif kind == "loaded":
            self._settle(value)
        elif kind == "passed" and unit is not None:
            self._advance(unit, value)
        elif kind == "result" and unit is not None:
            status, failure = value
            self._check_visible(status)
            self._note_file(unit.source, status, failure)
            self._advance(unit, unit.source.path.stat().st_size if unit.source.path.exists() else 0)
            return 1
        return 0

    def _settle(self, loaded: Mapping[str, Any]) -> None:
        """The settings that the first loaded model reports hold for all."""
        if self._parameters is not None:
            return
        parameters = self._begin(loaded)
        with self._lock:
            self._parameters = parameters
            self._lock.notify_all()

    def _advance(self, unit: _Unit, passed: int) -> None:
        if self._bar_of_all.unit == "bytes":
            self._bar_of_all.advance(passed - self._shown.get(unit.source.uri, 0))
            self._shown[unit.source.uri] = passed

    def _check_visible(self, status: FileStatus) -> None:
        """Check that the answers, written by a node, are here."""
        if status.status == "Completed":
            answers = self._store.resolve(status.output)
            if not answers.is_file() or answers.stat().st_size != status.output_bytes:
                raise JobFailed(
                    f"ClientError: a node wrote {answers}, which this machine does not see: use a shared folder"
                )

    def _end(self) -> None:
        """End all workers."""
        with self._lock:
            self._is_over = True
            actors = list(self._actors)
            self._lock.notify_all()
        for actor in actors:
            actor.kill()

    def _work(self, cluster: Cluster, made: tuple[Any, ...]) -> None:
        """Give one worker object after object, and replace it when it dies. Runs in a thread."""
        actor: RemoteActor | None = None
        unit: _Unit | None = None
        deaths = 0  # before the worker had an object; each object has its own count
        try:
            while True:
                try:
                    actor = actor or self._load(cluster, made)
                    deaths = 0
                    unit = self._take()
                    if unit is None:
                        self._close(actor)
                        return
                    self._give(actor, unit)
                    unit = None
                except WorkerDied as error:
                    if self._is_over:
                        return
                    self._drop(actor)
                    actor = None
                    if unit is None:
                        deaths += 1
                        if deaths > DEATHS:
                            raise
                    self._put_back(unit, error)
                    unit = None
        except Exception as error:  # noqa: BLE001 - the main thread raises it
            self._events.put((None, "error", error))
        finally:
            self._drop(actor)

    def _take(self) -> _Unit | None:
        """The next object. Waits, as a worker may die and leave one."""
        with self._lock:
            self._lock.wait_for(lambda: self._units or self._is_over)
            return None if self._is_over else self._units.popleft()

    def _close(self, actor: RemoteActor) -> None:
        """End a worker, and take the last lines of its containers."""
        if not self._stop.is_set():
            for kind, value in _flat(actor.stream("close")):
                self._events.put((None, kind, value))

    def _load(self, cluster: Cluster, made: tuple[Any, ...]) -> RemoteActor:
        actor = RemoteActor(cluster, TransformWorker, *made, resources=self._resources)
        with self._lock:
            self._actors.add(actor)
        try:
            for kind, value in _flat(actor.stream("load")):
                self._events.put((None, "loaded" if kind == "result" else kind, value))
        except BaseException:
            self._drop(actor)
            raise
        with self._lock:
            self._lock.wait_for(lambda: self._parameters is not None or self._is_over)
        return actor

    def _give(self, actor: RemoteActor, unit: _Unit) -> None:
        output = self._output(unit.source)
        path = self._store.resolve(output)
        for kind, value in _flat(actor.stream("run", unit.source, path, output, self._parameters)):
            self._events.put((unit, kind, value))

    def _drop(self, actor: RemoteActor | None) -> None:
        """End a worker at once."""
        if actor is not None:
            with self._lock:
                self._actors.discard(actor)
            actor.kill()

    def _put_back(self, unit: _Unit | None, error: WorkerDied) -> None:
        """Queue an object again whose worker died, or fail it if that happened too often."""
        if unit is None:
            return
        unit.deaths += 1
        self._events.put((None, "line", f"a worker died with {unit.source.name}: {error}"))
        if unit.deaths < DEATHS:
            with self._lock:
                self._units.append(unit)
                self._lock.notify_all()
            return
        failure = Failure("InternalServerError", f"the worker that had it died {unit.deaths} times: {error}")
        file = AnswerFile(unit.source, self._store.resolve(self._output(unit.source)), lambda: iter(()))
        file.fail(failure)
        self._events.put((unit, "result", (status_of(file, self._output(unit.source), 0), failure)))


def _flat(batches: Iterator[list[tuple[str, Any]]]) -> Iterator[tuple[str, Any]]:
    for batch in batches:
        yield from batch
