"""From a URL that stands for several objects (a folder, a glob, a shard pattern) to the objects."""

from __future__ import annotations

import fnmatch
import re

from penstock.errors import NoFiles, UnsupportedData, Where
from penstock.io.names import COUNTED, as_shard, is_record_name, is_temporary, listed, natural_key, shard_names
from penstock.io.requests import look_whole, names_under, run_all
from penstock.io.urls import Url, base_name

__all__ = ["expand_url"]

MAGIC = re.compile(r"[*?\[]")


def expand_url(url: str, *, whole_sets: bool) -> list[str]:
    """The objects that a URL means, in order.

    Of a store that lists: an object, a folder, a glob within one folder, a set of shards. Of an HTTP server, which does not
    list: an object, or a set of shards whose number is in its name; that they are there shows when they are read.

    Args:
        url: The URL.
        whole_sets: Whether the name of one shard stands for its set.

    Raises:
        NoFiles: Nothing is there.
        UnsupportedData: The server would have to list.
    """
    place = Url.of(url)
    if not place.lists and not place.key:
        return [_object(url, place)]  # What is behind a "?" is no pattern.
    shard = as_shard(url)
    if shard and (whole_sets or not shard["number"].isdigit()):
        return shard_names(shard["stem"], int(shard["count"]), shard["end"], digits=len(shard["count"]))
    counted = COUNTED.fullmatch(url) if "@" in place.key else None
    if counted and counted["count"] != "*":
        return shard_names(f"{counted['stem']}-", int(counted["count"]), counted["end"])
    if counted or MAGIC.search(place.key):
        return _matching(url, place, counted)
    if not place.lists or not place.key or place.key.endswith("/"):
        return _in_folder(url, place) if place.lists else [_object(url, place)]
    return _object_or_folder(url, place)


def _object(url: str, place: Url) -> str:
    if place.key.endswith("/") or (not place.key and "?" not in url):
        raise _no_listing(url, "a folder")
    return url


def _no_listing(url: str, found: str) -> UnsupportedData:
    return UnsupportedData(
        Where(path=url),
        expected="the URL of a file, a list of those, or shards with their number (x@8, x-00000-of-00008)",
        found=found,
        hint="An HTTP server does not tell which files it has.",
    )


def _object_or_folder(url: str, place: Url) -> list[str]:
    try:
        run_all(url, [lambda: look_whole(url)])
    except NoFiles:
        return _in_folder(url, place)
    return [url]


def _in_folder(url: str, place: Url) -> list[str]:
    objects, folders = names_under(url)
    files = sorted((each for each in objects if is_record_name(base_name(each))), key=natural_key)
    if files:
        return files
    raise NoFiles(
        Where(path=url),
        expected="an object, or a folder with record files",
        found=f"the folders {listed([name.rstrip('/') for name in folders])}" if folders else "nothing of that name",
        hint=f"{place.store} lists nothing else there.",
    )


def _matching(url: str, place: Url, counted: re.Match[str] | None) -> list[str]:
    if not place.lists:
        raise _no_listing(url, "a glob")
    folder, _, pattern = place.key.rpartition("/")
    if MAGIC.search(folder):
        raise UnsupportedData(
            Where(path=url), expected="a glob within one folder", found="one over several", hint="Pass a list of globs."
        )
    objects, _ = names_under(place.at(folder + "/" if folder else ""))
    if counted:
        return _only_set(url, objects, base_name(counted["stem"]), counted["end"])
    matching = re.compile(fnmatch.translate(pattern))
    found = sorted((each for each in objects if _matches(base_name(each), matching)), key=natural_key)
    if not found:
        there = f"There are {listed(objects)}." if objects else "The folder is empty, or there is none."
        raise NoFiles(Where(path=url), expected="objects that match", found="none", hint=there)
    return found


def _matches(name: str, pattern: re.Pattern[str]) -> bool:
    return pattern.fullmatch(name) is not None and not is_temporary(name)


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
