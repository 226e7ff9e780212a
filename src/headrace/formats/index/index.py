"""Record offsets: stored in the user's cache folder, rebuilt when stale or damaged.

An index file is a header, a description, and three tables, each aligned to 64 bytes: the checksums of the blocks of
starts; the content checksums of files whose format has none (CSV); the starts. A block of starts is verified when it
is first used. So an index of any size opens at once, and a damaged one never yields a wrong row.
"""

from __future__ import annotations

import json
import logging
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace._arguments import check_position
from headrace.contracts.records import OnCorrupt
from headrace.contracts.values import Indices
from headrace.errors import CorruptFile, DataError, Where
from headrace.io.cache.folder import cache_folder, cache_key, is_trusted
from headrace.io.cache.mirror import check_copy
from headrace.io.faults import file_changed_error
from headrace.io.local.fileset import FileSet
from headrace.io.local.mapped import guard_reads
from headrace.io.local.open import FileHead
from headrace.io.local.signatures import SUMMED_BYTES, BlockSums, Signature, block_sums
from headrace.io.paths import absolute
from headrace.io.system import cached_property
from headrace.io.write.atomic import AtomicFile

__all__ = ["FileIndex", "RecordIndex", "index_path", "load_index", "save_index", "warn_of_damage", "write_index"]


LOG = logging.getLogger("headrace.index")
VERSION = 2
MAGIC = b"psindex\n"
HEADER = struct.Struct("<8sIIQ")  # magic, version, CRC-32C of the description, its length
ALIGNMENT = 64
SMALL_BYTES = 64 << 10  # an index up to this size is read by one system call, which is faster than mapping it
CHECKED_BYTES = 16 << 20  # starts up to this size are verified on load, which takes about two milliseconds
ITEM = 8  # bytes of a start
MOST_JOINED = 8 << 20  # starts of files that are read as one buffer, which are held in memory


@dataclass(frozen=True, slots=True)
class FileIndex:
    """The index entry of one file.

    Args:
        path: The path as the caller gave it.
        signature: Signature of the scanned version.
        records: Number of intact records.
        skipped: For each damaged stretch that was skipped: how many intact records precede it.
        skipped_bytes: Total size of those stretches.
        content_bytes: Size of the decompressed content, if the index has checksums of it (the format has none).
    """

    path: str
    signature: Signature
    records: int
    skipped: tuple[int, ...] = ()
    skipped_bytes: int = 0
    content_bytes: int = 0

    def to_json(self) -> dict[str, Any]:
        """A dict for JSON; ``dataclasses.asdict`` takes half as long as indexing a small file."""
        signature = {name: getattr(self.signature, name) for name in self.signature.__slots__}
        return {name: getattr(self, name) for name in self.__slots__} | {"signature": signature}

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> FileIndex:
        """The entry of such a dict (KeyError, TypeError if it is none)."""
        return cls(**{**entry, "signature": Signature(**entry["signature"]), "skipped": tuple(entry["skipped"])})


class RecordIndex:
    """The record starts of all files, concatenated.

    Args:
        files: In the order of the records.
        starts: ``int64 (n,)``: offset of each record in its own (decompressed) file.
        sums: Checksums of the starts; ``None`` if they are already verified.
        content: Content checksums of the files, in the same order; empty if there are none.
        is_mapped: Whether the starts live in a mapped file, which may shrink.
    """

    def __init__(
        self,
        files: Sequence[FileIndex],
        starts: Indices,
        sums: BlockSums | None = None,
        content: Sequence[BlockSums] = (),
        *,
        is_mapped: bool = False,
    ) -> None:
        self._is_mapped = is_mapped
        self.files: tuple[FileIndex, ...] = tuple(files)
        self.content: tuple[BlockSums, ...] = tuple(content)
        self.compares_content: bool = any(not each.all_sound for each in content)
        """Whether :meth:`compare_content` still has blocks to compare."""
        self.make_again: Callable[[], RecordIndex] | None = None
        """Rebuilds the index if it turns out to be damaged."""
        self.path: Path | None = None
        """The file it is stored in."""
        self._starts = starts
        self._sums = sums
        self.has_skipped: bool = any(file.skipped for file in self.files)
        """Whether there is damage between records."""
        self.firsts: npt.NDArray[np.int64] = np.zeros(len(self.files) + 1, np.int64)
        """The number of each file's first record, then the number of records."""
        np.cumsum([file.records for file in self.files], out=self.firsts[1:])
        self._total_bytes = -1
        if self.firsts[-1] != len(starts):
            raise ValueError(f"{len(starts)} starts for {self.firsts[-1]} records")

    def __reduce__(self) -> tuple[Any, ...]:
        """Other processes get verified starts, and do not rebuild the index."""
        return type(self), (self.files, self.starts, None, self.content)

    def __len__(self) -> int:
        return len(self._starts)

    @property
    def starts(self) -> Indices:
        """All starts, verified."""
        if self._sums is not None and self._sums.damaged_anywhere(self._bytes) >= 0:
            self._replace()
        self._sums = None
        return self._starts

    def _at(self, indices: Indices) -> Indices:
        """Some starts, verified."""
        sums = self._sums
        if sums is not None:
            if sums.damaged(self._bytes, indices * ITEM, indices * ITEM + ITEM) >= 0:
                self._replace()
            if sums.all_sound:
                self._sums = None
        return self._taken(indices)

    def _taken(self, indices: Indices | slice) -> Indices:
        if not self._is_mapped:
            return self._starts[indices]
        with guard_reads(self._starts):
            return self._starts[indices].copy()

    @property
    def _bytes(self) -> memoryview:
        return self._starts.data.cast("B")

    def _replace(self) -> None:
        """Replace damaged starts with those of a rebuilt index.

        Raises:
            CorruptFile: The index cannot be rebuilt, or the files have changed.
        """
        made = None if self.make_again is None else self.make_again()
        if made is None or [file.records for file in made.files] != [file.records for file in self.files]:
            raise CorruptFile(
                Where(path=self.files[0].path if self.files else None),
                expected="an intact index of this file in the cache folder",
                found="a damaged one",
                hint="Open the file again to rebuild it.",
            )
        self._starts, self._sums, self._is_mapped = made.starts, None, made._is_mapped

    def locate(self, indices: Indices) -> tuple[npt.NDArray[np.int32] | None, Indices]:
        """File numbers and byte offsets of records. The file numbers are ``None`` if there is only one file."""
        is_known = self._sums is None and not self._is_mapped  # the common case
        offsets = self._starts[indices] if is_known else self._at(indices)
        return None if len(self.files) == 1 else self.file_of(indices), offsets

    def joined_starts(self, begins: Indices) -> Indices | None:
        """All starts, in a buffer where file ``k`` begins at ``begins[k]``; ``None`` if they would take much memory."""
        return self.starts + np.repeat(begins, np.diff(self.firsts)) if len(self) <= MOST_JOINED else None

    @property
    def total_bytes(self) -> int:
        """The approximate total size of the (decompressed) files: the start of the last record of each."""
        if self._total_bytes < 0:
            lasts = self.firsts[1:][np.diff(self.firsts) > 0] - 1
            self._total_bytes = int(self._at(lasts).sum())
        return self._total_bytes

    @cached_property
    def ends_of_files(self) -> Indices:
        """``int64 (files + 1,)``: the size of all files before each file, and of all. A compressed file has at least the start of its last record."""
        sizes = np.array([file.signature.size for file in self.files], np.int64)
        has_records = np.diff(self.firsts) > 0
        sizes[has_records] = np.maximum(sizes[has_records], self._at(self.firsts[1:][has_records] - 1))
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])

    def ends(self, indices: Indices, sizes: Callable[[int], int]) -> Indices:
        """Upper bounds on where records end: the next record, or the end of the file, whose size ``sizes`` returns."""
        following = indices + 1
        if len(self.files) == 1 and int(following.max()) < len(self):
            return self._at(following)
        ends = self._at(np.minimum(following, len(self) - 1))
        for position in np.flatnonzero(np.isin(following, self.firsts)):
            number = int(np.searchsorted(self.firsts, indices[position], side="right")) - 1
            ends[position] = sizes(number)
        return ends

    def compare_content(
        self, files: FileSet, indices: Indices, which: npt.NDArray[np.int32] | None, offsets: Indices
    ) -> None:
        """Check the file blocks that hold these records against the checksums in the index. Each block is checked on first
        use, and only if the format has no checksums that would reveal a changed file.

        Args:
            files: The contents of the files.
            indices, which, offsets: The records, and what :meth:`locate` returned for them.

        Raises:
            CorruptFile: A file has changed.
        """
        if not self.compares_content or not len(indices):
            return
        ends = self.ends(indices, files.size)
        for number in (0,) if which is None else np.unique(which).tolist():
            if not self.content[number].all_sound:
                mine = slice(None) if which is None else which == number
                self._compare(files, number, offsets[mine], ends[mine])
        self.compares_content = any(not each.all_sound for each in self.content)

    def _compare(self, files: FileSet, number: int, starts: Indices, ends: Indices) -> None:
        if self.content[number].damaged(files.content(number).buffer, starts, ends) < 0:
            return
        check_copy(files.content(number))  # Then the index is right.
        if self.path is not None:
            self.path.unlink(missing_ok=True)  # Reopening the file rebuilds its index.
        found = "other bytes than when its index was made"
        raise file_changed_error(self.files[number].path, size=None, found=found, what="file")

    def stretches(self, files: FileSet, first: int, stop: int) -> list[tuple[int, int, int]]:
        """Where the records from ``first`` to ``stop`` lie: for each file its number, where the first of them begins, and where
        the one after them does, or the file ends. Their blocks are compared as by :meth:`compare_content`.

        Raises:
            CorruptFile: A file has changed.
        """
        last, found = len(self), []
        one, other = (0, 0) if len(self.files) == 1 else self.file_of(np.array([first, stop - 1])).tolist()
        for number in range(one, other + 1):
            low, high = max(first, int(self.firsts[number])), min(stop, int(self.firsts[number + 1]))
            if low < high:
                starts = self._at(np.array([low, min(high, last - 1)]))
                ends_file = high == self.firsts[number + 1]
                place = starts[:1], np.array([files.size(number)]) if ends_file else starts[1:]
                if self.compares_content and not self.content[number].all_sound:
                    self._compare(files, number, *place)
                found.append((number, int(place[0][0]), int(place[1][0])))
        if self.compares_content:
            self.compares_content = any(not each.all_sound for each in self.content)
        return found

    def file_of(self, indices: Indices) -> npt.NDArray[np.int32]:
        """The file number of each record."""
        return _native.parts_of(self.firsts, indices)

    def where(self, index: int) -> Where:
        """The location of one record."""
        index = check_position(index, len(self))
        number = int(self.file_of(np.array([index], np.int64))[0])
        file, record = self.files[number], index - int(self.firsts[number])
        # Damaged stretches have numbers too, so this is the record's number in the file.
        return Where(
            path=file.path,
            record=record + bisect_right(file.skipped, record),
            offset=int(self._at(np.array([index]))[0]),
        )

    def part(self, number: int) -> Indices:
        """The starts in one file."""
        first, stop = int(self.firsts[number]), int(self.firsts[number + 1])
        sums = self._sums
        if sums is not None and sums.damaged(self._bytes, np.array([first * ITEM]), np.array([stop * ITEM])) >= 0:
            self._replace()
        return self._taken(slice(first, stop))


def index_path(
    paths: Sequence[str], *, on_corrupt: OnCorrupt, compression: str | None = None, format: str = "tfrecord"
) -> Path:
    """The cache file for the index of these files, scanned with these options."""
    options = {"format": format, "on_corrupt": on_corrupt, "compression": compression or "auto"}
    names = map(absolute, paths)
    return cache_folder("index") / f"{cache_key(VERSION, sorted(options.items()), *names)}.psindex"


def save_index(index: RecordIndex, path: Path) -> bool:
    """Write an index. Returns whether it was written: a full disk or a read-only folder is no error for a cache."""
    return write_index(index.files, [np.ascontiguousarray(index.starts, "<i8")], path, index.content)


def write_index(
    files: Sequence[FileIndex],
    starts: Iterable[Indices],
    path: Path,
    content: Sequence[BlockSums] = (),
) -> bool:
    """Like :func:`save_index`, from blocks of starts (``<i8``), which are iterated twice."""
    sums = block_sums((block.data for block in starts), SUMMED_BYTES).astype("<u4").tobytes()
    contents = b"".join(each.sums.astype("<u4").tobytes() for each in content)
    description = {
        "files": [file.to_json() for file in files],
        "block_bytes": SUMMED_BYTES,
        "sums": [len(sums), _native.crc32c(sums)],
        "contents": [len(contents), _native.crc32c(contents)],
    }
    text = json.dumps(description).encode("utf-8", "surrogateescape")
    head = HEADER.pack(MAGIC, VERSION, _native.crc32c(text), len(text)) + text
    try:
        with AtomicFile(path, durable=False) as file:
            for part in (head, sums, contents):
                file.write(part + bytes(-len(part) % ALIGNMENT))
            for block in starts:
                file.write(block.view(np.uint8).data)
    except OSError:
        return False
    return True


def load_index(path: Path, names: Sequence[str] | None = None) -> RecordIndex | None:
    """Map the index in a file; ``None`` if there is none or it is damaged.

    Args:
        path: The file.
        names: The paths of its files as the caller gave them now. It was stored with those of an earlier call, perhaps from another folder.
    """
    if not is_trusted(path):
        return None
    try:
        file = FileHead(str(path), SMALL_BYTES)
    except (OSError, DataError):  # a folder, for one
        return None
    try:
        found = _read(file)
    except (OSError, ValueError, KeyError, TypeError, struct.error):
        warn_of_damage(path)
        return None
    if names is not None and [each.path for each in found.files] != list(names):
        found.files = tuple(replace(each, path=name) for each, name in zip(found.files, names, strict=True))
    return found


def warn_of_damage(path: Path) -> None:
    """Log that an index was damaged: the disk may be failing."""
    LOG.warning("The index %s is damaged. It is rebuilt, and none of its contents is used.", path)


def _read(file: FileHead) -> RecordIndex:
    magic, version, crc, length = HEADER.unpack(file.read(0, HEADER.size))
    text = bytes(file.read(HEADER.size, length))
    if magic != MAGIC or version != VERSION or _native.crc32c(text) != crc:
        raise ValueError("not an index of this version, or a damaged one")
    description = json.loads(text.decode("utf-8", "surrogateescape"))
    files = [FileIndex.from_json(entry) for entry in description["files"]]
    block_bytes = description["block_bytes"]
    at = _align(HEADER.size + length)
    tables = []
    for size, sum_of_table in (description["sums"], description["contents"]):
        table = file.read(at, size)
        if _native.crc32c(table) != sum_of_table:
            raise ValueError("damaged checksums")
        tables.append(np.frombuffer(table, "<u4"))
        at += _align(size)
    counts = [-(-each.content_bytes // block_bytes) for each in files]
    if sum(counts) != len(tables[1]):
        raise ValueError("checksums of other contents")
    stops = list(accumulate(counts))
    # Shared by all files whose format has checksums, which may be thousands.
    nothing = BlockSums(0, tables[1][:0], block_bytes)
    content = [
        BlockSums(each.content_bytes, tables[1][stop - count : stop], block_bytes) if count else nothing
        for each, count, stop in zip(files, counts, stops, strict=True)
    ]
    is_mapped = file.size - at > CHECKED_BYTES
    starts = file.mapped().buffer[at:] if is_mapped else file.read(at, file.size)
    sums = BlockSums(len(starts), tables[0], block_bytes)
    if not is_mapped and sums.damaged_anywhere(starts) >= 0:
        raise ValueError("damaged starts")
    return RecordIndex(
        files, np.frombuffer(starts, "<i8"), None if sums.all_sound else sums, content, is_mapped=is_mapped
    )


def _align(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
