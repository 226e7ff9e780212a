"""The text form of an index that DALI's and vahidk/tfrecord's ``tfrecord2idx`` write: one line ``offset size`` per record.

``size`` is the size of the whole record in the file: 16 bytes of framing plus the payload.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from headrace import _native
from headrace.contracts.values import Indices
from headrace.errors import CorruptFile, UnsupportedData, Where
from headrace.formats.index.index import FileIndex, RecordIndex
from headrace.formats.tfrecord.format import OVERHEAD
from headrace.io.local.fileset import FileSet
from headrace.io.local.mapped import MappedFile, guard_reads
from headrace.io.local.signatures import wait_for_tick
from headrace.io.paths import PathLike
from headrace.io.write.atomic import AtomicFile

__all__ = ["read_text_index", "write_text_index"]


LENGTH_BYTES = np.arange(8)


def write_text_index(index: RecordIndex, number: int, path: PathLike) -> None:
    """Write the text form of file ``number`` of an index.

    Raises:
        UnsupportedData: The file is compressed: the text form has no decompressed offsets.
    """
    record_file = index.files[number].path
    content = _plain(record_file)
    starts = index.part(number)
    sizes = _sizes(content, starts)
    with AtomicFile(path) as file:
        file.write_text(
            "".join(f"{start} {size}\n" for start, size in zip(starts.tolist(), sizes.tolist(), strict=True))
        )


def read_text_index(path: PathLike, record_file: str) -> RecordIndex:
    """Read the text form, and check it against its record file.

    Raises:
        CorruptFile: A line is not a pair of numbers, or does not match a record, or records are missing.
        UnsupportedData: The file is compressed.
    """
    content = _plain(record_file)
    wait_for_tick([content.signature])
    with Path(path).open(encoding="ascii", errors="replace") as text:
        starts, sizes = _parse(text.read().splitlines(), str(path))
    _check_chain(starts, sizes, content.size, str(path))
    try:
        _native.gather_tfrecord([content.buffer], None, starts, verify=True)
        wrong = np.flatnonzero(_sizes(content, starts) != sizes)
    except _native.FormatError as error:
        raise _disagrees(str(path), error.record, record_file) from error
    if len(wrong):
        raise _disagrees(str(path), int(wrong[0]), record_file)
    return RecordIndex([FileIndex(record_file, content.signature, len(starts))], starts)


def _plain(record_file: str) -> MappedFile:
    files = FileSet([record_file], compression=None)
    if files.wrapper(0) != "none":
        raise UnsupportedData(
            Where(path=record_file),
            expected="a plain TFRecord file for an index in text form",
            found=f"one in a {files.wrapper(0)} stream",
        )
    return files.content(0)


def _sizes(content: MappedFile, starts: Indices) -> Indices:
    """Sizes of whole records, from their length fields."""
    if not len(starts):
        return np.zeros(0, np.int64)
    whole = np.frombuffer(content.buffer, np.uint8)
    with guard_reads(content.buffer):
        lengths = np.ascontiguousarray(whole[starts[:, None] + LENGTH_BYTES]).view("<i8")[:, 0]
    return lengths.astype(np.int64) + OVERHEAD


def _parse(lines: Sequence[str], path: str) -> tuple[Indices, Indices]:
    pairs = []
    for number, line in enumerate(lines):
        parts = line.split()
        if len(parts) != 2 or not all(part.isdecimal() and len(part) < 19 for part in parts):
            raise CorruptFile(Where(path=path, record=number), expected="a line 'offset size'", found=repr(line[:40]))
        pairs.append((int(parts[0]), int(parts[1])))
    table = np.array(pairs, np.int64).reshape(-1, 2)
    return np.ascontiguousarray(table[:, 0]), np.ascontiguousarray(table[:, 1])


def _check_chain(starts: Indices, sizes: Indices, file_size: int, path: str) -> None:
    """Check that each record begins where the previous one ends, and that the last one ends the file."""
    expected = np.concatenate([[0], starts + sizes])
    found = np.concatenate([starts, [file_size]])
    wrong = np.flatnonzero(expected != found)
    if len(wrong):
        at = int(wrong[0])
        raise CorruptFile(
            Where(path=path, record=at),
            expected=f"the next record at byte {int(expected[at])}",
            found=f"byte {int(found[at])}" if at < len(starts) else f"the end of the file at byte {file_size}",
            hint="The index belongs to another version of the file: build it again.",
        )


def _disagrees(path: str, record: int, record_file: str) -> CorruptFile:
    return CorruptFile(
        Where(path=path, record=record),
        expected="the place and size of a record",
        found=f"something else there in {record_file}",
        hint="The index belongs to another version of the file: build it again.",
    )
