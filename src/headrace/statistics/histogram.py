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
FINEST = 40
"""A bin is at least this many powers of two below the largest number, so that equal numbers that differ by rounding share it."""
LEAST_EXPONENT = -1000
LARGEST_SHIFT = 63
MOST_DISTINCT = 10_000
SMALLEST_SPAN, LARGEST_SPAN = 1e-290, 1e300
MOST_DIGITS = 17
"""Of a float64: all that it has."""
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

    def go_on_from(self, other: Counts) -> None:
        """Count nothing if another one, which this will be merged with, has too many."""
        if other.counts is None:
            self.counts = None

    def merge(self, other: Counts) -> None:
        """Count what another has counted."""
        if other.counts is None:
            self.counts = None
        else:
            self.add(other.counts.keys(), other.counts.values())

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
    edges = []
    for number in range(first, first + len(totals)):
        start, stop = number * step, (number + 1) * step
        edges.append((max(start, low), min(stop - 1, high)) if whole else (start, stop))
    return _bars_between(edges, totals, digits=6)


def _bars_between(edges: list[tuple[float, float]], counts: list[int], *, digits: int) -> list[Bar]:
    """Bars with these edges, labelled with at least so many digits, and as many as tell the edges apart."""
    while True:
        texts = [(f"{start:.{digits}g}", f"{stop:.{digits}g}") for start, stop in edges]
        labels = [
            " to ".join(text) if stop > start else text[0] for text, (start, stop) in zip(texts, edges, strict=True)
        ]
        differ = all(text[0] != text[1] for text, (start, stop) in zip(texts, edges, strict=True) if stop > start)
        if digits == MOST_DIGITS or (differ and len(set(labels)) == len(labels)):
            break
        digits += 1
    return [Bar(label, count, *edge) for label, count, edge in zip(labels, counts, edges, strict=True)]


def _round_step(span: float, most: int, *, whole: bool) -> float:
    """The smallest step of 1, 2 or 5 times a power of ten that gives at most ``most`` bars."""
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(power * factor for factor in (1, 2, 5, 10, 20) if span / (power * factor) < most - 1)
    return max(1.0, step) if whole else step


class ValueHistogram:
    """Counts of numbers in bins of equal width, a power of two that depends only on the extremes so far.

    Bins begin at multiples of their width, so wider bins are pairs of narrower ones. Counts are exact, and the same for every order of the
    numbers and for every way to divide them and merge the parts.
    """

    def __init__(self) -> None:
        self.counts: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self._exponent = 0
        self._first = 0  # The number of the first bin: it begins at `first * 2**exponent`.
        self._low = math.inf
        self._high = -math.inf

    def add(self, values: npt.NDArray[np.float64], counts: npt.NDArray[np.int64] | None = None) -> None:
        """Count finite numbers, each once or as often as ``counts`` says."""
        if not len(values):
            return
        self._reach(float(values.min()), float(values.max()))
        bins = _bins_of(values, self._exponent) - self._first
        if counts is None:
            self.counts += np.bincount(bins, minlength=len(self.counts))
        else:
            np.add.at(self.counts, bins, counts)

    def merge(self, other: ValueHistogram) -> None:
        """Count what another has counted."""
        if other._low > other._high:
            return
        self._reach(other._low, other._high)
        apart = self._exponent - other._exponent
        bins = _halve(np.arange(len(other.counts)) + other._first, apart) - self._first
        np.add.at(self.counts, bins[other.counts > 0], other.counts[other.counts > 0])

    @property
    def width(self) -> float:
        """Width of a bin."""
        return math.ldexp(1.0, self._exponent)

    def _reach(self, low: float, high: float) -> None:
        """Widen the range to hold both."""
        low, high = min(low, self._low), max(high, self._high)
        exponent = _bin_exponent(low, high)
        first, last = _bins_of(np.array([low, high]), exponent).tolist()
        counts = np.zeros(last - first + 1, np.int64)
        if len(self.counts):
            bins = _halve(np.arange(len(self.counts)) + self._first, exponent - self._exponent) - first
            np.add.at(counts, bins, self.counts)
        self.counts = counts
        self._exponent, self._first, self._low, self._high = exponent, first, low, high

    def bars(self, most: int, low: float, high: float) -> list[Bar]:
        """Make at most ``most`` bars from ``low`` to ``high``, the extremes."""
        used = np.flatnonzero(self.counts)
        if not len(used):
            return []
        first, last = int(used[0]), int(used[-1])
        step = -(-(last - first + 1) // most)
        edges, counts = [], []
        for at in range(first, last + 1, step):
            start = low if at == first else math.ldexp(self._first + at, self._exponent)
            stop = math.ldexp(self._first + at + step, self._exponent) if at + step <= last else high
            edges.append((start, stop))
            counts.append(int(self.counts[at : min(at + step, last + 1)].sum()))
        return _bars_between(edges, counts, digits=4)


def _bin_exponent(low: float, high: float) -> int:
    """The smallest power of two whose bins hold a range in :data:`BINS`, and whose numbers are exact."""
    largest = max(abs(low), abs(high))
    least = math.frexp(largest)[1] - FINEST if largest else -FINEST
    # Each end is divided by itself, because their distance may be beyond float64.
    narrowest = math.frexp(high / BINS - low / BINS)[1] - 1 if high > low else LEAST_EXPONENT
    exponent = max(least, narrowest, LEAST_EXPONENT)
    while True:
        first, last = _bins_of(np.array([low, high]), exponent).tolist()
        if last - first < BINS:
            return exponent
        exponent += 1


def _bins_of(values: npt.NDArray[np.float64], exponent: int) -> npt.NDArray[np.int64]:
    """The numbers of the bins of width ``2**exponent`` that hold values."""
    scaled = np.ldexp(values, -exponent)
    # A tiny negative number may become zero, and still is below it.
    bins: npt.NDArray[np.int64] = np.floor(scaled).astype(np.int64) - ((scaled == 0) & (values < 0))
    return bins


def _halve(bins: npt.NDArray[np.int64], times: int) -> npt.NDArray[np.int64]:
    """The bins twice as wide that hold these, ``times`` times over."""
    return bins >> min(times, LARGEST_SHIFT)
