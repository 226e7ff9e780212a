"""Training and transform jobs: run in a thread of this process, found by name from any other."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from headrace.contracts.job import Container
from headrace.errors import JobFailed
from headrace.hosting.stage import Stage
from headrace.jobs.record import show as print_log
from headrace.jobs.spec import TrainingSpec
from headrace.jobs.training import read_job, train
from headrace.jobs.transform.running import read_transform, transform
from headrace.jobs.transform.spec import TransformSpec
from headrace.sagemaker.session import Session

__all__ = ["TrainingJob", "TransformJob"]

POLL_S = 0.2


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

    def _start(self, work: Callable[[], object]) -> None:
        ended = self._ended = threading.Event()

        def run() -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - wait() raises it
                self._error = error
            finally:
                ended.set()

        threading.Thread(target=run, name=f"headrace job {self.name}").start()


class TrainingJob(_Job):
    """A training job, as an estimator's ``latest_training_job``."""

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
        folder, on_line = session.training_dir, print_log if show else _ignore_line
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
        folder, on_line = session.transform_dir, print_log if show else _ignore_line
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
