"""Training and transform jobs: run in a thread of this process, found by name from any other."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.containers.code import find_code, stage
from headrace.contracts.job import Container
from headrace.errors import JobFailed
from headrace.hosting.stage import Stage
from headrace.jobs.record import JobFiles
from headrace.jobs.record import show as print_log
from headrace.jobs.spec import TrainingSpec
from headrace.jobs.training import read_job, train
from headrace.jobs.transform.running import read_transform, transform
from headrace.jobs.transform.spec import TransformSpec
from headrace.jobs.tree import files_below, full_disk_as_failure, pack, parse_values
from headrace.sagemaker.session import Session, base_from_name

__all__ = ["MODEL_TYPE", "TrainingJob", "TransformJob", "UploadedCode", "upload_code"]

POLL_S = 0.2
CLAIM_POLL_S = 0.002
MODEL_TYPE = "application/x-sagemaker-model"
MODEL_CHANNEL = "model"
OF_THE_SDK = "sagemaker_"
"""Begins the names of hyperparameters that are not the user's."""
PROGRAM, SUBMIT_DIRECTORY = "sagemaker_program", "sagemaker_submit_directory"
LOG_LEVEL = "sagemaker_container_log_level"


class _Job(ABC):
    """A job by its name."""

    def __init__(self, session: Session, name: str) -> None:
        self.name = name
        self._session = session
        # Not the thread: after a Ctrl-C in join(), the next join() returns at once.
        self._ended: threading.Event | None = None
        self._error: BaseException | None = None

    @property
    def job_name(self) -> str:
        """Its name."""
        return self.name

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Describe the job in the words of SageMaker's API."""

    @abstractmethod
    def stop(self) -> None:
        """Ask the job to stop."""

    @abstractmethod
    def _outcome(self) -> tuple[bool, str | None]:
        """Whether the job has ended, and why it failed."""

    def wait(self, logs: str | bool = True) -> None:
        """Wait until the job has ended, in whichever process it runs.

        Raises:
            JobFailed: The job failed; the message is the reason.
        """
        del logs
        failure = self.wait_until_ended()
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        if failure is not None:
            raise JobFailed(failure)

    def wait_until_ended(self) -> str | None:
        """Wait until the job has ended, and return why it failed."""
        if self._ended is not None:
            try:
                self._ended.wait()
            except KeyboardInterrupt:
                self.stop()
                self._ended.wait()
                raise
            self._ended = None
        while True:
            is_done, failure = self._outcome()
            if is_done:
                return failure
            time.sleep(POLL_S)

    @staticmethod
    @abstractmethod
    def _folder(session: Session) -> Path:
        """The folder of the jobs."""

    @classmethod
    def check_name(cls, session: Session, name: str) -> None:
        """Refuse the name of a job that exists, before anything of it is replaced.

        Raises:
            ValueError: There is such a job.
        """
        folder = cls._folder(session) / name
        if folder.exists():
            raise ValueError(
                f"the job {name!r} already exists: job names are unique; choose another job_name, leave it out to get a new one, "
                f"or remove {folder}"
            )

    def _start(self, work: Callable[[], object]) -> None:
        """Run the job in a thread, and wait until it has taken its name.

        Raises:
            Exception: It could not.
        """
        self.check_name(self._session, self.name)
        record = JobFiles(self._folder(self._session) / self.name).status
        ended = self._ended = threading.Event()

        def run() -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - wait() raises it
                self._error = error
            finally:
                ended.set()

        threading.Thread(target=run, name=f"headrace job {self.name}").start()
        while not record.exists() and not ended.wait(CLAIM_POLL_S):
            pass
        if self._error is not None and not record.exists():
            raise self._error


@dataclass(frozen=True, slots=True)
class UploadedCode:
    """Code in the store.

    Args:
        uri: URI of ``sourcedir.tar.gz``.
        program: The script in it.
    """

    uri: str
    program: str


def upload_code(
    session: Session,
    name: str,
    entry_point: str | os.PathLike[str],
    source_dir: str | os.PathLike[str] | None = None,
    dependencies: Sequence[str | os.PathLike[str]] = (),
    location: str | None = None,
) -> UploadedCode:
    """Upload a script, or its folder, as ``<name>/source/sourcedir.tar.gz`` below ``location`` or in the default bucket.

    Raises:
        JobFailed: There is no such script, or the disk is full.
    """
    if source_dir is not None and str(source_dir).startswith(("s3://", "file://")):
        if not dependencies:
            return UploadedCode(str(source_dir), os.fspath(entry_point))
        source_dir = session.resolve(str(source_dir))
    with full_disk_as_failure(session.root), tempfile.TemporaryDirectory(prefix="headrace-code-") as folder:
        staged = stage(find_code(entry_point, source_dir), dependencies, Path(folder) / "code")
        archive = Path(folder) / "sourcedir.tar.gz"
        pack(files_below([staged.folder]), archive)
        uri = f"{(location or f's3://{session.default_bucket()}').rstrip('/')}/{name}/source/sourcedir.tar.gz"
        session.store.put(archive, uri)
    return UploadedCode(uri, staged.program)


class TrainingJob(_Job):
    """A training job, as an estimator's ``latest_training_job``."""

    @staticmethod
    def _folder(session: Session) -> Path:
        return session.training_dir

    @classmethod
    def begin(
        cls, session: Session, spec: TrainingSpec, container: Container, *, show: bool, **place: Any
    ) -> TrainingJob:
        """Start a job in a thread.

        Args:
            session: The session.
            spec: The job.
            container: Trains.
            show: Whether to print the log.
            place: Where it runs: ``on`` and so on, as for :func:`headrace.jobs.training.train`.
        """
        job = cls(session, spec.name)
        folder, on_line = cls._folder(session), print_log if show else _ignore_line
        job._start(lambda: train(spec, container, session, work_dir=folder, on_line=on_line, **place))
        return job

    @classmethod
    def find(cls, session: Session, name: str) -> TrainingJob:
        """Find a job by its name.

        Raises:
            ValueError: There is no such job.
        """
        read_job(session.training_dir, name)
        return cls(session, name)

    def describe(self) -> dict[str, Any]:
        return self._session.describe_training_job(self.name)

    def stop(self) -> None:
        self._session.stop_training_job(self.name)

    def _outcome(self) -> tuple[bool, str | None]:
        record = read_job(self._session.training_dir, self.name)
        return record.is_done, (record.failure_reason or "it failed") if record.status == "Failed" else None

    def code(self) -> UploadedCode | None:
        """The script that ran; ``None`` for an algorithm."""
        given = self.describe().get("HyperParameters", {})
        if PROGRAM not in given:
            return None
        values = parse_values(given)
        return UploadedCode(str(values.get(SUBMIT_DIRECTORY, "")), str(values[PROGRAM]))

    def settings(self, model_channel_name: str = MODEL_CHANNEL) -> dict[str, Any]:
        """The arguments of an estimator that trains as this job did, except for its script.

        Args:
            model_channel_name: The channel of a model that the job continued from, if any.
        """
        record = self.describe()
        given = record.get("HyperParameters", {})
        values = parse_values(given) if PROGRAM in given else dict(given)
        found = {
            "hyperparameters": {name: value for name, value in values.items() if not name.startswith(OF_THE_SDK)},
            "instance_count": record["ResourceConfig"]["InstanceCount"],
            "instance_type": record["ResourceConfig"]["InstanceType"],
            "max_run": record["StoppingCondition"]["MaxRuntimeInSeconds"],
            "output_path": record["OutputDataConfig"]["S3OutputPath"],
            "input_mode": record.get("AlgorithmSpecification", {}).get("TrainingInputMode", "File"),
            "image_uri": record.get("AlgorithmSpecification", {}).get("TrainingImage"),
            "checkpoint_s3_uri": record.get("CheckpointConfig", {}).get("S3Uri"),
            "environment": record.get("Environment"),
            "base_job_name": base_from_name(self.name),
        }
        if LOG_LEVEL in values:
            found["container_log_level"] = values[LOG_LEVEL]
        for channel in record.get("InputDataConfig", ()):
            if channel["ChannelName"] == model_channel_name and channel.get("ContentType") == MODEL_TYPE:
                found["model_uri"] = channel["DataSource"]["S3DataSource"]["S3Uri"]
                found["model_channel_name"] = model_channel_name
        return found

    def model_data(self) -> str:
        """Wait for the job, and return the URI of its ``model.tar.gz``.

        Raises:
            JobFailed: The job left no model.
        """
        self.wait()
        uri = read_job(self._session.training_dir, self.name).model_uri
        if uri is None:
            raise JobFailed(f"the training job {self.name} left no model")
        return uri

    def __repr__(self) -> str:
        return f"<training job {self.name}>"


class TransformJob(_Job):
    """A transform job, as a transformer's ``latest_transform_job``."""

    @staticmethod
    def _folder(session: Session) -> Path:
        return session.transform_dir

    @classmethod
    def begin(
        cls, session: Session, spec: TransformSpec, stages: Sequence[Stage], *, show: bool, **place: Any
    ) -> TransformJob:
        """Start a job in a thread.

        Args:
            session: The session.
            spec: The job.
            stages: The containers.
            show: Whether to print the log.
            place: Where it runs: ``on`` and so on, as for :func:`headrace.jobs.transform.running.transform`.
        """
        job = cls(session, spec.name)
        folder, on_line = cls._folder(session), print_log if show else _ignore_line
        job._start(lambda: transform(spec, stages, session, work_dir=folder, on_line=on_line, progress=show, **place))
        return job

    def describe(self) -> dict[str, Any]:
        return self._session.describe_transform_job(self.name)

    def stop(self) -> None:
        self._session.stop_transform_job(self.name)

    def _outcome(self) -> tuple[bool, str | None]:
        record = read_transform(self._session.transform_dir, self.name)
        return record.is_done, (record.failure_reason or "it failed") if record.status == "Failed" else None

    def __repr__(self) -> str:
        return f"<transform job {self.name}>"


def _ignore_line(line: str) -> None:
    """The job's log has the lines."""
