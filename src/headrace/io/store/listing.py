"""Listings of stores (``s3://``, ``gs://``, ``az://``). A store only has keys; folders are key prefixes.

Also expands a URL that matches several objects (a folder, a glob, a shard pattern).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from headrace.errors import NoFiles, Unreachable, UnsupportedData, Where
from headrace.io.faults import as_headrace_error, is_refusal
from headrace.io.names import (
    ANY_DEPTH,
    COUNTED,
    as_shard,
    find_shards,
    is_temporary,
    matches_glob,
    natural_key,
    record_names,
    shard_names,
    summarize_names,
)
from headrace.io.store.client import client_for, obstore_for, run_all, store_of
from headrace.io.store.requests import fetch_version, read_small
from headrace.io.urls import GLOB, Url, base_name, child_of, key_pattern, parent_of

__all__ = [
    "JOURNAL_ENDING",
    "expand_url",
    "list_below",
    "list_folder",
    "list_tree",
    "listing_error",
    "objects_exist",
    "read_journal",
    "read_noted",
    "size_below",
]

PAGE = 1000  # keys per response, by the protocols
JOURNAL_ENDING = ".headrace-names"
"""Ends the hidden name of a journal: see :mod:`headrace.io.store.commit`."""


def listing_error(url: str, found: str) -> UnsupportedData:
    """The error for a request that would need a listing from an HTTP server."""
    return UnsupportedData(
        Where(path=url),
        expected="the URL of a file, a list of those, or shards with their number (x@8)",
        found=found,
        hint="An HTTP server cannot list its files. For many small files, use a CSV with a column of their URLs (image_columns=), "
        "or store them in shards.",
    )


def list_folder(*urls: str) -> tuple[list[str], list[str]]:
    """The URLs of the objects and of the folders directly in these folders of a store.

    Raises:
        NoFiles: There is no such bucket.
        Unreachable: The store does not answer.
    """
    objects: list[str] = []
    folders: list[str] = []
    for found in run_all(urls[0], [partial(_list_folder, url) for url in urls]):
        objects += found[0]
        folders += found[1]
    return objects, folders


async def _list_folder(url: str) -> tuple[list[str], list[str]]:
    place, client = Url.of(url), client_for(url)
    async with client.slots:
        try:
            store = store_of(client, place)
            found = await obstore_for(url).list_with_delimiter_async(store, place.key.rstrip("/") or None)
        except Exception as error:
            raise as_headrace_error(error, url) from error
    folders = [key.rstrip("/") for key in found["common_prefixes"]]
    objects = [(each["path"], each["size"]) for each in found["objects"]]
    kept = _without_markers(objects, {place.key.rstrip("/"), *folders})
    return [place.at(key) for key, _ in kept], [place.at(key) for key in folders]


def _without_markers(objects: list[tuple[str, int]], folders: set[str]) -> list[tuple[str, int]]:
    """Leave out the empty objects that consoles make for folders. Their keys end in ``/``, which obstore drops."""
    return [(key, size) for key, size in objects if size or key not in folders]


def _folders_of(keys: Iterable[str]) -> set[str]:
    """All folders that these keys are in."""
    found: set[str] = set()
    for key in keys:
        folder = key.rpartition("/")[0]
        while folder and folder not in found:
            found.add(folder)
            folder = folder.rpartition("/")[0]
    return found


def list_below(url: str, *, most: int | None = None) -> list[str]:
    """The URLs of all objects below a folder at any depth, in the order of the store.

    Args:
        url: The folder.
        most: Stop after this many.

    Raises:
        NoFiles: There is no such bucket.
        Unreachable: The store does not answer.
    """
    return [key for key, _ in run_all(url, [partial(_list_below, url, most)])[0][0]]


def list_tree(url: str, *, most: int | None = None) -> tuple[list[str], list[str], bool]:
    """The URLs of all objects below a folder, of the empty folders that exist only as an object, as consoles make, and whether there are more.

    Args:
        url: The folder.
        most: Stop after this many objects.

    Raises:
        NoFiles: There is no such bucket.
        Unreachable: The store does not answer.
    """
    found, is_cut = run_all(url, [partial(_list_below, url, most)])[0]
    # obstore drops the / that tells a folder from an empty object, but lists the folders in a folder.
    above = sorted({parent_of(each)[0] for each, size in found if not size})
    folders = set(list_folder(*above)[1]) if above else set()
    markers = [each for each, size in found if not size and each in folders]
    return [each for each, size in found if size or each not in folders], markers, is_cut


def size_below(url: str) -> int:
    """The total size of all objects below a folder."""
    return sum(size for _, size in run_all(url, [partial(_list_below, url, None)])[0][0])


async def _list_below(url: str, most: int | None) -> tuple[list[tuple[str, int]], bool]:
    """The objects and their sizes, and whether there may be more."""
    place, client = Url.of(url), client_for(url)
    found: list[tuple[str, int]] = []
    is_cut = False
    async with client.slots:
        try:
            pages = obstore_for(url).list(store_of(client, place), place.key.rstrip("/") or None, chunk_size=PAGE)
            async for page in pages:
                listed = [(each["path"], each["size"]) for each in page]
                found += _without_markers(listed, {place.key.rstrip("/")})
                if is_cut := most is not None and len(found) >= most:
                    break
        except Exception as error:
            raise as_headrace_error(error, url) from error
    if not all(size for _, size in found):
        found = _without_markers(found, _folders_of(key for key, _ in found))
    return [(place.at(key), size) for key, size in found[:most]], is_cut


def objects_exist(urls: Sequence[str]) -> list[bool]:
    """Whether each URL exists, as an object or as a folder with objects.

    Raises:
        Unreachable: The store does not answer.
    """
    return run_all(urls[0], [partial(_object_exists, url) for url in urls]) if urls else []


async def _object_exists(url: str) -> bool:
    place, client = Url.of(url), client_for(url)
    if not place.key:
        return bool((await _list_below(url, 1))[0])
    async with client.slots:
        try:
            await obstore_for(url).head_async(store_of(client, place), place.key)
        except FileNotFoundError:
            pass
        except Exception as error:
            raise as_headrace_error(error, url) from error
        else:
            return True
    return bool((await _list_below(url, 1))[0])


def read_journal(url: str) -> dict[str, str]:
    """The objects that get their names, ``{from: to}``. Empty if there is no journal, or it is not one of ours.

    All are beside the journal: it never names an object elsewhere.

    Raises:
        NoFiles: There is no such bucket.
        Unreachable: The store does not answer.
    """
    return read_noted(url)[0]


def read_noted(url: str) -> tuple[dict[str, str], dict[str, Any]]:
    """What :func:`read_journal` returns, and the version of the old object that each name had, ``{to: version}``."""
    try:
        found = json.loads(read_small(url) or b"{}")
        below, names, old = found["from"], dict(found["names"]), dict(found.get("old", {}))
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        return {}, {}
    parts = below.split("/") if isinstance(below, str) else [""]
    if parts[0][:1] != "." or not all(map(_is_plain, (*parts, *names, *names.values(), *old))):
        return {}, {}
    folder = parent_of(url)[0]
    copies = {child_of(child_of(folder, below), name): child_of(folder, new) for name, new in names.items()}
    return copies, {child_of(folder, name): version for name, version in old.items()}


def _is_plain(name: object) -> bool:
    return isinstance(name, str) and name not in ("", ".", "..") and "/" not in name


def _refuse_without_names(objects: Sequence[str], chosen: Sequence[str]) -> None:
    """Refuse objects that are getting their names: some may be missing, or from before.

    Args:
        objects: All in these folders.
        chosen: Those to read.
    """
    for journal in objects:
        if not journal.endswith(JOURNAL_ENDING) or base_name(journal)[:1] != ".":
            continue
        among = sorted(set(chosen).intersection(read_journal(journal).values()))
        if among:
            raise NoFiles(
                Where(path=among[0]),
                expected="a set whose objects all have their names",
                found="one that a write is giving its names",
                hint="Wait until that write ends. If it was killed, the same call finishes it. "
                f"If it will not be called again, remove its journal: {journal}",
            )


def expand_url(url: str) -> list[str]:
    """The objects that a URL matches, in order.

    In a store: an object, a folder, a glob, or a set of shards. On an HTTP server, which cannot list: an object, or a set
    of shards whose name states their number; missing ones are reported when they are read. The name of one shard means
    that object. An existing object wins over a set, as on a disk.

    Raises:
        NoFiles: Nothing matches.
        UnsupportedData: The server cannot list.
    """
    place, name = Url.of(url), key_pattern(url)
    if not place.lists and not name:
        return [_object(url, name)]
    shard = as_shard(url)
    if shard and shard["number"].isdigit():
        if place.lists:
            run_all(url, [lambda: fetch_version(url)])
        return [url]
    if shard:
        return _shards(url, shard["stem"], int(shard["count"]), shard["end"], digits=len(shard["count"]))
    counted = COUNTED.fullmatch(url) if "@" in name else None
    if counted and counted["end"] and _is_object(url):
        return [url]  # as on a disk; x.npy@8 is the name of no object that is written
    if counted and counted["count"] != "*":
        return _shards(url, f"{counted['stem']}-", int(counted["count"]), counted["end"])
    if counted or GLOB.search(name):
        return _expand_glob(url, place, counted)
    if not place.lists or not name or name.endswith("/"):
        return _expand_folder(url) if place.lists else [_object(url, name)]
    return _object_or_folder(url)


def _object(url: str, name: str) -> str:
    if name.endswith("/") or (not name and "?" not in url):
        raise listing_error(url, "a folder")
    return url


def _object_or_folder(url: str) -> list[str]:
    return [url] if _is_object(url) else _expand_folder(url)


def _expand_folder(url: str) -> list[str]:
    objects, folders = list_folder(url)
    by_name = {base_name(each): each for each in objects}
    files = [by_name[name] for name in record_names(by_name)]
    _refuse_without_names(objects, files)
    if files:
        return files
    there = f"only the folders {summarize_names(folders)}" if folders else "nothing of that name"
    notes = [base_name(each) for each in objects]
    raise NoFiles(
        Where(path=url),
        expected="an object or a folder with record files",
        found=f"only notes and temporaries ({summarize_names(notes)})" if notes else there,
        hint=f"A glob such as '{url.rstrip('/')}/*/*' reaches deeper." if folders else "",
    )


def _expand_glob(url: str, place: Url, counted: re.Match[str] | None) -> list[str]:
    if not place.lists:
        raise listing_error(url, "a glob")
    *folders, pattern = place.key.split("/")
    if counted:
        objects, _ = list_folder(place.at("/".join(folders)))
        return _only_set(url, objects, base_name(counted["stem"]), counted["end"])
    if any(map(GLOB.search, folders)) and _is_object(url):
        return [url]
    if ANY_DEPTH in (*folders, pattern):
        objects, matching = _at_any_depth(place, [*folders, pattern])
    else:
        objects = _in_folders(place, folders)
        matching = [each for each in objects if matches_glob([base_name(each)], [pattern])]
    if place.at(place.key) in objects:  # as on a disk, a name that looks like a pattern
        return [url]
    found = sorted((each for each in matching if not is_temporary(each)), key=natural_key)
    _refuse_without_names(objects, found)
    if not found:
        hint = f"There are {summarize_names(objects)}." if objects else "The folder is empty, or there is none."
        there = f"only temporary ones ({summarize_names(matching)})" if matching else "none"
        raise NoFiles(Where(path=url), expected="objects that match", found=there, hint=hint)
    return found


def _is_object(url: str) -> bool:
    try:
        run_all(url, [lambda: fetch_version(url)])
    except NoFiles:
        return False
    except Unreachable as error:
        if Url.of(url).lists or not is_refusal(error):
            raise
        return False  # A bucket whose names are secret answers so where there is nothing.
    return True


def _in_folders(place: Url, patterns: list[str]) -> list[str]:
    """The objects in all folders that match these patterns, one per level. Each level is listed at once."""
    folders = [""]
    for pattern in patterns:
        if not GLOB.search(pattern):
            folders = [f"{folder}{pattern}/" for folder in folders]
            continue
        _, inner = list_folder(*map(place.at, folders))
        folders = [f"{Url.of(each).key}/" for each in inner if _is_inner(base_name(each), pattern)]
        if not folders:
            return []
    return list_folder(*map(place.at, folders))[0]


def _is_inner(name: str, pattern: str) -> bool:
    return matches_glob([name], [pattern]) and not is_temporary(name)


def _at_any_depth(place: Url, parts: list[str]) -> tuple[list[str], list[str]]:
    """The objects below the folders that come before ``**``, and those that match."""
    fixed = next(number for number, part in enumerate(parts) if GLOB.search(part))
    objects = list_below(place.at("/".join(parts[:fixed])))
    return objects, [each for each in objects if matches_glob(Url.of(each).key.split("/")[fixed:], parts[fixed:])]


def _shards(url: str, stem: str, count: int, end: str, *, digits: int = 5) -> list[str]:
    """The names of a set. Of a large one, the first must exist: its number may be a part of a name, such as a date."""
    if count > PAGE and not _is_object(shard_names(stem, count, end, digits=digits, most=1)[0]):
        raise NoFiles(
            Where(path=url), expected=f"an object, or the first of {count} shards", found="nothing of that name"
        )
    return shard_names(stem, count, end, digits=digits)


def _only_set(url: str, objects: list[str], stem: str, end: str) -> list[str]:
    """The one complete set of shards with this stem among these objects."""
    shape = re.compile(re.escape(stem) + r"-\d{5,}-of-(\d{5,})" + re.escape(end))
    counts = {found[1] for each in objects if (found := shape.fullmatch(base_name(each)))}
    if len(counts) != 1:
        raise NoFiles(
            Where(path=url),
            expected=f"one set of shards {stem}-?????-of-?????{end}",
            found="sets of " + " and ".join(sorted(counts)) if counts else "none",
        )
    count = counts.pop()
    folder = url.rpartition("/")[0]
    present = frozenset(map(base_name, objects))
    names, missing, there = find_shards(f"{folder}/{stem}-", int(count), end, len(count), present)
    _refuse_without_names(objects, names)
    if missing:
        raise NoFiles(
            Where(path=missing[0]),
            expected=f"all {int(count)} shards",
            found=f"{there} of them, without {summarize_names(missing, int(count) - there)}",
            hint="To read an incomplete set, pass a list of the existing objects.",
        )
    return names
