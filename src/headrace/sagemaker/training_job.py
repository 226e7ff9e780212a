"""A training job that runs, or has run."""

from __future__ import annotations

import threading
from typing import Any

from headrace.contracts.job import Container
from headrace.errors import JobFailed
from headrace.jobs.record import show as show_line
from headrace.jobs.spec import TrainingSpec
from headrace.jobs.training import read_job, train
from headrace.sagemaker.session import Session

__all__ = ["RunningJob", "begin_job", "find_job"]

POLL_S = 0.2


class RunningJob:
    """A job by its name. Got from an estimator's ``latest_training_job``.

    Args:
        session: Where it is.
        name: Its name.
    """

    def __init__(self, session: Session, name: str) -> None:
        self.name = name
        self._session = session
        self._ended: threading.Event | None = None  # not the thread: join() of one that was interrupted waits no more
        self._error: BaseException | None = None

    @property
    def job_name(self) -> str:
        """Its name."""
        return self.name

    def describe(self) -> dict[str, Any]:
        """What is known of it, in the words of SageMaker's API."""
        return self._session.describe_training_job(self.name)

    def wait(self, logs: str | bool = True) -> None:
        """Wait until it is over, whichever process runs it.

        Raises:
            JobFailed: It failed; the message is the reason.
        """
        del logs
        ended = self._ended
        if ended is not None:
            try:
                ended.wait()
            except KeyboardInterrupt:
                self.stop()
                ended.wait()
                raise
            self._ended = None
            if self._error is not None:
                raise self._error
        self._session.wait_for_job(self.name, POLL_S)
        record = read_job(self._session.training_dir, self.name)
        if record.status == "Failed":
            raise JobFailed(record.failure_reason or "it failed")

    def stop(self) -> None:
        """Ask it to stop."""
        self._session.stop_training_job(self.name)

    def model_data(self) -> str:
        """URI of its ``model.tar.gz``; waits until it is over.

        Raises:
            JobFailed: It left no model.
        """
        self.wait()
        uri = read_job(self._session.training_dir, self.name).model_uri
        if uri is None:
            raise JobFailed(f"the training job {self.name} left no model")
        return uri

    def run(self, spec: TrainingSpec, container: Container, *, show: bool) -> None:
        """Run it in a thread of its own."""
        ended = self._ended = threading.Event()

        def work() -> None:
            try:
                train(
                    spec,
                    container,
                    self._session,
                    work_dir=self._session.training_dir,
                    on_line=show_line if show else _ignore_line,
                )
            except BaseException as error:  # noqa: BLE001 - raised where somebody waits
                self._error = error
            finally:
                ended.set()

        threading.Thread(target=work, name=f"headrace job {spec.name}").start()

    def __repr__(self) -> str:
        return f"<training job {self.name}>"


def _ignore_line(line: str) -> None:
    """The lines are in the job's log anyway."""


def begin_job(session: Session, spec: TrainingSpec, container: Container, *, show: bool) -> RunningJob:
    """Begin a job, and go on while it runs."""
    job = RunningJob(session, spec.name)
    job.run(spec, container, show=show)
    return job


def find_job(session: Session, name: str) -> RunningJob:
    """A job that was run before, maybe by another process.

    Raises:
        ValueError: There is none of this name.
    """
    read_job(session.training_dir, name)
    return RunningJob(session, name)
