"""Counts and durations of an endpoint, in the Prometheus text format."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator

__all__ = ["CONTENT_TYPE", "CounterMetric", "HistogramMetric", "Metrics"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class CounterMetric:
    """A number that only grows, one for each value of an optional label."""

    def __init__(self, name: str, text: str, label: str | None = None) -> None:
        self.name: str = name
        self.text: str = text
        self._label = label
        self._counts: dict[str, int] = {"": 0}

    def add(self, of: str = "") -> None:
        """Add one.

        Args:
            of: The value of the label.
        """
        if of:
            self._counts.pop("", None)
        self._counts[of] = self._counts.get(of, 0) + 1

    def lines(self) -> Iterator[str]:
        """The lines of this metric."""
        yield from _header(self.name, self.text, "counter")
        for of, count in self._counts.items():
            yield f"{self.name}{_labels(self._label, of)} {count}"


class HistogramMetric:
    """Counts of values by upper bound, for each value of an optional label."""

    def __init__(self, name: str, text: str, bounds: tuple[float, ...], label: str | None = None) -> None:
        self.name: str = name
        self.text: str = text
        self._bounds, self._label = bounds, label
        self._counts: dict[str, list[int]] = {}
        self._sums: dict[str, float] = {}

    def observe(self, value: float, of: str = "") -> None:
        """Count a value.

        Args:
            value: The measured value.
            of: The value of the label.
        """
        counts = self._counts.get(of)
        if counts is None:
            counts = self._counts[of] = [0] * (len(self._bounds) + 1)
            self._sums[of] = 0.0
        counts[bisect_left(self._bounds, value)] += 1
        self._sums[of] += value

    def lines(self) -> Iterator[str]:
        """The lines of this metric."""
        yield from _header(self.name, self.text, "histogram")
        for of, counts in self._counts.items():
            total = 0
            for bound, count in zip((*map("{:g}".format, self._bounds), "+Inf"), counts, strict=True):
                total += count
                yield f"{self.name}_bucket{_labels(self._label, of, bound)} {total}"
            yield f"{self.name}_sum{_labels(self._label, of)} {self._sums[of]:.15g}"
            yield f"{self.name}_count{_labels(self._label, of)} {total}"


class Metrics:
    """All metrics of an endpoint."""

    def __init__(self) -> None:
        self.requests: CounterMetric = CounterMetric(
            "headrace_requests_total", "Answered invocations by HTTP status.", "status"
        )
        self.request_seconds: HistogramMetric = HistogramMetric(
            "headrace_request_seconds",
            "Time from the complete request to its answer, by HTTP status.",
            SECONDS,
            "status",
        )
        self.batch_size: HistogramMetric = HistogramMetric("headrace_batch_size", "Requests per batch.", SIZES)
        self.container_seconds: HistogramMetric = HistogramMetric(
            "headrace_container_seconds",
            "Time of one call of a container, for one request or a batch.",
            SECONDS,
            "container",
        )
        self.restarts: CounterMetric = CounterMetric(
            "headrace_worker_restarts_total", "Workers that died and were replaced."
        )
        self._gauges: dict[str, tuple[str, Callable[[], float]]] = {}

    def gauge(self, name: str, text: str, value: Callable[[], float]) -> None:
        """Add a number that is read when the page is requested."""
        self._gauges[name] = (text, value)

    def text(self) -> str:
        """The whole page."""
        lines: list[str] = []
        for metric in (self.requests, self.request_seconds, self.batch_size, self.container_seconds, self.restarts):
            lines.extend(metric.lines())
        for name, (text, value) in self._gauges.items():
            lines.extend(_header(name, text, "gauge"))
            lines.append(f"{name} {value()}")
        return "\n".join(lines) + "\n"


def _header(name: str, text: str, kind: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"


def _labels(label: str | None, of: str, bound: str | None = None) -> str:
    pairs = [(label, of)] if label is not None and of else []
    pairs += [] if bound is None else [("le", bound)]
    return "{" + ",".join(f'{name}="{_escape(value)}"' for name, value in pairs) + "}" if pairs else ""


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
