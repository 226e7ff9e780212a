"""The session: a folder with data, jobs, models and endpoints, in place of an AWS account. ``sagemaker.session``."""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headrace.contracts.job import StoredObject
from headrace.hosting.endpoint import find_endpoint
from headrace.hosting.registry import state_folder
from headrace.io.faults import name_in_errors
from headrace.io.paths import list_files_below
from headrace.io.write.atomic import AtomicFile, write_atomic
from headrace.jobs.store import cut_prefix, left_out
from headrace.jobs.training import read_job, request_stop
from headrace.jobs.transform.running import read_transform, request_stop_transform
from headrace.sagemaker.arguments import OnOneMachine, select_arguments
from headrace.sagemaker.clients import BotoSession, RuntimeClient, SageMakerClient, with_times
from headrace.sagemaker.inputs import TrainingInput, s3_input
from headrace.sagemaker.store import CHUNK_BYTES, LocalStore

__all__ = ["Session", "TrainingInput", "base_from_name", "get_execution_role", "name_from_base", "s3_input"]

ACCOUNT = "000000000000"
REGION = "us-east-1"
NAME_CHARACTERS = 63
STAMP = re.compile(r"-\d{4}(-\d\d){5}-\d{3}$")


class Session(OnOneMachine):
    """A folder in place of an AWS account.

    ``s3://bucket/key`` is the file ``<root>/s3/bucket/key``. Jobs and models are stored below ``root``, too, so that other
    processes find them, also later.

    Args:
        root: The folder; by default ``HEADRACE_SAGEMAKER_DIR``, else one for this user.
        default_bucket: Result of :meth:`default_bucket`.
        default_bucket_prefix: Prefix of keys in uploads that name no bucket.
        boto_session: A session of AWS, also accepted as the first argument, as in the SDK. Only its region is used.
        sagemaker_client, sagemaker_runtime_client: Accepted and ignored.
        others: Other arguments of the SDK, accepted and ignored.

    >>> session = Session(tmp)
    >>> session.default_bucket()
    'sagemaker-us-east-1-000000000000'
    """

    def __init__(
        self,
        root: Any = None,
        sagemaker_client: Any = None,
        sagemaker_runtime_client: Any = None,
        *,
        default_bucket: str | None = None,
        default_bucket_prefix: str | None = None,
        boto_session: Any = None,
        **others: Any,
    ) -> None:
        del sagemaker_client, sagemaker_runtime_client
        select_arguments(others, what="Session")
        if root is not None and not isinstance(root, str | os.PathLike):
            root, boto_session = None, root
        given = root or os.environ.get("HEADRACE_SAGEMAKER_DIR") or state_folder() / "sagemaker"
        self.root: Path = Path(given).expanduser().absolute()
        self.store: LocalStore = LocalStore(self.root / "s3")
        region = getattr(boto_session, "region_name", None)
        self.boto_region_name: str = str(
            region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or REGION
        )
        self.local_mode = True
        self._bucket = default_bucket
        self.default_bucket_prefix = default_bucket_prefix

    @property
    def training_dir(self) -> Path:
        """The folder of training jobs."""
        return self.root / "training-jobs"

    @property
    def transform_dir(self) -> Path:
        """The folder of transform jobs."""
        return self.root / "transform-jobs"

    @property
    def boto_session(self) -> BotoSession:
        """In place of ``boto3.Session()``."""
        return BotoSession(self)

    @property
    def sagemaker_client(self) -> SageMakerClient:
        """In place of ``boto3.client("sagemaker")``."""
        return SageMakerClient(self)

    @property
    def sagemaker_runtime_client(self) -> RuntimeClient:
        """In place of ``boto3.client("sagemaker-runtime")``."""
        return RuntimeClient()

    def account_id(self) -> str:
        """A made-up account number."""
        return ACCOUNT

    def default_bucket(self) -> str:
        """The default bucket."""
        return self._bucket or f"sagemaker-{self.boto_region_name}-{ACCOUNT}"

    def upload_data(
        self,
        path: str | os.PathLike[str],
        bucket: str | None = None,
        key_prefix: str = "data",
        callback: Callable[[int], None] | None = None,
        extra_args: Any = None,
    ) -> str:
        """Copy a file, or all files below a folder, into the store.

        Args:
            path: What to copy.
            bucket: Into which; :meth:`default_bucket` by default.
            key_prefix: What the keys begin with, after ``default_bucket_prefix`` where no bucket is named. Files of a folder keep their path in it.
            callback: Called with the size of each copied file.
            extra_args: Accepted and ignored.

        Returns:
            ``s3://bucket/prefix/file``; for a folder ``s3://bucket/prefix``.

        Raises:
            ValueError: ``path`` does not exist, or the folder holds a link that leads nowhere, or a FIFO.
        """
        del extra_args
        if not os.fspath(path):
            raise ValueError("expected a path to upload, found an empty text")
        source = Path(path).expanduser()
        begin = self.default_bucket_prefix if bucket is None else None
        prefix = "/".join(filter(None, ((begin or "").strip("/"), key_prefix.strip("/"))))
        base = "/".join(part for part in (f"s3://{bucket or self.default_bucket()}", prefix) if part)
        if source.is_dir():
            for name, what in left_out(source):
                raise ValueError(f"{name} in {str(path)!r} cannot be uploaded: {what}; remove it first")
            files = {file.relative_to(source).as_posix(): file for file in list_files_below(source)}
        elif source.is_file():
            files = {source.name: source}
        else:
            raise ValueError(f"there is no file or folder {str(path)!r} to upload")
        for name, file in sorted(files.items()):
            self.store.put(file, f"{base}/{name}")
            if callback is not None:
                callback(file.stat().st_size)
        return base if source.is_dir() else f"{base}/{source.name}"

    def download_data(
        self, path: str | os.PathLike[str], bucket: str, key_prefix: str = "", extra_args: Any = None
    ) -> list[str]:
        """Copy the objects whose key begins with ``key_prefix`` into a folder.

        Copies of objects below the folder ``key_prefix`` have their path in it. Where it is the beginning of a name, copies
        have their path below its last slash.

        Returns:
            The paths of the copies.

        Raises:
            ValueError: Two objects would have one path.
        """
        del extra_args
        uri = f"s3://{bucket}/{key_prefix}"
        folder = Path(path).expanduser()
        copies: dict[str, None] = {}
        for one in self.store.objects(uri):
            copy = folder / cut_prefix(one.uri, uri)
            if str(copy) in copies:
                raise ValueError(f"two objects that begin with {uri} would both be {copy}: give a longer prefix")
            copy.parent.mkdir(parents=True, exist_ok=True)
            with name_in_errors(str(one.path)), one.path.open("rb") as source, AtomicFile(copy, durable=False) as file:
                shutil.copyfileobj(source, file, CHUNK_BYTES)
            copies[str(copy)] = None
        return list(copies)

    def upload_string_as_file_body(self, body: str, bucket: str, key: str, kms_key: str | None = None) -> str:
        """Write a text as an object.

        Returns:
            The URI of the object.
        """
        del kms_key
        uri = f"s3://{bucket}/{key}"
        self.store.put_bytes(body.encode(), uri)
        return uri

    def read_s3_file(self, bucket: str, key_prefix: str) -> str:
        """The text of an object."""
        return self.store.resolve(f"s3://{bucket}/{key_prefix}").read_text(encoding="utf-8")

    def list_s3_files(self, bucket: str, key_prefix: str = "") -> list[str]:
        """List the keys of a bucket that begin with ``key_prefix``."""
        start = f"s3://{bucket}/"
        return [one.uri.removeprefix(start) for one in self.store.objects(start + key_prefix)]

    def resolve(self, uri: str, /) -> Path:
        """The local path of a URI."""
        return self.store.resolve(uri)

    def objects(self, uri: str, /) -> Sequence[StoredObject]:
        """List the objects whose URI begins with ``uri``."""
        return self.store.objects(uri)

    def describe_training_job(self, job_name: str) -> dict[str, Any]:
        """Describe a training job in the words of SageMaker's API.

        Raises:
            ValueError: There is no such job.
        """
        return with_times(read_job(self.training_dir, job_name).content)

    def stop_training_job(self, job_name: str) -> None:
        """Ask a training job to stop, whichever process runs it."""
        request_stop(self.training_dir, job_name)

    def describe_transform_job(self, job_name: str) -> dict[str, Any]:
        """Describe a transform job in the words of SageMaker's API.

        Raises:
            ValueError: There is no such job.
        """
        content = read_transform(self.transform_dir, job_name).content
        return {**with_times(content), **self._load_named("transforms", job_name)}

    def stop_transform_job(self, job_name: str) -> None:
        """Ask a transform job to stop, whichever process runs it."""
        request_stop_transform(self.transform_dir, job_name)

    def wait_for_job(self, job: str, poll: float = 1) -> dict[str, Any]:
        """Wait until a training job has ended, in whichever process it runs.

        Args:
            job: Name of the job.
            poll: Seconds between checks.

        Returns:
            Its description.
        """
        while not (record := read_job(self.training_dir, job)).is_done:
            time.sleep(poll)
        return with_times(record.content)

    def logs_for_job(self, job_name: str, wait: bool = False, poll: float = 1) -> str:
        """The logs of all hosts of a training job; with ``wait``, after it has ended."""
        if wait:
            self.wait_for_job(job_name, poll)
        files = read_job(self.training_dir, job_name).files
        logs = sorted((files.folder / "logs").glob("*.log"))
        return "".join(log.read_text(encoding="utf-8", errors="replace") for log in logs)

    def delete_endpoint(self, endpoint_name: str) -> None:
        """Stop and delete an endpoint.

        Raises:
            EndpointError: There is no such endpoint.
        """
        find_endpoint(endpoint_name).delete()

    def save_model(self, name: str, description: dict[str, Any]) -> None:
        """Store the description of a model."""
        self._save_named("models", name, description)

    def describe_model(self, name: str) -> dict[str, Any]:
        """Describe a model that this or another process has created.

        Raises:
            ValueError: There is no such model.
        """
        found = self._load_named("models", name)
        if not found:
            raise ValueError(f"there is no model {name!r} in {self.root}")
        return found

    def delete_model(self, model_name: str) -> None:
        """Delete a model; its artifact stays."""
        self._named_file("models", model_name).unlink(missing_ok=True)

    def save_endpoint(self, name: str, model_name: str) -> None:
        """Store the name of an endpoint's model."""
        self._save_named("endpoints", name, {"EndpointName": name, "ModelName": model_name})

    def save_transform(self, name: str, model_name: str) -> None:
        """Store the name of a transform job's model."""
        self._save_named("transforms", name, {"ModelName": model_name})

    def model_of_endpoint(self, name: str) -> str:
        """The name of an endpoint's model.

        Raises:
            ValueError: No model of this session was deployed under this name.
        """
        found = self._load_named("endpoints", name)
        if not found:
            raise ValueError(f"no model in {self.root} was deployed as {name!r}")
        return str(found["ModelName"])

    def _save_named(self, kind: str, name: str, content: dict[str, Any]) -> None:
        path = self._named_file(kind, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, json.dumps(content, indent=1).encode(), durable=False)

    def _load_named(self, kind: str, name: str) -> dict[str, Any]:
        try:
            return dict(json.loads(self._named_file(kind, name).read_text(encoding="utf-8")))
        except FileNotFoundError:
            return {}

    def _named_file(self, kind: str, name: str) -> Path:
        if not re.fullmatch(r"(?!.{64})[a-zA-Z0-9](-*[a-zA-Z0-9])*", name):
            raise ValueError(f"a name is up to 63 letters, digits and inner hyphens, got {name!r}")
        return self.root / kind / f"{name}.json"


def get_execution_role(sagemaker_session: Session | None = None, use_default: bool = False) -> str:
    """A made-up role, for arguments that require one."""
    del sagemaker_session, use_default
    return f"arn:aws:iam::{ACCOUNT}:role/headrace-local"


_last_stamp = [""]
_stamps = threading.Lock()


def name_from_base(base: str, max_length: int = NAME_CHARACTERS) -> str:
    """A unique name in the form of the SDK: the base and the time in UTC to the millisecond."""
    with _stamps:
        while (stamp := _stamp()) == _last_stamp[0]:
            pass  # Names must differ even within a millisecond.
        _last_stamp[0] = stamp
    return f"{base[: max_length - len(stamp) - 1].rstrip('-')}-{stamp}"


def base_from_name(name: str) -> str:
    """The base of a name from :func:`name_from_base`; another name unchanged.

    >>> base_from_name("linear-learner-2026-01-31-23-59-59-123")
    'linear-learner'
    """
    return STAMP.sub("", name) or name


def _stamp() -> str:
    now = datetime.now(UTC)
    return now.strftime("%Y-%m-%d-%H-%M-%S-") + f"{now.microsecond // 1000:03d}"
