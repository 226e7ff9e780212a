"""``.npz`` files of aligned arrays: row ``i`` of every array is example ``i``. Stored arrays are mapped, deflated ones inflated into the cache.

Source of the format: ``numpy.lib.npyio`` (a ZIP of ``NAME.npy``, stored or deflated, without order or links).
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace
from typing import Any

from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Indices
from headrace.errors import CorruptFile, NoSuchFeature, SchemaMismatch, UnsupportedData, Where, did_you_mean
from headrace.formats.npy.format import NpyRecords
from headrace.formats.npy.header import MAGIC, ArrayField, NpyHeader, features_of, header_in
from headrace.formats.npz.directory import DEFLATED, ArrayMember, read_directory
from headrace.formats.table.base import FileTable
from headrace.io.cache.members import FilePart, check_crc, inflate_to_cache
from headrace.io.local.fileset import FileSet
from headrace.io.local.mapped import MappedFile, guard_reads
from headrace.io.local.signatures import Signature
from headrace.io.system import cached_property

__all__ = ["EXAMPLES_HINT", "Archives", "ArrayRows", "NpzRecords", "part_of"]


SPARSE = {"data", "format", "shape"}
"""Members of every matrix that ``scipy.sparse.save_npz`` writes."""


class Archives:
    """The directories of ``.npz`` files, each read once. Picklable; safe in threads and after fork."""

    def __init__(self, paths: Sequence[str], *, verify: bool) -> None:
        self.paths: tuple[str, ...] = tuple(paths)
        self.verify = verify
        self.files: FileSet = FileSet(self.paths)
        self._members: dict[int, dict[str, ArrayMember]] = {}

    def members(self, number: int) -> dict[str, ArrayMember]:
        """The arrays of file ``number`` by name, in directory order.

        Raises:
            CorruptFile: The archive is damaged.
            UnsupportedData: It holds anything but arrays, or a SciPy sparse matrix.
        """
        found = self._members.get(number)
        if found is None:
            file = self.files.content(number)
            with guard_reads(file.buffer):
                found = {member.array: member for member in read_directory(file.buffer, file.path)}
            _check_arrays(file, found)
            self._members[number] = found
        return found

    def member(self, number: int, name: str) -> ArrayMember:
        """One array of file ``number``.

        Raises:
            SchemaMismatch: The file has no array of that name.
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
        """The buffer that holds an array, and its offset there. A deflated array is inflated first."""
        file, member = self.files.content(number), self.member(number, name)
        if member.method == DEFLATED:
            return inflate_to_cache(file, part_of(member)), 0
        return file, member.offset

    def __getstate__(self) -> dict[str, Any]:
        return {"paths": self.paths, "verify": self.verify, "files": self.files}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._members = {}


def part_of(member: ArrayMember) -> FilePart:
    """The byte range of a member in its archive."""
    return FilePart(
        name=member.array,
        offset=member.offset,
        packed_bytes=member.packed_bytes,
        size=member.size,
        crc=member.crc,
    )


def _check_arrays(file: MappedFile, members: dict[str, ArrayMember]) -> None:
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
    """One array of each archive, as a file set."""

    def __init__(self, archives: Archives, name: str) -> None:
        super().__init__(archives.paths)
        self.archives = archives
        self.name = name

    def _open_file(self, number: int) -> MappedFile:
        return self.archives.content(number, self.name)[0]

    def by_range(self, number: int) -> bool:  # noqa: ARG002 - other rows need it
        """Always false: row offsets refer to the inflated array."""
        return False

    def signature(self, number: int) -> Signature:
        return self.archives.files.signature(number)

    def expect(self, signatures: Sequence[Signature]) -> None:
        """Also of the archives, which are what another process opens."""
        super().expect(signatures)
        self.archives.files.expect(signatures)

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), "archives": self.archives, "name": self.name}


class ArrayRows(NpyRecords):
    """The rows of one array of each archive, concatenated.

    Args:
        archives: The files.
        name: The name of the array.
    """

    format = "npz"

    def __init__(self, archives: Archives, name: str) -> None:
        super().__init__(archives.paths)
        self.archives = archives
        self.name = name

    @cached_property
    def _files(self) -> FileSet:
        return _ArrayFiles(self.archives, self.name)

    def _header(self, number: int) -> NpyHeader:
        file, begin = self.archives.content(number, self.name)
        member = self.archives.member(number, self.name)
        try:
            header = header_in(file.buffer[begin : begin + member.size], self.paths[number])
        except CorruptFile as error:
            raise error.relocated(Where(feature=self.name)) from error
        return replace(header, data_offset=begin + header.data_offset)

    def check(self) -> None:
        """Check the CRC-32 of the array in every file that stores it. Inflating checks deflated ones."""
        for number in range(len(self.paths)):
            member = self.archives.member(number, self.name)
            if member.method != DEFLATED:
                check_crc(self.archives.files.content(number), part_of(member))


EXAMPLES_HINT = "If every file is one example, say format='npz_folder'; columns=[...] reads only the arrays it names."


class NpzRecords(FileTable):
    """The rows of the arrays of ``.npz`` files, concatenated in order. Stored arrays are mapped, never loaded. Deflated
    ones are inflated once into the cache, and mapped from there.

    The fields of a structured array ``t`` are features ``t.a``, ``t.b``. Picklable; safe in threads and after fork.

    Args:
        paths: The files, as :func:`headrace.io.paths.expand` gives them. All must hold the arrays of the first.
        verify: Whether to check the CRC-32 of a stored array before returning its first row. That reads the array once;
            for large arrays the result is cached. Deflated arrays are always checked.
        names: Only these arrays; others are never read.

    Raises:
        CorruptFile: At first use: a file is damaged.
        SchemaMismatch: At first use: arrays of one file differ in length, or files differ.
        UnsupportedData: At first use: an encrypted member, a compression other than deflate, an object array, a sparse matrix.
    """

    format = "npz"

    def __init__(
        self,
        paths: Sequence[str],
        *,
        verify: bool = True,
        names: tuple[str, ...] | None = None,
    ) -> None:
        super().__init__(paths)
        self.archives: Archives = Archives(self.paths, verify=verify)
        self.names = names
        self._sound: set[str] = set()

    def only(self, names: tuple[str, ...]) -> NpzRecords:
        """The same rows with only these columns; other arrays are never read.

        Raises:
            NoSuchFeature: A column does not exist.
        """
        held = self.archives.members(0)
        arrays: dict[str, None] = {}
        for name in names:
            array = _array_of(name, held)
            if array is None:
                raise NoSuchFeature(
                    Where(path=self.paths[0]),
                    expected=f"one of {list(held)}",
                    found=repr(name),
                    hint=did_you_mean(name, held),
                )
            arrays[array] = None
        found = NpzRecords(self.paths, verify=self.archives.verify, names=tuple(arrays))
        found.archives = self.archives
        return found

    @cached_property
    def _arrays(self) -> dict[str, ArrayRows]:
        names = tuple(self.archives.members(0)) if self.names is None else self.names
        arrays = {name: ArrayRows(self.archives, name) for name in names}
        self._check_aligned(arrays)
        return arrays

    def _check_aligned(self, arrays: dict[str, ArrayRows]) -> None:
        if self.names is None:
            self._check_members(arrays)
        for number, path in enumerate(self.paths):
            shapes = {name: rows.headers[number].shape for name, rows in arrays.items()}
            scalars = [name for name, shape in shapes.items() if not shape]
            if scalars:
                raise SchemaMismatch(
                    Where(path=path, feature=scalars[0]),
                    expected="arrays with one row per example",
                    found=f"{', '.join(scalars)} of shape (), a single value",
                    hint=EXAMPLES_HINT,
                )
            if len({shape[0] for shape in shapes.values()}) > 1:
                raise SchemaMismatch(
                    Where(path=path),
                    expected="arrays with equally many rows",
                    found=", ".join(f"{name} {shape[0]}" for name, shape in shapes.items()),
                    hint=EXAMPLES_HINT,
                )

    def _check_members(self, arrays: dict[str, ArrayRows]) -> None:
        """Check that every file has exactly the arrays of the first: extra ones would be dropped silently."""
        for number, path in enumerate(self.paths):
            members = self.archives.members(number)
            for name in arrays:
                self.archives.member(number, name)
            more = [name for name in members if name not in arrays]
            if more:
                raise SchemaMismatch(
                    Where(path=path, feature=more[0]),
                    expected=f"the arrays {list(arrays)}, as in {self.paths[0]}",
                    found=f"also {', '.join(more)}",
                    hint="columns=[...] reads only the arrays it names.",
                )

    @cached_property
    def _columns(self) -> dict[str, tuple[str, ArrayField]]:
        """For each feature, its array and its location in it."""
        columns: dict[str, tuple[str, ArrayField]] = {}
        for array, rows in self._arrays.items():
            for name, field in features_of(array, rows.dtype, rows.row_shape, self.paths[0]).items():
                if name in columns:
                    raise SchemaMismatch(
                        Where(path=self.paths[0], feature=name),
                        expected="arrays and fields with different names",
                        found=f"two named {name!r}",
                        hint="columns=[...] reads only the arrays it names.",
                    )
                columns[name] = (array, field)
        return columns

    @cached_property
    def schema(self) -> Schema:
        """One feature per array, in directory order."""
        return Schema({name: field.feature for name, (_, field) in self._columns.items()})

    def __len__(self) -> int:
        return len(next(iter(self._arrays.values()))) if self._arrays else 0

    def batch(self, indices: Indices, names: tuple[str, ...]) -> Batch:
        """These rows and columns; see :class:`~headrace.contracts.records.Table`. Native code checks the range.

        Raises:
            CorruptFile: The CRC-32 of an array does not match.
        """
        return self._rows(indices, names)

    def _rows(self, indices: Indices, names: tuple[str, ...]) -> Batch:
        taken: dict[str, Any] = {}
        batch: Batch = {}
        for name in names:
            array, field = self._columns[name]
            if array not in taken:
                taken[array] = self._sound_rows(array).take(indices)
            batch[name] = field.of(taken[array]) if field.keys else taken[array]
        return batch

    def _sound_rows(self, name: str) -> ArrayRows:
        rows = self._arrays[name]
        if self.archives.verify and name not in self._sound:
            rows.check()
            self._sound.add(name)
        return rows

    def where(self, index: int) -> Where:
        """Path, and row number in its file."""
        for rows in self._arrays.values():
            return rows.where(index)
        return Where(record=index)


def _array_of(name: str, held: Container[str]) -> str | None:
    """The array that a feature is, or belongs to as a field."""
    while name not in held and "." in name:
        name = name.rpartition(".")[0]
    return name if name in held else None
