"""Copies of remote files in the cache, mapped from there: for random access to files that cannot be read by range."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from headrace.errors import Where
from headrace.io.cache.folder import (
    ATTEMPTS,
    ONE_USE,
    CacheEntry,
    cache_folder,
    cache_key,
    cache_limit_bytes,
    entry_path,
    is_trusted,
    open_entry,
)
from headrace.io.faults import LostConnection, NoCacheSpace, cache_emptied_error, file_changed_error
from headrace.io.local.mapped import MappedFile
from headrace.io.store.client import RETRIES
from headrace.io.store.requests import check_unchanged, pause_before_retry, stream_object, stream_plainly
from headrace.io.store.stream import BLOCK_BYTES, RemoteObject, RemoteStream
from headrace.io.system import boot_id

__all__ = ["check_copy", "copy_to_cache", "download_copy", "find_copy", "make_private_copy"]


VERSION = 2


def find_copy(file: RemoteObject) -> MappedFile | None:
    """The copy of this version of a file, if the cache has it."""
    if not file.is_certain:
        return file.copy() if file.has_copy else None
    return _open_entry(file, _entry_path(file))


def make_private_copy(file: RemoteObject) -> MappedFile:
    """A copy for one open file only, because changes of the object cannot be detected.

    Raises:
        UnsupportedData: The object does not fit into the cache.
    """
    for attempt in range(ATTEMPTS):
        path, entry = _claim_private()
        if entry is not None:
            try:
                _fill(entry, file, stream_object(file.path, file.version, BLOCK_BYTES) if file.size else ())
            except LostConnection as error:
                _retry(attempt, error)
                continue
        found = _open_entry(file, path)
        if found is not None:
            return found
        if entry is not None and not entry.may_be_again:
            break
    else:
        raise cache_emptied_error(file.path)
    raise _room_error(file.path, f"its {file.size} bytes")


def download_copy(url: str) -> MappedFile:
    """A copy for one open file only, of an object whose server does not say how long it is.

    Raises:
        UnsupportedData: The object does not fit into the cache.
    """
    for attempt in range(ATTEMPTS):
        path, entry = _claim_private()
        if entry is not None:
            try:
                limit = cache_limit_bytes(path.parent)
                parts = stream_plainly(url, BLOCK_BYTES)
                fits = all(entry.size + len(part) <= limit and entry.write(part) for part in parts)
                if fits and entry.write_note(None):
                    entry.commit(limit, durable=not boot_id())
            except LostConnection as error:
                _retry(attempt, error)
                continue
            finally:
                entry.abort()
        found = open_entry(url, path)
        if found is not None:
            return found
        if entry is not None and not entry.may_be_again:
            break
    else:
        raise cache_emptied_error(url)
    raise _room_error(url, "all of it")


def _retry(attempt: int, error: LostConnection) -> None:
    """Pause before the next attempt; after the last one, raise its error."""
    if attempt >= RETRIES:
        raise error
    pause_before_retry(attempt)


def _claim_private() -> tuple[Path, CacheEntry | None]:
    """A new entry of the cache, for one open file only."""
    path = cache_folder("inflated") / f"{ONE_USE}{os.urandom(12).hex()}.inflated"
    return path, CacheEntry.claim(path, wait=True)


def check_copy(file: MappedFile) -> None:
    """Compare a file with its checksums if it is a copy in the cache. Called before an error blames the original.

    Raises:
        CorruptFile: The copy is damaged. It is removed, so it is made again when the file is next opened.
    """
    entry = Path(file.opened)
    if file.opened == os.path.abspath(file.path) or not entry.exists():
        return
    if open_entry(file.path, entry, compare=True) is None:
        raise file_changed_error(file.path, size=None, found="a damaged one", what="copy in the cache")


def _open_entry(file: RemoteObject, entry: Path) -> MappedFile | None:
    if not entry.name.startswith(ONE_USE) and not is_trusted(entry):
        return None
    return open_entry(file.path, entry, size=file.size)


def copy_to_cache(file: RemoteObject) -> MappedFile:
    """A mapped copy in the cache, fetched on first use.

    Raises:
        UnsupportedData: The object does not fit into the cache.
    """
    if not file.is_certain:
        return file.copy()
    for _ in range(ATTEMPTS):
        found = find_copy(file)
        if found is not None:
            return found
        entry = CacheEntry.claim(_entry_path(file), wait=True)
        if entry is not None:
            _fill(entry, file, RemoteStream(file))
            if not entry.may_be_again:
                break
    else:
        raise cache_emptied_error(file.path)
    raise _room_error(file.path, f"its {file.size} bytes")


def _room_error(path: str, needed: str) -> NoCacheSpace:
    return NoCacheSpace(
        Where(path=path),
        expected=f"space for {needed} in the cache",
        found="none",
        hint="Raise HEADRACE_CACHE_LIMIT, let HEADRACE_CACHE_DIR name a folder on a larger disk, or copy the file to this machine.",
    )


def _fill(entry: CacheEntry, file: RemoteObject, parts: Iterable[bytes | memoryview]) -> None:
    try:
        limit = cache_limit_bytes(entry.path.parent)
        if file.size > limit or not all(entry.write(part) for part in parts):
            return
        check_unchanged(file.path, file.version)
        if entry.write_note(None):
            entry.commit(limit, durable=not boot_id())
    finally:
        entry.abort()


def _entry_path(file: RemoteObject) -> Path:
    version = file.version
    key = cache_key(VERSION, file.path, version.size, version.etag, version.modified_ns)
    return entry_path(key)
