"""From what people pass to records."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from headrace import _registry
from headrace._arguments import choice, flag, word
from headrace.contracts.csv import CSV
from headrace.contracts.records import Format, OnCorrupt, Records
from headrace.errors import NoFiles, UnsupportedData, Where
from headrace.formats.detect import detect, format_named, format_of_name
from headrace.io.folders import Listing, Look, looking_into
from headrace.io.paths import PathLike, expand, is_folder, path_list
from headrace.io.store.names import stands_for_several
from headrace.io.urls import base_name, is_listing

__all__ = ["open_records", "records"]


LOOKED_AT = 1000  # objects: what a store lists with one answer
KNOWN: Mapping[str, tuple[Any, Any]] = {"on_corrupt": ("raise", "skip"), "verify": (True, False)}
"""The options of reading that not every format can honour: the default, and the other value."""
HINTS = {
    "on_corrupt": "What is damaged cannot be told from what follows it: `headrace verify` lists it.",
    "verify": "It has no checksums that could be left unchecked.",
}


def records(
    path: PathLike | Iterable[PathLike],
    *,
    format: str | CSV | None = None,
    compression: str | None = None,
    on_corrupt: OnCorrupt = "raise",
    verify: bool = True,
) -> Records:
    """The records of some files: bytes by index.

    Args:
        path: A file, a folder, a glob, a set of shards (``x@8``, ``x@*``), or a list of those.
        format: How records are framed; ``None`` finds out from the first file's content, then from its name.
            :class:`headrace.CSV` says how a CSV file is written.
        compression: ``"gzip"``, ``"zlib"``, ``"none"``; ``None`` finds out for each file from its content.
        on_corrupt: ``"skip"`` goes on behind damaged records and counts them in ``skipped``. Formats in which they cannot be told from
            what follows refuse it.
        verify: ``False`` leaves payload checksums unchecked. Formats without any refuse it.

    Raises:
        NoFiles: Nothing is there.
        UnknownFormat: The format cannot be told.
        UnsupportedData: The files hold typed columns, and no records of bytes.
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
    """As :func:`records`; of formats of tables, the table, whose rows need not be bytes."""
    word(format, "format", CSV)
    word(compression, "compression")
    choice(on_corrupt, "on_corrupt", ("raise", "skip"))
    verify = flag(verify, "verify")
    given = path_list(path)
    found = _format_of_folders(given, format)
    if found is not None:
        paths = [os.path.expanduser(folder) for folder in given]
    else:
        paths = expand(given)
        found = format_named(format) if format is not None else detect(paths[0])
        if format is None:
            _check_alike(paths, found)
    options = _options(found, paths[0], {"on_corrupt": on_corrupt, "verify": verify})
    records: Records = found.open(paths, compression=compression, **options)
    return records


def _options(format: Format, path: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Those of some options that a format honours.

    Raises:
        UnsupportedData: One that it does not has another value than its default.
        ValueError: A value that no format knows.
    """
    for name, value in given.items():
        default, *others = KNOWN[name]
        if value is not default and value not in (default, *others):
            raise ValueError(f"{name} must be {default!r} or {others[0]!r}, got {value!r}")
        if value != default and name not in format.options:
            raise UnsupportedData(
                Where(path=path),
                expected=f"{name}={default!r}, which is all that {format.name} knows",
                found=f"{name}={value!r}",
                hint=HINTS[name],
            )
    return {name: value for name, value in given.items() if name in format.options}


def _format_of_folders(paths: list[PathLike], format: str | CSV | None) -> Format | None:
    """The format of which folders are, as a whole, one thing; ``None`` where folders stand for their files, or are none."""
    folders = [os.path.expanduser(path) for path in paths]
    looks = [_look_into(folder) for folder in folders]
    if not folders or None in looks:
        return None
    for found in map(format_named, _registry.FORMATS if format is None else [format]):
        if found.folder is not None and (format is not None or all(map(found.folder, folders, looks))):
            return found
    return None


def _look_into(path: object) -> Look | None:
    """How to look into a folder; ``None`` where it is none. Of a store, some of its objects are enough to tell."""
    if not isinstance(path, str):
        return None
    if not is_listing(path):
        return Listing.of if is_folder(path) else None
    if stands_for_several(path) or format_of_name(path) is not None:
        return None
    try:
        return looking_into(path, most=LOOKED_AT)
    except NoFiles:
        return None


def _check_alike(paths: list[str], first: Format) -> None:
    """Refuse a mixture: the files of a folder are read as what the first of them is.

    A file is looked into where its name means another format; what is in it decides.
    """
    endings: dict[str, str] = {}
    for path in paths:
        endings.setdefault(os.path.splitext(base_name(path))[1], path)
    for path in endings.values():
        if format_of_name(path) in (None, first.name) or path == paths[0]:
            continue
        name = detect(path).name
        if name != first.name:
            raise UnsupportedData(
                Where(path=path),
                expected=f"{first.name}, as {os.path.basename(paths[0])}",
                found=f"a {name} file",
                hint="Open the files of one format: a glob, or a list of paths.",
            )
