"""Some ``.npz`` files as the arrays in them: mapped where they are stored, inflated into the cache where not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from headrace.errors import CorruptFile, SchemaMismatch, UnsupportedData, Where
from headrace.formats.npy import NpyRecords
from headrace.formats.npy_header import MAGIC, NpyHeader, header_in
from headrace.formats.npz.archive import DEFLATED, Member, read_directory
from headrace.io.file_parts import FilePart, check_crc, inflate_to_cache
from headrace.io.fileset import FileSet
from headrace.io.mapped import MappedFile, guarded
from headrace.io.signatures import Signature

__all__ = ["Archives", "ArrayRows", "part_of"]

SPARSE = {"data", "format", "shape"}
"""Of every matrix that ``scipy.sparse.save_npz`` writes."""


class Archives:
    """The directories of some ``.npz`` files, each read once. Safe in threads and after fork; picklable."""

    def __init__(self, paths: Sequence[str], *, verify: bool) -> None:
        self.paths = tuple(paths)
        self.verify = verify
        self.files = FileSet(self.paths)
        self._members: dict[int, dict[str, Member]] = {}

    def members(self, number: int) -> dict[str, Member]:
        """The arrays of file ``number`` by name, in the order of its directory.

        Raises:
            CorruptFile: The archive is damaged.
            UnsupportedData: It holds something else than arrays, or a SciPy matrix.
        """
        found = self._members.get(number)
        if found is None:
            file = self.files.content(number)
            with guarded(file.buffer):
                found = {member.array: member for member in read_directory(file.buffer, file.path)}
            _check_arrays(file, found)
            self._members[number] = found
        return found

    def member(self, number: int, name: str) -> Member:
        """One array of file ``number``.

        Raises:
            SchemaMismatch: The file has none of that name.
        """
        members = self.members(number)
        if name not in members:
            raise SchemaMismatch(
                Where(path=self.paths[number], feature=name),
                expected=f"an array {name!r}, as in {self.paths[0]}",
                found=f"the arrays {list(members)}",
                hint="Open files with other arrays as another source.",
            )
        return members[name]

    def content(self, number: int, name: str) -> tuple[MappedFile, int]:
        """What holds the bytes of an array, and where in it they begin. A deflated one is inflated first."""
        file, member = self.files.content(number), self.member(number, name)
        if member.method == DEFLATED:
            return inflate_to_cache(file, part_of(member)), 0
        return file, member.offset

    def __getstate__(self) -> dict[str, Any]:
        return {"paths": self.paths, "verify": self.verify, "files": self.files}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._members = {}


def part_of(member: Member) -> FilePart:
    """The bytes of a member in its archive."""
    return FilePart(
        name=member.array,
        offset=member.offset,
        packed_bytes=member.packed_bytes,
        size=member.size,
        crc=member.crc,
    )


def _check_arrays(file: MappedFile, members: dict[str, Member]) -> None:
    if members.keys() >= SPARSE:
        raise UnsupportedData(
            Where(path=file.path),
            expected="aligned arrays",
            found="a sparse matrix of scipy.sparse.save_npz",
            hint='Load it: headrace.ColumnSource({"values": scipy.sparse.load_npz(path).tocsr()}).',
        )
    for member in members.values():
        stored = member.method != DEFLATED
        if not member.name.endswith(".npy") and not (stored and file.read(member.offset, len(MAGIC)) == MAGIC):
            raise UnsupportedData(
                Where(path=file.path, feature=member.name),
                expected="arrays (.npy) and nothing else in a .npz",
                found=f"the file {member.name!r}",
                hint="Take it out of the archive, or load the archive with numpy.",
            )


class _ArrayFiles(FileSet):
    """One array of each archive, as a set of files."""

    def __init__(self, archives: Archives, name: str) -> None:
        super().__init__(archives.paths)
        self.archives = archives
        self.name = name

    def _opened(self, number: int) -> MappedFile:
        return self.archives.content(number, self.name)[0]

    def by_range(self, number: int) -> bool:  # noqa: ARG002
        """Never: the places of rows are those in the inflated array."""
        return False

    def signature(self, number: int) -> Signature:
        return self.archives.files.signature(number)

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), "archives": self.archives, "name": self.name}


class ArrayRows(NpyRecords):
    """The rows of one array of each archive, joined.

    Args:
        archives: The files.
        name: Of the array.
    """

    format = "npz"

    def __init__(self, archives: Archives, name: str) -> None:
        self.paths = archives.paths
        self.archives = archives
        self.name = name
        self._files = _ArrayFiles(archives, name)

    def _header(self, number: int) -> NpyHeader:
        file, begin = self.archives.content(number, self.name)
        member = self.archives.member(number, self.name)
        try:
            header = header_in(file.buffer[begin : begin + member.size], self.paths[number])
        except CorruptFile as error:
            raise error.relocated(Where(feature=self.name)) from error
        return replace(header, data_offset=begin + header.data_offset)

    def check(self) -> None:
        """Check the CRC-32 of the array in every file that has it stored (inflating checks that of a deflated one)."""
        for number in range(len(self.paths)):
            member = self.archives.member(number, self.name)
            if member.method != DEFLATED:
                check_crc(self.archives.files.content(number), part_of(member))

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "archives": self.archives, "name": self.name}
