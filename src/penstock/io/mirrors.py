"""Copies of remote files in the cache, mapped: for what is read here and there, and has no ranges worth fetching."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import UnsupportedData, Where
from penstock.io.cache import CacheEntry, boot_id, cache_folder, cache_key, cache_limit_bytes
from penstock.io.inflated import note_of, read_note
from penstock.io.mapped import MappedFile
from penstock.io.remote_streams import RemoteStream

if TYPE_CHECKING:
    from penstock.io.remote import RemoteFile

__all__ = ["find_mirrored", "mirrored"]

VERSION = 1


def find_mirrored(file: RemoteFile) -> MappedFile | None:
    """The copy of this version of a file if the cache holds it."""
    entry = _entry(file)
    try:
        content = MappedFile(file.path, entry=str(entry))
    except OSError:
        return None
    if not read_note(content, file.path) or content.size != file.size:
        entry.unlink(missing_ok=True)
        return None
    os.utime(entry)  # The time of last use, by which the oldest are thrown out.
    return content


def mirrored(file: RemoteFile) -> MappedFile:
    """A copy of the file in the cache, mapped; fetched the first time.

    Raises:
        UnsupportedData: It does not fit into the cache.
    """
    found = find_mirrored(file)
    if found is None:
        entry = CacheEntry.claim(_entry(file), wait=True)
        if entry is not None:
            _fill(entry, file)
        found = find_mirrored(file)
    if found is None:
        raise UnsupportedData(
            Where(path=file.path),
            expected=f"room for its {file.size} bytes in the cache",
            found="none",
            hint="Raise PENSTOCK_CACHE_LIMIT, let PENSTOCK_CACHE_DIR name a folder on a larger disk, or copy the file to this machine.",
        )
    return found


def _fill(entry: CacheEntry, file: RemoteFile) -> None:
    limit = cache_limit_bytes(entry.path.parent)
    try:
        if file.size > limit or not all(entry.write(part) for part in RemoteStream(file)):
            return
        if entry.write(note_of(file.size, None)):
            entry.commit(limit, durable=not boot_id())
    finally:
        entry.abort()


def _entry(file: RemoteFile) -> Path:
    version = file.version
    key = cache_key(VERSION, file.path, version.size, version.etag, version.modified_ns)
    return cache_folder("inflated") / f"{key}.inflated"
