"""File naming conventions: notes, temporaries, shards, natural order."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Collection, Iterable, Sequence

__all__ = [
    "ANY_DEPTH",
    "COUNTED",
    "SIDECARS",
    "TEMPORARIES",
    "TEMPORARY_SUFFIX",
    "as_shard",
    "find_shards",
    "is_record_name",
    "is_temporary",
    "matches_glob",
    "natural_key",
    "record_names",
    "shard_names",
    "summarize_names",
    "whole_set_hint",
]


TEMPORARY_SUFFIX = ".headrace-tmp"
"""The suffix of files that are still being written."""

SIDECARS = frozenset(
    (
        *(".json", ".jsonl", ".idx", ".index", ".txt", ".md", ".rst", ".yaml", ".yml", ".toml", ".cfg", ".log"),
        *(".html", ".pbtxt", ".crc", ".md5", ".sha256", ".lock", ".py", ".sh"),
    )
)
TEMPORARIES = (TEMPORARY_SUFFIX, ".tmp", ".temp", ".part", ".partial", ".incomplete", ".crdownload", ".swp", "~")
LINES_NOTE, JSON_NOTE = ".jsonl", ".json"
JSON_LINES = re.compile(r".*\.(jsonl|ndjson|jsonlines|json)(-\d{5,}-of-\d{5,}|\.(gz|gzip|zlib|zz)|[-_.]\d+)*")
COMPRESSED_NOTE = re.compile(r"(?P<name>.*(?P<kind>\.[^.]+))\.(gz|gzip|zlib|zz)")
COUNTED = re.compile(r"(?P<stem>.*[^/\\])@(?P<count>\d+|\*)(?P<end>[^/\\@]*)")
SHARD = re.compile(r"(?P<stem>.*-)(?P<number>\d{5,}|\?{5,}|\*)-of-(?P<count>\d{5,})(?P<end>[^/\\]*)")
DIGITS = re.compile(r"(\d+)")
SCHEME = re.compile(r"https?://")  # an HTTP server cannot list its files
MANY = 5  # the most names that a message lists
ANY_DEPTH = "**"
"""The part of a glob that stands for no folder, one, or several, one in the other."""


def as_shard(path: str) -> re.Match[str] | None:
    """The parts of the name of one shard; ``None`` for any other name."""
    found = SHARD.fullmatch(path)
    if found is None or (found["number"].isdigit() and int(found["number"]) >= int(found["count"])):
        return None
    return found


def shard_names(stem: str, count: int, end: str = "", *, digits: int = 5, most: int | None = None) -> list[str]:
    """The ``count`` names ``{stem}{number}-of-{count}{end}``, or the first ``most``."""
    made = range(count if most is None else min(count, most))
    return [f"{stem}{number:0{digits}}-of-{count:0{digits}}{end}" for number in made]


def find_shards(
    stem: str, count: int, end: str, digits: int, present: Collection[str]
) -> tuple[list[str], list[str], int]:
    """The names of a set, the first of those that are missing, and how many exist. A count in the billions takes no longer than the folder.

    Args:
        stem, count, end, digits: As for :func:`shard_names`.
        present: The names in the folder.
    """
    names = shard_names(stem, count, end, digits=digits, most=len(present) + MANY + 1)
    missing = [name for name in names if os.path.basename(name) not in present]
    if not missing:
        return names, [], count
    parts = (os.path.basename(stem), f"{count:0{digits}}", end)
    found = filter(None, map(as_shard, present))
    there = sum(each["number"].isdigit() and each.group("stem", "count", "end") == parts for each in found)
    return names, missing, there


def matches_glob(parts: Sequence[str], patterns: Sequence[str]) -> bool:
    """Whether the parts of a path match those of a glob as on disk: ``**`` stands for folders that are not hidden, and ``*`` for no hidden name.

    >>> matches_glob(["a", "b", "x.npy"], ["**", "*.npy"]), matches_glob([".git", "x.npy"], ["**", "*.npy"])
    (True, False)
    """
    reached = _skip_depths({0}, patterns)  # how many patterns the parts so far may stand for
    for part in parts:
        after = set()
        for at in reached - {len(patterns)}:
            is_shown = part[:1] != "." or patterns[at][:1] == "."
            if is_shown and patterns[at] == ANY_DEPTH:
                after |= {at, at + 1}
            elif is_shown and fnmatch.fnmatchcase(part, patterns[at]):
                after.add(at + 1)
        reached = _skip_depths(after, patterns)
    return len(patterns) in reached


def _skip_depths(reached: set[int], patterns: Sequence[str]) -> set[int]:
    """Also what is reached where ``**`` stands for no folder. As the last part, it stands for one name at least."""
    for at in range(len(patterns) - 1):
        if at in reached and patterns[at] == ANY_DEPTH:
            reached.add(at + 1)
    return reached


def whole_set_hint(path: str) -> str:
    """A hint for a missing file with the name of a shard: the name of the whole set."""
    found = as_shard(path)
    if found is None or not found["number"].isdigit():
        return ""
    stem, count, end = os.path.basename(found["stem"])[:-1], int(found["count"]), found["end"]
    counted = f"{stem}@{count}{end}"
    names = f"{counted} or {stem}@*{end}" if SCHEME.match(path) is None else counted
    return f"This is the name of one shard; {names} names the whole set."


def is_record_name(name: str) -> bool:
    """Whether a file of this name may hold records: it is visible, complete, and not a note such as .json or .txt."""
    return _is_shown(name) and _ending(name) not in SIDECARS


def _is_shown(name: str) -> bool:
    return name[:1] not in ("", ".", "_") and not name.startswith("incomplete.") and not is_temporary(name)


def _ending(name: str) -> str:
    return os.path.splitext(name)[1].lower()


def record_names(names: Iterable[str]) -> list[str]:
    """Those names of files in a folder that may hold records, in natural order.

    A ``.jsonl`` file is a note beside files of another format, such as ``metadata.jsonl`` beside images. Else it holds records, and
    so does a ``.json`` file where all others are notes or ``.json.gz``, as Spark writes them. Any other note holds records if
    its name differs from that of a compressed file only in numbers: then the folder is being compressed.
    """
    shown = sorted(filter(_is_shown, names), key=natural_key)
    found = [name for name in shown if _ending(name) not in SIDECARS]
    compressed = [
        each for name in found if (each := COMPRESSED_NOTE.fullmatch(name.lower())) and each["kind"] in SIDECARS
    ]
    kinds: set[str] = set()
    if all(JSON_LINES.fullmatch(name.lower()) for name in found):
        kinds.add(LINES_NOTE)
        if any(each["kind"] == JSON_NOTE for each in compressed) or not (found or LINES_NOTE in map(_ending, shown)):
            kinds.add(JSON_NOTE)
    alike = {DIGITS.sub("0", each["name"]) for each in compressed}
    return [
        name
        for name in shown
        if (ending := _ending(name)) not in SIDECARS or ending in kinds or DIGITS.sub("0", name.lower()) in alike
    ]


def is_temporary(name: str) -> bool:
    """Whether a file of this name is still being written."""
    return name.endswith(TEMPORARIES)


def natural_key(path: str) -> tuple[str | int, ...]:
    """A sort key by which ``part-10`` comes after ``part-9``. Only equal names have equal keys: ``p-01`` comes before ``p-1``."""
    parts: list[str | int] = [*DIGITS.split(path)]
    parts[1::2] = map(int, parts[1::2])
    return (*parts, -1, path)  # -1 is less than what follows in longer names


def summarize_names(names: Sequence[str], total: int | None = None) -> str:
    """Names for a message: the first few, and the number of others. ``total`` is the number of all if ``names`` are only the first."""
    count = len(names) if total is None else total
    shown = ", ".join(os.path.basename(name) for name in names[:MANY])
    return shown if count <= MANY else f"{shown} and {count - MANY} more"
