"""The settings of a training job, checked against the limits of SageMaker's API."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args, get_origin, get_type_hints

from headrace.contracts.job import DAY_S, Channel
from headrace.io.json_text import load_json

__all__ = ["TrainingSpec", "is_number", "is_whole"]

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
"""The choices of each channel setting."""
NUL = "\0"
SURROGATE = re.compile("[\ud800-\udc7f\udd00-\udfff]")  # the others stand for bytes of names that are not UTF-8
EPOCH = re.compile("0|[1-9][0-9]*")
JOB_NAME = re.compile(r"(?!.{64})[a-zA-Z0-9](-*[a-zA-Z0-9])*")
CHANNEL_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
VARIABLE_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSpec:
    """A training job.

    Args:
        name: 1 to 63 letters, digits and hyphens; unique.
        channels: Names to inputs.
        hyperparameters: Names to strings. :mod:`headrace.jobs.tree` converts values to strings.
        output_path: The URI of the folder of artifacts. The model becomes ``<name>/output/model.tar.gz`` in it.
        environment: Additional variables for the container.
        num_hosts: The number of hosts; each is a process with its own tree of folders.
        max_runtime_s: The job is stopped after this time. The model in its folder at that time is kept.
        checkpoint_uri: The URI of the folder of checkpoints, which the next job can read.
        instance_type: The instance type that the script sees.
        input_mode: The default of channels, which its record keeps: ``"File"``, ``"FastFile"`` or ``"Pipe"``.
        image: The image, which its record keeps.

    Raises:
        ValueError: Settings beyond a limit; the message lists all of them.
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
    input_mode: str = "File"
    image: str | None = None

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
        if self.input_mode not in CHOICES["input_mode"]:
            yield f"input_mode must be one of {', '.join(CHOICES['input_mode'])}, got {self.input_mode!r}"
        if not is_whole(self.num_hosts):
            yield f"num_hosts must be an integer, got {self.num_hosts!r}"
        elif self.num_hosts < 1:
            yield f"it needs at least 1 host, got {self.num_hosts}"
        if not is_number(self.max_runtime_s):
            yield f"max_runtime_s must be a number, got {self.max_runtime_s!r}"
        elif not 0 < self.max_runtime_s <= LONGEST_RUN_S:
            yield f"max_runtime_s must be above 0 and at most {LONGEST_RUN_S:.0f} (28 days), got {self.max_runtime_s}"

    def _of_hyperparameters(self) -> Iterator[str]:
        given = self.hyperparameters
        if len(given) > MOST_HYPERPARAMETERS:
            yield f"it has {len(given)} hyperparameters; the limit is {MOST_HYPERPARAMETERS}"
        for name, value in given.items():
            if not isinstance(value, str):
                yield f"hyperparameter {name!r} must be a string, got {type(value).__name__}"  # type: ignore[unreachable]
            elif len(value) > VALUE_CHARACTERS:
                yield f"hyperparameter {name!r} has {len(value)} characters; the limit is {VALUE_CHARACTERS}"
            elif fault := _first_unfit(_texts_of(value)):
                yield f"hyperparameter {name!r} has {fault}, which environment variables cannot hold"
            if fault := "=" if "=" in name else _first_unfit([name]):
                yield f"the name of hyperparameter {name!r} has {fault}, which names of environment variables cannot have"
            if len(name) > KEY_CHARACTERS:
                yield f"the name of hyperparameter {name[:40]!r}... has {len(name)} characters; the limit is {KEY_CHARACTERS}"

    def _of_channels(self) -> Iterator[str]:
        if len(self.channels) > MOST_CHANNELS:
            yield f"it has {len(self.channels)} channels; the limit is {MOST_CHANNELS}"
        for name, channel in self.channels.items():
            if not CHANNEL_NAME.fullmatch(name) or name in (".", ".."):
                yield f"channel name {name!r} must be 1 to 64 letters, digits, dots, hyphens and underscores"
            if not isinstance(channel, Channel):
                yield f"channel {name!r} must be a Channel, such as Channel(uri=...), got {channel!r}"  # type: ignore[unreachable]
                continue
            yield from (f"channel {name!r}: {problem}" for problem in _of_channel(channel))
            pipe, _, epoch = name.rpartition("_")
            is_pipe_name = EPOCH.fullmatch(epoch) and getattr(self.channels.get(pipe), "input_mode", None) == "Pipe"
            if is_pipe_name and channel.input_mode != "Pipe":
                yield f"channel {name!r} has the name of the pipe of channel {pipe!r} for epoch {epoch}: rename one of the two"

    def _of_variables(self) -> Iterator[str]:
        if len(self.environment) > MOST_VARIABLES:
            yield f"it has {len(self.environment)} environment variables; the limit is {MOST_VARIABLES}"
        for name, value in self.environment.items():
            if not VARIABLE_NAME.fullmatch(name) or len(name) > VARIABLE_CHARACTERS:
                yield f"environment variable {name[:40]!r} must have letters, digits and underscores only, and not begin with a digit"
            if not isinstance(value, str):
                yield f"environment variable {name!r} must be a string, got {type(value).__name__}"  # type: ignore[unreachable]
                continue
            if fault := _first_unfit([value]):
                yield f"environment variable {name!r} has {fault}, which it cannot hold"
            if len(value) > VARIABLE_CHARACTERS:
                yield f"environment variable {name!r} has {len(value)} characters; the limit is {VARIABLE_CHARACTERS}"


def is_whole(value: object) -> bool:
    """Whether a setting is an integer, and not a boolean."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Whether a setting is a number, and not a boolean."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _texts_of(value: str) -> list[str]:
    """The texts that the variable and the argument of a hyperparameter hold. JSON hides characters behind escapes."""
    try:
        found = load_json(value)
    except ValueError:
        return [value]  # scripts get what is no JSON as it is
    if isinstance(found, dict):
        return [text for pair in found.items() for text in map(str, pair)]
    return [found] if isinstance(found, str) else [value]


def _first_unfit(texts: Iterable[str]) -> str | None:
    """What in some texts no environment variable can hold."""
    for text in texts:
        if NUL in text:
            return "a NUL character"
        if unfit := SURROGATE.search(text):
            return f"half a surrogate pair, {unfit[0]!a}"
    return None


def _of_channel(channel: Channel) -> Iterator[str]:
    for name, known in CHOICES.items():
        if getattr(channel, name) not in known:
            yield f"{name} must be one of {', '.join(known)}, got {getattr(channel, name)!r}"
    is_augmented = channel.data_type == "AugmentedManifestFile"
    if channel.input_mode != "Pipe":
        if channel.record_wrapper != "None":
            yield f"the record wrapper {channel.record_wrapper!r} is for input_mode='Pipe', not {channel.input_mode!r}"
        if channel.compression != "None":
            yield f"compression={channel.compression!r} is for input_mode='Pipe', not {channel.input_mode!r}"
        if is_augmented:
            yield f"an augmented manifest is for input_mode='Pipe', not {channel.input_mode!r}"
    if channel.input_mode == "FastFile" and channel.data_type != "S3Prefix":
        yield f"input_mode='FastFile' is for the data type 'S3Prefix', not {channel.data_type!r}"
    if is_augmented != bool(channel.attribute_names):
        yield "attribute_names and the data type 'AugmentedManifestFile' need each other"
    if len(channel.attribute_names) > MOST_ATTRIBUTES:
        yield f"it has {len(channel.attribute_names)} attribute_names; the limit is {MOST_ATTRIBUTES}"
