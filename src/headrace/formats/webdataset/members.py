"""Members of tar archives: their locations, and the features that their names give."""

from __future__ import annotations

import io
import posixpath
import tarfile
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any

import numpy as np

from headrace import _native
from headrace.contracts.values import Indices
from headrace.errors import CorruptFile, DataError, UnsupportedData, Where
from headrace.formats.table.base import MemoryFile
from headrace.io.local.mapped import MappedFile, guard_reads
from headrace.io.progress import Progress

__all__ = ["COUNTED", "IMAGES", "KEY", "NUMBERS", "TEXTS", "TarIndex", "feature_names", "index_of", "kind_of"]


COUNTED = "{:09d}"
"""Format of counter keys, as our writer writes them."""
BLOCK = 512
MOST_ENDINGS = 1000
MOST_SCANNED = 50_000
"""Members that one native call finds."""
WHOLE_HINT = "Archive the files themselves: tar --dereference, without --sparse."


class TarIndex:
    """The members of every example.

    Args:
        firsts: ``int64 (files + 1,)``: number of each archive's first example, then the number of examples.
        members: For each ending ``int64 (n, 2)``: offset and size of the member; -1 if an example has none.
        keys: The key of each example; ``None`` if keys are just counters.
    """

    def __init__(self, firsts: Indices, members: dict[str, Any], keys: list[str] | None) -> None:
        self.firsts = firsts
        self.members = members
        self.keys = keys

    @property
    def endings(self) -> list[str]:
        """The parts of member names after the first dot, in order of first appearance."""
        return list(self.members)

    def __len__(self) -> int:
        return int(self.firsts[-1])

    def places(self, ending: str, rows: Indices) -> tuple[list[int], list[int], list[int]]:
        """File numbers, offsets and sizes of these members."""
        found = self.members[ending][rows]
        files = np.searchsorted(self.firsts, rows, side="right") - 1
        return files.tolist(), found[:, 0].tolist(), found[:, 1].tolist()

    def where(self, index: int, paths: Sequence[str]) -> Where:
        """The location of one example."""
        file = int(np.searchsorted(self.firsts, index, side="right")) - 1
        offsets = [int(places[index, 0]) for places in self.members.values() if places[index, 0] >= 0]
        return Where(path=paths[file], record=index - int(self.firsts[file]), offset=min(offsets, default=None))


def index_of(files: Sequence[MappedFile]) -> TarIndex:
    """Read the headers of these archives.

    Raises:
        CorruptFile: An archive is damaged or truncated.
        UnsupportedData: A member is neither a file nor a hard link to one, there are too many kinds of members, or none belongs to an
            example.
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
    members = {ending: _place_members(found, len(keys)) for ending, found in rows.items()}
    return TarIndex(np.array(firsts, np.int64), _join_cases(members), None if counted else keys)


def _join_cases(members: dict[str, Any]) -> dict[str, Any]:
    """Join members whose endings differ only in case, as ``.JPG`` beside ``.jpg``, unless an example has both."""
    alike: dict[str, list[str]] = {}
    for ending in members:
        alike.setdefault(ending.lower(), []).append(ending)
    joined: dict[str, Any] = {}
    for lower, endings in alike.items():
        has_both = sum((members[ending][:, 0] >= 0).astype(np.int64) for ending in endings).max(initial=0) > 1
        if len(endings) == 1 or has_both:
            joined |= {ending: members[ending] for ending in endings}
        else:
            joined[lower] = np.maximum.reduce([members[ending] for ending in endings])
    return joined


def _place_members(found: list[tuple[int, int, int]], count: int) -> Any:
    places = np.full((count, 2), -1, np.int64)
    rows = np.array(found, np.int64).reshape(-1, 3)
    places[rows[:, 0]] = rows[:, 1:]
    return places


def _members(file: MappedFile) -> Iterator[tuple[str, str, int, int]]:
    """Key, ending, offset and size of every member that belongs to an example."""
    left_out, has_examples = "", False
    for name, begin, size in _files_in(file, _HardLinks(file)):
        base = name.rfind("/") + 1
        key, dot, ending = name[base:].partition(".")
        if dot and key and not key.startswith("__"):
            has_examples = True
            yield name[:base] + key, ending, begin, size
        elif not left_out and key and not key.startswith("__"):
            left_out = name
    if left_out and not has_examples:
        raise UnsupportedData(
            Where(path=file.path),
            expected="names of an example, a dot, and what the file holds, as in 000000000.jpg",
            found=f"only names without a dot, such as {left_out}",
        )


def _files_in(file: MappedFile, links: _HardLinks | None = None) -> Iterator[tuple[str, int, int]]:
    """Name, offset and size of every regular file, and of hard links to one unless ``links`` is None. Native code reads plain headers;
    ``tarfile``, which takes far longer, reads the others and decides what is damaged.
    """
    if file.fault is not None:
        raise file.fault
    end, others = 0, 1
    with Progress("indexing", file.size, "bytes") as bar:
        while others:
            names, places, stop = _native.scan_tar(file.buffer, end, MOST_SCANNED)
            if links is not None:
                links.note(names, places)
            for name, (begin, size) in zip(names, places.tolist(), strict=True):
                yield name, begin, size
            # Many if none was plain, because each call takes as long as several headers.
            others = 2 * others if stop == end else 1
            found, after = ([], stop) if len(names) == MOST_SCANNED else _read_others(file, stop, others, links)
            yield from found
            bar.advance(after - end)
            others = others if after > end else 0
            end = after
    _check_end(file, end)


def _read_others(
    file: MappedFile, begin: int, most: int, links: _HardLinks | None
) -> tuple[list[tuple[str, int, int]], int]:
    """Read headers by ``tarfile`` from ``begin`` on: regular files as above, and where the next header begins, or the end of the archive. At most
    ``most``, or all if there is a header that concerns those after it.
    """
    files: list[tuple[str, int, int]] = []
    end, read = begin, 0
    try:
        stream = io.BufferedReader(MemoryFile(file.buffer))
        stream.seek(begin)
        with tarfile.open(fileobj=stream, mode="r:") as archive:
            while (read < most or archive.pax_headers) and (member := archive.next()) is not None:
                vars(archive)["members"] = []  # tarfile keeps every member otherwise
                read += 1
                _check_member(member, file)
                end = archive.offset
                if member.isreg() or (member.islnk() and links is not None):
                    place = (member.offset_data, member.size) if links is None else links.place(member)
                    files.append((member.name, *place))
    except DataError:
        raise  # The file shrank during the scan, or misses bytes.
    except (tarfile.TarError, ValueError, OverflowError, EOFError) as error:
        raise CorruptFile(Where(path=file.path), expected="a tar archive", found=str(error)) from error
    return files, end


def _check_member(member: tarfile.TarInfo, file: MappedFile) -> None:
    """Refuse members that lack bytes, and those of examples that are no files."""
    where = Where(path=file.path, offset=member.offset)
    if member.issparse():
        raise UnsupportedData(
            where, expected="files with all of their bytes", found=f"{member.name}, a sparse one", hint=WHOLE_HINT
        )
    after = member.offset_data + (-(-member.size // BLOCK) * BLOCK if member.isreg() else 0)
    if member.size < 0 or after > file.size:
        expected = f"{member.size} bytes of {member.name}"
        raise CorruptFile(where, expected=expected, found=f"{file.size - member.offset_data}")
    name = member.name[member.name.rfind("/") + 1 :]
    if (member.issym() or member.isdev()) and name.find(".") > 0 and not name.startswith("__"):
        kind = "a symbolic link" if member.issym() else "a device or pipe"
        raise UnsupportedData(where, expected="regular files", found=f"{member.name}, {kind}", hint=WHOLE_HINT)


class _HardLinks:
    """The files that hard links stand for: tar stores the second name of a file as a link to the first."""

    def __init__(self, file: MappedFile) -> None:
        self._file = file
        self._places: dict[str, tuple[int, int]] | None = None
        """Offset and size of each file so far; ``None`` before the first link, and most archives have none."""

    def note(self, names: Sequence[str], places: Indices) -> None:
        """Remember files, if there were links before."""
        if self._places is not None:
            self._places.update(zip(map(posixpath.normpath, names), map(tuple, places.tolist()), strict=True))

    def place(self, member: tarfile.TarInfo) -> tuple[int, int]:
        """Offset and size of what a member holds. Members are given in their order."""
        if member.islnk():
            if self._places is None:
                before = takewhile(lambda each: each[1] < member.offset, _files_in(self._file))
                self._places = {posixpath.normpath(name): (begin, size) for name, begin, size in before}
            found = self._places.get(posixpath.normpath(member.linkname))
            if found is None:
                where = Where(path=self._file.path, offset=member.offset)
                expected = f"the file before it that {member.name} is a hard link to"
                raise CorruptFile(where, expected=expected, found=f"no {member.linkname}")
        else:
            found = member.offset_data, member.size
        if self._places is not None:
            self._places[posixpath.normpath(member.name)] = found
        return found


def _check_end(file: MappedFile, end: int) -> None:
    """Check that only zeros follow the last member. At damage, tarfile just stops, so this detects it."""
    rest = np.frombuffer(file.buffer[end:], np.uint8)
    with guard_reads(file.buffer):
        has_more = bool(rest.any())
    if len(rest) < 2 * BLOCK or has_more:
        raise CorruptFile(
            Where(path=file.path, offset=end),
            expected="another member, or the zeros that end an archive",
            found="the end of the file" if len(rest) < 2 * BLOCK else "other bytes",
            hint="The file was truncated while it was written or copied." if len(rest) < 2 * BLOCK else "",
        )


KEY = "__key__"
IMAGES = {"jpg": "jpeg", "jpeg": "jpeg", "png": "png", "gif": "gif", "bmp": "bmp", "webp": "webp"}
TEXTS = ("txt", "text", "json")
NUMBERS = ("cls", "cls2", "index")
KINDS = (*IMAGES, *TEXTS, *NUMBERS, "npy", "bin")


def feature_names(endings: Sequence[str]) -> dict[str, str]:
    """Feature names for these endings: without the kind, if the rest is unique and not empty."""
    short = [_short(ending) for ending in endings]
    names = [name if short.count(name) == 1 else ending for name, ending in zip(short, endings, strict=True)]
    # a.npy.bin without its kind is a.npy, which may be another one in full.
    return dict(zip(names if len(set(names)) == len(names) else endings, endings, strict=True))


def _short(ending: str) -> str:
    name, _, kind = ending.rpartition(".")
    return name if name and kind.lower() in KINDS else ending


def kind_of(ending: str) -> str:
    """What members hold, by the last suffix of their names."""
    return ending.rpartition(".")[2].lower()
