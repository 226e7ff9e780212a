"""What a training job is asked to do, checked against the limits of SageMaker's API."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args, get_origin, get_type_hints

from headrace.contracts.job import DAY_S, Channel

__all__ = ["TrainingSpec"]

MOST_HYPERPARAMETERS = 100
MOST_VARIABLES = 100
MOST_CHANNELS = 20
MOST_ATTRIBUTES = 16
KEY_CHARACTERS = 256
VALUE_CHARACTERS = 2500
VARIABLE_CHARACTERS = 512
LONGEST_RUN_S = 28 * DAY_S
CHOICES: Mapping[str, tuple[str, ...]] = {
    name: get_args(annotation)
    for name, annotation in get_type_hints(Channel).items()
    if get_origin(annotation) is Literal
}
"""What those settings of a channel that are one of a few words may be."""
JOB_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")
CHANNEL_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
VARIABLE_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSpec:
    """A training job.

    Args:
        name: 1 to 63 letters, digits and hyphens; no two jobs have the same.
        channels: Names to inputs.
        hyperparameters: Names to texts. See :mod:`headrace.jobs.tree` for making texts of values.
        output_path: Where the artifacts go: a URI of the store. They get ``<name>/output/model.tar.gz`` behind it.
        environment: More variables for the container.
        num_hosts: How many hosts train; each is a process with a tree of its own.
        max_runtime_s: After so many seconds the job is stopped; what the model is by then is kept.
        checkpoint_uri: Where checkpoints are kept while the job runs, and found by the next one.
        instance_type: What the script is told that it runs on.

    Raises:
        ValueError: Something is beyond a limit; the message lists everything that is.
    """

    name: str
    channels: Mapping[str, Channel] = field(default_factory=dict)
    hyperparameters: Mapping[str, str] = field(default_factory=dict)
    output_path: str
    environment: Mapping[str, str] = field(default_factory=dict)
    num_hosts: int = 1
    max_runtime_s: float = DAY_S
    checkpoint_uri: str | None = None
    instance_type: str = "local"

    def __post_init__(self) -> None:
        problems = [*self._own(), *self._of_hyperparameters(), *self._of_channels(), *self._of_variables()]
        if problems:
            raise ValueError(f"Training job {self.name!r} cannot be run: " + "; ".join(problems))

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names of the hosts, sorted."""
        return tuple(sorted(f"algo-{number}" for number in range(1, self.num_hosts + 1)))

    def _own(self) -> Iterator[str]:
        if not JOB_NAME.fullmatch(self.name):
            yield "its name must be 1 to 63 letters, digits and hyphens, and begin and end with a letter or a digit"
        if self.num_hosts < 1:
            yield f"it needs at least 1 host, got {self.num_hosts}"
        if not 0 < self.max_runtime_s <= LONGEST_RUN_S:
            yield f"max_runtime_s must be above 0 and at most {LONGEST_RUN_S:.0f} (28 days), got {self.max_runtime_s}"

    def _of_hyperparameters(self) -> Iterator[str]:
        given = self.hyperparameters
        if len(given) > MOST_HYPERPARAMETERS:
            yield f"it has {len(given)} hyperparameters, where {MOST_HYPERPARAMETERS} are allowed"
        for name, value in given.items():
            if not isinstance(value, str):
                yield f"hyperparameter {name!r} must be a text, got {type(value).__name__}"  # type: ignore[unreachable]
            elif len(value) > VALUE_CHARACTERS:
                yield f"hyperparameter {name!r} has {len(value)} characters, where {VALUE_CHARACTERS} are allowed"
            if len(name) > KEY_CHARACTERS:
                yield f"the name of hyperparameter {name[:40]!r}... has {len(name)} characters, where {KEY_CHARACTERS} are allowed"

    def _of_channels(self) -> Iterator[str]:
        if len(self.channels) > MOST_CHANNELS:
            yield f"it has {len(self.channels)} channels, where {MOST_CHANNELS} are allowed"
        for name, channel in self.channels.items():
            if not CHANNEL_NAME.fullmatch(name) or name in (".", ".."):
                yield f"channel name {name!r} must be 1 to 64 letters, digits, dots, hyphens and underscores"
            yield from (f"channel {name!r}: {problem}" for problem in _of_channel(channel))

    def _of_variables(self) -> Iterator[str]:
        if len(self.environment) > MOST_VARIABLES:
            yield f"it has {len(self.environment)} environment variables, where {MOST_VARIABLES} are allowed"
        for name, value in self.environment.items():
            if not VARIABLE_NAME.fullmatch(name) or len(name) > VARIABLE_CHARACTERS:
                yield f"environment variable {name[:40]!r} must be letters, digits and underscores, no digit first"
            if len(value) > VARIABLE_CHARACTERS:
                yield f"environment variable {name!r} has {len(value)} characters, where {VARIABLE_CHARACTERS} are allowed"


def _of_channel(channel: Channel) -> Iterator[str]:
    for name, known in CHOICES.items():
        if getattr(channel, name) not in known:
            yield f"{name} must be one of {', '.join(known)}, got {getattr(channel, name)!r}"
    is_augmented = channel.data_type == "AugmentedManifestFile"
    if channel.input_mode != "Pipe":
        if channel.record_wrapper != "None":
            yield f"record_wrapper={channel.record_wrapper!r} is for input_mode='Pipe', not {channel.input_mode!r}"
        if channel.compression != "None":
            yield f"compression={channel.compression!r} is for input_mode='Pipe', not {channel.input_mode!r}"
        if is_augmented:
            yield f"an augmented manifest is for input_mode='Pipe', not {channel.input_mode!r}"
    if channel.input_mode == "FastFile" and channel.data_type != "S3Prefix":
        yield f"input_mode='FastFile' is for data_type='S3Prefix', not {channel.data_type!r}"
    if is_augmented != bool(channel.attribute_names):
        yield "attribute_names and data_type='AugmentedManifestFile' belong together"
    if len(channel.attribute_names) > MOST_ATTRIBUTES:
        yield f"it has {len(channel.attribute_names)} attribute_names, where {MOST_ATTRIBUTES} are allowed"
