"""One run of a training job: its hosts from inputs to artifacts, in threads of this process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from headrace.contracts.job import Container, Store, TrainingJob
from headrace.errors import JobFailed
from headrace.jobs.record import HostLog, JobRecord, failure_reason, watching
from headrace.jobs.spec import TrainingSpec
from headrace.jobs.store import check_folder
from headrace.jobs.tree import (
    LinkedFiles,
    archive_entries,
    check_names,
    files_below,
    full_disk_reason,
    lay_out,
    log_left_out,
    pack,
    provide,
)

__all__ = ["TrainingRun", "arn_of", "job_of_host"]

POLL_S = 0.1
STOPS = ("Stopped", "MaxRuntimeExceeded")


def job_of_host(
    spec: TrainingSpec,
    host: str,
    base_dir: Path,
    *,
    log: Callable[[str], None],
    stop: threading.Event,
    stop_grace_s: float,
) -> TrainingJob:
    """One host's part of a job, as its container sees it.

    Args:
        spec: The job.
        host: The name of the host.
        base_dir: The root of its tree.
        log: Takes the lines of its output.
        stop: Set when it must end early.
        stop_grace_s: How long it may take for that.
    """
    return TrainingJob(
        name=spec.name,
        base_dir=base_dir,
        hyperparameters=spec.hyperparameters,
        channels=spec.channels,
        environment=spec.environment,
        hosts=spec.hosts,
        current_host=host,
        instance_type=spec.instance_type,
        job_arn=arn_of(spec.name),
        log=log,
        stop=stop,
        stop_grace_s=stop_grace_s,
    )


def arn_of(name: str) -> str:
    """The made-up ARN of a job."""
    return f"arn:aws:sagemaker:local:000000000000:training-job/{name.lower()}"


class TrainingRun:
    """One run of a job.

    Args:
        spec: The job.
        container: Trains.
        store: Holds inputs and artifacts.
        record: The status of the job.
        on_line: Called with each line of the logs.
        stop: Set to stop the job.
        stop_grace_s: How long a container may take to stop.
    """

    def __init__(
        self,
        spec: TrainingSpec,
        container: Container,
        store: Store,
        record: JobRecord,
        on_line: Callable[[str], None],
        stop: threading.Event,
        stop_grace_s: float,
    ) -> None:
        self._spec = spec
        self._container = container
        self._store = store
        self._record = record
        self._on_line = on_line
        self._stop_request = stop
        self._stop = threading.Event()  # passed to the containers
        self._stop_grace_s = stop_grace_s
        self._cause: str | None = None  # of the stop: "Stopped", "MaxRuntimeExceeded" or, after a fault, "Failed"
        self._faults: list[Exception] = []
        self._linked: dict[str, LinkedFiles] = {}  # of each host

    def run(self) -> JobRecord:
        """Run the job. Returns its record, finished.

        Raises:
            JobFailed: It failed.
        """
        try:
            with ExitStack() as stack:
                jobs = [self._job(host, stack) for host in self._spec.hosts]
                self._prepare(jobs, stack)
                self._record.enter("Training", "Training has begun")
                self._train(jobs)
            self._collect(jobs)
        except Exception as error:
            reason = full_disk_reason(error, self._record.files.folder.parent) or failure_reason(error)
            self._save_output()
            # If the disk is full, the record stays in progress, and readers find that no process runs the job.
            with suppress(OSError):
                self._record.finish("Failed", reason=reason)
            if isinstance(error, JobFailed) and str(error) == reason:
                raise
            raise JobFailed(reason) from error
        except BaseException:
            with suppress(OSError):
                self._record.finish("Stopped", reason="The process that ran the job was interrupted")
            raise
        return self._record

    def _job(self, host: str, stack: ExitStack) -> TrainingJob:
        log = HostLog(self._record.files.log(host), host, self._on_line)
        stack.callback(log.close)
        base_dir = self._record.files.base_dir(host).absolute()
        return job_of_host(self._spec, host, base_dir, log=log.write, stop=self._stop, stop_grace_s=self._stop_grace_s)

    def _prepare(self, jobs: list[TrainingJob], stack: ExitStack) -> None:
        try:
            # Invalid folders should fail before training.
            check_folder(
                "output_path", self._spec.output_path, self._store.resolve(self._artifact("model.tar.gz")).parent
            )
            if self._spec.checkpoint_uri is not None:
                given = self._spec.checkpoint_uri
                check_folder("checkpoint_uri", given, self._store.resolve(given))
            self._record.enter("Downloading", "Downloading input data")
            self._prepare_hosts(jobs, stack)
        except JobFailed:
            raise
        except ValueError as error:  # not a URI of the store
            raise JobFailed(f"ClientError: {error}") from error

    def _prepare_hosts(self, jobs: list[TrainingJob], stack: ExitStack) -> None:
        for job in jobs:
            lay_out(job, self._spec, self._store)
            self._linked[job.current_host] = provide(job, self._store, stack, self._fail)

    def _fail(self, error: Exception) -> None:
        """Note a failure outside the container of this host, and stop all hosts."""
        self._faults.append(error)
        self._signal_stop("Failed")

    def _signal_stop(self, cause: str) -> None:
        self._cause = self._cause or cause
        self._stop.set()

    def _train(self, jobs: list[TrainingJob]) -> None:
        with ThreadPoolExecutor(len(jobs), "headrace train") as hosts:
            futures = [hosts.submit(self._train_host, job) for job in jobs]
            with self._while_watched():
                _wait_for_all(futures)
        for future in futures:
            if (error := future.exception()) is not None and error not in self._faults:
                raise error
        if self._faults:
            raise self._faults[0]

    def _train_host(self, job: TrainingJob) -> None:
        try:
            self._work(job)
        except Exception as error:
            if self._cause in STOPS:
                job.log(f"stopped: {error}")
                return
            self._fail(error)  # the other hosts may wait for this one
            raise

    def _work(self, job: TrainingJob) -> None:
        with self._linked[job.current_host].checked(job.log):
            self._container.train(job)

    @contextmanager
    def _while_watched(self) -> Iterator[None]:
        """Stop the containers on request or after the maximum runtime, in a thread."""
        with watching(self._watch, name="headrace job watcher"):
            try:
                yield
            except KeyboardInterrupt:
                self._signal_stop("Stopped")
                raise

    def _watch(self, over: threading.Event) -> None:
        deadline = time.monotonic() + self._spec.max_runtime_s
        while not over.wait(POLL_S):
            if self._stop.is_set():
                continue
            if self._stop_request.is_set() or self._record.files.stop.exists():
                self._enter_stopping("Stopping the training job")
                self._signal_stop("Stopped")
            elif time.monotonic() > deadline:
                self._enter_stopping("The training job exceeded its maximum runtime")
                self._signal_stop("MaxRuntimeExceeded")

    def _enter_stopping(self, message: str) -> None:
        with suppress(OSError):  # a full disk must not keep the job from stopping
            self._record.enter("Stopping", message, status="Stopping")

    def _artifact(self, name: str) -> str:
        return f"{self._spec.output_path.rstrip('/')}/{self._spec.name}/output/{name}"

    def _pack_output(self) -> None:
        extra = files_below([self._record.files.base_dir(host) / "output" / "data" for host in self._spec.hosts])
        if extra:
            pack(extra, self._store.resolve(self._artifact("output.tar.gz")))

    def _save_output(self) -> None:
        """Keep the output of a failed job, which may show the reason."""
        try:
            self._pack_output()
        except (OSError, ValueError) as error:
            self._on_line(f"the output of the failed job could not be kept: {error}")

    def _collect(self, jobs: list[TrainingJob]) -> None:
        self._record.enter("Uploading", "Packing the model", status="Stopping" if self._cause else "InProgress")
        self._pack_output()
        model = self._artifact("model.tar.gz")
        folders = [job.model_dir for job in jobs]
        for folder in folders:
            if folder.exists() and not folder.is_dir():
                raise JobFailed(f"AlgorithmError: the model is a folder, but the script has left a file at {folder}")
        for folder in folders:
            log_left_out(folder, self._on_line)
        files = archive_entries(folders)
        check_names(files)
        pack(files, self._store.resolve(model))
        if self._cause is None:
            self._record.finish("Completed", model=model)
        else:
            self._record.finish("Stopped", secondary=self._cause, model=model)


def _wait_for_all(futures: list[Future[None]]) -> None:
    for future in futures:
        future.exception()
