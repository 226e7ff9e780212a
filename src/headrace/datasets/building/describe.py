"""Turn existing files of records into a prepared dataset by adding a description."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.contracts.feature import IMAGE_AXES, Feature
from headrace.contracts.schema import Schema
from headrace.datasets.building.preparing import (
    check_class_names,
    check_named,
    check_supervised_keys,
    keys_json,
    split_json,
    write_features,
    write_fields,
)
from headrace.datasets.building.statistics import statistics_of
from headrace.datasets.features.base import DatasetFeature, LeafFeature
from headrace.datasets.features.image import Image
from headrace.datasets.features.label import ClassLabel
from headrace.datasets.features.mapping import FeatureLike, FeaturesDict, as_feature
from headrace.datasets.features.sequence import Sequence as SequenceFeature
from headrace.datasets.features.tensor import Tensor, Text
from headrace.datasets.prepared import (
    DEFAULT_TEMPLATE,
    INFO_FILE,
    SUFFIXES,
    Prepared,
    PreparedSplit,
    read_prepared,
    shard_names,
)
from headrace.errors import DataError, NoFiles, SchemaMismatch, UnsupportedData, Where
from headrace.formats.registry import format_named
from headrace.io.faults import name_in_errors
from headrace.io.local.fileset import FileSet
from headrace.io.urls import local_path
from headrace.sources.open import open as open_source

__all__ = ["write_metadata"]

_PATTERNS = {
    "DATASET": r"[a-zA-Z]\w*?",
    "SPLIT": r"[\w-]+?",
    "FILEFORMAT": "|".join(SUFFIXES[name] for name in ("tfrecord", "array_record", "riegeli")),
    "SHARD_INDEX": r"\d{5,}",
    "NUM_SHARDS": r"\d{5,}",
    "SHARD_X_OF_Y": r"\d{5,}-of-\d{5,}",
}
_VERSION = re.compile(r"\d+\.\d+\.\d+")
_IMAGES = ("png", "jpeg")


def write_metadata(
    folder: str | os.PathLike[str],
    *,
    features: FeatureLike | None = None,
    name: str | None = None,
    version: str | None = None,
    template: str = DEFAULT_TEMPLATE,
    supervised_keys: Any = None,
    description: str = "",
    citation: str = "",
    license: str = "",
    urls: Sequence[str] = (),
    overwrite: bool = False,
    progress: bool = True,
) -> Prepared:
    """Describe existing files of Examples, so that :func:`headrace.data_source` and TFDS read them. The files do not change.

    Reads every record once, to check it against ``features`` and to compute statistics.

    Args:
        folder: Folder of the files, which are named like shards, as by ``hr.write("FOLDER/pets-train.tfrecord@4", ...)``.
        features: Types of the values; by default those that :func:`headrace.open` infers.
        name, version: Name and version of the dataset. By default the name in the file names, else that of the folder; and the name
            of the folder if it is a version, else ``"1.0.0"``.
        template: Template of the file names, with the variables ``{DATASET}``, ``{SPLIT}``, ``{FILEFORMAT}``, ``{SHARD_INDEX}``,
            ``{NUM_SHARDS}`` and ``{SHARD_X_OF_Y}``.
        supervised_keys: Names of input and target (and weight), as ``("image", "label")``.
        description, citation, license, urls: Text.
        overwrite: Whether to replace an existing description.
        progress: Whether to show progress bars on a terminal.

    Raises:
        NoFiles: No file has such a name, or files of a split are missing.
        UnsupportedData: The files belong to several datasets or formats, a description exists, or TFDS has no feature for
            the values.
        NoSuchFeature: ``supervised_keys`` names another feature.
        DataError: A record is damaged, or does not match ``features``.
    """
    place = local_path(folder, "the folder of a dataset")
    where = Where(path=str(place))
    if (place / INFO_FILE).exists() and not overwrite:
        raise UnsupportedData(
            where,
            expected="files without a description",
            found=f"a {INFO_FILE}",
            hint="overwrite=True replaces it.",
        )
    shards = _find_shards(place, template, name)
    declared = _declare(features, place, template, shards)
    check_named(declared)
    check_class_names(declared)
    check_supervised_keys(declared, supervised_keys)
    found = _version_for(place, version)
    fields = {
        "name": shards.dataset,
        "version": found,
        "description": description,
        "citation": citation,
        "redistributionInfo": {"license": license} if license else {},
        "location": {"urls": list(urls)} if urls else {},
        "supervisedKeys": keys_json(supervised_keys) if supervised_keys else {},
        "fileFormat": shards.file_format,
        "moduleName": "headrace.datasets",
        "disableShuffling": True,
    }
    prepared = Prepared(
        folder=place,
        name=shards.dataset,
        config="",
        version=found,
        features=declared,
        splits={},
        file_format=shards.file_format,
    )
    entries = [_split(prepared, split, template, count, progress=progress) for split, count in shards.splits.items()]
    write_features(place, declared)
    write_fields(place, {**fields, "splits": entries})
    return read_prepared(place)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shards:
    """Facts from the file names."""

    dataset: str
    file_format: str
    splits: Mapping[str, int]

    def names(self, template: str, split: str) -> list[str]:
        """The files of a split."""
        return shard_names(
            template, dataset=self.dataset, split=split, file_format=self.file_format, count=self.splits[split]
        )

    def check_whole(self, folder: Path, template: str, split: str, there: list[str]) -> None:
        """Raise :class:`NoFiles` unless all files of a split are there."""
        absent = sorted(set(self.names(template, split)) - set(there))
        if not absent and len(there) == self.splits[split]:
            return
        raise NoFiles(
            Where(path=str(folder)),
            expected=f"the {self.splits[split]} files of split {split!r}, and no others of it",
            found=f"{len(there)} files" + (f", without {', '.join(absent[:3])}" if absent else ""),
        )


def _find_shards(folder: Path, template: str, name: str | None) -> _Shards:
    """Find the splits of a folder by the names of its files.

    Raises:
        NoFiles, UnsupportedData: See :func:`write_metadata`.
    """
    where = Where(path=str(folder))
    pattern = _pattern(template)
    with name_in_errors(str(folder)):
        there = sorted(os.listdir(folder)) if folder.is_dir() else []
    matches = [match for match in map(pattern.fullmatch, there) if match]
    if not matches:
        raise NoFiles(
            where,
            expected=f"files called {template}",
            found=f"{len(there)} others" if there else "none",
            hint="hr.write('FOLDER/NAME-train.tfrecord@4', ...) writes four such files. template= accepts other names.",
        )
    said = [match.groupdict() for match in matches]
    datasets = {str(match.get("DATASET") or name or _folder_name(folder)) for match in said}
    formats = {str(match.get("FILEFORMAT") or _format_in(template)) for match in said}
    _check_name(name or _folder_name(folder), [match[0] for match in matches], where)
    if len(datasets) > 1 or len(formats) > 1 or (name is not None and datasets != {name}):
        raise UnsupportedData(
            where,
            expected=f"files of {name or 'one dataset'} in one format",
            found=f"{sorted(datasets)} in {sorted(formats)}",
        )
    dataset, file_format = datasets.pop(), formats.pop()
    splits: dict[str, list[str]] = {}
    for match in matches:
        splits.setdefault(match.groupdict().get("SPLIT") or "train", []).append(match[0])
    counts = {split: max(_count_in(pattern, name) for name in names) or len(names) for split, names in splits.items()}
    found = _Shards(
        dataset=dataset,
        file_format=file_format,
        splits=dict(sorted(counts.items(), key=lambda item: (item[0] != "train", item[0]))),
    )
    for split, names in splits.items():
        found.check_whole(folder, template, split, names)
    return found


def _check_name(name: str, files: list[str], where: Where) -> None:
    """Refuse a hyphen in the name of the dataset: TFDS and we take what follows it in the names of files for the split."""
    if "-" in name and any(file.startswith(name + "-") for file in files):
        raise UnsupportedData(
            where,
            expected="a dataset whose name has no hyphen: in file names, the split follows the first one",
            found=repr(name),
            hint=f"Rename the files: {name.replace('-', '_')}-train...",
        )


def _pattern(template: str) -> re.Pattern[str]:
    """A pattern for the names of a template."""
    shard_names(
        template, dataset="x", split="x", file_format="tfrecord", count=1
    )  # Raises an error for a malformed template.
    if not re.search(r"\{(SHARD_INDEX|SHARD_X_OF_Y|NUM_SHARDS)\}", template):
        template += "-{SHARD_X_OF_Y}"
    seen: set[str] = set()

    def group(match: re.Match[str]) -> str:
        variable = match[1]
        if variable in seen:
            return f"(?P={variable})"
        seen.add(variable)
        return f"(?P<{variable}>{_PATTERNS[variable]})"

    escaped = re.escape(template).replace(r"\{", "{").replace(r"\}", "}")
    return re.compile(re.sub(r"\{(\w+)\}", group, escaped))


def _count_in(pattern: re.Pattern[str], name: str) -> int:
    """Number of files according to the name of one; 0 if that has none."""
    match = pattern.fullmatch(name)
    given = match.groupdict() if match else {}
    number = given.get("NUM_SHARDS") or (given.get("SHARD_X_OF_Y") or "").rpartition("-")[2]
    return int(number) if number else 0


def _folder_name(folder: Path) -> str:
    resolved = folder.resolve()
    return resolved.parent.name if _VERSION.fullmatch(resolved.name) else resolved.name


def _format_in(template: str) -> str:
    found = [name for name, suffix in SUFFIXES.items() if f".{suffix}" in template]
    return found[0] if found else "tfrecord"


def _version_for(folder: Path, version: str | None) -> str:
    found = version or (folder.resolve().name if _VERSION.fullmatch(folder.resolve().name) else "1.0.0")
    if not _VERSION.fullmatch(found):
        raise ValueError(f"expected a version such as 1.0.0, got {version!r}")
    return found


def _split(prepared: Prepared, split: str, template: str, count: int, *, progress: bool) -> dict[str, Any]:
    """The ``SplitInfo`` message of a split, from a pass over its records."""
    names = shard_names(template, dataset=prepared.name, split=split, file_format=prepared.file_format, count=count)
    paths = [str(prepared.folder / shard) for shard in names]
    records = format_named(prepared.file_format).open(paths)
    _check_compression(prepared, paths)
    lengths = tuple(int(length) for length in records.lengths)
    size = sum(spans.total_bytes for _, spans in records.iter_spans(None))
    entry = PreparedSplit(name=split, shard_lengths=lengths, num_shards=count, num_bytes=size, template=template)
    filled = [path for path, length in zip(paths, lengths, strict=True) if length]
    statistics = statistics_of(prepared, entry, filled, progress=progress)
    _check_classes(prepared, split, statistics)
    return {**split_json(split, list(lengths), size, statistics), "filepathTemplate": template}


def _check_compression(prepared: Prepared, paths: list[str]) -> None:
    """Refuse files that are compressed as a whole, which TFDS does not read."""
    found = format_named(prepared.file_format)
    if not found.compressible:
        return
    files = FileSet(paths, compression=None, is_plain=found.knows)
    for number, path in enumerate(paths):
        if files.wrapper(number) != "none":
            raise UnsupportedData(
                Where(path=path),
                expected="files without compression, which alone TFDS reads",
                found=files.wrapper(number),
                hint='hr.convert(old, "FOLDER/NAME-train.tfrecord@4", compression="none") writes them again.',
            )


def _check_classes(prepared: Prepared, split: str, statistics: Mapping[str, Any]) -> None:
    """Refuse labels beyond the number of classes."""
    classes = {
        key: leaf.num_classes for key, leaf, _ in prepared.features.leaves("", ()) if isinstance(leaf, ClassLabel)
    }
    for described in statistics["features"]:
        count, numbers = classes.get(described["name"]), described.get("numStats", {})
        if count is None or "min" not in numbers:
            continue
        wrong = [number for number in (int(numbers["min"]), int(numbers["max"])) if not -1 <= number < count]
        if wrong:
            raise SchemaMismatch(
                Where(path=str(prepared.folder), feature=described["name"]),
                expected=f"a class from -1 to {count - 1}",
                found=f"{wrong[0]} in split {split!r}",
            )


def _declare(features: FeatureLike | None, folder: Path, template: str, shards: _Shards) -> DatasetFeature:
    """The features, by default those that the files have.

    Raises:
        UnsupportedData: The files hold SequenceExamples, whose steps TFDS would read as empty.
    """
    names = shards.names(template, next(iter(shards.splits)))
    try:
        schema: Schema = open_source([str(folder / shard) for shard in names], format=shards.file_format).schema
    except DataError:
        if features is None:
            raise
        return as_feature(features)  # All records are checked against these.
    for key, feature in schema.items():
        if feature.steps:
            raise UnsupportedData(
                Where(path=str(folder), feature=key),
                expected="features of Examples",
                found="a feature list of SequenceExamples, which TFDS does not read",
                hint="Write the files again with a schema without steps=True.",
            )
    if features is not None:
        return as_feature(features)
    return FeaturesDict({key: _feature(key, feature) for key, feature in schema.items()})


def _feature(key: str, feature: Feature) -> DatasetFeature:
    if feature.shape.count(None) > 1 and not feature.is_image:
        raise UnsupportedData(
            Where(feature=key),
            expected="at most one length that varies",
            found=f"shape {feature.shape}",
            hint="Declare it by features=: TFDS stores sequences of sequences in another way.",
        )
    if feature.dtype == "float64":  # which no Example holds
        raise UnsupportedData(
            Where(feature=key),
            expected="numbers of one kind in all records",
            found="integers in some and floats in others, which TFDS does not read",
            hint="Write the files again with a schema in which it is float32.",
        )
    if feature.is_image:
        encoding = feature.encoding if feature.encoding in _IMAGES else None
        image = Image(shape=feature.shape[-IMAGE_AXES:], dtype=feature.dtype, encoding_format=encoding)
        return _wrap_in_sequences(image, feature.shape[:-IMAGE_AXES])
    if feature.names is not None:
        return _wrap_in_sequences(ClassLabel(names=feature.names), feature.shape)
    if feature.is_text:
        single: LeafFeature = Text() if feature.dtype == "str" else Tensor(shape=(), dtype="string")
        return _wrap_in_sequences(single, feature.shape)
    return Tensor(shape=feature.shape, dtype=feature.dtype)


def _wrap_in_sequences(feature: DatasetFeature, lengths: tuple[int | None, ...]) -> DatasetFeature:
    for length in reversed(lengths):
        feature = SequenceFeature(feature, length)
    return feature
