"""The description of a prepared folder (``dataset_info.json``, ``features.json``), and the file names of its splits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.datasets.features.base import DatasetFeature
from headrace.datasets.features.reading import feature_from_json, load_label_names, read_features
from headrace.errors import CorruptFile, NoFiles, UnsupportedData, Where
from headrace.io.faults import name_in_errors
from headrace.io.json_text import load_json
from headrace.io.urls import stays_below

__all__ = [
    "DEFAULT_TEMPLATE",
    "FEATURES_FILE",
    "INFO_FILE",
    "SUFFIXES",
    "Prepared",
    "PreparedSplit",
    "leaf_names",
    "read_prepared",
    "shard_names",
]


DEFAULT_TEMPLATE = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"
SUFFIXES = {"tfrecord": "tfrecord", "riegeli": "riegeli", "array_record": "array_record", "parquet": "parquet"}
"""The file suffix of each format by its name in ``dataset_info.json``."""
DIGITS = 5
_VARIABLE = re.compile(r"\{(\w+)\}")
_OF_SHARDS = ("SHARD_INDEX", "NUM_SHARDS", "SHARD_X_OF_Y")


def shard_names(template: str, *, dataset: str, split: str, file_format: str, count: int) -> list[str]:
    """The file names of a split.

    Args:
        template: A name with variables: ``{DATASET}``, ``{SPLIT}``, ``{FILEFORMAT}``, ``{SHARD_INDEX}``, ``{NUM_SHARDS}``,
            ``{SHARD_X_OF_Y}``.
        dataset, split, file_format: Values of the variables.
        count: Number of files.

    Raises:
        CorruptFile: The template has an unknown variable, or leads out of the folder.
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
    if unknown or not stays_below(known):  # The names of dataset and split also come from the files.
        raise CorruptFile(
            Where(),
            expected="a template of file names inside the folder, with known variables",
            found=repr(template) + ("" if known == template else f", which means {known!r}"),
        )
    return [_fill_shard(known, f"{index:0{digits}}", values["NUM_SHARDS"]) for index in range(count)]


def _fill_shard(name: str, index: str, count: str) -> str:
    return name.replace("{SHARD_X_OF_Y}", f"{index}-of-{count}").replace("{SHARD_INDEX}", index)


INFO_FILE, FEATURES_FILE = "dataset_info.json", "features.json"
MOST_SHARDS = 10_000_000
MOST_EXAMPLES = 1 << 62
MOST_DIGITS = 20
Supervised = str | tuple["Supervised", ...] | dict[str, "Supervised"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedSplit:
    """A split of a prepared dataset.

    Args:
        name: ``"train"``, ...
        shard_lengths: Examples in each file; ``None`` if an old folder lacks them.
        num_shards: Number of files.
        num_bytes: Their size, if known.
        template: Template of their names.
    """

    name: str
    shard_lengths: tuple[int, ...] | None
    num_shards: int
    num_bytes: int = 0
    template: str = DEFAULT_TEMPLATE

    @property
    def num_examples(self) -> int | None:
        """Number of examples; ``None`` if only reading the files can show it."""
        return None if self.shard_lengths is None else sum(self.shard_lengths)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A prepared dataset.

    Args:
        folder: Its folder.
        name, config, version: Its name.
        features: Types of the values.
        splits: Splits by name, in the order of the file.
        supervised_keys: Names of input and target (and weight), possibly in tuples and dicts, or ``None``.
        file_format: ``"tfrecord"``, ``"array_record"``, ``"riegeli"`` or ``"parquet"``.
        other_formats: Further formats that the folder may hold.
        description, citation, license: Text.
        urls: Its home pages.
        fields: All of ``dataset_info.json``.
    """

    folder: Path
    name: str
    config: str
    version: str
    features: DatasetFeature
    splits: Mapping[str, PreparedSplit]
    supervised_keys: Any = None
    file_format: str = "tfrecord"
    other_formats: tuple[str, ...] = ()
    description: str = ""
    citation: str = ""
    license: str = ""
    urls: tuple[str, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def full_name(self) -> str:
        """``"name/config/version"``."""
        return "/".join(part for part in (self.name, self.config, self.version) if part)


def leaf_names(keys: Any) -> list[str]:
    """All names in supervised keys, which are names, tuples and dicts of names."""
    if isinstance(keys, str):
        return [keys]
    return [leaf for item in (keys.values() if isinstance(keys, Mapping) else keys) for leaf in leaf_names(item)]


def read_prepared(folder: Path) -> Prepared:
    """Read the description of a prepared folder.

    Raises:
        NoFiles: ``dataset_info.json`` or ``features.json`` is missing.
        CorruptFile: One of them is damaged.
        UnsupportedData: A feature or file format is unknown.
    """
    path = folder / INFO_FILE
    fields = _load_fields(path)
    reader = _InfoReader(path, fields)
    features = _features(folder, fields)
    file_format = reader.file_format(reader.get("fileFormat") or "tfrecord")
    others = [reader.file_format(other) for other in reader.get("alternativeFileFormats") or () if other in SUFFIXES]
    return Prepared(
        folder=folder,
        name=str(reader.get("name") or folder.parent.name),
        config=str(reader.get("configName") or ""),
        version=str(reader.get("version") or ""),
        features=features,
        splits=reader.splits(),
        supervised_keys=reader.supervised(),
        file_format=file_format,
        other_formats=tuple(others),
        description=str(reader.get("description") or ""),
        citation=str(reader.get("citation") or ""),
        license=str((reader.get("redistributionInfo") or {}).get("license") or ""),
        urls=tuple(map(str, (reader.get("location") or {}).get("urls") or ())),
        fields=fields,
    )


def _load_fields(path: Path) -> dict[str, Any]:
    where = Where(path=str(path))
    try:
        with name_in_errors(str(path)):
            fields = load_json(path.read_bytes())
    except FileNotFoundError as error:
        raise NoFiles(where, expected="a dataset_info.json", found="nothing of that name") from error
    except ValueError as error:
        raise CorruptFile(where, expected="JSON", found=str(error)) from error
    if not isinstance(fields, dict):
        raise CorruptFile(where, expected="a JSON object", found=type(fields).__name__)
    return fields


def _features(folder: Path, fields: Mapping[str, Any]) -> DatasetFeature:
    path = folder / FEATURES_FILE
    if path.is_file():
        features = read_features(path)
    elif isinstance(fields.get("features"), Mapping):
        features = feature_from_json(fields["features"], Where(path=str(folder / INFO_FILE)))
    else:
        raise NoFiles(
            Where(path=str(path)),
            expected="features.json, which holds the types of the values",
            found="nothing of that name",
            hint="TFDS before 4.0 did not write it. headrace.open(folder) infers the types from the records.",
        )
    load_label_names(features, folder)
    return features


class _InfoReader:
    """Reads the fields of one ``dataset_info.json``."""

    def __init__(self, path: Path, fields: Mapping[str, Any]) -> None:
        self.where = Where(path=str(path))
        self.fields = fields

    def get(self, name: str, fields: Mapping[str, Any] | None = None) -> Any:
        """A field, by its name in JSON or in protobuf."""
        fields = self.fields if fields is None else fields
        snake = "".join("_" + letter.lower() if letter.isupper() else letter for letter in name)
        return fields.get(name, fields.get(snake))

    def file_format(self, name: Any) -> str:
        found = str(name).lower()
        if found not in SUFFIXES:
            raise UnsupportedData(self.where, expected=f"one of the file formats {sorted(SUFFIXES)}", found=repr(name))
        return found

    def splits(self) -> dict[str, PreparedSplit]:
        found = self.get("splits") or []
        if not isinstance(found, list) or not all(isinstance(split, Mapping) for split in found):
            raise CorruptFile(self.where, expected="splits as a list of objects", found=repr(found)[:60])
        splits: dict[str, PreparedSplit] = {}
        for split in map(self.split, found):
            if split.name in splits:
                raise CorruptFile(self.where, expected="splits with different names", found=f"{split.name!r} twice")
            splits[split.name] = split
        return splits

    def split(self, fields: Mapping[str, Any]) -> PreparedSplit:
        name = fields.get("name")
        if not isinstance(name, str) or not name:
            raise CorruptFile(self.where, expected="a split with a name", found=repr(dict(fields))[:60])
        lengths = self.get("shardLengths", fields)
        if lengths is not None and not isinstance(lengths, list):
            raise CorruptFile(self.where, expected=f"shardLengths of {name} as a list", found=repr(lengths)[:60])
        known = None if lengths is None else tuple(self.number(n, f"shardLengths of {name}") for n in lengths)
        self.number(sum(known or ()), f"the sum of shardLengths of {name}")
        stated = self.number(self.get("numShards", fields) or 0, f"numShards of {name}")
        count = len(known) if known else stated
        if known and count != len(known):
            known = None
        size = self.number(self.get("numBytes", fields) or 0, f"numBytes of {name}")
        if size and not count:
            raise CorruptFile(self.where, expected=f"shardLengths of {name}, which has {size} bytes", found="none")
        return PreparedSplit(
            name=name,
            shard_lengths=known or (() if count == 0 else None),
            num_shards=count,
            num_bytes=size,
            template=str(self.get("filepathTemplate", fields) or DEFAULT_TEMPLATE),
        )

    def number(self, value: Any, what: str) -> int:
        is_number = isinstance(value, int) and not isinstance(value, bool)
        is_text = isinstance(value, str) and len(value) < MOST_DIGITS and value.isdecimal()
        found = int(value) if is_number or is_text else -1
        if not 0 <= found < MOST_EXAMPLES:
            raise CorruptFile(self.where, expected=f"{what} as integers below 2^62", found=repr(value)[:60])
        if what.startswith("numShards") and found > MOST_SHARDS:
            raise CorruptFile(self.where, expected=f"at most {MOST_SHARDS} files of a split", found=str(found))
        return found

    def supervised(self) -> Any:
        keys = self.get("supervisedKeys")
        if not isinstance(keys, Mapping) or not keys:
            return None
        if "input" in keys and "output" in keys:
            return (str(keys["input"]), str(keys["output"]))
        return self.keys_of(keys)

    def keys_of(self, item: Any) -> Any:
        if isinstance(item, Mapping):
            if "featureKey" in item or "feature_key" in item:
                return str(self.get("featureKey", item))
            items = item["tuple"].get("items") if isinstance(item.get("tuple"), Mapping) else None
            if isinstance(items, list):
                return tuple(map(self.keys_of, items))
            named = item["dict"].get("dict") if isinstance(item.get("dict"), Mapping) else None
            if isinstance(named, Mapping):
                return {str(name): self.keys_of(inner) for name, inner in named.items()}
        raise CorruptFile(self.where, expected="names of features as supervisedKeys", found=repr(item)[:80])
