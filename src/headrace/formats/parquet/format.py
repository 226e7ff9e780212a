"""Parquet: columns in row groups, read and written by pyarrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from headrace._optional import require
from headrace.contracts.records import Format
from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Indices
from headrace.errors import CorruptFile, SchemaMismatch, Where
from headrace.formats.parquet.write import COMPRESSIONS, ParquetWriter, join_parquet
from headrace.formats.table.arrow import from_arrow, leaf_array
from headrace.formats.table.arrow_types import KEY, Leaf, arrow, embedded_schema, leaves_of, misfits, schema_of_leaves
from headrace.formats.table.base import BlockTable, verify_blocks
from headrace.formats.table.values import BadValue
from headrace.io.local.mapped import guard_reads

__all__ = ["FORMAT", "ParquetTable"]


MAGIC = b"PAR1"


class _Group(NamedTuple):
    """One row group: its file, its number there, and the number of its first row in the file."""

    file: int
    number: int
    first: int


class ParquetTable(BlockTable):
    """The rows of Parquet files, concatenated in order.

    Random access decodes the row groups of the requested rows, for the requested columns only, and caches up to 256 MiB.

    Args:
        paths: The files. All must have the columns of the first one.
        verify: ``False`` skips page checksums, which few writers write.
        given: The features to read; by default derived from the column types.

    Raises:
        CorruptFile: At first use: the footer is damaged.
        UnsupportedData: At first use: a column has no array type.
    """

    format = "parquet"

    def __init__(
        self,
        paths: Sequence[str],
        *,
        verify: bool = True,
        given: Schema | None = None,
    ) -> None:
        super().__init__(paths, given=given)
        self.verify = verify

    @cached_property
    def _footers(self) -> list[Any]:
        footers = [self._opened(number).metadata for number in range(len(self.paths))]
        self._files.expect([self._files.signature(number) for number in range(len(self.paths))])
        return footers

    def _opened(self, number: int, footer: Any = None) -> Any:
        """A new reader for every call: readers are cheap, and must not be shared between threads."""
        parquet, pa = require("pyarrow.parquet", extra="arrow"), arrow()
        buffer = self._files.content(number).buffer
        try:
            with guard_reads(buffer):
                content = pa.BufferReader(pa.py_buffer(buffer))
                return parquet.ParquetFile(content, metadata=footer, page_checksum_verification=self.verify)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise self._damaged(number, error, "a sound Parquet footer") from error

    def _damaged(self, number: int, error: Exception, expected: str) -> CorruptFile:
        return CorruptFile(Where(path=self.paths[number]), expected=expected, found=str(error).splitlines()[0][:200])

    @cached_property
    def _leaves(self) -> dict[str, Leaf]:
        return {leaf.name: leaf for leaf in leaves_of(self._footers[0].schema.to_arrow_schema())}

    def _own_schema(self) -> Schema:
        """The schema derived from the column types."""
        footer = self._footers[0]
        written = embedded_schema((footer.metadata or {}).get(KEY.encode()))
        leaves = list(leaves_of(footer.schema.to_arrow_schema()))
        found = schema_of_leaves(leaves, Where(path=self.paths[0]), embedded=written)
        self._check_alike()
        return found

    def _check_given(self, given: Schema) -> Schema:
        self._check_held(tuple(given), self._leaves, "column", Where(path=self.paths[0]))
        return given

    def _check_alike(self) -> None:
        first = [(leaf.name, leaf.type) for leaf in self._leaves.values()]
        for path, footer in zip(self.paths[1:], self._footers[1:], strict=True):
            other = [(leaf.name, leaf.type) for leaf in leaves_of(footer.schema.to_arrow_schema())]
            if other != first:
                raise SchemaMismatch(
                    Where(path=path),
                    expected=f"the columns of {self.paths[0]}",
                    found=", ".join(f"{name}: {kind}" for name, kind in other if (name, kind) not in first) or "others",
                    hint="Open them as two sources, or name the features that they share: schema={...}.",
                )

    @cached_property
    def _groups(self) -> list[_Group]:
        groups = []
        for file, footer in enumerate(self._footers):
            first = 0
            for number in range(footer.num_row_groups):
                groups.append(_Group(file, number, first))
                first += self._rows_of(file, number)
        return groups

    def _rows_of(self, file: int, group: int) -> int:
        count = int(self._footers[file].row_group(group).num_rows)
        if not 0 <= count <= self._footers[file].num_rows:
            where = Where(path=self.paths[file])
            raise CorruptFile(where, expected=f"a count of rows in row group {group}", found=f"{count}")
        return count

    @cached_property
    def _firsts(self) -> Indices:
        counts = [self._rows_of(group.file, group.number) for group in self._groups]
        return np.cumsum([0, *counts], dtype=np.int64)

    def _read_block(self, block: int, names: Sequence[str]) -> Batch:
        group = self._groups[block]
        leaves = self._leaves_of(group.file, names)
        table = self._table(group, leaves)
        return self._columns(table, leaves, group.file, group.first)

    def _leaves_of(self, file: int, names: Sequence[str]) -> list[Leaf]:
        schema = self._footers[file].schema.to_arrow_schema()
        found = {leaf.name: leaf for leaf in leaves_of(schema)}
        self._check_held(names, found, "column", Where(path=self.paths[file]))
        return [found[name] for name in names]

    def _table(self, group: _Group, leaves: list[Leaf]) -> Any:
        file = self._opened(group.file, self._footers[group.file])
        roots = dict.fromkeys(file.schema_arrow.field(leaf.path[0]).name for leaf in leaves)
        try:
            with guard_reads(self._files.content(group.file).buffer):
                return file.read_row_group(group.number, columns=list(roots), use_threads=False)
        except (arrow().ArrowException, OSError) as error:
            raise self._damaged(group.file, error, f"a sound row group {group.number}") from error

    def _columns(self, table: Any, leaves: list[Leaf], file: int, first: int) -> Batch:
        names = self._footers[file].schema.to_arrow_schema().names
        columns = {}
        for leaf in leaves:
            array = leaf_array(table, leaf, table.column_names.index(names[leaf.path[0]]))
            try:
                columns[leaf.name] = from_arrow(array, self.schema[leaf.name])
            except BadValue as bad:
                raise bad.at(Where(path=self.paths[file], record=first + bad.row, feature=leaf.name)) from bad
            except arrow().ArrowException as error:  # an index outside its dictionary
                raise self._damaged(file, error, f"sound values of {leaf.name!r}") from error
        return columns

    def blocks(self, names: tuple[str, ...], rows: int) -> Iterator[Batch]:
        """All rows in order, ``rows`` at a time (fewer at the end of each file). Decodes no more than that at once."""
        for file in range(len(self.paths)):
            leaves, first = self._leaves_of(file, names), 0
            opened = self._opened(file, self._footers[file])
            roots = list(dict.fromkeys(opened.schema_arrow.field(leaf.path[0]).name for leaf in leaves))
            try:
                for batch in opened.iter_batches(rows, columns=roots, use_threads=False):
                    yield self._columns(arrow().Table.from_batches([batch]), leaves, file, first)
                    first += batch.num_rows
            except (arrow().ArrowException, OSError) as error:
                raise self._damaged(file, error, "sound pages") from error

    def where(self, index: int) -> Where:
        """Path, and row number in its file."""
        block = int(np.searchsorted(self._firsts, index, side="right")) - 1
        group = self._groups[block]
        return Where(path=self.paths[group.file], record=index - int(self._firsts[block]) + group.first)


def is_parquet(head: bytes) -> bool:
    """Whether some first bytes are those of a Parquet file."""
    return head.startswith(MAGIC)


def compression_of(paths: Sequence[str]) -> str:
    """The compression of the columns."""
    found = set()
    for footer in ParquetTable(paths)._footers:
        for group in range(footer.num_row_groups):
            row_group = footer.row_group(group)
            found |= {row_group.column(at).compression.lower() for at in range(row_group.num_columns)}
    return ", ".join(sorted("none" if name == "uncompressed" else name for name in found)) or "none"


FORMAT = Format(
    name="parquet",
    suffixes=(".parquet", ".pq"),
    knows=is_parquet,
    open=ParquetTable,
    options=frozenset({"verify"}),
    sink=ParquetWriter,
    misfits=misfits,
    compressions=COMPRESSIONS,
    compression_of=compression_of,
    join=join_parquet,
    verify=verify_blocks,
)
