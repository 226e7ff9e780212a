"""Members of tar archives: their locations and values."""

from __future__ import annotations

import io
import posixpath
import tarfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.contracts.feature import Feature
from headrace.contracts.values import Indices, Ragged
from headrace.errors import CorruptFile, CorruptRecord, DataError, SchemaMismatch, UnsupportedData, Where
from headrace.formats.npy.header import NpyHeader, check_text, read_header
from headrace.formats.table.values import BadValue, column_of, convert_to_fit, fill_of, missing
from headrace.io.local.mapped import MappedFile, guard_reads
from headrace.io.progress import Progress

__all__ = ["COUNTED", "IMAGES", "KEY", "TarIndex", "column_from", "feature_names", "feature_of", "index_of"]


COUNTED = "{:09d}"
"""Format of counter keys, as our writer writes them."""
BLOCK = 512
MOST_ENDINGS = 1000


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
        UnsupportedData: A member is not a regular file, or there are too many kinds of members.
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
    return TarIndex(np.array(firsts, np.int64), members, None if counted else keys)


def _place_members(found: list[tuple[int, int, int]], count: int) -> Any:
    places = np.full((count, 2), -1, np.int64)
    rows = np.array(found, np.int64).reshape(-1, 3)
    places[rows[:, 0]] = rows[:, 1:]
    return places


def _members(file: MappedFile) -> Iterator[tuple[str, str, int, int]]:
    """Key, ending, offset and size of every member that belongs to an example."""
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
                vars(archive)["members"] = []  # tarfile keeps every member otherwise
    except DataError:
        raise  # The file shrank during the scan.
    except (tarfile.TarError, ValueError, OverflowError, EOFError) as error:
        raise CorruptFile(Where(path=file.path), expected="a tar archive", found=str(error)) from error


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


class _View(io.RawIOBase):
    """Memory as a file object."""

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


KEY = "__key__"
IMAGES = {"jpg": "jpeg", "jpeg": "jpeg", "png": "png", "gif": "gif", "bmp": "bmp", "webp": "webp"}
TEXTS = ("txt", "text", "json")
NUMBERS = ("cls", "cls2", "index")
KINDS = (*IMAGES, *TEXTS, *NUMBERS, "npy", "bin")
Place = Callable[[int], Where]


@dataclass(frozen=True, slots=True)
class _Member:
    """A member, as the input of the array header parser."""

    path: str
    buffer: memoryview

    @property
    def size(self) -> int:
        return len(self.buffer)


def feature_names(endings: Sequence[str]) -> dict[str, str]:
    """Feature names for these endings: without the kind, if the rest is unique and not empty."""
    short = [_short(ending) for ending in endings]
    return {name if short.count(name) == 1 else ending: ending for name, ending in zip(short, endings, strict=True)}


def _short(ending: str) -> str:
    name, _, kind = ending.rpartition(".")
    return name if name and kind.lower() in KINDS else ending


def _kind(ending: str) -> str:
    return ending.rpartition(".")[2].lower()


def feature_of(ending: str, members: Sequence[bytes], place: Place) -> Feature:
    """The feature type for members with this ending."""
    kind = _kind(ending)
    if kind in TEXTS:
        return Feature("str")
    if kind in NUMBERS:
        return Feature("int64")
    if kind != "npy":
        return Feature("bytes", encoding=IMAGES.get(kind))  # type: ignore[arg-type]
    headers = [_header(member, place(row)) for row, member in enumerate(members)]
    if not headers:
        return Feature("float32", (None,))
    first = headers[0]
    if first.dtype.names is not None:
        raise SchemaMismatch(
            place(0),
            expected="plain arrays",
            found=f"the structured {first.dtype}",
            hint="Save each field as a separate member.",
        )
    for row, header in enumerate(headers):
        if header.dtype != first.dtype or len(header.shape) != len(first.shape):
            raise _other(header, Feature(first.dtype, first.shape), place(row))
    axes = zip(*(header.shape for header in headers), strict=True)
    return Feature(first.dtype, tuple(axis[0] if len(set(axis)) == 1 else None for axis in axes))


def _header(member: bytes, where: Where) -> NpyHeader:
    file: Any = _Member(where.path or "", memoryview(member))
    try:
        return read_header(file)
    except DataError as error:
        raise CorruptRecord(where, expected=error.expected, found=error.found, hint=error.hint) from error


def _other(header: NpyHeader, feature: Feature, where: Where, array: npt.NDArray[Any] | None = None) -> SchemaMismatch:
    """The error for an array of another type, or for the first of its values that another dtype would change."""
    found = f"an array of {header.dtype} with shape {header.shape}"
    for value in () if array is None else array.reshape(-1):
        if convert_to_fit(np.asarray(value), feature.numpy_dtype) is None:
            found += f", which holds {value!s:.40}"
            break
    hint = "Say what all of them are: schema={...}."
    return SchemaMismatch(where, expected=f"{feature.dtype} with shape {feature.shape}", found=found, hint=hint)


def column_from(
    members: Sequence[bytes | None], ending: str, feature: Feature, place: Place, *, is_given: bool = True
) -> Any:
    """The batch column of these members.

    Args:
        members: The bytes of each; ``None`` where an example has none.
        ending: The end of their names.
        feature: What they should become.
        place: Gives the location of each.
        is_given: Whether a schema asks for that. Else the first examples have shown it, and no float is rounded to it.

    Raises:
        CorruptRecord, SchemaMismatch: A member is damaged, missing without a default, or of another type.
    """
    try:
        if _kind(ending) == "npy":
            return _arrays(members, feature, place, is_given=is_given)
        values = [
            None if member is None else _value(member, ending, feature, place, row)
            for row, member in enumerate(members)
        ]
        return column_of(values, feature)
    except BadValue as bad:
        raise bad.at(place(bad.row)) from bad


def _value(member: bytes, ending: str, feature: Feature, place: Place, row: int) -> Any:
    kind = _kind(ending)
    if feature.dtype == "bytes":
        return member
    try:
        text = member.decode()
        return int(text) if kind in NUMBERS and not feature.is_text else text
    except ValueError as error:
        expected = "an integer" if kind in NUMBERS else "UTF-8 text"
        raise CorruptRecord(place(row), expected=expected, found=repr(member[:40])) from error


def _array(member: bytes, feature: Feature, where: Where, *, is_given: bool) -> npt.NDArray[Any]:
    header = _header(member, where)
    wanted = feature.numpy_dtype
    fits = len(header.shape) == len(feature.shape) and all(
        axis in (None, length) for axis, length in zip(feature.shape, header.shape, strict=True)
    )
    if not fits or (not is_given and header.dtype.kind in "fc" and not np.can_cast(header.dtype, wanted)):
        raise _other(header, feature, where)
    order: Literal["F", "C"] = "F" if header.is_fortran else "C"
    array: npt.NDArray[Any] = np.ndarray(
        header.shape, header.dtype, memoryview(member)[header.data_offset :], order=order
    )
    check_text(np.atleast_1d(array), lambda _: where)
    if feature.is_text and array.dtype.kind == ("U" if feature.dtype == "str" else "S"):
        return array.astype(object)
    found = convert_to_fit(array, wanted)
    if found is None:
        raise _other(header, feature, where, array)
    return found


def _missing_array(feature: Feature, row: int) -> npt.NDArray[Any]:
    fill = fill_of(feature)
    if fill is None:
        raise missing(row)
    array = np.array(fill, feature.numpy_dtype)
    shape = tuple(length or 0 for length in feature.shape)
    return array.reshape(shape) if array.ndim and not array.size else np.full(array.shape or shape, array)


def _arrays(members: Sequence[bytes | None], feature: Feature, place: Place, *, is_given: bool) -> Any:
    """Stacked, ragged along the first axis, or a list if other axes vary."""
    values = [
        _missing_array(feature, row) if member is None else _array(member, feature, place(row), is_given=is_given)
        for row, member in enumerate(members)
    ]
    if feature.is_fixed and values:
        return np.stack(values)
    if None in feature.shape[1:]:
        return [np.array(value) for value in values]
    return Ragged.from_list(values) if values else column_of([], feature)
