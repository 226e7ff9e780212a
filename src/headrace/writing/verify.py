"""Finding everything that is wrong with files, images included, and salvaging the intact records of a damaged one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headrace._arguments import flag, word
from headrace.codecs.csv import CsvCodec
from headrace.codecs.example.codec import ExampleCodec
from headrace.codecs.images.decode import ImageDecoder, feature_of_images
from headrace.contracts.csv import CSV
from headrace.contracts.feature import Feature
from headrace.contracts.images import ImageOptions
from headrace.contracts.records import Checked, Salvaged, TakesSchema, files_of, is_table
from headrace.contracts.schema import Schema
from headrace.errors import CorruptFile, DataError, NoFiles, UnsupportedData, Where
from headrace.formats.open import detect, open_records, verify_records
from headrace.formats.registry import format_named
from headrace.io.cache.folder import fresh_cache
from headrace.io.folders import first_existing
from headrace.io.local.open import total_size
from headrace.io.paths import PathLike, expand
from headrace.io.progress import Progress
from headrace.io.system import usable_cores
from headrace.io.threads import ThreadPool
from headrace.sources.decoded import DecodedNode, images_in, stored_schema
from headrace.sources.node import Node
from headrace.sources.open import Paths, codec_of
from headrace.sources.open import open as open_source
from headrace.sources.views import keep_features
from headrace.writing.sinks import open_writer
from headrace.writing.units import Target

__all__ = ["DecodedRows", "Report", "image_faults", "open_images", "salvage", "verify"]


ROWS = 32
"""Examples that one thread decodes at once."""
ANY_SIZE = ImageOptions(any_size=True)


@dataclass(slots=True)
class DecodedRows:
    """The result of decoding the images of some examples."""

    records: int
    images: int = 0
    records_at_fault: int = 0
    faults: list[DataError] = field(default_factory=list)


def open_images(path: Paths, **options: Any) -> DecodedNode | None:
    """The examples of some files, without damaged records where the format can skip them; ``None`` where they have no images."""
    try:
        source = open_source(path, on_corrupt="skip", **options)
        len(source)
    except UnsupportedData:  # where each file is an example, nothing follows a damaged one
        source = open_source(path, **options)
        len(source)  # A table may notice only then that its file is cut off.
    return source.node if isinstance(source.node, DecodedNode) else None


def image_faults(node: DecodedNode, threads: int | None = None) -> Iterator[DecodedRows]:
    """Decode every image of every example, in order.

    Args:
        node: The examples.
        threads: How many decode at once; by default one per core.

    Yields:
        Some examples at a time, with an error for every damaged image: its file, record and feature.
    """
    count = threads or usable_cores()
    encoded = keep_features(node.encoded(), tuple(node.stored))
    stretches = [(start, min(start + ROWS, len(node))) for start in range(0, len(node), ROWS)]

    def check(stretch: tuple[int, int]) -> DecodedRows:
        return _decode_rows(encoded, node.stored, *stretch)

    with ThreadPool(count, thread_name_prefix="headrace-verify") as pool:
        for at in range(0, len(stretches), 4 * count):  # a few at a time: results wait in memory
            yield from pool.map(check, stretches[at : at + 4 * count])


def _decode_rows(encoded: Node, stored: dict[str, Feature], start: int, stop: int) -> DecodedRows:
    found = DecodedRows(stop - start)
    try:
        batch = encoded.batch(np.arange(start, stop))
    except DataError as error:  # read them one by one
        if stop - start == 1:
            # The path of an image that does not exist, or is not allowed. Other damage of the record was found before.
            if isinstance(error, (NoFiles, UnsupportedData)) and error.where.feature in stored:
                return DecodedRows(1, records_at_fault=1, faults=[error])
            return found
        for row in range(start, stop):
            _add(found, _decode_rows(encoded, stored, row, row + 1))
        return found
    for row in range(stop - start):
        faults = []
        for name, feature in stored.items():
            for image in images_in(batch[name][row]):
                found.images += 1
                fault = _fault_of(image, feature)
                if fault is not None:
                    faults.append(fault.relocated(encoded.where(start + row).at(feature=name)))
        found.faults += faults
        found.records_at_fault += bool(faults)
    return found


def _add(all_rows: DecodedRows, some: DecodedRows) -> None:
    all_rows.images += some.images
    all_rows.records_at_fault += some.records_at_fault
    all_rows.faults += some.faults


def _fault_of(image: bytes, stored: Feature) -> DataError | None:
    feature = feature_of_images(Feature("bytes", encoding=stored.encoding), [image], ANY_SIZE)
    try:
        ImageDecoder(feature, ANY_SIZE, exact=True).images([image])
    except DataError as fault:
        return fault
    return None


MOST_FAULTS = 10_000


@dataclass(slots=True)
class Report:
    """The result of :func:`verify`.

    Attributes:
        files, records, bytes: How much was checked (sound records; bytes on disk).
        faults: One error each, with its place. At most 10,000 are kept; ``more_faults`` counts the others.
        schema: Of the payloads, when they are examples.
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
        """Add a fault."""
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
        schema: Checked against every record. Without one, the first 256 records say of which kind values are; lengths may vary.
        images: Also decode every encoded image, in threads. Needs the extra ``images``.
        progress: Show a progress bar.

    Returns:
        A report; ``report.ok`` is true when nothing is wrong. Damage is reported and not raised.

    Raises:
        NoFiles, UnknownFormat: there is nothing to check.
    """
    word(codec, "codec")
    images, progress = flag(images, "images"), flag(progress, "progress")
    with fresh_cache():  # What is parse_compression is the files, and no copy that was made of them before.
        return _verify(
            path, schema, images=images, progress=progress, format=format, codec=codec, compression=compression
        )


def _verify(
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
    records: Any = open_records(path, format=format, compression=compression)
    paths = files_of(records)
    report.files = len(paths)
    size = total_size(paths)
    if schema is not None and is_table(records) and isinstance(records, TakesSchema):
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
    """Check the images in intact records."""
    try:
        source = open_images(path, **options)
    except DataError as fault:
        if report.ok:  # else the reported faults are why the files cannot be opened
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
    """The codec that checks payloads; ``None`` for tables, which have none, and where the first record is damaged."""
    if is_table(records):
        return None
    try:
        found = codec_of(records, codec=codec, schema=schema)
    except DataError:
        return None  # damage before the first payload is reported by the check of the framing
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


def salvage(path: PathLike | list[str], out: PathLike, *, format: str | None = None) -> Salvaged:
    """Copy every intact record of one file into a new one of the same format.

    Args:
        path: The damaged file. It is not changed.
        out: The new file, which must not exist. It gets its name when it is complete.
        format: Of the file; by default found from its content, then from its name.

    Raises:
        UnsupportedData: ``path`` is more than one file, ``out`` exists, or the records of the format have no boundaries.
        CorruptFile: There is nothing to salvage.
    """
    paths = expand(path)
    if len(paths) != 1:
        raise UnsupportedData(Where(), expected="one file to salvage", found=f"{len(paths)}")
    if first_existing([os.fspath(out)]):
        raise UnsupportedData(Where(path=str(out)), expected="a new file", found="one that already exists")
    found = format_named(format) if format is not None else detect(paths[0])
    if found.salvage is not None:
        return found.salvage(paths[0], str(out))
    return _written_again(paths[0], out, found.name)


def _written_again(path: str, out: PathLike, format: str) -> Salvaged:
    if format_named(format).writer is None:
        raise UnsupportedData(Where(path=path), expected="a format of records", found=format)
    target = Target.of(out, format=format)
    records: Any = open_records([path], format=format, on_corrupt="skip")
    count = 0
    with open_writer(target.paths[0], format, target.compression) as writer:
        for _, spans in records.iter_spans():
            writer.write_many(spans.to_bytes())
            count += len(spans)
    skipped = records.skipped
    # A damaged stretch is at least one record; the file does not say how many.
    return Salvaged(records=count, lost_records=None if skipped.records else 0, lost_bytes=skipped.bytes)
