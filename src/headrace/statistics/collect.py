"""Collects statistics of the features of a source: of all examples in threads, or of a random sample."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace import _hooks
from headrace._numbers import find_present, take_present
from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema
from headrace.contracts.strings import Strings
from headrace.contracts.values import Batch, Indices, Ragged
from headrace.io.system import usable_cores
from headrace.io.threads import ConsumerContext, ThreadPool
from headrace.sampling.samplers import Shuffled
from headrace.sources.source import Source
from headrace.statistics.numbers import Numbers, Summary, Texts

__all__ = ["Collector", "PartialStatistics", "Statistics", "collect", "collect_rows", "pick"]

MOST_BARS = 24
BATCH_BYTES = 4 << 20
GUESSED_BYTES = 4096  # if the size varies
MOST_ROWS = 1024
STRETCH = 16  # batches that a thread reads before its part is merged
SEED = 0


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

    def merge(self, other: Collector) -> None:
        """Add what another has collected of the same feature."""
        self._summary.examples += other._summary.examples
        self._summary.empty += other._summary.empty
        self._lengths.merge(other._lengths)
        self._content.merge(other._content)  # type: ignore[arg-type]

    def summary(self) -> Summary:
        """The summary so far."""
        found = self._summary
        if None in found.shape:
            found.lengths = self._lengths.range()
        self._content.fill(found, MOST_BARS)
        return found


def _flat(column: Any) -> tuple[npt.NDArray[np.int64], Any]:
    """Count the values of each row, and flatten them."""
    present = find_present(column)
    if present is not None:
        lengths = np.zeros(len(column), np.int64)
        lengths[present], values = _flat(take_present(column, present))
        return lengths, values
    if hasattr(column, "tocsr"):
        rows = column.tocsr()
        return np.diff(rows.indptr).astype(np.int64), np.asarray(rows.data)
    if isinstance(column, Ragged):
        values = column.values
        lengths = column.lengths
        while isinstance(values, Ragged):
            values = values.values
        return lengths, values.reshape(-1)
    if isinstance(column, list):  # arrays of different shapes
        parts = [each if isinstance(each, Strings) else np.asarray(each) for each in column]
        sizes = np.array([math.prod(each.shape) for each in parts], np.int64)
        flat = [each.reshape(-1) for each in parts if not isinstance(each, Strings)]
        if len(flat) < len(parts):
            return sizes, np.array([value for each in parts for value in each.reshape(-1).tolist()], object)
        return sizes, np.concatenate(flat) if flat else np.zeros(0)
    array = column if isinstance(column, Strings) else np.asarray(column)
    inner = int(np.prod(array.shape[1:], dtype=np.int64))
    return np.full(len(array), inner, np.int64), array.reshape(-1)


def _content_for(dtype: np.dtype[Any]) -> Numbers | Texts:
    return Numbers(dtype) if dtype.kind in "biufcmM" else Texts()


class PartialStatistics:
    """Statistics of some examples. Parts merge, in any order and however the examples are divided; means and deviations then differ by
    rounding only. Picklable.

    Args:
        schema: The features.
    """

    def __init__(self, schema: Schema) -> None:
        self._collectors = {name: Collector(name, feature) for name, feature in schema.items()}
        self.read: int = 0
        """Number of examples read."""

    def add(self, batch: Batch, count: int) -> None:
        """Add a batch of ``count`` examples."""
        for name, collector in self._collectors.items():
            collector.add(batch[name])
        self.read += count

    def merge(self, other: PartialStatistics) -> None:
        """Add those of other examples of the same schema."""
        for name, collector in self._collectors.items():
            collector.merge(other._collectors[name])
        self.read += other.read

    def summaries(self) -> list[Summary]:
        """One summary for each feature."""
        return [collector.summary() for collector in self._collectors.values()]


@dataclass(slots=True)
class Statistics:
    """The result of :func:`headrace.stats`.

    Attributes:
        features: The statistics of each feature, by name.
        read: Number of examples read.
        total: Number of examples in the data, if known.
        is_first: Whether the first examples were read, not a random sample.
    """

    features: dict[str, Summary] = field(default_factory=dict)
    read: int = 0
    total: int | None = None
    is_first: bool = False

    @property
    def statement(self) -> str:
        """Which examples were read, in words."""
        if self.read == self.total:
            return f"all {self.read:,} examples were read"
        if self.is_first:
            return f"the first {self.read:,} examples were read"
        return f"{self.read:,} of {self.total:,} examples were read, picked at random"

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "examples_read": self.read,
            "examples": self.total,
            "statement": self.statement,
            "features": [summary.to_json() for summary in self.features.values()],
        }

    def _repr_html_(self) -> str | None:
        return _hooks.to_html(self)

    def __str__(self) -> str:
        lines = [self.statement]
        for name, found in self.features.items():
            known = [f"{found.values:,} values", f"{found.empty:,} empty" if found.empty else ""]
            if found.minimum is not None:
                known.append(f"{found.minimum} to {found.maximum}")
            if found.mean is not None:
                known.append(f"mean {found.mean:.6g}, std {found.std:.6g}")
            distinct = "more than 10,000 distinct" if found.distinct is None else f"{found.distinct:,} distinct"
            lines.append(f"{name}: {', '.join(each for each in [*known, distinct] if each)}")
        return "\n".join(lines)


def collect(source: Source, sample: int | None, advance: Callable[[PartialStatistics, int], object]) -> Statistics:
    """Statistics of a source.

    Args:
        source: The source, with images as they are stored.
        sample: The most examples to read; ``None``: all.
        advance: Called after some examples, with the statistics so far and how many examples were added. What it raises ends the work.
    """
    rows = min(_rows_for(source.schema), sample or MOST_ROWS)
    found = PartialStatistics(source.schema)
    stream = source.stream(rows)
    if stream is not None:
        finished = _add_stream(found, stream, sample, advance)
        total, is_first = (found.read if finished else None), True
    else:
        total, is_first = len(source), False
        _add_picked(found, source, pick(total, sample), rows, advance)
    return Statistics({each.name: each for each in found.summaries()}, found.read, total, is_first)


def _add_stream(
    found: PartialStatistics,
    stream: Iterator[Batch],
    sample: int | None,
    advance: Callable[[PartialStatistics, int], object],
) -> bool:
    """Read a compressed file that is not in the cache in order; whether all of it was read."""
    for batch in stream:
        count = _count_rows(batch)
        left = count if sample is None else min(count, sample - found.read)
        found.add(batch if left == count else {name: column[:left] for name, column in batch.items()}, left)
        advance(found, left)
        if sample is not None and found.read >= sample:
            return left == count and next(stream, None) is None
    return True


def pick(total: int, sample: int | None) -> Indices:
    """The examples to read, in order."""
    if sample is None or sample >= total:
        return np.arange(total)
    # A random permutation, because data are often sorted, and every k-th example may have the same class.
    return np.sort(Shuffled(total, seed=SEED).indices(0, 0, sample))


def _add_picked(
    found: PartialStatistics,
    source: Source,
    picked: Indices,
    rows: int,
    advance: Callable[[PartialStatistics, int], object],
) -> None:
    stretches = [picked[at : at + rows * STRETCH] for at in range(0, len(picked), rows * STRETCH)]
    threads = usable_cores()
    if len(stretches) < 2 or threads < 2:
        parts: Iterator[PartialStatistics] = (collect_rows(source, each) for each in stretches)
        _merge(found, parts, advance)
        return
    with ThreadPool(threads, thread_name_prefix="headrace-stats", context=ConsumerContext()) as pool:
        for at in range(0, len(stretches), 4 * threads):  # a few at a time: results wait in memory
            _merge(found, pool.map(lambda each: collect_rows(source, each), stretches[at : at + 4 * threads]), advance)


def _merge(
    found: PartialStatistics, parts: Iterator[PartialStatistics], advance: Callable[[PartialStatistics, int], object]
) -> None:
    for part in parts:
        found.merge(part)
        advance(found, part.read)


def collect_rows(source: Source, indices: Indices) -> PartialStatistics:
    """Statistics of the examples at these indices, read a batch at a time."""
    found = PartialStatistics(source.schema)
    rows = _rows_for(source.schema)
    for at in range(0, len(indices), rows):
        part = indices[at : at + rows]
        found.add(source.batch(part), len(part))
    return found


def _rows_for(schema: Schema) -> int:
    size = 0
    for feature in schema.values():
        size += (
            feature.count * feature.numpy_dtype.itemsize if feature.is_fixed and not feature.is_text else GUESSED_BYTES
        )
    return max(1, min(MOST_ROWS, BATCH_BYTES // max(1, size)))


def _count_rows(batch: Batch) -> int:
    column: Any = next(iter(batch.values()), ())
    return int(column.shape[0]) if hasattr(column, "shape") else len(column)
