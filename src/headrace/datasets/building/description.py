"""Write the description of a prepared folder (``dataset_info.json``, ``features.json``, class names), and choose numbers of files by TFDS's rules."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.datasets.features.base import DatasetFeature
from headrace.datasets.prepared import DEFAULT_TEMPLATE, FEATURES_FILE, INFO_FILE
from headrace.errors import UnsupportedData, Where
from headrace.io.write.atomic import write_atomic

__all__ = ["keys_json", "num_shards_for", "shard_lengths", "split_json", "write_features", "write_fields"]


def split_json(name: str, lengths: list[int], size: int, statistics: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Make a ``SplitInfo`` message, in which integers are text."""
    out: dict[str, Any] = {
        "filepathTemplate": DEFAULT_TEMPLATE,
        "name": name,
        "numBytes": str(size),
        "shardLengths": [str(length) for length in lengths],
    }
    if statistics:
        out["statistics"] = statistics
    return out


def keys_json(keys: Any) -> dict[str, Any]:
    """Make a ``SupervisedKeys`` message, or a part of one, from names, tuples and dicts of names."""
    if isinstance(keys, str):
        return {"featureKey": keys}
    if isinstance(keys, Mapping):
        return {"dict": {"dict": {name: keys_json(inner) for name, inner in keys.items()}}}
    return {"tuple": {"items": [keys_json(inner) for inner in keys]}}


def write_fields(folder: Path, fields: Mapping[str, Any]) -> None:
    """Write ``dataset_info.json`` without empty fields."""
    told = {name: value for name, value in fields.items() if value not in ("", None, [], {}, False)}
    write_atomic(folder / INFO_FILE, json.dumps(told, indent=2, sort_keys=True).encode())


def write_features(folder: Path, features: DatasetFeature) -> None:
    """Write ``features.json``, and a ``.labels.txt`` for every feature with named classes."""
    text = json.dumps(features.to_json(), indent=4, sort_keys=False)
    write_atomic(folder / FEATURES_FILE, text.encode())
    for name, label in features.label_files(""):
        if getattr(label, "has_names", False):
            write_atomic(folder / name, ("\n".join(label.names) + "\n").encode())


LEAST_BYTES = 64 << 20
MOST_BYTES = 1 << 30
FRAME_BYTES = 16
"""Overhead of TFRecord per payload."""
MANY = 1024
_USUAL = (512, 256, 128, 64, 32, 16, 8, 4, 2)


def num_shards_for(size: int, count: int) -> int:
    """Choose the number of files of a split: of 64 MiB to 1 GiB each, powers of two up to 1024, then multiples of 1024.

    Args:
        size: Bytes of all payloads.
        count: Number of payloads.
    """
    size += count * FRAME_BYTES
    most, least = size // LEAST_BYTES, size // MOST_BYTES
    if least <= MANY <= most and count >= MANY:
        return MANY
    if least > MANY:
        wanted = max(2, -(-least // MANY)) * MANY
        return wanted if count >= wanted else max(1, count)
    return next((n for n in _USUAL if least <= n <= most and count >= n), 1)


def shard_lengths(count: int, shards: int) -> list[int]:
    """Distribute examples over files, and return the number in each.

    Raises:
        UnsupportedData: There are fewer examples than files.
    """
    if count < shards:
        raise UnsupportedData(
            Where(), expected=f"at least one example for each of {shards} files", found=f"{count} examples"
        )
    ends = [round(count * number / shards) for number in range(1, shards + 1)]
    return [end - start for start, end in zip([0, *ends], ends, strict=False)]
