"""Files put into stores that take them (``s3://``, ``gs://``, ``az://``): each object whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from headrace.errors import NoFiles, Unreachable, UnsupportedData, Where
from headrace.io.cache.folder import cache_folder
from headrace.io.faults import as_headrace_error
from headrace.io.names import SIDECARS
from headrace.io.store.client import client_for, obstore_for, run_all, store_of
from headrace.io.store.listing import list_below, objects_exist
from headrace.io.system import walk
from headrace.io.urls import Url, child_of, is_listing, scheme_of

__all__ = [
    "check_writable",
    "folder_exists_error",
    "is_uploaded",
    "remove_objects",
    "staging_folder",
    "upload",
    "upload_folder",
]


PART_BYTES = 8 << 20
"""Up to here an object is one request, which cannot be done by halves."""
MOST_PARTS = 9000  # S3 takes 10,000
PARTS_AT_ONCE = 4


def is_uploaded(path: str) -> bool:
    """Whether what is written to ``path`` goes to a store.

    Raises:
        UnsupportedData: It is a URL of something that takes no files.
    """
    scheme = scheme_of(path)
    if scheme is None or is_listing(path):
        return scheme is not None
    raise UnsupportedData(
        Where(path=path),
        expected="a path on this machine, or a URL of s3://, gs:// or az://, to write to",
        found=f"a {scheme}:// URL",
        hint="An HTTP server takes no files: write the file here, and copy it there." if scheme[:4] == "http" else "",
    )


def staging_folder() -> str:
    """Where files lie until they are whole and go to their store."""
    return str(cache_folder("uploads"))


def check_writable(url: str) -> None:
    """Find out before the work, rather than behind it, that there is no such bucket, or no answer.

    Whether the credentials allow writing shows when something is written: who may write need not be allowed to list.

    Raises:
        NoFiles, Unreachable, UnsupportedData: As their names say.
    """
    place = Url.of(url)
    if not place.key.strip("/") or place.key.endswith("/"):
        raise UnsupportedData(Where(path=url), expected="a name for the new object", found="a URL that ends in none")
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
    """Put a file into a store. What was there under the name is replaced when all of the new object has arrived.

    Raises:
        NoFiles: There is no such bucket.
        Unreachable: It cannot be written. Nothing of it is there then.
    """
    run_all(url, [partial(_put, path, url)])


async def _put(path: str, url: str, failures: Sequence[Exception] = ()) -> None:
    """Put a file into a store, unless there are failures when its turn comes."""
    place, line = Url.of(url), client_for(url)
    size = Path(path).stat().st_size
    async with line.room:
        if failures:
            return
        try:
            await obstore_for(url).put_async(
                store_of(line, place),
                place.key,
                Path(path),
                use_multipart=size > PART_BYTES,
                chunk_size=max(PART_BYTES, -(-size // MOST_PARTS)),
                max_concurrency=PARTS_AT_ONCE,
            )
        except Exception as error:
            raise as_headrace_error(error, url, act="write") from error


async def _put_all(files: Sequence[tuple[str, str]]) -> None:
    """Put files under URLs. After a failure no more are begun, and those on their way are waited for.

    An object whose request is let go of may still arrive, after what was there has been removed.
    """
    import asyncio  # takes as long to load as the rest of this package

    failures: list[Exception] = []

    async def put(path: str, url: str) -> None:
        try:
            await _put(path, url, failures)
        except Exception as error:  # noqa: BLE001 - it is raised when the others have ended
            failures.append(error)

    await asyncio.gather(*(put(path, url) for path, url in files))
    if failures:
        raise failures[0]


def upload_folder(folder: str, url: str) -> None:
    """Put the files of a folder into a store, those last that describe the others (manifests).

    Raises:
        UnsupportedData: A folder in it is empty, or there is something under the URL.
        NoFiles, Unreachable: As for :func:`upload`. What had arrived is removed again.
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
    """The refusal to mix new files with others."""
    return UnsupportedData(
        Where(path=url),
        expected="no such folder yet",
        found="one with objects",
        hint="Remove it first: files that were there before would mix with the new ones.",
    )


def _files_of(folder: str, url: str) -> list[str]:
    """The files in a folder and below, by their names from there."""
    found: list[str] = []
    for place, folders, names in walk(folder):
        within = os.path.relpath(place, folder).replace(os.sep, "/")
        if not folders and not names and place != folder:
            raise UnsupportedData(
                Where(path=url),
                expected="a file in each folder, since a store has no empty ones",
                found=f"the empty folder {within}",
                hint="Write records, which keep the names of classes without examples (.tfrecord, .array_record).",
            )
        found += [name if within == "." else f"{within}/{name}" for name in names]
    return sorted(found)


def remove_objects(urls: Sequence[str]) -> None:
    """Remove some objects of one store; those that are not there count as removed."""
    if urls:
        run_all(urls[0], [partial(_remove, list(urls))])


async def _remove(urls: list[str]) -> None:
    line = client_for(urls[0])
    async with line.room:
        for url in urls:
            place = Url.of(url)
            try:
                await obstore_for(url).delete_async(store_of(line, place), place.key)
            except FileNotFoundError:
                continue
            except Exception as error:
                raise as_headrace_error(error, url, act="write") from error
