"""From what people pass to records."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.contracts.records import OnCorrupt, Records
from penstock.formats.detect import detect, format_named
from penstock.io.paths import PathLike, expand

__all__ = ["open_records"]


def open_records(
    path: PathLike | Iterable[PathLike],
    *,
    format: str | None = None,
    compression: str | None = None,
    on_corrupt: OnCorrupt = "raise",
    verify: bool = True,
) -> Records:
    """The records of some files.

    Args:
        path: A file, a folder, a glob, a shard pattern (``x@8``, ``x-00000-of-00008``), or a list of those.
        format: How records are framed; ``None`` finds out from the first file's content, then from its name.
        compression: ``"gzip"``, ``"zlib"``, ``"none"``; ``None`` finds out for each file from its content.
        on_corrupt: ``"skip"`` goes on behind damaged records, where the framing allows, and counts them in ``skipped``.
        verify: ``False`` leaves payload checksums unchecked.

    Raises:
        NoFiles: Nothing is there.
        UnknownFormat: The format cannot be told.
    """
    paths = expand(path)
    found = format_named(format) if format is not None else detect(paths[0])
    return found.open(paths, compression=compression, on_corrupt=on_corrupt, verify=verify)
