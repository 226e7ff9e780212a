"""``headrace inspect``, ``headrace head``, ``headrace schema`` and ``headrace view``: commands that show data."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Annotated, Any

import typer

from headrace.cli.failures import exit_code, print_error
from headrace.cli.options import (
    AsJson,
    CodecName,
    Columns,
    FormatName,
    Paths,
    SchemaFile,
    SkipCorrupt,
    WhereOption,
    as_path,
    known_rows,
    names_in,
    on_corrupt,
    open_from_options,
    report_skipped,
    rows_in,
    schema_in,
    where_in,
)
from headrace.cli.terminal import note, print_json, print_line, print_table, printable, size_of, width
from headrace.contracts.records import Skipped
from headrace.contracts.schema import Schema
from headrace.contracts.values import Example
from headrace.errors import DataError, shorten_path
from headrace.formats.open import open_records
from headrace.formats.registry import format_named
from headrace.io.local.fileset import FileSet
from headrace.io.local.open import total_size
from headrace.sources.conditions.condition import Condition, condition
from headrace.sources.open import open as open_source
from headrace.sources.operations.choosing import Filtered
from headrace.sources.source import Source
from headrace.statistics.display import shorten, to_json
from headrace.viewer.dataset import open_datasets
from headrace.viewer.server import LOOPBACK, run_viewer

__all__ = ["head", "inspect", "print_schema", "schema", "view"]

SHOWN = 5
"""Examples that ``head`` shows unless told otherwise."""


def schema(
    paths: Paths,
    *,
    format: FormatName = None,
    codec: CodecName = None,
    columns: Columns = None,
    as_json: AsJson = False,
) -> None:
    """Show the names and types of features, inferred from the first records.

    --json prints what Schema.from_json and the --schema option of other commands read.

    Examples:
      headrace schema train.tfrecord
      headrace schema 'shards/*.tfrecord' --json > schema.json
    """
    found = open_from_options(paths, format=format, codec=codec, columns=columns).schema
    if as_json:
        print_json(json.loads(found.to_json()))
    else:
        print_schema(found)


def print_schema(schema: Schema, *, indent: int = 0) -> None:
    """Print a schema as a table."""
    rows = []
    for name, feature in schema.items():
        dtype = (
            feature.dtype
            + (f" ({feature.encoding})" if feature.encoding else "")
            + (" (sparse)" if feature.sparse else "")
        )
        keys = "" if feature.keys is None else f" from {', '.join(map(printable, feature.keys.keys))}"
        shape = str(feature.shape) + keys + ("" if feature.default is None else f" default {feature.default!r}")
        rows.append((printable(name), dtype, shape))
    print_table(("feature", "dtype", "shape"), rows, indent=indent)


def head(
    paths: Paths,
    *,
    count: Annotated[
        int | None,
        typer.Option("--count", "-n", min=0, show_default=False, help="Largest number of examples.  [default: 5]"),
    ] = None,
    rows: Annotated[
        list[str] | None,
        typer.Option(
            "--rows",
            metavar="ROW[:STOP][,...]",
            callback=known_rows,
            show_default=False,
            help="These examples by index, as in 7,100:110.  [default: the first ones]",
        ),
    ] = None,
    where: WhereOption = None,
    columns: Columns = None,
    format: FormatName = None,
    codec: CodecName = None,
    schema: SchemaFile = None,
    skip_corrupt: SkipCorrupt = False,
    as_json: AsJson = False,
) -> None:
    """Show the first examples, or those that --rows or --where picks.

    The first ones need no index.

    --json prints each example in full on one line: arrays as nested lists, bytes as {"b64": "..."}, and numbers that JSON lacks
    as "nan", "inf" or "-inf".

    Examples:
      headrace head train.tfrecord
      headrace head -n 100 --columns label,name train.tfrecord --json | jq .label
      headrace head --where 'label = 7 and width > 100' train.tfrecord
      headrace head --rows 1234567,2000000:2000010 train.tfrecord
    """
    wanted = where_in(where)
    if rows and wanted is not None:
        raise typer.BadParameter("use either --rows or --where", param_hint="--rows")
    if rows and count is not None:
        raise typer.BadParameter("use either --rows or --count", param_hint="--rows")
    count = SHOWN if count is None else count
    # A condition may need features that are not among the columns.
    source = open_from_options(
        paths,
        format=format,
        codec=codec,
        schema=schema,
        columns=columns if wanted is None else None,
        skip_corrupt=skip_corrupt,
    )
    names = names_in(columns) or list(source.schema)
    found: Iterator[tuple[int, Example]] = enumerate(source)
    if rows:
        found, count = ((row, source[row]) for row in rows_in(rows, len(source))), sys.maxsize
    elif wanted is not None:
        found = _fitting(source, condition(wanted), names)
    examples: list[tuple[int, Example]] = []
    is_complete = False
    try:
        for index, example in islice(found, min(count, sys.maxsize)):
            examples.append((index, example))
            if as_json:
                print_json(to_json(dict(example)), indent=None)
        is_complete = True
    finally:  # Show the examples before the damage, then report the damage.
        if not as_json and (examples or is_complete):
            _print_examples(names, examples)
    report_skipped(source.skipped)


def _fitting(source: Source, wanted: Condition, names: Sequence[str]) -> Iterator[tuple[int, Example]]:
    """The examples that fit a condition, with their indices and these features."""
    node = source.select(*dict.fromkeys([*names, *wanted.needed(source.schema)])).node
    return (
        (index, {name: example[name] for name in names}) for index, example in Filtered(node, wanted).indexed_examples()
    )


def _print_examples(names: Sequence[str], examples: Sequence[tuple[int, Example]]) -> None:
    headings = ["", *map(printable, names)]
    rows = [[str(number), *(shorten(example[name]) for name in names)] for number, example in examples]
    widths = [max(len(row[column]) for row in [headings, *rows]) for column in range(len(headings))]
    if sum(widths) + 2 * len(widths) <= width():
        print_table(headings, rows)
        return
    # Too many features for one row: list names and values.
    for row in rows:
        print_line(f"example {row[0]}", style="bold")
        print_table(("feature", "value"), list(zip(headings[1:], row[1:], strict=True)), show_headings=False, indent=2)


@dataclass(slots=True)
class _Facts:
    """Facts about files; ``None`` where damage has hidden them."""

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
    """Show format, size, schema and first example of files.

    Counting the records of a TFRecord file builds its index once (see `headrace index`). Of damaged files it shows the intact
    part.

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
    report_skipped(facts.skipped)
    for fault in facts.faults:
        print_error(fault)
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
        facts.first = next(islice(source, 1), None)
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
    """Compression of all files: ``gzip``, or ``gzip, none`` where they differ."""
    found = format_named(format)
    if found.compression_of is not None:
        return found.compression_of(paths)
    if not found.compressible:
        return "none"
    files = FileSet(paths, compression=None, is_plain=found.knows)
    return ", ".join(sorted({files.wrapper(number) for number in range(len(paths))}))


def _show(facts: _Facts) -> None:
    exact = f" ({facts.bytes:,} bytes)" if facts.bytes >= 1000 else ""
    name = printable(shorten_path(facts.paths[0])) + (
        f" and {len(facts.paths) - 1:,} more" if len(facts.paths) > 1 else ""
    )
    rows = [
        ("file" if len(facts.paths) == 1 else "files", name),
        ("format", facts.format),
        ("compression", facts.compression),
        ("records", "unknown: the data is damaged" if facts.records is None else f"{facts.records:,}"),
        ("size", size_of(facts.bytes) + exact),
    ]
    print_table(("", ""), rows, show_headings=False)
    if facts.schema is not None:
        print_line()
        print_schema(facts.schema)
    if facts.first is not None:
        print_line()
        print_line("first example", style="bold")
        values = [(printable(feature), shorten(value)) for feature, value in facts.first.items()]
        print_table(("", ""), values, show_headings=False)


def _as_json(facts: _Facts) -> dict[str, Any]:
    return {
        "paths": list(facts.paths),
        "format": facts.format,
        "compression": facts.compression,
        "records": facts.records,
        "bytes": facts.bytes,
        "schema": None if facts.schema is None else json.loads(facts.schema.to_json()),
        "first_example": None if facts.first is None else to_json(dict(facts.first)),
        "skipped": {"records": facts.skipped.records, "bytes": facts.skipped.bytes},
        "faults": [str(fault) for fault in facts.faults],
    }


def view(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PATH]...",
            show_default=False,
            help="Files, folders, globs, URLs or prepared datasets; each is shown by itself.",
        ),
    ] = None,
    *,
    host: Annotated[
        str,
        typer.Option(
            "--host",
            metavar="ADDRESS",
            help="Listen on this address. Any but the default lets other machines in, with the token.",
        ),
    ] = LOOPBACK,
    port: Annotated[
        int, typer.Option("--port", "-p", min=0, max=65535, help="Listen on this port. 0: a free one.")
    ] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open a browser.")] = True,
    format: FormatName = None,
    codec: CodecName = None,
    schema: SchemaFile = None,
    columns: Columns = None,
    skip_corrupt: SkipCorrupt = False,
) -> None:
    """Show datasets on a local web page: rows, images, statistics, faults, the loader's order.

    Two paths can be compared side by side. Without a path it shows the endpoints of this machine. The printed address holds a token,
    without which other users of this machine cannot look. Nothing is written to the data.

    Examples:
      headrace view train.tfrecord
      headrace view before.tfrecord after.array_record
      headrace view --no-browser --port 8000 s3://bucket/train.parquet
    """
    options = {
        "format": format,
        "codec": codec,
        "schema": schema_in(schema),
        "columns": names_in(columns),
        "on_corrupt": on_corrupt(True) if skip_corrupt else None,
    }
    given = {name: value for name, value in options.items() if value is not None}
    datasets = [each for path in paths or () for each in open_datasets(path, **given)]

    def print_address(address: str) -> None:
        print_line(address)
        note("Ctrl-C ends the viewer")

    run_viewer(datasets, host=host, port=port, browser=browser, started=print_address)
