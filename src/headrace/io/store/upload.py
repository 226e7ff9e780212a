"""Uploads to stores (``s3://``, ``gs://``, ``az://``): each object appears whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from headrace.errors import NoFiles, Unreachable, UnsupportedData, Where
from headrace.io.cache.folder import cache_folder
from headrace.io.faults import as_headrace_error
from headrace.io.names import SIDECARS
from headrace.io.store.client import client_for, obstore_for, run_all, store_of
from headrace.io.store.listing import list_below, objects_exist
from headrace.io.system import walk
from headrace.io.urls import Url, child_of, is_listing, other_scheme_hint, scheme_of

__all__ = [
    "check_writable",
    "copy_objects",
    "folder_exists_error",
    "is_uploaded",
    "remove_objects",
    "staging_folder",
    "upload",
    "upload_folder",
]


PART_BYTES = 8 << 20
"""An object up to this size is uploaded by one request."""
MOST_PARTS = 9000  # S3 takes 10,000
PARTS_AT_ONCE = 4
MOST_COPIED = {"s3": 5 << 30}
"""The largest object that a store copies by one request."""


def is_uploaded(path: str) -> bool:
    """Whether ``path`` is in a store.

    Raises:
        UnsupportedData: It is a URL that cannot be written to.
    """
    scheme = scheme_of(path)
    if scheme is None or is_listing(path):
        return scheme is not None
    raise UnsupportedData(
        Where(path=path),
        expected="a path on this machine, or a URL of s3://, gs:// or az://, to write to",
        found=f"a {scheme}:// URL",
        hint="HTTP servers accept no files: write a local file and copy it."
        if scheme[:4] == "http"
        else other_scheme_hint(path),
    )


def staging_folder() -> str:
    """The folder for files until they are uploaded."""
    return str(cache_folder("uploads"))


def check_writable(url: str) -> None:
    """Check in advance that the bucket exists and responds.

    Only writing can show whether the credentials permit it, because they need not permit listing.

    Raises:
        NoFiles, Unreachable, UnsupportedData: As their names say.
    """
    place = Url.of(url)
    if not place.key.strip("/") or place.key.endswith("/"):
        raise UnsupportedData(
            Where(path=url), expected="a URL with a name for the new object", found="a URL without one"
        )
    checked = client_for(url).writable
    if place.store in checked:
        return
    try:
        list_below(place.store, most=1)
    except Unreachable as error:
        if "403" not in error.found:
            raise
    checked.add(place.store)


def upload(path: str, url: str) -> None:
    """Upload a file. It replaces an existing object once completely uploaded.

    Raises:
        NoFiles: There is no such bucket.
        Unreachable: It cannot be written. The store is unchanged.
    """
    run_all(url, [partial(_put, path, url)])


async def _put(path: str, url: str, failures: Sequence[Exception] = ()) -> None:
    """Upload a file, unless another upload failed first."""
    place, client = Url.of(url), client_for(url)
    size = Path(path).stat().st_size
    async with client.slots:
        if failures:
            return
        try:
            await obstore_for(url).put_async(
                store_of(client, place),
                place.key,
                Path(path),
                use_multipart=size > PART_BYTES,
                chunk_size=max(PART_BYTES, -(-size // MOST_PARTS)),
                max_concurrency=PARTS_AT_ONCE,
            )
        except Exception as error:
            raise as_headrace_error(error, url, act="write") from error


async def _put_all(files: Sequence[tuple[str, str]]) -> None:
    """Upload files. After a failure no more are started, and running uploads are waited for.

    An object whose upload is cancelled might arrive after the others were removed.
    """
    import asyncio  # as slow to import as the rest of this package

    failures: list[Exception] = []

    async def put(path: str, url: str) -> None:
        try:
            await _put(path, url, failures)
        except Exception as error:  # noqa: BLE001 - raised when the others are done
            failures.append(error)

    await asyncio.gather(*(put(path, url) for path, url in files))
    if failures:
        raise failures[0]


def upload_folder(folder: str, url: str) -> None:
    """Upload the files of a folder. Files that describe others (manifests) come last.

    Raises:
        UnsupportedData: A subfolder is empty, or the URL exists.
        NoFiles, Unreachable: As for :func:`upload`. Uploaded objects are removed.
    """
    files = _files_of(folder, url)
    if objects_exist([url])[0]:
        raise folder_exists_error(url)
    urls = [child_of(url, name) for name in files]
    try:
        for described in (True, False):
            chosen = [
                (os.path.join(folder, name), each)
                for name, each in zip(files, urls, strict=True)
                if (os.path.splitext(name)[1] not in SIDECARS) is described
            ]
            if chosen:
                run_all(url, [partial(_put_all, chosen)])
    except BaseException:
        with contextlib.suppress(NoFiles, Unreachable):
            remove_objects(urls)
        raise


def folder_exists_error(url: str) -> UnsupportedData:
    """The error for a folder that exists: new files would mix with others."""
    return UnsupportedData(
        Where(path=url),
        expected="a new folder",
        found="one with objects",
        hint="Remove it first: its files would mix with the new ones.",
    )


def _files_of(folder: str, url: str) -> list[str]:
    """The relative paths of all files below a folder."""
    found: list[str] = []
    for place, folders, names in walk(folder):
        within = os.path.relpath(place, folder).replace(os.sep, "/")
        if not folders and not names and place != folder:
            raise UnsupportedData(
                Where(path=url),
                expected="a file in each folder, because stores have no empty folders",
                found=f"the empty folder {within}",
                hint="Formats of records (.tfrecord, .array_record) keep the names of classes without examples.",
            )
        found += [name if within == "." else f"{within}/{name}" for name in names]
    return sorted(found)


def copy_objects(copies: Mapping[str, str]) -> None:
    """Copy objects within one store, ``{from: to}``. Existing objects are replaced, each in one step.

    The store copies, and no bytes come here: except for objects of more than 5 GiB on S3, which pass through this machine a part at a time
    (obstore has no request for copies of parts). After a failure no more copies are started, and running ones are waited for.

    Raises:
        NoFiles: An object is missing.
        Unreachable: It cannot be written.
    """
    if copies:
        first = next(iter(copies))
        run_all(first, [partial(_copy_all, list(copies.items()))])


async def _copy_all(copies: Sequence[tuple[str, str]]) -> None:
    import asyncio  # as slow to import as the rest of this package

    failures: list[Exception] = []

    async def copy(source: str, url: str) -> None:
        client = client_for(url)
        async with client.slots:
            if failures:
                return
            try:
                await _copy(source, url)
            except Exception as error:  # noqa: BLE001 - raised when the others are done
                missing = isinstance(error, FileNotFoundError)
                fault = as_headrace_error(error, source) if missing else as_headrace_error(error, url, act="write")
                fault.__cause__ = error
                failures.append(fault)

    await asyncio.gather(*(copy(source, url) for source, url in copies))
    if failures:
        raise failures[0]


async def _copy(source: str, url: str) -> None:
    store, module = store_of(client_for(url), Url.of(url)), obstore_for(url)
    start, end = Url.of(source).key, Url.of(url).key
    most = MOST_COPIED.get(scheme_of(url) or "")
    try:
        await module.copy_async(store, start, end)
    except FileNotFoundError:
        raise
    except Exception:
        # Only now its size is asked for: a request for every object would cost more than the few that are refused.
        size = 0 if most is None else (await module.head_async(store, start))["size"]
        if most is None or size <= most:
            raise
        part = max(PART_BYTES, -(-size // MOST_PARTS))

        async def parts() -> AsyncIterator[Any]:
            for at in range(0, size, part):
                yield await module.get_range_async(store, start, start=at, end=min(at + part, size))

        await module.put_async(store, end, parts(), use_multipart=True, chunk_size=part, max_concurrency=PARTS_AT_ONCE)


def remove_objects(urls: Sequence[str]) -> None:
    """Remove objects of one store. Missing ones are no error."""
    if urls:
        run_all(urls[0], [partial(_remove, list(urls))])


async def _remove(urls: list[str]) -> None:
    import asyncio  # as slow to import as the rest of this package

    failures: list[Exception] = []

    async def remove(url: str) -> None:
        client, place = client_for(url), Url.of(url)
        async with client.slots:
            if failures:
                return
            try:
                await obstore_for(url).delete_async(store_of(client, place), place.key)
            except FileNotFoundError:
                pass
            except Exception as error:  # noqa: BLE001 - raised when the others are done
                failures.append(as_headrace_error(error, url, act="write"))
                failures[-1].__cause__ = error

    await asyncio.gather(*(remove(url) for url in urls))
    if failures:
        raise failures[0]
