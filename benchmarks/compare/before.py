"""This checkout beside an earlier one: the systems of Headrace over the same data, in turns."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from benchmarks.compare.clocks import wait_until_quiet
from benchmarks.compare.driver import ROOT, Run, Worker, WorkerError
from benchmarks.compare.tasks import System, Timing
from benchmarks.compare.workloads import WORKLOADS


@dataclass(slots=True, kw_only=True)
class Change:
    """What became of one system.

    Attributes:
        workload: Its workload.
        system: Its name.
        now: Epochs of this checkout, in seconds.
        before: Epochs of the earlier one, in seconds.
        error: Why figures are missing, or None.
    """

    workload: str
    system: str
    now: list[float] = field(default_factory=list)
    before: list[float] = field(default_factory=list)
    error: str | None = None

    @property
    def ratios(self) -> tuple[float, float]:
        """Times as fast as before: by the shortest epochs, and by the median ones."""
        return min(self.before) / min(self.now), median(self.before) / median(self.now)


def measure_both(workload: str, run: Run, checkout: Path) -> list[Change]:
    """Measure the systems of one workload in both checkouts.

    Args:
        workload: A name in `benchmarks.compare.workloads.WORKLOADS`.
        run: How.
        checkout: The root of the earlier one.

    Returns:
        A change for each system, with its error if it failed or was not there before.
    """
    systems = [system for system in WORKLOADS[workload].systems if system.role in run.roles]
    return [_measure(workload, system, run, checkout.resolve()) for system in systems]


def _measure(workload: str, system: System, run: Run, checkout: Path) -> Change:
    change = Change(workload=workload, system=system.name)
    roots = (ROOT, checkout)
    try:
        with ExitStack() as stack:
            caches = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in roots]
            workers = [
                stack.enter_context(_checked_worker(workload, system, run, root, cache))
                for root, cache in zip(roots, caches, strict=True)
            ]
            for number in range(run.rounds):
                run.say(f"{workload}: {system.name}: round {number + 1} of {run.rounds}")
                wait_until_quiet(patience=run.quiet_s)
                for side in (0, 1) if number % 2 else (1, 0):
                    timings = (
                        _fresh_turn(workload, system, run, roots[side], caches[side])
                        if system.fresh
                        else workers[side].turn(run.turn_s, 1_000_000)
                    )
                    (change.now, change.before)[side].extend(timing.epoch_s for timing in timings)
    except WorkerError as error:
        change.error = str(error)
    return change


def _worker(workload: str, system: System, run: Run, root: Path, cache: Path) -> Worker:
    python = sys.executable if root == ROOT else str(root / ".venv" / "bin" / "python")
    if not Path(python).exists():
        raise WorkerError(f"no {python}: run `make setup` in that checkout")
    return Worker(run, workload, system, cache, root=root, python=python)


@contextmanager
def _checked_worker(workload: str, system: System, run: Run, root: Path, cache: Path) -> Iterator[Worker]:
    """A process whose data was checked."""
    worker = _worker(workload, system, run, root, cache)
    try:
        worker.ask("check")
        yield worker
    finally:
        worker.close()


def _fresh_turn(workload: str, system: System, run: Run, root: Path, cache: Path) -> list[Timing]:
    with tempfile.TemporaryDirectory(dir=cache) as empty:
        worker = _worker(workload, system, run, root, Path(empty) if system.empty_cache else cache)
        try:
            return worker.turn(0.0, 1)
        finally:
            worker.close()


def table(changes: Sequence[Change]) -> str:
    """The changes as Markdown, and the worst."""
    lines = ["| workload | system | times as fast as before | by medians |", "| --- | --- | ---: | ---: |"]
    for change in changes:
        least, middle = ("", change.error) if change.error else (f"{ratio:.2f}" for ratio in change.ratios)
        lines.append(f"| {change.workload} | {change.system} | {least} | {middle} |")
    measured = [change for change in changes if not change.error]
    if measured:
        worst = min(measured, key=lambda change: change.ratios[0])
        lines += ["", f"worst: {worst.ratios[0]:.2f}, {worst.workload}, {worst.system}"]
    return "\n".join(lines)
