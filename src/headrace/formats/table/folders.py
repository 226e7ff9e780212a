"""Folders that are data sets: their classes, and the notes in them that say how they are opened again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence

from headrace.contracts.schema import Schema
from headrace.errors import CorruptFile, NoFiles, UnsupportedData, Where
from headrace.io.folders import AtomicFolder, Listing
from headrace.io.json_text import load_json
from headrace.io.local.open import read_each
from headrace.io.urls import child_of, parent_of

__all__ = [
    "FORMAT_NOTE",
    "NOTE",
    "SPLITS",
    "are_splits",
    "class_names",
    "is_marked",
    "is_marked_empty",
    "mark_empty",
    "mark_format",
    "refuse_splits",
    "schema_if_empty",
]


NOTE = "headrace-empty.json"
"""Holds the format and the schema of a folder without examples."""
FORMAT_NOTE = "headrace-format.json"
"""Names the format of a folder of arrays, whose files could also be rows each."""
SPLITS = frozenset(("train", "training", "test", "testing", "val", "valid", "validation", "dev", "eval"))
"""Names of folders that are splits, not classes."""


def are_splits(folders: Iterable[str]) -> bool:
    """Whether all names are those of splits."""
    return all(name.lower() in SPLITS for name in folders)


def refuse_splits(folder: str, names: Sequence[str]) -> None:
    """Refuse splits where classes are expected.

    Raises:
        UnsupportedData: All of these folders in a folder are splits.
    """
    if names and are_splits(names):
        raise UnsupportedData(
            Where(path=folder),
            expected="a folder for each class",
            found=f"the splits {', '.join(names)}",
            hint=f"split={names[0]!r} opens one of them.",
        )


def class_names(listing: Listing, folders: Callable[[Listing], Sequence[str]]) -> tuple[str, ...]:
    """The classes in a folder. If it is one of several splits, those of all splits, so that labels agree.

    Args:
        listing: Of the folder.
        folders: Which folders in a folder are classes.
    """
    parent, name = parent_of(listing.folder)
    if not are_splits([name]):
        return tuple(folders(listing))
    splits = [child_of(parent, other) for other in Listing.of(parent).folders if are_splits([other])]
    return tuple(sorted({each for split in splits for each in folders(_list_split(split))}))


def _list_split(folder: str) -> Listing:
    try:
        return Listing.of(folder)
    except NoFiles:  # an empty folder in a store, which only the listing of its parent shows
        return Listing(folder, (), ())


def mark_empty(folder: AtomicFolder, format: str, schema: Schema) -> None:
    """Mark a folder that is being written as one of this format without examples."""
    text = json.dumps({"format": format, **json.loads(schema.to_json())}, ensure_ascii=False)
    folder.write(NOTE, text.encode())


def mark_format(folder: AtomicFolder, format: str) -> None:
    """Note the format of a folder that is being written."""
    folder.write(FORMAT_NOTE, json.dumps({"format": format}).encode())


def is_marked(listing: Listing, format: str) -> bool:
    """Whether a note says that a folder has this format.

    Raises:
        CorruptFile: A note cannot be read.
    """
    if is_marked_empty(listing, format):
        return True
    path = child_of(listing.folder, FORMAT_NOTE)
    if FORMAT_NOTE not in listing.files:
        return False
    try:
        return bool(load_json(read_each([path])[0].decode())["format"] == format)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptFile(Where(path=path), expected="a format as JSON", found=str(error)) from error


def is_marked_empty(listing: Listing, format: str) -> bool:
    """Whether a folder is marked as an empty one of this format."""
    return NOTE in listing.files and _note(listing)[0] == format


def schema_if_empty(listing: Listing, format: str) -> Schema | None:
    """The schema of a folder that is marked as an empty one of this format; else ``None``.

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
