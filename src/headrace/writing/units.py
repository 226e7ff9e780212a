"""The pieces of a conversion, the folder in which finished ones wait, and the files that a write makes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from headrace._arguments import whole, word
from headrace.contracts.csv import CSV
from headrace.errors import UnknownFormat, UnsupportedData, Where, did_you_mean
from headrace.formats.registry import csv_options, endings, format_named, format_of_name
from headrace.io.cache.folder import cache_folder, cache_key
from headrace.io.faults import name_in_errors
from headrace.io.folders import first_existing, remove
from headrace.io.store.upload import check_writable, is_uploaded, upload, upload_folder
from headrace.io.urls import is_url
from headrace.io.write.atomic import AtomicFile

__all__ = ["Shard", "Target", "Unit", "WorkFolder", "join_units"]


CSV_DELIMITERS = {".tsv": "\t", ".tab": "\t", ".psv": "|"}

SHARD_PATTERN = re.compile(r"^(?P<stem>.+)@(?P<count>\d+)$")
COMPRESSION_SUFFIXES = {".gz": "gzip", ".gzip": "gzip", ".zlib": "zlib", ".zz": "zlib"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where something is written to.

    Args:
        paths: The final file names or URLs, in order.
        format: How records are framed.
        compression: ``"none"``, ``"gzip"``, ``"zlib"``, or what else the format has (ArrayRecord: ``"zstd"``, ...).
        csv: How CSV is to be written.
    """

    paths: tuple[str, ...]
    format: str
    compression: str
    csv: CSV | None = None

    @classmethod
    def of(
        cls,
        path: str | os.PathLike[str],
        *,
        format: str | CSV | None = None,
        compression: str | None = None,
        shards: int = 1,
    ) -> Target:
        """Read a path as users write it.

        ``x.tfrecord`` is one file, ``x.tfrecord@8`` (or ``shards=8``) the eight ``x.tfrecord-00000-of-00008`` ..., and a
        name that ends in ``.gz`` is compressed with gzip.

        Raises:
            UnknownFormat: the name has no known ending and ``format`` is not given.
            ValueError: ``shards`` and the ``@`` in the path disagree, or are not positive.
        """
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"the path to write to is str or os.PathLike[str], got {type(path).__name__}")
        word(format, "format", CSV)
        word(compression, "compression")
        shards = whole(shards, "shards", least=1)
        text = os.fspath(path)
        is_uploaded(text)
        found = SHARD_PATTERN.match(text)
        sharded = found is not None or shards != 1
        if found is not None:
            count = int(found["count"])
            if shards not in (1, count):
                raise ValueError(f"the path says {count} shards and shards= says {shards}")
            text, shards = found["stem"], count
        if shards < 1:
            raise ValueError(f"shards must be at least 1, got {shards}")
        suffix = Path(text).suffix.lower()
        name = text[: -len(suffix)] if suffix in COMPRESSION_SUFFIXES else text
        options = csv_options(format)
        known = "csv" if options is not None else format_of_name(name) if format is None else str(format)
        if known is None:
            raise UnknownFormat(
                Where(path=text),
                expected=f"a file name that ends in one of {', '.join(endings())}",
                found=repr(Path(text).name),
                hint="Or name the format: format='tfrecord'.",
            )
        compression = _compression(compression, suffix, known)
        digits = max(5, len(str(shards)))
        paths = [f"{text}-{i:0{digits}d}-of-{shards:0{digits}d}" for i in range(shards)] if sharded else [text]
        if known == "csv":
            options = (options or CSV()).with_delimiter(CSV_DELIMITERS.get(Path(name).suffix.lower(), ","))
        return cls(paths=tuple(paths), format=known, compression=compression, csv=options)

    def bounds(self, n: int) -> list[tuple[int, int]]:
        """Which of ``n`` examples go into which file: consecutive runs, as equal as can be."""
        count = len(self.paths)
        return [(i * n // count, (i + 1) * n // count) for i in range(count)]


def _compression(given: str | None, suffix: str, format: str) -> str:
    found = format_named(format)
    known = found.compressions or (("none", "gzip", "zlib") if found.compressible else ("none",))
    name = COMPRESSION_SUFFIXES.get(suffix, known[0]) if given is None else given.lower() or "none"
    if name not in known:
        names = ", ".join(map(repr, known))
        raise UnsupportedData(
            Where(),
            expected=f"a compression that {found.name} has: {names}",
            found=repr(name),
            hint=did_you_mean(name, known),
        )
    return name


UNIT_EXAMPLES = 16_384
VERSION = 1
FORGOTTEN_AFTER_S = 30 * 24 * 3600
"""How long a conversion to a store may wait to be gone on with."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A piece of work: some examples, and the file that they are written to.

    Args:
        path: A file in the work folder.
        target: The name of the new file that it becomes a part of.
        start, stop: Its examples.
        first: Whether the new file begins with it.
    """

    path: Path
    target: str
    start: int
    stop: int
    first: bool = True


@dataclass(frozen=True, slots=True)
class Shard:
    """One final file and the units it is joined from.

    Args:
        path: Its name, or its URL.
        units: In order.
        format: Of the file.
        whole: Where it is put together: its name, or where it waits to go to its store.
    """

    path: str
    units: tuple[Unit, ...]
    format: str
    whole: str


class WorkFolder:
    """A hidden folder beside the destination, or in the cache folder where that is in a store: the plan, the finished units, a mark for every finished shard."""

    def __init__(self, path: Path, target: Target, n: int, *, fresh: bool) -> None:
        self.path = path
        self.target = target
        self.n = n
        self.fresh = fresh

    @classmethod
    def open(cls, target: Target, n: int, plan: Mapping[str, Any]) -> WorkFolder:
        """The folder of an interrupted run of the same plan, or a new one."""
        first = target.paths[0]
        path = _work_place(first)
        text = json.dumps(
            {
                **plan,
                "version": VERSION,
                "n": n,
                "paths": [Path(p).name for p in target.paths],
                "format": target.format,
                "compression": target.compression,
            },
            sort_keys=True,
        )
        note = path / "plan.json"
        with name_in_errors(str(note)):
            fresh = not note.exists() or note.read_text(encoding="utf-8") != text
        if fresh:
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir(parents=True)
            with AtomicFile(note) as file:
                file.write(text.encode())
        return cls(path, target, n, fresh=fresh)

    def shards(self) -> list[Shard]:
        """Every final file with its units. A zlib stream cannot be joined from several, so it is one unit."""
        step = self.n or 1 if self.target.compression == "zlib" else UNIT_EXAMPLES
        shards = []
        for number, (path, (start, stop)) in enumerate(zip(self.target.paths, self.target.bounds(self.n), strict=True)):
            starts = range(start, stop, step) or (start,)
            units = tuple(
                Unit(self.path / f"{number:05d}-{at:012d}", path, at, min(at + step, stop), at == start)
                for at in starts
            )
            whole = str(self.path / f"{number:05d}-whole") if is_url(path) else path
            shards.append(Shard(path, units, self.target.format, whole))
        return shards

    def missing(self) -> list[Unit]:
        """The units that are still to be done."""
        return [
            unit
            for shard in self.shards()
            if not (self.is_done(shard.path) or (is_url(shard.path) and Path(shard.whole).exists()))
            for unit in shard.units
            if not unit.path.exists()
        ]

    def finished_examples(self) -> int:
        """How many examples an interrupted run has already converted."""
        return self.n - sum(unit.stop - unit.start for unit in self.missing())

    def is_done(self, path: str) -> bool:
        """Whether this run, or the interrupted one before it, has put ``path`` together."""
        return self._mark(path).exists() and first_existing([path]) is not None

    def mark_done(self, path: str) -> None:
        """Note that ``path`` has its final name."""
        mark = self._mark(path)
        with name_in_errors(str(mark)):
            mark.touch()

    def _mark(self, path: str) -> Path:
        return self.path / f"{Path(path).name}.done"

    def remove(self) -> None:
        """The work is finished."""
        with name_in_errors(str(self.path)):
            shutil.rmtree(self.path)

    def discard(self) -> None:
        """The work cannot be finished: leave neither it nor the files that it has put into place."""
        for path in self.target.paths:
            if self.is_done(path):
                remove(path)
        self.remove()

    def discard_if_empty(self) -> bool:
        """Where nothing is finished that a second run could go on with, leave no trace; whether that is so."""
        shards = self.shards()
        if any(self.is_done(shard.path) or any(unit.path.exists() for unit in shard.units) for shard in shards):
            return False
        self.remove()
        return True

    def remove_if_fresh(self) -> None:
        """Nothing was done: leave no trace."""
        if self.fresh:
            self.remove()


def join_units(shard: Shard, work: WorkFolder) -> None:
    """Put a shard together under its final name, in its store if it has one."""
    if shard.whole == shard.path or not Path(shard.whole).exists():
        _join(shard)
    _arrive(shard, work)
    if shard.whole != shard.path:
        remove(shard.whole)


def _join(shard: Shard) -> None:
    """Put a shard together.

    TFRecord files, rows of CSV and gzip members may follow one another, so their units are copied end to end; formats with a header or an
    end of their own have a way to join.
    """
    first = shard.units[0].path
    if len(shard.units) == 1:
        first.replace(shard.whole)
    elif (join := format_named(shard.format).join) is not None:
        join([str(unit.path) for unit in shard.units], shard.whole)
    else:
        with AtomicFile(shard.whole) as out:
            for unit in shard.units:
                _append(out, unit.path)


def _arrive(shard: Shard, work: WorkFolder) -> None:
    if is_url(shard.path):
        if Path(shard.whole).is_dir():
            upload_folder(shard.whole, shard.path)
        else:
            upload(shard.whole, shard.path)
    work.mark_done(shard.path)
    for unit in shard.units:
        unit.path.unlink(missing_ok=True)


def _append(out: AtomicFile, path: Path) -> None:
    with path.open("rb") as unit:
        while block := _next_of(unit, path):
            out.write(block)


def _next_of(unit: BinaryIO, path: Path) -> bytes:
    with name_in_errors(str(path)):
        return unit.read(8 << 20)


def _work_place(first: str) -> Path:
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
