"""The status of a transform job on disk, for other processes, and for resuming a job that was killed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any, Self

from headrace.contracts.job import Store
from headrace.io.local.signatures import Signature, wait_for_tick
from headrace.io.write.atomic import write_atomic
from headrace.jobs.record import ABANDONED, IN_PROGRESS, JobFiles, timestamp
from headrace.jobs.store import InputObject
from headrace.jobs.transform.spec import TransformSpec

__all__ = ["FileStatus", "TransformRecord", "now", "version_before_reading"]

Plain = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStatus:
    """The result of one object."""

    input: str
    """Its URI."""
    output: str
    """The URI of its answers, which exist if it is ``Completed``."""
    status: str
    """``"Completed"`` or ``"Failed"``."""
    records: int = 0
    """The number of records answered."""
    reason: str | None = None
    """Why it failed, in one line."""
    version: tuple[int, ...] = ()
    """The signature of the object."""
    output_bytes: int = 0

    def is_current(self, path: Path, store: Store) -> bool:
        """Whether the answers exist, and the object at ``path`` has not changed since."""
        if self.status != "Completed" or self.version != version_of(path):
            return False
        answers = store.resolve(self.output)
        return answers.is_file() and answers.stat().st_size == self.output_bytes


def version_of(path: Path) -> tuple[int, ...]:
    """The signature of an object, which changes with its content."""
    return astuple(Signature.read(str(path)))


def version_before_reading(path: Path) -> tuple[int, ...]:
    """The signature of an object whose content is read next: a change after this call shows in it, however soon it comes."""
    signature = Signature.read(str(path))
    wait_for_tick([signature])
    return astuple(signature)


class TransformRecord:
    """A job's status, in the words of ``DescribeTransformJob``.

    ``content["Files"]`` counts objects: ``{"Total": 3, "Completed": 2, "Failed": 0}``; :meth:`files` lists the result of each.

    Args:
        files: The files of the job.
        content: The status.
    """

    def __init__(self, files: JobFiles, content: Plain) -> None:
        self.files_of_job = files
        self.content = content

    @classmethod
    def create(cls, files: JobFiles, spec: TransformSpec) -> Self:
        """The record of a job that starts or resumes."""
        record = cls(
            files, {**_describe(spec), "TransformJobStatus": "InProgress", "CreationTime": now(), "Pid": os.getpid()}
        )
        record.save()
        record._repair_journal()
        return record

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The record of a job. The status of a job whose process has died is ``Failed``.

        Raises:
            FileNotFoundError: The job does not exist.
        """
        record = cls(JobFiles(folder), _load(folder / "status.json"))
        if not record.is_done and record.files_of_job.is_abandoned():
            # It may have finished after the record was read.
            record.content = _load(folder / "status.json")
            if not record.is_done:
                record.finish("Failed", reason=ABANDONED)
        return record

    @property
    def name(self) -> str:
        """The job's name."""
        return str(self.content["TransformJobName"])

    @property
    def status(self) -> str:
        """``InProgress``, ``Completed``, ``Failed``, ``Stopping`` or ``Stopped``."""
        return str(self.content["TransformJobStatus"])

    @property
    def failure_reason(self) -> str | None:
        """Why it failed, in one line of up to 1024 characters."""
        return self.content.get("FailureReason")

    @property
    def is_done(self) -> bool:
        """Whether it has ended."""
        return self.status not in IN_PROGRESS

    def files(self) -> list[FileStatus]:
        """The latest result of each finished object."""
        found = {one.input: one for one in _statuses(self._journal)}
        return list(found.values())

    def note(self, status: FileStatus) -> None:
        """Append the result of an object."""
        with self._journal.open("a", encoding="utf-8") as journal:
            journal.write(json.dumps(asdict(status)) + "\n")

    def current_files(self, objects: list[InputObject], store: Store) -> list[FileStatus]:
        """The results of those objects that need not be sent again."""
        known = {one.input: one for one in self.files()}
        return [known[one.uri] for one in objects if one.uri in known and known[one.uri].is_current(one.path, store)]

    def update(self, **content: Any) -> None:
        """Add to the status and write it."""
        self.content.update(content)
        self.save()

    def finish(self, status: str, *, reason: str | None = None) -> None:
        """Write the final status."""
        if reason is not None:
            self.content["FailureReason"] = reason
        self.update(TransformJobStatus=status, TransformEndTime=now())

    def save(self) -> None:
        """Write the status."""
        write_atomic(self.files_of_job.status, (json.dumps(self.content, indent=1) + "\n").encode(), durable=False)

    def _repair_journal(self) -> None:
        """End a line that was cut off when its writer was killed or the disk was full."""
        if self._journal.exists() and not self._journal.read_bytes().endswith(b"\n"):
            with self._journal.open("a", encoding="utf-8") as journal:
                journal.write("\n")

    @property
    def _journal(self) -> Path:
        return self.files_of_job.folder / "files.jsonl"


def now() -> str:
    """The time, in the form of SageMaker's logs."""
    return timestamp().replace("+00:00", "Z")


def _load(path: Path) -> Plain:
    found: Plain = json.loads(path.read_text(encoding="utf-8"))
    return found


def _statuses(journal: Path) -> Iterator[FileStatus]:
    if not journal.exists():
        return
    for line in journal.read_text(encoding="utf-8").splitlines():
        try:
            plain = json.loads(line)
        except ValueError:
            continue  # The line was cut off.
        yield FileStatus(**{**plain, "version": tuple(plain["version"])})


def _describe(spec: TransformSpec) -> Plain:
    given: Plain = {
        "MaxConcurrentTransforms": spec.max_concurrent_transforms,
        "MaxPayloadInMB": spec.max_payload_mb,
        "BatchStrategy": spec.strategy,
    }
    source = {"S3DataSource": {"S3DataType": spec.data_type, "S3Uri": spec.input_uri}}
    return {
        "TransformJobName": spec.name,
        "TransformJobArn": f"arn:aws:sagemaker:local:000000000000:transform-job/{spec.name.lower()}",
        **{name: value for name, value in given.items() if value is not None},
        "ModelClientConfig": {
            "InvocationsTimeoutInSeconds": spec.invocations_timeout_s,
            "InvocationsMaxRetries": spec.invocations_max_retries,
        },
        "Environment": dict(spec.environment),
        "TransformInput": {
            "DataSource": source,
            **({} if spec.content_type is None else {"ContentType": spec.content_type}),
            "CompressionType": spec.compression,
            "SplitType": spec.split_type,
        },
        "TransformOutput": {
            "S3OutputPath": spec.output_path,
            **({} if spec.accept is None else {"Accept": spec.accept}),
            "AssembleWith": spec.assemble_with,
        },
        "DataProcessing": {
            "InputFilter": spec.input_filter,
            "OutputFilter": spec.output_filter,
            "JoinSource": spec.join_source,
        },
    }
