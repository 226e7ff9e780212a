"""Every check of every file, whatever the format; for framed records, every fault with its place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from headrace.contracts.records import Checked, Records, Table, is_table
from headrace.errors import CorruptFile, DataError
from headrace.formats.framed.framing import Framing
from headrace.formats.framed.records import FramedRecords
from headrace.formats.framed.scan import Scan, Stream
from headrace.formats.registry import format_named
from headrace.io.local.mapped import MappedFile
from headrace.io.local.open import size_on_disk

__all__ = ["Checked", "verify_framed", "verify_records"]


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


def verify_framed(records: FramedRecords) -> Iterator[Checked]:
    """Check every length and checksum of every file."""
    for content in records.contents():
        yield from _verify_content(records.framing, content)


def _verify_content(framing: Framing, content: MappedFile | Stream) -> Iterator[Checked]:
    scan = Scan(framing, content, verify=True, on_corrupt="skip")
    size = size_on_disk(content.path)
    counted = reported = 0
    lost: list[DataError] = []
    try:
        for run in scan:
            spans = framing.gather([run.buffer], None, run.starts, verify=False)
            # Decompressed bytes come to more than the file has: the last stretch makes up for what is missing.
            checked = min(run.size, size - counted)
            yield Checked(scan.path, len(run), checked, _since(scan, reported), spans, run)
            counted, reported = counted + checked, len(scan.faults)
    except CorruptFile as fault:  # It shrank meanwhile.
        lost.append(fault)
    yield Checked(scan.path, 0, size - counted, [*_since(scan, reported), *lost])


def _since(scan: Scan, reported: int) -> list[DataError]:
    return [fault for fault, _ in scan.faults[reported:]]
