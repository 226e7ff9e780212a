"""Where the members of tar archives are."""

from __future__ import annotations

import io
import posixpath
import tarfile
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from headrace import _native
from headrace.contracts.values import Indices
from headrace.errors import CorruptFile, DataError, UnsupportedData, Where
from headrace.io.local.mapped import MappedFile, guard_reads
from headrace.io.progress import Progress

__all__ = ["COUNTED", "TarIndex", "index_of"]


COUNTED = "{:09d}"
"""Keys that only count, as our writer gives them."""
BLOCK = 512
MOST_ENDINGS = 1000


class TarIndex:
    """The members of every example.

    Args:
        firsts: ``int64 (files + 1,)``: number of each archive's first example, and of all.
        members: For each ending ``int64 (n, 2)``: offset and size of the member; -1 where an example has none.
        keys: What names begin with; ``None`` where that only counts.
    """

    def __init__(self, firsts: Indices, members: dict[str, Any], keys: list[str] | None) -> None:
        self.firsts = firsts
        self.members = members
        self.keys = keys

    @property
    def endings(self) -> list[str]:
        """What stands behind the first dot of names, in the order of their first appearance."""
        return list(self.members)

    def __len__(self) -> int:
        return int(self.firsts[-1])

    def places(self, ending: str, rows: Indices) -> tuple[list[int], list[int], list[int]]:
        """File numbers, offsets and sizes of some members."""
        found = self.members[ending][rows]
        files = np.searchsorted(self.firsts, rows, side="right") - 1
        return files.tolist(), found[:, 0].tolist(), found[:, 1].tolist()

    def where(self, index: int, paths: Sequence[str]) -> Where:
        """The place of one example."""
        file = int(np.searchsorted(self.firsts, index, side="right")) - 1
        offsets = [int(places[index, 0]) for places in self.members.values() if places[index, 0] >= 0]
        return Where(path=paths[file], record=index - int(self.firsts[file]), offset=min(offsets, default=None))


def index_of(files: Sequence[MappedFile]) -> TarIndex:
    """Go over the headers of some archives.

    Raises:
        CorruptFile: One is damaged or cut off.
        UnsupportedData: A member is no plain file, or there are too many kinds of them.
    """
    keys: list[str] = []
    rows: dict[str, list[tuple[int, int, int]]] = {}
    firsts, counted = [0], True
    for file in files:
        first, last = len(keys), None
        for key, ending, offset, size in _members(file):
            if key != last or (ending in rows and rows[ending] and rows[ending][-1][0] == len(keys) - 1):
                counted = counted and key == COUNTED.format(len(keys) - first)
                keys.append(key)
                last = key
            rows.setdefault(ending, []).append((len(keys) - 1, offset, size))
            if len(rows) > MOST_ENDINGS:
                found = f"more than {MOST_ENDINGS} kinds of them"
                raise UnsupportedData(
                    Where(path=file.path), expected="examples with members of one kind each", found=found
                )
        firsts.append(len(keys))
    members = {ending: _placed(found, len(keys)) for ending, found in rows.items()}
    return TarIndex(np.array(firsts, np.int64), members, None if counted else keys)


def _placed(found: list[tuple[int, int, int]], count: int) -> Any:
    places = np.full((count, 2), -1, np.int64)
    rows = np.array(found, np.int64).reshape(-1, 3)
    places[rows[:, 0]] = rows[:, 1:]
    return places


def _members(file: MappedFile) -> Iterator[tuple[str, str, int, int]]:
    """Key, ending, offset and size of every member that is part of an example."""
    where = Where(path=file.path)
    if file.fault is not None:
        raise file.fault
    end = 0
    with Progress("indexing", file.size, "bytes") as bar:
        for member in _entries(file):
            after = member.offset_data + (-(-member.size // BLOCK) * BLOCK if member.isreg() else 0)
            if member.issparse() or member.size < 0 or after > file.size:
                expected = f"{member.size} bytes of {member.name}"
                raise CorruptFile(
                    where.at(offset=member.offset), expected=expected, found=f"{file.size - member.offset_data}"
                )
            bar.advance(after - end)
            end = after
            folder, name = posixpath.split(member.name)
            key, dot, ending = name.partition(".")
            if member.isreg() and dot and key and not name.startswith("__"):
                yield posixpath.join(folder, key), ending, member.offset_data, member.size
    _check_end(file, end)


def _entries(file: MappedFile) -> Iterator[tarfile.TarInfo]:
    try:
        with tarfile.open(fileobj=io.BufferedReader(_View(file.buffer)), mode="r:") as archive:
            while (member := archive.next()) is not None:
                yield member
                vars(archive)["members"] = []  # Otherwise it keeps every one.
    except DataError:
        raise  # It shrank meanwhile.
    except (tarfile.TarError, ValueError, OverflowError, EOFError) as error:
        raise CorruptFile(Where(path=file.path), expected="a tar archive", found=str(error)) from error


def _check_end(file: MappedFile, end: int) -> None:
    """Behind the last member there are zeros only: that is also how damage shows, at which the library just stops."""
    rest = np.frombuffer(file.buffer[end:], np.uint8)
    with guard_reads(file.buffer):
        has_more = bool(rest.any())
    if len(rest) < 2 * BLOCK or has_more:
        raise CorruptFile(
            Where(path=file.path, offset=end),
            expected="another member, or the zeros that end an archive",
            found="the end of the file" if len(rest) < 2 * BLOCK else "other bytes",
            hint="The file was cut off while it was written or copied." if len(rest) < 2 * BLOCK else "",
        )


class _View(io.RawIOBase):
    """Memory as a file."""

    def __init__(self, buffer: memoryview) -> None:
        super().__init__()
        self._buffer = buffer
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, target: Any, /) -> int:
        part = _native.copy_bytes(self._buffer, self._at, len(target))
        target[: len(part)] = part
        self._at += len(part)
        return len(part)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: len(self._buffer)}[whence]
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        return self._at
