"""WebDataset: tar archives in which the files of one example are adjacent and share their name up to the first dot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.contracts.feature import Feature
from headrace.contracts.records import Checked, Format
from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Indices, Ragged
from headrace.errors import CorruptRecord, DataError, SchemaMismatch, UnsupportedData, Where
from headrace.formats.npy.header import NpyHeader, check_text, read_header
from headrace.formats.table.base import InferredTable, verify_rows
from headrace.formats.table.values import BadValue, column_of, convert_to_fit, fill_of, missing
from headrace.formats.webdataset.members import IMAGES, KEY, NUMBERS, TEXTS, TarIndex, feature_names, index_of, kind_of
from headrace.formats.webdataset.write import WebDatasetWriter, join_tars, misfits
from headrace.io.cache.inflate import parse_compression
from headrace.io.local.fileset import FileSet
from headrace.io.system import cached_property

__all__ = ["FORMAT", "WebDatasetTable"]


BLOCK_BYTES = 512
OFFSET_BYTES = 8
"""What a value of a batch takes besides its own bytes."""
CHECKSUM = slice(148, 156)
"""The checksum field of a header, in octal digits. It counts as blanks in its own sum."""
SAMPLE = 64
"""Number of examples for inferring array types."""
Place = Callable[[int], Where]


class WebDatasetTable(InferredTable):
    """The examples of WebDataset archives, concatenated in order.

    ``000.image.npy`` and ``000.label.cls`` are the features ``image`` and ``label`` of one example: the part after
    the first dot, without the suffix of the kind (``.npy``, ``.cls``, ``.txt``, ``.jpg``, ``.bin``). A suffix on its own is the
    feature's name. Keys that are not just counters are the feature ``__key__``.

    Args:
        paths: The archives.
        compression: ``"gzip"``, ``"zlib"``, ``"none"``; ``None`` detects it for each file from its content.
        given: The features to read; by default found from the names and the arrays of the first 64 examples.
    """

    format = "webdataset"
    sampled: ClassVar[int] = SAMPLE

    def __init__(
        self,
        paths: Sequence[str],
        *,
        compression: str | None = None,
        given: Schema | None = None,
    ) -> None:
        super().__init__(paths, given=given)
        self._compression = parse_compression(compression)
        self._types: Schema = Schema({})
        """What other files of a set show of its features."""

    @cached_property
    def _files(self) -> FileSet:
        return FileSet(self.paths, compression=self._compression)

    @cached_property
    def index(self) -> TarIndex:
        """The location of every member, found by one pass over the headers."""
        index = index_of([self._files.content(number) for number in range(len(self.paths))])
        self._files.expect([self._files.signature(number) for number in range(len(self.paths))])
        return index

    @cached_property
    def _endings(self) -> dict[str, str]:
        """Feature name to the part of member names after the first dot."""
        return feature_names(self.index.endings)

    def _own_schema(self) -> Schema:
        """The schema found from names and first examples."""
        features = {} if self.index.keys is None else {KEY: Feature("str")}
        sample = np.arange(min(SAMPLE, len(self)))
        for name, ending in self._endings.items():
            if name == KEY:
                expected, found = f"members of other names than {KEY}, which is that of the examples' keys", "one"
                raise UnsupportedData(Where(path=self.paths[0], feature=KEY), expected=expected, found=found)
            if name in self._types:
                features[name] = self._types[name]
                continue
            members = self._members(name, sample)
            features[name] = _feature_of(
                ending, [member for member in members if member is not None], self._place(name)
            )
        return Schema(features)

    def _of_files(self, paths: Sequence[str]) -> Self:
        return type(self)(paths, compression=self._compression, given=self.given)

    def _take_types(self, other: Self) -> None:
        self._types = other.schema

    def _place(self, name: str) -> Callable[[int], Where]:
        return lambda row: self.where(row).at(feature=name)

    def __len__(self) -> int:
        return len(self.index)

    def stored_bytes(self, first: int, stop: int) -> int:
        """How many bytes the members of the examples from ``first`` up to ``stop`` take. Each counts as if it had a header of 8 bytes, as in a
        batch, and not of 512: else long members would not look larger than short ones.
        """
        sizes = [places[first:stop, 1] for places in self.index.members.values()]
        return sum(int(each.sum()) + OFFSET_BYTES * len(each) for each in sizes)

    def _members(self, name: str, rows: Indices) -> list[bytes | None]:
        """The bytes of one feature; ``None`` if an example lacks that member."""
        if name not in self._endings:
            found = str(list(self._endings))
            raise SchemaMismatch(Where(path=self.paths[0], feature=name), expected="members of that name", found=found)
        files, offsets, sizes = self.index.places(self._endings[name], rows)
        return [
            None if offset < 0 else _native.copy_bytes(self._files.content(file).buffer, offset, size)
            for file, offset, size in zip(files, offsets, sizes, strict=True)
        ]

    def _rows(self, indices: Indices, names: tuple[str, ...]) -> Batch:
        """Each member is a byte range of its archive."""
        return {name: self._column(name, indices) for name in names}

    def _column(self, name: str, indices: Indices) -> Any:
        feature = self.schema[name]
        if name == KEY and self.index.keys is not None:
            try:
                return column_of([self.index.keys[row] for row in indices.tolist()], feature)
            except BadValue as bad:
                raise bad.at(self.where(int(indices[bad.row])).at(feature=name)) from bad
        place = self._place(name)
        members = self._members(name, indices)
        is_given = self.given is not None
        return _column_from(
            members, self._endings[name], feature, lambda row: place(int(indices[row])), is_given=is_given
        )

    def where(self, index: int) -> Where:
        """Path, number of the example in its archive, and offset of its first member's content."""
        return self.index.where(index, self.paths)


@dataclass(frozen=True, slots=True)
class _Member:
    """A member, as the input of the array header parser."""

    path: str
    buffer: memoryview

    @property
    def size(self) -> int:
        return len(self.buffer)


def _feature_of(ending: str, members: Sequence[bytes], place: Place) -> Feature:
    """The feature type for members with this ending."""
    kind = kind_of(ending)
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
        is_alike = header.dtype.newbyteorder("=") == first.dtype.newbyteorder("=") or (
            header.dtype.kind == first.dtype.kind and first.dtype.kind in "US"  # text of other widths
        )
        if not is_alike or len(header.shape) != len(first.shape):
            raise _other(header, Feature(first.dtype, first.shape), place(row))
    axes = zip(*(header.shape for header in headers), strict=True)
    dtype: Any = first.dtype
    if any(header.dtype.itemsize != dtype.itemsize for header in headers):
        dtype = "str" if dtype.kind == "U" else "bytes"
    return Feature(dtype, tuple(axis[0] if len(set(axis)) == 1 else None for axis in axes))


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


def _column_from(
    members: Sequence[bytes | None], ending: str, feature: Feature, place: Place, *, is_given: bool = True
) -> Any:
    """The batch column of these members. If no schema asks for the feature (``is_given``), no float is rounded to its dtype.

    Raises:
        CorruptRecord, SchemaMismatch: A member is damaged, missing without a default, or of another type.
    """
    try:
        if kind_of(ending) == "npy":
            return _arrays(members, feature, place, is_given=is_given)
        values = [
            None if member is None else _value(member, ending, feature, place, row)
            for row, member in enumerate(members)
        ]
        return column_of(values, feature)
    except BadValue as bad:
        raise bad.at(place(bad.row)) from bad


def _value(member: bytes, ending: str, feature: Feature, place: Place, row: int) -> Any:
    kind = kind_of(ending)
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


def verify_tars(table: WebDatasetTable) -> Iterator[Checked]:
    """Read every member of every example."""
    for part in table.parts():
        yield from verify_rows(part, part.paths[0])


def is_tar(head: bytes) -> bool:
    """Whether these first bytes are a tar header: a block with a correct checksum."""
    block = head[:BLOCK_BYTES]
    try:
        stated = int(block[CHECKSUM].strip(b"\0 "), 8)
    except ValueError:
        return False
    return len(block) == BLOCK_BYTES and stated == sum(block) - sum(block[CHECKSUM]) + len(block[CHECKSUM]) * ord(" ")


FORMAT = Format(
    name="webdataset",
    suffixes=(".tar", ".wds"),
    knows=is_tar,
    open=WebDatasetTable,
    compressible=True,
    sink=WebDatasetWriter,
    misfits=misfits,
    join=join_tars,
    verify=verify_tars,
)
