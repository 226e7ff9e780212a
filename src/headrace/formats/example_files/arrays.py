"""The arrays in one small ``.npy`` or ``.npz`` file; or in many files at once if they share a layout."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from headrace.errors import DataError, SchemaMismatch, Where
from headrace.formats.npy.header import ArrayField, NpyHeader, check_text, features_of, fields_of, header_in, holds_text
from headrace.formats.npz.directory import STORED, ArrayMember, read_directory
from headrace.formats.npz.rows import part_of
from headrace.io.cache.members import crc_fault, inflate_bytes
from headrace.io.local.open import DIFFERENT, read_alike

__all__ = ["FileKind", "NpyFiles", "NpzFiles"]

Arrays = dict[str, npt.NDArray[Any]]
MOST_BYTES = 64 << 20  # per file: larger ones are read one by one, so that only one is in memory twice


class FileKind(Protocol):
    """Reads one kind of file."""

    suffix: str

    def arrays(self, content: bytes, path: str, names: Sequence[str] | None, /) -> Arrays:
        """The arrays in a file, native-endian; with ``names``, only these."""

    def template(self, content: bytes, path: str, /) -> Template | None:
        """A template for reading many files laid out like this one; ``None`` if it does not pay off."""


class Template(Protocol):
    """The layout shared by many files."""

    def read(
        self, paths: Sequence[bytes], names: Sequence[str], /
    ) -> tuple[dict[str, npt.NDArray[Any]], npt.NDArray[np.int64]]:
        """Columns ``(n, *shape)`` and, per file, 0, :data:`~headrace.io.local.open.DIFFERENT`, or an errno."""


def _array(content: memoryview, header: NpyHeader, path: str) -> npt.NDArray[Any]:
    """A view of the content, or a copy if it is not in native byte order."""
    order: Any = "F" if header.is_fortran else "C"
    array = np.ndarray(header.shape, header.dtype, content, header.data_offset, order=order)
    native = header.dtype.newbyteorder("=")
    array = array if header.dtype == native else array.astype(native)
    check_text(np.atleast_1d(array), lambda _: Where(path=path))
    return array


def _is_read_alone(header: NpyHeader) -> bool:
    """Whether the array's bytes need more than a copy: text must be checked, structured fields split."""
    return header.is_fortran or header.dtype.names is not None or holds_text(header.dtype)


def _features(fields: Mapping[str, ArrayField], content: memoryview, header: NpyHeader, path: str) -> Arrays:
    array = _array(content, header, path)
    return {name: field.of(array) if field.keys else array for name, field in fields.items()}


class NpyFiles:
    """Reads ``.npy`` files, each one array.

    Args:
        name: The feature name.
    """

    suffix = ".npy"

    def __init__(self, name: str = "values") -> None:
        self.name = name

    def arrays(self, content: bytes, path: str, names: Sequence[str] | None = None, /) -> Arrays:
        view = memoryview(content)
        if names == []:
            return {}
        header = header_in(view, path)
        whole = header.dtype.names is None
        fields = features_of(self.name, header.dtype, ()) if whole else fields_of(header.dtype, header.shape, path)
        return _features({name: fields[name] for name in fields if names is None or name in names}, view, header, path)

    def template(self, content: bytes, path: str, /) -> Template | None:
        header = header_in(memoryview(content), path)
        if _is_read_alone(header) or len(content) > MOST_BYTES:
            return None
        return _NpyTemplate(content[: header.data_offset], header, self.name)


@dataclass(frozen=True, slots=True)
class _NpyTemplate:
    head: bytes
    header: NpyHeader
    name: str

    def read(
        self, paths: Sequence[bytes], names: Sequence[str], /
    ) -> tuple[dict[str, npt.NDArray[Any]], npt.NDArray[np.int64]]:
        shape = self.header.shape
        size = self.header.dtype.itemsize * math.prod(shape)
        bodies, status = read_alike(paths, self.head, size)
        if not names:
            return {}, status
        if not size:
            return {self.name: np.zeros((len(paths), *shape), self.header.dtype.newbyteorder("="))}, status
        rows = bodies.view(self.header.dtype).reshape(len(paths), *shape)
        return {self.name: _to_native_order(rows)}, status


def _to_native_order(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Swap to native byte order, in place."""
    if rows.dtype.isnative:
        return rows
    return rows.byteswap(inplace=True).view(rows.dtype.newbyteorder("="))


class NpzFiles:
    """Reads ``.npz`` files, each one array per name.

    Args:
        verify: Whether to check the CRC-32 of stored arrays.
    """

    suffix = ".npz"

    def __init__(self, *, verify: bool) -> None:
        self.verify = verify

    def arrays(self, content: bytes, path: str, names: Sequence[str] | None = None, /) -> Arrays:
        view = memoryview(content)
        found: Arrays = {}
        for member in read_directory(view, path):
            if names is None or any(name == member.array or name.startswith(f"{member.array}.") for name in names):
                features = self._features(view, member, path, names)
                for name in features.keys() & found.keys():
                    raise SchemaMismatch(
                        Where(path=path, feature=name),
                        expected="arrays and fields with different names",
                        found=f"two named {name!r}",
                    )
                found.update(features)
        return found

    def _features(self, view: memoryview, member: ArrayMember, path: str, names: Sequence[str] | None) -> Arrays:
        body = view[member.offset : member.offset + member.packed_bytes]
        if member.method != STORED:
            body = memoryview(inflate_bytes(body, part_of(member), path))
        elif self.verify and zlib.crc32(body) != member.crc:
            raise crc_fault(path, part_of(member), zlib.crc32(body))
        try:
            header = header_in(body, path)
            fields = features_of(member.array, header.dtype, header.shape, path)
            wanted = {name: fields[name] for name in fields if names is None or name in names}
            return _features(wanted, body, header, path)
        except DataError as error:
            raise error.relocated(Where(feature=member.array)) from error

    def template(self, content: bytes, path: str, /) -> Template | None:
        view = memoryview(content)
        members = read_directory(view, path)
        if len(content) > MOST_BYTES or any(member.method != STORED for member in members):
            return None
        headers = {
            member.array: header_in(view[member.offset : member.offset + member.size], path) for member in members
        }
        if any(map(_is_read_alone, headers.values())):
            return None
        return _NpzTemplate.of(content, members, headers, verify=self.verify)


@dataclass(frozen=True, slots=True)
class _NpzTemplate:
    """The positions of the values in a file, and all other bytes except the CRCs, which differ between files."""

    size: int
    fixed: npt.NDArray[np.int64]
    """Positions of the bytes that are the same in all files."""
    expected: npt.NDArray[np.uint8]
    members: Mapping[str, tuple[ArrayMember, NpyHeader]]
    crc_places: Mapping[str, tuple[int, ...]]
    verify: bool

    @classmethod
    def of(
        cls, content: bytes, members: Sequence[ArrayMember], headers: Mapping[str, NpyHeader], *, verify: bool
    ) -> Self | None:
        free = np.zeros(len(content), bool)
        places = {}
        for member in members:
            begin = member.offset + headers[member.array].data_offset
            free[begin : member.offset + member.size] = True
            found = _crc_places(content, member)
            if found is None:
                return None
            for place in found:
                free[place : place + 4] = True
            places[member.array] = found
        fixed = np.flatnonzero(~free)
        both = {member.array: (member, headers[member.array]) for member in members}
        return cls(len(content), fixed, np.frombuffer(content, np.uint8)[fixed], both, places, verify)

    def read(
        self, paths: Sequence[bytes], names: Sequence[str], /
    ) -> tuple[dict[str, npt.NDArray[Any]], npt.NDArray[np.int64]]:
        contents, status = read_alike(paths, b"", self.size)
        status = np.where((status == 0) & (contents[:, self.fixed] != self.expected).any(axis=1), DIFFERENT, status)
        columns = {}
        for name in names:
            member, header = self.members[name]
            if self.verify:
                self._check(contents, name, status)
            begin = member.offset + header.data_offset
            body = np.ascontiguousarray(contents[:, begin : member.offset + member.size])
            shape = (len(paths), *header.shape)
            empty = np.zeros(shape, header.dtype)
            columns[name] = _to_native_order(body.view(header.dtype).reshape(shape) if body.size else empty)
        return columns, status

    def _check(self, contents: npt.NDArray[np.uint8], name: str, status: npt.NDArray[np.int64]) -> None:
        """Mark files whose CRC does not match. They are then read on their own, which reports the damage."""
        member, _ = self.members[name]
        stop = member.offset + member.size
        found = [zlib.crc32(content[member.offset : stop]) for content in contents]
        crcs = np.array(found, np.uint32)
        for place in self.crc_places[name]:
            said = np.ascontiguousarray(contents[:, place : place + 4]).view("<u4").reshape(-1)
            status[(status == 0) & (said != crcs)] = DIFFERENT


def _crc_places(content: bytes, member: ArrayMember) -> tuple[int, ...] | None:
    """The positions of the CRC of a stored member: in its local header and in the directory."""
    own, entry = member.header + 14, member.entry + 16
    crc = member.crc.to_bytes(4, "little")
    return (own, entry) if content[own : own + 4] == crc == content[entry : entry + 4] else None
