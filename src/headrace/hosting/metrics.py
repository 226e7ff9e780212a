"""Counts and durations of an endpoint, in the text form that Prometheus reads."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator

__all__ = ["CONTENT_TYPE", "Counter", "Histogram", "Metrics"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Counter:
    """A number that only grows, for each value of its label if it has one."""

    def __init__(self, name: str, text: str, label: str | None = None) -> None:
        self.name, self.text, self._label = name, text, label
        self._counts: dict[str, int] = {"": 0}

    def add(self, of: str = "") -> None:
        """Count.

        Args:
            of: The label's value.
        """
        if of:
            self._counts.pop("", None)
        self._counts[of] = self._counts.get(of, 0) + 1

    def lines(self) -> Iterator[str]:
        """Its part of the page."""
        yield from _head(self.name, self.text, "counter")
        for of, count in self._counts.items():
            yield f"{self.name}{_labels(self._label, of)} {count}"


class Histogram:
    """How many values were at most so large, for each value of its label if it has one."""

    def __init__(self, name: str, text: str, bounds: tuple[float, ...], label: str | None = None) -> None:
        self.name, self.text, self._bounds, self._label = name, text, bounds, label
        self._counts: dict[str, list[int]] = {}
        self._sums: dict[str, float] = {}

    def observe(self, value: float, of: str = "") -> None:
        """Count a value.

        Args:
            value: What was measured.
            of: The label's value.
        """
        counts = self._counts.get(of)
        if counts is None:
            counts = self._counts[of] = [0] * (len(self._bounds) + 1)
            self._sums[of] = 0.0
        counts[bisect_left(self._bounds, value)] += 1
        self._sums[of] += value

    def lines(self) -> Iterator[str]:
        """Its part of the page."""
        yield from _head(self.name, self.text, "histogram")
        for of, counts in self._counts.items():
            total = 0
            for bound, count in zip((*map("{:g}".format, self._bounds), "+Inf"), counts, strict=True):
                total += count
                yield f"{self.name}_bucket{_labels(self._label, of, bound)} {total}"
            yield f"{self.name}_sum{_labels(self._label, of)} {self._sums[of]:.15g}"
            yield f"{self.name}_count{_labels(self._label, of)} {total}"


class Metrics:
    """Everything that an endpoint counts."""

    def __init__(self) -> None:
        self.requests = Counter("headrace_requests_total", "Answered invocations by HTTP status.", "status")
        self.request_seconds = Histogram(
            "headrace_request_seconds", "From the whole request to its answer, by HTTP status.", SECONDS, "status"
        )
        self.batch_size = Histogram("headrace_batch_size", "Requests that were answered together.", SIZES)
        self.container_seconds = Histogram(
            "headrace_container_seconds",
            "One call of a container, for one request or a batch.",
            SECONDS,
            "container",
        )
        self.restarts = Counter("headrace_worker_restarts_total", "Workers that ended and were replaced.")
        self._gauges: dict[str, tuple[str, Callable[[], float]]] = {}

    def gauge(self, name: str, text: str, value: Callable[[], float]) -> None:
        """Show a number that is asked for when the page is read."""
        self._gauges[name] = (text, value)

    def text(self) -> str:
        """The whole page."""
        lines: list[str] = []
        for metric in (self.requests, self.request_seconds, self.batch_size, self.container_seconds, self.restarts):
            lines.extend(metric.lines())
        for name, (text, value) in self._gauges.items():
            lines.extend(_head(name, text, "gauge"))
            lines.append(f"{name} {value()}")
        return "\n".join(lines) + "\n"


def _head(name: str, text: str, kind: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"


def _labels(label: str | None, of: str, bound: str | None = None) -> str:
    pairs = [(label, of)] if label is not None and of else []
    pairs += [] if bound is None else [("le", bound)]
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs) + "}" if pairs else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
