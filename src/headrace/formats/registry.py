"""Formats by name: our own, those that a program registers, and those of installed distributions.

A distribution adds a format by an entry point of the group ``headrace.formats``: its name is that of the format, its object the
:class:`~headrace.contracts.records.Format`. Entry points are read only when none of the other formats fits.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace as replace_fields
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.csv import CSV
from headrace.contracts.records import Format
from headrace.errors import UnknownFormat, Where, did_you_mean
from headrace.io.cache.inflate import SUFFIXES
from headrace.io.urls import base_name

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = [
    "GROUP",
    "OWN",
    "broken_entries",
    "each_format",
    "endings",
    "format_named",
    "format_names",
    "format_of_content",
    "format_of_name",
    "parse_csv_options",
    "register",
    "strip_number",
    "strip_shard",
]


class OwnFormat(NamedTuple):
    """What is known of a format of this package before its module is loaded, which takes longer than reading a small file."""

    place: str
    """Its module and name."""
    suffixes: tuple[str, ...] = ()
    """As in its :class:`~headrace.contracts.records.Format`."""
    begins: bytes | None = None
    """A pattern of the first bytes of all files that its ``knows`` accepts; ``None``: it accepts none."""


OWN = {
    "tfrecord": OwnFormat(
        "tfrecord.format:FORMAT", (".tfrecord", ".tfrecords", ".tfrec", ".tfr", ".record"), rb".{7}\0.{4}"
    ),
    "array_record": OwnFormat(
        "array_record.format:FORMAT", (".array_record", ".arrayrecord", ".riegeli"), rb"\x83\xaf\x70\xd1"
    ),
    "recordio": OwnFormat("recordio.format:FORMAT", (".recordio", ".rec", ".pbr", ".rio"), rb"\x0a\x23\xd7\xce"),
    "riegeli": OwnFormat("array_record.format:RIEGELI"),
    "npy": OwnFormat("npy.format:FORMAT", (".npy",), rb"\x93NUMPY"),
    "image_folder": OwnFormat("image_folder.format:FORMAT"),
    "npz": OwnFormat("npz.format:FORMAT", (".npz",), rb"PK\x03\x04"),
    "npy_folder": OwnFormat("example_files.format:NPY_FOLDER"),
    "npz_folder": OwnFormat("example_files.format:NPZ_FOLDER"),
    "parquet": OwnFormat("parquet.format:FORMAT", (".parquet", ".pq"), rb"PAR1"),
    "jsonl": OwnFormat("jsonl.format:FORMAT", (".jsonl", ".ndjson", ".jsonlines"), rb"(?:\xef\xbb\xbf)?\s*\{"),
    "avro": OwnFormat("avro.format:FORMAT", (".avro",), rb"Obj\x01"),
    "webdataset": OwnFormat("webdataset.format:FORMAT", (".tar", ".wds"), rb"[^\0]{,256}\0"),
    "csv": OwnFormat("csv.format:FORMAT", (".csv", ".tsv", ".tab", ".psv")),
}
"""The formats of this package, in the order of detection."""
GROUP = "headrace.formats"
"""The group of entry points."""
NAME = re.compile(r"[a-z][a-z0-9_]*")
SHARD_END = re.compile(r"-\d{5,}-of-\d{5,}$")
NUMBER_END = re.compile(r"[-_.]\d+$")

_loaded: dict[str, Format] = {}
"""The formats of :data:`OWN` loaded so far."""
_registered: dict[str, Format] = {}
"""The formats that :func:`register` added."""


def register(format: Format, *, replace: bool = False) -> None:
    """Add your own format. From then on this process opens, writes, converts, verifies and inspects its files.

    To add one to every process, a distribution declares an entry point in the group ``headrace.formats``.

    Args:
        format: The format. Our own formats are asked first, so its files must not look like theirs.
        replace: Whether it may replace a registered format of the same name.

    Raises:
        TypeError: It is no ``Format``.
        ValueError: Its name is taken, or is not made of lower-case letters, digits and underscores.

    >>> register(Format(name="csv", suffixes=(), knows=bool, open=list))
    Traceback (most recent call last):
    ValueError: the format name 'csv' is taken by Headrace itself
    """
    if not isinstance(format, Format):
        raise TypeError(f"expected a headrace.formats.Format, got {type(format).__name__}")
    if not NAME.fullmatch(format.name):
        raise ValueError(f"a format name has lower-case letters, digits and underscores, got {format.name!r}")
    if format.name in OWN:
        raise ValueError(f"the format name {format.name!r} is taken by Headrace itself")
    if format.name in _registered and not replace and _registered[format.name] is not format:
        raise ValueError(
            f"the format name {format.name!r} is taken: register(format, replace=True) replaces that format"
        )
    _registered[format.name] = format


def format_named(name: str | CSV) -> Format:
    """The format of this name, with the options that came with the name: ``hr.CSV(...)``, or ``"csv:header=no"``.

    Raises:
        UnknownFormat: There is none of that name, or its entry point is broken.
    """
    if isinstance(name, str) and (found := _loaded.get(name)) is not None:
        return found
    options = parse_csv_options(name)
    bare = "csv" if isinstance(name, CSV) else name.partition(":")[0].lower()
    found = None if isinstance(name, str) and ":" in name and options is None else _find(bare)
    if found is None:
        raise UnknownFormat(
            Where(),
            expected=f"one of the formats {format_names()}",
            found=repr(name),
            hint=did_you_mean(bare, format_names()),
        )
    if options is None or found.sink is None:
        return found
    sink = partial(found.sink, options=options)
    return replace_fields(found, open=partial(found.open, options=options), sink=sink, joined_writer=sink)


def _find(name: str) -> Format | None:
    if name in OWN:
        return _load_own(name)
    if name in _registered:
        return _registered[name]
    return _load_entry(name) if name in _entries() else None


def _load_own(name: str) -> Format:
    if name not in _loaded:
        module, _, value = OWN[name].place.partition(":")
        _loaded[name] = getattr(import_module(f"headrace.formats.{module}"), value)
    return _loaded[name]


def format_names() -> list[str]:
    """The names of all formats, including those with broken entry points."""
    return list(dict.fromkeys([*OWN, *_registered, *_entries()]))


def each_format(*, installed: bool = True) -> Iterator[Format]:
    """All formats: our own, those that were registered, and then, if ``installed``, those of other distributions that load.

    Each format is loaded when the iteration reaches it.
    """
    yield from map(_load_own, OWN)
    yield from _others(installed=installed)


def _others(*, installed: bool) -> Iterator[Format]:
    """The formats that are not our own."""
    yield from list(_registered.values())
    for name in _entries() if installed else ():
        if name not in OWN and name not in _registered and not isinstance(found := _try_entry(name), UnknownFormat):
            yield found


def broken_entries() -> list[str]:
    """The faults of installed entry points that cannot be loaded."""
    return [str(found) for name in _entries() if isinstance(found := _try_entry(name), UnknownFormat)]


@cache
def _entries() -> dict[str, list[EntryPoint]]:
    from importlib.metadata import entry_points  # takes a fifth of the time of loading `open`

    found: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=GROUP):
        found.setdefault(entry.name, []).append(entry)
    return found


@cache
def _try_entry(name: str) -> Format | UnknownFormat:
    try:
        return _load_entry(name)
    except UnknownFormat as error:
        return error


def _load_entry(name: str) -> Format:
    first, *others = _entries()[name]
    by = _distribution(first)
    if name in OWN:
        raise _broken_error(by, "a name that no format of Headrace itself has", repr(name), f"Uninstall {by}.")
    if others:
        every = sorted([by, *map(_distribution, others)])
        raise _broken_error(
            None, f"one distribution with a format {name!r}", ", ".join(every), "Uninstall all but one of them."
        )
    place = f"a headrace.formats.Format {name!r} at {first.value}"
    try:
        found = first.load()
    except Exception as error:
        raise _broken_error(by, place, f"{type(error).__name__}: {error}", f"Update or uninstall {by}.") from error
    if not isinstance(found, Format) or found.name != name or not NAME.fullmatch(name):
        shown = (
            f"a format named {found.name!r}"
            if isinstance(found, Format)
            else f"an object of type {type(found).__name__}"
        )
        raise _broken_error(by, place, shown, f"Update or uninstall {by}.")
    return found


def _distribution(entry: EntryPoint) -> str:
    return "an unknown distribution" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"


def _broken_error(by: str | None, expected: str, found: str, hint: str) -> UnknownFormat:
    of = "" if by is None else f" from the entry point of {by}"
    return UnknownFormat(Where(), expected=f"{expected}{of}", found=found, hint=hint)


def parse_csv_options(name: str | CSV | None) -> CSV | None:
    """The CSV options in the format that a caller gave; ``None`` without any."""
    if isinstance(name, CSV) or name is None:
        return name
    format, mark, options = name.partition(":")
    return CSV.parse(options) if mark and format.lower() == "csv" else None


def format_of_content(head: bytes, *, installed: bool = True) -> Format | None:
    """The format that the first bytes of a file identify, or ``None``. ``installed`` is as in :func:`format_of_name`."""
    if head:
        for own, known in OWN.items():
            if known.begins is not None and re.match(known.begins, head, re.DOTALL) and _load_own(own).knows(head):
                return _load_own(own)
        for found in _others(installed=installed):
            if found.knows(head):
                return found
    return None


def format_of_name(path: str | os.PathLike[str], *, installed: bool = True) -> str | None:
    """The format that a file name suggests, or ``None``.

    Args:
        path: The name.
        installed: Whether formats of other distributions count.

    >>> format_of_name("train.tfrecord-00000-of-00008"), format_of_name("train.tfrecord.gz"), format_of_name("notes")
    ('tfrecord', 'tfrecord', None)
    """
    name = SHARD_END.sub("", base_name(os.fspath(path)).lower())
    for suffix in SUFFIXES:
        name = name.removesuffix(suffix)
    name = SHARD_END.sub("", name)
    candidates = dict.fromkeys((name, NUMBER_END.sub("", name)))
    for own, known in OWN.items():
        if any(candidate.endswith(known.suffixes) for candidate in candidates):
            return own
    for found in _others(installed=installed):
        if any(candidate.endswith(found.suffixes) for candidate in candidates):
            return found.name
    return None


def strip_number(name: str) -> str:
    """A file name without the number of its shard.

    >>> strip_number("train.tfrecord-00000-of-00008"), strip_number("part.csv.3"), strip_number("sound.mp3")
    ('train.tfrecord', 'part.csv', 'sound.mp3')
    """
    return NUMBER_END.sub("", SHARD_END.sub("", name))


def strip_shard(path: str) -> str:
    """A path without the number of its shard.

    >>> strip_shard("data/train.tfrecord-00000-of-00008"), strip_shard("data/part.csv.3")
    ('data/train.tfrecord', 'data/part.csv.3')
    """
    return SHARD_END.sub("", path) if "-of-" in path else path


def endings() -> list[str]:
    """One file suffix, such as ``.tfrecord``, for each format that has any."""
    own = [known.suffixes[0] for known in OWN.values() if known.suffixes]
    return own + [found.suffixes[0] for found in _others(installed=True) if found.suffixes]
