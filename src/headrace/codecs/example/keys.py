"""Features stored in several lists of a tf.train.Example: sparse rows, and values that other lists partition into rows.

Source of the layouts: ``SparseFeature`` and ``RaggedFeature`` of TensorFlow's ``tensorflow/python/ops/parsing_config.py``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace import _optional
from headrace.codecs.example.columns import Column, Encoded, Part, Spec, column_of
from headrace.codecs.values import offsets_of
from headrace.contracts.feature import Feature
from headrace.contracts.feature_keys import RaggedKeys, SparseKeys
from headrace.contracts.strings import Strings
from headrace.contracts.values import Ragged
from headrace.errors import SchemaMismatch, UnsupportedData, Where

__all__ = ["KeyedColumn", "keyed_column_of"]


MOST_EMPTY_ROWS = 1 << 16
"""The most empty rows that ``value_rowids`` of one example may skip. A row number takes a few bytes, but every row below it
takes memory.
"""
FLAT_HINT = "Without keys=, each list can be read as it is: Feature(dtype, (None,)) under its own name."
Numbers = npt.NDArray[np.int64]


def keyed_column_of(name: str, feature: Feature, *, lists: frozenset[str], mixed: frozenset[str]) -> KeyedColumn:
    """The column codec of a feature with keys.

    Raises:
        UnsupportedData: Examples cannot hold such values, or a key is a feature list.
    """
    keys = feature.keys
    assert keys is not None
    listed = [key for key in keys.keys if key in lists]
    if listed:
        raise UnsupportedData(
            Where(feature=name), expected="keys of features", found=f"{listed[0]!r}, which is a feature list"
        )
    parts = [Feature(feature.dtype, (None,)), *(Feature("int64", (None,)) for _ in keys.keys[1:])]
    columns = [
        column_of(name, part, key=key, is_list=False, lists=lists, mixed=key in mixed and part.dtype == "float64")
        for key, part in zip(keys.keys, parts, strict=True)
    ]
    return (SparseColumn if isinstance(keys, SparseKeys) else RaggedColumn)(name, feature, columns)


class KeyedColumn(ABC):
    """One feature of a schema, and the columns of the lists that store it, the list of values first.

    Args:
        name, feature: From the schema.
        parts: The column codec of each list.
    """

    def __init__(self, name: str, feature: Feature, parts: Sequence[Column]) -> None:
        self.name = name
        self.feature = feature
        self.parts: list[Column] = list(parts)
        self.specs: list[Spec] = [part.spec for part in parts]

    def values(self, parts: Sequence[Part], n: int) -> Any:
        """Build the column from decoded lists.

        Raises:
            SchemaMismatch: The lists contradict each other. The error names the first such record.
        """
        try:
            typed = [column.values([part], n) for column, part in zip(self.parts, parts, strict=True)]
            return self._build(typed[0], typed[1:], n)
        except SchemaMismatch as fault:
            if fault.where.record:  # a different check may fail in an earlier record
                self.values([_first_of(part, fault.where.record) for part in parts], fault.where.record)
            raise

    def encoded(self, column: Any, n: int) -> list[Encoded]:
        """The input of native code for each list.

        Raises:
            SchemaMismatch, UnsupportedData: The column has the wrong shape, or values that the lists cannot hold.
        """
        lists = self._taken_apart(column, n)
        return [part.encoded(values, n)[0] for part, values in zip(self.parts, lists, strict=True)]

    def misfit(self, column: Any, n: int) -> SchemaMismatch:
        """The error for a column whose shape does not match the feature's."""
        shape = getattr(column, "shape", None)
        found = f"shape {shape}" if shape is not None else repr(column) if isinstance(column, Ragged) else "a list"
        return SchemaMismatch(
            Where(feature=self.name), expected=f"a column of shape {(n, *self.feature.shape)}", found=found
        )

    def _fault(self, record: Any, expected: str, found: Any) -> SchemaMismatch:
        return SchemaMismatch(
            Where(record=int(record), feature=self.name), expected=expected, found=str(found), hint=FLAT_HINT
        )

    @abstractmethod
    def _build(self, values: Ragged, others: list[Ragged], n: int, /) -> Any:
        """Build the column from the values and the other lists."""

    @abstractmethod
    def _taken_apart(self, column: Any, n: int, /) -> list[Ragged]:
        """Split the column into lists, the values first."""


def _first_of(part: Part, n: int) -> Part:
    """The decoded values of the first records."""
    flat, _, offsets = part
    assert offsets is not None
    count = int(offsets[n])
    if isinstance(flat, tuple):  # text
        data, ends, bad = flat
        return (data, ends[: count + 1], bad if bad < count else -1), None, offsets[: n + 1]
    return flat[:count], None, offsets[: n + 1]


class SparseColumn(KeyedColumn):
    """Rows of a sparse matrix, from values and positions."""

    @property
    def _keys(self) -> SparseKeys:
        assert isinstance(self.feature.keys, SparseKeys)
        return self.feature.keys

    def _build(self, values: Ragged, others: list[Ragged], n: int) -> Any:
        """``scipy.sparse.csr_array (n, width)``. Repeated positions are kept as separate entries, as in TensorFlow."""
        faults = [
            fault
            for key, size, positions in zip(self._keys.indices, self._keys.size, others, strict=True)
            for fault in self._faults(key, size, positions, values)
        ]
        if faults:
            raise min(faults, key=lambda fault: fault.where.record or 0)
        cells = np.zeros(len(values.values), np.int64)
        for size, positions in zip(self._keys.size, others, strict=True):
            cells = cells * size + positions.values
        data, offsets = np.asarray(values.values), values.offsets
        if not self._keys.is_sorted:
            data, cells = _in_order(data, cells, offsets)
        width = self.feature.shape[0]
        assert width is not None
        if max(width, len(cells)) <= np.iinfo(np.int32).max:
            cells, offsets = (
                cells.astype(np.int32),
                offsets.astype(np.int32),
            )  # SciPy wants both of one dtype, preferably narrow
        sparse = _optional.require("scipy.sparse", extra="sklearn")
        return sparse.csr_array((data, cells, offsets), shape=(n, width))

    def _faults(self, key: str, size: int, positions: Ragged, values: Ragged) -> list[SchemaMismatch]:
        uneven = np.flatnonzero(positions.lengths != values.lengths)
        numbers = np.asarray(positions.values)
        outside = np.flatnonzero((numbers < 0) | (numbers >= size))
        faults = []
        if len(uneven):
            row = uneven[0]
            expected = f"as many positions in {key!r} as values in {self._keys.values!r}, {values.lengths[row]}"
            faults.append(self._fault(row, expected, positions.lengths[row]))
        if len(outside):
            row = np.searchsorted(positions.offsets, outside[0], "right") - 1
            faults.append(self._fault(row, f"positions in {key!r} from 0 to {size - 1}", numbers[outside[0]]))
        return faults

    def _taken_apart(self, column: Any, n: int) -> list[Ragged]:
        sparse = _optional.require("scipy.sparse", extra="sklearn")
        try:
            rows = column.tocsr() if sparse.issparse(column) else sparse.csr_array(np.asarray(column))
        except (TypeError, ValueError) as error:
            raise self.misfit(column, n) from error
        if rows.shape != (n, *self.feature.shape):
            raise self.misfit(rows, n)
        offsets = np.ascontiguousarray(rows.indptr, np.int64)
        used = int(offsets[-1])
        data, cells = rows.data[:used], rows.indices[:used].astype(np.int64)
        lists = []
        for size in reversed(self._keys.size):
            cells, position = np.divmod(cells, size)
            lists.append(Ragged(position, offsets))
        return [Ragged(data, offsets), *reversed(lists)]


def _in_order(data: npt.NDArray[Any], cells: Numbers, offsets: Numbers) -> tuple[npt.NDArray[Any], Numbers]:
    """The entries of each row sorted by position. The sort is stable."""
    descends = np.diff(cells) < 0
    starts = offsets[1:-1]
    descends[starts[(starts > 0) & (starts < len(cells))] - 1] = False  # from one row to the next
    if not descends.any():
        return data, cells
    row = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    order = np.lexsort((cells, row))
    return data[order], cells[order]


class RaggedColumn(KeyedColumn):
    """Nested rows, from values and the lists that partition them."""

    @property
    def _keys(self) -> RaggedKeys:
        assert isinstance(self.feature.keys, RaggedKeys)
        return self.feature.keys

    def _build(self, values: Ragged, others: list[Ragged], n: int) -> Ragged:  # noqa: ARG002 - all lists have n rows
        """``Ragged`` rows of each example, nested as deep as there are partitions."""
        inner, offsets = values.values, values.offsets
        given = list(others)
        for kind, key in reversed(self._keys.partitions):
            if isinstance(key, int):
                inner, offsets = self._uniform(inner, offsets, key)
                continue
            cut = _Cut(self, key, given.pop(), np.diff(offsets))
            lengths, counts = getattr(cut, kind)()
            inner, offsets = Ragged(inner, offsets_of(lengths)), offsets_of(counts)
        return Ragged(inner, offsets)

    def _uniform(self, inner: Any, offsets: Numbers, length: int) -> tuple[Any, Numbers]:
        counts, rest = np.divmod(np.diff(offsets), length)
        bad = np.flatnonzero(rest)
        if len(bad):
            raise self._fault(bad[0], f"a multiple of {length} values or rows", np.diff(offsets)[bad[0]])
        if isinstance(inner, (np.ndarray, Strings)):
            inner = inner.reshape(-1, length, *inner.shape[1:])
        else:
            inner = Ragged(inner, np.arange(int(counts.sum()) + 1, dtype=np.int64) * length)
        return inner, offsets_of(counts)

    def _taken_apart(self, column: Any, n: int) -> list[Ragged]:
        inner, lengths = self._level(column, column, n)
        if len(lengths) != n:
            raise self.misfit(column, n)
        counts, lists = lengths, []
        for kind, key in self._keys.partitions:
            inner, lengths = self._level(inner, column, n)
            if isinstance(key, int):
                if (lengths != key).any():
                    raise self.misfit(column, n)
            else:
                lists.append(self._partition(kind, lengths, counts))
            counts = np.diff(offsets_of(lengths)[offsets_of(counts)])
        if isinstance(inner, Ragged) or inner.ndim != 1:
            raise self.misfit(column, n)
        return [Ragged(inner, offsets_of(counts)), *lists]

    def _level(self, rows: Any, column: Any, n: int) -> tuple[Any, Numbers]:
        """The concatenated content of the rows of one level, and their lengths."""
        if isinstance(rows, Ragged):
            return rows.values, rows.lengths
        if not isinstance(rows, (np.ndarray, Strings)) or rows.ndim < 2:
            raise self.misfit(column, n)
        count, length = rows.shape[:2]
        return rows.reshape(count * length, *rows.shape[2:]), np.full(count, length, np.int64)

    def _partition(self, kind: str, lengths: Numbers, counts: Numbers) -> Ragged:
        """The list that encodes rows of these lengths. ``counts`` is the number of rows of each example."""
        rows = offsets_of(counts)
        ends = offsets_of(lengths)
        limits = ends[1:] - np.repeat(ends[rows[:-1]], counts)  # of each row, counted from the example's first value
        if kind == "row_lengths":
            return Ragged(lengths, rows)
        if kind == "row_limits":
            return Ragged(limits, rows)
        if kind == "row_starts":
            return Ragged(limits - lengths, rows)
        if kind == "row_splits":
            return Ragged(np.insert(limits, rows[:-1], 0), offsets_of(counts + 1))
        numbers = np.arange(len(lengths)) - np.repeat(rows[:-1], counts)
        last = rows[1:][counts > 0] - 1
        empty = last[lengths[last] == 0]
        if len(empty):
            raise UnsupportedData(
                Where(record=int(np.searchsorted(rows, empty[0], "right") - 1), feature=self.name),
                expected="a last row with values, as value_rowids do not show an empty one",
                found="an empty one",
            )
        return Ragged(np.repeat(numbers, lengths), offsets_of(np.diff(ends[rows])))


class _Cut:
    """The rows described by one list per example: their lengths, concatenated, and the number of rows per example.

    Args:
        column: The column, for messages.
        key: The key of the list.
        given: The list of each example.
        values: How many values (or rows of the level below) each example has to partition.
    """

    def __init__(self, column: RaggedColumn, key: str, given: Ragged, values: Numbers) -> None:
        self.column = column
        self.key = key
        self.numbers = np.asarray(given.values)
        self.offsets = given.offsets
        self.given = given.lengths
        self.wanted = values

    def row_lengths(self) -> tuple[Numbers, Numbers]:
        self._check_each((self.numbers < 0) | (self.numbers > self._of_each(self.wanted)), "lengths")
        total = np.add.reduceat(np.append(self.numbers, 0), self.offsets[:-1]) * (self.given > 0)
        self._check_cover(total != self.wanted, total, "rows of together {} values")
        return self.numbers, self.given

    def row_limits(self) -> tuple[Numbers, Numbers]:
        self._check_ends(self._last(0), "a last limit of {}")
        return self._lengths_between(np.insert(self.numbers, self.offsets[:-1], 0), self.given)

    def row_splits(self) -> tuple[Numbers, Numbers]:
        self._check_begins()
        self._check_ends(self._last(0), "a last split of {}")
        there = self.given > 0
        return self._lengths_between(np.insert(self.numbers, self.offsets[:-1][~there], 0), self.given - there)

    def row_starts(self) -> tuple[Numbers, Numbers]:
        self._check_begins()
        without = (self.given == 0) & (self.wanted > 0)
        self._check_cover(without, np.zeros_like(self.wanted), "starts of the rows that hold {} values")
        return self._lengths_between(np.insert(self.numbers, self.offsets[1:], self.wanted), self.given)

    def value_rowids(self) -> tuple[Numbers, Numbers]:
        self._check_cover(self.given != self.wanted, self.given, "row numbers for {} values")
        most = self._of_each(self.wanted) + MOST_EMPTY_ROWS
        self._check_each((self.numbers < 0) | (self.numbers >= most), "row numbers")
        self._check_ascending(self.numbers, self.offsets)
        counts = self._last(-1) + 1
        rows = offsets_of(counts)
        numbers = self.numbers + self._of_each(rows[:-1])
        return np.bincount(numbers, minlength=int(rows[-1])).astype(np.int64), counts

    def _lengths_between(self, limits: Numbers, counts: Numbers) -> tuple[Numbers, Numbers]:
        """The row lengths, from the row limits. Each example has one limit more than rows."""
        bounds = offsets_of(counts + 1)
        self._check_ascending(limits, bounds)
        lengths = np.delete(np.diff(limits), bounds[1:-1] - 1)
        return lengths, counts

    def _of_each(self, numbers: Numbers) -> Numbers:
        """Repeat a number per example for each entry of its list."""
        return np.repeat(numbers, self.given)

    def _last(self, missing: int) -> Numbers:
        """The last entry of each list."""
        if not len(self.numbers):
            return np.full(len(self.given), missing, np.int64)
        return np.where(self.given > 0, self.numbers[self.offsets[1:] - 1], missing)

    def _check_begins(self) -> None:
        first = self.offsets[:-1][self.given > 0]
        wrong = first[self.numbers[first] != 0]
        if len(wrong):
            raise self._fault_at(wrong[0], f"{self.key!r} to begin with 0", self.numbers[wrong[0]])

    def _check_ends(self, last: Numbers, what: str) -> None:
        self._check_cover(last != self.wanted, last, what)

    def _check_cover(self, wrong: npt.NDArray[np.bool_], found: Numbers, what: str) -> None:
        records = np.flatnonzero(wrong)
        if len(records):
            record = records[0]
            expected = f"{what.format(self.wanted[record])} in {self.key!r}, which is how many there are"
            raise self.column._fault(record, expected, found[record])

    def _check_each(self, wrong: npt.NDArray[np.bool_], what: str) -> None:
        places = np.flatnonzero(wrong)
        if len(places):
            raise self._fault_at(places[0], f"{what} in {self.key!r} that fit the values", self.numbers[places[0]])

    def _check_ascending(self, numbers: Numbers, bounds: Numbers) -> None:
        descends = numbers[1:] < numbers[:-1]  # a difference could overflow int64
        starts = bounds[1:-1]
        descends[starts[(starts > 0) & (starts < len(numbers))] - 1] = False
        places = np.flatnonzero(descends)
        if len(places):
            record = np.searchsorted(bounds, places[0], "right") - 1
            found = f"{numbers[places[0] + 1]} after {numbers[places[0]]}"
            raise self.column._fault(record, f"numbers in {self.key!r} that never descend", found)

    def _fault_at(self, place: Any, expected: str, found: Any) -> SchemaMismatch:
        return self.column._fault(np.searchsorted(self.offsets, place, "right") - 1, expected, found)
