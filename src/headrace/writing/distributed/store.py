"""A conversion into a store by other processes. A task makes one new file whole, in the cache of its machine, and uploads it.

Files wait under a prefix whose name begins with a dot, so readers do not see them: ``.headrace-{plan}/`` beside the new files.

===============  =====================================================================
``plan.json``    comes first: what is converted into what
``00007``        the eighth file, whole
``joined``       all files have their names, with the version of each; the rest of the prefix can be removed
===============  =====================================================================

When all are there, the store copies them to their names (:mod:`headrace.io.store.commit`). A process that finds ``joined`` only removes the rest,
unless something else was written to the names since then. A task that was believed dead may
upload a file once more: the same bytes, out of sight.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.errors import NoFiles, Unreachable, UnsupportedData, Where
from headrace.formats.registry import format_named
from headrace.io.cache.folder import cache_folder, cache_key
from headrace.io.store.commit import end_names, give_object_names, keeps_journal, refuse_existing, remove_copied
from headrace.io.store.listing import list_below, objects_exist
from headrace.io.store.requests import noted_versions, read_small
from headrace.io.store.upload import check_writable, remove_objects, upload
from headrace.io.system import discard_folder
from headrace.io.urls import base_name, child_of, parent_of
from headrace.io.write.atomic import AtomicFile
from headrace.io.write.pending import process_exists
from headrace.writing.distributed.folder import refuse_memory
from headrace.writing.distributed.unit_writer import UnitWriter
from headrace.writing.engines import EngineTask, TaskEngine, cores_of
from headrace.writing.units import WorkFolder, describe_plan, join_whole, unit_examples

__all__ = ["StoreRun"]


FILES_PER_CORE = 2
PLAN, JOINED = "plan.json", "joined"


class StoreRun:
    """One conversion into a store.

    Args:
        writer: Of the units.
        plan: What the content of the new files depends on.
        each_bytes: About how many bytes an example has.
    """

    def __init__(self, writer: UnitWriter, plan: Mapping[str, Any], each_bytes: int) -> None:
        refuse_memory(writer.source)
        target, count = writer.target, len(writer.source)
        first = target.paths[0]
        check_writable(first)
        if format_named(target.format).folder is not None:
            raise UnsupportedData(
                Where(path=first),
                expected="a format of files, where a cluster writes into a store",
                found=f"{target.format}, which is a folder",
                hint="Convert with on='threads', or into records.",
            )
        self._writer = writer
        step = unit_examples(target, count, each_bytes)
        self._text = describe_plan(target, count, plan, step)
        self._files = WorkFolder(Path(), target, count, step=step, plan=self._text, fresh=True)
        self._prefix = child_of(parent_of(first)[0], f".headrace-{cache_key(self._text)[:16]}")
        self._copies = {child_of(self._prefix, _name(number)): path for number, path in enumerate(target.paths)}
        found = {base_name(url) for url in list_below(self._prefix)}
        self._is_joined = JOINED in found and self._describe_names() == read_small(child_of(self._prefix, JOINED))
        self._found = found - {JOINED}

    def check_new(self) -> None:
        """Refuse to replace what this run has not made.

        Raises:
            UnsupportedData: There is a file of such a name.
        """
        if not self._is_joined:
            refuse_existing(self._writer.target.paths[0], self._copies)

    def finished_examples(self) -> int:
        """How many examples an interrupted run has converted."""
        if self._is_joined:
            return self._files.n
        bounds = self._writer.target.bounds(self._files.n)
        return sum(stop - start for number, (start, stop) in enumerate(bounds) if _name(number) in self._found)

    def run(self, engine: TaskEngine, *, overwrite: bool) -> None:
        """Make the files that are missing, give all their names, and remove what is left.

        Args:
            engine: Does the tasks.
            overwrite: Whether files that this run has not made are replaced.

        Raises:
            UnsupportedData: There are too few new files for the cores of a cluster, or one of these names was made meanwhile.
        """
        paths = self._writer.target.paths
        if not self._is_joined:
            self._begin(engine)
            for number in range(len(paths)):
                if _name(number) not in self._found:
                    engine.submit(EngineTask(_make_file, self._writer, (number, self._files.step, self._prefix)))
            for examples in engine.finished():
                self._writer.report(examples)
            give_object_names(paths[0], self._copies, overwrite=overwrite)
            self._put(JOINED, self._describe_names())
        end_names(paths[0], self._copies)
        remove_copied(self._prefix, last=JOINED)

    def _begin(self, engine: TaskEngine) -> None:
        if self._found:
            return
        paths, least = self._writer.target.paths, FILES_PER_CORE * cores_of(engine)
        if len(paths) < least:
            raise UnsupportedData(
                Where(path=paths[0]),
                expected=f"at least {least} new files, two for each core of the cluster, because a task makes a whole one",
                found=f"{len(paths)}",
                hint=f"Write shards, as in x.tfrecord@{least}, or convert with on='threads'.",
            )
        self._put(PLAN, self._text.encode())
        self._found.add(PLAN)

    def _put(self, name: str, content: bytes) -> None:
        with AtomicFile(child_of(self._prefix, name)) as file:
            file.write(content)

    def _describe_names(self) -> bytes:
        """The versions of what is at the names."""
        return json.dumps(noted_versions(self._writer.target.paths)).encode()

    def discard(self) -> bool:
        """Remove what was made; returns whether that is so. Files that wait for their names with a journal stay: the next writer gives those."""
        if keeps_journal(self._writer.target.paths[0], self._copies):
            return False
        with contextlib.suppress(NoFiles, Unreachable):
            remove_objects(list_below(self._prefix))
        return True

    def discard_if_empty(self) -> bool:
        """Remove the plan if no file was made; returns whether that is so."""
        with contextlib.suppress(NoFiles, Unreachable):
            left = {base_name(url) for url in list_below(self._prefix)}
            if left <= {PLAN}:
                self.discard()
                return True
        return False


def _name(number: int) -> str:
    return f"{number:05d}"


def _make_file(writer: UnitWriter, part: tuple[int, int, str]) -> int:
    """Make one new file here, and upload it; returns how many examples it has."""
    number, step, prefix = part
    target, count = writer.target, len(writer.source)
    url = child_of(prefix, _name(number))
    start, stop = target.bound(number, count)
    if objects_exist([url])[0]:
        return stop - start
    folder = _own_folder(f"{base_name(prefix)[1:]}-{_name(number)}")
    try:
        file = WorkFolder(folder, target, count, step=step, plan="", fresh=True).file(number)
        if writer.writes_at_once(file):
            writer.write(file.at_once())
        else:
            for unit in file.units:
                writer.write(unit)
            join_whole(file)
        upload(file.whole, url)
    finally:
        discard_folder(folder)
    return stop - start


def _own_folder(name: str) -> Path:
    """A folder of this process in the cache. Those of processes that were killed on this machine are removed."""
    parent = cache_folder("convert")
    for left in parent.glob(f"{name}-*"):
        process = left.name.rpartition("-")[2]
        if process.isdecimal() and not process_exists(int(process)):
            discard_folder(left)
    folder = parent / f"{name}-{os.getpid()}"
    discard_folder(folder)
    folder.mkdir()
    return folder
