"""Hugging Face datasets as sources, and sources as Hugging Face datasets."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from headrace._optional import require
from headrace.adapters.arrow import ArrowNode, check_source, find_schema, read_columns, to_arrow
from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Indices
from headrace.errors import UnsupportedData, Where
from headrace.formats.table.arrow_types import Leaf, arrow, leaves_of
from headrace.io.system import cached_property
from headrace.sources.decoded import Decoding, check_decoding, decode_images
from headrace.sources.node import Node, stored_bytes
from headrace.sources.source import Source
from headrace.sources.views import Chosen

__all__ = ["HfNode", "from_hf", "to_hf"]

FILES = ("Image", "Audio", "Video")
"""Features that are the bytes of a file: ``struct<bytes, path>`` in Arrow."""


def from_hf(dataset: Any, *, decode: Decoding = True) -> Any:
    """A ``datasets.Dataset`` as a source; a ``DatasetDict`` as one source for each split.

    Rows are read through the dataset's own Arrow tables (memory-mapped), in its order after ``select``, ``shuffle`` and ``filter``. A format
    set on it does not count, nor do the columns that it selects. A transform is not called either; a warning says so.

    Args:
        dataset: A ``datasets.Dataset`` or ``DatasetDict``.
        decode: Decode images to ``uint8 (h, w, c)``, or as :class:`~headrace.ImageOptions` say. ``False`` leaves the ``bytes`` of their
            files, which audio and video always are.

    Returns:
        A source, or ``{split: source}``. A ``ClassLabel`` is ``int64`` with its names in the schema, ``Array2D`` to ``Array5D`` have
        their shape, other lists are ragged.

    Raises:
        UnsupportedData: it is a stream (``IterableDataset``), which has no random access, or a column has no array type. On reading: an
            image is stored by a path that cannot be read.
    """
    if isinstance(dataset, Mapping):
        return {name: from_hf(split, decode=decode) for name, split in dataset.items()}
    if not hasattr(dataset, "with_format") or not hasattr(dataset, "__len__"):
        raise UnsupportedData(
            Where(),
            expected="a datasets.Dataset, which has random access",
            found=type(dataset).__name__,
            hint="load_dataset(..., streaming=False) gives one.",
        )
    if getattr(dataset, "format", {}).get("type") == "custom":
        warnings.warn(
            "The dataset has a transform (with_transform, set_transform), which is not called here: pass it to source.map(...)",
            stacklevel=2,
        )
    return Source(decode_images(HfNode(dataset), decode=check_decoding(decode), given=None))


class HfNode:
    """Rows of a ``datasets.Dataset``; images as the bytes of their files.

    Args:
        dataset: The dataset.
    """

    def __init__(self, dataset: Any) -> None:
        self.dataset: Any = dataset.with_format("arrow")
        features = dataset.features
        self._files = [name for name, feature in features.items() if type(feature).__name__ in FILES]
        table = _plain(self.dataset[:0], self._files)
        self._leaves: list[Leaf] = list(leaves_of(table.schema))
        schema = find_schema(self._leaves)
        self.schema: Schema = Schema({name: _refine(feature, features.get(name)) for name, feature in schema.items()})

    def __len__(self) -> int:
        return len(self.dataset)

    @cached_property
    def _backing(self) -> tuple[ArrowNode, Any] | None:
        """The rows of the dataset's own table, and which of them are the dataset's (``None``: all). ``None``: it does not show them."""
        table = getattr(getattr(self.dataset, "data", None), "table", None)
        if not (isinstance(table, arrow().Table) and hasattr(self.dataset, "_indices")):
            return None
        if table.column_names != self.dataset.column_names or any(map(_has_paths, self._columns_of_files(table))):
            return None  # files are read with the examples that need them
        chosen = self.dataset._indices
        rows = ArrowNode(_plain(table, self._files), self.schema)
        return rows, None if chosen is None else np.asarray(chosen.column(0)).astype(np.int64)

    def _columns_of_files(self, table: Any) -> list[Any]:
        return [table.column(name) for name in self._files]

    def batch(self, indices: Indices, /) -> Batch:
        if len(indices) and self._backing is not None:
            rows, chosen = self._backing
            return rows.batch(indices if chosen is None else chosen[indices])
        is_run = len(indices) > 0 and bool((np.diff(indices) == 1).all())
        key = slice(int(indices[0]), int(indices[-1]) + 1) if is_run else indices.tolist()
        table = self.dataset[key] if len(indices) else self.dataset[:0]
        return read_columns(_plain(table, self._files, indices), self._leaves, self.schema, indices)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_backing"}

    def where(self, index: int, /) -> Where:
        return Where(record=index)

    def cuts_cleanly(self) -> bool:
        return True

    def stored_bytes(self, first: int, stop: int, /) -> int:
        if self._backing is None:
            return 0
        rows, chosen = self._backing
        return stored_bytes(rows if chosen is None else Chosen(rows, chosen), first, stop)

    def narrow(self, names: tuple[str, ...], /) -> Node:
        roots = dict.fromkeys(name for name in self.dataset.column_names for leaf in names if _is_in(leaf, name))
        return HfNode(self.dataset.select_columns(list(roots))) if roots else self


def _is_in(leaf: str, column: str) -> bool:
    return leaf == column or leaf.startswith(column + "/")


def _has_paths(column: Any) -> bool:
    """Whether some files are stored by their paths."""
    return any(chunk.field("bytes").null_count > chunk.field("path").null_count for chunk in column.chunks)


def _read_files(chunk: Any, name: str, indices: Indices) -> Any:
    """The bytes of some files, those that are stored by their paths read now, as the library does: from the current folder on.

    Raises:
        UnsupportedData: A path is not one of this machine, or its file cannot be read.
    """
    contents, paths = chunk.field("bytes"), chunk.field("path")
    if not contents.null_count:
        return contents
    found = contents.to_pylist()
    for row, path in enumerate(paths.to_pylist()):
        if found[row] is None and path is not None:
            where = Where(record=int(indices[row]), feature=name)
            if "://" in path:
                raise _no_file(path, "a URL", where)
            try:
                found[row] = Path(path).read_bytes()
            except OSError as error:
                raise _no_file(path, str(error.strerror), where) from error
    return arrow().array(found, arrow().binary())


def _no_file(path: str, found: str, where: Where) -> UnsupportedData:
    hint = "It is stored by its path: make that readable from here, or store the bytes, as dataset.push_to_hub() does."
    return UnsupportedData(where, expected=f"a file at {path!r}", found=found, hint=hint)


def _plain(table: Any, files: list[str], indices: Indices | None = None) -> Any:
    """The table with files as their bytes, and the library's own array types as the lists in which they are stored.

    Args:
        table: Some rows.
        files: The columns of files.
        indices: The numbers of the rows, if files that are stored by their paths are to be read. ``None``: those are null.
    """
    pa = arrow()
    for position, name in enumerate(table.column_names):
        column = table.column(position)
        if name in files:
            chunks, kind = _bytes_of(column, name, indices), pa.binary()
        elif isinstance(column.type, pa.ExtensionType):
            chunks, kind = [chunk.storage for chunk in column.chunks], column.type.storage_type
        else:
            continue
        table = table.set_column(position, name, pa.chunked_array(chunks, kind))
    return table


def _bytes_of(column: Any, name: str, indices: Indices | None) -> list[Any]:
    if indices is None:
        return [chunk.field("bytes") for chunk in column.chunks]
    ends = np.cumsum([0, *map(len, column.chunks)])
    return [_read_files(chunk, name, indices[end:]) for chunk, end in zip(column.chunks, ends, strict=False)]


def _refine(feature: Feature, own: Any) -> Feature:
    """The feature with what the dataset's own says beyond Arrow's type."""
    kind = type(own).__name__
    if kind == "ClassLabel":
        return Feature(feature.dtype, feature.shape, names=own.names)
    if kind == "Image":
        return Feature("bytes", encoding="image")
    if kind in ("Array2D", "Array3D", "Array4D", "Array5D"):
        return Feature(feature.dtype, tuple(own.shape))
    return feature


def to_hf(source: Source) -> Any:
    """All examples as a ``datasets.Dataset`` in memory.

    Labels with names in the schema become ``ClassLabel``; encoded images (opened with ``decode=False``) become ``Image``, which the
    library decodes; all others have the type that they have in :func:`headrace.adapters.arrow.to_arrow`.

    Raises:
        UnsupportedData: a feature has no Arrow type.
        MissingExtra: datasets or pyarrow is not installed.
    """
    check_source(source)
    library = require("datasets", extra="huggingface")
    table = to_arrow(source).replace_schema_metadata(None)
    for name, feature in source.schema.items():
        if _is_file(feature):
            table = table.set_column(table.column_names.index(name), name, _as_files(table.column(name)))
    features = library.Features.from_arrow_schema(table.schema)
    for name, feature in source.schema.items():
        if _is_file(feature):
            features[name] = library.Image()
        elif feature.names is not None and feature.shape == ():
            table = table.set_column(table.column_names.index(name), name, table.column(name).cast(arrow().int64()))
            features[name] = library.ClassLabel(names=list(feature.names))
    return library.Dataset(library.table.InMemoryTable(table), info=library.DatasetInfo(features=features))


def _is_file(feature: Feature) -> bool:
    return feature.dtype == "bytes" and feature.encoding is not None and feature.shape == ()


def _as_files(column: Any) -> Any:
    pa = arrow()
    chunks = [
        pa.StructArray.from_arrays([chunk, pa.nulls(len(chunk), pa.string())], ["bytes", "path"])
        for chunk in column.chunks
    ]
    return pa.chunked_array(chunks, pa.struct([("bytes", pa.binary()), ("path", pa.string())]))
