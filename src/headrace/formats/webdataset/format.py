"""WebDataset: tar archives in which the files of one example are adjacent and share their name up to the first dot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from headrace import _native
from headrace.contracts.feature import Feature
from headrace.contracts.records import Checked, Format
from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Indices
from headrace.errors import SchemaMismatch, UnsupportedData, Where
from headrace.formats.table.base import InferredTable, verify_rows
from headrace.formats.table.values import BadValue, column_of
from headrace.formats.webdataset.members import KEY, TarIndex, column_from, feature_names, feature_of, index_of
from headrace.formats.webdataset.write import WebDatasetWriter, join_tars, misfits
from headrace.io.cache.inflate import parse_compression
from headrace.io.local.fileset import FileSet

__all__ = ["FORMAT", "WebDatasetTable"]


BLOCK_BYTES = 512
OFFSET_BYTES = 8
"""What a value of a batch takes besides its own bytes."""
CHECKSUM = slice(148, 156)
"""The checksum field of a header, in octal digits. It counts as blanks in its own sum."""
SAMPLE = 64
"""Number of examples for inferring array types."""


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
            features[name] = feature_of(ending, [member for member in members if member is not None], self._place(name))
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
        return column_from(
            members, self._endings[name], feature, lambda row: place(int(indices[row])), is_given=is_given
        )

    def where(self, index: int) -> Where:
        """Path, number of the example in its archive, and offset of its first member's content."""
        return self.index.where(index, self.paths)


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
