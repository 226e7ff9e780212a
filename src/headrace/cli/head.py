"""``headrace head``: the first examples."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Annotated

import typer

from headrace.cli.options import (
    AsJson,
    CodecName,
    Columns,
    FormatName,
    Paths,
    SchemaFile,
    SkipCorrupt,
    opened,
    tell_skipped,
)
from headrace.cli.terminal.console import print_json, print_line, print_table, width
from headrace.cli.terminal.values import plain, printable, short
from headrace.contracts.values import Example
from headrace.sources.views import Source

__all__ = ["first_examples", "head"]


def head(
    paths: Paths,
    *,
    count: Annotated[int, typer.Option("--count", "-n", min=0, help="How many examples.")] = 5,
    columns: Columns = None,
    format: FormatName = None,
    codec: CodecName = None,
    schema: SchemaFile = None,
    skip_corrupt: SkipCorrupt = False,
    as_json: AsJson = False,
) -> None:
    """Show the first examples. Needs no index, whatever the size of the files.

    With --json every example is one line, whole: arrays are nested lists, bytes {"b64": "..."}, and what JSON has no number
    for is "nan", "inf" or "-inf".

    Examples:
      headrace head train.tfrecord
      headrace head -n 100 --columns label,name train.tfrecord --json | jq .label
    """
    source = opened(paths, format=format, codec=codec, schema=schema, columns=columns, skip_corrupt=skip_corrupt)
    examples: list[Example] = []
    try:
        for example in first_examples(source, count):
            examples.append(example)
            if as_json:
                print_json(plain(dict(example)), indent=None)
    finally:  # What comes before damage is shown before the damage is reported.
        if not as_json:
            _print_examples(list(source.schema), examples)
    tell_skipped(source.skipped)


def first_examples(source: Source, count: int) -> Iterator[Example]:
    """The first examples. Records are read in order, which needs no index; rows of arrays one by one, as they may be large."""
    if hasattr(source, "stream"):
        return islice(source, count)
    return (source[i] for i in range(min(count, len(source))))


def _print_examples(names: list[str], examples: list[Example]) -> None:
    headings = ["", *map(printable, names)]
    rows = [[str(number), *(short(example[name]) for name in names)] for number, example in enumerate(examples)]
    widths = [max(len(row[column]) for row in [headings, *rows]) for column in range(len(headings))]
    if sum(widths) + 2 * len(widths) <= width():
        print_table(headings, rows)
        return
    # Too many features for one row: an example is a list of names and values.
    for row in rows:
        print_line(f"example {row[0]}", style="bold")
        print_table(("feature", "value"), list(zip(headings[1:], row[1:], strict=True)), show_headings=False, indent=2)
