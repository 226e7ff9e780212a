"""The note that a folder without examples carries, so that it can be opened again: which format it is, and its schema."""

from __future__ import annotations

import json

from headrace.contracts.schema import Schema
from headrace.errors import CorruptFile, Where
from headrace.io.folders import AtomicFolder, Listing
from headrace.io.json_text import load_json
from headrace.io.local.open import read_each
from headrace.io.urls import child_of

__all__ = ["NOTE", "is_noted", "leave_note", "noted_schema"]


NOTE = "headrace-empty.json"


def leave_note(folder: AtomicFolder, format: str, schema: Schema) -> None:
    """Say in a folder that is being written that it is one of this format, with no example."""
    text = json.dumps({"format": format, **json.loads(schema.to_json())}, ensure_ascii=False)
    folder.write(NOTE, text.encode())


def is_noted(listing: Listing, format: str) -> bool:
    """Whether a folder says that it is an empty one of this format."""
    return NOTE in listing.files and _note(listing)[0] == format


def noted_schema(listing: Listing, format: str) -> Schema | None:
    """The schema of an empty folder of this format; ``None`` where it does not say that it is one.

    Raises:
        CorruptFile: The note cannot be read.
    """
    if NOTE not in listing.files:
        return None
    found, schema = _note(listing)
    return schema if found == format else None


def _note(listing: Listing) -> tuple[str, Schema]:
    path = child_of(listing.folder, NOTE)
    content = read_each([path])[0]
    try:
        text = content.decode()
        return str(load_json(text)["format"]), Schema.from_json(text)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptFile(Where(path=path), expected="a format and a schema as JSON", found=str(error)) from error
