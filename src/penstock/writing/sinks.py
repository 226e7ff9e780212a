"""One output file: batches go in, framed records come out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from penstock.codecs.example import ExampleCodec
from penstock.codecs.raw import RawCodec
from penstock.codecs.sagemaker_record import SageMakerRecordCodec
from penstock.contracts.records import RecordWriter
from penstock.contracts.tables import BatchWriter
from penstock.contracts.values import Ragged
from penstock.errors import SchemaMismatch, UnsupportedData, Where
from penstock.formats.detect import format_named
from penstock.writing.behind import Behind

RecordCodec: TypeAlias = ExampleCodec | RawCodec | SageMakerRecordCodec

__all__ = ["RecordCodec", "open_sink", "open_writer", "rows_of", "slice_rows"]


BEHIND_BYTES = 1 << 20
"""Blocks of at least this size are written by a thread while the next one is encoded."""


class RecordSink:
    """Batches through a codec into framed records."""

    def __init__(self, writer: RecordWriter, codec: RecordCodec) -> None:
        self.writer = writer
        self.codec = codec
        self._behind: Behind | None = None

    def write_batch(self, batch: Mapping[str, Any], n: int, /) -> None:
        block, starts, sizes = self.codec.encode_batch(batch, n, self.writer.head, self.writer.tail)
        if self._behind is None and len(block) >= BEHIND_BYTES:
            self._behind = Behind()
        if self._behind is None:
            self.writer.write_block(block, starts, sizes)
        else:
            self._behind.add(lambda: self.writer.write_block(block, starts, sizes))

    def close(self) -> None:
        if self._behind is not None:
            self._behind.finish()
        self.writer.close()

    def abort(self) -> None:
        if self._behind is not None:
            self._behind.abandon()
        self.writer.abort()


def open_sink(path: Path, format: str, compression: str, codec: RecordCodec) -> BatchWriter:
    """What takes the batches for one file of a format: records by way of the codec, or columns under its schema."""
    sink = format_named(format).sink
    if sink is not None:
        return sink(path, codec.schema, compression=compression)
    return RecordSink(open_writer(path, format, compression), codec)


def open_writer(path: Path, format: str, compression: str) -> RecordWriter:
    """The writer for one file of records.

    Raises:
        UnsupportedData: Records alone do not make a file of that format.
    """
    writer = format_named(format).writer
    if writer is None:
        raise UnsupportedData(
            Where(path=str(path)), expected="a format of records", found=format, hint="Use penstock.write."
        )
    return writer(path, compression=compression)


def rows_of(batch: Mapping[str, Any]) -> int:
    """How many examples a batch holds.

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
    """About how large a batch is, for cutting it into blocks."""
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
