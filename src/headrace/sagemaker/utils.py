"""The helpers of ``sagemaker.utils`` that notebooks use, most of which make names for jobs, models and endpoints."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

from headrace.sagemaker.image_uris import image_name
from headrace.sagemaker.session import NAME_CHARACTERS, base_from_name, name_from_base

__all__ = [
    "base_from_name",
    "base_name_from_image",
    "build_dict",
    "get_short_version",
    "name_from_base",
    "name_from_image",
    "sagemaker_short_timestamp",
    "sagemaker_timestamp",
    "unique_name_from_base",
]


def name_from_image(image: str, max_length: int = NAME_CHARACTERS) -> str:
    """A unique name that begins with the name of an image."""
    return name_from_base(image_name(image), max_length)


def unique_name_from_base(base: str, max_length: int = NAME_CHARACTERS) -> str:
    """A unique name: the base, the time and four random letters."""
    end = f"-{int(datetime.now(UTC).timestamp())}-{uuid.uuid4().hex[:4]}"
    return base[: max_length - len(end)] + end


def sagemaker_timestamp() -> str:
    """The time in UTC to the millisecond: ``2026-01-31-23-59-59-123``."""
    return name_from_base("").lstrip("-")


def sagemaker_short_timestamp() -> str:
    """The time in UTC to the minute: ``260131-2359``."""
    return datetime.now(UTC).strftime("%y%m%d-%H%M")


def base_name_from_image(image: str, default_base_name: str | None = None) -> str:
    """The name of an image, without registry and tag.

    >>> base_name_from_image("683313688378.dkr.ecr.us-east-1.amazonaws.com/sagemaker-scikit-learn:1.2-1-cpu-py3")
    'sagemaker-scikit-learn'
    """
    return image_name(image) or default_base_name or "base_name"


def build_dict(key: str, value: Any) -> dict[str, Any]:
    """``{key: value}``, or an empty dict if ``value`` is false."""
    return {key: value} if value else {}


def get_short_version(framework_version: str) -> str:
    """The first two numbers of a version.

    >>> get_short_version("1.15.2")
    '1.15'
    """
    return ".".join(framework_version.split(".")[:2])
