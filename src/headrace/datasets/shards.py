"""Names of the files that a split lies in."""

from __future__ import annotations

import re

from headrace.errors import CorruptFile, Where
from headrace.io.urls import stays_below

__all__ = ["DEFAULT_TEMPLATE", "SUFFIXES", "shard_names"]

DEFAULT_TEMPLATE = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"
SUFFIXES = {"tfrecord": "tfrecord", "riegeli": "riegeli", "array_record": "array_record", "parquet": "parquet"}
"""What ends the names of files of each format, and what ``dataset_info.json`` calls it."""
DIGITS = 5
_VARIABLE = re.compile(r"\{(\w+)\}")
_OF_SHARDS = ("SHARD_INDEX", "NUM_SHARDS", "SHARD_X_OF_Y")


def shard_names(template: str, *, dataset: str, split: str, file_format: str, count: int) -> list[str]:
    """The files of a split, relative to their folder.

    Args:
        template: Names with variables: ``{DATASET}``, ``{SPLIT}``, ``{FILEFORMAT}``, ``{SHARD_INDEX}``, ``{NUM_SHARDS}``,
            ``{SHARD_X_OF_Y}``.
        dataset, split, file_format: What the variables stand for.
        count: How many files there are.

    Raises:
        CorruptFile: The template has another variable, or it or one of the names leads out of the folder.
    """
    template = template or DEFAULT_TEMPLATE
    if not any(f"{{{name}}}" in template for name in _OF_SHARDS):
        template += "-{SHARD_X_OF_Y}"
    digits = max(DIGITS, len(str(count)))
    values = {
        "DATASET": dataset,
        "SPLIT": split,
        "FILEFORMAT": SUFFIXES[file_format],
        "NUM_SHARDS": f"{count:0{digits}}",
    }
    unknown = [name for name in _VARIABLE.findall(template) if name not in values and name not in _OF_SHARDS]
    known = _VARIABLE.sub(lambda match: values.get(match[1], match[0]), template)
    if unknown or not stays_below(known):  # The names of the dataset and the split come from its files, too.
        raise CorruptFile(
            Where(),
            expected="a template of file names inside the folder, with known variables",
            found=repr(template) + ("" if known == template else f", which means {known!r}"),
        )
    return [_numbered(known, f"{index:0{digits}}", values["NUM_SHARDS"]) for index in range(count)]


def _numbered(name: str, index: str, count: str) -> str:
    return name.replace("{SHARD_X_OF_Y}", f"{index}-of-{count}").replace("{SHARD_INDEX}", index)
