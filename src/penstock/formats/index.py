"""Where the records of some files begin: kept in the user's cache folder, made again where it is stale."""

from __future__ import annotations

import json
import struct
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock import _native
from penstock.contracts.protocols import Indices
from penstock.contracts.records import OnCorrupt
from penstock.errors import NoFiles, Where
from penstock.io.atomic import AtomicFile
from penstock.io.cache import cache_folder, cache_key
from penstock.io.mapped import MappedFile, Signature, guarded
from penstock.io.paths import absolute

__all__ = ["FileIndex", "RecordIndex", "index_path", "load_index", "save_index", "write_index"]

VERSION = 1
MAGIC = b"psindex\n"
HEADER = struct.Struct("<8sIIQ")  # magic, version, CRC-32 of the description, its length
ALIGNMENT = 64
CHECKED_BYTES = 16 << 20  # an index up to this size is checked whole when it is loaded, which takes milliseconds


@dataclass(frozen=True, slots=True)
class FileIndex:
    """What the index knows of one file.

    Args:
        path: As the caller named it.
        signature: Of the version that was scanned.
        records: Sound records.
        skipped: For each damaged stretch that was left out: how many sound records come before it.
        skipped_bytes: Size of all those stretches.
    """

    path: str
    signature: Signature
    records: int
    skipped: tuple[int, ...] = ()
    skipped_bytes: int = 0


class RecordIndex:
    """Record starts of all files, end to end.

    Args:
        files: In the order of the records.
        starts: ``int64 (n,)``: byte in its own (decompressed) file at which each record begins.
        is_mapped: Whether they are those of a mapped file, which may be cut off.
    """

    def __init__(self, files: Sequence[FileIndex], starts: Indices, *, is_mapped: bool = False) -> None:
        self._is_mapped = is_mapped
        self.files = tuple(files)
        self.starts = starts
        self.firsts = np.zeros(len(self.files) + 1, np.int64)
        """Number of each file's first record, and of all records."""
        np.cumsum([file.records for file in self.files], out=self.firsts[1:])
        self._total_bytes = -1
        if self.firsts[-1] != len(starts):
            raise ValueError(f"{len(starts)} starts for {self.firsts[-1]} records")

    def __len__(self) -> int:
        return len(self.starts)

    def locate(self, indices: Indices) -> tuple[npt.NDArray[np.int32] | None, Indices]:
        """File numbers and byte offsets of records; ``None`` for the file numbers where there is one file only."""
        if self._is_mapped:
            with guarded(self.starts):
                starts = self.starts[indices]
        else:
            starts = self.starts[indices]
        return None if len(self.files) == 1 else self.file_of(indices), starts

    @property
    def total_bytes(self) -> int:
        """About how large the (decompressed) files are together: where the last record of each begins."""
        if self._total_bytes < 0:
            lasts = self.firsts[1:][np.diff(self.firsts) > 0] - 1
            self._total_bytes = int(self.starts[lasts].sum())
        return self._total_bytes

    def ends(self, indices: Indices, sizes: Callable[[int], int]) -> Indices:
        """Where the bytes of records end at the latest: at the next record, or with the file, whose size ``sizes`` tells."""
        if self._is_mapped:
            with guarded(self.starts):
                return self._ends(indices, sizes)
        return self._ends(indices, sizes)

    def _ends(self, indices: Indices, sizes: Callable[[int], int]) -> Indices:
        following = indices + 1
        if len(self.files) == 1 and int(following.max()) < len(self.starts):
            return self.starts[following]
        ends = self.starts[np.minimum(following, len(self.starts) - 1)]
        for position in np.flatnonzero(np.isin(following, self.firsts)):
            number = int(np.searchsorted(self.firsts, indices[position], side="right")) - 1
            ends[position] = sizes(number)
        return ends

    def file_of(self, indices: Indices) -> npt.NDArray[np.int32]:
        """The number of the file that each record is in."""
        return (np.searchsorted(self.firsts, indices, side="right") - 1).astype(np.int32)

    def where(self, index: int) -> Where:
        """The place of one record."""
        number = int(self.file_of(np.array([index], np.int64))[0])
        file, sound = self.files[number], index - int(self.firsts[number])
        # Damaged stretches have numbers too, so that the number is that of the record in the file.
        return Where(path=file.path, record=sound + bisect_right(file.skipped, sound), offset=int(self.starts[index]))

    def part(self, number: int) -> Indices:
        """The starts in one file."""
        return self.starts[int(self.firsts[number]) : int(self.firsts[number + 1])]


def index_path(
    paths: Sequence[str], *, on_corrupt: OnCorrupt, compression: str | None = None, format: str = "tfrecord"
) -> Path:
    """Where the index of these files, scanned with these options, is kept."""
    options = {"format": format, "on_corrupt": on_corrupt, "compression": compression or "auto"}
    names = map(absolute, paths)
    return cache_folder("index") / f"{cache_key(VERSION, sorted(options.items()), *names)}.psindex"


def save_index(index: RecordIndex, path: Path) -> bool:
    """Write an index. A full disk or a read-only folder is no fault (it is a cache); the answer says whether it was written."""
    return write_index(index.files, [np.ascontiguousarray(index.starts, "<i8")], path)


def write_index(files: Sequence[FileIndex], starts: Iterable[Indices], path: Path) -> bool:
    """As :func:`save_index`, of starts that come in blocks (``<i8``), twice."""
    crc = 0
    for block in starts:
        crc = zlib.crc32(block.data, crc)
    description = {"files": [asdict(file) for file in files], "crc": crc}
    text = json.dumps(description).encode("utf-8", "surrogateescape")
    head = HEADER.pack(MAGIC, VERSION, zlib.crc32(text), len(text)) + text
    try:
        with AtomicFile(path, durable=False) as file:
            file.write(head + bytes(-len(head) % ALIGNMENT))
            for block in starts:
                file.write(block.view(np.uint8).data)
    except OSError:
        return False
    return True


def load_index(path: Path) -> RecordIndex | None:
    """The index in a file, mapped; ``None`` where there is none or it is damaged, so that it has to be made again."""
    try:
        file = MappedFile(str(path))
        return _read(file)
    except (OSError, NoFiles, ValueError, KeyError, TypeError, struct.error):
        return None


def _file(entry: dict[str, Any]) -> FileIndex:
    return FileIndex(**{**entry, "signature": Signature(**entry["signature"]), "skipped": tuple(entry["skipped"])})


def _read(file: MappedFile) -> RecordIndex:
    magic, version, crc, length = HEADER.unpack(file.read(0, HEADER.size))
    text = bytes(file.read(HEADER.size, length))
    if magic != MAGIC or version != VERSION or zlib.crc32(text) != crc:
        raise ValueError("not an index of this version, or a damaged one")
    description = json.loads(text.decode("utf-8", "surrogateescape"))
    files = [_file(entry) for entry in description["files"]]
    begin = -(-(HEADER.size + length) // ALIGNMENT) * ALIGNMENT
    if file.size - begin > CHECKED_BYTES:
        return RecordIndex(files, np.frombuffer(file.buffer[begin:], "<i8"), is_mapped=True)
    content = _native.copy_bytes(file.buffer, begin)
    if zlib.crc32(content) != description["crc"]:
        raise ValueError("damaged starts")
    return RecordIndex(files, np.frombuffer(content, "<i8"))
