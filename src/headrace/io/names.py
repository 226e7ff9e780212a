"""File naming conventions: notes, temporaries, shards, natural order."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence

__all__ = [
    "COUNTED",
    "SIDECARS",
    "TEMPORARIES",
    "TEMPORARY_SUFFIX",
    "as_shard",
    "is_record_name",
    "is_temporary",
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


def as_shard(path: str) -> re.Match[str] | None:
    """The parts of the name of one shard; ``None`` for any other name."""
    found = SHARD.fullmatch(path)
    if found is None or (found["number"].isdigit() and int(found["number"]) >= int(found["count"])):
        return None
    return found


def shard_names(stem: str, count: int, end: str = "", *, digits: int = 5) -> list[str]:
    """The ``count`` names ``{stem}{number}-of-{count}{end}``."""
    return [f"{stem}{number:0{digits}}-of-{count:0{digits}}{end}" for number in range(count)]


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


def summarize_names(names: Sequence[str]) -> str:
    """Names for a message: the first few, and the number of others."""
    shown = ", ".join(os.path.basename(name) for name in names[:MANY])
    return shown if len(names) <= MANY else f"{shown} and {len(names) - MANY} more"
