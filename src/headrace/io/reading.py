"""One door to files here and behind URLs, for who needs their first bytes, their size, or many of them whole."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from headrace.errors import NoFiles, Where
from headrace.io.listing import bytes_below, is_there
from headrace.io.mapped import MappedFile
from headrace.io.mirrors import mirrored
from headrace.io.remote import RemoteFile, look_at
from headrace.io.requests import Ask, fetch
from headrace.io.small_files import read_whole
from headrace.io.urls import is_listing, is_url

__all__ = ["mapped", "open_file", "read_each", "size_on_disk", "total_size"]


def open_file(path: str) -> MappedFile | RemoteFile:
    """A file for reading a few ranges of it: mapped, or behind its URL."""
    return RemoteFile(path).known() if is_url(path) else MappedFile(path)


def mapped(path: str) -> MappedFile:
    """A file as memory. One behind a URL is copied into the cache first."""
    return mirrored(RemoteFile(path)) if is_url(path) else MappedFile(path)


def size_on_disk(path: str) -> int:
    """Of a file, as it lies there, in bytes.

    Raises:
        NoFiles: There is none.
    """
    return total_size([path])


def total_size(paths: Sequence[str]) -> int:
    """Of some files together, and of everything in folders. URLs are asked all at once.

    Raises:
        NoFiles: One of them is not there.
    """
    remote = [RemoteFile(path) for path in paths if is_url(path)]
    try:
        look_at(remote)
    except NoFiles:
        if not any(is_listing(file.path) for file in remote):
            raise
    return sum(map(_size_in_store, remote)) + sum(_size(path) for path in paths if not is_url(path))


def _size_in_store(file: RemoteFile) -> int:
    """Of an object, or of all that lie below a folder."""
    try:
        return file.size
    except NoFiles:
        if not is_listing(file.path) or not is_there([file.path])[0]:
            raise
        return bytes_below(file.path)


def _size(path: str) -> int:
    try:
        if os.path.isdir(path):
            return sum(Path(folder, name).stat().st_size for folder, _, names in os.walk(path) for name in names)
        return Path(path).stat().st_size
    except FileNotFoundError as error:
        raise NoFiles(Where(path=path), expected="a file", found="none of that name") from error


def read_each(paths: Sequence[str]) -> list[bytes]:
    """The whole of each of many small files. Those behind URLs are fetched at once.

    Raises:
        NoFiles: One of them is not there; ``where.path`` names it.
    """
    remote = {path: position for position, path in enumerate(dict.fromkeys(filter(is_url, paths)))}
    fetched = fetch([Ask(path) for path in remote])
    return [bytes(fetched[remote[path]].content) if path in remote else read_whole(os.fspath(path)) for path in paths]
