"""The units of a conversion, and the folder in which finished ones wait."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.errors import NoFiles
from headrace.formats.registry import format_named
from headrace.io.cache.folder import cache_folder, cache_key
from headrace.io.faults import close_quietly, name_in_errors
from headrace.io.folders import first_existing, remove
from headrace.io.paths import absolute
from headrace.io.store.commit import finish_object_names
from headrace.io.store.requests import noted_versions
from headrace.io.store.upload import check_writable, upload, upload_folder
from headrace.io.system import sync_folder, unlock
from headrace.io.threads import ThreadPool
from headrace.io.urls import is_url
from headrace.io.write.atomic import AtomicFile
from headrace.io.write.commit import finish_names, give_names, names_given, same_version, version_of
from headrace.io.write.pending import LOCK, lock_folder, remove_abandoned, temporary_name
from headrace.io.write.pieces import pieces_of_files
from headrace.writing.target import Target

__all__ = [
    "PlannedFile",
    "Unit",
    "WorkFolder",
    "describe_plan",
    "finish",
    "finish_abandoned",
    "join_units",
    "join_whole",
    "unit_examples",
]


UNIT_EXAMPLES = 16_384
UNIT_BYTES = 128 << 20
"""Units of large examples have fewer of them, so that one takes seconds."""
VERSION = 4
PLAN = "plan.json"
NAME_BYTES = 200  # of the first new file in the name of the folder, which must fit into 255
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
        begin: The first example of the new file.
        joined: Whether it is all units of the new file, written as if they were joined.
    """

    path: Path
    target: str
    start: int
    stop: int
    begin: int
    joined: bool = False


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """One new file and the units that are joined to it.

    Args:
        number: Which of the new files it is.
        path: Its name, or its URL.
        units: In order.
        format: Of the file.
        whole: The path at which units are joined, and wait for the name or to be uploaded.
    """

    number: int
    path: str
    units: tuple[Unit, ...]
    format: str
    whole: str

    @property
    def is_joined(self) -> bool:
        """Whether its units are joined, and wait for the name."""
        return Path(self.whole).exists()

    def at_once(self) -> Unit:
        """All units as one, at the place where they would be joined."""
        first, last = self.units[0], self.units[-1]
        return Unit(Path(self.whole), self.path, first.start, last.stop, first.begin, joined=len(self.units) > 1)


class WorkFolder:
    """The plan, the finished units and the files that wait for their names: a hidden folder beside the new files, or in the cache folder if those are in a store."""

    def __init__(self, path: Path, target: Target, n: int, *, step: int, plan: str, fresh: bool) -> None:
        self.path = path
        self.target = target
        self.n = n
        self.step = step
        self.plan = plan
        self.fresh = fresh
        self._lock = -1

    @classmethod
    def open(cls, target: Target, n: int, plan: Mapping[str, Any], *, example_bytes: int = 0) -> WorkFolder:
        """The folder of an interrupted run of the same plan, or a new one. It is locked until it is closed or removed.

        What another plan has left stays until :meth:`begin`.

        Args:
            target: The new files.
            n: How many examples they get.
            plan: What the content of the files depends on.
            example_bytes: About how many bytes an example has.

        Raises:
            UnsupportedData: Another process has locked it.
        """
        path = _work_path(target.paths[0])
        step = unit_examples(target, n, example_bytes)
        work = cls(path, target, n, step=step, plan=describe_plan(target, n, plan, step), fresh=False)
        work._lock = lock_folder(path, target.paths[0])
        try:
            finish_names(str(path))
            note = path / PLAN
            with name_in_errors(str(note)):
                work.fresh = not note.exists() or note.read_text(encoding="utf-8") != work.plan
        except BaseException:
            work.close()
            raise
        return work

    def begin(self) -> None:
        """Remove what another plan has left, and store this one."""
        if self.fresh:
            for left in self.path.iterdir():
                if left.name != LOCK:
                    remove(str(left))
            with AtomicFile(self.path / PLAN) as file:
                file.write(self.plan.encode())

    def close(self) -> None:
        """Unlock the folder."""
        fd, self._lock = self._lock, -1
        if fd >= 0:
            unlock(fd)
            close_quietly(fd)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_lock": -1}

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
            Unit(self.path / f"{number:05d}-{at:012d}", path, at, min(at + self.step, stop), start) for at in starts
        )
        return PlannedFile(number, path, units, self.target.format, str(self.path / f"{number:05d}-whole"))

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
        """The new files that this run, or one before it, has finished. Files overwritten since then do not count."""
        if self.fresh:
            return set()
        named = names_given(str(self.path))
        return {
            path
            for number, path in enumerate(self.target.paths)
            if (not is_url(path) and absolute(path) in named) or self._is_marked(number)
        }

    def mark_done(self, number: int, version: Any) -> None:
        """Record that a file is finished, and its version."""
        with AtomicFile(self._mark(number)) as file:
            file.write(json.dumps(version).encode())

    def _is_marked(self, number: int) -> bool:
        try:
            noted = json.loads(self._mark(number).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        path = self.target.paths[number]
        if not is_url(path):
            return same_version(version_of(str(Path(path).resolve())), noted)
        return first_existing([path]) is not None and noted_versions([path])[0] == noted

    def _mark(self, number: int) -> Path:
        return self.path / f"{number:05d}.done"

    def remove(self) -> None:
        """Remove the folder, after the work. A writer that was believed dead may still put a unit into it meanwhile."""
        aside = self.path.with_name(temporary_name(self.path.name))
        if os.name == "nt":
            self.close()  # an open file cannot be moved there
        try:
            with name_in_errors(str(self.path)):
                try:
                    self.path.rename(aside)  # so that no other process finds half of it
                except OSError:
                    aside = self.path
                for attempt in range(ATTEMPTS):
                    try:
                        shutil.rmtree(aside)
                    except OSError:
                        if attempt == ATTEMPTS - 1:
                            raise
                        time.sleep(0.1)
                    if not aside.exists():
                        return
        finally:
            self.close()

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

    def remove_if_empty(self) -> None:
        """Remove the folder if nothing was begun in it."""
        if all(path.name == LOCK for path in self.path.iterdir()):
            self.remove()


def join_units(file: PlannedFile, work: WorkFolder, *, threads: int = 1) -> None:
    """Join the units of a file where it waits for its name, or upload it if that is a URL."""
    join_whole(file, threads=threads)
    if is_url(file.path):
        if Path(file.whole).is_dir():
            upload_folder(file.whole, file.path)
        else:
            upload(file.whole, file.path)
        work.mark_done(file.number, noted_versions([file.path])[0])  # None for a folder
        remove(file.whole)


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
    """Give all files that wait for them their names at once, and remove the folder. Objects in a store have theirs."""
    files = [file for file in work.files() if not is_url(file.path) and file.is_joined]
    linked = [file for file in files if Path(file.path).is_symlink() and not Path(file.whole).is_dir()]
    for file in linked:
        _replace_target(file, work)
    if is_url(work.target.paths[0]):
        finish_abandoned(work.target.paths)  # a journal that could not be finished before
    waiting = {Path(file.whole).name: file.path for file in files if file not in linked}
    if waiting:
        give_names(str(work.path), waiting)
    work.remove()


def finish_abandoned(paths: Sequence[str]) -> None:
    """Finish what killed writers of these names have begun. A conversion writes elsewhere at first, so no writer does it."""
    if not is_url(paths[0]):
        remove_abandoned(*os.path.split(absolute(paths[0])))
    elif len(paths) > 1:
        finish_object_names(paths[0])


def _replace_target(file: PlannedFile, work: WorkFolder) -> None:
    """Put a file in the place of what a link points to, which may be on another disk."""
    target = Path(file.path).resolve()
    work.mark_done(file.number, version_of(file.whole))
    try:
        Path(file.whole).replace(target)
        sync_folder(str(target.parent))
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        with AtomicFile(target) as out:
            out.place(list(pieces_of_files([file.whole])))
        work.mark_done(file.number, version_of(str(target)))


def _remove_units(file: PlannedFile, threads: int = 1) -> None:
    """Remove them, several at a time: the system takes a quarter of a second for a gigabyte."""
    with ThreadPool(min(threads, len(file.units)), thread_name_prefix="headrace-remove") as pool:
        for _ in pool.map(lambda unit: unit.path.unlink(missing_ok=True), file.units):
            pass


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
        name = os.fsencode(path.name)
        if len(name) > NAME_BYTES:
            name = name[: NAME_BYTES - 40] + b"-" + cache_key(path.name).encode()
        return path.parent / f".{os.fsdecode(name)}.headrace-convert"
    check_writable(first)
    folder = cache_folder("convert")
    for left in folder.iterdir():
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > FORGOTTEN_AFTER_S:
                shutil.rmtree(left)
    return folder / cache_key(first)
