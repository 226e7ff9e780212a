"""``headrace stats``: the statistics of features, printed or as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.options import (
    AsJson,
    CodecName,
    Columns,
    EngineChoice,
    FormatName,
    OnEngine,
    Paths,
    RayAddress,
    SchemaFile,
    SkipCorrupt,
    WhereOption,
    check_output,
    connect_cluster,
    open_from_options,
    path_in,
    report_skipped,
)
from headrace.cli.stats.report import page, print_report
from headrace.cli.terminal import note, print_json
from headrace.io.progress import Progress
from headrace.io.write.atomic import AtomicFile
from headrace.statistics.stats import collect_by
from headrace.writing.engines import open_engine

__all__ = ["stats"]

SAMPLE = 10_000


def stats(
    paths: Paths,
    *,
    sample: Annotated[
        int | None,
        typer.Option(
            "--sample",
            metavar="N",
            min=1,
            show_default=False,
            help="Largest number of examples to read.  [default: 10000]",
        ),
    ] = None,
    read_all: Annotated[bool, typer.Option("--all", help="Read every example.")] = False,
    columns: Columns = None,
    where: WhereOption = None,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", parser=path_in, metavar="FILE", show_default=False, help="Write an HTML page with plots."
        ),
    ] = None,
    brief: Annotated[bool, typer.Option("--brief", help="Print the table only, without histograms.")] = False,
    format: FormatName = None,
    codec: CodecName = None,
    schema: SchemaFile = None,
    skip_corrupt: SkipCorrupt = False,
    on: OnEngine = EngineChoice.threads,
    address: RayAddress = None,
    as_json: AsJson = False,
) -> None:
    """Show statistics of the values: extremes, mean, distribution.

    By default it reads a random sample of 10,000 examples, or the first ones of a compressed file that is not in the cache yet.
    The output says how many were read, and how they were chosen.

    Examples:
      headrace stats train.tfrecord
      headrace stats train.tfrecord --all --html stats.html
      headrace stats train.tfrecord -c label --json
      headrace stats train.tfrecord --where 'label = 7'
      headrace stats 's3://bucket/*.tfrecord' --all --on ray
    """
    if read_all and sample is not None:
        raise typer.BadParameter("use either --all or --sample", param_hint="--sample")
    html = None if html is None else check_output(html, paths, "--html")
    source = open_from_options(
        paths, format=format, codec=codec, schema=schema, columns=columns, skip_corrupt=skip_corrupt, where=where
    )
    wanted = None if read_all else sample or SAMPLE
    with (
        connect_cluster(on, address) as chosen,
        open_engine(chosen) as engine,
        Progress("reading", wanted, "examples") as bar,
    ):
        found = collect_by(engine, source, wanted, lambda _, count: bar.advance(count), show=True)
    hint = "" if found.read == found.total else " (--all reads every one)"
    summaries = list(found.features.values())
    title = paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
    if html is not None:
        with AtomicFile(html) as file:
            # names of files may hold bytes that are not UTF-8
            file.write(page(title, found.statement + hint, summaries).encode(errors="backslashreplace"))
        note(f"wrote {html}")
    if as_json:
        print_json({"paths": list(paths), **found.to_json(), "statement": found.statement + hint})
    elif html is None:
        print_report(title, found.statement + hint, summaries, brief=brief)
    report_skipped(source.skipped)
