"""``headrace datasets``: which are known by name, and which are prepared."""

from __future__ import annotations

from pathlib import Path

from headrace.cli.options import AsJson
from headrace.cli.prepare import DataDir, told
from headrace.cli.terminal.console import note, print_json, print_table
from headrace.cli.terminal.values import printable, size_of
from headrace.datasets.locate import data_folders, find_prepared, prepared_names
from headrace.datasets.named.catalogue import known_builders
from headrace.datasets.prepared import Prepared, read_prepared
from headrace.errors import DataError

__all__ = ["datasets"]


def datasets(*, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """List the datasets that are known by name, and those that are prepared, by whomever.

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
                "prepared": [{**told(each), "bytes": _size(each)} for each in prepared],
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
    note("looked in " + ", ".join(str(folder) for folder in data_folders(data_dir)))


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
