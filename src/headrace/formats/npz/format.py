"""The ``npz`` format: its registry entry and all checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from headrace.contracts.records import Checked, Format
from headrace.errors import DataError
from headrace.formats.example_files.format import open_files
from headrace.formats.npy.format import check_texts
from headrace.formats.npz.directory import DEFLATED, LOCAL, LOCAL_MAGIC
from headrace.formats.npz.rows import Archives, ArrayRows, NpzRecords
from headrace.formats.npz.write import COMPRESSIONS, NpzSink, misfits
from headrace.io.local.open import size_on_disk

__all__ = ["FORMAT", "faults_of_arrays", "join_archives", "verify_npz"]


def verify_npz(records: Any) -> Iterator[Checked]:
    """Verify each file by itself, then against the first."""
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
                len(NpzRecords([first, path]))  # raises if the two do not match
            except DataError as fault:
                faults, rows = [fault], 0
        yield Checked(path, rows, size, faults)


def faults_of_arrays(archives: Archives) -> list[DataError]:
    """The faults of the single file. Checks every array, even after a damaged one."""
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


JOINED_BYTES = 4 << 20


def is_npz(head: bytes) -> bool:
    """Whether these first bytes are those of a ZIP file whose first member is an array. Other ZIP files are not ``.npz``."""
    if not head.startswith(LOCAL_MAGIC) or len(head) < LOCAL.size:
        return False
    length = LOCAL.unpack_from(head)[-2]
    return head[LOCAL.size : LOCAL.size + length].endswith(b".npy")


def join_archives(parts: Sequence[str], path: str) -> None:
    """Join the rows of ``.npz`` files into one file."""
    table = NpzRecords(parts)
    names = tuple(table.schema)
    row_bytes = sum(max(1, feature.count) * feature.numpy_dtype.itemsize for feature in table.schema.values())
    deflated = any(member.method == DEFLATED for member in table.archives.members(0).values())
    sink = NpzSink(path, table.schema, compression="deflate" if deflated else "none")
    step = max(1, JOINED_BYTES // max(1, row_bytes))
    try:
        for start in range(0, len(table), step):
            stop = min(start + step, len(table))
            sink.write_batch(table.batch(np.arange(start, stop), names), stop - start)
        sink.close()
    except BaseException:
        sink.abort()
        raise


def packing(paths: Sequence[str]) -> str:
    """The compression: ``none``, ``deflate``, or both."""
    archives = Archives(paths, verify=False)
    methods = {member.method for number in range(len(paths)) for member in archives.members(number).values()}
    return ", ".join(sorted("deflate" if method == DEFLATED else "none" for method in methods)) or "none"


def open_npz(paths: Sequence[str], **options: Any) -> Any:
    """The rows of the arrays in these files; or one example per file, if the arrays of the first file cannot be rows."""
    if len(paths) > 1 and _is_one_example(paths[0]):
        return open_files(paths, format="npz_folder", **options)
    return NpzRecords(paths, **options)


def _is_one_example(path: str) -> bool:
    """Whether a file holds a scalar (a label) and no two arrays of equal length, which could be rows."""
    archives = Archives([path], verify=False)
    try:
        shapes = [ArrayRows(archives, name).headers[0].shape for name in archives.members(0)]
    except DataError:
        return False  # Reading the file reports the error.
    lengths = [shape[0] for shape in shapes if shape]
    return len(lengths) < len(shapes) and len(set(lengths)) == len(lengths)


FORMAT = Format(
    name="npz",
    suffixes=(".npz",),
    knows=is_npz,
    open=open_npz,
    options=frozenset({"verify"}),
    sink=NpzSink,
    misfits=misfits,
    compressions=COMPRESSIONS,
    compression_of=packing,
    join=join_archives,
    verify=verify_npz,
)
