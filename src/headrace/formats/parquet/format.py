"""Parquet: columns in row groups, read and written by pyarrow."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from headrace.contracts.records import Format
from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Indices
from headrace.errors import CorruptFile, DataError, Where
from headrace.formats.parquet.groups import (
    MOST_PARTS,
    GroupSize,
    Part,
    PartReader,
    RowBlock,
    arrow_types_in,
    column_differences,
    damage_error,
    divide,
    drop_oldest,
    group_sizes,
    is_parquet,
    open_reader,
    other_columns_error,
    part_of,
    plan_blocks,
    schema_text_in,
    share_of,
)
from headrace.formats.parquet.pages import NativeColumns, codecs_of
from headrace.formats.parquet.write import COMPRESSIONS, ParquetWriter, pieces_of_groups
from headrace.formats.table.arrow import from_arrow, held_from_arrow, leaf_array, take_from
from headrace.formats.table.arrow_types import (
    Leaf,
    arrow,
    check_named_alike,
    embedded_schema,
    leaves_of,
    misfits,
    refuse_unreadable,
    schema_of_leaves,
)
from headrace.formats.table.blocks import BlockTable, verify_blocks
from headrace.formats.table.values import BadValue, twice_error
from headrace.io.local.mapped import guard_reads
from headrace.io.system import cached_property
from headrace.io.threads import FORKS

__all__ = ["FORMAT", "ParquetTable"]


MOST_CURSORS = 8
PIECE_BYTES = 16 << 20
MOST_READERS = 128


class ParquetTable(BlockTable):
    """The rows of Parquet files, concatenated in order.

    Only the requested columns are decoded, large row groups in parts: see :class:`~headrace.formats.table.blocks.BlockTable`.

    Args:
        paths: The files. All must have the columns of the first one, in any order.
        verify: ``False`` skips page checksums, which few writers write.
        given: The features to read; by default derived from the column types.

    Raises:
        CorruptFile: At first use: the footer is damaged.
        UnsupportedData: At first use: a column has no array type.
    """

    format = "parquet"

    def __init__(self, paths: Sequence[str], *, verify: bool = True, given: Schema | None = None) -> None:
        super().__init__(paths, given=given)
        self.verify = verify

    @cached_property
    def _footers(self) -> list[Any]:
        footers = []
        for number in range(len(self.paths)):
            reader = self._open(number)
            footers.append(reader.metadata)
            self._keep_reader(number, reader)
        self._files.expect([self._files.signature(number) for number in range(len(self.paths))])
        return footers

    def _open(self, number: int, footer: Any = None) -> Any:
        """A new reader. Threads must not share one."""
        pa = arrow()
        buffer = self._files.content(number).buffer
        try:
            with guard_reads(buffer):
                return open_reader(pa.BufferReader(pa.py_buffer(buffer)), footer, verify=self.verify)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise self._damage_error(number, error, "an intact Parquet footer") from error

    @cached_property
    def _readers(self) -> dict[tuple[int, int], list[Any]]:
        """Readers of files that no thread is using: opening one takes a while where there are many columns."""
        return {}

    def _row_groups(self, file: int, numbers: Sequence[int], leaves: Sequence[Leaf]) -> Any:
        idle = self._readers.setdefault((FORKS.count, file), [])
        try:
            reader = idle.pop()
        except IndexError:
            reader = self._open(file, self._footers[file])
        try:
            with guard_reads(self._files.content(file).buffer):
                table = reader.read_row_groups(numbers, columns=self._roots(file, leaves), use_threads=False)
        except (arrow().ArrowException, OSError) as error:
            if len(numbers) > 1:  # Which of them is at fault?
                return arrow().concat_tables([self._row_groups(file, [number], leaves) for number in numbers])
            raise self._damage_error(file, error, f"an intact row group {numbers[0]}") from error
        self._keep_reader(file, reader)
        return table

    def _keep_reader(self, file: int, reader: Any) -> None:
        idle = self._readers.setdefault((FORKS.count, file), [])
        if len(idle) < MOST_PARTS:
            idle.append(reader)
        drop_oldest(self._readers, MOST_READERS)

    def _damage_error(self, number: int, error: Exception, expected: str) -> DataError:
        return damage_error(error, Where(path=self.paths[number]), expected)

    @cached_property
    def _leaves(self) -> dict[str, Leaf]:
        return {leaf.name: leaf for leaf in leaves_of(self._footers[0].schema.to_arrow_schema())}

    def _own_schema(self) -> Schema:
        """The schema derived from the column types."""
        footer = self._footers[0]
        written, leaves = embedded_schema(schema_text_in(footer)), list(leaves_of(footer.schema.to_arrow_schema()))
        found = schema_of_leaves(leaves, Where(path=self.paths[0]), embedded=written)
        self._check_alike()
        check_named_alike(found, self.paths, map(schema_text_in, self._footers))
        return found

    def _check_given(self, given: Schema) -> Schema:
        where = Where(path=self.paths[0])
        refuse_unreadable(given, where)
        self._check_held(tuple(given), self._leaves, "column", where)
        held = [leaf.name for leaf in leaves_of(self._footers[0].schema.to_arrow_schema())]
        for name in given:
            if held.count(name) > 1:
                raise twice_error(where.at(feature=name))
        return given

    def _check_alike(self) -> None:
        first = list(self._leaves.values())
        for path, footer in zip(self.paths[1:], self._footers[1:], strict=True):
            if self._is_like_first(footer) and arrow_types_in(footer) == arrow_types_in(self._footers[0]):
                continue
            if differences := column_differences(first, list(leaves_of(footer.schema.to_arrow_schema()))):
                raise other_columns_error(path, self.paths[0], differences)

    def _is_like_first(self, footer: Any) -> bool:
        """Whether a file has the columns of the first one, which is soon said for a thousand shards."""
        return bool(footer.schema.equals(self._footers[0].schema))

    @cached_property
    def _blocks(self) -> list[RowBlock]:
        sizes = enumerate(self._group_sizes)
        return [block for file, held in sizes for block in plan_blocks(file, held, self._footers[file].num_columns)]

    @cached_property
    def _group_sizes(self) -> list[list[GroupSize]]:
        """What each row group of each file holds. Asking a footer takes a while where there are many.
        Asking a damaged one for single columns would end the process.
        """
        decoded = self._native.number_bytes
        files = enumerate(zip(self.paths, self._footers, strict=True))
        return [list(group_sizes(footer, Where(path=path), decoded(file))) for file, (path, footer) in files]

    def _block_sizes(self) -> Indices:
        """The encoded bytes of each block, or its share of those of its row group."""
        return np.array([share_of(block, self._group_sizes[block.file]) for block in self._blocks], np.int64)

    @cached_property
    def _pieces(self) -> Indices:
        sizes = self._block_sizes()
        pieces: Indices = np.unique((np.cumsum(sizes) - sizes) // PIECE_BYTES, return_inverse=True)[1]
        return pieces

    @cached_property
    def _firsts(self) -> Indices:
        return np.cumsum([0, *(block.rows for block in self._blocks)], dtype=np.int64)

    @cached_property
    def _broken(self) -> dict[tuple[int, int, int, tuple[str, ...]], DataError]:
        """Large row groups that have turned out to be damaged: reading up to the damage again and again would take long."""
        return {}

    @cached_property
    def _cursors(self) -> dict[tuple[int, int, int, tuple[str, ...]], PartReader]:
        """Readers of large row groups. The one that uses a cursor has taken it out."""
        return {}

    def _group(self, block: int) -> Hashable:
        found = self._blocks[block]
        return found.file, found.group

    @cached_property
    def _divisions(self) -> dict[tuple[str, ...], list[tuple[str, ...]]]:
        return {}

    def _parts(self, block: int, names: tuple[str, ...]) -> Sequence[tuple[str, ...]]:  # noqa: ARG002 - the same for all
        if len(names) == 1:
            return [names]
        found = self._divisions.get(names)
        if found is None:
            wanted = [(self._root_of[name], self._leaves[name]) for name in names]
            encoded = sum(group.encoded for groups in self._group_sizes for group in groups)
            found = self._divisions[names] = divide(wanted, encoded // max(len(self._blocks), 1))
        return found

    @cached_property
    def _root_of(self) -> dict[str, str]:
        """The name of the column of each leaf."""
        names = self._footers[0].schema.to_arrow_schema().names
        return {leaf.name: names[leaf.path[0]] for leaf in self._leaves.values()}

    def _read_block(self, block: int, names: Sequence[str]) -> Batch:
        found = self._blocks[block]
        leaves = self._leaves_of(found.file, names)
        rows = self._footers[found.file].row_group(found.group).num_rows
        part = part_of(self._blocks, block, rows)
        columns: Batch = {}
        features = {leaf: self.schema[leaf.name] for leaf in leaves}
        for number, name, column in self._native.read(block, found, part, features):
            if number == block:
                columns[name] = column
            else:
                self._kept.put(number, name, column)

        def decode(some: Sequence[Leaf]) -> Batch:
            return self._columns(self._arrow_rows(block, some), some, found.file, found.first, kept=True)

        columns = self._native.complete(found.file, leaves, columns, decode)
        self._release_pages(found, len(leaves))
        return columns

    def _arrow_rows(self, block: int, leaves: Sequence[Leaf]) -> Any:
        """A block, decoded by pyarrow."""
        found = self._blocks[block]
        part = part_of(self._blocks, block, self._footers[found.file].row_group(found.group).num_rows)
        return self._table(found, leaves) if part is None else self._part(block, found, leaves, part)

    @cached_property
    def _single(self) -> dict[tuple[int, tuple[str, ...]], Any]:
        """The block of which single rows were read last."""
        return {}

    def _read_rows(self, block: int, rows: Indices, names: Sequence[str]) -> Batch:
        found, key = self._blocks[block], (block, tuple(names))
        leaves, table = self._leaves_of(found.file, names), self._single.get(key)
        if table is None:
            self._single.clear()
            table = self._single[key] = self._arrow_rows(block, leaves)
        return self._columns(take_from(table, rows), leaves, found.file, found.first + rows)

    @cached_property
    def _native(self) -> NativeColumns:
        return NativeColumns(self._files.content, self._footers, verify=self.verify)

    def _release_pages(self, block: RowBlock, leaves: int) -> None:
        """Count these columns of a block as read, so that memory does not grow with the files: see :meth:`FileSet.passed`."""
        share = block.rows / max(len(self), 1) * leaves / max(len(self._leaves), 1)
        self._files.passed(int(self._total_bytes * share), of=self._total_bytes, first=block.file, last=block.file)

    @cached_property
    def _total_bytes(self) -> int:
        return sum(self._files.content(number).size for number in range(len(self.paths)))

    @cached_property
    def _columns_of(self) -> dict[int, tuple[list[str], dict[str, Leaf]]]:
        """The columns of each file, and its leaves by name."""
        return {}

    def _leaves_of(self, file: int, names: Sequence[str]) -> list[Leaf]:
        found = self._columns_of.get(file)
        if found is None and file and self._is_like_first(self._footers[file]):
            self._leaves_of(0, ())
            found = self._columns_of[file] = self._columns_of[0]
        if found is None:
            schema = self._footers[file].schema.to_arrow_schema()
            found = self._columns_of[file] = (schema.names, {leaf.name: leaf for leaf in leaves_of(schema)})
        self._check_held(names, found[1], "column", Where(path=self.paths[file]))
        return [found[1][name] for name in names]

    def _roots(self, file: int, leaves: Sequence[Leaf]) -> list[str]:
        """The names of the columns that hold some leaves."""
        columns = self._columns_of[file][0]
        return list(dict.fromkeys(columns[leaf.path[0]] for leaf in leaves))

    def _table(self, block: RowBlock, leaves: Sequence[Leaf]) -> Any:
        """The rows of whole row groups."""
        numbers = range(block.group, block.group + block.groups)
        table = self._row_groups(block.file, numbers, leaves)
        if len(table) != block.rows:
            found = f"{len(table)} rows in row groups {numbers.start} to {numbers.stop - 1}"
            raise CorruptFile(Where(path=self.paths[block.file]), expected=f"{block.rows} rows", found=found)
        return table

    def _part(self, block: int, found: RowBlock, leaves: Sequence[Leaf], part: Part) -> Any:
        """Part of a large row group. A reader goes through it in order, so parts before this one are decoded, too, and kept."""
        file, group = found.file, found.group
        key = (FORKS.count, file, group, tuple(leaf.name for leaf in leaves))
        if key in self._broken:
            raise self._broken[key]
        cursor = self._cursors.pop(key, None)
        try:
            with guard_reads(self._files.content(file).buffer):
                if cursor is None or cursor.block > block:
                    opened, roots = self._open(file, self._footers[file]), self._roots(file, leaves)
                    batches = opened.iter_batches(part.rows, row_groups=[group], columns=roots, use_threads=False)
                    cursor = PartReader(part.first, batches)
                while cursor.block < block:
                    self._keep_passed(cursor.block, cursor.read(self._blocks[cursor.block].rows), leaves)
                table = cursor.read(found.rows)
        except (arrow().ArrowException, OSError) as error:
            fault = self._broken[key] = self._damage_error(file, error, f"an intact row group {group}")
            raise fault from error
        if table is None or len(table) != found.rows:
            where = Where(path=self.paths[file])
            raise CorruptFile(where, expected=f"{found.rows} more rows in row group {group}", found="its end")
        if not part.is_last:
            self._cursors[key] = cursor
            drop_oldest(self._cursors, MOST_CURSORS)
        return table

    def _keep_passed(self, block: int, table: Any, leaves: Sequence[Leaf]) -> None:
        found = self._blocks[block]
        if table is not None and len(table) == found.rows:
            with suppress(DataError):  # Faults are for those who ask for these rows.
                for name, column in self._columns(table, leaves, found.file, found.first, kept=True).items():
                    self._kept.put(block, name, column)

    def _columns(
        self, table: Any, leaves: Sequence[Leaf], file: int, first: int | Indices, *, kept: bool = False
    ) -> Batch:
        """Decoded rows as columns. ``first`` is the number of the first one in its file, or are those of all. ``kept``: of whole blocks."""
        names = self._columns_of[file][0]
        position = {name: at for at, name in enumerate(table.column_names)}
        columns = {}
        for leaf in leaves:
            array = leaf_array(table, leaf, position[names[leaf.path[0]]])
            try:
                columns[leaf.name] = (held_from_arrow if kept else from_arrow)(array, self.schema[leaf.name])
            except BadValue as bad:
                record = first + bad.row if isinstance(first, int) else int(first[bad.row])
                raise bad.at(Where(path=self.paths[file], record=record, feature=leaf.name)) from bad
            except arrow().ArrowException as error:  # an index outside its dictionary
                raise self._damage_error(file, error, f"intact values of {leaf.name!r}") from error
        return columns

    def blocks(self, names: tuple[str, ...], rows: int) -> Iterator[Batch]:
        """All rows in order, ``rows`` at a time (fewer at the end of each file). Decodes no more than that at once."""
        for file in range(len(self.paths)):
            leaves, first = self._leaves_of(file, names), 0
            opened = self._open(file, self._footers[file])
            try:
                for batch in opened.iter_batches(rows, columns=self._roots(file, leaves), use_threads=False):
                    yield self._columns(arrow().Table.from_batches([batch]), leaves, file, first)
                    first += batch.num_rows
            except (arrow().ArrowException, OSError) as error:
                raise self._damage_error(file, error, "intact pages") from error

    def where(self, index: int) -> Where:
        """Path, and row number in its file."""
        number = int(np.searchsorted(self._firsts, index, side="right")) - 1
        block = self._blocks[number]
        return Where(path=self.paths[block.file], record=index - int(self._firsts[number]) + block.first)


def compression_of(paths: Sequence[str]) -> str:
    """The compression of the columns, as far as the footers can be read."""
    return codecs_of(ParquetTable(paths)._footers)


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
    pieces=pieces_of_groups,
    verify=verify_blocks,
)
