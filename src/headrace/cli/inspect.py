"""``headrace inspect``: what some files are."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import typer

from headrace.cli.head import first_examples
from headrace.cli.options import AsJson, CodecName, FormatName, Paths, SkipCorrupt, as_path, on_corrupt, tell_skipped
from headrace.cli.schema import print_schema
from headrace.cli.terminal.console import print_json, print_line, print_table
from headrace.cli.terminal.failures import exit_code, tell
from headrace.cli.terminal.values import plain, printable, short, size_of
from headrace.contracts.records import Skipped
from headrace.contracts.schema import Schema
from headrace.contracts.values import Example
from headrace.errors import DataError
from headrace.formats.detect import format_named
from headrace.formats.opening import open_records
from headrace.io.fileset import FileSet
from headrace.io.reading import total_size
from headrace.sources.opening import open as open_source

__all__ = ["inspect"]


@dataclass(slots=True)
class _Facts:
    """What was found out; ``None`` where damage stood in the way."""

    paths: tuple[str, ...]
    format: str
    bytes: int
    compression: str
    records: int | None = None
    schema: Schema | None = None
    first: Example | None = None
    skipped: Skipped = field(default_factory=Skipped)
    faults: list[DataError] = field(default_factory=list)


def inspect(
    paths: Paths,
    *,
    format: FormatName = None,
    codec: CodecName = None,
    skip_corrupt: SkipCorrupt = False,
    as_json: AsJson = False,
) -> None:
    """Show what files are: format, size, schema, first example.

    Counting the records of a TFRecord file builds its index, once; see `headrace index`. Files that are damaged are shown as
    far as they can be read.

    Examples:
      headrace inspect train.tfrecord
      headrace inspect images.npy
      headrace inspect train@8 --json
    """
    facts = _look(as_path(paths), format, codec, skip_corrupt=skip_corrupt)
    if as_json:
        print_json(_as_json(facts))
    else:
        _show(facts)
    tell_skipped(facts.skipped)
    for fault in facts.faults:
        tell(fault)
    if facts.faults:
        raise typer.Exit(exit_code(facts.faults[0]))


def _look(path: str | list[str], format: str | None, codec: str | None, *, skip_corrupt: bool) -> _Facts:
    records = open_records(path, format=format, on_corrupt=on_corrupt(skip_corrupt))
    facts = _Facts(
        paths=records.paths,
        format=records.format,
        bytes=total_size(records.paths),
        compression=_compression(records.paths, records.format),
    )
    try:
        source = open_source(path, format=format, codec=codec, on_corrupt=on_corrupt(skip_corrupt), decode=False)
        facts.schema = source.schema
        facts.first = next(first_examples(source, 1), None)
    except DataError as fault:
        facts.faults.append(fault)
    try:
        facts.records = len(records)
    except DataError as fault:
        if not facts.faults or fault.where != facts.faults[0].where:
            facts.faults.append(fault)
    facts.skipped = records.skipped
    return facts


def _compression(paths: tuple[str, ...], format: str) -> str:
    """Of all files: ``gzip``, or ``gzip, none`` where they differ."""
    found = format_named(format)
    if found.compression_of is not None:
        return found.compression_of(paths)
    if not found.compressible:
        return "none"
    files = FileSet(paths, compression=None, is_plain=found.knows)
    return ", ".join(sorted({files.wrapper(number) for number in range(len(paths))}))


def _show(facts: _Facts) -> None:
    exact = f" ({facts.bytes:,} bytes)" if facts.bytes >= 1000 else ""
    name = printable(facts.paths[0]) + (f" and {len(facts.paths) - 1:,} more" if len(facts.paths) > 1 else "")
    rows = [
        ("file" if len(facts.paths) == 1 else "files", name),
        ("format", facts.format),
        ("compression", facts.compression),
        ("records", "not known: the data is damaged" if facts.records is None else f"{facts.records:,}"),
        ("size", size_of(facts.bytes) + exact),
    ]
    print_table(("", ""), rows, show_headings=False)
    if facts.schema is not None:
        print_line()
        print_schema(facts.schema)
    if facts.first is not None:
        print_line()
        print_line("first example", style="bold")
        values = [(printable(feature), short(value)) for feature, value in facts.first.items()]
        print_table(("", ""), values, show_headings=False)


def _as_json(facts: _Facts) -> dict[str, Any]:
    return {
        "paths": list(facts.paths),
        "format": facts.format,
        "compression": facts.compression,
        "records": facts.records,
        "bytes": facts.bytes,
        "schema": None if facts.schema is None else json.loads(facts.schema.to_json()),
        "first_example": None if facts.first is None else plain(dict(facts.first)),
        "skipped": {"records": facts.skipped.records, "bytes": facts.skipped.bytes},
        "faults": [str(fault) for fault in facts.faults],
    }
