"""Every check of files of framed records."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.contracts.records import Checked
from headrace.errors import CorruptFile, DataError
from headrace.formats.framed import FramedRecords
from headrace.formats.framed_scan import Scan, Stream
from headrace.formats.framing import Framing
from headrace.io.mapped import MappedFile
from headrace.io.reading import size_on_disk

__all__ = ["verify_framed"]


def verify_framed(records: FramedRecords) -> Iterator[Checked]:
    """Check every length and checksum of every file."""
    for content in records.contents():
        yield from _verify_content(records.framing, content)


def _verify_content(framing: Framing, content: MappedFile | Stream) -> Iterator[Checked]:
    scan = Scan(framing, content, verify=True, on_corrupt="skip")
    size = size_on_disk(content.path)
    counted = reported = 0
    lost: list[DataError] = []
    try:
        for run in scan:
            spans = framing.gather([run.buffer], None, run.starts, verify=False)
            # Decompressed bytes come to more than the file has: the last stretch makes up for what is missing.
            checked = min(run.size, size - counted)
            yield Checked(scan.path, len(run), checked, _since(scan, reported), spans, run)
            counted, reported = counted + checked, len(scan.faults)
    except CorruptFile as fault:  # It shrank meanwhile.
        lost.append(fault)
    yield Checked(scan.path, 0, size - counted, [*_since(scan, reported), *lost])


def _since(scan: Scan, reported: int) -> list[DataError]:
    return [fault for fault, _ in scan.faults[reported:]]
