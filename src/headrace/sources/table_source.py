"""Rows of tables as examples: of npy, CSV, Parquet and every other format whose files hold typed columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace.contracts.records import Records, Table, check_given
from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Example, Indices
from headrace.errors import Where
from headrace.sources.stacking import row
from headrace.sources.views import Source

__all__ = ["TableSource"]

BLOCK = 256  # rows that iteration reads at a time


class TableSource(Source):
    """Row ``i`` of some files of a table as example ``i``.

    Args:
        records: The table.
        columns: Only these; by default all.
    """

    def __init__(self, records: Table, columns: tuple[str, ...] | None = None) -> None:
        self.records = records
        self.columns = columns
        self._schema = records.schema if columns is None else records.schema.select(columns)

    @classmethod
    def under(cls, records: Table, schema: Schema) -> Source:
        """Under a schema that was given: read as its types, or checked against them where the format has only one way.

        Raises:
            SchemaMismatch: A feature is something else.
        """
        if hasattr(records, "with_schema"):
            return cls(records.with_schema(schema), tuple(schema))
        where = Where(path=records.paths[0])
        if len(schema) == 1 and getattr(records, "is_unnamed", False):
            own = next(iter(records.schema))
            check_given(records.schema, Schema({own: next(iter(schema.values()))}), where)
            return cls(records).rename({own: next(iter(schema))})
        check_given(records.schema, schema, where)
        return cls(records, tuple(schema))

    @property
    def schema(self) -> Schema:
        return self._schema

    @property
    def format(self) -> str:
        """What the files are: ``"npy"``, ..."""
        return self.records.format

    @property
    def cuts_cleanly(self) -> bool:
        return bool(getattr(self.records, "cuts_cleanly", True))

    def _all_records(self) -> list[Records]:
        found: Any = self.records
        return [found]

    def __len__(self) -> int:
        return len(self.records)

    def where(self, index: int) -> Where:
        return self.records.where(index)

    def _batch(self, indices: Indices) -> Batch:
        return self.records.batch(indices, tuple(self._schema))

    def __iter__(self) -> Iterator[Example]:
        """All examples in order, without an index where the format needs none for that."""
        blocks = getattr(self.records, "blocks", None)
        if blocks is None:
            yield from super().__iter__()
            return
        for batch in blocks(tuple(self._schema), BLOCK):
            for position in range(_rows(batch)):
                yield row(batch, position)

    def stream(self, batch_size: int) -> Iterator[Batch] | None:
        """Batches in order, where that begins sooner than random access; else ``None``."""
        if not getattr(self.records, "prefers_streaming", False):
            return None
        blocks: Any = self.records
        found: Iterator[Batch] = blocks.blocks(tuple(self._schema), batch_size)
        return found

    def _narrowed(self, names: tuple[str, ...]) -> Source:
        return TableSource(self.records, names)


def _rows(batch: Batch) -> int:
    column: Any = next(iter(batch.values()), ())
    return int(column.shape[0]) if hasattr(column, "tocsr") else len(column)
