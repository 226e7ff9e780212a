"""Runs training jobs, and reads and stops them from other processes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from headrace.contracts.job import Channel, Container, Store, TrainingJob
from headrace.errors import JobFailed
from headrace.io.system import discard_folder, lock
from headrace.jobs.record import ABANDONED, HostLog, JobFiles, JobRecord, read_named, show
from headrace.jobs.spec import TrainingSpec
from headrace.jobs.tree import files_below, full_disk_as_failure, full_disk_reason, lay_out, pack, provide

__all__ = ["read_job", "request_stop", "train"]

POLL_S = 0.1
REASON_LIMIT = 1024
CUSTOMER = "Customer error: "
STOPS = ("Stopped", "MaxRuntimeExceeded")


def train(
    spec: TrainingSpec,
    container: Container,
    store: Store,
    *,
    work_dir: Path,
    on_line: Callable[[str], None] = show,
    stop: threading.Event | None = None,
    stop_grace_s: float = 120.0,
    keep_tree: bool = False,
) -> JobRecord:
    """Train, and wait for the end.

    Args:
        spec: The job.
        container: Trains.
        store: Holds inputs and artifacts.
        work_dir: The folder of the jobs: ``<work_dir>/<name>/status.json``, ``logs/``, and the tree while it runs.
        on_line: Called with each line of the logs, which begins with the host's name.
        stop: Set it to stop the job. :func:`request_stop` stops a job of another process.
        stop_grace_s: How long a container may take to stop.
        keep_tree: Whether to keep the tree of folders. By default only that of a failed job stays, without its input.

    Returns:
        The record of the job, whose status is ``Completed``, or ``Stopped`` if it was stopped or ran too long. A
        stopped job keeps its model.

    Raises:
        ValueError: A job of this name exists.
        JobFailed: It failed. The message is the reason, in one line. The record has it, too.
    """
    with full_disk_as_failure(Path(work_dir)):
        return _train(
            spec,
            container,
            store,
            Path(work_dir),
            on_line=on_line,
            stop=stop or threading.Event(),
            stop_grace_s=stop_grace_s,
            keep_tree=keep_tree,
        )


def _train(
    spec: TrainingSpec,
    container: Container,
    store: Store,
    work_dir: Path,
    *,
    on_line: Callable[[str], None],
    stop: threading.Event,
    stop_grace_s: float,
    keep_tree: bool,
) -> JobRecord:
    files = JobFiles(work_dir / spec.name)
    try:
        files.folder.mkdir(parents=True)
    except FileExistsError:
        raise ValueError(
            f"the training job {spec.name!r} already exists: job names are unique; choose another name, or remove {files.folder}"
        ) from None
    with files.lock.open("w") as held:
        lock(held.fileno())
        record = JobRecord.create(files, spec.name, _describe(spec))
        run = _Run(spec, container, store, record, on_line, stop, stop_grace_s)
        try:
            return run.run()
        finally:
            if not keep_tree:
                _clean(files, spec, whole=record.status != "Failed")


def read_job(work_dir: Path, name: str) -> JobRecord:
    """The record of a job, which may run in another process.

    Raises:
        ValueError: The job does not exist.
    """
    record = read_named(JobRecord.read, work_dir, name, "training")
    if record.failure_reason == ABANDONED:  # the job could not delete its copies of inputs, which may be large
        for inputs in (record.files.folder / "hosts").glob("*/input/data"):
            discard_folder(inputs)
    return record


def request_stop(work_dir: Path, name: str) -> None:
    """Request a job to stop; it may run in another process. Does nothing if it has ended.

    Raises:
        ValueError: The job does not exist.
    """
    record = read_job(work_dir, name)
    if not record.is_done:
        record.files.stop.touch()


def _describe(spec: TrainingSpec) -> dict[str, object]:
    return {
        "HyperParameters": dict(spec.hyperparameters),
        "InputDataConfig": [_describe_channel(name, channel) for name, channel in spec.channels.items()],
        "OutputDataConfig": {"S3OutputPath": spec.output_path},
        "ResourceConfig": {"InstanceCount": spec.num_hosts, "InstanceType": spec.instance_type},
        "StoppingCondition": {"MaxRuntimeInSeconds": spec.max_runtime_s},
        "Environment": dict(spec.environment),
    }


def _describe_channel(name: str, channel: Channel) -> dict[str, object]:
    source: dict[str, object] = {
        "S3DataType": channel.data_type,
        "S3Uri": channel.uri,
        "S3DataDistributionType": channel.distribution,
    }
    if channel.attribute_names:
        source["AttributeNames"] = list(channel.attribute_names)
    return {
        "ChannelName": name,
        "DataSource": {"S3DataSource": source},
        **({} if channel.content_type is None else {"ContentType": channel.content_type}),
        "CompressionType": channel.compression,
        "RecordWrapperType": channel.record_wrapper,
        "InputMode": channel.input_mode,
        **({} if channel.shuffle_seed is None else {"ShuffleConfig": {"Seed": channel.shuffle_seed}}),
    }


def _clean(files: JobFiles, spec: TrainingSpec, *, whole: bool) -> None:
    for host in spec.hosts:
        base = files.base_dir(host)
        discard_folder(base if whole else base / "input" / "data")


class _Run:
    """One run of a job."""

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

    def run(self) -> JobRecord:
        try:
            with ExitStack() as stack:
                jobs = [self._job(host, stack) for host in self._spec.hosts]
                self._prepare(jobs, stack)
                self._record.enter("Training", "Training has begun")
                self._train(jobs)
            self._collect(jobs)
        except Exception as error:
            reason = full_disk_reason(error, self._record.files.folder.parent) or _one_line(error)
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
        return TrainingJob(
            name=self._spec.name,
            base_dir=self._record.files.base_dir(host).absolute(),
            hyperparameters=self._spec.hyperparameters,
            channels=self._spec.channels,
            environment=self._spec.environment,
            hosts=self._spec.hosts,
            current_host=host,
            instance_type=self._spec.instance_type,
            job_arn=f"arn:aws:sagemaker:local:000000000000:training-job/{self._spec.name.lower()}",
            log=log.write,
            stop=self._stop,
            stop_grace_s=self._stop_grace_s,
        )

    def _prepare(self, jobs: list[TrainingJob], stack: ExitStack) -> None:
        try:
            self._store.resolve(self._artifact("model.tar.gz"))  # an invalid output_path should fail before training
            self._record.enter("Downloading", "Downloading input data")
            for job in jobs:
                lay_out(job, self._spec, self._store)
                provide(job, self._store, stack, self._fail)
        except JobFailed:
            raise
        except ValueError as error:  # not a URI of the store
            raise JobFailed(f"ClientError: {error}") from error

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
            self._container.train(job)
        except Exception as error:
            if self._cause in STOPS:
                job.log(f"stopped: {error}")
                return
            self._fail(error)  # the other hosts may wait for this one
            raise

    @contextmanager
    def _while_watched(self) -> Iterator[None]:
        """Stop the containers on request or after the maximum runtime, in a thread."""
        over = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(over,), name="headrace job watcher", daemon=True)
        watcher.start()
        try:
            yield
        except KeyboardInterrupt:
            self._signal_stop("Stopped")
            raise
        finally:
            over.set()
            watcher.join()

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
        pack(files_below([job.model_dir for job in jobs]), self._store.resolve(model))
        if self._cause is None:
            self._record.finish("Completed", model=model)
        else:
            self._record.finish("Stopped", secondary=self._cause, model=model)


def _wait_for_all(futures: list[Future[None]]) -> None:
    for future in futures:
        future.exception()


def _one_line(error: Exception) -> str:
    text = str(error) if isinstance(error, JobFailed) else f"InternalServerError: {type(error).__name__}: {error}"
    joined = " ".join(text.split())
    if joined.startswith(CUSTOMER):  # built-in algorithms write the one, SageMaker reports the other
        joined = f"ClientError: {joined.removeprefix(CUSTOMER)}"
    if isinstance(error, JobFailed) and not joined.startswith(
        ("ClientError:", "AlgorithmError:", "InternalServerError:")
    ):
        joined = f"AlgorithmError: {joined}"
    return joined if len(joined) <= REASON_LIMIT else joined[: REASON_LIMIT - 3] + "..."
