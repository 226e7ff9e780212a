"""``headrace convert``: convert between formats."""

from __future__ import annotations

import json
import time
from dataclasses import fields
from typing import Annotated

import typer

from headrace.cli.options import (
    FORMATS,
    AsJson,
    CodecChoice,
    Columns,
    CompressionChoice,
    EngineChoice,
    OnEngine,
    RayAddress,
    SchemaFile,
    SkipCorrupt,
    WhereOption,
    connect_cluster,
    keep_matching,
    known_format,
    names_in,
    on_corrupt,
    open_paths,
    schema_in,
)
from headrace.cli.terminal import count_of, note, print_json, print_line, printable, size_of
from headrace.writing.convert import Converted
from headrace.writing.convert import convert as convert_files

__all__ = ["convert"]


def convert(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="SRC DST", show_default=False, help="Sources, and the file or set (x@8) to write."),
    ],
    *,
    source_format: Annotated[
        str | None,
        typer.Option(
            "--source-format",
            metavar=FORMATS,
            callback=known_format,
            show_default=False,
            help="Format of the sources; for CSV with options, as in csv:header=no,delimiter=tab.  [default: detected]",
        ),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar=FORMATS,
            callback=known_format,
            show_default=False,
            help="For the new files.  [default: by the name of DST]",
        ),
    ] = None,
    codec: Annotated[
        CodecChoice | None,
        typer.Option(
            "--codec", show_default=False, help="Payloads of the new records.  [default: depends on the format]"
        ),
    ] = None,
    schema: SchemaFile = None,
    columns: Columns = None,
    where: WhereOption = None,
    shards: Annotated[int, typer.Option("--shards", min=1, help="Number of files to write.")] = 1,
    compression: Annotated[
        CompressionChoice | None,
        typer.Option("--compression", show_default=False, help="For the new files.  [default: by the name of DST]"),
    ] = None,
    skip_corrupt: SkipCorrupt = False,
    allow_loss: Annotated[
        bool,
        typer.Option("--allow-loss", help="Convert or omit features that the format cannot hold, and report them."),
    ] = False,
    threads: Annotated[
        int | None,
        typer.Option("--threads", min=1, show_default=False, help="Number of threads.  [default: one per core]"),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files that exist.")] = False,
    on: OnEngine = EngineChoice.threads,
    address: RayAddress = None,
    as_json: AsJson = False,
) -> None:
    """Write examples into files of another format or compression.

    The last argument is the file or set of shards (x@8) to write. If the command is interrupted, even by a power cut, run it again to resume.
    New files appear when they are complete.

    Examples:
      headrace convert train.tfrecord.gz train.tfrecord
      headrace convert 'part-*.tfrecord' train.tfrecord@8
      headrace convert train.tfrecord images.npy --columns image
      headrace convert table.parquet table.tfrecord --allow-loss
      headrace convert train.tfrecord sevens.tfrecord --where 'label = 7 and width > 100'
      headrace convert table.txt table.npz --source-format csv:header=no
      headrace convert 'raw/*.tfrecord' train.array_record@64 --on ray --address head:6379
    """
    if len(paths) < 2:
        raise typer.BadParameter("name at least one source, and the file to write", param_hint="SRC... DST")
    begun = time.monotonic()
    try:
        typed, chosen = schema_in(schema), names_in(columns)
        source = open_paths(
            paths[:-1],
            format=source_format,
            schema=typed,
            columns=None if where else chosen,
            on_corrupt=on_corrupt(skip_corrupt),
        )
        if where:
            source = keep_matching(source, where, chosen)
        with connect_cluster(on, address) as engine:
            done = convert_files(
                source,
                paths[-1],
                format=format,
                codec=codec,
                schema=typed,
                columns=chosen,
                shards=shards,
                compression=compression,
                allow_loss=allow_loss,
                threads=threads,
                overwrite=overwrite,
                progress=True,
                on=engine,
            )
    except KeyboardInterrupt:
        raise KeyboardInterrupt("interrupted; run the same command again to resume") from None
    if as_json:
        values = {item.name: getattr(done, item.name) for item in fields(done)}
        schema = json.loads(done.schema.to_json())
        print_json({**values, "paths": list(done.paths), "lost": list(done.lost), "schema": schema})
    else:
        _show(done, time.monotonic() - begun)


def _show(done: Converted, seconds: float) -> None:
    name = printable(done.paths[0]) if len(done.paths) == 1 else count_of(len(done.paths), "file")
    print_line(f"{count_of(done.examples, 'example')} into {name}, {size_of(done.bytes)}, in {seconds:.1f} s")
    if done.resumed:
        print_line(f"{count_of(done.resumed, 'example')} of them by an earlier, interrupted run")
    for sentence in done.lost:
        note(f"lost: {printable(sentence)}")
    if done.skipped:
        note(f"skipped {count_of(done.skipped, 'damaged stretch', 'damaged stretches')}")
