"""Writes the columns of features into files, batch by batch.

A folder holds ``columns.json`` and up to three files of each feature: ``<k>.values`` (numbers, or the bytes of text), ``<k>.ends`` (of text: where
each string ends among the values, after a first 0) and ``<k>.rows`` (where each example ends among the numbers or strings, after a first 0; of
arrays whose shapes vary ``<k>.shapes``, too). Of rows of rows, ``<k>.rows1``, ``<k>.rows2`` and so on say where each inner row ends. Of sparse
rows, ``<k>.cells`` has the column of each number. Integers are int64, little-endian like the numbers. It is a cache, and its layout may change in
any release.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from headrace._numbers import exact_mask
from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema, join_present
from headrace.contracts.strings import Strings
from headrace.contracts.values import Indices, Ragged, size_of, without_objects
from headrace.errors import SchemaMismatch, UnsupportedData, Where
from headrace.io.faults import name_in_errors
from headrace.io.folders import AtomicFolder

__all__ = ["DESCRIPTION", "RUNS", "VERSION", "FeatureWriter", "StoredBlock", "as_strings", "store_batches"]

VERSION = 1
DESCRIPTION = "columns.json"
RUNS = "runs"
"""The file of the runs that the examples form: little-endian ``int64``."""
LITTLE = "<i8"
FLOAT = "<f8"
DECIDING = 1024
"""The first examples, which decide whether numbers are floats."""
HELD_BYTES = 64 << 20
"""About the most bytes of them."""


class StoredBlock(NamedTuple):
    """Some examples to store."""

    batch: Mapping[str, Any]
    rows: int
    one: Callable[[int], Mapping[str, Any]]
    """A batch of one, by its index among all examples: to find the one at fault."""


def store_batches(
    folder: Path,
    blocks: Iterator[StoredBlock],
    schema: Schema | None = None,
    *,
    is_checked: bool = False,
    runs: Indices | None = None,
) -> None:
    """Write examples as a folder, which appears complete or not at all.

    Args:
        folder: Its name; it does not exist.
        blocks: The examples, with the same features each.
        schema: The features, as far as they are known.
        is_checked: Whether all values fit the schema. Otherwise its shapes are kept only where the values have them.
        runs: The runs that the examples form, such as episodes.

    Raises:
        SchemaMismatch: A feature changes its dtype or its number of axes.
        UnsupportedData: A feature cannot be stored.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    whole = AtomicFolder(folder)
    writers: dict[str, FeatureWriter] = {}
    count = 0
    try:
        first = _take_first(blocks)
        for at, name in enumerate(first[0].batch if first else ()):
            kinds = {_kind_of(block.batch.get(name)) for block in first}
            writers[name] = FeatureWriter(whole, f"{at}", name, is_float="f" in kinds and bool(kinds & {"i", "u"}))
        for block in chain(first, blocks):
            _append(writers, block, count)
            count += block.rows
        if runs is not None:
            whole.write(RUNS, runs.astype("<i8").tobytes())
        description = _describe(writers, schema, count, is_checked=is_checked)
        if runs is not None:
            description["runs"] = len(runs) - 1
        whole.write(DESCRIPTION, json.dumps(description).encode("ascii"))
        whole.close()
    except BaseException:
        for writer in writers.values():
            writer.abort()
        whole.abort()
        raise


def _take_first(blocks: Iterator[StoredBlock]) -> list[StoredBlock]:
    """The blocks that decide whether numbers are floats: a function may give integers for the very first examples."""
    taken: list[StoredBlock] = []
    count = size = 0
    while count < DECIDING and size < HELD_BYTES and (block := next(blocks, None)) is not None:
        taken.append(block)
        count += block.rows
        size += sum(map(size_of, block.batch.values()))
    return taken


def _kind_of(column: Any) -> str:
    while isinstance(column, Ragged):
        column = column.values
    return column.dtype.kind if isinstance(column, np.ndarray) and column.size else ""


def _append(writers: Mapping[str, FeatureWriter], block: StoredBlock, first: int) -> None:
    if list(block.batch) != list(writers):
        raise SchemaMismatch(
            Where(record=first), expected=f"the features {list(writers)}", found=str(list(block.batch))
        )
    for name, column in block.batch.items():
        try:
            writers[name].append(column, first)
        except SchemaMismatch as error:
            raise _find_fault(writers[name], block, first, error) from error


def _find_fault(writer: FeatureWriter, block: StoredBlock, first: int, error: SchemaMismatch) -> SchemaMismatch:
    """The error of the example that does not fit: that of a block names its first one. What this writes is discarded with the rest."""
    for index in range(first, first + block.rows):
        try:
            writer.append(block.one(index)[writer.name], index)
        except SchemaMismatch as found:
            return found
    return error


def _describe(
    writers: Mapping[str, FeatureWriter], known: Schema | None, count: int, *, is_checked: bool
) -> dict[str, Any]:
    """The description. Features are those of the schema where they were stored so."""
    described = {name: writer.close() for name, writer in writers.items()}
    features = {} if writers or count or known is None else dict(known)
    for name, found in described.items():
        dtype = found["dtype"] if found["dtype"] in ("str", "bytes") else np.dtype(found["dtype"])
        feature = Feature(dtype, tuple(found["shape"]), sparse=bool(found.get("sparse")))
        declared = None if known is None else known.get(name)
        stored = (feature.dtype, feature.shape, feature.sparse)
        is_same = declared is not None and (declared.dtype, declared.shape, declared.sparse) == stored
        features[name] = declared if declared is not None and (is_same or is_checked) else feature
    return {"version": VERSION, "examples": count, "schema": Schema(features).to_json(), "features": described}


class FeatureWriter:
    """The files of one feature.

    Args:
        folder: Where they are.
        stem: The beginning of their names.
        name: The feature, for messages.
        is_float: Whether its numbers are floats, also where the first ones are integers.
    """

    def __init__(self, folder: AtomicFolder, stem: str, name: str, *, is_float: bool = False) -> None:
        self.folder: AtomicFolder = folder
        self.stem: str = stem
        self.name: str = name
        self.rows: int = 0
        self._files: dict[str, IO[bytes]] = {}
        self._elements = 0
        self._bytes = 0
        self._dtype: str | None = FLOAT if is_float else None
        self._dtype_without_values: str | None = None
        self._shape: tuple[int | None, ...] | None = None
        self._is_fixed = self._is_inner_fixed = True
        self._kind = ""
        self._ends: list[int] = []  # of rows of rows, for each level: how many rows or values lie below

    def append(self, column: Any, first: int) -> None:
        """Add the rows of a column; the first of them is example ``first``."""
        try:
            column = join_present(column, self.name)
        except SchemaMismatch as error:
            raise error.relocated(Where(record=first + (error.where.record or 0))) from error
        if hasattr(column, "tocsr"):
            self._append_sparse(column.tocsr(), first)
            return
        if isinstance(column, Ragged) and isinstance(column.values, Ragged):
            self._append_nested(column, first)
            return
        values, shapes = _values_and_shapes(column, self.name)
        values = self._fit(values)
        if len(shapes) == 0:
            return
        if self._shape is None:
            self._shape = tuple(shapes[0].tolist())
        if isinstance(column, Ragged):
            self._is_fixed = False
        self._enter("arrays", first)
        self._check_kind(values, shapes.shape[1], first)
        shape = np.array(self._shape, np.int64)
        self._is_fixed = self._is_fixed and bool((shapes == shape).all())
        # Rows of no values at all have lengths only in their shapes.
        self._is_inner_fixed = self._is_inner_fixed and bool((shapes[:, 1:] == shape[1:]).all()) and 0 not in shape[1:]
        self._write_values(values)
        if self._shape:
            self._write("rows", self._elements + np.cumsum(np.prod(shapes, axis=1, dtype=np.int64)), leading_zero=True)
            self._write("shapes", shapes.reshape(-1))
        self._elements += int(np.prod(shapes, axis=1, dtype=np.int64).sum())
        self.rows += len(shapes)

    def _append_sparse(self, rows: Any, first: int) -> None:
        """Add sparse rows: the numbers, their columns, and where each row ends."""
        if not rows.shape[0]:
            return
        self._enter("sparse rows", first)
        width = int(rows.shape[1])
        if self._shape not in (None, (width,)):
            raise self._change_error(f"rows of {self._shape}", f"rows of {(width,)}", first)
        self._shape = (width,)
        values = self._fit(rows.data)
        self._check_kind(values, 1, first)
        self._write_values(values)
        self._write("cells", rows.indices)
        self._write("rows", self._elements + rows.indptr[1:], leading_zero=True)
        self._elements += int(rows.indptr[-1])
        self.rows += int(rows.shape[0])

    def _append_nested(self, column: Ragged, first: int) -> None:
        """Add rows of rows: where those of each level end, and the values of the innermost."""
        if not len(column):
            return
        self._enter("rows of rows", first)
        levels, inner = [column], column.values
        while isinstance(inner, Ragged):
            levels.append(inner)
            inner = inner.values
        values = self._fit(without_objects(inner) if isinstance(inner, np.ndarray) else inner)
        if not isinstance(values, Strings) and values.dtype == object and values.size:
            raise _refusal_error(self.name, "objects")
        shape = (*(None for _ in levels), *values.shape[1:])
        self._ends = self._ends or [0] * len(levels)
        has_values = bool(self._ends[-1])
        if len(levels) != len(self._ends) or (has_values and len(values) and shape != self._shape):
            raise self._change_error(f"rows of shape {self._shape}", f"rows of shape {shape}", first)
        if not has_values:  # rows without values do not show the shape of one
            self._shape = shape
        self._check_kind(values, len(shape), first)
        self._write_values(values)
        for level, rows in enumerate(levels):
            self._write(f"rows{level or ''}", self._ends[level] + rows.offsets[1:], leading_zero=True)
            self._ends[level] += int(rows.offsets[-1])
        self.rows += len(column)

    def _fit(self, values: Any) -> Any:
        """Values as they are stored: text as strings of any length, and integers among floats as floats that are equal to them."""
        values = as_strings(values)
        is_integer = isinstance(values, np.ndarray) and values.dtype.kind in "iu"
        return values.astype(np.float64) if is_integer and self._dtype == FLOAT and exact_mask(values).all() else values

    def _enter(self, kind: str, first: int) -> None:
        """Check that a column is of the kind of those before."""
        if self._kind not in ("", kind):
            raise self._change_error(self._kind, kind, first)
        self._kind = kind

    def _change_error(self, before: str, found: str, first: int) -> SchemaMismatch:
        where = Where(record=first, feature=self.name)
        return SchemaMismatch(where, expected=f"{before}, as before", found=found)

    def _check_kind(self, values: Any, axes: int, first: int) -> None:
        """Compare dtype and number of axes with those before. Rows without values have no dtype."""
        if isinstance(values, Strings):
            dtype = "str" if values.is_text else "bytes"
        else:
            dtype = "bytes" if values.dtype == object else values.dtype.newbyteorder("<").str
        if values.size == 0:
            self._dtype_without_values, dtype = dtype, self._dtype or dtype
        elif self._dtype is None:
            self._dtype = dtype
        expected = (self._dtype or dtype, len(self._shape or ()))
        if (dtype, axes) != expected:
            raise SchemaMismatch(
                Where(record=first, feature=self.name),
                expected="values of {} with {} axes, as before".format(*expected),
                found=f"{dtype} with {axes} axes",
                hint="A stored feature has one dtype: convert it first, as with numpy.float32(value).",
            )

    def _write_values(self, values: Any) -> None:
        if values.size == 0 and self._dtype is None:
            return
        if not isinstance(values, Strings):
            little = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
            self._put("values", little.reshape(-1).view(np.uint8).data if little.size else b"")
            return
        offsets = values.reshape(-1).offsets
        begin, end = int(offsets[0]), int(offsets[-1])
        self._put("values", values.content.data)
        self._write("ends", self._bytes + (offsets[1:] - begin), leading_zero=True)
        self._bytes += end - begin

    def _write(self, kind: str, numbers: npt.NDArray[np.int64], *, leading_zero: bool = False) -> None:
        if leading_zero and kind not in self._files:
            self._put(kind, bytes(8))
        self._put(kind, numbers.astype(LITTLE, copy=False).tobytes())

    def _put(self, kind: str, content: Any) -> None:
        with name_in_errors(self.folder.path):
            if kind not in self._files:
                self._files[kind] = open(self.folder.place(f"{self.stem}.{kind}"), "xb")  # noqa: SIM115 - see close()
            self._files[kind].write(content)

    def close(self) -> dict[str, Any]:
        """Finish the files. Returns their description."""
        sizes = {}
        with name_in_errors(self.folder.path):
            for kind, file in self._files.items():
                sizes[kind] = file.tell()
                file.close()
        if self._kind in ("sparse rows", "rows of rows"):
            return {
                "dtype": self._dtype or self._dtype_without_values or "<f8",
                "shape": list(self._shape or ()),
                "files": sizes,
                "sparse": self._kind == "sparse rows",
                "levels": len(self._ends),
            }
        unused = {"rows", "shapes"} if self._is_fixed else {"shapes"} if self._is_inner_fixed else set()
        for kind in unused & sizes.keys():
            os.unlink(self.folder.place(f"{self.stem}.{kind}"))
            del sizes[kind]
        lengths = self._shape or ()
        varies = 0 if self._is_fixed else 1 if self._is_inner_fixed else len(lengths)
        shape: list[int | None] = [None if axis < varies else length for axis, length in enumerate(lengths)]
        dtype = self._dtype or self._dtype_without_values or "<f8"
        return {"dtype": dtype, "shape": shape, "files": sizes}

    def abort(self) -> None:
        """Close the files."""
        for file in self._files.values():
            with contextlib.suppress(OSError):
                file.close()


def as_strings(values: Any) -> Any:
    """Arrays of NumPy's text or bytes, whose dtype is as wide as their longest value, as strings; others as they are."""
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "US":
        return values
    try:
        return Strings.from_values(values.astype(object), is_text=values.dtype.kind == "U")
    except ValueError:  # half a character
        return values


def _values_and_shapes(column: Any, name: str) -> tuple[Any, npt.NDArray[np.int64]]:
    """The values of a column end to end, and the shape of each row, ``int64 (n, axes)``."""
    if isinstance(column, np.ndarray) and column.dtype == object:
        column = without_objects(column)
    if isinstance(column, Ragged) and not isinstance(column.values, Ragged):
        values = without_objects(column.values) if isinstance(column.values, np.ndarray) else column.values
        if not isinstance(values, Strings) and values.dtype == object and values.size:
            raise _refusal_error(name, "objects")
        column = Ragged(values, column.offsets)
        inner = np.array(column.values.shape[1:], np.int64)
        lengths = column.lengths[:, None]
        return column.values, np.concatenate([lengths, np.broadcast_to(inner, (len(lengths), len(inner)))], axis=1)
    arrays = [np.asarray(array) for array in column] if isinstance(column, list) else []
    arrays = [array.astype(object) if array.dtype.kind in "US" else array for array in arrays]
    if len({(array.ndim, array.dtype) for array in arrays}) == 1:
        shapes = np.array([array.shape for array in arrays], np.int64).reshape(len(arrays), -1)
        return without_objects(np.concatenate([array.reshape(-1) for array in arrays])), shapes
    if isinstance(column, Strings) or (
        isinstance(column, np.ndarray) and column.dtype != object and column.dtype.kind != "V"
    ):
        inner = np.array(column.shape[1:], np.int64)
        return column, np.broadcast_to(inner, (len(column), len(inner)))
    if isinstance(column, np.ndarray) and column.size == 0:
        inner = np.array(column.shape[1:], np.int64)
        return column, np.broadcast_to(inner, (len(column), len(inner)))
    raise _refusal_error(name, type(column).__name__)


def _refusal_error(name: str, found: str) -> UnsupportedData:
    return UnsupportedData(
        Where(feature=name),
        expected="numbers, text or bytes",
        found=found,
        hint="Leave it out with select(), or flatten it in the function.",
    )
