"""Writing examples one by one or in batches, and what people pass as examples."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from headrace._arguments import check_text
from headrace._numbers import to_array
from headrace.adapters.tables import as_columns_or_source, check_example, check_values
from headrace.codecs.values import refuse_missing
from headrace.contracts.csv import CSV
from headrace.contracts.feature import Feature
from headrace.contracts.records import BatchWriter
from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Example, take_rows
from headrace.errors import NoSuchFeature, SchemaMismatch, Where, did_you_mean
from headrace.formats.registry import format_named
from headrace.io.write.atomic import Closing
from headrace.io.write.pending import DeferredRenames
from headrace.sources.source import Source
from headrace.sources.stacking import schema_of, stack
from headrace.sources.tables import as_columns
from headrace.sources.views import copy_example
from headrace.writing.fitting import fit_text
from headrace.writing.sinks import bytes_of, open_sink, refuse_without_features, rows_of, slice_rows
from headrace.writing.target import Target

__all__ = ["BLOCK_EXAMPLES", "Writer", "as_examples", "infer_schema", "single_columns"]

BLOCK_BYTES = 1 << 20  # encoded, framed and written at a time: small enough to stay in a processor cache
BLOCK_EXAMPLES = 1024
PYTHON_NUMBERS = frozenset({bool, int, float})
MOST_SINGLE = float(np.finfo(np.float32).max)
MOST_SQUARES = 2.0**48
"""Numbers whose squares add up to less are below 2**24, so that float32 holds integers among them."""


class Writer(Closing):
    """Writes examples into one file or several shards. Files appear complete when the writer is closed, or not at all.

    After an error in storing examples, nothing more is written: no file appears, existing ones stay as they are, and later
    calls, also of :meth:`close`, raise a ValueError. Examples are stored many at a time, so others would be lost with one at fault.

    Args:
        path: As for :func:`headrace.write`.
        format: As for :func:`headrace.open` (``"riegeli"`` is only read); by default found from the name.
            :class:`headrace.CSV` is the dialect of a CSV file.
        codec: ``"example"`` (tf.train.Example), ``"sagemaker_record"`` (SageMaker's Record) or ``"raw"``; by default ``"raw"``
            if the only feature is called ``record``, otherwise Records in RecordIO and Examples in every other format.
        schema: Feature types. By default inferred from the first 1,024 examples (or the first batch); Python floats are
            float32 if records hold no others.
        shards: The number of files. Examples are distributed round-robin; :func:`headrace.write` gives each file
            consecutive ones.
        compression: Of the whole file: ``"none"``, ``"gzip"`` or ``"zlib"`` (TFRecord, RecordIO, CSV, JSON Lines,
            WebDataset). Inside the file: ``"zstd"``, ``"brotli"``, ``"snappy"`` (ArrayRecord and Parquet), ``"deflate"``
            (npz and Avro). By default from the name, else the format's default.

    Raises:
        SchemaMismatch: On writing, if an example does not fit the schema; names its number and the feature.

    >>> with Writer(tmp / "x.tfrecord") as w:
    ...     w.write({"label": 3, "image": np.zeros(4, np.float32)})
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        format: str | CSV | None = None,
        codec: str | None = None,
        schema: Schema | Mapping[str, Feature] | None = None,
        shards: int = 1,
        compression: str | None = None,
    ) -> None:
        check_text(codec, "codec")
        self.target: Target = Target.of(path, format=format, compression=compression, shards=shards)
        self.target.refuse_folder()
        self.codec_name = codec
        self.schema = None if schema is None else Schema(schema)
        self.count: int = 0
        """Examples written so far."""
        self._waiting: list[Example] = []
        self._sinks: list[BatchWriter] = []
        self._turn = 0
        self._open = True
        self._failure = ""
        if self.schema is not None:
            self._start(self.schema)

    def write(self, example: Example) -> None:
        """Add one example. Its values are copied: the arrays and lists in it may change afterwards."""
        self._check_open()
        if type(example) is not dict:
            check_example(example, self.count + len(self._waiting))
        self._add([copy_example(example)])

    def _add(self, examples: Sequence[Example]) -> None:
        """Add examples that nothing changes any more."""
        self._waiting += examples
        if len(self._waiting) >= BLOCK_EXAMPLES:
            self._flush()

    def write_batch(self, batch: Mapping[str, Any]) -> None:
        """Add the rows of a batch: ``ndarray (n, *shape)``, :class:`~headrace.Ragged`, or lists. Faster than :meth:`write`.

        The arrays may change afterwards.
        """
        self._check_open()
        given: Any = batch
        if not isinstance(given, Mapping):
            found = type(given).__name__
            raise TypeError(
                f"expected a batch, as {{'name': array, ...}}, got {found}: write examples one by one with write"
            )
        self._flush()
        columns = as_columns(single_columns(batch, self.target) if self.schema is None else batch)
        n = rows_of(columns)
        if self.schema is not None and n:
            self._refuse_others(self.schema, columns)
            refuse_missing(self.schema, columns)
        with self._stops_at_error():
            if self.schema is None:
                self._start(_fit_schema(columns, self.target, self.codec_name))
            self._put(columns, n)

    def close(self) -> None:
        """Write the remaining examples and give the files their names.

        Raises:
            ValueError: An earlier call failed, so the files would be incomplete. There are none.
        """
        if not (self._open or self._failure):
            return
        self._check_open()
        try:
            self._flush()
            if self.schema is None:
                self._start(Schema({}))
            self._open = False
            with DeferredRenames() as together:
                for sink in self._sinks:
                    together.close(sink)
        except BaseException as error:
            self._fail(error)
            raise

    def abort(self) -> None:
        """Leave no file behind."""
        self._open = False
        self._failure = ""
        self._waiting.clear()
        for sink in self._sinks:
            sink.abort()

    def _check_open(self) -> None:
        if self._failure:
            raise ValueError(
                f"{self.target.paths[0]} is not written, because storing examples failed: {self._failure} "
                "Check or convert examples before they are written, then write all of them again."
            )
        if not self._open:
            raise ValueError("the writer is closed")

    @contextmanager
    def _stops_at_error(self) -> Iterator[None]:
        """Some examples of a block may be stored when one fails, and the others are lost: the files could not become complete."""
        try:
            yield
        except BaseException as error:
            self._fail(error)
            raise

    def _fail(self, error: BaseException) -> None:
        """Leave no file behind, and say so in later calls."""
        failure = self._failure or f"{type(error).__name__}: {error}".strip().rstrip(".") + "."
        self.abort()
        self._failure = failure

    def _start(self, schema: Schema) -> None:
        self.schema, target = schema, self.target
        for path in target.paths:
            self._sinks.append(
                open_sink(path, target.csv or target.format, target.compression, schema, codec=self.codec_name)
            )

    def _flush(self) -> None:
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            with self._stops_at_error():
                batch = _stack_first(waiting, self.target) if self.schema is None else _stack(waiting, self.count)
                if self.schema is None:
                    self._start(_fit_schema(batch, self.target, self.codec_name))
                first = self.count
                try:
                    self._put(batch, len(waiting))
                except SchemaMismatch as error:
                    named = _name_example(error, waiting, self.schema or {}, first, is_one=len(self._sinks) == 1)
                    if named is error:
                        raise
                    raise named from error

    def _put(self, batch: Mapping[str, Any], n: int) -> None:
        schema = self.schema
        if schema is None or n == 0:
            return
        if not schema:
            refuse_without_features(self.target.paths[0], self.target.format)
        self._refuse_others(schema, batch)
        step = max(1, min(n, n * BLOCK_BYTES // max(1, bytes_of(batch))))
        for start in range(0, n, step):
            stop = min(start + step, n)
            self._deal(slice_rows(batch, start, stop), stop - start)

    def _refuse_others(self, schema: Schema, batch: Mapping[str, Any]) -> None:
        extra = [name for name in batch if name not in schema]
        if extra:
            hint = did_you_mean(extra[0], schema)
            where = Where(record=self.count)
            raise NoSuchFeature(where, expected=f"the features {list(schema)}", found=repr(extra[0]), hint=hint)

    def _deal(self, batch: Mapping[str, Any], n: int) -> None:
        world = len(self._sinks)
        if world == 1:
            self._sinks[0].write_batch(batch, n)
        else:
            for k in range(min(world, n)):
                rows = np.arange(k, n, world)
                part = {name: take_rows(column, rows) for name, column in batch.items()}
                self._sinks[(self._turn + k) % world].write_batch(part, len(rows))
            self._turn = (self._turn + n) % world
        self.count += n

    def __repr__(self) -> str:
        return f"<Writer of {self.target.paths[0]}: {self.count} examples>"


def infer_schema(examples: Sequence[Example], target: Target, codec: str | None) -> Schema:
    """The schema that a :class:`Writer` writes with if these are its first examples."""
    return _fit_schema(_stack_first(examples, target), target, codec)


def _fit_schema(batch: Mapping[str, Any], target: Target, codec: str | None) -> Schema:
    return fit_text(schema_of(batch), target.format, codec)


def _stack_first(examples: Sequence[Example], target: Target) -> Batch:
    """The examples that decide on the types, as a batch."""
    if _stores_float32(target.format):
        examples = [{name: _single(value) for name, value in example.items()} for example in examples]
    return _stack(examples, 0)


def _stack(examples: Sequence[Example], first: int) -> Batch:
    """Examples as a batch; ``first`` is the number of the first."""
    try:
        batch = stack(examples)
    except SchemaMismatch as error:  # it counts from the first of these
        raise error.relocated(Where(record=first + (error.where.record or 0))) from error
    check_values(batch, first)
    return batch


def _name_example(
    error: SchemaMismatch, examples: Sequence[Example], schema: Mapping[str, Feature], first: int, *, is_one: bool
) -> SchemaMismatch:
    """An error about a column of integers, with the number and the value of the first example that does not fit: one float makes all floats.
    The file is left out if it is not the only one: the number is that among all examples.
    """
    name = error.where.feature
    if name is None or name not in schema or schema[name].encoding or schema[name].numpy_dtype.kind not in "iu":
        return error
    dtype = schema[name].numpy_dtype
    for at, example in enumerate(examples):
        try:
            values = np.asarray(example[name])
        except ValueError:  # lists of different lengths
            return error
        if values.size and (values.dtype.kind not in "biu" or not _is_within(values, dtype)):
            where = replace(error.where, record=first + at, path=error.where.path if is_one else None)
            hint = error.hint or "Convert it, or give a schema in which all values fit."
            return SchemaMismatch(
                where, expected=f"{dtype} values", found=" ".join(repr(example[name]).split())[:60], hint=hint
            )
    return error


def _is_within(values: Any, dtype: np.dtype[Any]) -> bool:
    limits = np.iinfo(dtype)
    return bool(limits.min <= int(values.min()) and int(values.max()) <= limits.max)


def _stores_float32(format: str) -> bool:
    """Whether examples of a format hold floats as float32 only."""
    found = format_named(format)
    return found.sink is None and found.codec == "example"


def _single(value: Any) -> Any:
    """Python floats as float32, which is what an Example stores. They do not ask for a precision that would be lost.

    Arrays keep their dtype, and float64 ones are refused where float32 cannot hold them. So are floats beyond it, and integers beside
    floats.
    """
    if type(value) is float:
        return value if MOST_SINGLE < abs(value) < np.inf else np.float32(value)
    if isinstance(value, (list, tuple)) and any(isinstance(item, (float, list, tuple)) for item in value):
        if _has_float64(value):
            return value
        try:
            array = np.asarray(value)
        except ValueError:  # lists of different lengths
            return [_single(item) for item in value]
        if array.dtype != np.float64:
            return array if array.dtype.kind in "biufc" else value  # NumPy changes text, and numbers among text
        if np.vdot(array, array) < MOST_SQUARES:
            return array.astype(np.float32)
        try:
            array = to_array(value, np.float32)
        except SchemaMismatch:
            return value
        sizes = np.abs(array)
        return array if ((sizes > MOST_SINGLE) & (sizes < np.inf)).any() else array.astype(np.float32)
    return value


def _has_float64(values: Sequence[Any]) -> bool:
    """Whether lists hold a NumPy float64, which is also a Python float, or an array of them."""
    if PYTHON_NUMBERS.issuperset(map(type, values)):
        return False
    return any(
        _has_float64(value) if isinstance(value, (list, tuple)) else getattr(value, "dtype", None) == np.float64
        for value in values
    )


def single_columns(batch: Mapping[str, Any], target: Target) -> Mapping[str, Any]:
    """Columns whose lists hold floats as an Example stores them: see :func:`_single`."""
    lists = [name for name, column in batch.items() if isinstance(column, (list, tuple))]
    if not lists or not _stores_float32(target.format):
        return batch
    return {**batch, **{name: list(map(_single, batch[name])) for name in lists}}


def as_examples(given: Any) -> Source | dict[str, Any] | Iterable[Example]:
    """The argument of a write as a source, columns, or an iterable of examples.

    Tables of pandas, Arrow and Polars become sources. An array ``(n, ...)`` of NumPy, SciPy, PyTorch or JAX is the one column
    ``values``; of a structured array, each field is a column.

    Raises:
        TypeError: It is none of these; the message says what to pass.
    """
    found = as_columns_or_source(given)
    return given if found is None else found
