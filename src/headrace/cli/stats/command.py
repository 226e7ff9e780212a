"""``headrace stats``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

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
from headrace.cli.stats.collect import Collector
from headrace.cli.stats.page import page
from headrace.cli.stats.report import print_report
from headrace.cli.stats.sample import Sample
from headrace.cli.stats.summary import Summary
from headrace.cli.terminal.console import note, print_json
from headrace.io.atomic import AtomicFile
from headrace.io.progress import Progress

__all__ = ["stats"]


def stats(
    paths: Paths,
    *,
    sample: Annotated[
        int, typer.Option("--sample", metavar="N", min=1, help="Read at most so many examples.")
    ] = 10_000,
    read_all: Annotated[bool, typer.Option("--all", help="Read every example.")] = False,
    columns: Columns = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", show_default=False, help="Write a page with plots.")
    ] = None,
    brief: Annotated[bool, typer.Option("--brief", help="The table alone, without histograms.")] = False,
    format: FormatName = None,
    codec: CodecName = None,
    schema: SchemaFile = None,
    skip_corrupt: SkipCorrupt = False,
    as_json: AsJson = False,
) -> None:
    """Show what the values are like: extremes, mean, distribution.

    By default a sample of 10,000 examples from all over the files is read (the first ones of a compressed file that is not in the
    cache yet); the output says how many were read and how they were picked.

    Examples:
      headrace stats train.tfrecord
      headrace stats train.tfrecord --all --html stats.html
      headrace stats train.tfrecord -c label --json
    """
    source = opened(paths, format=format, codec=codec, schema=schema, columns=columns, skip_corrupt=skip_corrupt)
    taken = Sample(source, None if read_all else sample)
    summaries = _collect(taken)
    title = paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
    if html is not None:
        with AtomicFile(html) as file:
            file.write_text(page(title, taken.statement, summaries))
        note(f"wrote {html}")
    if as_json:
        print_json(_as_json(paths, taken, summaries))
    elif html is None:
        print_report(title, taken.statement, summaries, brief=brief)
    tell_skipped(source.skipped)


def _collect(sample: Sample) -> list[Summary]:
    source = sample.source
    collectors = {name: Collector(name, feature) for name, feature in source.schema.items()}
    batches = sample.batches()
    with Progress("reading", sample.wanted, "examples") as bar:
        for batch, count in batches:
            for name, collector in collectors.items():
                collector.add(batch[name])
            bar.advance(count)
    return [collector.summary() for collector in collectors.values()]


def _as_json(paths: Sequence[str], sample: Sample, summaries: Sequence[Summary]) -> dict[str, Any]:
    return {
        "paths": list(paths),
        "examples_read": sample.read,
        "examples": sample.total,
        "statement": sample.statement,
        "features": [summary.to_json() for summary in summaries],
    }
