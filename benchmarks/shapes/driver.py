"""Measures rows: systems take turns, each in a process of its own, which stays for all rows."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from benchmarks.compare.clocks import wait_until_quiet
from benchmarks.compare.driver import Process, Run, WorkerError, measure_systems
from benchmarks.compare.results import SystemResult, Table
from benchmarks.compare.tasks import System, Timing
from benchmarks.shapes.files import ShapeFiles
from benchmarks.shapes.rows import AGAIN, ALONE, OURS, Row, ShapeSystem
from benchmarks.shapes.shape import Shape

ONCE, TENFOLD = "once", "ten times"
FIRST_ONCE, FIRST_TENFOLD = "once, first epoch", "ten times, first epoch"
_TIMES = {ONCE: 1, TENFOLD: 10, FIRST_ONCE: 1, FIRST_TENFOLD: 10}
_FIRSTS = (FIRST_ONCE, FIRST_TENFOLD)
MORE_ROUNDS = 5
"""How many times as many rounds rows beside one file take: what is required is 0.95, and the same three rounds found 0.81 to 1.06 (2026-12-01)."""


@dataclass(slots=True)
class Visit:
    """One system at work on one shape, in the process of its library."""

    library: Library
    start: str
    shape: Shape
    size: str
    times: int = 1
    opened: bool = False

    def ask(self, do: str, **more: float | str) -> object:
        """As `benchmarks.compare.driver.Process.ask`; opens the shape first."""
        if not self.opened:
            self.opened = True
            self.library.ask("open", start=self.start, shape=str(self.shape), size=self.size, times=self.times)
        return self.library.ask(do, start=self.start, **more)

    def turn(self, seconds: float, most: int) -> list[Timing]:
        """Timed epochs."""
        answer = self.ask("turn", seconds=seconds, most=most)
        return [Timing(**timing) for timing in answer]  # type: ignore[attr-defined]

    def memory(self) -> dict[str, float]:
        """As `benchmarks.compare.clocks.memory_mb`."""
        return self.library.ask("memory")  # type: ignore[return-value]

    def close(self) -> None:
        """Let the process go on to another shape."""
        self.library.leave(self.start)


class Library:
    """The process of a library, started when it is needed and again if it died."""

    def __init__(self, run: Run, python: str, cache: Path) -> None:
        self._run, self._python, self._cache = run, python, cache
        self._process: Process | None = None

    def ask(self, do: str, **more: float | str) -> object:
        """The answer to a request (WorkerError if it failed)."""
        if self._process is None:
            folder = str(self._run.folder)
            module = "benchmarks.shapes.worker"
            self._process = Process(self._python, module, [folder], self._cache, timeout_s=self._run.timeout_s)
        try:
            answer = self._process.ask(do, **more)
        except WorkerError:
            self.end()
            raise
        if isinstance(answer, dict) and "error" in answer:
            raise WorkerError(answer["error"])
        return answer

    def alternate(self, starts: Sequence[str], seconds: float) -> dict[str, list[Timing]]:
        """Timed epochs of systems that are open, one after the other."""
        answer = self.ask("alternate", starts=" ".join(starts), seconds=seconds)
        return {start: [Timing(**timing) for timing in timings] for start, timings in answer.items()}  # type: ignore[attr-defined]

    def leave(self, start: str) -> None:
        """Forget the shape that a system works on."""
        if self._process is not None:
            self.ask("close", start=start)

    def end(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.close()
            self._process = None


class Libraries:
    """The processes of a sweep, one for each system."""

    def __init__(self, run: Run, cache: Path) -> None:
        self._run, self._cache = run, cache
        self._open: dict[tuple[str, str], Library] = {}

    def of(self, system: System) -> Library:
        """The process that a system runs in."""
        key = (system.python, system.start)
        library = self._open.get(key)
        if library is None:
            library = self._open[key] = Library(self._run, system.python, self._cache)
        return library

    def end(self) -> None:
        """End all of them."""
        for library in self._open.values():
            library.end()
        self._open.clear()


@contextmanager
def libraries(run: Run) -> Iterator[Libraries]:
    """The processes of a sweep, until the end of the ``with`` statement."""
    with tempfile.TemporaryDirectory(prefix="headrace-bench-cache-") as cache:
        found = Libraries(run, Path(cache))
        try:
            yield found
        finally:
            found.end()


def sweep(rows: Sequence[Row], run: Run, say: Callable[[str, Table], None]) -> dict[str, Table]:
    """Measure rows beside their peers.

    Args:
        rows: Which.
        run: How; its ``size`` is one of `benchmarks.shapes.shape.FACTORS`.
        say: Receives each row's name and table when it is done.

    Returns:
        The table of each row by its name.
    """
    tables = {}
    with libraries(run) as open_libraries:
        for row in rows:
            files = ShapeFiles(run.folder, row.shape, row.shape.rows(run.size)).make().warm()
            is_joined = any(system.start.endswith("_joined") for system in row.systems)
            if is_joined:
                files.joined().make().warm()
            visit = lambda system, _, row=row: Visit(open_libraries.of(system), system.start, row.shape, run.size)  # noqa: E731
            rounds = run.rounds * (MORE_ROUNDS if is_joined else 1)
            tables[row.name] = measure_systems(row.name, row.systems, replace(run, rounds=rounds), start=visit)
            say(row.name, tables[row.name])
    return tables


def compare_cold(rows: Sequence[Row], run: Run, say: Callable[[str, Table], None]) -> dict[str, Table]:
    """As `compare_first`, with files that are on the disk only."""
    return compare_first(rows, run, say, is_cold=True)


def compare_first(
    rows: Sequence[Row], run: Run, say: Callable[[str, Table], None], *, is_cold: bool = False
) -> dict[str, Table]:
    """Rows beside their peers in the first epoch of a new process, with opening the files. Headrace has nothing in its cache."""
    tables = {}
    for row in rows:
        ShapeFiles(run.folder, row.shape, row.shape.rows(run.size)).make().warm()
        systems = [
            replace(system, fresh=True, empty_cache=system.role == "headrace")
            for system in row.systems
            if not system.start.endswith("_joined")
        ]
        start = partial(_start_first, row, run, is_cold)
        tables[row.name] = measure_systems(row.name, systems, run, start=start)
        say(row.name, tables[row.name])
    return tables


def _start_first(row: Row, run: Run, is_cold: bool, system: System, cache: Path) -> _First:
    files = ShapeFiles(run.folder, row.shape, row.shape.rows(run.size)) if is_cold else None
    return _First(Library(run, system.python, cache), system.start, row.shape, run.size, evicted=files)


class _Alone(Visit):
    """A visit in a process that ends with it, so that its memory is that of the one shape."""

    def close(self) -> None:
        """End the process."""
        self.library.end()


@dataclass(slots=True)
class _First(_Alone):
    """One whose turn is the first epoch of its process."""

    is_checked: bool = False
    """Whether its rows are checked elsewhere. Those of peers are, by `sweep`."""
    evicted: ShapeFiles | None = None
    """What is to be on the disk only before each turn."""

    def ask(self, do: str, **more: float | str) -> object:
        """As `Visit.ask`, except for checks."""
        if do == "check" and (self.is_checked or not self.start.startswith("ours")):
            return None
        return Visit.ask(self, do, **more)

    def turn(self, seconds: float, most: int) -> list[Timing]:
        """The first epoch."""
        del seconds, most
        self.opened = True
        if self.evicted is not None:
            self.evicted.evict()
        answer = self.ask("first", shape=str(self.shape), size=self.size, times=self.times)
        return [Timing(**timing) for timing in answer]  # type: ignore[attr-defined]


def compare_threads(rows: Sequence[Row], run: Run, say: Callable[[str, Table], None]) -> dict[str, Table]:
    """The default ``Loader`` beside ``threads=0``; records are read without a loader and left out.

    They take turns of one epoch in one process: two processes differ by up to a twentieth even if both do the same, and longer
    turns meet different neighbours. ``threads=0`` is measured twice, as two systems: what they differ by is chance.
    """
    tables = {}
    with libraries(run) as open_libraries:
        for row in rows:
            if row.shape.format != "array_record":
                ShapeFiles(run.folder, row.shape, row.shape.rows(run.size)).make().warm()
                ours = row.systems[0]
                alone = replace(ours, name=ALONE, start="ours:loader_alone")
                systems = (ours, alone, replace(ours, name=AGAIN, start="ours:loader_alone_again"))
                tables[row.name] = _alternate(open_libraries.of(ours), systems, row.shape, run)
                say(row.name, tables[row.name])
    return tables


def _alternate(library: Library, systems: Sequence[ShapeSystem], shape: Shape, run: Run) -> Table:
    """Time systems in one process, in turns of one epoch. If one fails, there are no figures."""
    results = {system.start: SystemResult(name=system.name, role=system.role) for system in systems}
    visits = [Visit(library, start, shape, run.size) for start in results]
    try:
        for visit in visits:
            visit.ask("check")
        for _ in range(run.rounds):
            wait_until_quiet(patience=run.quiet_s)
            for start, timings in library.alternate(list(results), run.turn_s * len(visits)).items():
                results[start].timings += timings
        for visit in visits:
            visit.close()
    except WorkerError as error:
        library.end()
        for result in results.values():
            result.error = str(error)
    return {result.name: result for result in results.values()}


def grow(rows: Sequence[Row], run: Run, say: Callable[[str, Table], None]) -> dict[str, Table]:
    """Headrace alone over each shape's rows and over ten times as many, in new processes: later epochs, and the first one with an empty cache."""
    tables = {}
    for row in rows:
        ours = row.systems[0]
        files = ShapeFiles(run.folder, row.shape, row.shape.rows(run.size)).make().warm()
        many = files.repeated(_TIMES[TENFOLD]).make()
        systems = [replace(ours, name=name, fresh=name in _FIRSTS, empty_cache=name in _FIRSTS) for name in _TIMES]
        start = partial(_start_growth, row, run)
        tables[row.name] = measure_systems(row.name, systems, run, start=start)
        many.remove()
        say(row.name, tables[row.name])
    return tables


def _start_growth(row: Row, run: Run, system: System, cache: Path) -> _Alone:
    what = (Library(run, system.python, cache), system.start, row.shape, run.size, _TIMES[system.name])
    return _First(*what, is_checked=True) if system.fresh else _Alone(*what)


def clocked(say: Callable[[str], None], count: int, ratio: Callable[[str, Table], str]) -> Callable[[str, Table], None]:
    """A progress line for each row that is done."""
    done, start = 0, time.monotonic()

    def tell(name: str, table: Table) -> None:
        nonlocal done
        done += 1
        say(f"[{done}/{count}, {time.monotonic() - start:.0f} s] {name}: {ratio(name, table)}")

    return tell


__all__ = [
    "FIRST_ONCE",
    "FIRST_TENFOLD",
    "ONCE",
    "OURS",
    "TENFOLD",
    "clocked",
    "compare_cold",
    "compare_first",
    "compare_threads",
    "grow",
    "libraries",
    "sweep",
]
