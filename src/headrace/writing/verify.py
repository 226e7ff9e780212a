"""Finding everything that is wrong with files, images included."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headrace import _hooks
from headrace._arguments import check_flag, check_text
from headrace.codecs.csv import CsvCodec
from headrace.codecs.example.codec import ExampleCodec
from headrace.contracts.csv import CSV
from headrace.contracts.feature import Feature
from headrace.contracts.records import Checked, ChecksFiles, TakesSchema, files_of, is_table
from headrace.contracts.schema import Schema
from headrace.errors import CorruptFile, DataError
from headrace.formats.csv.format import CsvRecords
from headrace.formats.open import open_records, verify_records
from headrace.formats.table.base import InferredTable
from headrace.io.cache.folder import fresh_cache
from headrace.io.faults import NoCacheSpace
from headrace.io.local.open import total_size
from headrace.io.progress import Progress
from headrace.sources.decoded import stored_schema
from headrace.sources.images import as_paths
from headrace.sources.open import Paths, check_codec, codec_of
from headrace.writing.distributed.images import image_faults_by, open_images
from headrace.writing.engines import EngineTask, On, TaskEngine, Threads, cores_of, in_order, open_engine, parts_of
from headrace.writing.units import UNIT_BYTES

__all__ = ["Report", "verify"]


MOST_FAULTS = 10_000
MOST_SMALL_FILES = 4096
"""Files of one example each that a task checks."""


@dataclass(slots=True)
class Report:
    """The result of :func:`verify`.

    Attributes:
        files, records, bytes: The amount checked (intact records; bytes on disk).
        faults: An error for each, with its position. At most 10,000 are kept; ``more_faults`` counts the others.
        schema: The schema of the payloads, if they are examples.
        images: Number of decoded images.
        looked_for_images: Whether images were to be decoded.
    """

    files: int = 0
    records: int = 0
    bytes: int = 0
    faults: list[DataError] = field(default_factory=list)
    more_faults: int = 0
    schema: Schema | None = None
    images: int = 0
    looked_for_images: bool = False

    @property
    def ok(self) -> bool:
        """Whether there are no faults."""
        return not self.faults

    def add(self, fault: DataError) -> None:
        """Add a fault. What no space in the cache kept from being checked is none, and is raised."""
        if isinstance(fault, NoCacheSpace):
            raise fault
        if len(self.faults) < MOST_FAULTS:
            self.faults.append(fault)
        else:
            self.more_faults += 1

    def merge(self, other: Report) -> None:
        """Add the report of other files; ``files`` and ``schema`` stay."""
        self.records += other.records
        self.bytes += other.bytes
        self.images += other.images
        for fault in other.faults:
            self.add(fault)
        self.more_faults += other.more_faults

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

    def _repr_html_(self) -> str | None:
        return _hooks.to_html(self)

    def __str__(self) -> str:
        images = f", {self.images} images decoded" if self.looked_for_images else ""
        head = f"{self.files} files, {self.records} intact records, {self.bytes} bytes{images}"
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
    on: On = "threads",
) -> Report:
    """Check every checksum, length and count, and every payload against its codec (and the schema).

    Args:
        path: As for :func:`headrace.open`.
        format, codec, compression: As for :func:`headrace.open`.
        schema: Checked against every record. Without it, the first 256 records define the kinds of values, and lengths may vary.
        images: Also decode every encoded image, in threads. Needs the extra ``images``.
        progress: Show a progress bar.
        on: ``"threads"`` of this process, ``"ray"`` for a Ray cluster, one task a file, or your own engine; see
            :func:`headrace.convert`. The report is the same.

    Returns:
        A report; ``report.ok`` is true without faults. Damage is reported, not raised.

    Raises:
        NoFiles, UnknownFormat: There is nothing to check.
        UnsupportedData: A compressed or remote file has to be kept in the cache, which has no space for it.
    """
    check_text(codec, "codec")
    images, progress = check_flag(images, "images"), check_flag(progress, "progress")
    with fresh_cache(), open_engine(on) as engine:  # The files are checked, and no copy that was made of them before.
        return _verify(
            path, schema, engine, images=images, progress=progress, format=format, codec=codec, compression=compression
        )


def _verify(
    path: Paths,
    schema: Schema | Mapping[str, Feature] | None,
    engine: TaskEngine,
    *,
    images: bool,
    progress: bool,
    format: str | CSV | None,
    codec: str | None,
    compression: str | None,
) -> Report:
    report = Report(looked_for_images=images)
    records: Any = open_records(path, format=format, compression=compression)
    paths = files_of(records)
    report.files = len(paths)
    size = total_size(paths)
    stored = None if schema is None else stored_schema(Schema(schema))
    if stored is not None and is_table(records) and isinstance(records, TakesSchema):
        records = records.with_schema(stored)
    checker, refusal = _checker(records, codec, stored)
    report.schema = checker.schema if isinstance(checker, (ExampleCodec, CsvCodec)) else None
    with Progress("verifying", size, "bytes", show=progress) as bar:
        if isinstance(engine, Threads):
            _check_records(report, verify_records(records), checker, bar)
        else:
            _check_files(report, _Check(records, checker, stored, compression), engine, bar)
    if refusal is not None and report.ok:  # else the reported faults are why the schema cannot be used
        report.add(refusal)
    if images:
        options = {"format": format, "codec": codec, "schema": schema, "compression": compression}
        _add_images(report, path, engine, progress, **options)
    return report


def _check_records(report: Report, stretches: Iterator[Checked], checker: Any, bar: Progress) -> None:
    try:
        for stretch in stretches:
            bar.advance(stretch.bytes)
            _add_stretch(report, checker, stretch)
    except CorruptFile as fault:  # A file shrank while it was checked.
        report.add(fault)


@dataclass(frozen=True, slots=True)
class _Check:
    """What other machines need to check some of the files: how they were opened here, and by what their payloads are checked."""

    records: Any
    checker: Any
    schema: Schema | None
    compression: str | None


def _check_files(report: Report, check: _Check, engine: TaskEngine, bar: Progress) -> None:
    """Check each file by an engine, or many small ones at once, and put the reports together in the order of the files."""
    parts: Sequence[Any] = check.records.parts() if isinstance(check.records, InferredTable) else check.records.paths
    if isinstance(check.records, ChecksFiles):
        count = report.files
        parts = parts_of(np.arange(count), UNIT_BYTES // MOST_SMALL_FILES, count, cores_of(engine))
    for number, part in enumerate(parts):
        engine.submit(EngineTask(_check_part, check, (number, part)))
    for found in in_order(engine.finished()):
        bar.advance(found.bytes)
        report.merge(found)


def _check_part(check: _Check, part: tuple[int, str | range | InferredTable]) -> tuple[int, Report]:
    number, files = part
    report, schema = Report(), check.schema
    with fresh_cache():
        if isinstance(files, range):
            stretches = check.records.check_files(files)
        elif isinstance(files, InferredTable):
            stretches = verify_records(files)
        elif isinstance(check.records, CsvRecords):
            stretches = verify_records(check.records.of_file(files))
        else:
            records: Any = open_records([files], format=check.records.format, compression=check.compression)
            if schema is not None and is_table(records) and isinstance(records, TakesSchema):
                records = records.with_schema(schema)
            stretches = verify_records(records)
        _check_records(report, stretches, check.checker, Progress("verifying", None, "bytes", show=False))
    return number, report


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


def _add_images(report: Report, path: Paths, engine: TaskEngine, progress: bool, **options: Any) -> None:  # noqa: FBT001 - passed on
    """Check the images in intact records."""
    try:
        source = open_images(path, engine, **options)
    except DataError as fault:
        if report.ok:  # else the reported faults are why the files cannot be opened
            report.add(fault)
        return
    with Progress("decoding", 0 if source is None else len(source), "examples", show=progress) as bar:
        for checked in () if source is None else image_faults_by(engine, source):
            report.images += checked.images
            report.records -= checked.records_at_fault
            bar.advance(checked.records)
            for found in checked.faults:
                report.add(found)


def _checker(records: Any, codec: str | None, schema: Schema | None) -> tuple[Any, DataError | None]:
    """The codec that checks payloads, and why there is none although a schema of what is stored says what they are.

    There is none for tables, which have no payloads, and where the first record is damaged, which the check of the framing reports.
    """
    check_codec(records, codec)
    if is_table(records):
        return None, None
    try:
        found = codec_of(records, codec=codec, schema=as_paths(records.format, schema)[0])
    except DataError as error:
        return None, None if schema is None else error
    if schema is not None or not isinstance(found, ExampleCodec):
        return found, None
    free = {
        name: Feature(f.dtype, (None, None) if name in found.lists else (None,)) for name, f in found.schema.items()
    }
    return ExampleCodec(Schema(free), lists=found.lists, mixed=found.mixed, shared=found.shared), None


def _payload_faults(checker: Any, stretch: Checked) -> Iterator[DataError]:
    if checker is None or stretch.spans is None:
        return
    for fault in checker.faults_in(stretch.spans):
        yield fault.relocated(stretch.where(fault.where.record or 0))
