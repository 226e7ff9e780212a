"""Records and a codec as examples: CSV rows and SageMaker Records among them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.contracts.protocols import Codec
from headrace.contracts.records import Records
from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Example, Indices
from headrace.errors import CorruptRecord, DataError, SchemaMismatch, Where
from headrace.formats.framed.scan import FIRST_RUN_BYTES, RUN_BYTES, RecordRun
from headrace.formats.table.copies import ParsedRows
from headrace.io.system import cached_property
from headrace.sources.node import Node, list_rows, stored_bytes

if TYPE_CHECKING:
    from headrace.codecs.csv import CsvCodec, Facts
    from headrace.codecs.sagemaker_record.codec import SageMakerRecordCodec
    from headrace.formats.csv.format import CsvRecords
    from headrace.io.cache.findings import Findings

__all__ = ["CsvNode", "RecordNode", "csv_codec", "sagemaker_record_codec"]

CSV_SAMPLE_BYTES = 8 << 20
"""What is read to find the types of columns: some thousandths of a second."""
KEPT_BYTES = 1 << 20
"""What was found in less is not kept: finding it again takes no longer."""
FACTS_VERSION = 1
"""To be raised when the same rows give other facts."""
LEAST_TOGETHER = 8
"""Fewer rows than this are decoded one by one."""


class RecordNode:
    """The examples in the records of some files.

    Args:
        records: Payloads by index.
        codec: Turns payloads into examples.
    """

    def __init__(self, records: Records, codec: Codec) -> None:
        self.records = records
        self.codec = codec

    @property
    def schema(self) -> Schema:
        return self.codec.schema

    def __len__(self) -> int:
        return len(self.records)

    def batch(self, indices: Indices, /) -> Batch:
        spans = self.records.spans(indices)
        try:
            return self.codec.decode_batch(spans)
        except DataError as error:
            raise self._with_place(error, indices) from error.__cause__

    def where(self, index: int, /) -> Where:
        return self.records.where(index)

    def examples(self) -> Iterator[Example]:
        """All examples in order, without an index."""
        for batch, size in self._blocks():
            yield from list_rows(batch, size)

    def stream(self, batch_size: int, /) -> Iterator[Batch] | None:
        """Batches in order while a compressed file is still being inflated; ``None`` where random access is as good."""
        if not self.records.prefers_streaming:
            return None
        return (batch for batch, _ in self._blocks(batch_size))

    def narrow(self, names: tuple[str, ...], /) -> Node:
        return RecordNode(self.records, self.codec.narrowed(names))

    def cuts_cleanly(self) -> bool:
        return True

    def stored_bytes(self, first: int, stop: int, /) -> int:
        return stored_bytes(self.records, first, stop)

    def _with_place(self, error: DataError, indices: Sequence[int] | Indices) -> DataError:
        """The codec's error, which counts records within one call, at its place in the files."""
        position = error.where.record
        if position is None or not 0 <= position < len(indices):
            return error
        return self._relocate(error, self.records.where(int(indices[position])))

    def _relocate(self, error: DataError, where: Where) -> DataError:
        """The error at the place of its record, unless its file was damaged in the cache only."""
        self._check_copy(error, where)
        return error.relocated(where)

    def _check_copy(self, error: DataError, where: Where) -> None:
        from headrace.formats.framed.records import FramedRecords  # imported here, because most files are intact

        if isinstance(error, CorruptRecord) and isinstance(self.records, FramedRecords):
            self.records.check_copy(where.path)

    def _blocks(self, records: int | None = None) -> Iterator[tuple[Batch, int]]:
        return self._decode(self.records.iter_spans(records))

    def _decode(self, blocks: Iterable[tuple[int, Any]]) -> Iterator[tuple[Batch, int]]:
        for first, spans in blocks:
            try:
                yield self.codec.decode_batch(spans), len(spans)
            except DataError as error:
                yield from self._until(error, first, spans)

    def _until(self, error: DataError, first: int, spans: Any) -> Iterator[tuple[Batch, int]]:
        """The examples before the damaged record of a block, then its error."""
        bad = error.where.record or 0
        if bad:
            yield self.codec.decode_batch(spans.part(0, bad)), bad
        raise self._relocate(error, self.records.where_in_order(first + bad)) from error.__cause__


class CsvNode(RecordNode):
    """Row ``i`` of some CSV files as example ``i``; a column is a feature."""

    records: CsvRecords
    codec: CsvCodec

    def batch(self, indices: Indices, /) -> Batch:
        return self._parsed.read(indices, self._parse) if len(indices) else self._parse(indices)

    @cached_property
    def _parsed(self) -> ParsedRows:
        return ParsedRows(len(self))

    def _parse(self, indices: Indices) -> Batch:
        """Rows that follow each other are decoded together."""
        if len(indices) >= LEAST_TOGETHER:
            stretches = self.records.stretches(indices)
            batch = None if stretches is None else self.codec.decode_rows(stretches, len(indices))
            if batch is not None:
                return batch
        return super().batch(indices)

    def head(self, rows: int, /) -> list[Example]:
        """The first examples, up to damage, for less than :meth:`examples`, which decodes a large block."""
        found: list[Example] = []
        with suppress(DataError):
            for batch, size in self._decode(self.records.first_spans(rows)):
                found += list_rows(batch, size)
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_parsed"}

    def narrow(self, names: tuple[str, ...], /) -> CsvNode:
        return CsvNode(self.records, self.codec.narrowed(names))

    def _relocate(self, error: DataError, where: Where) -> DataError:
        """With the byte of the value, which the codec counts from the beginning of the row."""
        self._check_copy(error, where)
        if where.offset is not None:
            where = where.at(offset=where.offset + (error.where.offset or 0))
        return error.relocated(where)


def csv_codec(records: CsvRecords, schema: Schema | None) -> CsvCodec:
    """The codec for some rows: types as given, else as the first 8 MiB show them. Later rows must have the same types.

    Args:
        records: The rows.
        schema: The columns to decode and their types; ``None``: all of them, with types found by reading.

    Raises:
        SchemaMismatch: A shape holds only some of the columns of its name.
    """
    from headrace.codecs.csv import CsvCodec, has_columns, infer_csv

    if schema is not None:
        records.expect(lambda names: has_columns(schema, names))
        codec = CsvCodec(schema, records.dialect)
        _check_shapes(schema, records)
        return codec
    heads = _recall_heads(records)
    found = infer_csv(_examine_runs(records) if heads is None else heads, records.dialect)
    return CsvCodec(found, records.dialect, inferred=found.keys() - (records.dialect.types or {}).keys())


def _check_shapes(schema: Schema, records: CsvRecords) -> None:
    """Refuse a shape with fewer values than there are columns ``v_0``, ``v_1``, ...: the last ones would be lost, and images sheared."""
    dialect = records.dialect
    columns = set(dialect.names)
    for name, feature in schema.items():
        if not feature.shape:
            continue
        for mark in ("_", ""):
            found = next(number for number in count() if f"{name}{mark}{number}" not in columns)
            if found < feature.count:
                continue
            # Without a header, all columns are c0, c1, ..., whatever they hold.
            is_counted = dialect.header is None and (name, mark) == ("c", "")
            if found > feature.count and f"{name}{mark}{feature.count}" not in schema and not is_counted:
                raise SchemaMismatch(
                    Where(path=records.paths[0], feature=name),
                    expected=f"{feature.count} columns, as the shape {feature.shape} has values",
                    found=f"{found}, {name}{mark}0 to {name}{mark}{found - 1}",
                    hint="Give the shape of all of them, and cut the rest off with source.map.",
                )
            break


def _recall_heads(records: CsvRecords) -> list[list[Facts]] | None:
    """:func:`_examine_heads`, from the cache if the files are those of an earlier time."""
    findings = records.findings("facts", FACTS_VERSION, CSV_SAMPLE_BYTES)
    kept = None if findings is None else findings.load()
    return _examine_heads(records, findings) if kept is None else kept


def _examine_heads(records: CsvRecords, findings: Findings | None) -> list[list[Facts]] | None:
    """What the first rows look like, file by file; ``None`` if a scan has to find them, or to tell what is wrong with them."""
    from headrace.codecs.csv import examine_head

    found: list[list[Facts]] = []
    seen = 0
    heads = records.heads()
    while seen < CSV_SAMPLE_BYTES:
        try:
            place = next(heads, None)
        except DataError:
            if not found:
                raise  # As a scan would. But if the file has just shrunk, a scan would take it for a shorter one.
            return None
        if place is None:
            if len(found) < len(records.paths):
                return None
            break
        if findings is not None:
            findings.sign(len(found))
        buffer, begin = place
        runs = FIRST_RUN_BYTES, RUN_BYTES, CSV_SAMPLE_BYTES - seen
        head = examine_head(buffer, begin, runs, records.dialect)
        if head is None:
            return None
        found.append(head[0])
        seen += head[1] - begin
    if findings is not None and seen >= KEPT_BYTES:
        findings.save(found)
    return found


def _examine_runs(records: CsvRecords) -> Iterator[list[Facts]]:
    """The same by a scan, in few blocks. Damage after the first of them is left for reading to report."""
    runs: list[RecordRun] = []
    seen = 0
    try:
        for run in records.iter_runs():
            if runs and (run.buffer is not runs[-1].buffer or run.starts[0] != runs[-1].end):
                yield _examine_block(runs, records)
                runs = []
            runs.append(run)
            seen += run.size
            if seen >= CSV_SAMPLE_BYTES:
                break
    except DataError:
        if seen == 0:
            raise
    if runs:
        yield _examine_block(runs, records)


def _examine_block(runs: list[RecordRun], records: CsvRecords) -> list[Facts]:
    from headrace.codecs.csv import examine_rows

    starts = np.concatenate([run.starts for run in runs])
    return examine_rows(runs[0].buffer, starts, runs[-1].end, records.dialect)


def sagemaker_record_codec(
    records: Any,
    sample: Iterable[Any],
    given: Schema | None,
    *,
    named: bool,
    only: Collection[str] | None = None,
) -> SageMakerRecordCodec | None:
    """The codec for records that may be SageMaker Records, found from a sample of them. It is imported only here.

    Args:
        records: Where the sample is from.
        sample: Blocks of payloads.
        given: Their schema, where the caller knows it.
        named: Whether the caller says that they are Records.
        only: The features that are wanted, if the caller knows them. With ``given``, those in it.

    Returns:
        ``None`` where they are not, and the caller did not say so.

    Raises:
        CorruptRecord: The caller said that they are, and they are not.
        SchemaMismatch: A wanted feature holds different kinds of tensors.
    """
    from headrace.codecs.sagemaker_record.codec import SageMakerRecordCodec
    from headrace.codecs.sagemaker_record.infer import infer_records

    blocks = list(sample)
    try:
        found = infer_records(blocks, only if given is None else given)
    except DataError as error:
        raise error if error.where.path else error.relocated(records.where_in_order(error.where.record or 0)) from error
    if found is not None:
        return SageMakerRecordCodec(given or found.schema, places=found.places, kinds=found.kinds)
    if not named:
        return None
    if given is None and any(map(len, blocks)):
        raise CorruptRecord(
            records.where_in_order(0),
            expected="SageMaker Records",
            found="payloads that are none, or hold no tensor",
            hint="codec='raw' reads them as bytes.",
        )
    return SageMakerRecordCodec(given or Schema({}))
