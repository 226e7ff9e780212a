"""Histograms in one pass and constant memory."""

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
LARGEST_EXACT = 2.0**52  # largest exact integer of a float64


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of a plot: the count of values that equal ``label``, or lie between ``start`` and ``stop``."""

    label: str
    count: int
    start: float | None = None
    stop: float | None = None


class Counts:
    """Counts of distinct values, while they are few."""

    def __init__(self) -> None:
        self.counts: dict[Any, int] | None = {}

    def add(self, values: Iterable[Any], counts: Iterable[int]) -> None:
        """Count values. Too many distinct ones discard all counts."""
        known = self.counts
        if known is None:
            return
        for value, count in zip(values, counts, strict=True):
            known[value] = known.get(value, 0) + count
        if len(known) > MOST_DISTINCT:
            self.counts = None

    @property
    def distinct(self) -> int | None:
        """Number of distinct values; ``None`` if there were too many."""
        return None if self.counts is None else len(self.counts)


def round_bars(counts: Mapping[float, int], most: int, *, whole: bool) -> list[Bar]:
    """Make at most ``most`` bars with round edges from counts of values.

    Args:
        counts: The count of each value; not empty.
        most: The largest number of bars.
        whole: The values are integers: bars include both ``start`` and ``stop``.

    Returns:
        The bars; none if floats are too coarse for such edges (far from zero, or a range too small or too large).
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
    """The smallest step of 1, 2 or 5 times a power of ten that gives at most ``most`` bars."""
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(power * factor for factor in (1, 2, 5, 10, 20) if span / (power * factor) < most - 1)
    return max(1.0, step) if whole else step


class ValueHistogram:
    """Counts of numbers in bins of equal width, whose range doubles until it holds every number.

    Counts are exact. The edges depend on the order of the values.
    """

    def __init__(self) -> None:
        self.counts = np.zeros(BINS, np.int64)
        self.start = 0.0
        self.width = 0.0
        self.is_too_wide = False
        """Whether the range exceeds a float64, so that nothing can be drawn."""

    def add(self, values: npt.NDArray[np.float64]) -> None:
        """Count finite numbers."""
        if not len(values) or not self._reaches(float(values.min()), float(values.max())):
            return
        bins = np.minimum((values - self.start) / self.width, BINS - 1).astype(np.int64)
        self.counts += np.bincount(bins, minlength=BINS)

    @property
    def stop(self) -> float:
        """End of the range."""
        return self.start + BINS * self.width

    def _reaches(self, low: float, high: float) -> bool:
        """Widen the range to hold both; ``False`` if that is impossible."""
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
        # All values are equal so far: narrow bins give a later, slightly different value its own.
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
        """Make at most ``most`` bars from ``low`` to ``high``, the extremes."""
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
