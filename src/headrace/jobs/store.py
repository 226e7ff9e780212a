"""Files of this machine as a store."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from headrace.contracts.job import StoredObject
from headrace.io.paths import TEMPORARY_SUFFIX

__all__ = ["PathStore", "objects_below"]


class PathStore:
    """Paths and ``file://`` URIs, which name what they say."""

    def resolve(self, uri: str, /) -> Path:
        """The path of a URI. ``file://./data`` and ``file://data`` are relative, as the SDK's local mode takes them.

        Raises:
            ValueError: It has another scheme.
        """
        parts = urlsplit(uri)
        if parts.scheme == "file":
            begin = "" if parts.netloc == "localhost" else parts.netloc
            return Path(os.path.abspath(unquote(begin + parts.path)))  # noqa: PTH100 - as below
        if "://" in uri:
            raise ValueError(f"{uri} is neither a path nor a file:// URI")
        return Path(os.path.abspath(Path(uri).expanduser()))  # noqa: PTH100 - absolute() would keep "..", which names nothing

    def objects(self, uri: str, /) -> Sequence[StoredObject]:
        """The file, or all files in the folder, in order: of this path and, unlike with S3, of none that begins like it."""
        path = self.resolve(uri)
        if path.is_file():
            return [StoredObject(uri=uri, path=path)]
        return objects_below(path, uri, ends_in_slash=True)


def objects_below(path: Path, uri: str, *, ends_in_slash: bool = False) -> list[StoredObject]:
    """The files whose path begins with a path, as S3 lists keys that begin with a prefix; ordered by URI.

    What is still being written, or was when its writer was killed, is none of them.

    Args:
        path: What they begin with: a file, a folder, or the first letters of some.
        uri: The URI of ``path``.
        ends_in_slash: Whether only a folder is meant.
    """
    stem = uri.rstrip("/")
    if ends_in_slash:
        found = _files(path) if path.is_dir() else []
    else:
        beginning = (
            [one for one in path.parent.glob("*") if one.name.startswith(path.name)] if path.parent.is_dir() else []
        )
        found = [file for one in beginning for file in (_files(one) if one.is_dir() else [one])]
    found = [file for file in found if not file.name.endswith(TEMPORARY_SUFFIX)]
    objects = [StoredObject(uri=stem + str(file)[len(str(path)) :].replace(os.sep, "/"), path=file) for file in found]
    return sorted(objects, key=lambda one: one.uri)


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]
