"""What training jobs need of containers, and of the store of their files."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from headrace.contracts.serving import Handler

__all__ = ["Channel", "Container", "InputMode", "Store", "StoredObject", "TrainingJob", "shorten_reason"]

InputMode = Literal["File", "FastFile", "Pipe"]

DAY_S = 86400.0
REASON_LIMIT = 1024  # characters of FailureReason


def shorten_reason(text: str) -> str:
    """A text without line ends, no longer than a FailureReason."""
    joined = " ".join(text.split())
    return joined if len(joined) <= REASON_LIMIT else joined[: REASON_LIMIT - 3] + "..."


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """One named input of a training job.

    Args:
        uri: What the :class:`Store` knows the files by: ``s3://bucket/prefix``, ``file://...`` or a path.
        content_type: What the files hold, for algorithms that ask.
        input_mode: ``"File"`` copies files, ``"FastFile"`` shows them without copying data, ``"Pipe"`` feeds a FIFO per epoch.
        distribution: Whether every host gets all objects or each its share.
        record_wrapper: ``"RecordIO"`` makes a record of each object (Pipe mode).
        compression: ``"Gzip"`` inflates while feeding a pipe.
        data_type: What ``uri`` names: all objects under a prefix, a manifest of objects, or a file of JSON lines.
        attribute_names: Which keys of an augmented manifest's lines are fed, in order.
        shuffle_seed: Shuffles objects (lines of an augmented manifest), differently for each epoch of a pipe.
    """

    uri: str
    content_type: str | None = None
    input_mode: InputMode = "File"
    distribution: Literal["FullyReplicated", "ShardedByS3Key"] = "FullyReplicated"
    record_wrapper: Literal["None", "RecordIO"] = "None"
    compression: Literal["None", "Gzip"] = "None"
    data_type: Literal["S3Prefix", "ManifestFile", "AugmentedManifestFile"] = "S3Prefix"
    attribute_names: tuple[str, ...] = ()
    shuffle_seed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """A file in a store: its whole URI, and where its bytes are on this machine."""

    uri: str
    path: Path


@runtime_checkable
class Store(Protocol):
    """Finds files by their URIs."""

    def resolve(self, uri: str, /) -> Path:
        """The file or folder of a URI, which need not exist.

        Raises:
            ValueError: It is not a URI of this store.
        """
        ...

    def objects(self, uri: str, /) -> Sequence[StoredObject]:
        """All files whose URI begins with ``uri``, ordered by URI; none where there are none."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingJob:
    """One host's part of a training job, laid out and ready to run.

    Args:
        name: The job's name.
        base_dir: The root of the tree that is ``/opt/ml`` on SageMaker. Everything that a container reads and writes is below.
        hyperparameters: As in the API: names to texts.
        channels: Names to inputs. Their files are already below ``base_dir``.
        environment: More variables for the container.
        hosts: The names of all hosts, sorted.
        current_host: This one.
        instance_type: The instance type that the script reads.
        job_arn: The job's ARN.
        log: Takes one line of output, without its end.
        stop: Set when the job must end early (it was stopped, or its time is up). Containers save and return.
        stop_grace_s: How long a container may take for that.
        network_interface: The network interface by which this host reaches the others.
    """

    name: str
    base_dir: Path
    hyperparameters: Mapping[str, str] = field(default_factory=dict)
    channels: Mapping[str, Channel] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    hosts: tuple[str, ...] = ("algo-1",)
    current_host: str = "algo-1"
    instance_type: str = "local"
    job_arn: str = ""
    log: Callable[[str], None] = print
    stop: threading.Event = field(default_factory=threading.Event)
    stop_grace_s: float = 120.0
    network_interface: str = "lo"

    def __post_init__(self) -> None:
        if self.current_host not in self.hosts:
            raise ValueError(f"current_host must be one of {', '.join(self.hosts)}, got {self.current_host!r}")

    @property
    def config_dir(self) -> Path:
        """The folder of the three JSON files that describe the job."""
        return self.base_dir / "input" / "config"

    @property
    def model_dir(self) -> Path:
        """Files in this folder become ``model.tar.gz``."""
        return self.base_dir / "model"

    @property
    def output_dir(self) -> Path:
        """``failure`` and ``success`` are written here."""
        return self.base_dir / "output"

    @property
    def output_data_dir(self) -> Path:
        """Files in this folder become ``output.tar.gz``."""
        return self.base_dir / "output" / "data"

    @property
    def checkpoint_dir(self) -> Path:
        """Files in this folder are kept after the job, even if it fails."""
        return self.base_dir / "checkpoints"

    @property
    def code_dir(self) -> Path:
        """The user's code."""
        return self.base_dir / "code"

    def channel_dir(self, name: str) -> Path:
        """The folder of a channel (File and FastFile mode)."""
        return self.base_dir / "input" / "data" / name

    def pipe(self, name: str, epoch: int) -> Path:
        """The FIFO of a channel for one epoch, counted from 0 (Pipe mode)."""
        return self.base_dir / "input" / "data" / f"{name}_{epoch}"


@runtime_checkable
class Container(Protocol):
    """Trains models and serves them: a user's script, or a built-in algorithm."""

    @property
    def name(self) -> str:
        """For logs and errors."""
        ...

    @property
    def environment(self) -> Mapping[str, str]:
        """Its own variables, which a pipeline keeps apart for each container."""
        ...

    def train(self, job: TrainingJob, /) -> None:
        """Train, leaving the model in ``job.model_dir``.

        Raises:
            JobFailed: Training failed; the message is the reason.
        """
        ...

    def handler(self, model_dir: Path, /) -> Handler:
        """Load the model that ``train`` saved, ready to answer requests.

        Raises:
            JobFailed: It cannot be loaded; the message lists everything that is wrong.
        """
        ...
