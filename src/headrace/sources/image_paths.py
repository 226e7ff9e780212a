"""Columns of paths as images: what a CSV with one file for each picture means.

A file of rows may come from elsewhere, and must not choose which files are read or which servers are asked. So every path,
in every row, must name a file below the folder of the file that it stands in, unless the caller named the column with ``image_columns=``.
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
from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Example, Indices
from headrace.errors import DataError, NoFiles, SchemaMismatch, UnsupportedData, Where
from headrace.io.local.open import FilesBelow, LeadsOut, read_each, read_whole
from headrace.io.store.object import RemoteFile, look_at
from headrace.io.urls import beside, is_url, stays_below
from headrace.sources.stacking import row, stack
from headrace.sources.views import Derived, Source

__all__ = ["TEXT_FORMATS", "ImagePaths", "as_paths", "with_images"]

SAMPLE = 64
"""How many rows are looked at for paths of images."""
ASKED_FOR = 4
"""How many URLs are asked for at most before they are taken for text."""
SHOWN = 200
TEXT_FORMATS = ("csv", "jsonl")
"""Formats whose text may be paths. Others hold the images themselves."""


def with_images(
    source: Source, image_columns: Sequence[str] | None, *, in_schema: Sequence[str] | None = None
) -> Source:
    """The source with the images that its paths name in the place of the paths.

    Args:
        source: Rows of text files.
        image_columns: The features that are paths, which are followed wherever they lead. ``None``: those of ``in_schema``, or
            those whose values in the first rows all name images below the folder, if a file of that name is there. Empty: none.
        in_schema: The features that a schema says are images. It says what a column is, and does not let its paths lead out.

    Raises:
        NoSuchFeature, SchemaMismatch: A named column is not there, or is no text.
    """
    if image_columns is not None:
        kinds = _named(source, image_columns)
    elif in_schema is not None:
        kinds = _named(source, in_schema)
    else:
        kinds = _recognised(source) if getattr(source, "format", "") in TEXT_FORMATS else {}
    return ImagePaths(source, kinds, anywhere=image_columns is not None) if kinds else source


def as_paths(format: str, schema: Schema | None) -> tuple[Schema | None, list[str] | None]:
    """A schema that was given for a text file: images in it are paths there. And which features those are, if any.

    >>> as_paths("csv", Schema({"image": Feature("bytes", encoding="jpeg")}))
    (Schema({'image': Feature('str')}), ['image'])
    """
    names = [name for name, feature in (schema or {}).items() if feature.encoding is not None]
    if schema is None or not names or format not in TEXT_FORMATS:
        return schema, None
    return Schema({name: Feature("str") if name in names else feature for name, feature in schema.items()}), names


def _named(source: Source, names: Sequence[str]) -> dict[str, Feature]:
    for name in names:
        if source.schema[name] != Feature("str"):
            raise SchemaMismatch(
                source.where(0).at(feature=name) if len(source) else Where(feature=name),
                expected="text, one path in each row",
                found=repr(source.schema[name]),
            )
    sample = _sample(source, list(names))
    return {name: _stored([example[name] for example in sample]) for name in names}


def _recognised(source: Source) -> dict[str, Feature]:
    names = [name for name, feature in source.schema.items() if feature == Feature("str")]
    if not names:
        return {}
    sample = _sample(source, names)
    found = {}
    for name in names:
        paths = [example[name] for example in sample]
        if paths and all(_stays_inside(path) for path in paths) and _some_are_there(source, paths):
            found[name] = _stored(paths)
    return found


def _sample(source: Source, names: list[str]) -> list[Example]:
    """The first rows, up to damage, which is left for reading to report."""
    found: list[Example] = []
    with suppress(DataError):
        found.extend(islice(source.select(*names), SAMPLE) if names else ())
    return found


def _some_are_there(source: Source, paths: list[str]) -> bool:
    """Whether a file that they name is there. Not all: one that is missing is to be named when it is read, not to make text of the rest."""
    first = _file(source, 0)
    if is_url(first):
        return any(_is_behind(beside(first, path)) for path in paths[:ASKED_FOR])
    return any(os.path.isfile(beside(first, path)) for path in paths)  # noqa: PTH113 - takes names that no file can have


def _is_behind(url: str) -> bool:
    try:
        look_at([RemoteFile(url)])
    except NoFiles:
        return False
    return True


def _stays_inside(path: str) -> bool:
    return is_image_name(path) and stays_below(path)


def _stored(paths: list[str]) -> Feature:
    kinds = {SUFFIXES.get(Path(path).suffix.lower(), SEVERAL_KINDS) for path in paths}
    return Feature("bytes", encoding=kinds.pop() if len(kinds) == 1 else SEVERAL_KINDS)


def _file(source: Source, index: int) -> str:
    """The file that a row is in."""
    paths: tuple[str, ...] = source.records.paths  # type: ignore[attr-defined]  # every source of files has them
    return paths[0] if len(paths) == 1 else source.where(index).path or ""


class ImagePaths(Derived):
    """A source in which some columns of paths are the encoded images that lie there.

    Args:
        parent: Rows; a relative path is meant from the folder of the file that its row is in.
        images: The columns of paths, as what they become.
        anywhere: Whether paths may lead out of that folder.
    """

    def __init__(self, parent: Source, images: dict[str, Feature], *, anywhere: bool = False) -> None:
        super().__init__(parent)
        self.images = images
        self.anywhere = anywhere
        self._folders: dict[str, FilesBelow] = {}
        self._schema = Schema({name: images.get(name, feature) for name, feature in parent.schema.items()})

    @property
    def schema(self) -> Schema:
        return self._schema

    def __getattr__(self, name: str) -> Any:
        """What the source of paths has besides (``records``, ``format``)."""
        if name.startswith("_") or name == "parent":
            raise AttributeError(name)
        return getattr(self.parent, name)

    def _narrowed(self, names: tuple[str, ...]) -> Source:
        narrow = self.parent._narrowed(names)
        images = {name: feature for name, feature in self.images.items() if name in names}
        return ImagePaths(narrow, images, anywhere=self.anywhere)

    def _batch(self, indices: Indices) -> Batch:
        return self._with_images(self.parent._batch(indices), indices.tolist())

    def __iter__(self) -> Iterator[Example]:
        """All examples in order, without an index where the parent needs none."""
        for index, example in enumerate(self.parent):
            yield row(self._with_images(stack([example]), [index]), 0)

    def _with_images(self, batch: Batch, indices: Sequence[int]) -> Batch:
        columns = dict(batch)
        for name in self.images:
            columns[name] = self._read(name, batch[name], indices)
        return columns

    def _read(self, name: str, paths: Sequence[str], indices: Sequence[int]) -> npt.NDArray[Any]:
        one_file = _file(self.parent, 0) if len(self.parent.records.paths) == 1 else None  # type: ignore[attr-defined]
        files = [one_file if one_file is not None else _file(self.parent, index) for index in indices]
        if not self.anywhere:
            for path, index in zip(paths, indices, strict=True):
                if not _stays_inside(path):
                    raise self._outside(name, repr(path[:SHOWN]), index)
        places = [beside(file, path) for file, path in zip(files, paths, strict=True)]
        if any(map(is_url, places)):
            return self._fetched(name, places, indices)
        images = np.empty(len(indices), object)
        for position, whole in enumerate(places):
            try:
                images[position] = read_whole(whole) if self.anywhere else self._below(files[position], paths[position])
            except (NoFiles, IsADirectoryError, NotADirectoryError, ValueError) as error:
                raise self._missing(name, whole, indices[position]) from error
            except LeadsOut as error:
                raise self._outside(name, f"{paths[position]!r}, {error}", indices[position]) from error
        return images

    def _below(self, file: str, path: str) -> bytes:
        folder = os.path.dirname(file)  # noqa: PTH120 - a Path is slower than reading the file
        found = self._folders.get(folder)
        if found is None:
            found = self._folders.setdefault(folder, FilesBelow(folder))
        return found.read(path)

    def _fetched(self, name: str, places: list[str], indices: Sequence[int]) -> npt.NDArray[Any]:
        """All of them at once: together they take about as long as one."""
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
