"""Builders for the user's own files: folders of images, CSV files, prepared folders."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema
from headrace.datasets.building.builder import DatasetBuilder
from headrace.datasets.features.base import DatasetFeature
from headrace.datasets.features.image import Image
from headrace.datasets.features.label import ClassLabel
from headrace.datasets.features.mapping import FeaturesDict
from headrace.datasets.features.tensor import Tensor, Text
from headrace.datasets.locate import find_prepared
from headrace.datasets.opening import open_records
from headrace.datasets.prepared import INFO_FILE, Prepared, PreparedSplit, read_prepared
from headrace.errors import NoFiles, NoSuchFeature, SchemaMismatch, UnsupportedData, Where, did_you_mean
from headrace.formats.image_folder.format import ImageFolder
from headrace.io.folders import Listing
from headrace.io.paths import is_pipe
from headrace.io.urls import local_path
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
        UnsupportedData: They are not in folders of classes, or two folders have names of one split, as ``val`` and ``dev``.
    """
    root = local_path(folder, "a folder of images")
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
        return _splits_of(inner, root)
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

    Types are those that :func:`headrace.open` infers, and that hold a column of all splits; ``float64`` is stored without loss.

    Args:
        paths: A path, as for ``open``, for a single split ``"train"``; or a dict with a path for each split.
        name, version: Name and version of the dataset.
        label: The column with the class. Its values are numbered in alphabetical order, integers by size.
        columns: Select these columns.

    Raises:
        NoSuchFeature: There is no such column.
        SchemaMismatch: A file has no rows, or a row has no label.
        UnsupportedData: The files of two splits differ in their columns, or no dtype holds the numbers of a column.
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
    common = {column: _common_type(column, sources, is_label=column == label) for column in first.schema}
    sources = {split: _read_text(given[split], source, common) for split, source in sources.items()}
    features: dict[str, Any] = {}
    for column, kind in common.items():
        features[column] = _classes(sources.values(), column, kind) if column == label else _column_feature(kind)
    return DatasetBuilder(
        name=name,
        version=version,
        features=FeaturesDict(features),
        splits={split: partial(_rows, source, label, common) for split, source in sources.items()},
        shuffled=False,
        description=f"Rows of {len(first.schema)} columns.",
    )


def _common_type(column: str, sources: Mapping[str, Source], *, is_label: bool) -> Feature:
    """A type that holds a column of every split.

    Raises:
        UnsupportedData: It is numbers, and no dtype holds all of them.
    """
    kinds = [source.schema[column] for source in sources.values()]
    dtypes = {kind.dtype for kind in kinds}
    if "bytes" in dtypes:
        return Feature("bytes", kinds[0].shape)
    # True and 1 are different classes.
    if "str" in dtypes or (is_label and "bool" in dtypes and len(dtypes) > 1):
        return Feature("str", kinds[0].shape)
    dtype = np.result_type(*(np.dtype(each) for each in dtypes))
    if dtype.kind == "f" and all(np.dtype(each).kind in "iu" for each in dtypes):
        dtype = np.dtype(np.uint64)  # NumPy's type of int64 and uint64 is float64.
    if len(dtypes) > 1:
        for split, source in sources.items():
            if source.schema[column].numpy_dtype.kind in "iu":
                _check_integers(split, source, column, dtype)
    return Feature(dtype, kinds[0].shape)


def _check_integers(split: str, source: Source, column: str, dtype: np.dtype[Any]) -> None:
    for number, row in enumerate(source.select(column)):
        for value in np.asarray(row[column]).reshape(-1).tolist():
            if value < 0 if dtype.kind == "u" else dtype.kind == "f" and int(float(value)) != value:
                raise UnsupportedData(
                    Where(path=_file_of(source).path, record=number, feature=column),
                    expected=f"integers that {dtype} holds, which the files of all splits need",
                    found=f"{value} in split {split!r}",
                    hint="Leave out the column by columns=, or make its numbers alike in all files.",
                )


def _read_text(path: Paths, source: Source, common: Mapping[str, Feature]) -> Source:
    """The same rows, with columns as text that are text in another split: 1.50 stays 1.50."""
    schema = {name: common[name] if common[name].is_text else kind for name, kind in source.schema.items()}
    if schema == dict(source.schema):
        return source
    where = _file_of(source)
    if is_pipe(where.path or ""):
        different = [name for name, kind in schema.items() if kind != source.schema[name]]
        raise UnsupportedData(
            where,
            expected=f"text in the columns {different}, as in another split",
            found="numbers in a pipe, which is read once",
            hint="Write it to a file first.",
        )
    return open_source(path, format="csv", schema=Schema(schema))


def _column_feature(kind: Feature) -> DatasetFeature:
    """The feature for a type."""
    if kind.is_text:
        return Text() if kind.shape == () else Tensor(shape=kind.shape, dtype="string")
    return Tensor(shape=kind.shape, dtype=kind.dtype, encoding="bytes" if kind.dtype == "float64" else "none")


def _classes(sources: Iterable[Source], column: str, kind: Feature) -> ClassLabel:
    found: set[str] = set()
    for source in sources:
        for number, row in enumerate(source.select(column)):
            name = _class_name(row[column], kind)
            if name == "" or (name == "nan" and not kind.is_text):
                raise SchemaMismatch(
                    Where(path=_file_of(source).path, record=number, feature=column),
                    expected="a label in each row",
                    found="none",
                    hint="Remove the row, or give it a class of its own.",
                )
            found.add(name)
    if all(name.removeprefix("-").isdecimal() for name in found):
        return ClassLabel(names=sorted(found, key=lambda name: (int(name), name)))
    return ClassLabel(names=sorted(found))


def _class_name(value: Any, kind: Feature) -> str:
    """The name of a class, the same in splits of different types: 0 is 0.0 where another split has floats."""
    if isinstance(value, bytes):
        return value.decode()
    return str(value) if kind.is_text else str(kind.numpy_dtype.type(value))


def _rows(source: Source, label: str | None, common: Mapping[str, Feature]) -> Iterator[dict[str, Any]]:
    for row in source:
        yield dict(row) if label is None else {**row, label: _class_name(row[label], common[label])}


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
        for number, payload in enumerate(open_records(prepared, split)):
            yield number, bytes(payload)

    return give


def builder_for(path: Paths, *, name: str, version: str | None = None, label: str | None = None) -> DatasetBuilder:
    """Choose a builder for a path: a prepared folder, a folder of images, or CSV files.

    Raises:
        NoFiles: The path does not exist.
        UnsupportedData: Two files or folders have names of one split.
    """
    place = local_path(path, "the files of a dataset")
    first = version or "1.0.0"
    if place.is_dir():
        if (place / INFO_FILE).is_file():
            return tfds_folder_builder(place, name=name, version=version)
        files = list(Listing.of(place).named(".csv"))
        if files and all(_split_of(file) in KNOWN_SPLITS for file in files):
            return csv_builder(_splits_of(files, place), name=name, version=first, label=label)
        return image_folder_builder(place, name=name, version=first)
    if not place.exists():
        raise NoFiles(Where(path=str(place)), expected="a folder or CSV file", found="nothing of that name")
    return csv_builder(place, name=name, version=first, label=label)


def _splits_of(names: Iterable[str], folder: Path) -> dict[str, Path]:
    """The splits of files or folders.

    Raises:
        UnsupportedData: Two have names of one split, so one would be lost.
    """
    found: dict[str, str] = {}
    for name in names:
        split = _split_of(name)
        if split in found:
            raise UnsupportedData(
                Where(path=str(folder)),
                expected=f"one name for split {split!r}",
                found=f"{found[split]!r} and {name!r}",
                hint="Join or rename them.",
            )
        found[split] = name
    return {split: folder / name for split, name in found.items()}


def _split_of(name: str) -> str:
    """The split that a file or folder is named after."""
    stem = name.lower().removesuffix(".csv")
    return SPLIT_NAMES.get(stem, stem)
