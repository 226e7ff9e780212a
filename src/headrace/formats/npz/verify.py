"""Every check of ``.npz`` files: their directories, the CRC-32 and the header of every array, and that they fit together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace.contracts.records import Checked
from headrace.errors import DataError
from headrace.formats.npy_verify import check_texts
from headrace.formats.npz.archives import Archives, ArrayRows
from headrace.formats.npz.table import NpzRecords
from headrace.io.reading import size_on_disk

__all__ = ["faults_of_arrays", "verify_npz"]


def verify_npz(records: Any) -> Iterator[Checked]:
    """Each file by itself, and then held against the first."""
    first: str | None = None
    for path in records.paths:
        size = size_on_disk(path)
        table = NpzRecords([path])
        faults = faults_of_arrays(table.archives)
        rows = 0
        if not faults:
            try:
                rows = len(table)
                first = first or path
                len(NpzRecords([first, path]))  # Raises where the two do not fit together.
            except DataError as fault:
                faults, rows = [fault], 0
        yield Checked(path, rows, size, faults)


def faults_of_arrays(archives: Archives) -> list[DataError]:
    """What is wrong in the one file: every array is looked at, also behind a damaged one."""
    try:
        names = list(archives.members(0))
    except DataError as fault:
        return [fault]
    faults = []
    for name in names:
        try:
            rows = ArrayRows(archives, name)
            len(rows)
            rows.check()
            check_texts(rows)
        except DataError as fault:
            faults.append(fault)
    return faults
