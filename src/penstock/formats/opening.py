"""From what people pass to records."""

from __future__ import annotations

import os
from collections.abc import Iterable

from penstock import _registry
from penstock._arguments import choice, flag, word
from penstock.contracts.csv import CSV
from penstock.contracts.records import Format, OnCorrupt, Records
from penstock.errors import NoFiles, UnsupportedData, Where
from penstock.formats.detect import detect, format_named, format_of_name
from penstock.io.folders import Listing, Look, looking_into
from penstock.io.paths import PathLike, expand
from penstock.io.remote_names import stands_for_several
from penstock.io.urls import base_name, is_listing

__all__ = ["open_records", "records"]

LOOKED_AT = 1000  # objects: what a store lists with one answer


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
        path: A file, a folder, a glob, a shard pattern (``x@8``, ``x-00000-of-00008``), or a list of those.
        format: How records are framed; ``None`` finds out from the first file's content, then from its name.
            :class:`penstock.CSV` says how a CSV file is written.
        compression: ``"gzip"``, ``"zlib"``, ``"none"``; ``None`` finds out for each file from its content.
        on_corrupt: ``"skip"`` goes on behind damaged records, where the framing allows, and counts them in ``skipped``.
        verify: ``False`` leaves payload checksums unchecked.

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
            hint="Open it with penstock.open.",
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
    given = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    found = _format_of_folders(given, format)
    if found is not None:
        paths = [os.path.expanduser(folder) for folder in given]
    else:
        paths = expand(given[0] if isinstance(path, (str, os.PathLike)) else given)
        found = format_named(format) if format is not None else detect(paths[0])
        if format is None:
            _check_alike(paths, found)
    records: Records = found.open(paths, compression=compression, on_corrupt=on_corrupt, verify=verify)
    return records


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
        return Listing.of if os.path.isdir(path) else None
    if stands_for_several(path) or format_of_name(path) is not None:
        return None
    try:
        return looking_into(path, most=LOOKED_AT)
    except NoFiles:
        return None


def _check_alike(paths: list[str], first: Format) -> None:
    """Refuse a mixture that the names show: the files of a folder are read as what the first of them is."""
    endings: dict[str, str] = {}
    for path in paths:
        endings.setdefault(os.path.splitext(base_name(path))[1], path)
    for path in endings.values():
        name = format_of_name(path)
        if name not in (None, first.name):
            raise UnsupportedData(
                Where(path=path),
                expected=f"{first.name}, as {os.path.basename(paths[0])}",
                found=f"a {name} file",
                hint="Open the files of one format: a glob, or a list of paths.",
            )
