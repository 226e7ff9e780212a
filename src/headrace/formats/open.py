"""From the paths of a caller to records: finds the files and their format (by content, then by name), opens and verifies them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from headrace._arguments import check_choice, check_flag, check_text
from headrace.contracts.csv import CSV
from headrace.contracts.images import encoding_of
from headrace.contracts.protocols import File
from headrace.contracts.records import Checked, Format, OnCorrupt, Records, Table, is_table
from headrace.errors import NoFiles, UnknownFormat, UnsupportedData, Where
from headrace.formats.registry import (
    OWN,
    broken_entries,
    each_format,
    format_named,
    format_names,
    format_of_content,
    format_of_name,
    strip_number,
    strip_shard,
)
from headrace.formats.table.base import verify_rows
from headrace.formats.table.folders import refuse_managed
from headrace.io.cache.inflate import Compression, head_of, is_empty_stream, wrapper_of
from headrace.io.folders import Lister, Listing, lister_for
from headrace.io.local.open import open_file
from headrace.io.paths import PathLike, expand, is_folder, is_pipe, path_list
from headrace.io.urls import base_name, is_listing, is_url, is_url_pattern

__all__ = ["detect", "detect_first", "open_records", "records", "verify_records"]


HEAD_BYTES = 4096
"""The decompressed bytes in which the marks of formats are searched."""
SHOWN_BYTES = 12
SHOWN_TEXT = 40
LISTED = 1000
"""Objects listed at once to see what a folder in a store is: one answer of the store. The folders of larger trees are listed one by one."""
DEFAULTS: Mapping[str, tuple[Any, ...]] = {
    "on_corrupt": ("raise",),
    "verify": (True,),
    "compression": (None, "none", ""),
}
"""The values of reading options that every format supports."""
HINTS = {
    "compression": "Its files are not compressed as a whole. How they are compressed inside is found from them.",
    "on_corrupt": "In this format, damage cannot be told from the data after it: `headrace verify` lists it.",
    "verify": "It has no checksums that could be left unchecked.",
}
FOREIGN = {
    b"\x89HDF\r\n": "an HDF5 file",
    b"SQLite format 3": "an SQLite database",
    b"ARROW1": "an Arrow IPC file",
    b"PK\x03\x04": "a ZIP archive that is no .npz",
    b"7z\xbc\xaf": "a 7z archive",
    b"%PDF": "a PDF",
}
"""First bytes of common files that Headrace does not read."""
STREAMS = {
    b"BZh91AY&SY": "a bzip2 stream",
    b"\xfd7zXZ\0": "an xz stream",
    b"\x28\xb5\x2f\xfd": "a Zstandard stream",
    b"\x04\x22\x4d\x18": "an LZ4 stream",
}
"""First bytes that show, whatever the name of the file, what it is."""
PAGES = (b"<!doctype html", b"<html")
PAGE_HINT = "A server may answer with a page to log in, or with an error. Open it in a browser to see."


def records(
    path: PathLike | Iterable[PathLike],
    *,
    format: str | CSV | None = None,
    compression: str | None = None,
    on_corrupt: OnCorrupt = "raise",
    verify: bool = True,
) -> Records:
    """Open files as a random-access sequence of records: bytes by index.

    Args:
        path: A file, a folder, a glob, a set of shards (``x@8``, ``x@*``), or a list of those.
        format: The framing of records; by default from the first file's content, then from its name.
            :class:`headrace.CSV` is the dialect of a CSV file.
        compression: ``"gzip"``, ``"zlib"``, ``"none"``; by default from the content of each file.
        on_corrupt: ``"skip"`` continues after damaged records and counts them in ``skipped``. Formats that cannot
            separate damage from the data after it refuse it.
        verify: ``False`` leaves payload checksums unchecked. Formats without any refuse it.

    Returns:
        A sequence: ``records[i]`` is a :class:`memoryview`, which stays valid for as long as it is held; iteration reads in order.

    Raises:
        NoFiles: There are no such files.
        UnknownFormat: The files are of no known format.
        UnsupportedData: The files hold typed columns, not records of bytes.
    """
    found = open_records(path, format=format, compression=compression, on_corrupt=on_corrupt, verify=verify)
    if not hasattr(type(found), "__getitem__"):
        raise UnsupportedData(
            Where(path=found.paths[0]),
            expected="records of bytes",
            found=f"{found.format}, which holds typed columns",
            hint="Open it with headrace.open.",
        )
    return found


def open_records(
    path: PathLike | Iterable[PathLike],
    *,
    format: str | CSV | None = None,
    compression: str | None = None,
    on_corrupt: OnCorrupt = "raise",
    verify: bool = True,
) -> Records:
    """As :func:`records`, but also opens tables, whose rows need not be bytes."""
    check_text(format, "format", CSV)
    check_text(compression, "compression")
    check_choice(on_corrupt, "on_corrupt", ("raise", "skip"))
    verify = check_flag(verify, "verify")
    given = path_list(path)
    try:
        if format is None:
            found, paths = _find_format(given)
        else:
            found = format_named(format)
            folders = [] if found.folder is None else _folders(given)
            paths = [folder for folder, _ in folders] or expand(given)
    except NoFiles:
        refuse_managed(given)
        raise
    if paths != given:  # a folder or a pattern
        refuse_managed(given, paths)
    paths = _fix_paths(paths)
    given_options = {"on_corrupt": on_corrupt, "verify": verify, "compression": compression}
    records: Records = found.open(paths, **_check_options(found, paths[0], given_options))
    return records


def _fix_paths(paths: list[str]) -> list[str]:
    """Paths that stay right when the process changes its folder. They are not normalized, because a ``..`` may follow a link."""
    if all(map(os.path.isabs, paths)):
        return paths
    here = os.getcwd()  # once: it is a system call, and there may be thousands of paths
    return [path if "://" in path and is_url(path) else os.path.join(here, path) for path in paths]


def _find_format(given: list[PathLike]) -> tuple[Format, list[str]]:
    """The format of the given paths, and the files; or the folders themselves, if each of them is one data set."""
    folders = _folders(given)
    for format in each_format(installed=False) if folders else ():
        if _claims(format, folders):
            return format, [folder for folder, _ in folders]
    try:
        paths = expand(given)
        found = detect_first(paths)
    except (NoFiles, UnknownFormat):
        if (installed := _find_installed(folders)) is None:
            raise
        return installed, [folder for folder, _ in folders]
    # A folder of .jsonl files may be a data set of an installed format with notes.
    if folders and found.name == "jsonl" and (installed := _find_installed(folders)) is not None:
        return installed, [folder for folder, _ in folders]
    if len(paths) > 1:
        _check_alike(paths, found)
    return found, paths


def _find_installed(folders: list[tuple[str, Lister]]) -> Format | None:
    """The format of another distribution of which each of some folders is one data set."""
    others = (format for format in each_format() if format.name not in OWN) if folders else ()
    return next((format for format in others if _claims(format, folders)), None)


def _claims(format: Format, folders: list[tuple[str, Lister]]) -> bool:
    """Whether each of some folders is one data set of a format."""
    claims = format.folder
    return claims is not None and all(claims(folder, look) for folder, look in folders)


def _folders(given: list[PathLike]) -> list[tuple[str, Lister]]:
    """The folders, each with a listing; empty if one of the paths is not a folder."""
    found = []
    for path in given:
        folder = os.path.expanduser(path)
        look = _look_into(folder)
        if look is None:
            return []
        found.append((folder, look))
    return found


def _look_into(path: str) -> Lister | None:
    """A listing of a folder; ``None`` if the path is not one."""
    if "://" not in path or not is_listing(path):
        return cache(Listing.of) if is_folder(path) else None  # several formats ask for the same one
    if is_url_pattern(path) or format_of_name(path, installed=False) is not None:
        return None
    try:
        return lister_for(path, most=LISTED)
    except NoFiles:
        return None


def _check_options(format: Format, path: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The reading options that a format supports.

    Raises:
        UnsupportedData: One that it does not support has another value than its default.
    """
    supported = format.options | {"compression"} if format.compressible else format.options
    for name, value in given.items():
        if name not in supported and value not in DEFAULTS[name]:
            raise UnsupportedData(
                Where(path=path),
                expected=f"{name}={DEFAULTS[name][0]!r}, the only value that {format.name} supports",
                found=f"{name}={value!r}",
                hint=HINTS[name],
            )
    return {name: value for name, value in given.items() if name in supported}


def _check_alike(paths: list[str], first: Format) -> None:
    """Refuse files of several formats: a folder is read in the format of its first file.

    If a name suggests another format, the content of that file decides.
    """
    if len(paths) == 1:
        return
    alike: dict[str, str] = {}
    for path in paths:  # The shards of a set have one name. There may be thousands of them.
        alike.setdefault(strip_shard(path), path)
    endings: dict[str, str] = {}
    for name, path in alike.items():
        endings.setdefault(os.path.splitext(strip_number(base_name(name)))[1], path)
    for path in endings.values():
        if path == paths[0] or format_of_name(path, installed=False) in (None, first.name):
            continue
        name = detect(path).name
        if name != first.name:
            raise UnsupportedData(
                Where(path=path),
                expected=f"{first.name}, as {os.path.basename(paths[0])}",
                found=f"a file of {name}",
                hint="Open the files of one format: a glob, or a list of paths.",
            )


def detect_first(paths: Sequence[str]) -> Format:
    """The format of the first of some files. If that is empty and its name shows no format, the first one with content decides.

    Raises:
        UnknownFormat, UnsupportedData: As :func:`detect`.
    """
    try:
        return detect(paths[0])
    except UnknownFormat:
        filled = next((path for path in paths[1:] if not _is_empty(path)), None) if _is_empty(paths[0]) else None
        if filled is None:
            raise
    return detect(filled)


def _is_empty(path: str) -> bool:
    """Whether a file has no content, or is a compressed stream without any."""
    if is_pipe(path):
        return False  # It gives its bytes once.
    head = bytes(open_file(path).read(0, HEAD_BYTES))
    return not head or is_empty_stream(head)


def detect(path: str) -> Format:
    """The format of one file: by marks in its content, then by its name unless it contains rows of text, then by those rows.

    Raises:
        UnknownFormat: Neither its content nor its name shows a format; the message shows both.
        UnsupportedData: A compressed file of a format that is not read compressed.
    """
    if is_pipe(path):  # It gives its bytes once.
        return _by_name(path, b"", None)
    file = open_file(path)
    head = bytes(file.read(0, HEAD_BYTES))
    wrapper = wrapper_of(head)
    # No format begins as GZIP does, and asking all formats would load them all.
    found = None if wrapper == "gzip" else format_of_content(head, installed=False)
    if found is not None:
        return found
    inner = b"" if wrapper == "none" else head_of(head, wrapper, HEAD_BYTES)
    own_name = format_of_name(path, installed=False)
    found = format_of_content(inner, installed=False) or (None if own_name else format_of_content(inner or head))
    if found is not None:
        return _check_compressible(found, path, wrapper) if inner else found
    if own_name != "csv" and _holds_rows(file, wrapper if inner else "none"):
        return format_named("csv")
    return _by_name(path, inner or head, file.size)


def _check_compressible(found: Format, path: str, wrapper: str) -> Format:
    if found.compressible:
        return found
    by_server = " If only its server compresses it (Content-Encoding), copy it to this machine."
    raise UnsupportedData(
        Where(path=path),
        expected=f"a plain {found.name} file",
        found=f"one in a {wrapper} stream",
        hint="Decompress it first, as with gunzip." + (by_server if path.startswith("http") else ""),
    )


def _holds_rows(file: File, wrapper: Compression) -> bool:
    """Whether a file contains rows of text, with any name. Its first bytes show whether it is binary."""
    from headrace.formats.csv.sniff import SNIFFED_BYTES, is_text, looks_like_rows  # imported here: few files are asked

    if wrapper == "none" and not is_text(bytes(file.read(0, HEAD_BYTES))):
        return False
    content = bytes(file.read(0, SNIFFED_BYTES))
    inner = content if wrapper == "none" else head_of(content, wrapper, SNIFFED_BYTES)
    return looks_like_rows(inner, whole=file.size <= SNIFFED_BYTES and len(inner) < SNIFFED_BYTES)


def _by_name(path: str, head: bytes, size: int | None) -> Format:
    name = format_of_name(path)
    if name is None:
        raise _unknown_format_error(path, head, size)
    other = _find_stream(head)
    if other is not None:
        hint = PAGE_HINT if other == "a web page" else "Decompress it first."
        raise UnknownFormat(Where(path=path), expected=f"{name}, as the name says", found=other, hint=hint)
    return format_named(name)


def _find_stream(head: bytes) -> str | None:
    """What a file is that no name makes another; ``None`` if it may be anything."""
    if head[:256].lstrip().lower().startswith(PAGES):
        return "a web page"
    return next((name for mark, name in STREAMS.items() if head.startswith(mark)), None)


def _unknown_format_error(path: str, head: bytes, size: int | None) -> UnknownFormat:
    """The error for a file of unknown format: what it seems to be, and what to do."""
    from headrace.formats.csv.sniff import is_text  # imported here, because other formats are recognised without it
    from headrace.io.json_text import ARRAY_HINT

    kind = encoding_of(head, size)
    foreign = _find_stream(head) or next((name for mark, name in FOREIGN.items() if head.startswith(mark)), None)
    hint = "If you know the format, name it: format='tfrecord'."
    if kind is not None:
        found = f"one {kind} image"
        hint = "Open the folder that images are in, or the folder of those folders; format='image_folder' ignores other files in them."
    elif foreign is not None:
        found = foreign
        hint = "Decompress it first." if foreign.endswith("stream") else "Convert it to one of these formats first."
        hint = PAGE_HINT if foreign == "a web page" else hint
    elif is_empty_stream(head):
        found = f"an empty {wrapper_of(head)} stream, unknown extension"
    elif not head:
        found = "an empty file, unknown extension" if size is not None else "a pipe, unknown extension"
    elif is_text(head):
        found = f"text that begins {head[:SHOWN_TEXT].decode('utf-8', 'replace')!r}"
        hint = "If it is CSV, name it: format='csv', or hr.CSV(...) with its delimiter; JSON Lines is format='jsonl'."
        if b"".join(head[:SHOWN_TEXT].split()).startswith(b"[{"):
            hint = ARRAY_HINT
    else:
        found = f"the first bytes {head[:SHOWN_BYTES].hex(' ')}"
    return UnknownFormat(
        Where(path=path),
        expected=f"a file of {' or '.join(format_names())}",
        found=found,
        hint=" ".join([hint, *(f"Broken format: {fault}" for fault in broken_entries())]),
    )


def verify_records(records: Records | Table) -> Iterator[Checked]:
    """Check everything in some files, and report damage instead of raising it.

    Raises:
        NoFiles: A file is gone.
    """
    if not hasattr(records, "format"):
        raise TypeError(f"there are no checks for {type(records).__name__}")
    format = format_named(records.format)
    if format.verify is not None:
        yield from format.verify(records)
    elif is_table(records):
        for path in records.paths:
            yield from verify_rows(format.open([path]), path)
    else:
        raise TypeError(f"the format {format.name!r} gives no checks")
