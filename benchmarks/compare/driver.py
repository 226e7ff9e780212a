"""Runs the systems of a workload: starts and checks each, then times them in turns (A B C, A B C, ...)."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Protocol

from benchmarks.compare.clocks import wait_until_quiet
from benchmarks.compare.results import SystemResult, Table
from benchmarks.compare.tasks import System, Timing
from benchmarks.compare.workloads import WORKLOADS

ROOT = Path(__file__).resolve().parents[2]
_QUIET_LIBRARIES = {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "CUDA_VISIBLE_DEVICES": "",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How to measure.

    Attributes:
        folder: Where the data files are.
        size: Which of `benchmarks.data.SIZES`.
        rounds: Turns of every system.
        turn_s: Seconds after which a turn starts no further epoch.
        timeout_s: Seconds after which an unresponsive system is given up.
        quiet_s: How long to wait for other programs before each turn.
        roles: Which systems.
        say: Receives progress lines.
    """

    folder: Path
    size: str = "full"
    rounds: int = 7
    turn_s: float = 0.25
    timeout_s: float = 300.0
    quiet_s: float = 20.0
    roles: tuple[str, ...] = ("headrace", "peer", "limit")
    say: Say = print


class WorkerError(Exception):
    """The process of a system failed."""


class Process:
    """A process that answers JSON lines: ``python -m module arguments`` in the checkout ``root``."""

    def __init__(
        self, python: str, module: str, arguments: Sequence[str], cache: Path, *, root: Path = ROOT, timeout_s: float
    ) -> None:
        if not Path(python).exists():
            raise WorkerError(f"no {python}: benchmarks/compare/setup_peers.sh makes it")
        self._timeout = timeout_s
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [python, "-m", module, *arguments],
            cwd=root,
            env={**os.environ, **_QUIET_LIBRARIES, "HEADRACE_CACHE_DIR": str(cache), "HF_HOME": str(cache)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def ask(self, do: str, **more: float | str) -> object:
        """Send a request, wait for the answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps({"do": do, **more}) + "\n")
            self._process.stdin.flush()
        if not select.select([self._process.stdout], [], [], self._timeout)[0]:
            raise WorkerError(f"no answer to {do} within {self._timeout:g} s")
        line = self._process.stdout.readline()
        if not line:
            raise WorkerError(self._last_words())
        return json.loads(line)

    def turn(self, seconds: float, most: int) -> list[Timing]:
        """Timed epochs."""
        answer = self.ask("turn", seconds=seconds, most=most)
        return [Timing(**timing) for timing in answer]  # type: ignore[attr-defined]

    def memory(self) -> dict[str, float]:
        """As `benchmarks.compare.clocks.memory_mb`."""
        return self.ask("memory")  # type: ignore[return-value]

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()
        self._errors.close()

    def _last_words(self) -> str:
        self._process.wait()
        self._errors.seek(0)
        lines = [line.strip() for line in self._errors if line.strip()]
        return lines[-1][:300] if lines else f"ended with status {self._process.returncode}"


class Worker(Process):
    """The process of one system, with the code of the checkout ``root``, run by ``python`` (default: what the system asks for)."""

    def __init__(
        self, run: Run, workload: str, system: System, cache: Path, *, root: Path = ROOT, python: str | None = None
    ) -> None:
        arguments = (str(run.folder), run.size, workload, system.name)
        module = "benchmarks.compare.worker"
        super().__init__(python or system.python, module, arguments, cache, root=root, timeout_s=run.timeout_s)


class Measured(Protocol):
    """A system that can be asked, as `Process` does."""

    def ask(self, do: str) -> object: ...
    def turn(self, seconds: float, most: int) -> list[Timing]: ...
    def memory(self) -> dict[str, float]: ...
    def close(self) -> None: ...


Start = Callable[[System, Path], Measured]
"""Starts a system, with a folder for caches."""


@dataclass(slots=True)
class _Entry:
    """A system in a running workload."""

    system: System
    result: SystemResult
    worker: Measured | None = None
    peaks: list[float] = field(default_factory=list)
    held: list[float] = field(default_factory=list)

    def most(self) -> int:
        return 1_000_000 if self.system.epochs is None else self.system.epochs - len(self.result.timings)


def measure(workload: str, run: Run) -> Table:
    """Measure the systems of one workload.

    Args:
        workload: A name in `benchmarks.compare.workloads.WORKLOADS`.
        run: How.

    Returns:
        A result for every system, with its error if it failed; one failure does not stop the others.
    """
    systems = [system for system in WORKLOADS[workload].systems if system.role in run.roles]
    return measure_systems(workload, systems, run, start=lambda system, cache: Worker(run, workload, system, cache))


def measure_systems(title: str, systems: Sequence[System], run: Run, *, start: Start) -> Table:
    """Check and time systems in turns.

    Args:
        title: What progress lines begin with.
        systems: Which.
        run: How.
        start: Starts the process of a system, with a folder for caches.

    Returns:
        As `measure`.
    """
    entries = [_Entry(s, SystemResult(name=s.name, role=s.role, note=s.note)) for s in systems]
    with tempfile.TemporaryDirectory(prefix="headrace-bench-cache-") as cache:
        bench = _Bench(run, title, Path(cache), start)
        try:
            for entry in entries:
                bench.check(entry)
            for number in range(run.rounds):
                run.say(f"{title}: round {number + 1} of {run.rounds}")
                for entry in entries:
                    bench.turn(entry)
            for entry in entries:
                bench.finish(entry)
        finally:
            for entry in entries:
                if entry.worker is not None:
                    entry.worker.close()
    return {entry.result.name: entry.result for entry in entries}


@dataclass(frozen=True, slots=True)
class _Bench:
    run: Run
    title: str
    cache: Path
    start: Start

    def check(self, entry: _Entry) -> None:
        """Start the process and check its data; the process of a ``fresh`` system ends here."""
        with self._failures(entry):
            worker = entry.worker = self.start(entry.system, self.cache)
            worker.ask("check")
            self.run.say(f"{self.title}: {entry.system.name}: data right")
        if entry.system.fresh or entry.result.error:
            self._close(entry)

    def turn(self, entry: _Entry) -> None:
        """One turn, in the running process or a new one."""
        if entry.result.error or entry.most() < 1:
            return
        wait_until_quiet(patience=self.run.quiet_s)
        with self._failures(entry):
            if entry.system.fresh:
                self._fresh_turn(entry)
            elif entry.worker is not None:
                entry.result.timings += entry.worker.turn(self.run.turn_s, entry.most())

    def finish(self, entry: _Entry) -> None:
        """Record the memory and end the process."""
        with self._failures(entry):
            if entry.worker is not None:
                self._note_memory(entry, entry.worker)
        self._close(entry)
        if entry.peaks:
            entry.result.peak_mb, entry.result.anonymous_mb = median(entry.peaks), median(entry.held)

    def _fresh_turn(self, entry: _Entry) -> None:
        with tempfile.TemporaryDirectory(dir=self.cache) as empty:
            worker = entry.worker = self.start(entry.system, Path(empty) if entry.system.empty_cache else self.cache)
            entry.result.timings += worker.turn(0.0, 1)
            self._note_memory(entry, worker)
            self._close(entry)

    def _close(self, entry: _Entry) -> None:
        if entry.worker is not None:
            entry.worker.close()
            entry.worker = None

    def _note_memory(self, entry: _Entry, worker: Measured) -> None:
        memory = worker.memory()
        entry.peaks.append(memory["peak"])
        entry.held.append(memory["anonymous"])

    @contextlib.contextmanager
    def _failures(self, entry: _Entry) -> Iterator[None]:
        try:
            yield
        except WorkerError as error:
            entry.result.error = str(error)
            self.run.say(f"{self.title}: {entry.system.name}: {error}")
