"""The report on an epoch: where its time went, and what to change."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter_ns

from headrace.loading.jobs import Block, OpenRun

__all__ = ["LoaderReport", "Times"]

BUSY_CONSUMER = 0.9
SHORT_BATCH_S = 50e-6


@dataclass(slots=True)
class Times:
    """The times of one epoch in nanoseconds, summed while it runs."""

    epoch: int
    begun_ns: int
    ended_ns: int = 0
    batches: int = 0
    examples: int = 0
    bytes: int = 0
    jobs: int = 0
    reading_ns: int = 0
    transform_ns: int = 0
    handover_ns: int = 0
    carrying_ns: int = 0
    waiting_ns: int = 0
    helping_ns: int = 0
    open: OpenRun | None = None
    """The batches that the consumer makes one by one, which are counted together."""

    def add(self, block: Block, helped_ns: int) -> None:
        """Count a job. The consumer spent ``helped_ns`` of its waiting on making batches."""
        self.helping_ns += helped_ns
        self.jobs += 1
        self.batches += len(block.batches)
        self.examples += len(block.batches) * block.run.size
        self.bytes += block.bytes
        self.reading_ns += block.reading_ns
        self.transform_ns += block.transform_ns
        self.handover_ns += block.handover_ns
        self.carrying_ns += block.carrying_ns
        self.open = block.rest

    def settle(self) -> None:
        """Count the batches that the consumer has made one by one."""
        if self.open is not None:
            count, spent_ns = self.open.settle(self)
            self.batches += count
            self.examples += count * self.open.size
            self.waiting_ns += spent_ns
            self.helping_ns += spent_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderReport:
    """Where the time of an epoch went. ``print(report)`` shows it with advice.

    Stage times are summed over all threads or workers. The two consumer times add up to the wall time.
    """

    epoch: int
    """Its number, from 0."""
    batches: int
    examples: int
    bytes: int
    """Of all batches, in memory."""
    threads: int
    """Threads that may make batches, beside the consumer."""
    workers: int = 0
    """Processes that make batches."""
    cores: int
    """Cores that this process may use."""
    batches_per_job: float
    """Batches in a job, on average."""
    wall_s: float
    """From the beginning of the epoch to its end, or until now."""
    reading_s: float
    """Reading and decoding: ``source.batch``."""
    transform_s: float
    """``map_batch``."""
    handover_s: float
    """``to="torch"`` or ``to="jax"``."""
    carrying_s: float = 0.0
    """Copying into shared memory by the workers, and out of it."""
    waiting_s: float
    """Time the consumer spent in ``next()``: asleep, or making batches itself."""
    helping_s: float
    """The part of ``waiting_s`` spent making batches."""

    @classmethod
    def of(cls, times: Times, *, threads: int, cores: int, workers: int = 0) -> LoaderReport:
        """The report for the times of an epoch, finished or not."""
        times.settle()
        wall_ns = (times.ended_ns or perf_counter_ns()) - times.begun_ns
        return cls(
            epoch=times.epoch,
            batches=times.batches,
            examples=times.examples,
            bytes=times.bytes,
            threads=threads,
            workers=workers,
            cores=cores,
            batches_per_job=times.batches / max(times.jobs, 1),
            wall_s=wall_ns / 1e9,
            reading_s=times.reading_ns / 1e9,
            transform_s=times.transform_ns / 1e9,
            handover_s=times.handover_ns / 1e9,
            carrying_s=times.carrying_ns / 1e9,
            waiting_s=times.waiting_ns / 1e9,
            helping_s=times.helping_ns / 1e9,
        )

    @property
    def consuming_s(self) -> float:
        """Time that batches waited for the consumer."""
        return max(self.wall_s - self.waiting_s, 0.0)

    @property
    def advice(self) -> str:
        """What limits the epoch, and what to change."""
        if not self.batches:
            return "No batch was read yet."
        if self.consuming_s >= BUSY_CONSUMER * self.wall_s:
            return "The consumer is the limit: batches wait for it. Nothing in the loader would make this faster."
        stages = {
            "reading": self.reading_s,
            "transform": self.transform_s,
            "handover": self.handover_s,
            "carrying": self.carrying_s,
        }
        return _ADVICE[max(stages, key=lambda name: stages[name])](self)

    def __str__(self) -> str:
        rows = [
            ("reading and decoding", self.reading_s),
            ("map_batch", self.transform_s),
            ("hand-over", self.handover_s),
            *([("copying from workers", self.carrying_s)] if self.workers else []),
            ("consumer waited for batches", self.waiting_s),
            ("  of that, made them itself", self.helping_s),
            ("batches waited for consumer", self.consuming_s),
        ]
        speed = self.examples / self.wall_s if self.wall_s else 0.0
        head = (
            f"epoch {self.epoch}: {self.batches:,} batches, {self.examples:,} examples, {self.bytes / 1e6:,.1f} MB in "
            f"{self.wall_s:.3f} s ({speed:,.0f} examples/s, {self._makers}, {self.batches_per_job:.1f} batches a job)"
        )
        lines = [
            f"  {name:<29}{seconds:>9.3f} s{self._share(seconds):>7.0%} of the wall time" for name, seconds in rows
        ]
        return "\n".join([head, *lines, f"  {self.advice}"])

    @property
    def _makers(self) -> str:
        return f"workers={self.workers}" if self.workers else f"threads={self.threads}"

    def _share(self, seconds: float) -> float:
        return seconds / self.wall_s if self.wall_s else 0.0


def _more_threads(report: LoaderReport) -> str | None:
    """Advice to add threads, if there are unused cores."""
    if report.workers:
        return f"workers={report.cores} would use all {report.cores} cores." if report.workers < report.cores else None
    if report.threads == 0:
        return "threads=0 makes every batch while the consumer waits; leave threads out to use the other cores."
    if report.threads < report.cores - 1:
        return f"threads={report.cores - 1} would use all {report.cores} cores."
    return None


def _advise_reading(report: LoaderReport) -> str:
    start = "Reading and decoding are the limit. "
    if report.reading_s / report.batches < SHORT_BATCH_S and report.batches_per_job < 2:
        return (
            start
            + "The batches are so small that asking for them costs as much as reading them: a larger batch_size helps."
        )
    if not report.workers and report.batches_per_job == 1 and report.threads:
        start += "(If your own function in plain Python is part of it, workers= runs it on all cores.) "
    return start + (
        _more_threads(report)
        or "All cores are busy: fewer columns, or plain files instead of compressed ones, would help."
    )


def _advise_transform(report: LoaderReport) -> str:
    more = _more_threads(report)
    if report.workers:
        return f"map_batch is the limit. {more or 'Write' + _FASTER}"
    start = (
        "map_batch is the limit. NumPy on whole batches runs in all threads at once, a Python loop in one at a time: "
    )
    return start + (more or "workers= runs it in all cores, or write" + _FASTER)


def _advise_carrying(_report: LoaderReport) -> str:
    return "Copying batches from the workers is the limit. threads= avoids it, if NumPy or native code does most of the work."


def _advise_handover(_report: LoaderReport) -> str:
    return "The hand-over is the limit: take fewer or smaller columns, or to='numpy' and convert where they are used."


_FASTER = " it in NumPy on whole batches, or do it once and store the result with headrace.write."
_ADVICE = {
    "reading": _advise_reading,
    "transform": _advise_transform,
    "handover": _advise_handover,
    "carrying": _advise_carrying,
}
