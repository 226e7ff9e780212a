"""Headrace with its defaults."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any

import numpy as np

import headrace as hr
from benchmarks.compare.tasks import import_all
from benchmarks.shapes.files import OBJECTS, ShapeFiles
from benchmarks.shapes.reading import Reading, Records

_SEEDS = count()


def loader(files: ShapeFiles) -> Reading:
    """``Loader(open(path), batch)``; tables of text are opened again in every epoch, since their peers parse them again."""
    return _reading(files, {})


def loader_opened(files: ShapeFiles) -> Reading:
    """The same, opened once before the timing."""
    return _reading(files, {}, once=True)


def loader_alone(files: ShapeFiles) -> Reading:
    """The same with ``threads=0``."""
    return _reading(files, {"threads": 0})


def loader_alone_again(files: ShapeFiles) -> Reading:
    """A second source, read in the same way: two measurements of one system differ by chance."""
    return loader_alone(files)


def loader_joined(files: ShapeFiles) -> Reading:
    """The same rows from one file."""
    return _reading(files.joined(), {})


def records(files: ShapeFiles) -> Records:
    """``records(path)``, the records of one call at a time."""

    def read_one() -> Callable[[np.ndarray], list[bytes]]:
        opened = hr.records(files.path)
        return lambda indices: [bytes(opened[int(indices[0])])]

    def read_many() -> Callable[[np.ndarray], list[bytes]]:
        opened = hr.records(files.path)
        return lambda indices: opened.spans(indices).to_bytes()

    return Records(files=files, open=read_one if files.shape.batch == 1 else read_many)


def _reading(files: ShapeFiles, options: dict[str, Any], *, once: bool = False) -> Reading:
    import_all()
    shape = files.shape
    source = _opened(files) if once or shape.format not in ("csv", "jsonl") else None

    def epoch() -> Iterator[Mapping[str, Any]]:
        order = {"shuffle": True, "seed": next(_SEEDS)} if shape.shuffled else {}
        return iter(hr.Loader(source or _opened(files), shape.batch, **order, **options))

    return Reading(files=files, epoch=epoch, columns=_columns(files), exact=True)


def _opened(files: ShapeFiles) -> hr.Source:
    if files.shape.crop:
        crop = {"crop": hr.RandomResizedCrop(files.shape.crop), "flip": True}
        return hr.open(files.path, decode=hr.ImageOptions(**crop))
    return hr.open(files.path)


def _columns(files: ShapeFiles) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    names = dict(files.shape.names)

    def columns(batch: Mapping[str, Any]) -> dict[str, Any]:
        if files.shape.format == "npy":
            (name,) = names
            return {name: batch["values"]}
        return {name: _plain(batch[f"{OBJECTS}/{name}" if name in files.shape.keys else name]) for name in names}

    return columns


def _plain(column: Any) -> Any:
    if isinstance(column, hr.Ragged):
        return np.asarray(column.values), column.lengths
    return np.asarray(column)
