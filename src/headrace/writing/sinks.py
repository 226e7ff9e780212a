"""One output file: takes batches, writes framed records or columns, and encodes images where the schema says so."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from typing import Any, TypeAlias

import numpy as np

from headrace.codecs.example.codec import ExampleCodec
from headrace.codecs.fit import fit_column
from headrace.codecs.images.encode import ImageEncoder
from headrace.codecs.infer import RawCodec
from headrace.codecs.sagemaker_record.codec import SageMakerRecordCodec
from headrace.codecs.values import refuse_missing
from headrace.contracts.csv import CSV
from headrace.contracts.feature import USER_DEFINED
from headrace.contracts.protocols import KnowsSizes, RowSizer, defines
from headrace.contracts.records import BatchWriter, RecordWriter
from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Ragged, size_of
from headrace.errors import DataError, SchemaMismatch, UnsupportedData, Where
from headrace.formats.registry import format_named
from headrace.io.paths import PathLike
from headrace.sources.operations.joining import widen
from headrace.sources.source import Source

__all__ = [
    "PIXEL_FORMATS",
    "CheckingSink",
    "EncodingSink",
    "RecordCodec",
    "batches_of",
    "check_features",
    "codec_for",
    "encoders_of",
    "open_sink",
    "open_writer",
    "refuse_without_features",
    "row_sizer",
    "rows_of",
    "settle_schema",
    "slice_rows",
    "writes_joined",
]


FIRST_ROWS, MOST_ROWS = 64, 4096
MOST_OF_FUNCTIONS = 1024  # rows made by functions of users, whose sizes nothing tells beforehand
BATCH_BYTES = 64 << 20
WITHOUT_FEATURES = ("jsonl", "avro")
"""Formats of examples that may have no features."""


def row_sizer(source: object) -> RowSizer:
    """Finds how many examples of a source, or of records, to hold in memory at once: at most 4,096, and about 64 MiB."""
    most = MOST_ROWS if getattr(source, "cuts_cleanly", True) else MOST_OF_FUNCTIONS
    return RowSizer(FIRST_ROWS, most, BATCH_BYTES, source.stored_bytes if defines(source, KnowsSizes) else None)


def batches_of(source: Source, start: int, stop: int) -> Iterator[tuple[int, Batch]]:
    """The examples from ``start`` to ``stop`` in batches that fit into memory, each with its number of examples."""
    sizer = row_sizer(source)
    while start < stop:
        rows = sizer.take(start, stop)
        batch = source.batch(np.arange(start, start + rows))
        yield rows, batch
        sizer.note(start, rows, sum(map(size_of, batch.values())))
        start += rows


def settle_schema(source: Source, batches: Iterator[Batch]) -> tuple[Schema, Iterator[Batch]]:
    """The schema to write a source with, and all of its batches, also those that were read to find it.

    A function's values may vary more than its first example shows, so about 1,000 more are read.
    """
    schema = source.schema
    if source.cuts_cleanly:
        return schema, batches
    first = list(islice(batches, 2))  # The first batch has few examples. Their size decides how many fit into memory.
    for batch in first:
        schema = widen(schema, batch)
    return schema, chain(first, batches)


def encoders_of(schema: Schema) -> dict[str, ImageEncoder]:
    """The encoders of features that are pixels with an ``encoding``.

    Raises:
        UnsupportedData: One of them cannot be encoded.
    """
    return {name: ImageEncoder(name, feature) for name, feature in schema.items() if feature.is_image}


class EncodingSink:
    """Encodes the images of batches, and passes the batches to another sink.

    Args:
        inner: Takes the batches with encoded images.
        encoders: For some features; the others are passed unchanged.
        path: Of the file, for messages.
    """

    def __init__(self, inner: BatchWriter, encoders: Mapping[str, ImageEncoder], path: str) -> None:
        self.inner = inner
        self.encoders = encoders
        self.count: int = 0
        self._path = path

    def write_batch(self, batch: Mapping[str, Any], n: int, /) -> None:
        """Encode and pass on.

        Raises:
            SchemaMismatch: An image does not fit its feature. The error names the number of its example in this file.
        """
        columns = dict(batch)
        for name, encoder in self.encoders.items():
            column = np.empty(n, object)
            try:
                column[:] = [encoder.encoded(batch[name][row], self.count + row) for row in range(n)]
            except SchemaMismatch as error:
                raise error.relocated(Where(path=self._path)) from error
            columns[name] = column
        self.inner.write_batch(columns, n)
        self.count += n

    def close(self) -> None:
        """Close the other sink."""
        self.inner.close()

    def abort(self) -> None:
        """Abort the other sink."""
        self.inner.abort()


class CheckingSink:
    """Checks batches against a schema, and passes them to another sink in its types.

    Args:
        inner: Takes the batches.
        schema: Their schema.
        path: Of the file, for messages.
    """

    def __init__(self, inner: BatchWriter, schema: Schema, path: str) -> None:
        self.inner = inner
        self.schema = schema
        self.count: int = 0
        """Examples passed on."""
        self._path = path

    def write_batch(self, batch: Mapping[str, Any], n: int, /) -> None:
        """Check and pass on.

        Raises:
            SchemaMismatch: A value does not fit its feature. The error names the number of its example in this file.
            NoSuchFeature: A feature is missing.
        """
        refuse_missing(self.schema, batch)
        try:
            columns = {name: fit_column(batch[name], feature, name) for name, feature in self.schema.items()}
        except SchemaMismatch as error:
            record = None if error.where.record is None else self.count + error.where.record
            raise error.relocated(Where(path=self._path, record=record, feature=error.where.feature)) from error
        self.inner.write_batch(columns, n)
        self.count += n

    def close(self) -> None:
        """Close the other sink."""
        self.inner.close()

    def abort(self) -> None:
        """Abort the other sink."""
        self.inner.abort()


RecordCodec: TypeAlias = ExampleCodec | RawCodec | SageMakerRecordCodec


PIXEL_FORMATS = ("npy", "npz")


class RecordSink:
    """Encodes batches by a codec and writes framed records. Errors name the number of the example in this file, and the path."""

    def __init__(self, writer: RecordWriter, codec: RecordCodec, path: str) -> None:
        self.writer = writer
        self.codec = codec
        self.count: int = 0
        self._path = path

    def write_batch(self, batch: Mapping[str, Any], n: int, /) -> None:
        try:
            block = self._encode(batch, n)
        except DataError as error:
            row = self._find_row(batch, n, error) if error.where.record is None else error.where.record
            record = None if row is None else self.count + row
            raise error.relocated(Where(path=self._path, record=record)) from error
        self.writer.write_block(*block)
        self.count += n

    def _encode(self, batch: Mapping[str, Any], n: int) -> Any:
        return self.codec.encode_batch(batch, n, self.writer.head, self.writer.tail)

    def _find_row(self, batch: Mapping[str, Any], n: int, error: DataError) -> int | None:
        """The first row that alone makes the same error as the batch; ``None`` if all rows or none do: it is not about one."""
        rows = [row for row in range(n) if self._fault_of(slice_rows(batch, row, row + 1)) == error.found]
        return rows[0] if rows and (len(rows) < n or n == 1) else None

    def _fault_of(self, batch: Mapping[str, Any]) -> str | None:
        try:
            self._encode(batch, 1)
        except DataError as error:
            return error.found
        return None

    def close(self) -> None:
        self.writer.close()

    def abort(self) -> None:
        self.writer.abort()


def open_sink(
    path: PathLike,
    format: str | CSV,
    compression: str,
    schema: Schema,
    *,
    codec: str | None = None,
    first: bool = True,
    joined: bool = False,
) -> BatchWriter:
    """The sink for one file: of records by a codec, or of columns.

    Pixels that the schema stores as images are encoded first. ``first=False`` is for a part to be appended to another file, where files
    of the format can follow one another. ``joined=True`` is for all parts of a file at once, where :func:`writes_joined`.
    """
    found = format_named(format)
    if found.name not in PIXEL_FORMATS and (encoders := encoders_of(schema)):
        stored = Schema({name: feature.stored for name, feature in schema.items()})
        inner = open_sink(path, format, compression, stored, codec=codec, first=first, joined=joined)
        return EncodingSink(inner, encoders, str(path))
    sink = found.joined_writer if joined and found.sink is not None else found.sink
    check_features(schema, path, found.name)
    if sink is None or (codec == "raw" and found.writer is not None):
        encoder = codec_for(schema, codec, found.name)  # first: what it refuses leaves no file
        return RecordSink(open_writer(path, found.name, compression, joined=joined), encoder, str(path))
    if codec is not None:
        raise UnsupportedData(
            Where(path=str(path)), expected="no codec for a format that holds columns", found=repr(codec)
        )
    is_apart = first or found.join is not None or found.pieces is not None
    opened = sink(path, schema, compression=compression, **({} if is_apart else {"first": False}))
    return CheckingSink(opened, schema, str(path))


def refuse_without_features(path: str, format: str) -> None:
    """Refuse examples without features, of which most formats do not keep how many there are.

    Raises:
        UnsupportedData: The format is one of those.
    """
    if format not in WITHOUT_FEATURES:
        raise UnsupportedData(
            Where(path=path),
            expected=f"examples with features: {format} cannot store how many examples there are without any",
            found="examples without any",
            hint="JSON Lines and Avro can.",
        )


def check_features(schema: Schema, path: PathLike, format: str) -> None:
    """Refuse names of features that files of a format cannot hold, or would not give back, and dtypes that NumPy does not know itself.

    Raises:
        UnsupportedData: There is one.
    """
    errors = "surrogateescape" if format_named(format).sink is None else "strict"
    for name, feature in schema.items():
        if feature.numpy_dtype.isbuiltin == USER_DEFINED:  # such as bfloat16, which files would hold as plain bytes
            raise UnsupportedData(
                Where(path=os.fspath(path), feature=name),
                expected="a dtype of NumPy",
                found=feature.dtype,
                hint="Convert it first, as with x.astype(np.float32).",
            )
        try:
            is_held = bool(name.encode("utf-8", errors)) or format not in ("npy", "csv")
        except UnicodeEncodeError:
            is_held = False
        if not is_held or (format == "csv" and name.startswith("\ufeff")):
            raise UnsupportedData(
                Where(path=os.fspath(path), feature=name),
                expected=f"names that {format} can hold",
                found=ascii(name),
                hint="rename() it.",
            )


def codec_for(schema: Schema, name: str | None, format: str) -> RecordCodec:
    """The codec called ``name``, or the one that suits the schema and the format."""
    if name not in (None, "example", "raw", "sagemaker_record"):
        raise ValueError(f"codec must be 'example', 'sagemaker_record' or 'raw', got {name!r}")
    if name == "raw" or (name is None and list(schema) == ["record"] and schema["record"].dtype == "bytes"):
        return RawCodec()
    if name == "sagemaker_record" or (name is None and format_named(format).codec == "sagemaker_record"):
        return SageMakerRecordCodec(schema)
    return ExampleCodec(schema)


def writes_joined(format: str | CSV, compression: str, codec: str | None) -> bool:
    """Whether one writer makes the bytes that parts of a file are joined to. Several compressed streams are not one."""
    found = format_named(format)
    if found.joined_writer is None or (found.compressible and compression != "none"):
        return False
    return found.sink is None or codec is None


def open_writer(path: PathLike, format: str, compression: str, *, joined: bool = False) -> RecordWriter:
    """The writer for one file of records; with ``joined=True`` for all parts of it at once.

    Raises:
        UnsupportedData: Records alone do not make a file of that format.
    """
    found = format_named(format)
    writer = found.joined_writer if joined else found.writer
    if writer is None:
        raise UnsupportedData(
            Where(path=str(path)), expected="a format of records", found=format, hint="Use headrace.write."
        )
    return writer(path, compression=compression)


def rows_of(batch: Mapping[str, Any]) -> int:
    """The number of examples in a batch.

    Raises:
        SchemaMismatch: its columns have different lengths.
    """
    counts = {name: column.shape[0] if hasattr(column, "tocsr") else len(column) for name, column in batch.items()}
    if len(set(counts.values())) > 1:
        raise SchemaMismatch(Where(), expected="columns of equal length", found=str(counts))
    return next(iter(counts.values()), 0)


def slice_rows(batch: Mapping[str, Any], start: int, stop: int) -> dict[str, Any]:
    """Rows ``start`` up to ``stop`` of every column, as views."""
    return {name: column[start:stop] for name, column in batch.items()}


def bytes_of(batch: Mapping[str, Any]) -> int:
    """About how many bytes a batch has, for cutting it into blocks."""
    total = 0
    for column in batch.values():
        values = column
        while isinstance(values, Ragged):
            values = values.values
        if hasattr(values, "tocsr"):
            total += 16 * values.nnz  # a value and its column
        else:
            total += getattr(values, "nbytes", 8 * len(values))
    return total
