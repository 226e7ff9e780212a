"""A source for the tasks of a Ray Data dataset.

A task gets a reference and two numbers. The source is in the object store once, with the indexes of its files and what its filters keep: no
task looks for records again, and no task evaluates a filter. On one node, all tasks map the same index (:class:`headrace.formats.index.parts.SentSource`).
"""

from __future__ import annotations

import contextlib
import os
import pickle
from collections.abc import Iterator, Mapping
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from headrace._optional import require
from headrace._ray.cluster import Cluster, enter_folder, is_end_of_worker
from headrace.adapters.ray_blocks import (
    block_of_batch,
    block_row_bytes,
    check_storable,
    is_measurable,
    no_columns,
    zero_block,
)
from headrace.contracts.records import files_of
from headrace.contracts.schema import Schema, any_width
from headrace.contracts.values import Indices
from headrace.errors import DataError, HeadraceError, SchemaMismatch, TransformError, describe_error
from headrace.formats.index.parts import SentSource, index_one, join_indexes, missing_indexes
from headrace.io.system import cached_property, search_path
from headrace.io.urls import is_url
from headrace.sources.node import read_blocks, records_below
from headrace.sources.operations.choosing import Filtered
from headrace.sources.operations.joining import widen
from headrace.sources.source import Source

__all__ = ["MOST_BLOCK_BYTES", "USUAL_BLOCK_BYTES", "SharedSource", "read_rows"]

ASKED_ROWS = 1024
SAMPLED_ROWS = 32
USUAL_BLOCK_BYTES, MOST_BLOCK_BYTES = 64 << 20, 128 << 20
PARTS_PER_CPU = 4
"""Of a filter: the slowest part should not be long."""
KEPT_SOURCES = 2
"""How many sources a worker keeps open."""
HINT = "Types come from the first examples: let the function return values of one kind and number of axes."
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
        UnsupportedData: A feature has no Arrow type.
    """

    def __init__(self, source: Source, cluster: Cluster) -> None:
        self.source = source
        has_nodes = sum(node.cpus > 0 for node in cluster.nodes()) > 1  # on one, threads here do the same
        for request in missing_indexes(records_below(source.node)) if has_nodes else ():
            waiting = [cluster.submit(index_one, request, path) for path in request.paths]
            join_indexes(request, [cluster.result(reference)[1] for reference in waiting])
        for filtered in source.filters():
            _evaluate_on(cluster, filtered)
        self.rows: int = len(source)
        self.schema: Schema = _block_features(source)
        check_storable(self.schema)
        self.files: tuple[str, ...] = tuple(
            path for records in records_below(source.node) for path in files_of(records)
        )

    @cached_property
    def reference(self) -> Any:
        """Of the pickled source, with its indexes, in the object store."""
        is_relative = any(not (is_url(path) or Path(path).is_absolute()) for path in self.files)
        folder = str(Path.cwd()) if is_relative else ""
        ray = require("ray", extra="ray")
        content = ray.cloudpickle.dumps(SentSource(self.source, records_below(self.source.node)))
        return ray.put((content, folder, search_path()))

    @cached_property
    def row_bytes(self) -> float:
        """The bytes of a row in a block: exact if it is the same for all, else that of a sample."""
        return self.bytes_of(None)

    def bytes_of(self, columns: Columns) -> float:
        """As :attr:`row_bytes`, of some columns."""
        schema = self._schema(columns)
        if is_measurable(schema):
            return block_row_bytes(schema)
        found = float(self._sample.select(self._names(columns)).nbytes / max(1, self._sample.num_rows))
        stored, sampled = self._stored
        return found * stored / sampled if stored and sampled else found

    def growth_of(self, columns: Columns) -> float:
        """How many bytes of blocks come from a byte where the source is stored, by the sample; 0: not known, or not needed.

        Of all columns, at least 1: small rows have a large share of what files add to each row.
        """
        sampled = self._stored[1]
        if not sampled or is_measurable(self._schema(columns)):
            return 0.0
        found = float(self._sample.select(self._names(columns)).nbytes / max(1, self._sample.num_rows)) / sampled
        return max(found, 1.0) if columns is None else found

    def block_schema_of(self, columns: Columns) -> Any:
        """The ``pyarrow.Schema`` of blocks; ``None`` without columns."""
        schema = self._schema(columns)
        if not schema:
            return None
        if is_measurable(schema):
            found = zero_block(schema)
        else:
            found = self._sample.select(self._names(columns))
        return found.rename_columns(list((columns or {name: name for name in schema}).values())).schema

    def _names(self, columns: Columns) -> list[str]:
        return list(self.schema if columns is None else columns)

    def _schema(self, columns: Columns) -> Schema:
        return self.schema if columns is None else self.schema.select(list(columns))

    @property
    def _sampled_rows(self) -> Indices:
        return np.unique(np.linspace(0, max(0, self.rows - 1), min(self.rows, SAMPLED_ROWS)).astype(np.int64))

    @cached_property
    def _sample(self) -> Any:
        """A block of some rows from everywhere."""
        return _block_of(self.source, self._sampled_rows, self.schema)

    @cached_property
    def _stored(self) -> tuple[float, float]:
        """What a row takes where the source is stored, on the average of all rows and of the sample. 0: not known."""
        rows = self._sampled_rows.tolist()
        sampled = sum(_stored_bytes(self.source, row, row + 1) for row in rows)
        return _stored_bytes(self.source, 0, self.rows) / max(1, self.rows), sampled / max(1, len(rows))


def _block_features(source: Source) -> Schema:
    """The features of all blocks. A function's first example does not show which axes vary: about 1,000 more are asked."""
    schema = source.schema
    if not source.cuts_cleanly:
        # An example that fails is an error of the task that reads it, if its columns are wanted.
        with contextlib.suppress(DataError, TransformError):
            # The first block has few examples. Their size decides how many fit into memory.
            for _, _, batch in islice(read_blocks(source.node, ASKED_ROWS), 2):
                schema = widen(schema, batch)
    return any_width(schema)


def _stored_bytes(source: Source, start: int, stop: int) -> int:
    """What rows take where they are stored; 0 if that is not known."""
    try:
        return source.stored_bytes(start, stop)
    except DataError:  # such as a damaged index, which reading the rows reports
        return 0


def _block_of(source: Source, rows: Indices, schema: Schema) -> Any:
    """A block of some rows.

    Raises:
        SchemaMismatch: A value does not fit its feature; the error names its place.
    """
    batch = source.batch(rows)
    try:
        return block_of_batch(batch, schema)
    except SchemaMismatch as error:
        at = error.where.record
        where = error.where if at is None else source.where(int(rows[at])).at(feature=error.where.feature)
        raise SchemaMismatch(where, expected=error.expected, found=error.found, hint=HINT) from error


def _evaluate_on(cluster: Cluster, filtered: Filtered) -> None:
    """Find out which examples a filter keeps."""
    n = len(filtered.parent)
    count = max(1, min(n, PARTS_PER_CPU * cluster.cpus()))
    bounds = [k * n // count for k in range(count + 1)]
    shared = cluster.share(filtered)
    waiting = [cluster.submit(Filtered.kept_in, start, stop, common=shared) for start, stop in pairwise(bounds)]
    filtered.keep(np.concatenate([np.zeros(0, np.int64), *(cluster.result(reference) for reference in waiting)]))


_open_sources: dict[str, Source] = {}


def _source_of(reference: Any) -> Source:
    """The source of a reference, opened once in each worker."""
    key = reference.hex()
    if key not in _open_sources:
        sent, folder, path = require("ray", extra="ray").get(reference)
        enter_folder(folder or os.curdir, path)
        source = pickle.loads(sent).source  # noqa: S301 - from the driver, by way of Ray, which pickles too
        while len(_open_sources) >= KEPT_SOURCES:
            _open_sources.pop(next(iter(_open_sources)))
        _open_sources[key] = source
    return _open_sources[key]


def read_rows(
    reference: Any, schema: Schema, columns: Columns, start: int, stop: int, step: int, growth: float
) -> Iterator[Any]:
    """The blocks of a read task.

    Args:
        reference: Of :class:`SharedSource`.
        schema: Of all features of the source, that all blocks fit.
        columns: The columns of the blocks.
        start, stop: The rows.
        step: The most rows of a block.
        growth: Of :meth:`SharedSource.growth_of`. If it is known, rows that are larger than the others are cut into more blocks.
    """
    source = whole = _source_of(reference)
    if columns is not None and not columns:
        yield from (no_columns(min(step, stop - at)) for at in range(start, stop, step))
        return
    if columns is not None:
        source = source.select(*columns).rename(columns)
        schema = Schema({new: schema[old] for old, new in columns.items()})
    while True:  # without rows, a block that shows the features
        count = min(step, stop - start)
        if growth * (stored := _stored_bytes(whole, start, start + count)) > MOST_BLOCK_BYTES:
            while count > 1 and growth * stored > USUAL_BLOCK_BYTES:
                count = (count + 1) // 2
                stored = _stored_bytes(whole, start, start + count)
        block = _read_block(source, np.arange(start, start + count), schema)
        growth = max(growth, block.nbytes / stored) if growth and stored else growth
        yield block
        start += count
        if start >= stop:
            return


def _read_block(source: Source, rows: Indices, schema: Schema) -> Any:
    """As :func:`_block_of`, where a function that calls ``sys.exit`` does not end the worker, which Ray would start again."""
    try:
        return _block_of(source, rows, schema)
    except SystemExit as error:
        if is_end_of_worker(error):
            raise
        raise HeadraceError(f"a function of the source called sys.exit: {describe_error(error)}") from error
