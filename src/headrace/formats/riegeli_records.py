"""Riegeli files that are no ArrayRecord files: the same chunks, and no footer that says where they are."""

from __future__ import annotations

from collections.abc import Iterator

from headrace import _native
from headrace.contracts.records import Format, Skipped
from headrace.errors import DataError
from headrace.formats.array_record import ArrayRecordRecords, verify_files
from headrace.formats.riegeli.reader import ChunkReader
from headrace.formats.riegeli.scan import scan_file
from headrace.formats.riegeli.table import ChunkTable

__all__ = ["FORMAT", "RiegeliRecords"]


class RiegeliRecords(ArrayRecordRecords):
    """The records of some Riegeli files, joined in order.

    As :class:`~headrace.formats.array_record.ArrayRecordRecords`, but the chunks are looked for, hopping from header to
    header, when the files are first used.
    """

    format = "riegeli"

    def _chunks(self) -> tuple[ChunkTable, None]:
        table, fault = self._found()
        if fault is not None:
            raise fault
        return table, None

    def _runs(self, max_bytes: int) -> Iterator[_native.Spans]:
        if self.on_corrupt == "skip" or self._opened is not None:
            yield from super()._runs(max_bytes)
            return
        table, fault = self._found()
        yield from ChunkReader(self._files, table, verify=self.verify).runs(max_bytes)
        if fault is not None:
            raise fault

    def _found(self) -> tuple[ChunkTable, DataError | None]:
        """The chunks before the first damage, and what that is."""
        begins, counts = [], []
        fault: DataError | None = None
        for file in self.contents():
            found = scan_file(file, verify=False, has_footer=False)
            stop = found.damage[0].begin if found.damage else file.size
            before = found.begins < stop
            begins.append(found.begins[before])
            counts.append(found.counts[before])
            if found.damage:
                fault = found.damage[0].fault
                break
        return ChunkTable.of(self.paths[: len(begins)], begins, counts, Skipped()), fault


FORMAT = Format(
    name="riegeli",
    suffixes=(),
    knows=lambda _head: False,
    open=RiegeliRecords,
    options=frozenset({"verify"}),
    verify=verify_files,
)
