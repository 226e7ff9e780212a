"""A dataset of Ray Data as files: a sink whose result is complete or absent.

Ray starts write tasks again when their worker dies, keeps those of nodes that it believes dead running, and may run a finished one again to
get its answer back. So a task writes a file of a name that no other attempt has, to a staging place, and answers with that name. Only
the files whose names came back get their final names, on the driver, after the last one.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from headrace._arguments import check_flag, check_integer, check_text
from headrace._optional import require
from headrace._ray.connection import connect
from headrace.adapters.ray_blocks import batch_of_block, check_member, find_untyped, schema_of_block
from headrace.contracts.csv import CSV
from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema
from headrace.errors import DataError, NoFiles, SchemaMismatch, UnsupportedData, Where
from headrace.io.faults import file_exists_error
from headrace.io.folders import Listing, first_existing
from headrace.io.names import as_shard
from headrace.io.paths import expand_home
from headrace.io.urls import child_of, parent_of
from headrace.io.write.staging import Staging, finish_interrupted, open_staging
from headrace.writing.target import Target
from headrace.writing.writer import Writer

__all__ = ["write_dataset"]

ANY_NUMBER = "@*"
"""Ends a path whose number of shards is that of the write tasks."""
FOLDERS = ("npy_folder", "npz_folder", "image_folder")


def write_dataset(
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
    """Write a dataset of Ray Data: :func:`headrace.adapters.ray.write`."""
    check_text(codec, "codec")
    overwrite = check_flag(overwrite, "overwrite")
    concurrency = None if concurrency is None else check_integer(concurrency, "concurrency", least=1)
    if not hasattr(dataset, "write_datasink"):
        raise TypeError(f"expected a ray.data.Dataset, got {type(dataset).__name__}")
    files = _FilesToWrite.of(path, format=format, compression=compression, shards=shards)
    if overwrite and files.stem is not None:
        raise ValueError(
            f"overwrite=True needs the number of shards, as in {files.stem}@8, because other files would stay"
        )
    with connect() as cluster:
        check_member(cluster)
        finish_interrupted(files.first)
        if not overwrite:
            files.check_new()
        job = _WriteJob(files, codec, None if schema is None else Schema(schema), open_staging(files.first))
        try:
            if files.stem is None:
                dataset = dataset.repartition(len(files.target.paths))
            for _ in range(2):  # again with the schema of all blocks, if one alone does not show it
                if not job.is_complete:
                    dataset.write_datasink(_datasink_class()(job, overwrite), concurrency=concurrency)
        except BaseException as error:
            job.staging.discard()
            raise _own_error(error) from error
    return job.written


def _own_error(error: BaseException) -> BaseException:
    """The error of Headrace within an error of Ray, which has it as a cause; else the error itself."""
    cause: Any = getattr(error, "cause", None) or error.__cause__
    return cause if isinstance(cause, DataError) else error


@dataclass(frozen=True, slots=True)
class _FilesToWrite:
    """The files of a write.

    Args:
        target: What the files are. Its paths are those of one shard where the number of shards is not given.
        stem: The path without ``@*``, where the number of shards is that of the write tasks; else ``None``.
    """

    target: Target
    stem: str | None

    @classmethod
    def of(cls, path: str | os.PathLike[str], **options: Any) -> _FilesToWrite:
        """The files that a path names.

        Raises:
            UnsupportedData: The format is one of folders.
        """
        text = expand_home(path)
        stem = text[: -len(ANY_NUMBER)] if text.endswith(ANY_NUMBER) else None
        target = Target.of(text if stem is None else f"{stem}@1", **options)
        if target.format in FOLDERS:
            expected, hint = "a format of files", "Use npz, or a format of records."
            raise UnsupportedData(Where(path=text), expected=expected, found=repr(target.format), hint=hint)
        return cls(target, stem)

    @property
    def first(self) -> str:
        """The path after which the staging place is named."""
        return self.target.paths[0] if self.stem is None else self.stem

    def paths(self, count: int) -> tuple[str, ...]:
        """The final paths, if there are ``count`` files with rows."""
        if self.stem is None:
            return self.target.paths
        return Target.of(f"{self.stem}@{max(count, 1)}", format=self.target.csv or self.target.format).paths

    def check_new(self) -> None:
        """Refuse to replace files.

        Raises:
            UnsupportedData: One exists.
        """
        existing = first_existing(self.target.paths) if self.stem is None else self._existing_shard(self.stem)
        if existing is not None:
            if self.stem is None:
                raise file_exists_error(existing)
            raise file_exists_error(existing, hint="Remove the whole set first.")

    def _existing_shard(self, stem: str) -> str | None:
        """A shard of any set with this stem."""
        parent, name = parent_of(stem)
        try:
            found = Listing.of(parent).files
        except NoFiles:
            return None
        shards = (as_shard(each) for each in found)
        return next((child_of(parent, each.string) for each in shards if each and each["stem"] == f"{name}-"), None)


@dataclass(frozen=True, slots=True)
class _WritePart:
    """What a write task has written.

    Args:
        number: Of the task.
        name: In the staging place. Empty if nothing is written, because the schema is not known.
        rows: How many.
        schema: As JSON.
        untyped: The features that it lacks.
    """

    number: int
    name: str
    rows: int
    schema: str
    untyped: tuple[str, ...] = ()


class _WriteJob:
    """One write. Write tasks get a copy.

    Args:
        files: The files.
        codec, schema: As for :class:`headrace.Writer`.
        staging: Where files wait.
    """

    def __init__(self, files: _FilesToWrite, codec: str | None, schema: Schema | None, staging: Staging) -> None:
        self.files = files
        self.codec = codec
        self.schema = schema
        self.staging = staging
        self.written = 0
        self.is_complete = False

    def write_part(self, number: int, blocks: Iterable[Any]) -> _WritePart | None:
        """Write the blocks of a task to a file. ``None``: they have no rows."""
        tables = self._tables(blocks)
        first = next(tables, None)
        if first is None:
            return None
        schema = schema_of_block(first) if self.schema is None else self.schema
        if self.schema is None and (untyped := find_untyped(first)):
            return _WritePart(number, "", 0, schema.to_json(), tuple(untyped))
        name, rows = f"{number:06d}-{os.urandom(6).hex()}", 0
        with self._names_target(name), self._writer(name, schema) as writer:
            for table in _chain(first, tables):
                writer.write_batch(batch_of_block(table, schema))
                rows += table.num_rows
        self.staging.add(name)
        return _WritePart(number, name, rows, schema.to_json())

    def _tables(self, blocks: Iterable[Any]) -> Iterator[Any]:
        accessor = require("ray.data.block", extra="ray").BlockAccessor
        for block in blocks:
            table = accessor.for_block(block).to_arrow()
            if table.num_rows:
                yield table

    def _writer(self, name: str, schema: Schema) -> Writer:
        target = self.files.target
        format = target.csv or target.format
        path = self.staging.path(name)
        return Writer(path, format=format, codec=self.codec, schema=schema, compression=target.compression)

    @contextlib.contextmanager
    def _names_target(self, name: str) -> Iterator[None]:
        """Errors about the file in the staging place name the final one, or the first of several."""
        path = self.staging.path(name)
        try:
            yield
        except DataError as error:
            if error.where.path != path:
                raise
            raise error.relocated(Where(path=self.files.first)) from error

    def finish(self, parts: Sequence[_WritePart | None], *, overwrite: bool) -> None:
        """Give the files their names. If some are not written, find the schema only.

        Raises:
            SchemaMismatch: Blocks have different features.
            UnsupportedData: A file exists by now, or no block shows the type of a feature.
        """
        found = sorted((part for part in parts if part is not None), key=lambda part: part.number)
        if found and self.schema is None:
            joined = _join_schemas(self.files.first, found)
            if not all(part.name for part in found):
                self.schema = joined
                return
        names = [part.name for part in found]
        paths = self.files.paths(len(names))
        empty = self.schema or (Schema.from_json(found[0].schema) if found else Schema({}))
        for number in range(len(names), len(paths)):
            names.append(f"empty-{number}")
            with self._names_target(names[-1]), self._writer(names[-1], empty):
                pass
            self.staging.add(names[-1])
        if not overwrite:
            self.files.check_new()
        self.staging.commit(dict(zip(names, paths, strict=True)))
        self.written = sum(part.rows for part in found)
        self.is_complete = True


def _chain(first: Any, others: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from others


def _join_schemas(path: str, parts: Sequence[_WritePart]) -> Schema:
    """The schema of all parts, of which some may not show the types of all features.

    Raises:
        SchemaMismatch: Two have different features.
        UnsupportedData: None shows the type of a feature.
    """
    first, *others = sorted(parts, key=lambda part: len(part.untyped))
    known, unknown = dict(Schema.from_json(first.schema)), set(first.untyped)
    for part in others:
        found = Schema.from_json(part.schema)
        one = Schema({name: feature for name, feature in known.items() if name not in part.untyped})
        two = Schema({name: feature for name, feature in found.items() if name not in unknown})
        if one.to_json() != two.to_json():
            raise _schemas_differ_error(path, one, two)
        known |= found
        unknown = (unknown | set(part.untyped)) - set(known)
    for name in sorted(unknown):
        expected, none = "a value that shows the type", "only null or empty lists"
        hint = f"Give schema={{..., {name!r}: ...}}, or drop the column."
        raise UnsupportedData(Where(path=path, feature=name), expected=expected, found=none, hint=hint)
    return Schema(known)


def _schemas_differ_error(path: str, one: Schema, two: Schema) -> SchemaMismatch:
    name = next((name for name in (*one, *two) if name not in one or name not in two or one[name] != two[name]), None)
    return SchemaMismatch(
        Where(path=path, feature=name),
        expected=f"the same feature in every block: {one.get(name) if name else ''}",
        found=f"{two.get(name) if name else ''}",
        hint="Give schema=, or convert the column before.",
    )


@cache
def _datasink_class() -> Any:
    """The class, which cannot be defined before Ray is imported."""
    base = require("ray.data", extra="ray").Datasink

    class HeadraceDatasink(base):  # type: ignore[misc, valid-type]
        """Passes what Ray calls on to a job."""

        def __init__(self, job: _WriteJob, overwrite: bool) -> None:  # noqa: FBT001 - Ray calls the others
            self.job = job
            self.overwrite = overwrite

        def get_name(self) -> str:
            return "Headrace"

        def on_write_start(self, schema: Any = None) -> None:
            """Nothing: the staging place is open."""

        def write(self, blocks: Iterable[Any], ctx: Any) -> _WritePart | None:
            return self.job.write_part(ctx.task_idx, blocks)

        def on_write_complete(self, write_result: Any) -> None:
            self.job.finish(write_result.write_returns, overwrite=self.overwrite)

    return HeadraceDatasink
