"""Sources as datasets of Ray Data, and datasets as files."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any

from headrace import _hooks
from headrace._arguments import check_integer, check_names
from headrace._optional import require
from headrace._ray.connection import connect
from headrace.adapters.ray_blocks import check_member, check_storable
from headrace.adapters.ray_sources import MOST_BLOCK_BYTES, USUAL_BLOCK_BYTES, SharedSource, read_rows
from headrace.contracts.csv import CSV
from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema, any_width
from headrace.sources.open import Paths
from headrace.sources.open import open as open_source
from headrace.sources.source import Source

__all__ = ["plan_blocks", "read", "write"]

LEAST_BLOCK_BYTES = 1 << 20
BLOCKS_PER_CPU = 4


def read(
    data: Source | Paths,
    *,
    columns: Sequence[str] | None = None,
    num_blocks: int | None = None,
    concurrency: int | None = None,
    num_cpus: float | None = None,
    memory: float | None = None,
) -> Any:
    """A source as a ``ray.data.Dataset``. To train, give each rank a :class:`headrace.Loader` instead: it is many times faster.

    Blocks have about 64 MB, and there are at least four for each CPU of the cluster, as long as they have 1 MB. Without a connection to
    Ray, the cluster that ``RAY_ADDRESS`` names is used; else a local one starts, which lasts until ``ray.shutdown()``.

    Args:
        data: What :func:`headrace.open` takes, or a source; views read only their part. Every node must see the files.
        columns: Only these features; the others are not decoded. ``dataset.select_columns`` does the same.
        num_blocks: How many blocks, instead of the number planned here.
        concurrency, num_cpus, memory: As for ``ray.data.read_datasource``.

    Returns:
        A dataset with the examples of the source; a task reads consecutive ones. A feature of a fixed shape is a tensor column, and so are
        decoded images. Text is ``string`` or ``binary``; other features of several values are lists.

    Raises:
        UnsupportedData: A feature has no Arrow type: sparse rows, complex numbers. Or the cluster was reached at ``ray://``.
        TransformError: The predicate of a filter fails. Filters are evaluated on the cluster, before this returns.
        MissingExtra: Ray is not installed, or is older than 2.52.
        NoFiles, CorruptFile, CorruptRecord, SchemaMismatch: As for :func:`headrace.open`. Damage within a record ends the tasks that read it.
    """
    check_names(columns, "columns")
    num_blocks = None if num_blocks is None else check_integer(num_blocks, "num_blocks", least=1)
    source = open_source(data) if not isinstance(data, Source) else data
    source = source if columns is None else source.select(*columns)
    if source.cuts_cleanly:  # else the first examples show what the features are
        check_storable(any_width(source.schema))
    cluster = connect()  # for good: the dataset is read when it is used
    check_member(cluster)
    shared = SharedSource(source, cluster)
    given = {"concurrency": concurrency, "num_cpus": num_cpus, "memory": memory}
    ray_data = require("ray.data", extra="ray")
    most = ray_data.DataContext.get_current().target_max_block_size or USUAL_BLOCK_BYTES
    planned = plan_blocks(shared.rows, shared.row_bytes, cluster.cpus(), most_bytes=min(most, USUAL_BLOCK_BYTES))
    return ray_data.read_datasource(
        _datasource_class()(shared),
        override_num_blocks=num_blocks or planned,
        **{name: value for name, value in given.items() if value is not None},
    )


def write(
    dataset: Any,
    path: str | os.PathLike[str],
    *,
    format: str | CSV | None = None,
    codec: str | None = None,
    schema: Schema | Mapping[str, Feature] | None = None,
    shards: int = 1,
    compression: str | None = None,
    overwrite: bool = False,
    concurrency: int | None = None,
) -> int:
    """Write a ``ray.data.Dataset`` into files that appear complete or not at all.

    Tasks write beside the final place, out of sight of readers, and the files get their names after the last one. Tasks that Ray starts
    again, workers that are killed, and a run that fails leave nothing behind. In a store, names are given by copies that the store
    makes. If this process is killed meanwhile, the next call for the same path finishes them first.

    Args:
        dataset: The dataset. Its order is kept if ``DataContext.execution_options.preserve_order`` is set.
        path: As for :func:`headrace.write`: a folder that every node sees, or a store. ``x.tfrecord@64`` is 64 shards of nearly equal
            length, for which Ray holds all rows at once in its object store. ``x.tfrecord@*`` is one for each write task, which needs
            no more memory than the tasks.
        format, codec, compression, shards: As for :class:`headrace.Writer`; a format of files, not of folders.
        schema: Feature types. By default those of the blocks, which must agree.
        overwrite: Replace existing files. By default they are an error.
        concurrency: How many tasks write at once.

    Returns:
        The number of examples written.

    Raises:
        UnsupportedData: A file exists, a feature would be lost, or a node does not see the folder.
        SchemaMismatch: Blocks have different features.
    """
    return _hooks.write_dataset(
        dataset,
        path,
        format=format,
        codec=codec,
        schema=schema,
        shards=shards,
        compression=compression,
        overwrite=overwrite,
        concurrency=concurrency,
    )


def plan_blocks(rows: int, row_bytes: float, cpus: int, *, most_bytes: int = USUAL_BLOCK_BYTES) -> int:
    """Into how many blocks some rows are cut.

    Each block costs Ray tens of milliseconds, and large ones take memory several times over: in a task, in the object store, and where
    they are used.

    >>> plan_blocks(60_000, 3152, cpus=2), plan_blocks(10_000_000, 3152, cpus=2), plan_blocks(100, 8, cpus=64)
    (8, 470, 1)
    """
    size = int(rows * row_bytes)
    for_cpus = min(BLOCKS_PER_CPU * cpus, size // LEAST_BLOCK_BYTES)
    return max(1, min(rows, max(-(-size // most_bytes), for_cpus)))


def _read_tasks(shared: SharedSource, columns: Mapping[str, str] | None, count: int, limit: int | None) -> list[Any]:
    """The tasks that read all rows, or of each only the first ``limit``."""
    task_class = require("ray.data.datasource", extra="ray").ReadTask
    metadata_class = require("ray.data.block", extra="ray").BlockMetadata
    row_bytes, block_schema = shared.bytes_of(columns), shared.block_schema_of(columns)
    step, growth = max(1, int(MOST_BLOCK_BYTES / max(row_bytes, 1.0))), shared.growth_of(columns)
    tasks = []
    for number in range(count):
        start, stop = number * shared.rows // count, (number + 1) * shared.rows // count
        stop = stop if limit is None else min(stop, start + limit)
        metadata = metadata_class(
            num_rows=stop - start,
            size_bytes=int((stop - start) * row_bytes),
            input_files=shared.files if number == 0 else None,  # Ray joins those of all tasks
            exec_stats=None,
        )
        read_block = partial(read_rows, shared.reference, shared.schema, columns, start, stop, step, growth)
        read_block.__name__ = "read_rows"  # type: ignore[attr-defined] # for messages of Ray
        tasks.append(task_class(read_block, metadata, block_schema))
    return tasks


@cache
def _datasource_class() -> Any:
    """The class, which cannot be defined before Ray is imported."""
    base = require("ray.data", extra="ray").Datasource

    class HeadraceDatasource(base):  # type: ignore[misc, valid-type]
        """Read tasks of a source.

        The methods for projections are those that Ray's optimizer calls, and not documented. The columns are kept here, so that
        nothing depends on attributes of its base class; a Ray without these methods gets all columns and drops them itself.
        """

        def __init__(self, shared: SharedSource) -> None:
            super().__init__()
            self.shared = shared
            self.columns: Mapping[str, str] | None = None

        def get_name(self) -> str:
            return "Headrace"

        def estimate_inmemory_data_size(self) -> int:
            return int(self.shared.rows * self.shared.bytes_of(self.columns))

        def get_read_tasks(self, parallelism: int, per_task_row_limit: int | None = None, **_: Any) -> list[Any]:
            return _read_tasks(
                self.shared, self.columns, min(parallelism, max(self.shared.rows, 1)), per_task_row_limit
            )

        def supports_projection_pushdown(self) -> bool:
            return hasattr(base, "apply_projection") and hasattr(base, "get_projection_map")

        def get_projection_map(self) -> Mapping[str, str] | None:
            return self.columns

        def get_column_renames(self) -> dict[str, str] | None:
            return {old: new for old, new in (self.columns or {}).items() if old != new} or None

        def apply_projection(self, projection_map: Mapping[str, str] | None) -> Any:
            clone = copy.copy(self)
            if projection_map is not None:
                known = {name: name for name in self.shared.source.schema} if self.columns is None else self.columns
                before = {new: old for old, new in known.items()}
                clone.columns = {before[name]: new for name, new in projection_map.items()}
            return clone

    return HeadraceDatasource
