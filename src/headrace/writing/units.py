"""The units of a conversion, and the folder in which finished ones wait."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.errors import NoFiles
from headrace.formats.registry import format_named
from headrace.io.cache.folder import cache_folder, cache_key
from headrace.io.faults import name_in_errors
from headrace.io.folders import first_existing, remove
from headrace.io.paths import absolute
from headrace.io.store.upload import check_writable, upload, upload_folder
from headrace.io.system import discard_folder
from headrace.io.threads import ThreadPool
from headrace.io.urls import is_url
from headrace.io.write.atomic import AtomicFile
from headrace.io.write.commit import finish_names, give_names, names_given
from headrace.io.write.pieces import pieces_of_files
from headrace.writing.target import Target

__all__ = [
    "PlannedFile",
    "Unit",
    "WorkFolder",
    "describe_plan",
    "finish",
    "join_units",
    "join_whole",
    "unit_examples",
]


UNIT_EXAMPLES = 16_384
UNIT_BYTES = 128 << 20
"""Units of large examples have fewer of them, so that one takes seconds."""
VERSION = 3
PLAN = "plan.json"
ATTEMPTS = 20
FORGOTTEN_AFTER_S = 30 * 24 * 3600
"""How long an interrupted conversion to a store can be resumed."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A piece of work: some examples, and the file that they are written to.

    Args:
        path: A file in the work folder.
        target: The name of the new file that it becomes a part of.
        start, stop: Its examples.
        first: Whether the new file begins with it.
        joined: Whether it is all units of the new file, written as if they were joined.
    """

    path: Path
    target: str
    start: int
    stop: int
    first: bool = True
    joined: bool = False


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """One new file and the units that are joined to it.

    Args:
        number: Which of the new files it is.
        path: Its name, or its URL.
        units: In order.
        format: Of the file.
        whole: The path at which units are joined: its name, or where it waits to be uploaded.
    """

    number: int
    path: str
    units: tuple[Unit, ...]
    format: str
    whole: str

    @property
    def is_joined(self) -> bool:
        """Whether its units are joined, and wait for the name."""
        return self.whole != self.path and Path(self.whole).exists()

    def at_once(self) -> Unit:
        """All units as one, at the place where they would be joined."""
        first, last = self.units[0], self.units[-1]
        return Unit(Path(self.whole), self.path, first.start, last.stop, joined=len(self.units) > 1)


class WorkFolder:
    """The plan, the finished units and a mark for every finished file: a hidden folder beside the new files, or in the cache folder if those are in a store."""

    def __init__(self, path: Path, target: Target, n: int, *, step: int, plan: str, fresh: bool) -> None:
        self.path = path
        self.target = target
        self.n = n
        self.step = step
        self.plan = plan
        self.fresh = fresh
        self.is_staged = False
        """Whether new files are put together in this folder: because others than this process do so, or because they replace several files."""

    @classmethod
    def open(cls, target: Target, n: int, plan: Mapping[str, Any], *, example_bytes: int = 0) -> WorkFolder:
        """The folder of an interrupted run of the same plan, or a new one.

        Args:
            target: The new files.
            n: How many examples they get.
            plan: What the content of the files depends on.
            example_bytes: About how many bytes an example has; 0 if that is not known.
        """
        path = _work_path(target.paths[0])
        step = unit_examples(target, n, example_bytes)
        text = describe_plan(target, n, plan, step)
        note = path / PLAN
        finish_names(str(path))
        with name_in_errors(str(note)):
            fresh = not note.exists() or note.read_text(encoding="utf-8") != text
        if fresh:
            discard_folder(path)
            path.mkdir(parents=True)
            with AtomicFile(note) as file:
                file.write(text.encode())
        return cls(path, target, n, step=step, plan=text, fresh=fresh)

    def is_there(self) -> bool:
        """Whether the folder still holds this plan, seen from this machine."""
        try:
            return (self.path / PLAN).read_text(encoding="utf-8") == self.plan
        except OSError:
            return False

    def files(self) -> list[PlannedFile]:
        """Every new file with its units."""
        return [self.file(number) for number in range(len(self.target.paths))]

    def file(self, number: int) -> PlannedFile:
        """One of the new files with its units."""
        path, (start, stop) = self.target.paths[number], self.target.bound(number, self.n)
        starts = range(start, stop, self.step) or (start,)
        units = tuple(
            Unit(self.path / f"{number:05d}-{at:012d}", path, at, min(at + self.step, stop), at == start)
            for at in starts
        )
        waiting = self.path / f"{number:05d}-whole"
        is_folder = format_named(self.target.format).folder is not None
        whole = str(waiting) if self.is_staged or is_url(path) or is_folder or waiting.exists() else path
        return PlannedFile(number, path, units, self.target.format, whole)

    def missing(self) -> list[Unit]:
        """The units that are still to be done."""
        done = self.done()
        return [
            unit
            for file in self.files()
            if not (file.path in done or file.is_joined)
            for unit in file.units
            if not unit.path.exists()
        ]

    def finished_examples(self) -> int:
        """How many examples an interrupted run has already converted."""
        return self.n - sum(unit.stop - unit.start for unit in self.missing())

    def done(self) -> set[str]:
        """The new files that this run, or one before it, has finished."""
        named = names_given(str(self.path))
        return {
            path
            for path in self.target.paths
            if (not is_url(path) and absolute(path) in named)
            or (self._mark(path).exists() and first_existing([path]) is not None)
        }

    def mark_done(self, path: str) -> None:
        """Record that the file ``path`` is finished."""
        with name_in_errors(str(self._mark(path))):
            self._mark(path).touch()

    def _mark(self, path: str) -> Path:
        return self.path / f"{Path(path).name}.done"

    def remove(self) -> None:
        """Remove the folder, after the work. A writer that was believed dead may still put a unit into it meanwhile."""
        with name_in_errors(str(self.path)):
            for attempt in range(ATTEMPTS):
                try:
                    shutil.rmtree(self.path)
                except OSError:
                    if attempt == ATTEMPTS - 1 or not self.is_staged:
                        raise
                    time.sleep(0.1)
                if not self.path.exists():
                    return

    def discard(self) -> None:
        """Remove the folder and all finished files."""
        for path in self.done():
            remove(path)
        self.remove()

    def discard_if_empty(self) -> bool:
        """Remove the folder if it holds nothing to resume; returns whether it did."""
        if self.done() or any(
            file.is_joined or any(unit.path.exists() for unit in file.units) for file in self.files()
        ):
            return False
        self.remove()
        return True

    def remove_if_fresh(self) -> None:
        """Remove the folder if this run made it."""
        if self.fresh:
            self.remove()


def join_units(file: PlannedFile, work: WorkFolder, *, threads: int = 1) -> None:
    """Join the units of a file under its name, where it does not wait for it, or upload it if that is a URL."""
    join_whole(file, threads=threads)
    if is_url(file.path):
        if Path(file.whole).is_dir():
            upload_folder(file.whole, file.path)
        else:
            upload(file.whole, file.path)
        work.mark_done(file.path)
        remove(file.whole)
    elif file.whole == file.path:
        work.mark_done(file.path)
        _remove_units(file, threads)


def join_whole(file: PlannedFile, *, threads: int = 1) -> None:
    """Join the units of a file where it waits for its name, unless that was done before, and remove them."""
    if not file.is_joined:
        try:
            _join(file, threads)
        except (FileNotFoundError, NoFiles):
            if not file.is_joined:  # else another attempt of this task was faster, and has removed the units
                raise
    if file.is_joined:
        _remove_units(file, threads)


def finish(work: WorkFolder) -> None:
    """Give all files that wait for them their names at once, and remove the folder."""
    waiting = {Path(file.whole).name: file.path for file in work.files() if not is_url(file.path) and file.is_joined}
    if waiting:
        give_names(str(work.path), waiting)
    work.remove()


def _remove_units(file: PlannedFile, threads: int = 1) -> None:
    """Remove them, several at a time: the system takes a quarter of a second for a gigabyte."""
    with ThreadPool(min(threads, len(file.units)), thread_name_prefix="headrace-remove") as pool:
        for _ in pool.map(_remove_unit, file.units):
            pass


def _remove_unit(unit: Unit) -> None:
    unit.path.unlink(missing_ok=True)


def unit_examples(target: Target, n: int, example_bytes: int) -> int:
    """How many examples a unit has. Several zlib streams cannot be joined."""
    if target.compression == "zlib":
        return n or 1
    return max(1, min(UNIT_EXAMPLES, UNIT_BYTES // max(example_bytes, 1)))


def describe_plan(target: Target, n: int, plan: Mapping[str, Any], step: int) -> str:
    """A plan as text, which differs if any byte of the new files may."""
    described = {
        **plan,
        "version": VERSION,
        "n": n,
        "step": step,
        "paths": [Path(path).name for path in target.paths],
        "format": target.format,
        "compression": target.compression,
    }
    return json.dumps(described, sort_keys=True)


def _join(file: PlannedFile, threads: int) -> None:
    """Join the units of a file.

    TFRecord files, rows of CSV and gzip members can follow one another. Formats with a header or footer have a function that joins them, or
    one that says of which pieces the file consists.
    """
    format, parts = format_named(file.format), [str(unit.path) for unit in file.units]
    first = file.units[0].path
    if len(file.units) == 1:
        try:
            first.replace(file.whole)
        except FileNotFoundError:
            if not Path(file.whole).exists():  # else another attempt of this task was faster
                raise
    elif format.join is not None:
        format.join(parts, file.whole)
    else:
        pieces = pieces_of_files(parts) if format.pieces is None else format.pieces(parts)
        with AtomicFile(file.whole) as out:
            out.place(list(pieces), threads=threads)


def _work_path(first: str) -> Path:
    if not is_url(first):
        path = Path(first)
        return path.parent / f".{path.name}.headrace-convert"
    check_writable(first)
    folder = cache_folder("convert")
    for left in folder.iterdir():
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > FORGOTTEN_AFTER_S:
                shutil.rmtree(left)
    return folder / cache_key(first)
