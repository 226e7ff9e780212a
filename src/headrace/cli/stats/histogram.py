"""Distributions in one pass and little memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["MOST_DISTINCT", "Bar", "Counts", "ValueHistogram", "round_bars"]

BINS = 4096
MOST_DISTINCT = 10_000
SMALLEST_SPAN, LARGEST_SPAN = 1e-290, 1e300
LARGEST_EXACT = 2.0**52  # of whole numbers in a float64


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a plot: how many values are ``label``, or lie from ``start`` to ``stop``."""

    label: str
    count: int
    start: float | None = None
    stop: float | None = None


class Counts:
    """How often each value comes, as long as they are few."""

    def __init__(self) -> None:
        self.counts: dict[Any, int] | None = {}

    def add(self, values: Iterable[Any], counts: Iterable[int]) -> None:
        """Count some values; forget all when there are too many different ones."""
        known = self.counts
        if known is None:
            return
        for value, count in zip(values, counts, strict=True):
            known[value] = known.get(value, 0) + count
        if len(known) > MOST_DISTINCT:
            self.counts = None

    @property
    def distinct(self) -> int | None:
        """How many different values there are; ``None`` where they were too many to count."""
        return None if self.counts is None else len(self.counts)


def round_bars(counts: Mapping[float, int], most: int, *, whole: bool) -> list[Bar]:
    """At most ``most`` bars between round numbers, for values whose counts are known.

    Args:
        counts: How often each value comes; not empty.
        most: How many bars at most.
        whole: The values are integers: bars hold the numbers from ``start`` to ``stop``, both included.

    Returns:
        No bars where floats are too coarse for such edges: far from zero, or in a range too small or too large.
    """
    low, high = min(counts), max(counts)
    if not SMALLEST_SPAN < high - low < LARGEST_SPAN:
        return []
    step = _round_step(high - low, most, whole=whole)
    if max(-low, high) / step > LARGEST_EXACT:
        return []
    first = math.floor(low / step)
    totals = [0] * (math.floor(high / step) - first + 1)
    for value, count in counts.items():
        totals[math.floor(value / step) - first] += count
    bars = []
    for number, total in enumerate(totals, start=first):
        start, stop = number * step, (number + 1) * step
        if whole:
            start, stop = max(start, low), min(stop - 1, high)
        bars.append(Bar(f"{start:.6g}" + (f" to {stop:.6g}" if stop > start else ""), total, start, stop))
    return bars


def _round_step(span: float, most: int, *, whole: bool) -> float:
    """The smallest of 1, 2, 5, 10, ... (and their tenths, hundredths, ...) that makes at most ``most`` bars."""
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(power * factor for factor in (1, 2, 5, 10, 20) if span / (power * factor) < most - 1)
    return max(1.0, step) if whole else step


class ValueHistogram:
    """Counts of numbers in bins of equal width, whose range doubles until every number has a place.

    A bin's count is exact; only where the edges lie depends on the order in which the values came.
    """

    def __init__(self) -> None:
        self.counts = np.zeros(BINS, np.int64)
        self.start = 0.0
        self.width = 0.0
        self.is_too_wide = False
        """The range is more than a float64 can hold: there is nothing to draw."""

    def add(self, values: npt.NDArray[np.float64]) -> None:
        """Count finite numbers."""
        if not len(values) or not self._reaches(float(values.min()), float(values.max())):
            return
        bins = np.minimum((values - self.start) / self.width, BINS - 1).astype(np.int64)
        self.counts += np.bincount(bins, minlength=BINS)

    @property
    def stop(self) -> float:
        """The end of the range."""
        return self.start + BINS * self.width

    def _reaches(self, low: float, high: float) -> bool:
        """Widen the range so that it holds both; ``False`` where that cannot be."""
        if not self.width and not self.is_too_wide:
            self._begin(low, high)
        while not (self.is_too_wide or self.start <= low <= high < self.stop):
            self._double(downwards=low < self.start)
        return not self.is_too_wide

    def _begin(self, low: float, high: float) -> None:
        with np.errstate(over="ignore"):
            span = float(np.float64(high) - np.float64(low))
        if not np.isfinite(span * 4):
            self.is_too_wide = True
            return
        # Equal values so far: bins so narrow that a later, slightly different one gets its own.
        self.width = span / (BINS / 2) or max(abs(low), 1.0) * 2.0**-40
        self.start = low - self.width * BINS / 4

    def _double(self, *, downwards: bool) -> None:
        reach = BINS * self.width
        if not np.isfinite(4 * reach):
            self.is_too_wide = True
            return
        pairs = self.counts.reshape(-1, 2).sum(axis=1)
        empty = np.zeros(BINS // 2, np.int64)
        self.counts = np.concatenate([empty, pairs] if downwards else [pairs, empty])
        self.start -= reach if downwards else 0.0
        self.width *= 2

    def bars(self, most: int, low: float, high: float) -> list[Bar]:
        """At most ``most`` bars from ``low`` to ``high``, the smallest and largest number."""
        used = np.flatnonzero(self.counts)
        if not len(used) or self.is_too_wide:
            return []
        first, last = int(used[0]), int(used[-1])
        step = -(-(last - first + 1) // most)
        bars = []
        for at in range(first, last + 1, step):
            start = low if at == first else self.start + at * self.width
            stop = min(high, self.start + (at + step) * self.width) if at + step <= last else high
            count = int(self.counts[at : min(at + step, last + 1)].sum())
            bars.append(Bar(f"{start:.4g} to {stop:.4g}", count, start, stop))
        return bars
