"""Every check of every file, with every fault, whatever the format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from headrace.contracts.records import Checked, Records
from headrace.contracts.tables import Table, is_table
from headrace.errors import DataError
from headrace.formats.detect import format_named
from headrace.io.reading import size_on_disk

__all__ = ["Checked", "verify_records"]

STEP = 1024  # rows of a table that are read at a time


def verify_records(records: Records | Table) -> Iterator[Checked]:
    """Go through files, check everything, and report damage instead of raising it.

    Raises:
        NoFiles: A file is gone.
    """
    if not hasattr(records, "format"):
        raise TypeError(f"there are no checks for {type(records).__name__}")
    format = format_named(records.format)
    if format.verify is not None:
        yield from format.verify(records)
    elif is_table(records):
        for path in records.paths:
            yield from _read_through(format.open([path]), path)
    else:
        raise TypeError(f"the format {format.name!r} gives no checks")


def _read_through(table: Any, path: str) -> Iterator[Checked]:
    """All rows of one file of a table that has no checks of its own."""
    size = size_on_disk(path)
    counted = 0
    try:
        names, rows = tuple(table.schema), len(table)
        for start in range(0, rows, STEP):
            stop = min(start + STEP, rows)
            table.batch(np.arange(start, stop), names)
            part = size * stop // rows - counted
            counted += part
            yield Checked(path, stop - start, part)
    except DataError as fault:
        yield Checked(path, 0, size - counted, [fault])
    else:
        yield Checked(path, 0, size - counted)
