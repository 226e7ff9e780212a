"""The schema that our writers leave in a file's own metadata, so that shapes and types come back as they were."""

from __future__ import annotations

from headrace.contracts.schema import Schema

__all__ = ["KEY", "carried"]

KEY = "headrace.schema"


def carried(text: bytes | str | None) -> Schema | None:
    """The schema in the metadata of a file; ``None`` where there is none that can be read.

    It only ever refines what the file's own types say, so a damaged one costs shapes and names of types, never values.
    """
    if text is None:
        return None
    try:
        return Schema.from_json(text.decode() if isinstance(text, bytes) else text)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
