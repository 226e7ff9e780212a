"""The object store: ``s3://bucket/key`` as files of a folder, without account or network."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from headrace.contracts.job import StoredObject
from headrace.io.faults import name_in_errors
from headrace.io.write.atomic import AtomicFile
from headrace.jobs.store import PathStore, objects_below

__all__ = ["LocalStore"]

BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
CHUNK_BYTES = 1 << 20


class LocalStore:
    """Buckets as folders, objects as files. ``file://`` URIs are local paths.

    Empty parts of a key are left out, so that ``s3://bucket//a`` is ``s3://bucket/a``, also where a prefix is empty.

    Args:
        folder: Folder of the buckets.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._paths = PathStore()

    def resolve(self, uri: str, /) -> Path:
        """The path of a URI, which need not exist.

        Raises:
            ValueError: It begins with neither ``s3://`` nor ``file://``, or has an invalid bucket or key.
        """
        parts = urlsplit(uri)
        if parts.scheme == "file":
            return self._paths.resolve(uri)
        if parts.scheme != "s3":
            raise ValueError(f"expected a URI that begins with s3:// or file://, found {uri!r}")
        if not BUCKET.fullmatch(parts.netloc):
            raise ValueError(
                f"the bucket of {uri!r} is not a valid name: use 3 to 63 lower-case letters, digits, dots and hyphens"
            )
        # Not parts.path: a key may contain ? and #.
        key = uri.partition("://")[2].partition("/")[2]
        if any(part in ("..", ".") for part in key.split("/")):
            raise ValueError(f"the key of {uri!r} contains '.' or '..', which would lead to another folder")
        bucket = self.folder / parts.netloc
        # Joined as a whole, a key that begins with / would be another path.
        path = bucket.joinpath(*filter(None, key.split("/")))
        if not path.is_relative_to(bucket):  # a drive of Windows
            raise ValueError(f"the key of {uri!r} leads out of its bucket")
        return path

    def objects(self, uri: str, /) -> Sequence[StoredObject]:
        """List the objects whose URI begins with ``uri``, ordered by URI."""
        if urlsplit(uri).scheme == "file":
            return self._paths.objects(uri)
        is_bucket = "/" not in uri.partition("://")[2]  # the name of a bucket is no prefix of the names of others
        return objects_below(self.resolve(uri), uri, ends_in_slash=uri.endswith("/") or is_bucket)

    def put(self, path: Path, uri: str) -> None:
        """Copy a file into the store. The object appears complete, or not at all."""
        target = self._prepare(uri)
        with name_in_errors(str(path)), path.open("rb") as source, AtomicFile(target) as file:
            shutil.copyfileobj(source, file, CHUNK_BYTES)

    def put_bytes(self, content: bytes, uri: str) -> None:
        """Write an object. An empty one whose key ends in a slash is a folder, as consoles of S3 make them.

        Raises:
            ValueError: Such an object has content, or another object has its name.
        """
        if uri.endswith("/"):
            if content:
                raise ValueError(
                    f"{uri} ends in a slash, so it is a folder here, which has no content: choose another key"
                )
            self._prepare(f"{uri}object").parent.mkdir(parents=True, exist_ok=True)
            return
        with AtomicFile(self._prepare(uri)) as file:
            file.write(content)

    def _prepare(self, uri: str) -> Path:
        """The path of an object to write, in a folder that exists.

        Raises:
            ValueError: A part of its key is an object, or it is a part of the keys of others. S3 allows that, folders do not.
        """
        target = self.resolve(uri)
        if target.is_dir():
            raise ValueError(f"{uri} cannot be an object, because other objects begin with {uri}/: choose another key")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise ValueError(
                f"{uri} cannot be an object, because a part of its key is one: objects are files here; choose another key"
            ) from None
        return target
