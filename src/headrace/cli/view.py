"""``headrace view``: a local web page that shows datasets."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.options import (
    CodecName,
    Columns,
    FormatName,
    SchemaFile,
    SkipCorrupt,
    names_in,
    on_corrupt,
    schema_in,
)
from headrace.cli.terminal import note, print_line
from headrace.viewer.dataset import open_dataset
from headrace.viewer.server import LOOPBACK, run_viewer

__all__ = ["view"]


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
            help="Listen on this address. Others than the default let other machines in, with the token.",
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

    Two paths can be compared side by side; without a path it shows the endpoints of this machine. It prints an address that holds a
    token; other users of this machine cannot look without it. Nothing is written to the data.

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
    datasets = [open_dataset(path, **given) for path in paths or ()]

    def tell(address: str) -> None:
        print_line(address)
        note("Ctrl-C ends the viewer")

    run_viewer(datasets, host=host, port=port, browser=browser, started=tell)
