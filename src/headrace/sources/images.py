"""Columns of paths as images, as in a CSV with one file for each picture.

A file of rows may come from elsewhere, and must not choose which files are read or which servers are asked. So every path
must name a file below the folder of its own file, unless the caller named the column with ``image_columns=``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.contracts.feature import SEVERAL_KINDS, Feature
from headrace.contracts.images import SUFFIXES, is_image_name
from headrace.contracts.records import Records, Table
from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Example, Indices
from headrace.errors import DataError, NoFiles, SchemaMismatch, Unreachable, UnsupportedData, Where
from headrace.io.faults import is_refusal
from headrace.io.local.open import FolderReader, OutsideFolder, read_each, read_whole, request_files
from headrace.io.store.object import RemoteFile, fetch_heads
from headrace.io.urls import is_url, sibling_of, stays_below
from headrace.sources.node import Node, OverFiles, cuts_cleanly, examples_of, narrow, read_blocks, records_below
from headrace.sources.records import CsvNode
from headrace.sources.stacking import row, stack
from headrace.sources.views import keep_features

__all__ = ["TEXT_FORMATS", "ImagePaths", "as_paths", "with_images"]

SAMPLE = 64
"""How many rows are read to find columns of paths."""
FIRST = 4
"""How many rows are read to leave out columns of other text."""
ROWS = 4096
"""How many rows of paths are read at a time where no image is."""
MOST_REQUESTS = 4
"""How many URLs are requested at most before a column is taken for text."""
SHOWN = 200
"""Characters of a path that an error shows."""
TEXT_FORMATS = ("csv", "jsonl")
"""Formats whose text may be paths. Others hold the images themselves."""


def with_images(node: Node, image_columns: Sequence[str] | None, *, in_schema: Sequence[str] | None = None) -> Node:
    """The node with images in the place of the paths that name them.

    Args:
        node: Rows of text files.
        image_columns: The features that are paths, which are followed wherever they lead. ``None``: those of ``in_schema``, or
            those whose values in most of the first rows name images below the folder, if one of those files exists. Empty: none.
        in_schema: The features that a schema says are images. It says what a column is, and does not let its paths lead out.

    Raises:
        NoSuchFeature, SchemaMismatch: A named column does not exist, or is not text.
    """
    if image_columns is not None:
        images = _take_columns(node, image_columns)
    elif in_schema is not None:
        images = _take_columns(node, in_schema)
    else:
        images = _find_columns(node) if isinstance(node, OverFiles) and node.records.format in TEXT_FORMATS else {}
    return ImagePaths(node, images, anywhere=image_columns is not None) if images else node


def as_paths(format: str, schema: Schema | None) -> tuple[Schema | None, list[str] | None]:
    """A schema given for a text file, in which images are paths, and the names of those features; ``None`` where no schema says what they are.

    >>> as_paths("csv", Schema({"image": Feature("bytes", encoding="jpeg")}))
    (Schema({'image': Feature('str')}), ['image'])
    """
    if schema is None or format not in TEXT_FORMATS:
        return schema, None
    names = [name for name, feature in schema.items() if feature.encoding is not None]
    return Schema({name: Feature("str") if name in names else feature for name, feature in schema.items()}), names


def _take_columns(node: Node, names: Sequence[str]) -> dict[str, Feature]:
    """The named columns of paths, as the images that they become."""
    for name in names:
        if node.schema[name] != Feature("str"):
            raise SchemaMismatch(
                node.where(0).at(feature=name) if len(node) else Where(feature=name),
                expected="text, one path in each row",
                found=repr(node.schema[name]),
            )
    sample = _sample(node, list(names))
    return {name: _image_feature([example[name] for example in sample]) for name in names}


def _find_columns(node: Any) -> dict[str, Feature]:
    """The columns most of whose first values name images below the folder, as the images that they become. Not those of a type that was given."""
    given = (node.records.dialect.types or {}) if isinstance(node, CsvNode) else {}
    text = Feature("str")
    names = [name for name, feature in node.schema.items() if feature == text and name not in given]
    if not names:
        return {}
    first = _sample(node, names, FIRST)
    names = [name for name in names if any(_stays_inside(example[name]) for example in first)]
    sample = _sample(node, names)
    found = {}
    for name in names:
        paths = [example[name] for example in sample if _stays_inside(example[name])]  # no other is looked for
        if 2 * len(paths) > len(sample) and _any_exists(_file(node, node.records, 0), paths, name):
            found[name] = _image_feature(paths)
    return found


def _sample(node: Node, names: list[str], rows: int = SAMPLE) -> list[Example]:
    """The first rows, up to damage, which is left for reading to report."""
    if names and isinstance(node, CsvNode):
        return node.narrow(tuple(names)).head(rows)
    found: list[Example] = []
    with suppress(DataError):
        found.extend(islice(examples_of(keep_features(node, names)), rows) if names else ())
    return found


def _any_exists(file: str, paths: list[str], name: str) -> bool:
    """Whether one of these files exists. Not all: a missing one is an error when it is read, and does not turn the others into text."""
    if is_url(file):
        return any(_exists_at(sibling_of(file, path), name) for path in paths[:MOST_REQUESTS])
    return any(os.path.isfile(sibling_of(file, path)) for path in paths)  # noqa: PTH113 - takes names that no file can have


def _exists_at(url: str, name: str) -> bool:
    try:
        fetch_heads([RemoteFile(url)])
    except NoFiles:
        return False
    except Unreachable as error:
        if is_refusal(error):
            return False
        hint = f"{error.hint} The column {name!r} seems to name images; image_columns=() reads it as text.".lstrip()
        raise Unreachable(
            error.where.at(feature=name), expected=error.expected, found=error.found, hint=hint
        ) from error
    return True


def _stays_inside(path: str) -> bool:
    return is_image_name(path) and stays_below(path)


def _image_feature(paths: list[str]) -> Feature:
    """The feature of the images at some paths."""
    kinds = {SUFFIXES.get(Path(path).suffix.lower(), SEVERAL_KINDS) for path in paths}
    return Feature("bytes", encoding=kinds.pop() if len(kinds) == 1 else SEVERAL_KINDS)


def _file(node: Node, records: Records | Table, index: int) -> str:
    """The file that a row is in."""
    paths = records.paths
    return paths[0] if len(paths) == 1 else node.where(index).path or ""


class ImagePaths:
    """A node in which some columns of paths are the encoded images at those paths.

    Args:
        parent: Rows; a relative path starts from the folder of the file that its row is in.
        images: The columns of paths, as what they become.
        anywhere: Whether paths may lead out of that folder.
    """

    def __init__(self, parent: Node, images: dict[str, Feature], *, anywhere: bool = False) -> None:
        self.parent = parent
        self.records: Records | Table = records_below(parent)[0]
        self.images = images
        self.anywhere = anywhere
        self.schema: Schema = Schema({name: images.get(name, feature) for name, feature in parent.schema.items()})
        self._folders: dict[str, FolderReader] = {}

    def __len__(self) -> int:
        return len(self.parent)

    def batch(self, indices: Indices, /) -> Batch:
        return self._with_images(self.parent.batch(indices), indices.tolist())

    def where(self, index: int, /) -> Where:
        return self.parent.where(index)

    def examples(self) -> Iterator[Example]:
        for index, example in enumerate(examples_of(self.parent)):
            yield row(self._with_images(stack([example]), [index]), 0)

    def below(self) -> tuple[Node, ...]:
        return (self.parent,)

    def narrow(self, names: tuple[str, ...], /) -> Node:
        narrowed = narrow(self.parent, names)
        images = {name: feature for name, feature in self.images.items() if name in names}
        return ImagePaths(narrowed, images, anywhere=self.anywhere)

    def cuts_cleanly(self) -> bool:
        return cuts_cleanly(self.parent)

    def files(self) -> Iterator[str]:
        """The files that the rows name, except those outside the folder, which are not read."""
        for start, stop, batch in read_blocks(narrow(self.parent, tuple(self.images)), ROWS):
            files = [_file(self.parent, self.records, index) for index in range(start, stop)]
            for name in self.images:
                for file, path in zip(files, batch[name], strict=True):
                    if self.anywhere or _stays_inside(path):
                        yield sibling_of(file, path)

    def _with_images(self, batch: Batch, indices: Sequence[int]) -> Batch:
        columns = dict(batch)
        for name in self.images:
            columns[name] = self._read(name, batch[name], indices)
        return columns

    def _read(self, name: str, paths: Sequence[str], indices: Sequence[int]) -> npt.NDArray[Any]:
        files = [_file(self.parent, self.records, index) for index in indices]
        if not self.anywhere:
            for path, index in zip(paths, indices, strict=True):
                if not _stays_inside(path):
                    raise self._outside(name, repr(path[:SHOWN]), index)
        places = [sibling_of(file, path) for file, path in zip(files, paths, strict=True)]
        if any(map(is_url, places)):
            return self._fetch(name, places, indices)
        self._request(files, paths, places)
        images = np.empty(len(indices), object)
        for position, whole in enumerate(places):
            try:
                images[position] = read_whole(whole) if self.anywhere else self._below(files[position], paths[position])
            except (NoFiles, IsADirectoryError, NotADirectoryError, ValueError) as error:
                raise self._missing(name, whole, indices[position]) from error
            except OutsideFolder as error:
                raise self._outside(name, f"{paths[position]!r}, {error}", indices[position]) from error
        return images

    def _request(self, files: Sequence[str], paths: Sequence[str], places: Sequence[str]) -> None:
        if self.anywhere:
            request_files(places)
            return
        for file in dict.fromkeys(files):
            self._reader(file).request(path for named_by, path in zip(files, paths, strict=True) if named_by == file)

    def _below(self, file: str, path: str) -> bytes:
        return self._reader(file).read(path)

    def _reader(self, file: str) -> FolderReader:
        folder = os.path.dirname(file)  # noqa: PTH120 - a Path is slower than reading the file
        found = self._folders.get(folder)
        return self._folders.setdefault(folder, FolderReader(folder)) if found is None else found

    def _fetch(self, name: str, places: list[str], indices: Sequence[int]) -> npt.NDArray[Any]:
        """Fetch all at once, which takes about as long as fetching one."""
        images = np.empty(len(indices), object)
        try:
            images[:] = read_each(places)
        except NoFiles as error:
            position = places.index(error.where.path) if error.where.path in places else 0
            raise self._missing(name, places[position], indices[position]) from error
        return images

    def _outside(self, name: str, found: str, index: int) -> UnsupportedData:
        return UnsupportedData(
            self.where(index).at(feature=name),
            expected="the path of an image in the folder of this file, or below it",
            found=found,
            hint=f"If you trust the file, image_columns=[{name!r}] follows paths anywhere; image_columns=() leaves them as text.",
        )

    def _missing(self, name: str, place: str, index: int) -> NoFiles:
        return NoFiles(self.where(index).at(feature=name), expected=f"an image at {place}", found="no file there")
