"""Names for jobs, models and endpoints, by the names of the SDK."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

from headrace.sagemaker.image_uris import image_name
from headrace.sagemaker.session import NAME_CHARACTERS, base_from_name, name_from_base

__all__ = ["base_from_name", "name_from_base", "name_from_image", "sagemaker_timestamp", "unique_name_from_base"]


def name_from_image(image: str, max_length: int = NAME_CHARACTERS) -> str:
    """A name that begins with that of an image."""
    return name_from_base(image_name(image), max_length)


def unique_name_from_base(base: str, max_length: int = NAME_CHARACTERS) -> str:
    """A name that nobody else makes: the base, the time and four random letters."""
    end = f"-{int(datetime.now(UTC).timestamp())}-{uuid.uuid4().hex[:4]}"
    return base[: max_length - len(end)] + end


def sagemaker_timestamp() -> str:
    """The time in UTC as names have it: ``2026-01-31-23-59-59-123``."""
    return name_from_base("").lstrip("-")
