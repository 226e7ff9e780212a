"""``headrace verify``: find every fault in files."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.failures import DATA_FAULT
from headrace.cli.options import (
    AsJson,
    CodecName,
    EngineChoice,
    FormatName,
    OnEngine,
    Paths,
    RayAddress,
    SchemaFile,
    as_path,
    connect_cluster,
    path_in,
    schema_in,
)
from headrace.cli.terminal import count_of, note, print_json, print_line, printable, size_of
from headrace.errors import DataError
from headrace.io.urls import is_url
from headrace.writing.salvage import salvage as salvage_file
from headrace.writing.verify import Report
from headrace.writing.verify import verify as verify_files

__all__ = ["verify"]


def verify(
    paths: Paths,
    *,
    format: FormatName = None,
    codec: CodecName = None,
    schema: SchemaFile = None,
    salvage: Annotated[
        str | None,
        typer.Option(
            "--salvage",
            parser=lambda text: text if is_url(text) else str(path_in(text)),
            metavar="OUT",
            show_default=False,
            help="Copy the intact records of one file into a new one.",
        ),
    ] = None,
    images: Annotated[bool, typer.Option("--images", help="Also decode every image.")] = False,
    on: OnEngine = EngineChoice.threads,
    address: RayAddress = None,
    as_json: AsJson = False,
) -> None:
    """Verify files, and list every fault.

    Checks every checksum, length and count, and the structure of every payload. --schema also compares every record with a schema, --images decodes every image. The exit code is 1 if there is a fault.

    Examples:
      headrace verify train.tfrecord
      headrace verify 'shards/*.tfrecord' && python train.py
      headrace verify train.tfrecord --json | jq '.faults[].record'
      headrace verify photos/ --images
      headrace verify 's3://bucket/*.tfrecord' --on ray
      headrace verify damaged.array_record --salvage saved.array_record
    """
    with connect_cluster(on, address) as engine:
        report = verify_files(
            as_path(paths),
            format=format,
            codec=codec,
            schema=schema_in(schema),
            images=images,
            progress=True,
            on=engine,
        )
    if as_json:
        print_json(report.to_json())
    else:
        _show(report)
    if salvage is not None:
        saved = salvage_file(as_path(paths), salvage, format=format)
        lost = "an unknown number" if saved.lost_records is None else f"{saved.lost_records:,}"
        note(
            f"saved {count_of(saved.records, 'record')} in {printable(str(salvage))}; {lost} lost, {size_of(saved.lost_bytes)} damaged"
        )
    if not report.ok:
        raise typer.Exit(DATA_FAULT)


def _show(report: Report) -> None:
    for fault in report.faults:
        print_line(f"{type(fault).__name__}: {_sentence(fault)}", style="red")
    if report.more_faults:
        print_line(f"... and {report.more_faults:,} more", style="red")
    count = len(report.faults) + report.more_faults
    print_line(
        f"{count_of(report.files, 'file')}, {count_of(report.records, 'intact record')}, {size_of(report.bytes)}"
        + (f", {count_of(report.images, 'image')} decoded: " if report.looked_for_images else ": ")
        + ("no fault" if report.ok else count_of(count, "fault")),
        style="green" if report.ok else "bold red",
    )


def _sentence(fault: DataError) -> str:
    """The message without its hint, which names this command."""
    place = str(fault.where)
    return printable((f"{place}: " if place else "") + f"expected {fault.expected}, found {fault.found}")
