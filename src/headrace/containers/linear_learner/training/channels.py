"""Reads the examples of a channel in mini-batches: CSV or RecordIO-protobuf, from files or a pipe.

Every pass reads the data again, so memory does not grow with the data.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from headrace.codecs.csv import CsvCodec
from headrace.codecs.sagemaker_record.codec import SageMakerRecordCodec
from headrace.containers import content_types
from headrace.containers.linear_learner.hyperparameters import Hyperparameters
from headrace.containers.linear_learner.training.optimizers import Array
from headrace.containers.linear_learner.training.rows import FeatureRows, as_rows, concat_rows
from headrace.contracts.csv import CSV, CsvDialect
from headrace.contracts.feature import Feature
from headrace.contracts.job import TrainingJob
from headrace.contracts.schema import Schema
from headrace.errors import CorruptRecord, DataError, JobFailed, SchemaMismatch, Where
from headrace.formats.csv.format import CsvRecords
from headrace.formats.open import open_records
from headrace.sources.records import sagemaker_record_codec

__all__ = ["Examples", "MiniBatch", "channel_examples"]

MAGIC = b"\x0a\x23\xd7\xce"
FLOAT32 = 1
CSV_ROWS = 4096  # decoded at a time
NANS = ("nan", "NaN", "NAN", "-nan", "-NaN", "+nan", "+NaN")  # as NumPy and pandas write them
CSV_OF_NUMBERS = CSV(header=False, delimiter=",", encoding="utf-8-sig", missing=NANS)


class MiniBatch(NamedTuple):
    """Some examples: features, and labels ``float32 (n,)``."""

    rows: FeatureRows
    labels: Array

    def part(self, which: slice) -> MiniBatch:
        """Some of the examples."""
        return MiniBatch(self.rows.part(which), self.labels[which])


@dataclass(frozen=True, slots=True, kw_only=True)
class Examples:
    """One channel.

    Args:
        job: The job.
        name: The name of the channel.
        size: Examples per mini-batch.
        parameters: The hyperparameters, for checks of labels and the number of features.
        width: The number of features, if it is known.
    """

    job: TrainingJob
    name: str
    size: int
    parameters: Hyperparameters
    width: int | None = None

    def check_beginning(self) -> None:
        """Read the first mini-batch, so that a job fails before it trains. What a pipe holds can be read only once.

        Raises:
            JobFailed: No data, or invalid data.
            DataError: Damaged data.
        """
        if self.job.channels[self.name].input_mode != "Pipe":
            next(self.epoch(0))

    def epoch(self, number: int) -> Iterator[MiniBatch]:
        """The mini-batches of one pass, in the order of the files; the last one may be smaller.

        Raises:
            JobFailed: No data, or invalid data.
            DataError: Damaged data. The error names file and record.
        """
        channel = self.job.channels[self.name]
        if channel.input_mode == "Pipe":
            yield from self._iter_batches([self.job.pipe(self.name, number)])
            return
        files = [file for file in sorted(self.job.channel_dir(self.name).rglob("*")) if _counts(file)]
        if not files:
            raise JobFailed(f"Customer error: no data in the channel {self.name!r}")
        yield from self._iter_batches(files)

    def _iter_batches(self, files: list[Path]) -> Iterator[MiniBatch]:
        """Mini-batches, which may span files."""
        waiting: list[MiniBatch] = []
        count = 0
        is_empty = True
        for block in self._iter_checked(files):
            is_empty = False
            rest: MiniBatch | None = block
            while rest is not None and count + len(rest.labels) >= self.size:
                head, rest = _cut(rest, self.size - count)
                yield _concat([*waiting, head])
                waiting, count = [], 0
            if rest is not None:
                waiting.append(rest)
                count += len(rest.labels)
        if waiting:
            yield _concat(waiting)
        if is_empty:
            raise JobFailed(f"Customer error: the channel {self.name!r} has no examples")

    def _iter_checked(self, files: list[Path]) -> Iterator[MiniBatch]:
        width = self.width or self.parameters.feature_dim
        for file in files:
            first = 0
            for block in self._blocks(file, self.size):
                width = self._check(block, width, file, first)
                first += len(block.labels)
                yield block

    def _blocks(self, file: Path, size: int) -> Iterator[MiniBatch]:
        kind = self.job.channels[self.name].content_type or ""
        media = content_types.media_type(kind)
        if media == content_types.CSV:
            return _csv_blocks(file, size, _label_size(kind))
        if media == content_types.RECORDIO_PROTOBUF:
            return _record_blocks(file, size)
        if media:
            raise JobFailed(
                f"Customer error: content type {kind!r} of the channel {self.name!r} is not supported; "
                f"linear-learner takes {content_types.CSV} and {content_types.RECORDIO_PROTOBUF}"
            )
        is_pipe = self.job.channels[self.name].input_mode == "Pipe"
        if is_pipe or _begins_with(file, MAGIC):
            return _record_blocks(file, size)
        return _csv_blocks(file, size, 1)

    def _check(self, block: MiniBatch, width: int | None, file: Path, first: int) -> int:
        """Check a block whose first example is number ``first`` of a file. Returns the number of features."""
        found = block.rows.width
        if width is not None and width != found:
            raise JobFailed(
                f"Customer error: {width} features were expected (feature_dim, or the first example of training), but the channel "
                f"{self.name!r} has an example with {found}{_at(file, first)}"
            )
        wrong = _wrong_label(block.labels, self.parameters)
        if wrong is not None:
            number, said = wrong
            raise JobFailed(f"Customer error: {said} in the channel {self.name!r}{_at(file, first + number)}")
        place = block.rows.find_non_finite()
        if place is not None:
            number, column = place
            raise JobFailed(
                f"Customer error: feature {column} is not finite in the channel {self.name!r}"
                f"{_at(file, first + number)}. Fill missing values in a preprocessing step."
            )
        return found


def channel_examples(
    job: TrainingJob, name: str, parameters: Hyperparameters, width: int | None = None
) -> Examples | None:
    """The examples of a channel, with so many features; ``None`` if the job has no such channel."""
    if name not in job.channels:
        return None
    if job.channels[name].input_mode != "Pipe":
        _log_hidden(job, name)
    return Examples(job=job, name=name, size=parameters.mini_batch_size, parameters=parameters, width=width)


def _counts(file: Path) -> bool:
    return file.is_file() and not file.name.startswith((".", "_"))


def _log_hidden(job: TrainingJob, name: str) -> None:
    """Log the files that are left out, unless they are empty, as ``_SUCCESS`` is."""
    found = sorted(job.channel_dir(name).rglob("*"))
    hidden = [file.name for file in found if file.is_file() and not _counts(file) and file.stat().st_size]
    if hidden:
        more = f" and {len(hidden) - 1} more" if len(hidden) > 1 else ""
        job.log(
            f"The channel {name!r} is read without {hidden[0]}{more}: files whose names begin with . or _ are hidden"
        )


def _begins_with(file: Path, magic: bytes) -> bool:
    with file.open("rb") as opened:
        return opened.read(len(magic)) == magic


def _at(file: Path, record: int) -> str:
    return f" - at {Where(path=os.fspath(file), record=record)}"


def _wrong_label(labels: Array, parameters: Hyperparameters) -> tuple[int, str] | None:
    """A label that cannot be learned from, and why."""
    bad = ~np.isfinite(labels)
    if bad.any():
        return int(bad.argmax()), "a label is not finite"
    if parameters.is_regressor:
        return None
    classes = max(2, parameters.outputs)
    bad = (labels != np.floor(labels)) | (labels < 0) | (labels >= classes)
    if not bad.any():
        return None
    number = int(bad.argmax())
    return number, f"labels of a {parameters.predictor_type} are 0 to {classes - 1}, but there is {labels[number]:g}"


def _cut(block: MiniBatch, count: int) -> tuple[MiniBatch, MiniBatch | None]:
    if count == len(block.labels):
        return block, None
    return block.part(slice(count)), block.part(slice(count, None))


def _concat(parts: list[MiniBatch]) -> MiniBatch:
    if len({type(part.rows) for part in parts}) > 1:
        raise JobFailed("Customer error: the data is dense in some files and sparse in others")
    return MiniBatch(concat_rows([part.rows for part in parts]), np.concatenate([part.labels for part in parts]))


def _label_size(content_type: str) -> int:
    text = content_types.parameters(content_type).get("label_size", "1")
    if text != "1":
        raise JobFailed(f"Customer error: training data has one label, in the first column; found label_size={text}")
    return 1


def _csv_blocks(file: Path, size: int, labels: int) -> Iterator[MiniBatch]:
    path = os.fspath(file)
    records = CsvRecords([path], options=CSV_OF_NUMBERS)
    codec: CsvCodec | None = None
    blocks = iter(records.iter_spans(min(size, CSV_ROWS)))
    while True:
        try:
            first, spans = next(blocks)
        except StopIteration:
            return
        except CorruptRecord as error:
            raise _not_numbers(error, error.where) from error
        if codec is None:
            codec = _csv_codec(records.dialect, path, labels)
        try:
            batch = codec.decode_batch(spans)
        except DataError as error:
            raise _not_numbers(error, records.where_in_order(first + (error.where.record or 0))) from error
        yield MiniBatch(as_rows(batch["features"]), batch["label"])


def _csv_codec(dialect: CsvDialect, path: str, labels: int) -> CsvCodec:
    """A codec that reads the label from the first column and the other columns as one array."""
    features = len(dialect.names) - labels
    if features < 1:
        raise CorruptRecord(Where(path=path, record=0), expected="a label and features", found="one column")
    names = ("label", *(f"features_{number}" for number in range(features)))
    schema = Schema({"label": Feature("float32"), "features": Feature("float32", (features,))})
    return CsvCodec(schema, replace(dialect, names=names))


def _not_numbers(error: DataError, where: Where) -> CorruptRecord:
    found = error.found
    if error.where.feature:
        found += f" in column {_column(error)}"
    elif error.expected.endswith(" fields"):
        found += f" columns, and {error.expected.removesuffix(' fields')} in the first"
    return CorruptRecord(
        replace(where, feature=None),
        expected="rows of as many numbers as the first, without a header",
        found=found,
        hint="Encode text and fill empty fields in a preprocessing step.",
    )


def _column(error: DataError) -> int:
    """The number of the column, from 1, with the label first."""
    name, _, number = str(error.where.feature).rpartition("_")
    return int(number) + 2 if name else 1


def _record_blocks(file: Path, size: int) -> Iterator[MiniBatch]:
    records: Any = open_records(os.fspath(file), format="recordio")
    codec: SageMakerRecordCodec | None = None
    for first, spans in records.iter_spans(size):
        if codec is None:
            codec = sagemaker_record_codec(records, [spans], None, named=True)
            _check_codec(codec, file)
        try:
            batch = codec.decode_batch(spans)  # type: ignore[union-attr]
        except DataError as error:
            raise error.relocated(records.where_in_order(first + (error.where.record or 0))) from error
        yield MiniBatch(as_rows(_vectors(batch["values"])), np.asarray(batch["label"], np.float32).reshape(-1))


def _vectors(column: Any) -> Any:
    return column.reshape(len(column), -1) if isinstance(column, np.ndarray) else column


def _check_codec(codec: SageMakerRecordCodec | None, file: Path) -> None:
    schema = {} if codec is None else codec.schema
    for name in ("values", "label"):
        where = Where(path=os.fspath(file), record=0, feature=name)
        if name not in schema:
            raise SchemaMismatch(
                where, expected="Records with the feature 'values' and the label 'values'", found="none"
            )
        if name == "label" and schema[name].shape not in ((), (1,)):
            raise SchemaMismatch(where, expected="one label in each record", found=f"shape {schema[name].shape}")
        if schema[name].default is not None:
            raise SchemaMismatch(
                where, expected=f"the tensor {name!r} in every record", found="none in some of the first"
            )
        if schema[name].dtype != "float32":
            raise SchemaMismatch(
                where,
                expected="Float32 tensors, the only ones that linear-learner trains on",
                found=schema[name].dtype,
                hint="Convert the array to float32 before it is written.",
            )
