"""A store of local files; the objects of a channel, and those of each host."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np

from headrace.contracts.job import Channel, Store, StoredObject
from headrace.errors import JobFailed
from headrace.io.json_text import load_json
from headrace.io.paths import TEMPORARY_SUFFIX, leads_back, list_files_below

__all__ = [
    "InputObject",
    "PathStore",
    "as_uri_part",
    "augmented_values",
    "check_folder",
    "cut_prefix",
    "left_out",
    "list_objects",
    "objects_below",
    "share",
    "shuffled_order",
]


class PathStore:
    """A store of local paths and ``file://`` URIs."""

    def resolve(self, uri: str, /) -> Path:
        """The path of a URI. ``file://./data`` and ``file://data`` are relative, as in the SDK's local mode.

        Raises:
            ValueError: It is empty, or has another scheme.
        """
        if uri in ("", "file://"):
            raise ValueError(f"expected a path, found {uri!r}, which would be the current folder: write '.' for that")
        if urlsplit(uri).scheme == "file":
            # Not the path of urlsplit: it would end at a ? or #, which names of files may contain.
            host, slash, path = uri.partition(":")[2].removeprefix("//").partition("/")
            begin = "" if host == "localhost" else host
            return Path(os.path.abspath(_unquote(begin + slash + path)))  # noqa: PTH100 - as below
        if "://" in uri:
            raise ValueError(f"{uri} is neither a path nor a file:// URI")
        return Path(os.path.abspath(Path(uri).expanduser()))  # noqa: PTH100 - absolute() would keep ".."

    def objects(self, uri: str, /) -> Sequence[StoredObject]:
        """The file, or all files in the folder, in order. Unlike in S3, the URI is not a prefix of names."""
        path = self.resolve(uri)
        if path.is_file():
            return [StoredObject(uri=uri, path=path)]
        return objects_below(path, uri, ends_in_slash=True)


def as_uri_part(name: str, uri: str) -> str:
    """The name of a file as a part of a URI. After ``file://``, where ``%41`` means ``A``, its per cent signs are quoted.

    Args:
        name: The name, or a relative path.
        uri: The URI, or its beginning.
    """
    return name.replace("%", "%25") if _is_quoted(uri) else name


def _is_quoted(uri: str) -> bool:
    return urlsplit(uri).scheme == "file"


def _unquote(text: str) -> str:
    return unquote(text, errors="surrogateescape")  # names of files may be other bytes than UTF-8


def objects_below(path: Path, uri: str, *, ends_in_slash: bool = False) -> list[StoredObject]:
    """The files whose path begins with a path, as S3 lists keys with a prefix, ordered by name.

    Temporary files of running or killed writers are left out.

    Args:
        path: A file, a folder, or the beginning of names.
        uri: The URI of ``path``.
        ends_in_slash: Whether ``path`` is a folder.
    """
    stem = uri.rstrip("/")
    if ends_in_slash:
        found = list_files_below(path)
    else:
        beginning = (
            [one for one in path.parent.glob("*") if one.name.startswith(path.name)] if path.parent.is_dir() else []
        )
        found = [file for one in beginning for file in (list_files_below(one) if one.is_dir() else [one])]
    found = [file for file in found if not file.name.endswith(TEMPORARY_SUFFIX)]
    named = sorted((str(file)[len(str(path)) :].replace(os.sep, "/"), file) for file in found)
    return [StoredObject(uri=stem + as_uri_part(rest, uri), path=file) for rest, file in named]


def left_out(folder: Path) -> Iterator[tuple[str, str]]:
    """The names below a folder of what has no content to keep, and the reason: links that lead nowhere, FIFOs, sockets and devices."""
    for parent, folders, names in os.walk(folder, followlinks=True):
        folders[:] = [name for name in folders if not leads_back(Path(parent, name))]
        for path in (Path(parent, name) for name in names):
            if not path.is_file() and os.path.lexists(path):  # not one that a writer has just removed
                what = "it is neither a file nor a folder" if path.exists() else "it is a link that leads nowhere"
                yield path.relative_to(folder).as_posix(), what


def check_folder(setting: str, uri: str, folder: Path) -> None:
    """Refuse a folder that cannot be made, or not be written to.

    Raises:
        JobFailed: A file is in its place, or this user may not write there.
    """
    existing = next((one for one in (folder, *folder.parents) if os.path.lexists(one)), folder)
    if not existing.is_dir():
        what = f"{existing} is a file" if existing.exists() else f"{existing} is a link that leads nowhere"
    elif not os.access(existing, os.W_OK | os.X_OK):
        what = f"{existing} cannot be written to"
    else:
        return
    raise JobFailed(
        f"ClientError: {setting} {uri} must be a folder, or a new one, but {what}: give another, or move it away"
    )


REFERENCE = "-ref"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputObject:
    """One object of a channel.

    Args:
        name: Its path in the channel's folder.
        path: The file with its bytes.
        uri: Its URI.
    """

    name: str
    path: Path
    uri: str = ""


def list_objects(channel: Channel, store: Store, name: str) -> list[InputObject]:
    """All objects of a channel, in the order of their names.

    Args:
        channel: The channel.
        store: Resolves URIs.
        name: The name of the channel in errors: ``"channel train"``.

    Raises:
        JobFailed: There are none, a manifest names a missing object, or the folder holds a link that leads nowhere or a FIFO.
    """
    if channel.data_type == "ManifestFile":
        found = list(_of_manifest(channel, store, name))
    else:
        for one, what in left_out(store.resolve(channel.uri)):
            raise JobFailed(
                f"ClientError: Data download failed: {one} of {name} in {channel.uri} cannot be read: {what}; get its target, or remove it"
            )
        found = [
            InputObject(name=cut_prefix(one.uri, channel.uri), path=one.path, uri=one.uri)
            for one in store.objects(channel.uri)
        ]
    if not found:
        raise JobFailed(f"ClientError: Data download failed: {name} has no objects under {channel.uri}")
    names = Counter(one.name for one in found)
    twice = [one for one, count in names.items() if count > 1]
    if twice:
        raise JobFailed(f"ClientError: Data download failed: two objects of {name} would both be {twice[0]}")
    return found


def cut_prefix(uri: str, prefix: str) -> str:
    """The name of an object: its URI relative to the last folder of the prefix."""
    folder = prefix.rstrip("/") + "/"
    name = uri[len(folder) :] if uri.startswith(folder) else uri[prefix.rfind("/") + 1 :]
    return _unquote(name) if _is_quoted(uri) else name


def _of_manifest(channel: Channel, store: Store, name: str) -> Iterator[InputObject]:
    prefix, *parts = _manifest(channel, store, name)
    for part in parts:
        if not isinstance(part, str) or ".." in PurePosixPath(part).parts or part.startswith("/"):
            raise JobFailed(
                f"ClientError: the manifest {channel.uri} of {name} has {part!r}, which is not a relative path"
            )
        uri = f"{prefix['prefix']}{as_uri_part(part, str(prefix['prefix']))}"
        path = _named_by(store.resolve(channel.uri), uri, store, f"the manifest of {name}")
        if not path.is_file():
            raise JobFailed(f"ClientError: the manifest of {name} names {uri}, which does not exist")
        yield InputObject(name=part, path=path, uri=uri)


def _named_by(manifest: Path, uri: str, store: Store, who: str) -> Path:
    """The file that a manifest names.

    Manifests are untrusted: they may name objects of the store, and local files only in or below their own folder.

    Raises:
        JobFailed: It names another file, or a URI of another store.
    """
    try:
        path = store.resolve(uri)
    except ValueError as error:
        raise JobFailed(f"ClientError: {who} names {uri!r}, which is not a file of this store: {error}") from error
    folder = os.path.realpath(manifest.parent)
    is_local = not uri.startswith("s3://")
    if is_local and os.path.commonpath([folder, os.path.realpath(path)]) != folder:
        raise JobFailed(
            f"ClientError: {who} names {uri!r}, which is outside the manifest's folder {folder}. Move the manifest to a folder "
            "above the files, or the files to the store (s3://)"
        )
    return path


def _manifest(channel: Channel, store: Store, name: str) -> list[Any]:
    wanted = 'a JSON list that begins with {"prefix": "..."}'
    try:
        content = load_json(store.resolve(channel.uri).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise JobFailed(f"ClientError: the manifest {channel.uri} of {name} must be {wanted}: {error}") from error
    if not isinstance(content, list) or not content or not isinstance(content[0], dict) or "prefix" not in content[0]:
        raise JobFailed(f"ClientError: the manifest {channel.uri} of {name} must be {wanted}")
    return content


def share(objects: Sequence[InputObject], channel: Channel, host: int, num_hosts: int) -> list[InputObject]:
    """The objects of one host: all of them, or every n-th."""
    return list(objects) if channel.distribution == "FullyReplicated" else list(objects[host::num_hosts])


def shuffled_order(count: int, channel: Channel, epoch: int) -> list[int]:
    """The order of objects or lines in an epoch."""
    if channel.shuffle_seed is None:
        return list(range(count))
    order: list[int] = np.random.default_rng([channel.shuffle_seed, epoch]).permutation(count).tolist()
    return order


def augmented_values(
    manifests: Sequence[InputObject], channel: Channel, store: Store, host: int, num_hosts: int
) -> list[list[bytes | Path]]:
    """The lines of augmented manifests: for each, the values of the channel's attributes, or the files that they name.

    Raises:
        JobFailed: A line is not a JSON object, lacks an attribute, or names a file outside the store and the manifest's folder.
    """
    lines = [
        _values(line, number, manifest, channel, store)
        for manifest in manifests
        for number, line in enumerate(manifest.path.read_text(encoding="utf-8").split("\n"), start=1)
        if line.strip()
    ]
    return lines if channel.distribution == "FullyReplicated" else lines[host::num_hosts]


def _values(line: str, number: int, manifest: InputObject, channel: Channel, store: Store) -> list[bytes | Path]:
    try:
        entry = load_json(line)
        given = [(name, entry[name]) for name in channel.attribute_names]
    except (ValueError, KeyError, TypeError) as error:
        wanted = f"a JSON object with {', '.join(channel.attribute_names)}"
        raise JobFailed(f"ClientError: line {number} of {manifest.name} must be {wanted}: {error!r}") from error
    where = f"line {number} of {manifest.name}"
    return [_value(name, value, manifest, store, where) for name, value in given]


def _value(name: str, value: Any, manifest: InputObject, store: Store, where: str) -> bytes | Path:
    if name.endswith(REFERENCE):
        return _named_by(manifest.path, str(value), store, where)
    return value.encode() if isinstance(value, str) else json.dumps(value, separators=(",", ":")).encode()
