"""A source for the tasks of a Ray Data dataset.

A task gets a reference and two numbers. The source is in the object store once, with the indexes of its files and what its filters keep: no
task looks for records again, and no task evaluates a filter. On one node, all tasks share these indexes in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from headrace._optional import require
from headrace._ray import Cluster
from headrace.adapters.ray_blocks import block_of_batch, block_row_bytes, is_measurable, no_columns, zero_block
from headrace.contracts.records import files_of
from headrace.contracts.schema import Schema
from headrace.contracts.values import Indices
from headrace.errors import HeadraceError
from headrace.formats.framed.records import FramedRecords
from headrace.formats.index.index import RecordIndex
from headrace.sources.node import records_below
from headrace.sources.source import Source
from headrace.sources.user_functions import Filtered

__all__ = ["SharedSource", "read_rows"]

SAMPLED_ROWS = 32
PARTS_PER_CPU = 4
"""Of a filter: the slowest part should not be long."""
KEPT_SOURCES = 2
"""How many sources a worker keeps open."""
Columns = Mapping[str, str] | None
"""``{name in the source: name in the block}``; ``None``: all, as they are."""


class SharedSource:
    """A source, its size, and a reference to it.

    Args:
        source: The source.
        cluster: Indexes files and evaluates filters, if that was not done before.

    Raises:
        CorruptRecord, CorruptFile: A file is damaged.
        TransformError: A predicate fails.
    """

    def __init__(self, source: Source, cluster: Cluster) -> None:
        self.source = source
        for records in _records_to_index(source):
            if records.needs_index(least_files=2) and sum(node.cpus > 0 for node in cluster.nodes()) > 1:
                _index_on(cluster, records)
        for filtered in source.filters():
            _evaluate_on(cluster, filtered)
        self.rows = len(source)
        self.files = tuple(path for records in records_below(source.node) for path in files_of(records))

    @cached_property
    def reference(self) -> Any:
        """Of the source and its indexes, in the object store."""
        indexes = [records.index if records.is_indexed else None for records in _records_to_index(self.source)]
        return require("ray", extra="ray").put((self.source, indexes))

    @cached_property
    def row_bytes(self) -> float:
        """The bytes of a row in a block: exact if it is the same for all, else that of a sample."""
        return self.bytes_of(None)

    def bytes_of(self, columns: Columns) -> float:
        """As :attr:`row_bytes`, of some columns."""
        schema = self._schema(columns)
        if is_measurable(schema):
            return block_row_bytes(schema)
        return float(self._sample.select(self._names(columns)).nbytes / max(1, self._sample.num_rows))

    def block_schema_of(self, columns: Columns) -> Any:
        """The ``pyarrow.Schema`` of blocks; ``None`` if it would take a row to find it, and there is none."""
        schema = self._schema(columns)
        if not schema:
            return None
        if is_measurable(schema):
            found = zero_block(schema)
        elif self.rows:
            found = self._sample.select(self._names(columns))
        else:
            return None
        return found.rename_columns(list((columns or {name: name for name in schema}).values())).schema

    def _names(self, columns: Columns) -> list[str]:
        return list(self.source.schema if columns is None else columns)

    def _schema(self, columns: Columns) -> Schema:
        return self.source.schema if columns is None else self.source.schema.select(list(columns))

    @cached_property
    def _sample(self) -> Any:
        """A block of some rows from everywhere."""
        rows = np.unique(np.linspace(0, max(0, self.rows - 1), min(self.rows, SAMPLED_ROWS)).astype(np.int64))
        return (
            block_of_batch(self.source.batch(rows), self.source.schema) if len(rows) else zero_block(self.source.schema)
        )


def _records_to_index(source: Source) -> list[FramedRecords]:
    return [records for records in records_below(source.node) if isinstance(records, FramedRecords)]


def _index_on(cluster: Cluster, records: FramedRecords) -> None:
    """Index the files of records on the nodes of a cluster, one file a task."""
    files = [records.file_records(number) for number in range(len(records.paths))]
    waiting = [cluster.submit(_index_of, each) for each in files]
    records.join_indexes([cluster.result(reference) for reference in waiting])


def _index_of(records: FramedRecords) -> RecordIndex:
    return records.index


def _evaluate_on(cluster: Cluster, filtered: Filtered) -> None:
    """Find out which examples a filter keeps."""
    n = len(filtered.parent)
    count = max(1, min(n, PARTS_PER_CPU * cluster.cpus()))
    shared = cluster.ray.put(filtered)  # functions of the user go by Ray's own pickle, which knows lambdas
    task = cluster.ray.remote(_kept_in).options(name="headrace filter", num_cpus=1)
    waiting = [task.remote(shared, k * n // count, (k + 1) * n // count) for k in range(count)]
    filtered.keep(np.concatenate([np.zeros(0, np.int64), *(_result(cluster, each) for each in waiting)]))


def _kept_in(filtered: Filtered, start: int, stop: int) -> Indices:
    return filtered.kept_in(start, stop)


def _result(cluster: Cluster, reference: Any) -> Indices:
    try:
        found: Indices = cluster.ray.get(reference)
    except Exception as error:
        cause = getattr(error, "cause", None)
        if isinstance(cause, HeadraceError):
            raise cause from None
        raise
    return found


_open_sources: dict[str, Source] = {}


def _source_of(reference: Any) -> Source:
    """The source of a reference, opened once in each worker."""
    key = reference.hex()
    if key not in _open_sources:
        source, indexes = require("ray", extra="ray").get(reference)
        for records, index in zip(_records_to_index(source), indexes, strict=True):
            if index is not None:
                records.take_index(index)
        while len(_open_sources) >= KEPT_SOURCES:
            _open_sources.pop(next(iter(_open_sources)))
        _open_sources[key] = source
    return _open_sources[key]


def read_rows(reference: Any, columns: Columns, start: int, stop: int, step: int) -> Iterator[Any]:
    """The blocks of a read task.

    Args:
        reference: Of :class:`SharedSource`.
        columns: The columns of the blocks.
        start, stop: The rows.
        step: The most rows of a block.
    """
    source = _source_of(reference)
    if columns is not None and not columns:
        yield from (no_columns(min(step, stop - at)) for at in range(start, stop, step))
        return
    if columns is not None:
        source = source.select(*columns).rename(columns)
    for at in range(start, stop, step):
        yield block_of_batch(source.batch(np.arange(at, min(at + step, stop))), source.schema)
