"""Every check of every file, with every fault."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from penstock import _native
from penstock.contracts.records import Records
from penstock.errors import DataError, Where
from penstock.formats.array_record import ArrayRecordRecords
from penstock.formats.framed import FramedRecords
from penstock.formats.framed_scan import Run, Scan, Stream
from penstock.formats.framing import Framing
from penstock.formats.npy import NpyRecords, check_alike
from penstock.formats.npy_header import NpyHeader, read_header
from penstock.formats.riegeli.verify import Stretch, verify_file
from penstock.io.mapped import MappedFile

__all__ = ["Checked", "verify_records"]


@dataclass(slots=True)
class Checked:
    """A stretch of one file after all checks of its framing.

    Args:
        path: The file.
        records: Sound records in the stretch.
        bytes: How much of the file, as it lies on the disk, was checked since the last stretch.
        faults: What was found since the last stretch.
        spans: The payloads of the sound records, for checks by a codec; ``None`` where there are none.
        run: The records, for :meth:`where`.
    """

    path: str
    records: int = 0
    bytes: int = 0
    faults: list[DataError] = field(default_factory=list)
    spans: _native.Spans | None = None
    run: Run | Stretch | None = None

    def where(self, position: int) -> Where:
        """The place of a sound record of the stretch."""
        return Where(path=self.path) if self.run is None else self.run.where(position)


def verify_records(records: Records) -> Iterator[Checked]:
    """Go through files, check everything, and report damage instead of raising it.

    Raises:
        NoFiles: A file is gone.
    """
    if isinstance(records, NpyRecords):
        yield from _verify_npy(records.paths)
    elif isinstance(records, FramedRecords):
        for content in records.contents():
            yield from _verify_framed(records.framing, content)
    elif isinstance(records, ArrayRecordRecords):
        for file in records.contents():
            yield from map(_checked_chunks, verify_file(file))
    else:
        raise TypeError(f"there are no checks for {type(records).__name__}")


def _verify_framed(framing: Framing, content: MappedFile | Stream) -> Iterator[Checked]:
    scan = Scan(framing, content, verify=True, on_corrupt="skip")
    size = Path(content.path).stat().st_size
    counted = reported = 0
    for run in scan:
        spans = framing.gather([run.buffer], None, run.starts, verify=False)
        # Decompressed bytes come to more than the file has: the last stretch makes up for what is missing.
        checked = min(run.size, size - counted)
        yield Checked(scan.path, len(run), checked, _since(scan, reported), spans, run)
        counted, reported = counted + checked, len(scan.faults)
    yield Checked(scan.path, 0, size - counted, _since(scan, reported))


def _checked_chunks(stretch: Stretch) -> Checked:
    return Checked(stretch.path, len(stretch.numbers), stretch.bytes, stretch.faults, stretch.spans, stretch)


def _since(scan: Scan, reported: int) -> list[DataError]:
    return [fault for fault, _ in scan.faults[reported:]]


def _verify_npy(paths: tuple[str, ...]) -> Iterator[Checked]:
    first: tuple[str, NpyHeader] | None = None
    for path in paths:
        file = MappedFile(path)
        try:
            header = read_header(file)
            first = first or (path, header)
            check_alike(path, header, *first)
        except DataError as fault:
            yield Checked(path, bytes=file.size, faults=[fault])
        else:
            yield Checked(path, header.rows, file.size)
