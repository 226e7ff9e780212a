"""Writing the units of a conversion: here, or on another machine that opens the same files."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headrace.codecs.infer import payloads_of
from headrace.codecs.sagemaker_record.codec import SageMakerRecordCodec
from headrace.contracts.schema import Schema
from headrace.errors import DataError, UnsupportedData, Where
from headrace.formats.index.parts import SentSource
from headrace.formats.registry import format_named
from headrace.io.cache.folder import cache_key
from headrace.io.folders import remove
from headrace.sources.node import records_below
from headrace.sources.records import RecordNode
from headrace.sources.source import Source
from headrace.writing.sinks import batches_of, open_sink, open_writer, row_sizer, writes_joined
from headrace.writing.target import Target
from headrace.writing.units import PlannedFile, Unit, WorkFolder

__all__ = ["UnitWriter", "check_folder", "write_units"]


class UnitWriter:
    """Writes units of a source, a file each.

    A pickle of it has a :class:`SentSource`, and no ``advance``.

    Args:
        source: The examples.
        target: The new files.
        codec: Of their payloads.
        raw: Copy payloads unchanged.
        schema: Of the new files; by default that of the source.
        advance: Called with the number of examples of each batch that is written.
    """

    def __init__(
        self,
        source: Source,
        target: Target,
        codec: str | None,
        *,
        raw: bool,
        advance: Callable[[int], None],
        schema: Schema | None = None,
    ) -> None:
        self.source = source
        self.target = target
        self.codec = codec
        self.raw = raw
        self.schema: Schema = source.schema if schema is None else schema
        self.advance: Callable[[int], None] | None = advance
        self.work: WorkFolder | None = None
        """The folder that a unit is written to by other processes, if they do."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "advance": None, "source": SentSource(self.source, records_below(self.source.node))}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, source=state["source"].source)

    def write(self, unit: Unit) -> None:
        """Write one unit. Errors name the file that it becomes a part of, and the number of the example in that."""
        path = unit.path if self.work is None else _own_path(unit.path, self.work)
        try:
            (self._write_raw if self.raw else self._write_examples)(unit, path)
        except DataError as error:
            if error.where.path != str(path):
                raise
            record = None if error.where.record is None else unit.start - unit.begin + error.where.record
            raise error.relocated(Where(path=unit.target, record=record)) from error  # not the hidden file
        if self.work is not None:
            _hand_over(path, unit.path, self.work)

    def writes_at_once(self, file: PlannedFile) -> bool:
        """Whether all units of a file can be written as one, with the bytes that they would be joined to."""
        return len(file.units) == 1 or writes_joined(
            self.target.csv or self.target.format, self.target.compression, self.codec
        )

    def report(self, examples: int) -> None:
        """Count examples that are written."""
        if self.advance is not None:
            self.advance(examples)

    def _write_raw(self, unit: Unit, path: Path) -> None:
        node = self.source.node
        assert isinstance(node, RecordNode)
        records = node.records
        with open_writer(path, self.target.format, self.target.compression, joined=unit.joined) as writer:
            start, sizer = unit.start, row_sizer(records)
            while start < unit.stop:
                stop = start + sizer.take(start, unit.stop)
                payloads = _payloads(node, start, stop)
                writer.write_many(payloads)
                self.report(stop - start)
                sizer.note(start, stop - start, sum(map(len, payloads)))
                start = stop

    def _write_examples(self, unit: Unit, path: Path) -> None:
        target = self.target
        sink = open_sink(
            path,
            target.csv or target.format,
            target.compression,
            self.schema,
            codec=self.codec,
            first=unit.start == unit.begin,
            joined=unit.joined,
        )
        with contextlib.ExitStack() as stack:
            stack.callback(sink.abort)
            for rows, batch in batches_of(self.source, unit.start, unit.stop):
                sink.write_batch(batch, rows)
                self.report(rows)
            stack.pop_all()
        sink.close()


def _payloads(node: RecordNode, start: int, stop: int) -> list[bytes]:
    """The payloads of some records, whose checksums are verified here."""
    spans = node.records.spans(np.arange(start, stop))
    try:
        return node.codec.payloads(spans) if isinstance(node.codec, SageMakerRecordCodec) else payloads_of(spans)
    except DataError as error:
        raise error.relocated(node.records.where(start + (error.where.record or 0))) from error


def write_units(writer: UnitWriter, units: Sequence[Unit]) -> int:
    """Write those of some units that are not there yet.

    Returns:
        How many examples they hold if the writer has no ``advance`` to count them; else 0.

    Raises:
        UnsupportedData: This machine does not see the folder of the conversion, or it belongs to another one now.
    """
    for unit in units:
        if writer.work is not None:
            check_folder(writer.work)
        if writer.work is None or not unit.path.exists():
            writer.write(unit)
    return 0 if writer.advance is not None else sum(unit.stop - unit.start for unit in units)


def check_folder(work: WorkFolder) -> None:
    """Raise where this machine does not see the folder of a conversion with its plan."""
    if not work.is_there():
        raise UnsupportedData(
            Where(path=str(work.path)),
            expected="the folder of this conversion, which all machines must see under the same path",
            found="none, or one of another conversion",
            hint="Use a shared folder, or a store such as s3://.",
        )


def _own_path(path: Path, work: WorkFolder) -> Path:
    """Where a unit is written before it gets its name. Another process, which is believed dead but is not, may write it too.

    Files of one name replace each other as a whole, and those that a dead process left are removed. Folders do not.
    """
    is_folder = format_named(work.target.format).folder is not None
    mark = os.urandom(4).hex() if is_folder else cache_key(work.plan)[:8]
    return path.with_name(f".{path.name}-{mark}")


def _hand_over(own: Path, path: Path, work: WorkFolder) -> None:
    """Give a unit its name, unless another attempt was faster, or the conversion has ended."""
    try:
        check_folder(work)
        if path.exists():
            remove(str(own))
        else:
            own.replace(path)
    except OSError:
        if not path.exists():
            raise
        with contextlib.suppress(OSError):
            remove(str(own))
    except UnsupportedData:
        with contextlib.suppress(OSError):
            remove(str(own))
        raise
