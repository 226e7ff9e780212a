"""Which format a file has: by its content first, then by its name."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from functools import partial

from penstock import _registry
from penstock.contracts.csv import CSV
from penstock.contracts.image_kinds import encoding_of
from penstock.contracts.protocols import File
from penstock.contracts.records import Format
from penstock.errors import UnknownFormat, UnsupportedData, Where
from penstock.io.compression import SUFFIXES, head_of, wrapper_of
from penstock.io.pipes import is_pipe
from penstock.io.reading import open_file
from penstock.io.urls import base_name

__all__ = ["csv_options", "detect", "endings", "format_named", "format_of_name"]

HEAD_BYTES = 64
PACKED_BYTES = 4096  # of a compressed file, which inflate to as much as that
SHOWN_BYTES = 12
SHARD_END = re.compile(r"-\d{5,}-of-\d{5,}$")
NUMBER_END = re.compile(r"[-_.]\d+$")


def format_named(name: str | CSV) -> Format:
    """The format that a caller named, with the options that came with the name: ``ps.CSV(...)``, or ``"csv:header=no"``.

    Raises:
        UnknownFormat: There is none of that name.
    """
    options = csv_options(name)
    bare = "csv" if isinstance(name, CSV) else name.partition(":")[0].lower()
    place = _registry.FORMATS.get(bare)
    if place is None or (isinstance(name, str) and ":" in name and options is None):
        raise UnknownFormat(Where(), expected=f"one of the formats {list(_registry.FORMATS)}", found=repr(name))
    found: Format = _registry.load(place)
    if options is None or found.sink is None:
        return found
    return replace(found, open=partial(found.open, options=options), sink=partial(found.sink, options=options))


def csv_options(name: str | CSV | None) -> CSV | None:
    """The options of CSV in what a caller named; ``None`` where there are none."""
    if isinstance(name, CSV) or name is None:
        return name
    format, mark, options = name.partition(":")
    return CSV.parse(options) if mark and format.lower() == "csv" else None


def format_of_name(path: str | os.PathLike[str]) -> str | None:
    """The format that a file name means; ``None`` where it does not tell.

    >>> format_of_name("train.tfrecord-00000-of-00008"), format_of_name("train.tfrecord.gz"), format_of_name("notes")
    ('tfrecord', 'tfrecord', None)
    """
    name = SHARD_END.sub("", base_name(os.fspath(path)).lower())
    for suffix in SUFFIXES:
        name = name.removesuffix(suffix)
    name = SHARD_END.sub("", name)
    for candidate in (name, NUMBER_END.sub("", name)):
        for found in map(format_named, _registry.FORMATS):
            if candidate.endswith(found.suffixes):
                return found.name
    return None


def endings() -> list[str]:
    """One ending of a file name for each format that has some, as ``.tfrecord``."""
    return [found.suffixes[0] for found in map(format_named, _registry.FORMATS) if found.suffixes]


def detect(path: str) -> Format:
    """The format of one file.

    Raises:
        UnknownFormat: Neither its first bytes nor its name tell; the message shows both.
        UnsupportedData: A compressed file of a format that is not read compressed.
    """
    file = None if is_pipe(path) else open_file(path)  # A pipe cannot be looked into.
    head = b"" if file is None else bytes(file.read(0, HEAD_BYTES))
    is_gzip = wrapper_of(head) == "gzip"  # No format begins so; asking them all would load them all.
    if file is not None and is_gzip and (inner := _inside(file, head)) is not None:
        return inner
    for found in map(format_named, _registry.FORMATS):
        if found.knows(head):
            return found
    if file is not None and not is_gzip and (inner := _inside(file, head)) is not None:
        return inner
    name = format_of_name(path)
    if name is not None:
        return format_named(name)
    raise _unknown(path, head, None if file is None else file.size)


def _unknown(path: str, head: bytes, size: int | None) -> UnknownFormat:
    """What is there instead, and what can be done about it."""
    kind = encoding_of(head, size)
    found, hint = (
        f"the first bytes {head[:SHOWN_BYTES].hex(' ')}",
        "If you know the format, name it: format='tfrecord'.",
    )
    if kind is not None:
        found, hint = (
            f"one {kind} image",
            "Images are opened by the folder that they lie in, or the folder of those folders.",
        )
    elif not head:
        found = f"{'an empty file' if size is not None else 'a pipe'} with a name that does not tell"
    return UnknownFormat(
        Where(path=path), expected=f"a file of {' or '.join(_registry.FORMATS)}", found=found, hint=hint
    )


def _inside(file: File, head: bytes) -> Format | None:
    """The format in a compressed file."""
    wrapper = wrapper_of(head)
    inner = b"" if wrapper == "none" else head_of(file.read(0, PACKED_BYTES), wrapper, HEAD_BYTES)
    for found in map(format_named, _registry.FORMATS):
        if inner and found.knows(inner):
            if not found.compressible:
                raise UnsupportedData(
                    Where(path=file.path),
                    expected=f"a plain {found.name} file",
                    found=f"one in a {wrapper} stream",
                    hint="Decompress it first, as with gunzip.",
                )
            return found
    return None
