"""Writing a whole dataset in one call."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from typing import Any, Self

from headrace._arguments import check_flag, check_text
from headrace.adapters.tables import check_example
from headrace.contracts.csv import CSV
from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema
from headrace.contracts.values import Example
from headrace.formats.table.base import find_steps, refuse_misfits
from headrace.io.progress import Progress
from headrace.io.write.pending import DeferredRenames
from headrace.sources.source import Source
from headrace.sources.stacking import schema_of
from headrace.sources.views import copy_example
from headrace.writing.fitting import check_stored_images, fit_text, make_storable
from headrace.writing.sinks import (
    batches_of,
    open_writer,
    rows_of,
    settle_schema,
    slice_rows,
)
from headrace.writing.target import Target, refuse_inputs
from headrace.writing.writer import BLOCK_EXAMPLES, Writer, as_examples, infer_schema, single_columns

__all__ = ["write", "write_records"]


def write_records(
    path: str | os.PathLike[str],
    records: Iterable[bytes | bytearray | memoryview],
    *,
    format: str | CSV | None = None,
    compression: str | None = None,
) -> int:
    """Write payloads unchanged, as the records of one file.

    Args:
        path: The file, which appears complete or not at all; ``x@8`` for shards, which get records round-robin.
        records: One payload each: ``bytes``, or a buffer of them.
        format: ``"tfrecord"``, ``"array_record"``; by default found from the name.
        compression: ``"none"``, ``"gzip"``, ``"zlib"``; for ArrayRecord ``"zstd"``, ``"brotli"``, ``"snappy"``,
            ``"none"``. By default from the name, else the format's default.

    Returns:
        The number of records written.

    Raises:
        TypeError: A record is not bytes.
        UnsupportedData: The format holds typed columns, or ``path`` is a folder.
        OSError: The file cannot be written; an existing one stays.
    """
    is_one = isinstance(records, (bytes, bytearray, memoryview, str, Mapping))
    if is_one or not (hasattr(records, "__iter__") or hasattr(records, "__getitem__")):
        found = type(records).__name__
        raise TypeError(f"records must be an iterable of payloads, got {found}: write one payload as [payload]")
    target = Target.of(path, format=format, compression=compression)
    target.refuse_folder()
    count = 0
    with ExitStack() as stack:
        writers = [stack.enter_context(open_writer(path, target.format, target.compression)) for path in target.paths]
        for payload in records:
            writers[count % len(writers)].write(payload)
            count += 1
        with DeferredRenames() as together:
            for writer in writers:
                together.close(writer)
    return count


def write(
    path: str | os.PathLike[str],
    examples: Source | Mapping[str, Any] | Iterable[Example],
    *,
    format: str | CSV | None = None,
    codec: str | None = None,
    schema: Schema | Mapping[str, Feature] | None = None,
    shards: int = 1,
    compression: str | None = None,
    progress: bool = False,
) -> int:
    """Write a dataset.

    Args:
        path: The suffix selects the format: ``x.tfrecord``, ``.recordio``, ``.array_record``, ``.npy``, ``.npz``, ``.csv``,
            ``.parquet``, ``.jsonl``, ``.avro``, ``.tar``; ``x.tfrecord.gz`` is compressed, ``x.tfrecord@8`` eight shards. A
            folder for ``format="npy_folder"``, ``"npz_folder"`` and ``"image_folder"``.
        examples: A source, columns (``{"image": ndarray (n, ...), "label": ndarray (n,)}``), a table of pandas, Arrow or Polars,
            one array (the feature ``values``), or any iterable of examples.
        format, codec, schema, compression: As for :class:`headrace.Writer`.
        shards: The number of files. Each gets consecutive examples if their number is known (a source, columns, a list);
            examples of an iterator are distributed round-robin. Types are inferred for all files together.
        progress: Show a progress bar.

    Returns:
        The number of examples written.

    Raises:
        UnsupportedData: The format cannot hold a feature, or ``path`` is a folder of other files.
        SchemaMismatch: An example does not fit ``schema``, or the examples before it.
        OSError: The files cannot be written; existing ones stay.
    """
    check_text(codec, "codec")
    progress = check_flag(progress, "progress")
    target = Target.of(path, format=format, compression=compression, shards=shards)
    target.refuse_folder()
    if isinstance(examples, Mapping) and schema is None and not hasattr(examples, "tocsr"):
        examples = single_columns(examples, target)
    examples = as_examples(examples)
    if isinstance(examples, Source):
        refuse_misfits(path, find_steps(examples.schema))
        refuse_inputs(target.paths, examples)
        source = examples
        examples, _ = make_storable(source, target.format)
        if schema is not None:
            check_stored_images(source, examples, Schema(schema))
    batches, total = _batches(examples)
    if isinstance(examples, Source) and schema is None:
        schema, batches = settle_schema(examples, batches)
        schema = fit_text(schema, target.format, codec)
    with Progress("writing", total, "examples", show=progress) as bar:
        if total is None or len(target.paths) == 1:
            with Writer(
                path, format=format, codec=codec, schema=schema, shards=shards, compression=compression
            ) as writer:
                for batch in batches:
                    writer.write_batch(batch) if isinstance(batch, dict) else writer._add(batch)
                    bar.advance(_count(batch))
            return writer.count
        if schema is None:
            schema, batches = _infer(examples, batches, target, codec)
        return _write_runs(target, batches, total, codec, Schema(schema), bar)


def _batches(examples: Any) -> tuple[Iterator[Any], int | None]:
    """Batches as dicts, or lists of examples, and, where known, how many examples there are."""
    if isinstance(examples, Source):
        n = len(examples)
        return (batch for _, batch in batches_of(examples, 0, n)), n
    if isinstance(examples, Mapping):
        return iter([dict(examples)]), rows_of(examples)
    return _lists(examples), len(examples) if hasattr(examples, "__len__") else None


def _lists(examples: Iterable[Any]) -> Iterator[Sequence[Example]]:
    """Lists of examples. A generator may be slow and may change what it has yielded, so each of its examples comes alone, as a copy. Nothing
    changes those in a list meanwhile.
    """
    if type(examples) in (list, tuple):
        for start in range(0, len(examples), BLOCK_EXAMPLES):  # type: ignore[arg-type]
            some: Sequence[Any] = examples[start : start + BLOCK_EXAMPLES]  # type: ignore[index]
            for number, example in enumerate(some, start):
                if type(example) is not dict:
                    check_example(example, number)
            yield some
        return
    is_held = isinstance(examples, (list, tuple))  # of a class that may iterate in its own way
    for number, example in enumerate(examples):
        if type(example) is not dict:
            check_example(example, number)
        yield [example if is_held else copy_example(example)]


def _count(batch: Any) -> int:
    return rows_of(batch) if isinstance(batch, dict) else len(batch)


def _infer(examples: Any, batches: Iterator[Any], target: Target, codec: str | None) -> tuple[Schema, Iterator[Any]]:
    """The schema of all shards, and all batches: that of the columns, or of the first examples, as in one file."""
    if isinstance(examples, Mapping):
        return fit_text(schema_of(examples), target.format, codec), batches
    first: list[Example] = []
    while len(first) < BLOCK_EXAMPLES and (some := next(batches, None)) is not None:
        first += some
    return infer_schema(first, target, codec), chain([first], batches)


def _write_runs(
    target: Target, batches: Iterator[Any], total: int, codec: str | None, schema: Schema, bar: Progress
) -> int:
    """Write consecutive examples to each shard. All shards get their names together, at the end."""
    with DeferredRenames() as together, _Runs(target, codec, schema, target.bounds(total), together) as runs:
        for batch in batches:
            bar.advance(runs.add(batch))
    return runs.done


class _Runs:
    """Cuts batches at the bounds of shards. A shard is finished when it is complete, and waits for its name.

    The last one gets all that follows: some iterables have more examples than their ``len`` says.
    """

    def __init__(
        self,
        target: Target,
        codec: str | None,
        schema: Schema,
        bounds: list[tuple[int, int]],
        together: DeferredRenames,
    ) -> None:
        self.target = target
        self.codec = codec
        self.schema = schema
        self.bounds = bounds
        self.done = 0
        self.writers: list[Writer] = []
        self.ended = 0  # of the writers: the first ones
        self.together = together

    def add(self, item: Any) -> int:
        n, start = _count(item), 0
        while start < n:
            writer, room = self._writer()
            stop = min(n, start + room) if room else n
            if isinstance(item, dict):
                writer.write_batch(slice_rows(item, start, stop))
            else:
                writer._add(item[start:stop])
            self.done += stop - start
            if stop - start == room and len(self.writers) < len(self.bounds):
                self._end()
            start = stop
        return n

    def _writer(self) -> tuple[Writer, int]:
        """The writer of the next example, and how many it takes; 0: all that follow."""
        while not self.writers or (len(self.writers) < len(self.bounds) and self._bound() <= self.done):
            self._open_next()
        return self.writers[-1], self._bound() - self.done if len(self.writers) < len(self.bounds) else 0

    def _bound(self) -> int:
        return self.bounds[len(self.writers) - 1][1]

    def _end(self) -> None:
        while self.ended < len(self.writers):
            self.together.close(self.writers[self.ended])
            self.ended += 1

    def _open_next(self) -> None:
        path = self.target.paths[len(self.writers)]
        self.writers.append(
            Writer(
                path,
                format=self.target.csv or self.target.format,
                codec=self.codec,
                schema=self.schema,
                compression=self.target.compression,
            )
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                while len(self.writers) < len(self.bounds):
                    self._open_next()
                self._end()
        finally:
            for writer in self.writers[self.ended :]:
                writer.abort()
