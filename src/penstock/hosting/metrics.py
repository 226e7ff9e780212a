"""Counts and durations of an endpoint, in the text form that Prometheus reads."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator

__all__ = ["CONTENT_TYPE", "Counter", "Histogram", "Metrics"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Counter:
    """A number that only grows, for each value of its labels."""

    def __init__(self, name: str, text: str) -> None:
        self.name, self.text = name, text
        self._counts: dict[tuple[tuple[str, str], ...], float] = {(): 0}

    def add(self, amount: float = 1, /, **labels: str) -> None:
        """Count."""
        self._counts.pop((), None) if labels else None
        key = tuple(labels.items())
        self._counts[key] = self._counts.get(key, 0) + amount

    def lines(self) -> Iterator[str]:
        """Its part of the page."""
        yield from _head(self.name, self.text, "counter")
        for labels, count in self._counts.items():
            yield f"{self.name}{_labels(labels)} {count:g}"


class Histogram:
    """How many values were at most so large, for each value of its labels."""

    def __init__(self, name: str, text: str, bounds: tuple[float, ...]) -> None:
        self.name, self.text, self._bounds = name, text, bounds
        self._counts: dict[tuple[tuple[str, str], ...], list[int]] = {}
        self._sums: dict[tuple[tuple[str, str], ...], float] = {}

    def observe(self, value: float, /, **labels: str) -> None:
        """Count a value."""
        key = tuple(labels.items())
        counts = self._counts.get(key)
        if counts is None:
            counts = self._counts[key] = [0] * (len(self._bounds) + 1)
        counts[bisect_left(self._bounds, value)] += 1
        self._sums[key] = self._sums.get(key, 0.0) + value

    def lines(self) -> Iterator[str]:
        """Its part of the page."""
        yield from _head(self.name, self.text, "histogram")
        for labels, counts in self._counts.items():
            total = 0
            for bound, count in zip((*map("{:g}".format, self._bounds), "+Inf"), counts, strict=True):
                total += count
                yield f"{self.name}_bucket{_labels((*labels, ('le', bound)))} {total}"
            yield f"{self.name}_sum{_labels(labels)} {self._sums[labels]:.9g}"
            yield f"{self.name}_count{_labels(labels)} {total}"


class Metrics:
    """Everything that an endpoint counts."""

    def __init__(self) -> None:
        self.requests = Counter("penstock_requests_total", "Answered invocations by HTTP status.")
        self.request_seconds = Histogram(
            "penstock_request_seconds", "From the whole request to its answer, by HTTP status.", SECONDS
        )
        self.batch_size = Histogram("penstock_batch_size", "Requests that were answered together.", SIZES)
        self.container_seconds = Histogram(
            "penstock_container_seconds", "One call of a container, for one request or a batch.", SECONDS
        )
        self.restarts = Counter("penstock_worker_restarts_total", "Workers that ended and were replaced.")
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
            lines.append(f"{name} {value():g}")
        return "\n".join(lines) + "\n"


def _head(name: str, text: str, kind: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"


def _labels(labels: tuple[tuple[str, str], ...]) -> str:
    if not labels:
        return ""
    quoted = (f'{name}="{_escaped(value)}"' for name, value in labels)
    return "{" + ",".join(quoted) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
