"""``headrace stats``: sample examples, and collect the statistics of their features."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer

from headrace.cli.options import (
    AsJson,
    CodecName,
    Columns,
    FormatName,
    Paths,
    SchemaFile,
    SkipCorrupt,
    open_from_options,
    tell_skipped,
)
from headrace.cli.stats.numbers import Numbers, Summary, Texts
from headrace.cli.stats.report import page, print_report
from headrace.cli.terminal import note, print_json
from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Ragged
from headrace.io.progress import Progress
from headrace.io.write.atomic import AtomicFile
from headrace.sampling.samplers import Shuffled
from headrace.sources.source import Source

__all__ = ["Collector", "Sample", "stats"]


MOST_BARS = 24


class Collector:
    """Collects the summary of one feature."""

    def __init__(self, name: str, feature: Feature) -> None:
        self._summary = Summary(name=name, dtype=feature.dtype, shape=feature.shape)
        self._lengths = Numbers(np.dtype(np.int64))
        self._content: Numbers | Texts = _content_for(feature.numpy_dtype)

    def add(self, column: Any) -> None:
        """Add a column of a batch."""
        lengths, values = _flat(column)
        self._summary.examples += len(lengths)
        self._summary.empty += int((lengths == 0).sum())
        self._lengths.add(lengths)
        self._content.add(values)

    def summary(self) -> Summary:
        """The summary so far."""
        found = self._summary
        if None in found.shape:
            found.lengths = self._lengths.range()
        self._content.tell(found, MOST_BARS)
        return found


def _flat(column: Any) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """Count the values of each row, and flatten them."""
    if hasattr(column, "tocsr"):
        rows = column.tocsr()
        return np.diff(rows.indptr).astype(np.int64), np.asarray(rows.data)
    if isinstance(column, Ragged):
        values = column.values
        lengths = column.lengths
        while isinstance(values, Ragged):
            values = values.values
        return lengths, np.asarray(values.reshape(-1))
    array = np.asarray(column)
    inner = int(np.prod(array.shape[1:], dtype=np.int64))
    return np.full(len(array), inner, np.int64), array.reshape(-1)


def _content_for(dtype: np.dtype[Any]) -> Numbers | Texts:
    return Numbers(dtype) if dtype.kind in "biufcmM" else Texts()


BATCH_BYTES = 4 << 20
GUESSED_BYTES = 4096  # if the size varies
MOST_ROWS = 1024
SEED = 0


@dataclass(slots=True)
class Sample:
    """Some or all examples of a source.

    Args:
        source: The source.
        wanted: The largest number of examples; ``None`` for all.
    """

    source: Source
    wanted: int | None
    read: int = 0
    """Number of examples read so far."""
    total: int | None = None
    """Number of examples in the source, where it is known."""
    is_first: bool = False
    """Whether the first examples are read, not a random sample."""

    def batches(self) -> Iterator[tuple[Batch, int]]:
        """Iterate over batches and their lengths."""
        rows = min(_rows_for(self.source.schema), self.wanted or MOST_ROWS)
        stream = self.source.stream(rows)
        for batch, count in self._streamed(stream) if stream is not None else self._picked(rows):
            self.read += count
            yield batch, count

    def _streamed(self, stream: Iterator[Batch]) -> Iterator[tuple[Batch, int]]:
        """Read a compressed file that is not in the cache in order. Random access would decompress all of it first."""
        self.is_first = True
        for batch in stream:
            count = _rows_of(batch)
            yield batch, count
            if self.wanted is not None and self.read >= self.wanted:
                return
        self.total = self.read

    def _picked(self, rows: int) -> Iterator[tuple[Batch, int]]:
        n = self.total = len(self.source)
        if self.wanted is None or self.wanted >= n:
            picked = np.arange(n)
        else:
            # A random permutation, because data are often sorted, and every k-th example may have the same class.
            picked = np.sort(Shuffled(n, seed=SEED).indices(0, 0, self.wanted))
        for at in range(0, len(picked), rows):
            part = picked[at : at + rows]
            yield self.source.batch(part), len(part)

    @property
    def statement(self) -> str:
        """Describe the sample."""
        if self.read == self.total:
            return f"all {self.read:,} examples were read"
        if self.is_first:
            return f"the first {self.read:,} examples were read (--all reads every one)"
        return f"{self.read:,} of {self.total:,} examples were read, picked at random (--all reads every one)"


def _rows_for(schema: Schema) -> int:
    size = 0
    for feature in schema.values():
        size += (
            feature.count * feature.numpy_dtype.itemsize if feature.is_fixed and not feature.is_text else GUESSED_BYTES
        )
    return max(1, min(MOST_ROWS, BATCH_BYTES // max(1, size)))


def _rows_of(batch: Batch) -> int:
    column: Any = next(iter(batch.values()), ())
    return int(column.shape[0]) if hasattr(column, "shape") else len(column)


def stats(
    paths: Paths,
    *,
    sample: Annotated[
        int, typer.Option("--sample", metavar="N", min=1, help="Largest number of examples to read.")
    ] = 10_000,
    read_all: Annotated[bool, typer.Option("--all", help="Read every example.")] = False,
    columns: Columns = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", show_default=False, help="Write an HTML page with plots.")
    ] = None,
    brief: Annotated[bool, typer.Option("--brief", help="Print the table only, without histograms.")] = False,
    format: FormatName = None,
    codec: CodecName = None,
    schema: SchemaFile = None,
    skip_corrupt: SkipCorrupt = False,
    as_json: AsJson = False,
) -> None:
    """Show statistics of the values: extremes, mean, distribution.

    By default it reads a random sample of 10,000 examples, or the first ones of a compressed file that is not in the cache yet.
    The output says how many were read, and how they were chosen.

    Examples:
      headrace stats train.tfrecord
      headrace stats train.tfrecord --all --html stats.html
      headrace stats train.tfrecord -c label --json
    """
    source = open_from_options(
        paths, format=format, codec=codec, schema=schema, columns=columns, skip_corrupt=skip_corrupt
    )
    taken = Sample(source, None if read_all else sample)
    summaries = _collect(taken)
    title = paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
    if html is not None:
        with AtomicFile(html) as file:
            file.write_text(page(title, taken.statement, summaries))
        note(f"wrote {html}")
    if as_json:
        print_json(_as_json(paths, taken, summaries))
    elif html is None:
        print_report(title, taken.statement, summaries, brief=brief)
    tell_skipped(source.skipped)


def _collect(sample: Sample) -> list[Summary]:
    source = sample.source
    collectors = {name: Collector(name, feature) for name, feature in source.schema.items()}
    batches = sample.batches()
    with Progress("reading", sample.wanted, "examples") as bar:
        for batch, count in batches:
            for name, collector in collectors.items():
                collector.add(batch[name])
            bar.advance(count)
    return [collector.summary() for collector in collectors.values()]


def _as_json(paths: Sequence[str], sample: Sample, summaries: Sequence[Summary]) -> dict[str, Any]:
    return {
        "paths": list(paths),
        "examples_read": sample.read,
        "examples": sample.total,
        "statement": sample.statement,
        "features": [summary.to_json() for summary in summaries],
    }
