"""Which format a file has: by its content first, then by its name."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from functools import partial

from headrace import _registry
from headrace.contracts.csv import CSV
from headrace.contracts.images import encoding_of
from headrace.contracts.protocols import File
from headrace.contracts.records import Format
from headrace.errors import UnknownFormat, UnsupportedData, Where, did_you_mean
from headrace.formats.csv.sniff import SNIFFED_BYTES, is_text, looks_like_rows
from headrace.io.cache.inflate import SUFFIXES, Compression, head_of, wrapper_of
from headrace.io.local.open import open_file
from headrace.io.local.pipes import is_pipe
from headrace.io.urls import base_name

__all__ = ["csv_options", "detect", "endings", "format_named", "format_of_name"]

HEAD_BYTES = 4096  # of a file, decompressed: what is looked at for the marks of formats
SHOWN_BYTES = 12
SHOWN_TEXT = 40
FOREIGN = {
    b"\x89HDF\r\n": "an HDF5 file",
    b"SQLite format 3": "an SQLite database",
    b"ARROW1": "an Arrow IPC file",
    b"PK\x03\x04": "a ZIP archive that is no .npz",
    b"BZh": "a bzip2 stream",
    b"\xfd7zXZ\0": "an xz stream",
    b"\x28\xb5\x2f\xfd": "a Zstandard stream",
    b"7z\xbc\xaf": "a 7z archive",
    b"%PDF": "a PDF",
}
"""First bytes of files that people have and Headrace does not read."""
SHARD_END = re.compile(r"-\d{5,}-of-\d{5,}$")
NUMBER_END = re.compile(r"[-_.]\d+$")


def format_named(name: str | CSV) -> Format:
    """The format that a caller named, with the options that came with the name: ``hr.CSV(...)``, or ``"csv:header=no"``.

    Raises:
        UnknownFormat: There is none of that name.
    """
    options = csv_options(name)
    bare = "csv" if isinstance(name, CSV) else name.partition(":")[0].lower()
    place = _registry.FORMATS.get(bare)
    if place is None or (isinstance(name, str) and ":" in name and options is None):
        raise UnknownFormat(
            Where(),
            expected=f"one of the formats {list(_registry.FORMATS)}",
            found=repr(name),
            hint=did_you_mean(bare, _registry.FORMATS),
        )
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
    """The format of one file: by the marks in its content; then by its name, unless it is a text of rows; then by those rows.

    Raises:
        UnknownFormat: Neither its content nor its name tell; the message shows both.
        UnsupportedData: A compressed file of a format that is not read compressed.
    """
    if is_pipe(path):  # It cannot be looked into.
        return _by_name(path, b"", None)
    file = open_file(path)
    head = bytes(file.read(0, HEAD_BYTES))
    wrapper = wrapper_of(head)
    is_gzip = wrapper == "gzip"  # No format begins so; asking them all would load them all.
    found = None if is_gzip else _marked(head)
    if found is not None:
        return found
    inner = b"" if wrapper == "none" else head_of(head, wrapper, HEAD_BYTES)
    found = _marked(inner)
    if found is not None:
        return _compressed(found, path, wrapper)
    if format_of_name(path) != "csv" and _holds_rows(file, wrapper if inner else "none"):
        return format_named("csv")
    return _by_name(path, inner or head, file.size)


def _marked(head: bytes) -> Format | None:
    """The format that the first bytes show."""
    return next((found for found in map(format_named, _registry.FORMATS) if head and found.knows(head)), None)


def _compressed(found: Format, path: str, wrapper: str) -> Format:
    if found.compressible:
        return found
    raise UnsupportedData(
        Where(path=path),
        expected=f"a plain {found.name} file",
        found=f"one in a {wrapper} stream",
        hint="Decompress it first, as with gunzip.",
    )


def _holds_rows(file: File, wrapper: Compression) -> bool:
    """Whether a file is text of rows, whatever its name says. Binary files are known by their first bytes."""
    head = bytes(file.read(0, HEAD_BYTES))
    if wrapper == "none" and not is_text(head):
        return False
    content = bytes(file.read(0, SNIFFED_BYTES))
    inner = content if wrapper == "none" else head_of(content, wrapper, SNIFFED_BYTES)
    return looks_like_rows(inner, whole=file.size <= SNIFFED_BYTES and len(inner) < SNIFFED_BYTES)


def _by_name(path: str, head: bytes, size: int | None) -> Format:
    name = format_of_name(path)
    if name is None:
        raise _unknown(path, head, size)
    return format_named(name)


def _unknown(path: str, head: bytes, size: int | None) -> UnknownFormat:
    """What is there instead, and what can be done about it."""
    kind = encoding_of(head, size)
    foreign = next((words for mark, words in FOREIGN.items() if head.startswith(mark)), None)
    hint = "If you know the format, name it: format='tfrecord'."
    if kind is not None:
        found, hint = (
            f"one {kind} image",
            "Images are opened by the folder that they lie in, or the folder of those folders.",
        )
    elif foreign is not None:
        found = foreign
        hint = "Decompress it first." if foreign.endswith("stream") else "Convert it to one of these formats first."
    elif not head:
        found = "an empty file, unknown extension" if size is not None else "a pipe, unknown extension"
    elif is_text(head):
        found = f"text that begins {head[:SHOWN_TEXT].decode('utf-8', 'replace')!r}"
        hint = "If it is CSV, name it: format='csv', or hr.CSV(...) with its delimiter; JSON Lines is format='jsonl'."
    else:
        found = f"the first bytes {head[:SHOWN_BYTES].hex(' ')}"
    return UnknownFormat(
        Where(path=path), expected=f"a file of {' or '.join(_registry.FORMATS)}", found=found, hint=hint
    )
