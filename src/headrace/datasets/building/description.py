"""What a prepared folder says of itself, written: ``dataset_info.json``, ``features.json``, names of classes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.datasets.features.base import DatasetFeature
from headrace.datasets.prepared import FEATURES_FILE, INFO_FILE
from headrace.datasets.shards import DEFAULT_TEMPLATE
from headrace.io.atomic import write_atomic

__all__ = ["keys_json", "split_json", "write_features", "write_fields"]


def split_json(name: str, lengths: list[int], size: int, statistics: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A ``SplitInfo`` message: whole numbers are text in it."""
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
    """A ``SupervisedKeys`` message, or a part of one: names, tuples of names, dicts of names."""
    if isinstance(keys, str):
        return {"featureKey": keys}
    if isinstance(keys, Mapping):
        return {"dict": {"dict": {name: keys_json(inner) for name, inner in keys.items()}}}
    return {"tuple": {"items": [keys_json(inner) for inner in keys]}}


def write_fields(folder: Path, fields: Mapping[str, Any]) -> None:
    """``dataset_info.json``, without the fields that are empty."""
    told = {name: value for name, value in fields.items() if value not in ("", None, [], {}, False)}
    write_atomic(folder / INFO_FILE, json.dumps(told, indent=2, sort_keys=True).encode())


def write_features(folder: Path, features: DatasetFeature) -> None:
    """``features.json``, and a ``.labels.txt`` for every feature whose classes have names."""
    text = json.dumps(features.to_json(), indent=4, sort_keys=False)
    write_atomic(folder / FEATURES_FILE, text.encode())
    for name, label in features.label_files(""):
        if getattr(label, "has_names", False):
            write_atomic(folder / name, ("\n".join(label.names) + "\n").encode())
