"""Salvaging the intact records of a damaged file."""

from __future__ import annotations

from typing import Any

from headrace.contracts.records import Salvaged
from headrace.errors import UnsupportedData, Where
from headrace.formats.open import detect, open_records
from headrace.formats.registry import format_named, format_of_name
from headrace.io.folders import first_existing
from headrace.io.paths import PathLike, expand, expand_home
from headrace.writing.sinks import open_writer
from headrace.writing.target import SHARD_PATTERN, Target

__all__ = ["salvage"]


def salvage(path: PathLike | list[str], out: PathLike, *, format: str | None = None) -> Salvaged:
    """Copy every intact record of one file into a new one of the same format.

    Args:
        path: The damaged file. It is not changed.
        out: The new file, which must not exist. It gets its name when it is complete.
        format: Of the file; by default found from its content, then from its name.

    Raises:
        UnsupportedData: ``path`` is more than one file, ``out`` exists, or names shards or another format, or the records of the format have no boundaries.
        CorruptFile: There is nothing to salvage.
    """
    paths = expand(path)
    if len(paths) != 1:
        raise UnsupportedData(Where(), expected="one file to salvage", found=f"{len(paths)}")
    out = expand_home(out)
    if SHARD_PATTERN.match(out):
        hint = "Salvage into one file, then write that in shards: headrace.convert(file, 'x@8')."
        raise UnsupportedData(Where(path=out), expected="the name of one new file", found="that of shards", hint=hint)
    if first_existing([out]):
        raise UnsupportedData(Where(path=out), expected="a new file", found="one that already exists")
    found = format_named(format) if format is not None else detect(paths[0])
    named = format_of_name(out)
    if named not in (None, found.name):
        expected = f"the name of a file of the same format, {found.name}"
        hint = "Salvage into that format, then convert it: headrace.convert(file, ...)."
        raise UnsupportedData(Where(path=out), expected=expected, found=f"that of {named}", hint=hint)
    if found.salvage is not None:
        return found.salvage(paths[0], out)
    return _written_again(paths[0], out, found.name)


def _written_again(path: str, out: str, format: str) -> Salvaged:
    if format_named(format).writer is None:
        raise UnsupportedData(Where(path=path), expected="a format of records", found=format)
    target = Target.of(out, format=format)
    records: Any = open_records([path], format=format, on_corrupt="skip")
    count = 0
    with open_writer(out, format, target.compression) as writer:
        for _, spans in records.iter_spans():
            writer.write_many(spans.to_bytes())
            count += len(spans)
    skipped = records.skipped
    # A damaged stretch is at least one record; the file does not say how many.
    return Salvaged(records=count, lost_records=None if skipped.records else 0, lost_bytes=skipped.bytes)
