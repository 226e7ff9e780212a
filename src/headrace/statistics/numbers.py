"""Statistics of one feature: moments, extremes and distribution of numbers; sizes and most frequent values of bytes and text."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.contracts.strings import Strings
from headrace.sources.matrices import count_characters
from headrace.statistics.display import shorten, to_json
from headrace.statistics.histogram import Bar, Counts, ValueHistogram, round_bars

__all__ = ["Numbers", "Summary", "Texts"]


@dataclass(slots=True, kw_only=True)
class Summary:
    """Statistics of one feature.

    Attributes:
        name, dtype, shape: As in the schema.
        examples: Number of examples read.
        empty: Number of examples without a value: the feature is missing, or its list is empty.
        values: Total number of values.
        lengths: Smallest, mean and largest number of values per example, where it varies.
        sizes: Smallest, mean and largest size of texts in bytes or characters.
        nan, infinite: Counts of NaN and infinity, which the statistics below exclude.
        minimum, maximum, mean, std: Statistics of numbers. Complex numbers count by magnitude.
        distinct: Number of distinct values; ``None`` above 10,000.
        bars: The distribution of values, of ranges of values, or of sizes.
        bars_of: What the bars count.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...]
    examples: int = 0
    empty: int = 0
    values: int = 0
    lengths: tuple[int, float, int] | None = None
    sizes: tuple[int, float, int] | None = None
    nan: int = 0
    infinite: int = 0
    minimum: Any = None
    maximum: Any = None
    mean: float | None = None
    std: float | None = None
    distinct: int | None = 0
    bars: list[Bar] = field(default_factory=list)
    bars_of: str = "values"

    def to_json(self) -> Any:
        """Convert to JSON values."""
        return to_json(asdict(self))


MOST_TALLIED = 2
"""Integers of at most so many bytes are counted in a table with a place for each value, which takes a tenth of the time of sorting them."""
REPEATED = 4  # distinct floats get their own bars only if they repeat this often


class Numbers:
    """Collects numbers block by block. Dates and durations are counts of their unit."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._dtype = dtype
        self._counts = Counts()
        self._histogram = ValueHistogram()
        self.count: int = 0
        self._finite = 0
        self._nan = 0
        self._mean = 0.0
        self._squares = 0.0
        self._low: Any = None
        self._high: Any = None

    def add(self, values: npt.NDArray[Any]) -> None:
        """Add numbers of any shape."""
        self.count += len(values)
        if values.dtype.kind == "c":
            values = np.abs(values)
        is_nan = (
            np.isnat(values) if values.dtype.kind in "mM" else np.isnan(values) if values.dtype.kind == "f" else None
        )
        if is_nan is not None and is_nan.any():
            self._nan += int(is_nan.sum())
            values = values[~is_nan]
        if values.dtype.kind in "mM":
            values = values.view(np.int64)
        if values.dtype.kind == "f" and not (finite := np.isfinite(values)).all():
            values = values[finite]
        if len(values):
            # Adding zero makes one of both zeros, so that results do not depend on the order.
            self._add_finite(values + values.dtype.type(0) if values.dtype.kind == "f" else values)

    def add_zeros(self, count: int) -> None:
        """Add so many zeros."""
        self.count += count
        if count:
            self._add_repeated(np.zeros(1, self._dtype), np.array([count]))

    def _add_finite(self, values: npt.NDArray[Any]) -> None:
        counts: npt.NDArray[np.int64] | None = None
        if values.dtype.kind in "biu" and values.itemsize <= MOST_TALLIED:
            values, counts = _tally(values)
        elif self._counts.counts is not None:
            values, counts = np.unique(values, return_counts=True)
        self._add_repeated(values, counts)

    def _add_repeated(self, values: npt.NDArray[Any], counts: npt.NDArray[np.int64] | None) -> None:
        """Add finite numbers: distinct ones with their counts, or any (``None``)."""
        low, high = values.min().item(), values.max().item()
        self._low = low if self._low is None else min(self._low, low)
        self._high = high if self._high is None else max(self._high, high)
        if counts is not None:
            self._counts.add(values.tolist(), counts.tolist())
        numbers = values.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            self._add_moments(numbers, counts)
        self._histogram.add(numbers, counts)

    def go_on_from(self, other: Numbers) -> None:
        """Begin a part that will be merged with another one: distinct values are not counted where that has too many."""
        self._counts.go_on_from(other._counts)

    def merge(self, other: Numbers) -> None:
        """Add what another has collected."""
        self.count += other.count
        self._nan += other._nan
        self._counts.merge(other._counts)
        self._histogram.merge(other._histogram)
        if other._finite:
            self._low = other._low if self._low is None else min(self._low, other._low)
            self._high = other._high if self._high is None else max(self._high, other._high)
            self._merge_moments(other._finite, other._mean, other._squares)

    def _add_moments(self, numbers: npt.NDArray[np.float64], counts: npt.NDArray[np.int64] | None) -> None:
        """Add numbers, each once or as often as ``counts`` says."""
        count = len(numbers) if counts is None else int(counts.sum())
        times: Any = 1 if counts is None else counts
        mean = float((numbers * times).sum()) / count
        if not math.isfinite(mean):  # the sum is beyond float64
            mean = min(max(float((numbers / count * times).sum()), float(numbers.min())), float(numbers.max()))
        self._merge_moments(count, mean, float((np.square(numbers - mean) * times).sum()))

    def _merge_moments(self, count: int, mean: float, squares: float) -> None:
        """Combine the mean and the sum of squared differences of two parts (Chan, Golub and LeVeque 1979)."""
        total = self._finite + count
        apart = mean - self._mean
        between = apart * apart * self._finite * count / total if self._finite else 0.0  # not infinity times zero
        self._squares += squares + between
        moved = self._mean + apart * count / total
        # Near the ends of float64 the product overflows, although the mean does not.
        self._mean = moved if math.isfinite(moved) else self._mean * (self._finite / total) + mean * (count / total)
        self._finite = total

    @property
    def _is_whole(self) -> bool:
        return self._dtype.kind in "biumM"

    def range(self) -> tuple[int, float, int] | None:
        """Smallest, mean and largest value."""
        return None if self._low is None else (int(self._low), self._mean, int(self._high))

    def bars(self, most: int) -> list[Bar]:
        """Make at most ``most`` bars."""
        counts = self._counts.counts
        if self._low is None:
            return []
        if counts is not None and len(counts) <= most and (self._is_whole or self._finite >= REPEATED * len(counts)):
            return [Bar(self._label(value), count) for value, count in sorted(counts.items())]
        if self._dtype.kind in "mM":
            return [self._to_dates(bar) for bar in self._histogram.bars(most, float(self._low), float(self._high))]
        rounded = round_bars(counts, most, whole=self._is_whole) if counts is not None else []
        return rounded or self._histogram.bars(most, float(self._low), float(self._high))

    def _label(self, value: Any) -> str:
        """A value in six digits; in as many as it takes to tell it from others where those are another number."""
        text = shorten(self._native(value))
        if not isinstance(value, float):
            return text
        kind = self._dtype.type if self._dtype.kind == "f" else np.float64
        return text if kind(float(text)) == value else str(kind(value)).removesuffix(".0")

    def _to_dates(self, bar: Bar) -> Bar:
        if bar.start is None or bar.stop is None:
            return bar
        return Bar(f"{self._native(int(bar.start))} to {self._native(int(bar.stop))}", bar.count, bar.start, bar.stop)

    def fill(self, summary: Summary, most_bars: int) -> None:
        """Write the statistics to a summary."""
        summary.values = self.count
        summary.nan = self._nan
        summary.infinite = self.count - self._finite - self._nan
        summary.distinct = self._counts.distinct
        if self._finite:
            summary.minimum, summary.maximum = self._native(self._low), self._native(self._high)
        if self._finite and self._dtype.kind not in "mM":
            summary.mean, summary.std = self._mean, math.sqrt(self._squares / self._finite)
        summary.bars = self.bars(most_bars)
        summary.bars_of = "values" if summary.bars and summary.bars[0].start is None else "ranges"

    def _native(self, value: Any) -> Any:
        """Convert the count of a unit back to a date."""
        return np.int64(value).view(self._dtype) if self._dtype.kind in "mM" else value


def _tally(values: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """The distinct values of small integers in order, and how often each occurs."""
    low = int(values.min())
    counts = np.bincount(values.astype(np.int64) - low)
    found = np.flatnonzero(counts)
    return (found + low).astype(values.dtype), counts[found]


LONG = 64  # longer texts are counted by hash
MOST_BUCKETS = 2**63 - 1


class Texts:
    """Collects bytes and texts block by block."""

    def __init__(self) -> None:
        self._counts = Counts()
        self._long: dict[bytes, str] = {}
        self._sizes = Numbers(np.dtype(np.int64))

    def add(self, values: npt.NDArray[Any] | Strings) -> None:
        """Add texts. Other objects count as their ``str``."""
        if isinstance(values, Strings):
            self._add_strings(values)
            return
        texts = [value if isinstance(value, (bytes, str)) else str(value) for value in values.tolist()]
        self._sizes.add(np.fromiter(map(len, texts), np.int64, len(texts)))
        if self._counts.counts is not None:
            found = Counter(map(self._key, texts))
            self._counts.add(found.keys(), found.values())
        else:
            self._long.clear()

    def _add_strings(self, values: Strings) -> None:
        """Count by hash, so that an object is made only of each distinct text."""
        self._sizes.add(count_characters(values) if values.is_text else values.lengths)
        if self._counts.counts is None:
            self._long.clear()
            return
        _, first, counts = np.unique(values.hash_buckets(MOST_BUCKETS), return_index=True, return_counts=True)
        self._counts.add(map(self._key, values.take(first)), counts.tolist())

    def go_on_from(self, other: Texts) -> None:
        """As of :class:`Numbers`."""
        self._sizes.go_on_from(other._sizes)
        self._counts.go_on_from(other._counts)

    def merge(self, other: Texts) -> None:
        """Add what another has collected."""
        self._sizes.merge(other._sizes)
        self._counts.merge(other._counts)
        self._long |= other._long
        if self._counts.counts is None:
            self._long.clear()

    def _key(self, text: bytes | str) -> Any:
        if len(text) <= LONG:
            return text
        content = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
        key = hashlib.blake2b(content, digest_size=16).digest()
        self._long.setdefault(key, shorten(text))
        return key

    def fill(self, summary: Summary, most_bars: int) -> None:
        """Write the statistics to a summary."""
        summary.values = self._sizes.count
        summary.sizes = self._sizes.range()
        summary.distinct = self._counts.distinct
        counts = self._counts.counts
        if counts is not None and len(counts) <= most_bars:
            by_count = sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))
            summary.bars = [Bar(self._long.get(key, "") or shorten(key), count) for key, count in by_count]
        else:
            summary.bars = self._sizes.bars(most_bars)
            summary.bars_of = "sizes"
