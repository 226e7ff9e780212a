"""The log of a transform job, in the form that SageMaker's has, and what its containers print."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self

from headrace.errors import JobFailed
from headrace.jobs.logs import HostLog
from headrace.jobs.record import JobFiles
from headrace.jobs.transform.asking import Failure
from headrace.jobs.transform.record import now

__all__ = ["TransformLog", "one_line"]

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
        lines = [failure.title, "", "Message:", *failure.reason.splitlines()]
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
