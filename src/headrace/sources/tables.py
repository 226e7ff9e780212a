"""Typed columns as examples: those of tables in files (npy, Parquet and others), and those in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from headrace.contracts.protocols import CutsCleanly, defines, known_bytes
from headrace.contracts.records import GivesReader, IsUnnamed, ReadsBlocks, Table, TakesSchema, check_given
from headrace.contracts.schema import Schema
from headrace.contracts.strings import Strings
from headrace.contracts.values import Batch, Example, Indices, Ragged, bytes_of, take_rows
from headrace.errors import SchemaMismatch, Where
from headrace.sources.node import Node, examples_by_index, rows_of
from headrace.sources.stacking import as_columns, schema_of
from headrace.sources.views import Selected

__all__ = ["ColumnNode", "TableNode", "table_node"]

BLOCK = 256
"""Rows that iteration reads at a time."""


class TableNode:
    """Row ``i`` of some files of a table as example ``i``.

    Args:
        records: The table.
        columns: Only these; by default all.
    """

    def __init__(self, records: Table, columns: tuple[str, ...] | None = None) -> None:
        self.records = records
        self.columns = columns
        self.schema: Schema = records.schema if columns is None else records.schema.select(columns)
        self._names = tuple(self.schema)

    def __len__(self) -> int:
        return len(self.records)

    def batch(self, indices: Indices, /) -> Batch:
        return self.records.batch(indices, self._names)

    def checked_reader(self) -> Callable[[Indices], Batch]:
        """:meth:`batch` for indices that were checked."""
        return self.records.reader(self._names) if defines(self.records, GivesReader) else self.batch

    def where(self, index: int, /) -> Where:
        return self.records.where(index)

    def examples(self, at_once: int = BLOCK) -> Iterator[Example]:
        """All examples in order, ``at_once`` read together, without an index where the format needs none for that."""
        if not isinstance(self.records, ReadsBlocks):
            yield from examples_by_index(self)
            return
        for block in self.records.blocks(self._names, at_once):
            batch = {name: _copy_shared(column) for name, column in block.items()}
            yield from rows_of(batch, _length(next(iter(batch.values()), ())))

    def narrow(self, names: tuple[str, ...], /) -> Node:
        return TableNode(self.records, names)

    def cuts_cleanly(self) -> bool:
        return not defines(self.records, CutsCleanly) or self.records.cuts_cleanly

    def stored_bytes(self, first: int, stop: int, /) -> int:
        return known_bytes(self.records, first, stop)


def table_node(records: Table, schema: Schema | None = None) -> Node:
    """A table as a node. A schema that is given is what the rows are read as, or checked against where the format has only one way.

    Raises:
        SchemaMismatch: A feature of the table is not what the schema says.
    """
    if schema is None:
        return TableNode(records)
    if isinstance(records, TakesSchema):
        return TableNode(records.with_schema(schema), tuple(schema))
    where = Where(path=records.paths[0])
    if len(schema) == 1 and isinstance(records, IsUnnamed) and records.is_unnamed:
        own = next(iter(records.schema))
        check_given(records.schema, Schema({own: next(iter(schema.values()))}), where)
        return Selected(TableNode(records), {next(iter(schema)): own})
    check_given(records.schema, schema, where)
    return TableNode(records, tuple(schema))


class ColumnNode:
    """Examples that are in memory as columns.

    Args:
        columns: As :func:`~headrace.sources.stacking.as_columns` takes them.
    """

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self.columns: dict[str, Any] = as_columns(columns)
        lengths = {name: _length(column) for name, column in self.columns.items()}
        if len(set(lengths.values())) > 1:
            raise SchemaMismatch(Where(), expected="columns of equal length", found=str(lengths))
        self.schema: Schema = schema_of(self.columns)
        self._length = next(iter(lengths.values()), 0)

    def __len__(self) -> int:
        return self._length

    def batch(self, indices: Indices, /) -> Batch:
        return {name: _take(column, indices) for name, column in self.columns.items()}

    def where(self, index: int, /) -> Where:
        return Where(record=index)

    def cuts_cleanly(self) -> bool:
        return True

    def stored_bytes(self, first: int, stop: int, /) -> int:
        return bytes_of(
            {name: column[first:stop] for name, column in self.columns.items() if not hasattr(column, "tocsr")}
        )


def _length(column: Any) -> int:
    return int(column.shape[0]) if hasattr(column, "tocsr") else len(column)


def _copy_shared(column: Any, axes: int = 1) -> Any:
    """A column whose rows may be changed: a copy of one that shares the memory of its table. A row of one axis is a number, which is a copy anyway."""
    if isinstance(column, Ragged) and isinstance(column.values, (Ragged, np.ndarray)):
        first, last = int(column.offsets[0]), int(column.offsets[-1])
        used = column.values[first:last]
        values = _copy_shared(used, 0)
        return column if values is used else Ragged(values, column.offsets - first)
    is_shared = isinstance(column, np.ndarray) and column.ndim > axes and not column.flags.writeable
    return column.copy() if is_shared else column


def _take(column: Any, indices: Indices) -> Any:
    if isinstance(column, (list, Ragged, Strings)):
        return take_rows(column, indices)
    return column.tocsr()[indices] if hasattr(column, "tocsr") else np.asarray(column)[indices]
