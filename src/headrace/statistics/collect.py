"""Collects statistics of the features of a source: of all examples, or of a random sample."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter_ns
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace import _hooks
from headrace.contracts.feature import Feature
from headrace.contracts.protocols import SizeEstimate
from headrace.contracts.schema import Schema, find_present, take_present
from headrace.contracts.strings import Strings
from headrace.contracts.values import Batch, Indices, Ragged, bytes_of
from headrace.io.system import usable_cores
from headrace.io.threads import ConsumerContext, ThreadPool
from headrace.sampling.samplers import Shuffled
from headrace.sources.source import Source
from headrace.statistics.numbers import Numbers, Summary, Texts

__all__ = ["Collector", "PartialStatistics", "Statistics", "collect", "collect_rows", "pick"]

MOST_BARS = 24
BATCH_BYTES = 1 << 20
GUESSED_BYTES = 4096  # if the size varies
MOST_ROWS = 1024  # of the first batch
LARGEST_ROWS = 16_384
GROWTH = 8
STRETCH_BYTES, STRETCH_ROWS = 16 << 20, 16_384  # of what a thread reads before its part is merged
SEED = 0


class Collector:
    """Collects the summary of one feature.

    Args:
        name, feature: Which.
        before: As for :class:`PartialStatistics`.
    """

    def __init__(self, name: str, feature: Feature, before: Collector | None = None) -> None:
        self._summary = Summary(name=name, dtype=feature.dtype, shape=feature.shape)
        self._lengths = Numbers(np.dtype(np.int64))
        self._content: Numbers | Texts = _content_for(feature.numpy_dtype)
        if before is not None:
            self._lengths.go_on_from(before._lengths)
            self._content.go_on_from(before._content)  # type: ignore[arg-type]

    def add(self, column: Any) -> None:
        """Add a column of a batch."""
        lengths, values = _flat(column)
        width = self._summary.shape[0] if hasattr(column, "tocsr") else None
        if width is not None and isinstance(self._content, Numbers):
            self._content.add_zeros(len(lengths) * width - len(values))  # which are not stored
            lengths = np.full(len(lengths), width)
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
        held, bounds = column.values, column.offsets
        while isinstance(held, Ragged):
            bounds, held = held.offsets[bounds], held.values
        return np.diff(bounds) * math.prod(held.shape[1:]), held.reshape(-1)
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
        before: Of examples before them, with which they will be merged. What has too many distinct values there is not counted here.
    """

    def __init__(self, schema: Schema, before: PartialStatistics | None = None) -> None:
        earlier: dict[str, Collector] = {} if before is None else before._collectors
        self._collectors: dict[str, Collector] = {
            name: Collector(name, feature, earlier.get(name)) for name, feature in schema.items()
        }
        self._schema = schema
        self._before: tuple[int, int] = (0, 0)
        """Examples read before, and their bytes."""
        if before is not None:
            self._before = before.read + before._before[0], before.bytes + before._before[1]
        self.read: int = 0
        """Number of examples read."""
        self.bytes: int = 0
        """Their bytes in memory."""
        self.latest: tuple[int, int, int] | None = None if before is None else before.latest
        """The first of the latest ones, the one after the last, and the bytes of these."""

    def add(self, batch: Batch, count: int) -> None:
        """Add a batch of ``count`` examples."""
        for name, collector in self._collectors.items():
            collector.add(batch[name])
        self.read += count
        self.bytes += bytes_of(batch)

    def merge(self, other: PartialStatistics) -> None:
        """Add those of other examples of the same schema."""
        for name, collector in self._collectors.items():
            collector.merge(other._collectors[name])
        self.read += other.read
        self.bytes += other.bytes
        self.latest = other.latest or self.latest

    def rows_in(self, size: int, most: int) -> int:
        """How many examples have about ``size`` bytes, and at most ``most``: by those read here and before, or by the schema."""
        rows, known = self.read + self._before[0], self.bytes + self._before[1]
        each = known / rows if rows else _guess_size(self._schema)
        return max(1, min(int(size / max(1.0, each)), most))

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
            known = [
                f"{found.values:,} values",
                f"{found.empty:,} empty" if found.empty else "",
                f"{found.nan:,} NaN or NaT" if found.nan else "",
                f"{found.infinite:,} infinite" if found.infinite else "",
            ]
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
    found = PartialStatistics(source.schema)
    rows = found.rows_in(BATCH_BYTES, min(MOST_ROWS, sample or MOST_ROWS))
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
    """Read the picked examples, the first ``rows`` to see how large they are. Threads help where the values are many numbers, and do harm
    where Python does most of the work, so the faster way is found by trying both. The results do not depend on it.
    """
    _merge(found, [collect_rows(source, picked[:rows], found)], advance)
    size = found.rows_in(STRETCH_BYTES, STRETCH_ROWS)
    stretches = [picked[at : at + size] for at in range(rows, len(picked), size)]
    threads, at = usable_cores(), 0
    paces: list[float] = []  # nanoseconds for each example: alone, in threads
    with ThreadPool(threads, thread_name_prefix="headrace-stats", context=ConsumerContext()) as pool:
        while at < len(stretches):
            # The first stretch is not typical: it counts distinct values that may turn out to be too many.
            uses_threads = threads > 1 and at > 1 and (len(paces) == 1 or paces[1] < paces[0])
            few = threads if len(paces) < 2 else 4 * threads  # results wait in memory
            group = stretches[at : at + (few if uses_threads else 1)]
            # What a part counts must not depend on how far the others are.
            collect_part = partial(collect_rows, source, before=PartialStatistics(source.schema, found))
            begun = perf_counter_ns()
            _merge(found, pool.map(collect_part, group) if uses_threads else map(collect_part, group), advance)
            if len(paces) < 2 and at > 0:
                paces.append((perf_counter_ns() - begun) / sum(map(len, group)))
            at += len(group)


def _merge(
    found: PartialStatistics, parts: Iterable[PartialStatistics], advance: Callable[[PartialStatistics, int], object]
) -> None:
    for part in parts:
        found.merge(part)
        advance(found, part.read)


def collect_rows(source: Source, indices: Indices, before: PartialStatistics | None = None) -> PartialStatistics:
    """Statistics of the examples at these indices in order, read a batch at a time: about 1 MB, by the size of earlier ones.

    Args:
        source: The source.
        indices: Of the examples.
        before: As for :class:`PartialStatistics`.
    """
    found = PartialStatistics(source.schema, before)
    if not len(indices):
        return found
    begin, end = int(indices[0]), int(indices[-1]) + 1
    apart = max(1, (end - begin) // len(indices))
    sizes = SizeEstimate(lambda first, stop: source.stored_bytes(first, min(stop, end)))
    if found.latest is not None:
        sizes.note(*found.latest)
    rows, at = found.rows_in(BATCH_BYTES, MOST_ROWS if before is None else LARGEST_ROWS), 0
    while at < len(indices):
        count = sizes.fitting(int(indices[at]), apart, min(rows, len(indices) - at), 2 * BATCH_BYTES)
        part = indices[at : at + count]
        read = found.bytes
        found.add(source.batch(part), count)
        found.latest = int(part[0]), int(part[-1]) + 1, found.bytes - read
        sizes.note(*found.latest)
        rows = found.rows_in(BATCH_BYTES, min(GROWTH * count, LARGEST_ROWS))
        at += count
    return found


def _guess_size(schema: Schema) -> int:
    """The bytes of an example, by its schema."""
    return sum(
        each.count * each.numpy_dtype.itemsize if each.is_fixed and not each.is_text else GUESSED_BYTES
        for each in schema.values()
    )


def _count_rows(batch: Batch) -> int:
    column: Any = next(iter(batch.values()), ())
    return int(column.shape[0]) if hasattr(column, "shape") else len(column)
