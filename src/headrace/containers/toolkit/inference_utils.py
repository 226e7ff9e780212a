"""``sagemaker_inference.utils``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["parse_accept", "read_file", "remove_crlf", "retrieve_content_type_header", "write_file"]


def parse_accept(accept: str) -> list[str]:
    """The content types of an ``Accept`` header."""
    return accept.replace(" ", "").split(",")


def retrieve_content_type_header(request_property: Mapping[str, Any]) -> Any:
    """The content type among headers, with or without the hyphen; ``None`` where there is none."""
    for name, value in request_property.items():
        if name.replace("-", "").lower().startswith("contenttype"):
            return value
    return None


def remove_crlf(illegal_string: str) -> str:
    """Spaces for line ends, which a header may not have."""
    return illegal_string.replace("\r", " ").replace("\n", " ")


def read_file(path: str, mode: str = "r") -> Any:
    """The content of a file."""
    with open(path, mode) as file:
        return file.read()


def write_file(path: str, data: Any, mode: str = "w") -> None:
    """Write a file."""
    with open(path, mode) as file:
        file.write(data)
