"""One run of a transform job, with a log in SageMaker's form."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, cast

from headrace.contracts.job import Channel, Store
from headrace.errors import JobFailed
from headrace.hosting.prepare import prepare_stages
from headrace.hosting.stage import Stage
from headrace.io.progress import Progress
from headrace.jobs.record import HostLog, JobFiles, failure_reason, watching
from headrace.jobs.store import InputObject, as_uri_part, check_folder, list_objects
from headrace.jobs.transform.invoke import ContainerOutput, ContainerProcess, Failure, Invoker, with_environment
from headrace.jobs.transform.jsonpath import JsonPath
from headrace.jobs.transform.payloads import payloads_of
from headrace.jobs.transform.record import FileStatus, TransformRecord, now
from headrace.jobs.transform.send import AnswerFile, send
from headrace.jobs.transform.spec import ExecutionParameters, TransformSpec, variables_of
from headrace.jobs.tree import full_disk_reason

__all__ = ["TransformLog", "TransformRun", "answer_file", "status_of"]


class TransformLog:
    """The log of the job (``logs/data-log.log``) and the output of its containers (``logs/container.log``).

    Args:
        files: The files of the job.
        show: Shows a line.
    """

    def __init__(self, files: JobFiles, show: Callable[[str], None]) -> None:
        self._job = HostLog(files.log("data-log"), "data-log", show)
        try:
            self._container = HostLog(files.log("container"), "container", show)
        except OSError:
            self._job.close()
            raise

    def write(self, text: str) -> None:
        """Write a line about the job."""
        self._job.write(f"{now()}:[sagemaker logs]: {text}")

    def write_failure(self, uri: str, failure: Failure) -> None:
        """Write why an object failed."""
        name = uri.removeprefix("s3://")
        lines = [failure.title, "", "Frame:", *failure.reason.splitlines()]
        if failure.place:
            lines.append(f"at {failure.place}")
        for line in lines:
            self.write(f"{name}: {line}")

    def write_container_line(self, line: str) -> None:
        """Write a line that a container printed."""
        self._container.write(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._job.close()
        self._container.close()


POLL_S = 0.1
SAVE_EVERY_S = 1.0
SUFFIX = ".out"


class _Stopped(Exception):
    """The job was asked to stop."""


def answer_file(spec: TransformSpec, source: InputObject, path: Path, parameters: ExecutionParameters) -> AnswerFile:
    """The answers to an object, and how its payloads are read.

    Args:
        spec: The job.
        source: The object.
        path: The file of the answers.
        parameters: The settings of the run.
    """
    read = partial(
        payloads_of,
        source.path,
        split=spec.split,
        is_gzip=spec.compression == "Gzip",
        limit=parameters.limit,
        is_single=parameters.strategy == "SingleRecord" and spec.split != "None",
    )
    return AnswerFile(source, path, read)


def status_of(file: AnswerFile, output: str, size: int) -> FileStatus:
    """The result of an object.

    Args:
        file: Its answers, finished.
        output: Their URI.
        size: Their size in bytes.
    """
    failure = file.failure
    return FileStatus(
        input=file.source.uri,
        output=output,
        status="Completed" if failure is None else "Failed",
        records=0 if failure is not None else file.records,
        reason=None if failure is None else failure.line,
        version=file.version,
        output_bytes=size,
    )


class TransformRun:
    """One run of a job.

    Args:
        spec: The job.
        stages: The containers.
        store: Holds the objects and the answers.
        record: The status of the job.
        log: The log of the job.
        stop: Set to stop the job.
        shows: Whether to show a progress bar.
    """

    def __init__(
        self,
        spec: TransformSpec,
        stages: Sequence[Stage],
        store: Store,
        record: TransformRecord,
        log: TransformLog,
        stop: threading.Event,
        *,
        shows: bool,
    ) -> None:
        self._spec = spec
        self._stages = stages
        self._store = store
        self._record = record
        self._log = log
        self._stop_request = stop
        self._stop = threading.Event()
        self._processes: list[ContainerProcess] = []
        self._shows = shows
        self._saved = time.monotonic()
        self._counts = {"Total": 0, "Completed": 0, "Failed": 0}
        self._failures: dict[str, tuple[str, Failure]] = {}
        self._order: dict[str, int] = {}

    def run(self) -> TransformRecord:
        """Run the job. Returns its record, finished.

        Raises:
            JobFailed: An object failed, or the whole job did.
        """
        try:
            with watching(self._watch, name="headrace transform watcher"):
                self._transform()
            reason = self._first_reason()
            self._record.content["Files"] = self._counts
            self._record.finish("Completed" if reason is None else "Failed", reason=reason)
        except _Stopped:
            self._finish("Stopped")
        except KeyboardInterrupt:
            self._finish("Stopped")
            raise
        except Exception as error:
            if self._stop.is_set():  # errors while the containers are stopped are not failures
                self._finish("Stopped")
                return self._record
            reason = full_disk_reason(error, self._record.files_of_job.folder.parent) or failure_reason(error)
            self._log.write(reason)
            self._finish("Failed", reason=reason)
            raise JobFailed(reason) from error
        else:
            if reason is not None:
                raise JobFailed(reason)
        return self._record

    def _finish(self, status: str, *, reason: str | None = None) -> None:
        """Write the final status. If the disk is full, the record stays in progress, and readers find that no process runs the job."""
        with suppress(OSError):
            self._record.finish(status, reason=reason)

    def _transform(self) -> None:
        check_folder("output_path", self._spec.output_path, self._store.resolve(self._spec.output_path))
        objects = self._objects()
        self._order = {one.uri: position for position, one in enumerate(objects)}
        done = self._record.current_files(objects, self._store)
        self._counts.update(Total=len(objects), Completed=len(done))
        if done:
            self._log.write(f"{len(done)} of {len(objects)} files exist already")
        known = {one.input for one in done}
        todo = [one for one in objects if one.uri not in known]
        if todo:
            with ExitStack() as stack:
                self._send(todo, stack)

    def _objects(self) -> list[InputObject]:
        """The objects of the input, without the answers that this job itself has put among them.

        Raises:
            JobFailed: There are none, or an answer would replace one.
        """
        kind = cast("Literal['S3Prefix', 'ManifestFile']", self._spec.data_type)
        found = list_objects(Channel(uri=self._spec.input_uri, data_type=kind), self._store, "the input")
        own = {self._answer_path(one.output) for one in self._record.files() if one.status == "Completed"}
        objects = [one for one in found if os.path.realpath(one.path) not in own]
        inputs = {os.path.realpath(one.path): one for one in objects}
        for one in objects:
            replaced = inputs.get(self._answer_path(self._output(one)))
            if replaced is not None:
                raise JobFailed(
                    f"ClientError: the answers to {one.uri} would replace {replaced.uri}, which is also an object of the input. "
                    "Choose another output_path, or move the answers of earlier jobs out of the input"
                )
        return objects

    def _answer_path(self, uri: str) -> str:
        return os.path.realpath(self._store.resolve(uri))

    def _send(self, objects: list[InputObject], stack: ExitStack) -> None:
        first, start = self._loader(stack)
        parameters = self._begin(first.loaded)
        processes = [first, *(start() for _ in range(parameters.concurrent - 1))]
        bar = stack.enter_context(self._bar(objects))
        shown: dict[AnswerFile, int] = {}

        def on_payload(file: AnswerFile) -> None:
            if bar.unit == "bytes":
                bar.advance(file.passed - shown.get(file, 0))
                shown[file] = file.passed
            self._check()

        def on_file(file: AnswerFile) -> None:
            self._finish_file(file)
            size = file.source.path.stat().st_size if file.source.path.exists() else 0
            bar.advance(size - shown.pop(file, 0) if bar.unit == "bytes" else 1)

        send(
            [self._file(one, parameters) for one in objects],
            [Invoker(self._spec, process, parameters.limit, self._stop) for process in processes],
            limit=parameters.limit,
            is_many=bool(first.loaded.get("many")),
            on_file=on_file,
            on_payload=on_payload,
        )

    def _begin(self, loaded: Mapping[str, Any]) -> ExecutionParameters:
        """Settle and record the settings, once a model is loaded."""
        if fault := loaded.get("execution_parameters_fault"):
            raise JobFailed(f"AlgorithmError: /execution-parameters: {fault}")
        parameters = ExecutionParameters.of(self._spec, loaded.get("execution_parameters"))
        self._log.write(parameters.line)
        self._warn()
        self._record.update(
            MaxConcurrentTransforms=parameters.concurrent,
            MaxPayloadInMB=parameters.payload_mb,
            BatchStrategy=parameters.strategy,
            TransformStartTime=now(),
            Files=self._counts,
        )
        return parameters

    def _loader(self, stack: ExitStack) -> tuple[ContainerProcess, Callable[[], ContainerProcess]]:
        """The first process, loaded, and a function that starts others."""
        variables = variables_of(self._spec)
        ready = stack.enter_context(prepare_stages(self._stages, log=self._log.write_container_line))
        stages = with_environment(ready, variables)
        output = ContainerOutput(self._log.write_container_line)
        stack.callback(output.close)

        def start() -> ContainerProcess:
            process = ContainerProcess(stages, variables, output.descriptor)
            stack.callback(process.close)
            self._processes.append(process)
            return process

        first = start()
        self._check()
        first.load()
        return first, start

    def _warn(self) -> None:
        for name in ("input_filter", "output_filter"):
            path = JsonPath.parse(getattr(self._spec, name))
            if path.has_ended_slice:
                self._log.write(
                    f"{name} {path.text}: the end of a slice is excluded here, as in JSONPath and Python. SageMaker's guide has "
                    "examples that include it; a list of positions, such as $[1,2,3], is the same in both readings"
                )

    def _bar(self, objects: list[InputObject]) -> Progress:
        if self._spec.compression == "Gzip":
            return Progress("transforming", len(objects), "files", show=self._shows)
        total = sum(one.path.stat().st_size for one in objects)
        return Progress("transforming", total, "bytes", show=self._shows)

    def _file(self, source: InputObject, parameters: ExecutionParameters) -> AnswerFile:
        return answer_file(self._spec, source, self._store.resolve(self._output(source)), parameters)

    def _output(self, source: InputObject) -> str:
        folder = self._spec.output_path.rstrip("/")
        return f"{folder}/{as_uri_part(source.name + SUFFIX, folder)}"

    def _finish_file(self, file: AnswerFile) -> None:
        """Finish the output of an object, and record the result."""
        self._check()
        self._note_file(file.source, status_of(file, self._output(file.source), file.finish()), file.failure)

    def _note_file(self, source: InputObject, status: FileStatus, failure: Failure | None) -> None:
        """Record the result of an object."""
        self._record.note(status)
        self._counts["Completed" if failure is None else "Failed"] += 1
        if failure is not None:
            self._log.write_failure(source.uri, failure)
            self._failures[source.uri] = (source.name, failure)
        if time.monotonic() - self._saved > SAVE_EVERY_S:
            self._record.update(Files=self._counts)
            self._saved = time.monotonic()

    def _check(self) -> None:
        if self._stop.is_set():
            raise _Stopped

    def _first_reason(self) -> str | None:
        """Why the job failed, if an object failed."""
        if not self._failures:
            return None
        name, failure = self._failures[min(self._failures, key=self._order.__getitem__)]
        failed, total = self._counts["Failed"], self._counts["Total"]
        which = "" if total == 1 else f"{failed} of {total} files failed; the first: "
        return failure_reason(
            JobFailed(f"{failure.kind}: {which}{name}: {failure.line.removeprefix(failure.kind + ': ')}")
        )

    def _watch(self, over: threading.Event) -> None:
        """Stop the containers on request."""
        while not over.wait(POLL_S):
            if self._stop_request.is_set() or self._record.files_of_job.stop.exists():
                with suppress(OSError):  # a full disk must not keep the job from stopping
                    self._record.update(TransformJobStatus="Stopping")
                self._stop.set()
                for process in list(self._processes):
                    process.interrupt()
                return
