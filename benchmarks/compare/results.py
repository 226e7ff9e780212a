"""Results of a run, and targets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import fmean, median

from benchmarks.compare.tasks import Timing


@dataclass(slots=True, kw_only=True)
class SystemResult:
    """All timed epochs of one system.

    Attributes:
        name: The row.
        role: As in `System`.
        note: As in `System`.
        timings: The epochs, in the order of the run.
        peak_mb: Peak resident memory, including mapped file pages; the median over new processes.
        anonymous_mb: Memory at the end, without file pages.
        error: Why figures are missing, or None.
    """

    name: str
    role: str
    note: str = ""
    timings: list[Timing] = field(default_factory=list)
    peak_mb: float = 0.0
    anonymous_mb: float = 0.0
    error: str | None = None

    @property
    def epoch_s(self) -> float:
        """Median seconds per epoch."""
        return median(timing.epoch_s for timing in self.timings)

    @property
    def mean_s(self) -> float:
        """Mean seconds per epoch."""
        return fmean(timing.epoch_s for timing in self.timings)

    @property
    def spread(self) -> tuple[float, float]:
        """Shortest and longest epoch in seconds."""
        seconds = [timing.epoch_s for timing in self.timings]
        return min(seconds), max(seconds)

    @property
    def rate(self) -> float:
        """Examples per second in the median epoch."""
        return self.timings[0].rows / self.epoch_s

    @property
    def first_s(self) -> float | None:
        """Median seconds to the first batch, or None if there are no batches."""
        firsts = [timing.first_s for timing in self.timings if timing.first_s is not None]
        return median(firsts) if firsts else None

    @property
    def cpu_s(self) -> float:
        """Median CPU seconds per epoch."""
        return median(timing.cpu_s for timing in self.timings)


Table = dict[str, SystemResult]
"""The systems of one workload, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A target: a measure and its bound.

    Attributes:
        text: What is measured.
        required: The number it must reach.
        measure: Computes the number from the table of the workload; raises KeyError if a row is missing.
        at_most: The bound is an upper bound.
        unit: ``x`` for a ratio, ``ms``, ``MB``.
    """

    text: str
    required: float
    measure: Callable[[Table], float]
    at_most: bool = False
    unit: str = "x"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A target and its result; ``found`` is None if a row it needs has no figures."""

    text: str
    required: float
    found: float | None
    at_most: bool
    unit: str

    @property
    def met(self) -> bool | None:
        """Whether the target is met, or None if it was not measured."""
        if self.found is None:
            return None
        return self.found <= self.required if self.at_most else self.found >= self.required


def judge(target: Target, table: Table) -> Verdict:
    """Compare a target with the table of its workload."""
    measured = {name: result for name, result in table.items() if result.timings and not result.error}
    try:
        found = target.measure(measured)
    except (KeyError, ValueError):
        found = None
    return Verdict(text=target.text, required=target.required, found=found, at_most=target.at_most, unit=target.unit)


def faster(fast: str, *slow: str) -> Callable[[Table], float]:
    """How many times the rate of the fastest of ``slow`` the system ``fast`` reaches."""
    return lambda table: table[fast].rate / max(table[name].rate for name in slow)


def fastest_peer(table: Table) -> SystemResult:
    """The peer with the highest rate (ValueError if no peer has figures)."""
    return max((result for result in table.values() if result.role == "peer"), key=lambda result: result.rate)
