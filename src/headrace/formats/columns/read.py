"""Reads columns that :mod:`headrace.formats.columns.write` wrote, by index, from mapped files.

The files may be damaged, or change while they are read: every size, span and string is checked.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace import _optional
from headrace.contracts.strings import Strings
from headrace.contracts.values import LONG, Indices, Ragged
from headrace.errors import CorruptFile, Where
from headrace.io.local.mapped import MappedFile, guard_reads
from headrace.io.system import cached_property

__all__ = ["StoredFeature", "describe_damage"]

LITTLE = "<i8"


class StoredFeature:
    """One feature in a folder.

    Args:
        folder, stem: Where its files are, and the beginning of their names.
        name: The feature.
        count: The number of examples.
        described: What :meth:`FeatureWriter.close` returned.
    """

    def __init__(self, folder: str, stem: str, name: str, count: int, described: Mapping[str, Any]) -> None:
        self.name: str = name
        self.count: int = count
        self.is_text: bool = described["dtype"] == "str"
        self.dtype: np.dtype[Any] | None = (
            None if described["dtype"] in ("str", "bytes") else np.dtype(described["dtype"])
        )
        if self.dtype is not None and self.dtype.kind not in "biufcmMSU":
            raise ValueError(f"dtype {self.dtype}")
        self.shape: tuple[int | None, ...] = tuple(described["shape"])
        self.is_sparse: bool = bool(described.get("sparse"))
        self.levels: int = int(described.get("levels", 0))
        if self.is_sparse and (self.dtype is None or len(self.shape) != 1 or None in self.shape):
            raise ValueError(f"sparse rows of {described['dtype']} and shape {self.shape}")
        if not 0 <= self.levels <= self.shape.count(None):
            raise ValueError(f"{self.levels} levels of rows for the shape {self.shape}")
        self.paths: dict[Any, str] = {kind: os.path.join(folder, f"{stem}.{kind}") for kind in described["files"]}
        self.sizes: dict[Any, int] = {kind: int(size) for kind, size in described["files"].items()}
        self.cuts_cleanly: bool = None not in self.shape[1:] or bool(self.levels)

    @cached_property
    def _files(self) -> dict[str, MappedFile]:
        files = {kind: MappedFile(path) for kind, path in self.paths.items()}
        for kind, file in files.items():
            if file.size != self.sizes[kind]:
                raise describe_damage(file.path, f"{self.sizes[kind]} bytes", f"{file.size}")
        for kind, wanted in self._expected_sizes().items():
            found = self.sizes.get(kind, 0)
            if found != wanted:
                raise describe_damage(
                    self.paths.get(kind, self.name), f"{wanted} bytes for {self.count} examples", f"{found}"
                )
        return files

    def _expected_sizes(self) -> dict[str, int]:
        """The sizes that follow from the number of examples."""
        if None in self.shape or self.is_sparse:
            return {"rows": 8 * (self.count + 1)}
        values = self.count * math.prod(length or 0 for length in self.shape)
        if self.dtype is None:
            return {"ends": 8 * (values + 1)} if "ends" in self.paths else {}
        return {"values": values * self.dtype.itemsize}

    def map_files(self) -> None:
        """Map the files now."""
        _ = self._files

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_files"}

    def stored_bytes(self, first: int, stop: int) -> int:
        """How many bytes the values of the examples from ``first`` up to ``stop`` take."""
        files = self._files
        at = np.array([first, stop], np.int64)
        with guard_reads(*(file.buffer for file in files.values() if file.size)):
            if None in self.shape or self.is_sparse:
                for level in range(max(self.levels, 1)):
                    at = self._marks(f"rows{level or ''}", at)
            if not self.is_sparse and (self.levels or None not in self.shape):
                at = at * math.prod(length or 0 for length in self.shape[self.levels :])
            if self.dtype is None and "ends" in self.paths:
                at = self._marks("ends", at)
            width = 1 if self.dtype is None else self.dtype.itemsize
            if int(at[1]) * width > self.sizes.get("values", 0):
                raise self._bad("values")
        # Sparse rows have the column of each value, too.
        return int(at[1] - at[0]) * (width + 8 * self.is_sparse)

    def rows(self, indices: Indices) -> Any:
        """The values of some examples, as a batch has them."""
        files = self._files
        with guard_reads(*(file.buffer for file in files.values() if file.size)):
            return self._read(indices)

    def row(self, index: int) -> Any:
        """The value of one example, as :meth:`rows` has it."""
        files = self._files
        with guard_reads(*(file.buffer for file in files.values() if file.size)):
            if self._is_one_stretch:
                return self._one_stretch(index)
            return self._read(np.array([index], np.int64))[0]

    @cached_property
    def _is_one_stretch(self) -> bool:
        """Whether the value of an example is a text, or numbers that are next to each other."""
        if self.dtype is None:
            return self.shape == ()
        return not self.is_sparse and (None not in self.shape or self.shape == (None,))

    def _one_stretch(self, index: int) -> Any:
        """A text or numbers, for less than a batch of one."""
        if self.dtype is None:
            return self._text(index)
        shape = None if None in self.shape else tuple(length or 0 for length in self.shape)
        if shape is None:
            start, stop = (int(mark) for mark in self._array("rows", LITTLE)[index : index + 2])
        else:
            size = math.prod(shape)
            start, stop = index * size, (index + 1) * size
        values = self._array("values", self.dtype)
        if not 0 <= start <= stop <= len(values):
            raise self._bad("values")
        found = values[start:stop].astype(self.dtype.newbyteorder("="))
        return found if shape is None else found.reshape(shape)[()]

    def _text(self, index: int) -> str | bytes:
        begin, end = (int(mark) for mark in self._array("ends", LITTLE)[index : index + 2])
        content = self._array("values", np.uint8)
        if not 0 <= begin <= end <= len(content):
            raise self._bad("ends")
        found = content[begin:end].tobytes()
        try:
            return found.decode() if self.is_text else found
        except UnicodeDecodeError as error:
            raise self._bad("values") from error

    def _read(self, indices: Indices) -> Any:
        if self.is_sparse:
            return self._sparse_rows(indices)
        if self.levels:
            return self._nest(indices, 0)
        if None not in self.shape:
            size = math.prod(length or 0 for length in self.shape)
            starts = indices * size
            stops = starts + size
        else:
            starts, stops = self._spans("rows", indices, indices + 1)
        values = self._strings(starts, stops) if self.dtype is None else self._numbers(starts, stops, self.dtype)
        if None not in self.shape:
            return values.reshape(len(indices), *self.shape)
        return self._shape_rows(values, indices, stops - starts)

    def _sparse_rows(self, indices: Indices) -> Any:
        starts, stops = self._spans("rows", indices, indices + 1)
        assert self.dtype is not None
        values = self._numbers(starts, stops, self.dtype)
        columns, width = self._array("cells", LITTLE), int(self.shape[0] or 0)
        if len(stops) and int(stops.max()) > len(columns):
            raise self._bad("cells")
        found = _take_spans(columns, starts, stops).astype(np.int64)
        if len(found) and not 0 <= int(found.min()) <= int(found.max()) < width:
            raise self._bad("cells")
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(stops - starts)])
        sparse = _optional.require("scipy.sparse", extra="sklearn")
        return sparse.csr_array((values, found, offsets), shape=(len(indices), width))

    def _nest(self, rows: Indices, level: int) -> Ragged:
        """Rows of one level, and all below."""
        kind = f"rows{level or ''}"
        if len(rows) and int(rows.max()) >= len(self._array(kind, LITTLE)) - 1:
            raise self._bad(kind)
        starts, stops = self._spans(kind, rows, rows + 1, of_examples=level == 0)
        lengths = stops - starts
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        if level + 1 < self.levels:
            below = len(self._array(f"rows{level + 1}", LITTLE)) - 1
            if len(stops) and int(stops.max()) > below:
                raise self._bad(kind)
            inner = np.arange(int(offsets[-1])) + np.repeat(starts - offsets[:-1], lengths)
            return Ragged(self._nest(inner, level + 1), offsets)
        shape = tuple(length or 0 for length in self.shape[self.levels :])
        size = math.prod(shape)
        starts, stops = starts * size, stops * size
        values = self._strings(starts, stops) if self.dtype is None else self._numbers(starts, stops, self.dtype)
        return Ragged(values.reshape(int(offsets[-1]), *shape), offsets)

    def _shape_rows(self, values: Any, indices: Indices, sizes: Indices) -> Any:
        """Rows of varying length, or arrays of varying shapes."""
        ends = np.cumsum(sizes)
        if None not in self.shape[1:]:
            inner = math.prod(length or 0 for length in self.shape[1:])
            if inner and (sizes % inner).any():
                raise self._bad("rows")
            offsets = np.concatenate([np.zeros(1, np.int64), ends // max(inner, 1)])
            return Ragged(values.reshape(int(offsets[-1]), *self.shape[1:]), offsets)
        axes = len(self.shape)
        shapes = self._array("shapes", LITTLE).reshape(-1, axes)[indices].astype(np.int64)
        if (shapes < 0).any() or (np.prod(shapes, axis=1) != sizes).any():
            raise self._bad("shapes")
        parts = [values[end - size : end] for end, size in zip(ends.tolist(), sizes.tolist(), strict=True)]
        arrays = [part.reshape(shape) for part, shape in zip(parts, shapes.tolist(), strict=True)]
        return np.stack(arrays) if arrays and (shapes == shapes[0]).all() else arrays

    def _numbers(self, starts: Indices, stops: Indices, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        values = self._array("values", dtype)
        if len(stops) and int(stops.max()) > len(values):
            raise self._bad("values")
        return _take_spans(values, starts, stops).astype(dtype.newbyteorder("="), copy=False)

    def _strings(self, starts: Indices, stops: Indices) -> Strings:
        ends = self._array("ends", LITTLE) if "ends" in self.paths else np.zeros(1, np.int64)
        if len(stops) and int(stops.max()) >= len(ends):
            raise self._bad("ends")
        begins, finishes = (_take_spans(ends, starts + at, stops + at).astype(np.int64) for at in (0, 1))
        content = self._array("values", np.uint8)
        lengths = finishes - begins
        if len(lengths) and (int(lengths.min()) < 0 or int(begins.min()) < 0 or int(finishes.max()) > len(content)):
            raise self._bad("ends")
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        try:
            return Strings(_take_spans(content, begins, finishes), offsets, is_text=self.is_text)
        except ValueError as error:
            raise self._bad("values") from error

    def _spans(self, kind: str, first: Indices, last: Indices, *, of_examples: bool = True) -> tuple[Indices, Indices]:
        """Where rows begin and end. There are as many as examples, unless they lie in other rows."""
        marks = self._array(kind, LITTLE)
        if of_examples and len(marks) != self.count + 1:
            raise self._bad(kind)
        starts, stops = marks[first].astype(np.int64), marks[last].astype(np.int64)
        if len(starts) and (int(starts.min()) < 0 or int((stops - starts).min()) < 0):
            raise self._bad(kind)
        return starts, stops

    def _marks(self, kind: str, at: Indices) -> Indices:
        """The marks at two places, and neither these nor those may go back."""
        marks = self._array(kind, LITTLE)
        if not 0 <= at[0] <= at[1] < len(marks):
            raise self._bad(kind)
        found = marks[at].astype(np.int64)
        if not 0 <= found[0] <= found[1]:
            raise self._bad(kind)
        return found

    def _array(self, kind: str, dtype: Any) -> npt.NDArray[Any]:
        file = self._files.get(kind)
        return np.frombuffer(file.buffer, dtype) if file is not None and file.size else np.zeros(0, dtype)

    def _bad(self, kind: str) -> CorruptFile:
        return describe_damage(self.paths.get(kind, self.name), "the values that were stored", "others")


def _take_spans(values: npt.NDArray[Any], starts: Indices, stops: Indices) -> npt.NDArray[Any]:
    """Parts of an array, end to end, copied."""
    lengths = stops - starts
    if len(lengths) and int(lengths.sum()) < LONG * len(lengths):
        ends = np.cumsum(lengths)
        picked: npt.NDArray[Any] = values[np.arange(int(ends[-1])) + np.repeat(starts - (ends - lengths), lengths)]
        return picked
    parts = [values[start:stop] for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)]
    return np.concatenate(parts) if parts else np.zeros(0, values.dtype)


def describe_damage(path: str, expected: str, found: str) -> CorruptFile:
    """The error for a damaged folder of columns."""
    hint = "Remove the folder: it is a cache, and is made again."
    return CorruptFile(Where(path=path), expected=expected, found=found, hint=hint)
