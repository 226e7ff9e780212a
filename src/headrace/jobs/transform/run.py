"""One run of a transform job, and its log, in the form that SageMaker's has."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from types import TracebackType
from typing import Literal, Self, cast

from headrace.contracts.job import Channel, Store
from headrace.errors import JobFailed
from headrace.hosting.prepare import prepare_stages
from headrace.hosting.stage import Stage
from headrace.io.progress import Progress
from headrace.jobs.record import HostLog, JobFiles
from headrace.jobs.store import InputObject, list_objects
from headrace.jobs.transform.ask import Asking, ContainerOutput, ContainerProcess, Failure, with_environment
from headrace.jobs.transform.jsonpath import JsonPath
from headrace.jobs.transform.payloads import payloads_of
from headrace.jobs.transform.record import FileStatus, TransformRecord, now
from headrace.jobs.transform.send import OutputFile, send
from headrace.jobs.transform.spec import Parameters, TransformSpec, variables_of
from headrace.jobs.tree import full_disk_reason

__all__ = ["TransformLog", "TransformRun", "one_line"]


REASON_LIMIT = 1024
KINDS = ("ClientError:", "AlgorithmError:", "InternalServerError:")


class TransformLog:
    """Lines about the job (``logs/data-log.log``) and of its containers (``logs/container.log``).

    Args:
        files: Of the job.
        show: Shows a line.
    """

    def __init__(self, files: JobFiles, show: Callable[[str], None]) -> None:
        self._job = HostLog(files.log("data-log"), "data-log", show)
        self._container = HostLog(files.log("container"), "container", show)

    def say(self, text: str) -> None:
        """A line about the whole job."""
        self._job.write(f"{now()}:[sagemaker logs]: {text}")

    def failed(self, uri: str, failure: Failure) -> None:
        """Why an object has failed."""
        name = uri.removeprefix("s3://")
        lines = [failure.title, "", "Frame:", *failure.reason.splitlines()]
        if failure.place:
            lines.append(f"at {failure.place}")
        for line in lines:
            self.say(f"{name}: {line}")

    def from_container(self, line: str) -> None:
        """A line that a container has printed."""
        self._container.write(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._job.close()
        self._container.close()


def one_line(error: Exception) -> str:
    """A reason as the API has it."""
    text = " ".join((str(error) if isinstance(error, JobFailed) else f"{type(error).__name__}: {error}").split())
    if not text.startswith(KINDS):
        kind = "AlgorithmError" if isinstance(error, JobFailed) else "InternalServerError"
        text = f"{kind}: {text}"
    return text if len(text) <= REASON_LIMIT else text[: REASON_LIMIT - 3] + "..."


POLL_S = 0.1
SAVE_EVERY_S = 1.0
SUFFIX = ".out"


class _Stopped(Exception):
    """Somebody wants the job to end."""


class TransformRun:
    """A job that runs.

    Args:
        spec: What to do.
        stages: The containers.
        store: Where objects are and answers go.
        record: Of the job.
        log: Of the job.
        stop: Set to stop it.
        shows: Whether a bar is shown.
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
        self._asked = stop  # by somebody outside
        self._stop = threading.Event()
        self._processes: list[ContainerProcess] = []
        self._shows = shows
        self._saved = time.monotonic()
        self._counts = {"Total": 0, "Completed": 0, "Failed": 0}
        self._first_failure: tuple[str, Failure] | None = None

    def through(self) -> TransformRecord:
        """Do everything; the record, finished.

        Raises:
            JobFailed: A file, or all of it, failed.
        """
        try:
            with self._while_watched():
                self._transform()
        except _Stopped:
            self._record.finish("Stopped")
        except KeyboardInterrupt:
            self._record.finish("Stopped")
            raise
        except Exception as error:
            if self._stop.is_set():  # what fails when the containers are ended is no failure
                self._record.finish("Stopped")
                return self._record
            reason = full_disk_reason(error, self._record.files_of_job.folder.parent) or one_line(error)
            self._log.say(reason)
            # On a full disk, that it runs is all that the record says: who reads it then finds that nothing runs any more.
            with suppress(OSError):
                self._record.finish("Failed", reason=reason)
            raise JobFailed(reason) from error
        else:
            self._end()
        return self._record

    def _transform(self) -> None:
        objects = self._objects()
        standing = self._record.standing(objects, self._store)
        self._counts.update(Total=len(objects), Completed=len(standing))
        if standing:
            self._log.say(f"{len(standing)} of {len(objects)} files are there already")
        known = {one.input for one in standing}
        todo = [one for one in objects if one.uri not in known]
        if todo:
            with ExitStack() as stack:
                self._send(todo, stack)

    def _objects(self) -> list[InputObject]:
        kind = cast("Literal['S3Prefix', 'ManifestFile']", self._spec.data_type)
        return list_objects(Channel(uri=self._spec.input_uri, data_type=kind), self._store, "the input")

    def _send(self, objects: list[InputObject], stack: ExitStack) -> None:
        first, start = self._loader(stack)
        parameters = Parameters.of(self._spec, first.told.get("execution_parameters"))
        self._log.say(parameters.line)
        self._warn()
        self._record.update(
            MaxConcurrentTransforms=parameters.concurrent,
            MaxPayloadInMB=parameters.payload_mb,
            BatchStrategy=parameters.strategy,
            TransformStartTime=now(),
            Files=self._counts,
        )
        processes = [first, *(start() for _ in range(parameters.concurrent - 1))]
        bar = stack.enter_context(self._bar(objects))
        passed: dict[OutputFile, int] = {}

        def advanced(file: OutputFile) -> None:
            if bar.unit == "bytes":
                bar.advance(file.passed - passed.get(file, 0))
                passed[file] = file.passed
            self._check()

        def finished(file: OutputFile) -> None:
            self._finish(file)
            whole = file.source.path.stat().st_size if file.source.path.exists() else 0
            bar.advance(whole - passed.pop(file, 0) if bar.unit == "bytes" else 1)

        send(
            [self._file(one, parameters) for one in objects],
            [Asking(self._spec, process, parameters.limit, self._stop) for process in processes],
            limit=parameters.limit,
            is_many=bool(first.told.get("many")),
            finished=finished,
            advanced=advanced,
        )

    def _loader(self, stack: ExitStack) -> tuple[ContainerProcess, Callable[[], ContainerProcess]]:
        """The first process, loaded, and how to make others."""
        variables = variables_of(self._spec)
        ready = stack.enter_context(prepare_stages(self._stages, log=self._log.from_container))
        stages = with_environment(ready, variables)
        output = ContainerOutput(self._log.from_container)
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
                self._log.say(
                    f"{name} {path.text}: the end of a slice is excluded here, as in JSONPath and Python. SageMaker's guide has "
                    "examples that include it; a list of positions, such as $[1,2,3], is the same in both readings"
                )

    def _bar(self, objects: list[InputObject]) -> Progress:
        if self._spec.compression == "Gzip":
            return Progress("transforming", len(objects), "files", show=self._shows)
        total = sum(one.path.stat().st_size for one in objects)
        return Progress("transforming", total, "bytes", show=self._shows)

    def _file(self, source: InputObject, parameters: Parameters) -> OutputFile:
        read = partial(
            payloads_of,
            source.path,
            split=self._spec.split,
            is_gzip=self._spec.compression == "Gzip",
            limit=parameters.limit,
            is_single=parameters.strategy == "SingleRecord" and self._spec.split != "None",
        )
        return OutputFile(source, self._store.resolve(self._output(source)), read)

    def _output(self, source: InputObject) -> str:
        return f"{self._spec.output_path.rstrip('/')}/{source.name}{SUFFIX}"

    def _finish(self, file: OutputFile) -> None:
        """An object is through: keep what became of it."""
        self._check()
        size = file.finish()
        failure = file.failure
        self._record.note(
            FileStatus(
                input=file.source.uri,
                output=self._output(file.source),
                status="Completed" if failure is None else "Failed",
                records=0 if failure is not None else file.records,
                reason=None if failure is None else failure.line,
                version=file.version,
                output_bytes=size,
            )
        )
        self._counts["Completed" if failure is None else "Failed"] += 1
        if failure is not None:
            self._log.failed(file.source.uri, failure)
            self._first_failure = self._first_failure or (file.source.name, failure)
        if time.monotonic() - self._saved > SAVE_EVERY_S:
            self._record.update(Files=self._counts)
            self._saved = time.monotonic()

    def _check(self) -> None:
        if self._stop.is_set():
            raise _Stopped

    def _end(self) -> None:
        self._record.content["Files"] = self._counts
        if self._first_failure is None:
            self._record.finish("Completed")
            return
        name, failure = self._first_failure
        failed, total = self._counts["Failed"], self._counts["Total"]
        which = "" if total == 1 else f"{failed} of {total} files failed; the first: "
        reason = one_line(JobFailed(f"{failure.kind}: {which}{name}: {failure.line.removeprefix(failure.kind + ': ')}"))
        self._record.finish("Failed", reason=reason)
        raise JobFailed(reason)

    @contextmanager
    def _while_watched(self) -> Iterator[None]:
        """End the containers when somebody asks for it."""
        over = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(over,), name="headrace transform watcher", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()

    def _watch(self, over: threading.Event) -> None:
        while not over.wait(POLL_S):
            if self._asked.is_set() or self._record.files_of_job.stop.exists():
                self._record.update(TransformJobStatus="Stopping")
                self._stop.set()
                for process in list(self._processes):
                    process.interrupt()
                return
