"""From a URL that stands for several objects (a folder, a glob, a shard pattern) to the objects."""

from __future__ import annotations

import fnmatch
import re

from headrace.errors import NoFiles, Where
from headrace.io.names import COUNTED, as_shard, is_record_name, is_temporary, listed, natural_key, shard_names
from headrace.io.store.client import run_all
from headrace.io.store.listing import names_under, no_listing
from headrace.io.store.requests import look_whole
from headrace.io.urls import Url, base_name

__all__ = ["expand_url", "stands_for_several"]


MAGIC = re.compile(r"[*?\[]")


def expand_url(url: str) -> list[str]:
    """The objects that a URL means, in order.

    Of a store that lists: an object, a folder, a glob, a set of shards. Of an HTTP server, which does not
    list: an object, or a set of shards whose number is in its name; that they are there shows when they are read.
    The name of one shard is that one object.

    Raises:
        NoFiles: Nothing is there.
        UnsupportedData: The server would have to list.
    """
    place = Url.of(url)
    if not place.lists and not place.key:
        return [_object(url, place)]  # What is behind a "?" is no pattern.
    shard = as_shard(url)
    if shard and shard["number"].isdigit():
        if place.lists:
            run_all(url, [lambda: look_whole(url)])
        return [url]
    if shard:
        return shard_names(shard["stem"], int(shard["count"]), shard["end"], digits=len(shard["count"]))
    counted = COUNTED.fullmatch(url) if "@" in place.key else None
    if counted and counted["count"] != "*":
        return shard_names(f"{counted['stem']}-", int(counted["count"]), counted["end"])
    if counted or MAGIC.search(place.key):
        return _matching(url, place, counted)
    if not place.lists or not place.key or place.key.endswith("/"):
        return _in_folder(url) if place.lists else [_object(url, place)]
    return _object_or_folder(url)


def stands_for_several(url: str) -> bool:
    """Whether a URL names files by a glob, a shard pattern, or a shard's name, and so is no folder."""
    key = Url.of(url).key
    return bool(MAGIC.search(key) or as_shard(url) or ("@" in key and COUNTED.fullmatch(url)))


def _object(url: str, place: Url) -> str:
    if place.key.endswith("/") or (not place.key and "?" not in url):
        raise no_listing(url, "a folder")
    return url


def _object_or_folder(url: str) -> list[str]:
    try:
        run_all(url, [lambda: look_whole(url)])
    except NoFiles:
        return _in_folder(url)
    return [url]


def _in_folder(url: str) -> list[str]:
    objects, folders = names_under(url)
    files = sorted((each for each in objects if is_record_name(base_name(each))), key=natural_key)
    if files:
        return files
    there = f"only the folders {listed(folders)}" if folders else "nothing of that name"
    notes = [base_name(each) for each in objects]
    raise NoFiles(
        Where(path=url),
        expected="an object, or a folder with record files",
        found=f"only notes and temporaries ({listed(notes)})" if notes else there,
        hint=f"A glob such as '{url.rstrip('/')}/*/*' reaches deeper." if folders else "",
    )


def _matching(url: str, place: Url, counted: re.Match[str] | None) -> list[str]:
    if not place.lists:
        raise no_listing(url, "a glob")
    *folders, pattern = place.key.split("/")
    if counted:
        objects, _ = names_under(place.at("/".join(folders)))
        return _only_set(url, objects, base_name(counted["stem"]), counted["end"])
    objects = _in_folders(place, folders)
    matching = re.compile(fnmatch.translate(pattern))
    found = sorted((each for each in objects if _matches(base_name(each), matching)), key=natural_key)
    if not found:
        there = f"There are {listed(objects)}." if objects else "The folder is empty, or there is none."
        raise NoFiles(Where(path=url), expected="objects that match", found="none", hint=there)
    return found


def _in_folders(place: Url, patterns: list[str]) -> list[str]:
    """The objects in all folders that some patterns, one for each level, stand for. A level is listed at once."""
    folders = [""]
    for pattern in patterns:
        if not MAGIC.search(pattern):
            folders = [f"{folder}{pattern}/" for folder in folders]
            continue
        matching = re.compile(fnmatch.translate(pattern))
        _, inner = names_under(*map(place.at, folders))
        folders = [f"{Url.of(each).key}/" for each in inner if _matches(base_name(each), matching)]
        if not folders:
            return []
    return names_under(*map(place.at, folders))[0]


def _matches(name: str, pattern: re.Pattern[str]) -> bool:
    return pattern.fullmatch(name) is not None and name[:1] != "." and not is_temporary(name)


def _only_set(url: str, objects: list[str], stem: str, end: str) -> list[str]:
    """The one set of shards of this stem among some objects, whole."""
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
    names = shard_names(f"{folder}/{stem}-", int(count), end, digits=len(count))
    missing = sorted(set(names) - set(objects))
    if missing:
        raise NoFiles(
            Where(path=missing[0]),
            expected=f"all {int(count)} shards",
            found=f"{len(names) - len(missing)} of them, without {listed(missing)}",
            hint="To read an incomplete set, pass the list of the objects that are there.",
        )
    return names
