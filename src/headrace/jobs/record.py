"""The status of a job on disk, which other processes can read, and the logs of its hosts."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, TypeVar

from headrace import _hooks
from headrace.contracts.job import shorten_reason
from headrace.errors import JobFailed
from headrace.io.system import lock, unlock
from headrace.io.write.atomic import write_atomic

__all__ = [
    "ABANDONED",
    "IN_PROGRESS",
    "HostLog",
    "JobFiles",
    "JobRecord",
    "failure_reason",
    "read_named",
    "show",
    "timestamp",
    "watching",
]


Record = TypeVar("Record")

IN_PROGRESS = ("InProgress", "Stopping")
KINDS = ("ClientError:", "AlgorithmError:", "InternalServerError:")
CUSTOMER = "Customer error: "
ABANDONED = "InternalServerError: the process that ran this job ended without finishing it (it was killed, or the machine went down)"


@dataclass(frozen=True, slots=True)
class JobFiles:
    """The paths of the files of a job.

    Args:
        folder: The folder of the job.
    """

    folder: Path

    @property
    def status(self) -> Path:
        """The record of its status."""
        return self.folder / "status.json"

    @property
    def stop(self) -> Path:
        """Exists once the job was asked to stop."""
        return self.folder / "stop"

    @property
    def lock(self) -> Path:
        """Locked while the process of the job runs."""
        return self.folder / "lock"

    def is_abandoned(self) -> bool:
        """Whether no process runs the job."""
        try:
            fd = os.open(self.lock, os.O_RDWR)
        except FileNotFoundError:
            return True
        try:
            free = lock(fd)
            if free:
                unlock(fd)
            return free
        finally:
            os.close(fd)

    def log(self, host: str) -> Path:
        """The log of a host."""
        return self.folder / "logs" / f"{host}.log"

    def base_dir(self, host: str) -> Path:
        """The root of a host's tree."""
        return self.folder / "hosts" / host


class JobRecord:
    """The status of a job, in the terms of ``DescribeTrainingJob``.

    Args:
        files: The files of the job.
        content: The status.
    """

    def __init__(self, files: JobFiles, content: dict[str, Any]) -> None:
        self.files = files
        self.content = content

    def _repr_html_(self) -> str | None:
        return _hooks.to_html(self)

    @classmethod
    def create(cls, files: JobFiles, name: str, description: Mapping[str, Any]) -> Self:
        """The record of a new job."""
        content = {
            "TrainingJobName": name,
            "TrainingJobStatus": "InProgress",
            "SecondaryStatus": "Starting",
            "SecondaryStatusTransitions": [],
            "CreationTime": timestamp(),
            "Pid": os.getpid(),
            **description,
        }
        record = cls(files, content)
        record.enter("Starting", "Preparing the training job")
        return record

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The record of a job. The status of a job whose process has died is ``Failed``.

        Raises:
            FileNotFoundError: The job does not exist.
        """
        record = cls(JobFiles(folder), json.loads((folder / "status.json").read_text(encoding="utf-8")))
        if record.status in IN_PROGRESS and record.files.is_abandoned():
            # It may have finished after the record was read.
            record.content = json.loads((folder / "status.json").read_text(encoding="utf-8"))
            if record.status in IN_PROGRESS:
                record.finish("Failed", reason=ABANDONED)
        return record

    @property
    def name(self) -> str:
        """The job's name."""
        return str(self.content["TrainingJobName"])

    @property
    def status(self) -> str:
        """``InProgress``, ``Completed``, ``Failed``, ``Stopping`` or ``Stopped``."""
        return str(self.content["TrainingJobStatus"])

    @property
    def secondary_status(self) -> str:
        """Its current stage, or how it ended."""
        return str(self.content["SecondaryStatus"])

    @property
    def failure_reason(self) -> str | None:
        """Why it failed, in one line of up to 1024 characters."""
        return self.content.get("FailureReason")

    @property
    def model_uri(self) -> str | None:
        """The URI of ``model.tar.gz``."""
        found = self.content.get("ModelArtifacts", {}).get("S3ModelArtifacts")
        return None if found is None else str(found)

    @property
    def is_done(self) -> bool:
        """Whether it has ended."""
        return self.status not in IN_PROGRESS

    def enter(self, secondary: str, message: str, *, status: str = "InProgress") -> None:
        """Enter the next stage."""
        now = timestamp()
        transitions = self.content["SecondaryStatusTransitions"]
        if transitions:
            transitions[-1].setdefault("EndTime", now)
        transitions.append({"Status": secondary, "StartTime": now, "StatusMessage": message})
        self.content.update(TrainingJobStatus=status, SecondaryStatus=secondary, LastModifiedTime=now)
        if secondary == "Training":
            self.content["TrainingStartTime"] = now
        self.save()

    def finish(
        self, status: str, *, secondary: str | None = None, reason: str | None = None, model: str | None = None
    ) -> None:
        """Write the final status."""
        if reason is not None:
            self.content["FailureReason"] = reason
        if model is not None:
            self.content["ModelArtifacts"] = {"S3ModelArtifacts": model}
        self.content["TrainingEndTime"] = timestamp()
        self.enter(secondary or status, reason or f"Training job {status.lower()}", status=status)

    def save(self) -> None:
        """Write the status."""
        write_atomic(self.files.status, (json.dumps(self.content, indent=1) + "\n").encode(), durable=False)


def read_named(read: Callable[[Path], Record], work_dir: Path, name: str, kind: str) -> Record:
    """The record of a job, read by ``read`` from its folder.

    Raises:
        ValueError: The job does not exist, or its record is damaged.
    """
    try:
        return read(Path(work_dir) / name)
    except FileNotFoundError:
        raise ValueError(f"there is no {kind} job {name!r} in {work_dir}") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(
            f"the record of the {kind} job {name!r} is damaged: {Path(work_dir) / name / 'status.json'} is not JSON ({error}). "
            "Remove the folder of the job to use its name again"
        ) from error


def timestamp() -> str:
    """The time as records of training jobs have it, with ``+00:00``."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def failure_reason(error: Exception) -> str:
    """Why a job failed, in the form of the API."""
    text = str(error) if isinstance(error, JobFailed) else f"InternalServerError: {type(error).__name__}: {error}"
    joined = " ".join(text.split())
    if joined.startswith(CUSTOMER):  # built-in algorithms write the one, SageMaker reports the other
        joined = f"ClientError: {joined.removeprefix(CUSTOMER)}"
    if not joined.startswith(KINDS):
        joined = f"AlgorithmError: {joined}"
    return shorten_reason(joined)


@contextmanager
def watching(watch: Callable[[threading.Event], None], *, name: str) -> Iterator[None]:
    """Run ``watch(over)`` in a thread of this name, until ``over`` is set at the end of the context."""
    over = threading.Event()
    watcher = threading.Thread(target=watch, args=(over,), name=name, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def show(line: str) -> None:
    """Write a line to the standard output at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class HostLog:
    """The log of one host. Lines that the disk does not take are shown all the same: a job does not fail for its log.

    Args:
        path: The file of the lines.
        host: The prefix of lines that are shown.
        show: Shows a line.
    """

    def __init__(self, path: Path, host: str, show: Callable[[str], None]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a", encoding="utf-8", errors="replace", buffering=1)
        self._host = host
        self._show = show
        self._lock = threading.Lock()  # a container may log from several threads

    def write(self, line: str) -> None:
        """Write and show a line, given without its end."""
        with self._lock:
            with suppress(OSError):
                self._file.write(line + "\n")
            self._show(f"{self._host} | {line}")

    def close(self) -> None:
        """Close the file."""
        with suppress(OSError):
            self._file.close()
