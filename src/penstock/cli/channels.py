"""Inputs of a training job, as they are written in a command: ``NAME=PATH[;TYPE][;SETTING=VALUE]...``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.contracts.job import Channel

__all__ = ["MODES", "channel_of", "pair"]

MODES = ("File", "FastFile", "Pipe")
CHOICES: dict[str, tuple[str, tuple[str, ...]]] = {
    "input_mode": ("input_mode", MODES),
    "distribution": ("distribution", ("FullyReplicated", "ShardedByS3Key")),
    "compression": ("compression", ("None", "Gzip")),
    "record_wrapping": ("record_wrapper", ("None", "RecordIO")),
    "s3_data_type": ("data_type", ("S3Prefix", "ManifestFile", "AugmentedManifestFile")),
}
"""Settings as the SDK's ``TrainingInput`` names them; what they are called here, and what they may be."""
SETTINGS = (*CHOICES, "attribute_names", "shuffle_seed")


def pair(text: str, option: str, value_name: str = "VALUE") -> tuple[str, str]:
    """Name and value of an option of the form ``NAME=VALUE``.

    Raises:
        ValueError: It has another form.
    """
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f"{option} takes NAME={value_name}, got {text!r}")
    return name, value


def channel_of(text: str, input_mode: str) -> tuple[str, Channel]:
    """Name and channel.

    Args:
        text: As it was written.
        input_mode: Where it says nothing of that.

    Raises:
        ValueError: It has another form, or a setting that there is not.
        FileNotFoundError: There is nothing at the path.
    """
    name, place = pair(text, "--channel", "PATH[;TYPE][;SETTING=VALUE]...")
    path, *rest = place.split(";")
    if not Path(path).exists():
        raise FileNotFoundError(2, "No such file or directory", path)
    given: dict[str, Any] = {"input_mode": _chosen("--input-mode", input_mode, MODES)}
    of_type: list[str] = []
    for part in rest:
        setting, equals, value = part.strip().partition("=")
        if equals and setting in SETTINGS:
            given.update(_setting(setting, value))
        elif equals and not of_type:  # A content type has parameters, too, but behind it.
            raise ValueError(f"--channel {name} has no setting {setting!r}; there are {', '.join(SETTINGS)}")
        else:
            of_type.append(part)
    return name, Channel(uri=str(Path(path).absolute()), content_type=";".join(of_type) or None, **given)


def _setting(name: str, value: str) -> dict[str, Any]:
    if name in CHOICES:
        ours, values = CHOICES[name]
        return {ours: _chosen(name, value, values)}
    if name == "attribute_names":
        return {name: tuple(one.strip() for one in value.split(",") if one.strip())}
    if not value.isdecimal():
        raise ValueError(f"{name} is a whole number, got {value!r}")
    return {name: int(value)}


def _chosen(name: str, value: str, values: tuple[str, ...]) -> str:
    if value not in values:
        raise ValueError(f"{name} is one of {', '.join(values)}, got {value!r}")
    return value
