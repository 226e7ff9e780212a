"""A conversion whose units are written by other processes, on machines that share the folder of the new files.

A file is written whole by one task where there are enough files for all cores. Its bytes are then written once. The rest is written in units,
by several tasks, and joined.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import cast

from headrace.contracts.records import files_of
from headrace.errors import NoFiles, UnsupportedData, Where
from headrace.formats.index.parts import index_one, join_indexes, missing_indexes
from headrace.io.folders import first_existing
from headrace.io.local.open import total_size
from headrace.io.progress import Progress
from headrace.io.urls import is_url
from headrace.sources.node import records_below, walk
from headrace.sources.operations.stored import StoredNode
from headrace.sources.source import Source
from headrace.writing.distributed.unit_writer import UnitWriter, check_folder, write_units
from headrace.writing.engines import TASKS_PER_CORE, EngineTask, RayTasks, TaskEngine, cores_of, free_cores_of_node
from headrace.writing.units import UNIT_BYTES, PlannedFile, Unit, WorkFolder, finish, join_whole

__all__ = ["build_indexes", "check_nodes", "example_bytes", "groups_of", "refuse_memory", "run_in_folder", "tasks_of"]


CHECKED_FILES = 64
WHOLE_BYTES = 4 * UNIT_BYTES
"""Larger files are written in units even where there are many: a task takes seconds, and a kill costs no more."""
ROUNDS = 2
"""How many bundles of files each core writes at least, if there are enough: some cores are slower."""
JOINED = ""
"""Stands for the file in the result of a task after which no other task joins it."""
MOST_JOINING = 4
"""Threads that join one file: more would wait for memory and disk."""
SEEN_S = 10.0
"""How long a file that another machine has made may take to appear here: file servers keep listings for a while."""


def build_indexes(source: Source, engine: TaskEngine, *, show: bool = False) -> None:
    """Make the indexes that a source needs, one task a file, and keep them on this machine."""
    for request in missing_indexes(records_below(source.node)):
        parts: dict[str, bytes] = {}
        for path in request.paths:
            engine.submit(EngineTask(index_one, request, path))
        with Progress("indexing", len(request.paths), "files", show=show) as bar:
            for path, packed in engine.finished():
                parts[path] = packed
                bar.advance(1)
        join_indexes(request, [parts[path] for path in request.paths])


def example_bytes(source: Source) -> int:
    """About how many bytes of files an example has; 0 for examples in memory.

    The same on every engine, since it decides how many examples are a unit.
    """
    below = records_below(source.node)
    paths = [path for records in below for path in files_of(records)]
    return total_size(paths) // max(sum(map(len, below)), 1)


def check_nodes(work: WorkFolder, source: Source, engine: TaskEngine) -> None:
    """Let every node of a Ray cluster prove that it sees the folder of the new files, and the files that are read.

    Raises:
        UnsupportedData, NoFiles: One does not; the error names the node.
    """
    refuse_memory(source)
    if not isinstance(engine, RayTasks):
        return
    paths = [path for records in records_below(source.node) for path in files_of(records) if not is_url(path)]
    token = os.urandom(8).hex()
    for node, name in engine.cluster.on_each_node(_prove, work, token, paths[:CHECKED_FILES]):
        proof = work.path / name
        if not _appears(proof):
            raise UnsupportedData(
                Where(path=str(work.path)),
                expected="a folder that all nodes share",
                found=f"another folder of that path on the Ray node {node.name}",
                hint="Use a shared folder, or a store such as s3://.",
            )
        with contextlib.suppress(OSError):
            proof.unlink()


def _appears(path: Path) -> bool:
    """Whether a file that another machine has made is seen here."""
    ends = time.monotonic() + SEEN_S
    while not path.exists():
        if time.monotonic() > ends:
            return False
        time.sleep(0.05)
    return True


def refuse_memory(source: Source) -> None:
    """Raise for a source that other machines cannot open."""
    if records_below(source.node):
        return
    caches = [node.folder for node in walk(source.node) if isinstance(node, StoredNode)]
    raise UnsupportedData(
        Where(path=caches[0] if caches else None),
        expected="a source of files, which other machines can open again",
        found="a cache of examples that a function made" if caches else "examples in memory",
        hint="Write them with hr.write, or pass on='threads'.",
    )


def _prove(work: WorkFolder, token: str, paths: Sequence[str]) -> str:
    """On a node: write a file into the folder. Its name says which node; the driver must find it."""
    check_folder(work)
    missing = first_missing(paths)
    if missing is not None:
        raise NoFiles(
            Where(path=missing),
            expected="a file that every node sees under the same path",
            found="nothing of that name",
            hint="Use a shared folder, or URLs.",
        )
    name = f".seen-{token}-{os.getpid()}-{os.urandom(4).hex()}"
    (work.path / name).touch()
    return name


def first_missing(paths: Iterable[str]) -> str | None:
    """The first of some paths that does not exist on this machine."""
    return next((path for path in paths if first_existing([path]) is None), None)


def groups_of(units: Sequence[Unit], unit_bytes: int, cores: int) -> list[tuple[Unit, ...]]:
    """Consecutive units of one new file, enough to take seconds, and few enough to occupy all cores.

    Args:
        units: The missing ones, in order.
        unit_bytes: About how large one is.
        cores: How many tasks run at once.
    """
    most = max(1, min(UNIT_BYTES // max(unit_bytes, 1), -(-len(units) // (TASKS_PER_CORE * cores))))
    groups: list[list[Unit]] = []
    for unit in units:
        last = groups[-1] if groups else []
        if last and len(last) < most and last[-1].target == unit.target and last[-1].stop == unit.start:
            last.append(unit)
        else:
            groups.append([unit])
    return [tuple(group) for group in groups]


@dataclass(frozen=True, slots=True)
class WritingTask:
    """What one task writes.

    Args:
        units: Of one new file, in order.
        number: That file, where no other task writes a part of it: this one also joins it.
    """

    units: tuple[Unit, ...]
    number: int | None = None


def tasks_of(
    files: Sequence[PlannedFile], missing: Sequence[Unit], writer: UnitWriter, each_bytes: int, cores: int
) -> list[WritingTask]:
    """The tasks that write the missing units.

    Files are given out whole in full rounds, one file for each core. The units of the others are given out singly, so that all cores are busy to
    the end.

    Args:
        files: The new files, in order.
        missing: Their missing units, in order.
        writer: Of the units.
        each_bytes: About how many bytes an example has.
        cores: How many tasks run at once.
    """
    left: dict[str, list[Unit]] = {file.path: [] for file in files}
    for unit in missing:
        left[unit.target].append(unit)
    fitting = [file.path for file in files if left[file.path] and _bytes_in(file, each_bytes) <= WHOLE_BYTES]
    whole = set(fitting[: len(fitting) // cores * cores])
    groups = [tuple(left[path]) for path in fitting if path in whole]
    step = max((unit.stop - unit.start for unit in missing), default=1)
    groups += groups_of([unit for unit in missing if unit.target not in whole], each_bytes * step, cores)
    groups_in = Counter(group[0].target for group in groups)
    named = {file.path: file for file in files}
    return [
        WritingTask(group) if groups_in[group[0].target] > 1 else _task_of_file(group, named[group[0].target], writer)
        for group in groups
    ]


def bundles_of(
    tasks: Sequence[WritingTask], files: Sequence[PlannedFile], each_bytes: int, cores: int
) -> list[tuple[WritingTask, ...]]:
    """What is sent to a worker at once: several small files that are written whole, since sending takes as long as writing 20 MB. The rest singly.

    Args:
        tasks: All of them, in order.
        files: The new files.
        each_bytes: About how many bytes an example has.
        cores: How many workers there are.
    """
    sizes = {file.number: max(1, _bytes_in(file, each_bytes)) for file in files}
    whole = [task for task in tasks if task.number is not None]
    bundles: list[tuple[WritingTask, ...]] = [(task,) for task in tasks if task.number is None]
    if whole:
        fitting = max(1, WHOLE_BYTES // max(sizes[cast("int", task.number)] for task in whole))
        rounds = -(-len(whole) // cores)
        count = min(len(whole), cores * max(min(ROUNDS, rounds), -(-rounds // fitting)))
        each, more = divmod(len(whole), count)
        bounds = [number * each + min(number, more) for number in range(count + 1)]  # larger ones first
        bundles = [*(tuple(whole[start:stop]) for start, stop in pairwise(bounds)), *bundles]
    return bundles


def _bytes_in(file: PlannedFile, each_bytes: int) -> int:
    return each_bytes * (file.units[-1].stop - file.units[0].start)


def _task_of_file(group: tuple[Unit, ...], file: PlannedFile, writer: UnitWriter) -> WritingTask:
    """The task that writes what a file lacks: at once if nothing is there, else what is missing, and joins it."""
    if len(group) == len(file.units) and writer.writes_at_once(file):
        return WritingTask((file.at_once(),), file.number)
    return WritingTask(group, file.number)


def run_in_folder(work: WorkFolder, engine: TaskEngine, writer: UnitWriter, each_bytes: int) -> None:
    """Do the missing units by an engine, join them by it, and give the files their names.

    Args:
        work: Open, in a folder that all machines see.
        engine: Does the work.
        writer: Of the units.
        each_bytes: About how many bytes an example has.
    """
    writer.work = work
    check_nodes(work, writer.source, engine)
    done = work.done()
    files = [file for file in work.files() if file.path not in done]
    tasks = tasks_of(files, work.missing(), writer, each_bytes, cores_of(engine))
    _make_files(engine, writer, files, tasks, each_bytes)
    for file in files:
        if not _appears(Path(file.whole)):
            raise NoFiles(
                Where(path=file.path),
                expected="its content in the folder of this conversion, written by a task",
                found=f"no file {file.whole} on this machine",
                hint="Use a folder that all nodes share.",
            )
    finish(work)


def _make_files(
    engine: TaskEngine, writer: UnitWriter, files: Sequence[PlannedFile], tasks: Sequence[WritingTask], each_bytes: int
) -> None:
    """Write what is missing. A file of several tasks is joined as soon as it has all of its units, while those of others are written."""
    left = Counter(task.units[0].target for task in tasks if task.number is None)
    complete = {task.number for task in tasks}
    apart = [file for file in files if file.number not in complete]
    threads = max(1, min(MOST_JOINING, free_cores_of_node(engine) // max(len(apart), 1)))
    joins = {file.path: EngineTask(_join_there, writer, (file.number, threads)) for file in apart}
    for bundle in bundles_of(tasks, files, each_bytes, cores_of(engine)):
        engine.submit(EngineTask(_write_there, writer, bundle))
    for path in [path for path in joins if path not in left]:
        engine.submit(joins.pop(path))
    count = -1
    while count != len(joins):  # what is submitted meanwhile may belong to the next round of results
        count = len(joins)
        for path, examples in engine.finished():
            writer.report(examples)
            left[path] -= 1
            if not left[path]:
                engine.submit(joins.pop(path))
    for _ in engine.finished():
        pass
    assert not joins, "the engine has not yielded all results"


def _write_there(writer: UnitWriter, bundle: tuple[WritingTask, ...]) -> tuple[str, int]:
    if bundle[0].number is None:
        return bundle[0].units[0].target, write_units(writer, bundle[0].units)
    examples = 0
    for task in bundle:
        assert writer.work is not None
        assert task.number is not None
        examples += write_units(writer, task.units)
        join_whole(writer.work.file(task.number))
    return JOINED, examples


def _join_there(writer: UnitWriter, part: tuple[int, int]) -> tuple[str, int]:
    number, threads = part
    assert writer.work is not None
    check_folder(writer.work)
    join_whole(writer.work.file(number), threads=threads)
    return JOINED, 0
