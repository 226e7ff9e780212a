"""Inputs of a training job, as they are written in a command: ``NAME=PATH[;TYPE][;SETTING=VALUE]...``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headrace.contracts.job import Channel

__all__ = ["SETTINGS", "channel_of", "pair"]

SETTINGS = {
    "input_mode": "input_mode",
    "distribution": "distribution",
    "compression": "compression",
    "record_wrapping": "record_wrapper",
    "s3_data_type": "data_type",
    "attribute_names": "attribute_names",
    "shuffle_seed": "shuffle_seed",
}
"""What the SDK's ``TrainingInput`` calls them, and :class:`Channel`. What they may be is the job's to say."""


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
        ValueError: It has another form, or a setting that there is not. Values are checked with the job.
        FileNotFoundError: There is nothing at the path.
    """
    name, place = pair(text, "--channel", "PATH[;TYPE][;SETTING=VALUE]...")
    path, *rest = place.split(";")
    if not Path(path).exists():
        raise FileNotFoundError(2, "No such file or directory", path)
    given: dict[str, Any] = {"input_mode": input_mode}
    of_type: list[str] = []
    for part in rest:
        setting, equals, value = part.strip().partition("=")
        if equals and setting in SETTINGS:
            given[SETTINGS[setting]] = _value(setting, value)
        elif equals and not of_type:  # A content type has parameters, too, but behind it.
            raise ValueError(f"--channel {name} has no setting {setting!r}; there are {', '.join(SETTINGS)}")
        else:
            of_type.append(part)
    return name, Channel(uri=str(Path(path).absolute()), content_type=";".join(of_type) or None, **given)


def _value(setting: str, text: str) -> str | int | tuple[str, ...]:
    if setting == "attribute_names":
        return tuple(one.strip() for one in text.split(",") if one.strip())
    if setting != "shuffle_seed":
        return text
    if not text.isdecimal():
        raise ValueError(f"shuffle_seed is a whole number, got {text!r}")
    return int(text)
