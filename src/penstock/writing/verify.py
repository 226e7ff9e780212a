"""Everything that is wrong with some files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.contracts.feature import Feature
from penstock.contracts.schema import Schema
from penstock.errors import DataError
from penstock.formats.verify import verify_records
from penstock.io.progress import Progress
from penstock.sources.opening import codec_of, open_records

__all__ = ["Report", "verify"]

MOST_FAULTS = 10_000


@dataclass(slots=True)
class Report:
    """What :func:`verify` found.

    Attributes:
        files, records, bytes: How much was checked (sound records; bytes as they lie on disk).
        faults: One error each, with its place. At most 10,000 are kept; ``more_faults`` counts the rest.
        schema: What the payloads are, when they are examples.
    """

    files: int = 0
    records: int = 0
    bytes: int = 0
    faults: list[DataError] = field(default_factory=list)
    more_faults: int = 0
    schema: Schema | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.faults

    def add(self, fault: DataError) -> None:
        """Note one fault."""
        if len(self.faults) < MOST_FAULTS:
            self.faults.append(fault)
        else:
            self.more_faults += 1

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {
            "ok": self.ok,
            "files": self.files,
            "records": self.records,
            "bytes": self.bytes,
            "faults": [
                {
                    "kind": type(fault).__name__,
                    "path": fault.where.path,
                    "record": fault.where.record,
                    "offset": fault.where.offset,
                    "feature": fault.where.feature,
                    "expected": fault.expected,
                    "found": fault.found,
                }
                for fault in self.faults
            ],
            "more_faults": self.more_faults,
        }

    def __str__(self) -> str:
        head = f"{self.files} files, {self.records} sound records, {self.bytes} bytes"
        if self.ok:
            return f"{head}: no fault"
        count = len(self.faults) + self.more_faults
        lines = [f"{head}: {count} fault{'s' if count != 1 else ''}", *(f"  {fault}" for fault in self.faults)]
        if self.more_faults:
            lines.append(f"  ... and {self.more_faults} more")
        return "\n".join(lines)


def verify(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    format: str | None = None,
    codec: str | None = None,
    schema: Schema | Mapping[str, Feature] | None = None,
    progress: bool = False,
) -> Report:
    """Check every checksum, length and count, and that every payload is what its codec (and the schema) expects.

    Args:
        path: As for :func:`penstock.open`.
        format, codec, schema: As for :func:`penstock.open`. A schema that is given is checked against every record; one that
            is inferred is not held against the records, only their structure is checked.
        progress: Show a progress bar.

    Returns:
        A report; ``report.ok`` is true when nothing is wrong. Damage is reported, never raised.
    """
    report = Report()
    records = open_records(path, format=format)
    report.files = len(records.paths)
    report.bytes = sum(os.path.getsize(name) for name in records.paths)
    checker: Any = codec_of(records, codec=codec, schema=schema, for_checking=True)
    report.schema = getattr(checker, "schema", None)
    with Progress("verifying", report.bytes, "bytes", show=progress) as bar:
        for fault in _faults(records, checker, report, bar):
            report.add(fault)
    return report


def _faults(records: Any, checker: Any, report: Report, bar: Progress) -> Iterator[DataError]:
    for block in verify_records(records):
        yield from block.faults
        report.records += block.records
        bar.advance(block.bytes)
        if checker is not None and block.spans is not None:
            yield from checker.faults_in(block)
