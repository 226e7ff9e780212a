"""The files that a write or a conversion makes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from headrace._arguments import check_integer, check_text
from headrace.contracts.csv import CSV
from headrace.contracts.images import is_image_name
from headrace.contracts.records import files_of
from headrace.errors import UnknownFormat, UnsupportedData, Where, did_you_mean
from headrace.formats.example_files.manifest import NAMES as MANIFESTS
from headrace.formats.image_folder.write import NOTES
from headrace.formats.registry import endings, format_named, format_of_name, parse_csv_options
from headrace.formats.table.folders import FORMAT_NOTE, NOTE
from headrace.io.faults import refuse_special_file
from headrace.io.paths import expand_home
from headrace.io.store.upload import is_uploaded
from headrace.io.urls import is_url
from headrace.sources.images import ImagePaths
from headrace.sources.node import records_below, walk
from headrace.sources.source import Source

__all__ = ["COMPRESSION_SUFFIXES", "SHARD_PATTERN", "Target", "check_replaceable", "named_files", "refuse_inputs"]


CSV_DELIMITERS = {".tsv": "\t", ".tab": "\t", ".psv": "|"}
SHARD_PATTERN = re.compile(r"^(?P<stem>.+)@(?P<count>\d+)$")
COMPRESSION_SUFFIXES = {".gz": "gzip", ".gzip": "gzip", ".zlib": "zlib", ".zz": "zlib"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The files that a write or a conversion makes.

    Args:
        paths: The final file names or URLs, in order.
        format: How records are framed.
        compression: ``"none"``, ``"gzip"``, ``"zlib"``, or what else the format has (ArrayRecord: ``"zstd"``, ...).
        csv: How CSV is written.
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
        """The files that a path names.

        ``x.tfrecord`` is one file (``~/x.tfrecord`` in the home folder), ``x.tfrecord@8`` (or ``shards=8``) the eight ``x.tfrecord-00000-of-00008`` ..., and a
        name that ends in ``.gz`` is compressed with gzip.

        Raises:
            UnknownFormat: the name has no known ending and ``format`` is not given.
            UnsupportedData: Two shards are links to one file.
            ValueError: ``shards`` and the ``@`` in the path disagree, or are not positive.
        """
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"the path to write to is str or os.PathLike[str], got {type(path).__name__}")
        check_text(format, "format", CSV)
        check_text(compression, "compression")
        shards = check_integer(shards, "shards", least=1)
        text = expand_home(path)
        is_uploaded(text)
        found = SHARD_PATTERN.match(text)
        sharded = found is not None or shards != 1
        if found is not None:
            count = int(found["count"])
            if shards not in (1, count):
                raise ValueError(f"the path says {count} shards and shards= says {shards}")
            text, shards = found["stem"], count
        if shards < 1:  # in the path
            raise ValueError(f"shards must be at least 1, got {shards}")
        suffix = Path(text).suffix.lower()
        name = text[: -len(suffix)] if suffix in COMPRESSION_SUFFIXES else text
        options = parse_csv_options(format)
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
        if sharded and not is_uploaded(text):
            _check_apart(paths)
        if known == "csv":
            options = (options or CSV()).with_delimiter(CSV_DELIMITERS.get(Path(name).suffix.lower(), ","))
        return cls(paths=tuple(paths), format=known, compression=compression, csv=options)

    def bounds(self, n: int) -> list[tuple[int, int]]:
        """The range of ``n`` examples that goes into each file: consecutive ranges of nearly equal length."""
        return [self.bound(i, n) for i in range(len(self.paths))]

    def bound(self, number: int, n: int) -> tuple[int, int]:
        """The range that goes into one file."""
        return number * n // len(self.paths), (number + 1) * n // len(self.paths)

    def refuse_folder(self) -> None:
        """Refuse a folder in the place of a file, before anything is written."""
        for path in self.paths:
            if not is_uploaded(path) and Path(path).is_dir() and format_named(self.format).folder is None:
                raise UnsupportedData(
                    Where(path=path),
                    expected=f"a file to write {self.format} to",
                    found="a folder of that name",
                    hint="Give the name of a file in it, or remove the folder.",
                )


def _check_apart(paths: Sequence[str]) -> None:
    """Refuse shards of which one would replace another, because they are links to one file."""
    if not any(map(os.path.islink, paths)):
        return
    seen: dict[str, str] = {}
    for path in paths:
        place = os.path.realpath(path)
        other = seen.setdefault(place, path)
        if other != path:
            raise UnsupportedData(
                Where(path=path),
                expected="a file of its own for each shard",
                found=f"{place}, which {other} is, too",
                hint="Remove the link.",
            )


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


def named_files(source: Source) -> Iterator[str]:
    """The files that rows name, such as the images of a CSV."""
    for node in walk(source.node):
        if isinstance(node, ImagePaths):
            yield from node.files()


def check_replaceable(path: str, source: Source) -> None:
    """Refuse to replace a folder that holds more than a data set, such as a home folder: its files would be lost. Refuse pipes and devices, too.

    Raises:
        UnsupportedData: A pipe or a device is there. Or it holds a file of the source, or one that no format of folders writes; or the path is a link to a folder.
    """
    if is_url(path):
        return
    refuse_special_file(path)
    if not Path(path).is_dir():
        return
    if Path(path).is_symlink():
        raise UnsupportedData(
            Where(path=path), expected="a folder", found="a link to one", hint="Pass the folder that it leads to."
        )
    replaced = Path(path).resolve()
    of_records = (file for records in records_below(source.node) for file in files_of(records))
    for file in chain(of_records, named_files(source)):
        if not is_url(file) and any(replaced in found.parents for found in (Path(file).resolve(), _of_name(file))):
            raise UnsupportedData(
                Where(path=path),
                expected="a folder without files of the source, because a conversion replaces all that it holds",
                found=f"one with {file}",
                hint="Pass another folder.",
            )
    for folder, _, files in os.walk(path):
        for name in files:
            if not (
                name.endswith((".npy", ".npz"))
                or name in (FORMAT_NOTE, NOTE, *NOTES, *MANIFESTS)
                or is_image_name(name)
            ):
                raise UnsupportedData(
                    Where(path=path),
                    expected="a new folder, or one with examples only",
                    found=f"one with {(Path(folder) / name).relative_to(path)}",
                    hint="Remove the folder, or pass another one. overwrite=True replaces only folders of arrays or images.",
                )


def refuse_inputs(paths: Sequence[str], source: Source) -> None:
    """Refuse to replace one of several files that were opened together, as by a glob that matches the new file: a second run would add its rows again.

    All of them may be replaced, such as a file by a conversion of it.

    Raises:
        UnsupportedData: Some files of a set are among ``paths``, and some are not.
    """
    made = {path: path for path in paths if is_url(path)}
    made |= {os.path.realpath(path): path for path in paths if not is_url(path) and Path(path).exists()}
    for records in records_below(source.node) if made else ():
        read = [each if is_url(each) else os.path.realpath(each) for each in map(str, files_of(records))]
        replaced = next((made[each] for each in read if each in made), None)
        if replaced is not None and not made.keys() >= set(read):
            raise UnsupportedData(
                Where(path=replaced),
                expected="a new file that is none of those that are read",
                found=f"one of the {len(read)} files that are read together",
                hint="Its rows would be there twice after the next run. Pass another name, or one that the pattern does not match.",
            )


def _of_name(file: str) -> Path:
    """Where the name of a file is, which may be a link to it."""
    return Path(file).parent.resolve() / Path(file).name
