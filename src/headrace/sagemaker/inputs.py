"""Inputs of training jobs: ``sagemaker.inputs``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.contracts.job import Channel, InputMode
from headrace.sagemaker.arguments import warn_old_name

__all__ = ["ShuffleConfig", "TrainingInput", "channels_of", "s3_input"]


@dataclass(frozen=True, slots=True)
class ShuffleConfig:
    """Shuffle objects, or lines of an augmented manifest, by ``seed``, differently in each epoch."""

    seed: int


@dataclass(frozen=True, slots=True)
class TrainingInput:
    """A channel.

    Args:
        s3_data: ``s3://bucket/prefix`` or ``file://path``.
        distribution: ``"FullyReplicated"``, or ``"ShardedByS3Key"`` to give each host its share.
        compression: ``"Gzip"`` (Pipe mode).
        content_type: Content type of the files.
        record_wrapping: ``"RecordIO"`` (Pipe mode).
        s3_data_type: ``"S3Prefix"``, ``"ManifestFile"`` or ``"AugmentedManifestFile"``.
        instance_groups, target_attribute_name: Accepted and ignored: a job has one group of hosts, and no AutoML.
        input_mode: ``"File"``, ``"FastFile"`` or ``"Pipe"``; by default that of the job.
        attribute_names: Attributes of an augmented manifest.
        shuffle_config: Shuffles objects.
    """

    s3_data: str
    distribution: str | None = None
    compression: str | None = None
    content_type: str | None = None
    record_wrapping: str | None = None
    s3_data_type: str = "S3Prefix"
    instance_groups: Sequence[str] | None = None
    input_mode: str | None = None
    attribute_names: Sequence[str] | None = None
    target_attribute_name: str | None = None
    shuffle_config: ShuffleConfig | None = None

    @property
    def config(self) -> dict[str, Any]:
        """The channel in the words of SageMaker's API."""
        source = {
            "S3DataType": self.s3_data_type,
            "S3Uri": self.s3_data,
            "S3DataDistributionType": self.distribution or "FullyReplicated",
            "AttributeNames": self.attribute_names,
        }
        described = {
            "DataSource": {"S3DataSource": {name: value for name, value in source.items() if value is not None}},
            "CompressionType": self.compression,
            "ContentType": self.content_type,
            "RecordWrapperType": self.record_wrapping,
            "InputMode": self.input_mode,
            "ShuffleConfig": None if self.shuffle_config is None else {"Seed": self.shuffle_config.seed},
        }
        return {name: value for name, value in described.items() if value is not None}

    def channel(self, input_mode: str) -> Channel:
        """Convert to a channel of a job with this input mode."""
        mode: Any = self.input_mode or input_mode
        distribution: Any = self.distribution or "FullyReplicated"
        data_type: Any = self.s3_data_type
        wrapping: Any = self.record_wrapping or "None"
        compression: Any = self.compression or "None"
        return Channel(
            uri=_check_uri(self.s3_data),
            content_type=self.content_type,
            input_mode=mode,
            distribution=distribution,
            record_wrapper=wrapping,
            compression=compression,
            data_type=data_type,
            attribute_names=tuple(self.attribute_names or ()),
            shuffle_seed=None if self.shuffle_config is None else self.shuffle_config.seed,
        )


def s3_input(s3_data: str, distribution: str = "FullyReplicated", **options: Any) -> TrainingInput:
    """:class:`TrainingInput` by its name in version 1 of the SDK."""
    warn_old_name("s3_input is called TrainingInput in version 2 of the SDK and here")
    return TrainingInput(s3_data, distribution, **options)


def channels_of(inputs: Any, input_mode: InputMode) -> dict[str, Channel]:
    """Convert the argument of ``fit`` to channels.

    Raises:
        ValueError: It is not a URI, a :class:`TrainingInput`, or a dict of those.
    """
    if inputs is None:
        return {}
    if not isinstance(inputs, Mapping):
        inputs = {"training": inputs}
    return {name: _input(one).channel(input_mode) for name, one in inputs.items()}


def _input(given: Any) -> TrainingInput:
    if isinstance(given, str):
        return TrainingInput(given)
    if isinstance(given, TrainingInput):
        return given
    raise ValueError(f"Cannot format input {given!r}. Expecting one of str, dict, or TrainingInput")


def _check_uri(uri: str) -> str:
    if not uri.startswith(("s3://", "file://")) or uri == "file://":
        raise ValueError(
            f'URI input {uri} must be a valid S3 or FILE URI: must start with "s3://" or "file://". '
            "session.upload_data(path) returns one"
        )
    return uri
