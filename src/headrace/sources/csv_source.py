"""Rows of CSV files as examples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace.codecs.csv import CsvCodec, infer_csv
from headrace.contracts.schema import Schema
from headrace.errors import DataError, Where
from headrace.formats.csv.format import CsvRecords
from headrace.sources.record_source import RecordSource
from headrace.sources.views import Source

__all__ = ["CsvSource", "csv_codec", "csv_source"]

EXAMINED_BYTES = 8 << 20  # for the types of columns: some hundredths of a second


class CsvSource(RecordSource):
    """Row ``i`` of some CSV files as example ``i``; a column is a feature."""

    records: CsvRecords
    codec: CsvCodec

    def _placed(self, error: DataError, where: Where) -> DataError:
        """With the byte of the value, which the codec counts from the beginning of the row."""
        if where.offset is not None:
            where = where.at(offset=where.offset + (error.where.offset or 0))
        return error.relocated(where)

    def _narrowed(self, names: tuple[str, ...]) -> Source:
        return CsvSource(self.records, self.codec.narrowed(names))


def csv_source(records: CsvRecords, schema: Schema | None) -> Source:
    """The examples in some CSV files. What reads more into a column than its text, such as images at paths, belongs here.

    Args:
        records: The rows.
        schema: The columns to decode and their types; ``None``: all of them, with types found by reading.
    """
    return CsvSource(records, csv_codec(records, schema))


def csv_codec(records: CsvRecords, schema: Schema | None) -> CsvCodec:
    """The codec for some rows: types as given, else as the first 8 MiB show them. Later rows are held against them."""
    if schema is not None:
        return CsvCodec(schema, records.dialect)
    found = infer_csv(_first(records), records.dialect)
    return CsvCodec(found, records.dialect, inferred=found.keys() - (records.dialect.types or {}).keys())


def _first(records: CsvRecords) -> Iterator[Any]:
    """Blocks of rows. Damage is left for reading to report."""
    seen = 0
    try:
        for _, spans in records.iter_spans():
            yield spans
            seen += spans.total_bytes
            if seen >= EXAMINED_BYTES:
                return
    except DataError:
        if seen == 0:
            raise
