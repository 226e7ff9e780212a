"""Records and a codec."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from headrace.contracts.protocols import Codec
from headrace.contracts.records import Records
from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Example, Indices
from headrace.errors import DataError, Where
from headrace.sources.stacking import row
from headrace.sources.views import Source

__all__ = ["RecordSource"]


class RecordSource(Source):
    """The examples in the records of some files.

    Args:
        records: Payloads by index.
        codec: What turns payloads into examples.
    """

    def __init__(self, records: Records, codec: Codec) -> None:
        self.records = records
        self.codec = codec

    @property
    def schema(self) -> Schema:
        return self.codec.schema

    @property
    def format(self) -> str:
        """How the records are framed: ``"tfrecord"``, ..."""
        return self.records.format

    @property
    def cuts_cleanly(self) -> bool:
        return True

    def _all_records(self) -> list[Records]:
        return [self.records]

    def __len__(self) -> int:
        return len(self.records)

    def where(self, index: int) -> Where:
        return self.records.where(index)

    def _batch(self, indices: Indices) -> Batch:
        spans = self.records.spans(indices)
        try:
            return self.codec.decode_batch(spans)
        except DataError as error:
            raise self._located(error, indices) from error.__cause__

    def _located(self, error: DataError, indices: Sequence[int] | Indices) -> DataError:
        """The codec's error, which counts records within one call, at its place in the files."""
        position = error.where.record
        if position is None or not 0 <= position < len(indices):
            return error
        return self._placed(error, self.records.where(int(indices[position])))

    def _placed(self, error: DataError, where: Where) -> DataError:
        """The error at the place of its record."""
        return error.relocated(where)

    def __iter__(self) -> Iterator[Example]:
        """All examples in order, without an index."""
        for batch, size in self._blocks():
            for i in range(size):
                yield row(batch, i)

    def _blocks(self, records: int | None = None) -> Iterator[tuple[Batch, int]]:
        for first, spans in self.records.iter_spans(records):
            try:
                yield self.codec.decode_batch(spans), len(spans)
            except DataError as error:
                yield from self._until(error, first, spans)

    def _until(self, error: DataError, first: int, spans: Any) -> Iterator[tuple[Batch, int]]:
        """What comes before the damaged record of a block, then its error."""
        bad = error.where.record or 0
        if bad:
            yield self.codec.decode_batch(spans.part(0, bad)), bad
        raise self._placed(error, self.records.where_in_order(first + bad)) from error.__cause__

    def stream(self, batch_size: int) -> Iterator[Batch] | None:
        """Batches in order while a compressed file is still being inflated; ``None`` where random access is as good."""
        if not self.records.prefers_streaming:
            return None
        return (batch for batch, _ in self._blocks(batch_size))

    def _narrowed(self, names: tuple[str, ...]) -> Source:
        return RecordSource(self.records, self.codec.narrowed(names))
