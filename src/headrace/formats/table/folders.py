"""Folders that are data sets: their classes, the notes in them that say how they are opened again, and those of other table formats."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Sequence

from headrace.contracts.schema import Schema
from headrace.errors import CorruptFile, NoFiles, UnsupportedData, Where
from headrace.io.folders import AtomicFolder, Listing, first_existing
from headrace.io.json_text import load_json
from headrace.io.local.open import read_each
from headrace.io.paths import PathLike
from headrace.io.urls import base_name, child_of, is_listing, is_url, parent_of

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
    "refuse_managed",
    "refuse_splits",
    "schema_if_empty",
]


NOTE = "headrace-empty.json"
"""Holds the format and the schema of a folder without examples."""
FORMAT_NOTE = "headrace-format.json"
"""Names the format of a folder of arrays, whose files could also be rows each."""
SPLITS = frozenset(("train", "training", "test", "testing", "val", "valid", "validation", "dev", "eval"))
"""Names of folders that are splits, not classes."""

HUDI = ("a Hudi table", "hudi", "pyarrow.Table.from_batches(the record batches that it reads)")
ICEBERG = ("an Iceberg table", "pyiceberg", "table.scan().to_arrow()")
MANAGED = {
    "_delta_log": ("a Delta Lake table", "deltalake", "deltalake.DeltaTable(path).to_pyarrow_table()"),
    ".hoodie": HUDI,
    ".hoodie_partition_metadata": HUDI,
}
"""What is in the folders of table formats that keep files of deleted rows: the kind of table, the library that reads it, and its Arrow table."""
MOST_LOOKED = 64
"""Folders in which those are searched. In a store, each takes some requests."""


def refuse_managed(given: Iterable[PathLike], files: Sequence[str] = ()) -> None:
    """Refuse folders and patterns that mean files of a Delta Lake, Iceberg or Hudi table: those of deleted and replaced rows are among them.

    Args:
        given: What was opened. Files that are named are not refused.
        files: What it means; none if there are no such files.

    Raises:
        UnsupportedData: They are files of a table, or the folder is that of one.
    """
    paths = [os.path.expanduser(each) for each in given]
    if not files:
        return _refuse_managed([each for each in paths if is_listing(each) or os.path.isdir(each)], hold_files=False)
    named = {str(each).removeprefix("file://") for each in paths}
    found = [each for each in files if each.endswith((".parquet", ".avro")) and each not in named]
    folders = [each.rpartition("/")[0] if is_url(each) else os.path.dirname(each) for each in found]
    return _refuse_managed(list(dict.fromkeys(folders)), hold_files=True)


def _refuse_managed(folders: Sequence[str], *, hold_files: bool) -> None:
    """Refuse folders of tables, and of their partitions and data files. Those of Iceberg have no data files in their top folder."""
    marks: dict[str, str] = {}
    for folder in [each for each in folders if is_listing(each) or not is_url(each)][:MOST_LOOKED]:
        inner = top = folder.rstrip("/") if is_url(folder) else os.path.abspath(folder)
        while "=" in base_name(top):  # a partition, such as year=2024
            top = parent_of(top)[0]
        above, name = parent_of(top)
        for table in [above] * (name == "data") + [top] * (not hold_files):
            with contextlib.suppress(NoFiles, OSError):
                if Listing.of(child_of(table, "metadata")).named(".metadata.json"):
                    raise _managed_error(table, "metadata", ICEBERG)
        marks |= {child_of(inner if "partition" in mark else top, mark): top for mark in MANAGED}
    if (found := first_existing(list(marks))) is not None:
        raise _managed_error(marks[found], base_name(found), MANAGED[base_name(found)])


def _managed_error(folder: str, mark: str, kind: tuple[str, str, str]) -> UnsupportedData:
    table, library, arrow = kind
    return UnsupportedData(
        Where(path=folder),
        expected="a folder whose files hold its rows and no others",
        found=f"{table} ({mark}), which keeps files of deleted and replaced rows",
        hint=f"Read it with {library}, and open its Arrow table: hr.open({arrow}). A list of paths opens just those files.",
    )


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
