"""Everything that is wrong with some files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace._arguments import flag, word
from headrace.codecs.csv import CsvCodec
from headrace.codecs.example import ExampleCodec
from headrace.contracts.csv import CSV
from headrace.contracts.feature import Feature
from headrace.contracts.records import Checked
from headrace.contracts.schema import Schema
from headrace.contracts.tables import is_table
from headrace.errors import CorruptFile, DataError
from headrace.formats.opening import open_records
from headrace.formats.verify import verify_records
from headrace.io.cache import renewed_cache
from headrace.io.progress import Progress
from headrace.io.reading import total_size
from headrace.sources.decoded import stored_schema
from headrace.sources.opening import Paths, codec_of
from headrace.writing.verify_images import image_faults, open_images

__all__ = ["Report", "verify"]

MOST_FAULTS = 10_000


@dataclass(slots=True)
class Report:
    """What :func:`verify` found.

    Attributes:
        files, records, bytes: How much was checked (sound records; bytes as they lie on disk).
        faults: One error each, with its place. At most 10,000 are kept; ``more_faults`` counts the rest.
        schema: What the payloads are, when they are examples.
        images: How many images were decoded.
    """

    files: int = 0
    records: int = 0
    bytes: int = 0
    faults: list[DataError] = field(default_factory=list)
    more_faults: int = 0
    schema: Schema | None = None
    images: int = 0

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
            "images": self.images,
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
        images = f", {self.images} images decoded" if self.images else ""
        head = f"{self.files} files, {self.records} sound records, {self.bytes} bytes{images}"
        if self.ok:
            return f"{head}: no fault"
        count = len(self.faults) + self.more_faults
        lines = [f"{head}: {count} fault{'s' if count != 1 else ''}", *(f"  {fault}" for fault in self.faults)]
        if self.more_faults:
            lines.append(f"  ... and {self.more_faults} more")
        return "\n".join(lines)


def verify(
    path: Paths,
    *,
    format: str | CSV | None = None,
    codec: str | None = None,
    schema: Schema | Mapping[str, Feature] | None = None,
    compression: str | None = None,
    images: bool = False,
    progress: bool = False,
) -> Report:
    """Check every checksum, length and count, and that every payload is what its codec (and the schema) expects.

    Args:
        path: As for :func:`headrace.open`.
        format, codec, compression: As for :func:`headrace.open`.
        schema: Checked against every record. Without one, the records are held against the schema that the first 256 of
            them show only where a kind of values is concerned: lengths may vary.
        images: Decode every encoded image, too, in threads. Needs the extra ``images``.
        progress: Show a progress bar.

    Returns:
        A report; ``report.ok`` is true when nothing is wrong. Damage is reported, never raised.

    Raises:
        NoFiles, UnknownFormat: there is nothing to check.
    """
    word(codec, "codec")
    images, progress = flag(images, "images"), flag(progress, "progress")
    with renewed_cache():  # What is checked is the files, and no copy that was made of them before.
        return _verified(
            path, schema, images=images, progress=progress, format=format, codec=codec, compression=compression
        )


def _verified(
    path: Paths,
    schema: Schema | Mapping[str, Feature] | None,
    *,
    images: bool,
    progress: bool,
    format: str | CSV | None,
    codec: str | None,
    compression: str | None,
) -> Report:
    report = Report()
    records = open_records(path, format=format, compression=compression)
    paths = getattr(records, "files", records.paths)  # of one that is a folder, what is in it
    report.files = len(paths)
    size = total_size(paths)
    if schema is not None and is_table(records) and hasattr(records, "with_schema"):
        records = records.with_schema(stored_schema(Schema(schema)))
    checker = _checker(records, codec, schema)
    report.schema = checker.schema if isinstance(checker, (ExampleCodec, CsvCodec)) else None
    with Progress("verifying", size, "bytes", show=progress) as bar:
        try:
            for stretch in verify_records(records):
                bar.advance(stretch.bytes)
                _add_stretch(report, checker, stretch)
        except CorruptFile as fault:  # A file shrank while it was checked.
            report.add(fault)
    if images:
        _add_images(report, path, progress, format=format, codec=codec, schema=schema, compression=compression)
    return report


def _add_stretch(report: Report, checker: Any, stretch: Checked) -> None:
    report.records += stretch.records
    report.bytes += stretch.bytes
    for fault in stretch.faults:
        report.add(fault)
    try:
        for fault in _payload_faults(checker, stretch):
            report.records -= 1
            report.add(fault)
    except CorruptFile as fault:  # The file shrank before its records could be decoded.
        report.records -= stretch.records
        report.add(fault)


def _add_images(report: Report, path: Paths, progress: bool, **options: Any) -> None:  # noqa: FBT001 - passed on
    """What is wrong with the images in records that are sound."""
    try:
        source = open_images(path, **options)
    except DataError as fault:
        if report.ok:  # else that is what keeps the files from being opened
            report.add(fault)
        return
    with Progress("decoding", 0 if source is None else len(source), "examples", show=progress) as bar:
        for checked in () if source is None else image_faults(source):
            report.images += checked.images
            report.records -= checked.records_at_fault
            bar.advance(checked.records)
            for found in checked.faults:
                report.add(found)


def _checker(records: Any, codec: str | None, schema: Schema | Mapping[str, Feature] | None) -> Any:
    """What checks payloads; ``None`` for tables, which have none, and where the first record is damaged."""
    if is_table(records):
        return None
    try:
        found = codec_of(records, codec=codec, schema=schema)
    except DataError:
        return None  # The framing is damaged before the first payload: that is reported from the framing.
    if schema is not None or not isinstance(found, ExampleCodec):
        return found
    free = {
        name: Feature(f.dtype, (None, None) if name in found.lists else (None,)) for name, f in found.schema.items()
    }
    return ExampleCodec(Schema(free), lists=found.lists, mixed=found.mixed)


def _payload_faults(checker: Any, stretch: Checked) -> Iterator[DataError]:
    if checker is None or stretch.spans is None:
        return
    for fault in checker.faults_in(stretch.spans):
        yield fault.relocated(stretch.where(fault.where.record or 0))
