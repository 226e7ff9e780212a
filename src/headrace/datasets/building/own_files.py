"""Builders for the user's own files: folders of images, CSV files, prepared folders."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from headrace.contracts.feature import Feature
from headrace.datasets.building.builder import DatasetBuilder
from headrace.datasets.features.base import DatasetFeature
from headrace.datasets.features.image import Image
from headrace.datasets.features.label import ClassLabel
from headrace.datasets.features.mapping import FeaturesDict
from headrace.datasets.features.tensor import Tensor, Text
from headrace.datasets.locate import find_prepared
from headrace.datasets.prepared import INFO_FILE, Prepared, PreparedSplit, read_prepared, shard_names
from headrace.errors import NoFiles, NoSuchFeature, SchemaMismatch, UnsupportedData, Where, did_you_mean
from headrace.formats.image_folder.format import ImageFolder
from headrace.formats.registry import format_named
from headrace.io.folders import Listing
from headrace.io.paths import is_pipe
from headrace.sources.node import records_below
from headrace.sources.open import open as open_source
from headrace.sources.source import Source

__all__ = ["builder_for", "csv_builder", "image_folder_builder", "tfds_folder_builder"]

Paths = str | os.PathLike[str]
SPLIT_NAMES = {"training": "train", "testing": "test", "val": "validation", "valid": "validation", "dev": "validation"}
KNOWN_SPLITS = frozenset(("train", "test", "validation", "eval", *SPLIT_NAMES))


def image_folder_builder(
    folder: Paths, *, name: str, version: str = "1.0.0", shape: tuple[int | None, ...] = (None, None, 3)
) -> DatasetBuilder:
    """A dataset of the images in a folder: ``folder/train/cat/1.jpg``, or ``folder/cat/1.jpg`` for a single split ``"train"``.

    Examples have ``image`` (the unchanged files), ``label`` and ``image/filename``, as in TFDS's ``ImageFolder``.

    Args:
        folder: A folder with a folder per split and class, or per class.
        name, version: Name and version of the dataset.
        shape: Height, width and channels of the images, ``None`` for varying axes.

    Raises:
        NoFiles: There are no images.
        UnsupportedData: They are not in folders of classes.
    """
    root = Path(folder).expanduser()
    splits = _image_splits(root)
    tables = {split: ImageFolder([str(place)]) for split, place in splits.items()}
    classes: set[str] = set()
    for split, table in tables.items():
        label = table.schema.get("label")
        if label is None:
            raise UnsupportedData(
                Where(path=str(splits[split])), expected="a folder for each class", found="images without one"
            )
        classes.update(label.names or ())
    features = FeaturesDict(
        {"image": Image(shape=shape), "label": ClassLabel(names=sorted(classes)), "image/filename": Text()}
    )
    return DatasetBuilder(
        name=name,
        version=version,
        features=features,
        splits={split: partial(_images, splits[split], table) for split, table in tables.items()},
        supervised_keys=("image", "label"),
        description=f"Images of {len(classes)} classes.",
    )


def _image_splits(root: Path) -> dict[str, Path]:
    inner = Listing.of(root).folders
    if inner and all(name.lower() in KNOWN_SPLITS for name in inner):
        return {SPLIT_NAMES.get(name.lower(), name.lower()): root / name for name in inner}
    return {"train": root}


def _images(folder: Path, table: ImageFolder) -> Iterator[tuple[str, dict[str, Any]]]:
    names = table.schema["label"].names or ()
    for start in range(0, len(table), 256):
        rows = np.arange(start, min(start + 256, len(table)))
        batch = table.batch(rows, ("image", "label", "name"))
        for image, label, name in zip(batch["image"], batch["label"], batch["name"], strict=True):
            path = str(name)
            if int(label) < 0:
                raise UnsupportedData(
                    Where(path=str(folder / path)),
                    expected="each image in the folder of a class",
                    found="one beside them",
                )
            example = {"image": bytes(image), "label": names[int(label)], "image/filename": path.rpartition("/")[2]}
            yield path, example


def csv_builder(
    paths: Paths | Mapping[str, Paths],
    *,
    name: str,
    version: str = "1.0.0",
    label: str | None = None,
    columns: list[str] | None = None,
) -> DatasetBuilder:
    """A dataset of the rows of CSV files, in their order.

    Types are those that :func:`headrace.open` infers; ``float64`` is stored without loss.

    Args:
        paths: A path, as for ``open``, for a single split ``"train"``; or a dict with a path for each split.
        name, version: Name and version of the dataset.
        label: The column with the class. Its values are numbered in alphabetical order.
        columns: Select these columns.

    Raises:
        NoSuchFeature: There is no such column.
        SchemaMismatch: A file has no rows.
        UnsupportedData: The files of two splits differ in their columns.
    """
    given = paths if isinstance(paths, Mapping) else {"train": paths}
    sources = {split: open_source(path, format="csv", columns=columns) for split, path in given.items()}
    first = next(iter(sources.values()))
    for split, source in sources.items():
        _check_rows(source)
        if list(source.schema) != list(first.schema):
            raise UnsupportedData(
                Where(path=f"split {split!r}"),
                expected=f"the columns {list(first.schema)}",
                found=str(list(source.schema)),
            )
    if label is not None and label not in first.schema:
        hint = did_you_mean(label, first.schema)
        expected = f"one of the columns {list(first.schema)}"
        raise NoSuchFeature(_file_of(first), expected=expected, found=repr(label), hint=hint)
    features: dict[str, Any] = {}
    for column in first.schema:
        kinds = [source.schema[column] for source in sources.values()]
        features[column] = _classes(sources.values(), column) if column == label else _column_feature(kinds)
    return DatasetBuilder(
        name=name,
        version=version,
        features=FeaturesDict(features),
        splits={split: partial(_rows, source, label) for split, source in sources.items()},
        shuffled=False,
        description=f"Rows of {len(first.schema)} columns.",
    )


def _column_feature(kinds: list[Feature]) -> DatasetFeature:
    """A feature that can hold a column of every split."""
    dtypes = {kind.dtype for kind in kinds}
    shape = kinds[0].shape
    if dtypes & {"str", "bytes"}:
        return Text() if shape == () else Tensor(shape=shape, dtype="string")
    dtype = np.result_type(*(np.dtype(str(dtype)) for dtype in dtypes)).name
    return Tensor(shape=shape, dtype=dtype, encoding="bytes" if dtype == "float64" else "none")


def _classes(sources: Any, column: str) -> ClassLabel:
    found: set[str] = set()
    for source in sources:
        found.update(_class_name(row[column]) for row in source.select(column))
    if all(name.removeprefix("-").isdecimal() for name in found):
        return ClassLabel(names=sorted(found, key=int))
    return ClassLabel(names=sorted(found))


def _class_name(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _rows(source: Source, label: str | None) -> Iterator[dict[str, Any]]:
    for row in source:
        yield dict(row) if label is None else {**row, label: _class_name(row[label])}


def _check_rows(source: Source) -> None:
    where = _file_of(source)
    # A pipe is read once, for the dataset.
    if not is_pipe(where.path or "") and next(iter(source), None) is None:
        raise SchemaMismatch(where, expected="at least one row below the header", found="none")


def _file_of(source: Source) -> Where:
    return Where(path=records_below(source.node)[0].paths[0])


def tfds_folder_builder(
    folder: Paths, *, name: str | None = None, version: str | None = None, data_dir: Paths | None = None
) -> DatasetBuilder:
    """A copy of a prepared dataset, for another folder, file format or number of files. Examples keep their order and bytes.

    Args:
        folder: A prepared folder, or the name of a dataset.
        name, version: New name and version.
        data_dir: Folder to search for names.

    Raises:
        NoFiles: There is no prepared dataset.
    """
    there = read_prepared(find_prepared(folder, data_dir))
    if there.file_format not in ("tfrecord", "array_record", "riegeli"):
        raise UnsupportedData(
            Where(path=str(there.folder)),
            expected="files of records",
            found=there.file_format,
            hint="See headrace convert.",
        )
    return DatasetBuilder(
        name=name or there.name,
        version=version or there.version,
        config="" if name else there.config,
        features=there.features,
        splits={split: _payloads(there, entry) for split, entry in there.splits.items() if entry.num_shards},
        supervised_keys=there.supervised_keys,
        description=there.description,
        citation=there.citation,
        license=there.license,
        urls=there.urls,
        shuffled=False,
    )


def _payloads(prepared: Prepared, split: PreparedSplit) -> Callable[[], Iterator[tuple[int, bytes]]]:
    def give() -> Iterator[tuple[int, bytes]]:
        names = shard_names(
            split.template,
            dataset=prepared.name,
            split=split.name,
            file_format=prepared.file_format,
            count=split.num_shards,
        )
        records = format_named(prepared.file_format).open([str(prepared.folder / name) for name in names])
        for number, payload in enumerate(records):
            yield number, bytes(payload)

    return give


def builder_for(path: Paths, *, name: str, version: str | None = None, label: str | None = None) -> DatasetBuilder:
    """Choose a builder for a path: a prepared folder, a folder of images, or CSV files.

    Raises:
        NoFiles: The path does not exist.
    """
    place = Path(path).expanduser()
    first = version or "1.0.0"
    if place.is_dir():
        if (place / INFO_FILE).is_file():
            return tfds_folder_builder(place, name=name, version=version)
        splits = {_split_of(file): place / file for file in Listing.of(place).named(".csv")}
        if splits and all(split in KNOWN_SPLITS for split in splits):
            return csv_builder(splits, name=name, version=first, label=label)
        return image_folder_builder(place, name=name, version=first)
    if not place.exists():
        raise NoFiles(Where(path=str(place)), expected="a folder or CSV file", found="nothing of that name")
    return csv_builder(place, name=name, version=first, label=label)


def _split_of(file: str) -> str:
    stem = file.rpartition(".")[0].lower()
    return SPLIT_NAMES.get(stem, stem)
