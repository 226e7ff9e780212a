"""Riegeli files that are no ArrayRecord files: the same chunks, and no footer that says where they are."""

from __future__ import annotations

from penstock.contracts.records import Format, Skipped
from penstock.formats.array_record import ArrayRecordRecords
from penstock.formats.riegeli.scan import Found, scan_file
from penstock.formats.riegeli.table import ChunkTable

__all__ = ["FORMAT", "RiegeliRecords"]


class RiegeliRecords(ArrayRecordRecords):
    """The records of some Riegeli files, joined in order.

    As :class:`~penstock.formats.array_record.ArrayRecordRecords`, but the chunks are looked for, hopping from header to
    header, when the files are first used.
    """

    format = "riegeli"

    def _chunks(self) -> tuple[ChunkTable, None]:
        found = [self._sound(scan_file(file, verify=False, has_footer=False)) for file in self.contents()]
        return ChunkTable.of(self.paths, [f.begins for f in found], [f.counts for f in found], Skipped()), None

    @staticmethod
    def _sound(found: Found) -> Found:
        if found.damage:
            raise found.damage[0].fault
        return found


FORMAT = Format(
    name="riegeli", suffixes=(), knows=lambda _head: False, open=RiegeliRecords, options=frozenset({"verify"})
)
