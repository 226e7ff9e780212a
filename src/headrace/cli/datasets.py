"""``headrace prepare`` and ``headrace datasets``: make and list prepared datasets."""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.options import AsJson, path_in
from headrace.cli.terminal import count_of, note, print_json, print_line, print_table, printable, size_of
from headrace.datasets.building.own_files import builder_for
from headrace.datasets.downloading.fetch import Patience
from headrace.datasets.locate import data_folders, find_prepared, prepared_names
from headrace.datasets.named.catalogue import known_builders, named_builder
from headrace.datasets.prepared import Prepared, read_prepared
from headrace.errors import DataError

__all__ = ["DataDir", "datasets", "prepare"]


DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        parser=path_in,
        metavar="FOLDER",
        show_default=False,
        help="The folder of all datasets.  [default: $TFDS_DATA_DIR, else ~/tensorflow_datasets]",
    ),
]


class FileFormatChoice(StrEnum):
    """File formats of prepared datasets."""

    tfrecord = "tfrecord"
    array_record = "array_record"


def prepare(
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False, help="Name of the dataset.")],
    *,
    source: Annotated[
        Path | None,
        typer.Option(
            "--from",
            parser=path_in,
            metavar="PATH",
            show_default=False,
            help="Your own files: a folder of images (split/class/x.jpg or class/x.jpg), a CSV file, a folder of train.csv, "
            "test.csv, ..., or a prepared folder.",
        ),
    ] = None,
    data_dir: DataDir = None,
    download_dir: Annotated[
        Path | None,
        typer.Option(
            "--download-dir",
            parser=path_in,
            metavar="FOLDER",
            show_default=False,
            help="Folder for downloaded files.  [default: downloads in the folder of all datasets]",
        ),
    ] = None,
    version: Annotated[
        str | None,
        typer.Option(
            "--version",
            metavar="X.Y.Z",
            show_default=False,
            help="Version of a dataset made from your own files.  [default: 1.0.0, or that of the prepared folder]",
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(
            "--label", metavar="COLUMN", show_default=False, help="The column of a CSV file that holds the class."
        ),
    ] = None,
    file_format: Annotated[
        FileFormatChoice, typer.Option("--format", help="File format of the dataset.")
    ] = FileFormatChoice.tfrecord,
    shards: Annotated[
        int | None,
        typer.Option("--shards", min=1, show_default=False, help="Files per split.  [default: depends on its size]"),
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.1, help="Seconds to wait for a server.")
    ] = Patience().timeout_s,
    as_json: AsJson = False,
) -> None:
    """Download a dataset and prepare it, or prepare one from your own files.

    The result is a folder that headrace.data_source(NAME) and TFDS read. `headrace datasets` lists the known names. If the command is interrupted, run it again to resume the download. The folder appears when it is complete.

    Examples:
      headrace prepare fashion_mnist
      headrace prepare emnist/letters --data-dir /data
      headrace prepare pets --from photos/
      headrace prepare flowers --from flowers.csv --label species --format array_record
    """
    if source is None and (label is not None or version is not None):
        raise typer.BadParameter("--label and --version need --from: they describe your own files")
    begun = time.monotonic()
    try:
        builder = (
            named_builder(name) if source is None else builder_for(source, name=name, version=version, label=label)
        )
    except ValueError as error:
        if type(error) is not ValueError:
            raise
        hint = "--version" if str(error).startswith("expected a version") else "NAME"
        raise typer.BadParameter(str(error), param_hint=hint) from error
    was_there = builder.folder(data_dir).is_dir()
    prepared = builder.download_and_prepare(
        download_dir, data_dir, file_format=file_format.value, num_shards=shards, patience=Patience(timeout_s=timeout)
    )
    if as_json:
        print_json(summary_json(prepared))
    else:
        _show(prepared, None if was_there else time.monotonic() - begun)


def summary_json(prepared: Prepared) -> dict[str, object]:
    """Describe a prepared dataset for programs."""
    splits = {
        split.name: {"examples": split.num_examples, "files": split.num_shards, "bytes": split.num_bytes}
        for split in prepared.splits.values()
    }
    return {
        "name": prepared.full_name,
        "folder": str(prepared.folder),
        "format": prepared.file_format,
        "splits": splits,
    }


def _show(prepared: Prepared, seconds: float | None) -> None:
    made = "is already there" if seconds is None else f"prepared in {seconds:.1f} s"
    print_line(f"{prepared.full_name} {made}: {prepared.folder}")
    for split in prepared.splits.values():
        files = count_of(split.num_shards, "file")
        print_line(
            f"  {split.name}: {count_of(split.num_examples or 0, 'example')}, {size_of(split.num_bytes)} in {files}"
        )


def datasets(*, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """List the datasets that are known by name, and those that are prepared.

    Examples:
      headrace datasets
      headrace datasets --data-dir /data --json | jq '.prepared[].name'
    """
    found = [_read(name, find_prepared(name, data_dir)) for name in prepared_names(data_dir)]
    prepared = [each for each in found if each is not None]
    known = list(known_builders())
    if as_json:
        print_json(
            {
                "data_dirs": [str(folder) for folder in data_folders(data_dir)],
                "known": [{"name": each.full_name, "download_bytes": each.download_size} for each in known],
                "prepared": [{**summary_json(each), "bytes": _size(each)} for each in prepared],
            }
        )
        return
    there = {each.full_name for each in prepared}
    rows = [
        [each.full_name, f"{size_of(each.download_size)} to download", "not prepared"]
        for each in known
        if each.full_name not in there
    ]
    rows += [[printable(each.full_name), size_of(_size(each)), _splits(each)] for each in prepared]
    print_table(["dataset", "size", "splits"], rows, optional=["splits"])
    note("searched " + ", ".join(str(folder) for folder in data_folders(data_dir)))


def _read(name: str, folder: Path) -> Prepared | None:
    try:
        return read_prepared(folder)
    except DataError as error:
        note(f"{name}: {error}")
        return None


def _size(prepared: Prepared) -> int:
    return sum(split.num_bytes for split in prepared.splits.values())


def _splits(prepared: Prepared) -> str:
    return ", ".join(
        f"{split.name} {'?' if split.num_examples is None else format(split.num_examples, ',')}"
        for split in prepared.splits.values()
    )
