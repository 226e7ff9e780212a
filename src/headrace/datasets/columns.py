"""Decoding of one feature: the keys of an Example that it reads, and the column that they form. Steps of episodes are decoded on access."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from headrace.contracts.feature import Feature
from headrace.contracts.protocols import InnerExamples
from headrace.contracts.schema import Schema
from headrace.contracts.strings import Strings
from headrace.contracts.values import Batch, Ragged
from headrace.datasets.features.base import LeafFeature, Level, Stored, as_cells
from headrace.datasets.features.sequence import Dataset
from headrace.datasets.features.tensor import Tensor
from headrace.datasets.nested import Nested
from headrace.errors import DataError, SchemaMismatch, UnsupportedData, Where
from headrace.sources.source import as_indices

__all__ = ["LeafColumn", "Steps", "StepsColumn", "WireKey", "stored_key"]

MOST_VALUES = 1 << 31
FLAT, LENGTHS = "/ragged_flat_values", "/ragged_row_lengths_"


def stored_key(name: str, suffix: str) -> str:
    """The key of a stored value of a feature."""
    return f"{name}{suffix}" if name else suffix.removeprefix("/")


class WireKey:
    """A stored value of a feature, and the keys of an Example that hold it.

    Args:
        key: Key of the value.
        stored: Its type.
        levels: Lengths of the sequences that contain it.
        optional: Whether it may be missing.
    """

    def __init__(self, key: str, stored: Stored, levels: tuple[Level, ...], *, optional: bool) -> None:
        self.key = key
        self.stored = stored
        self.levels = levels
        self.optional: bool = optional and not levels and None not in stored.shape
        # Only the key shows that an array of varying length is missing: an empty one has no values either.
        self.lacks_key: bool = optional and not levels and None in stored.shape
        if levels and None in stored.shape:
            raise UnsupportedData(
                Where(feature=key),
                expected="elements of one shape, or an encoding, in a sequence",
                found=f"elements of shape {stored.shape}",
                hint="TFDS itself cannot store such a sequence.",
            )

    def features(self) -> dict[str, Feature]:
        """The keys and their types."""
        dtype, shape = self.stored.dtype, self.stored.shape
        if len(self.levels) < 2:
            front = (None,) if self.optional else self.levels
            return {self.key: Feature(dtype, (*front, *shape))}
        lengths = {f"{self.key}{LENGTHS}{i}": Feature("int64", (None,)) for i in range(len(self.levels) - 1)}
        return {self.key + FLAT: Feature(dtype, (None, *shape)), **lengths}

    def nested(self, batch: Mapping[str, Any], n: int) -> Nested:
        """The values of ``n`` examples.

        Raises:
            SchemaMismatch: The lengths of sequences in sequences contradict each other.
        """
        if not self.levels:
            return Nested([batch[self.key]])
        if len(self.levels) == 1:
            column = batch[self.key]
            if isinstance(column, Ragged):
                return Nested([column.values], (column.offsets,))
            length = column.shape[1]
            return Nested([column.reshape(n * length, *column.shape[2:])], (np.arange(n + 1, dtype=np.int64) * length,))
        return self._to_ragged(batch)

    def _to_ragged(self, batch: Mapping[str, Any]) -> Nested:
        lengths = [batch[f"{self.key}{LENGTHS}{i}"] for i in range(len(self.levels) - 1)]
        flat = batch[self.key + FLAT]
        offsets = [lengths[0].offsets]
        for level, counts in enumerate(lengths):
            below = flat if level + 1 == len(lengths) else lengths[level + 1]
            outside = np.flatnonzero((counts.values < 0) | (counts.values > len(below.values)))
            if len(outside):
                record = int(np.searchsorted(counts.offsets, outside[0], "right")) - 1
                raise self._contradiction(f"a length of {counts.values[outside[0]]}", record)
            ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts.values, dtype=np.int64)])
            # Per example, not only in total: otherwise values would move to the next example.
            wrong = np.flatnonzero(ends[counts.offsets] != below.offsets)
            if len(wrong):
                raise self._contradiction(f"{int(below.lengths[wrong[0] - 1])} of them", int(wrong[0]) - 1)
            offsets.append(ends)
        return Nested([flat.values], tuple(offsets))

    def _contradiction(self, found: str, record: int | None = None) -> SchemaMismatch:
        return SchemaMismatch(
            Where(record=record, feature=self.key),
            expected="as many values as the lengths of the sequences add up to",
            found=found,
        )


class LeafColumn:
    """The column of one feature.

    Args:
        name: Name of the feature.
        feature: Its type.
        levels: Lengths of the sequences that contain it.
        in_steps: Whether it belongs to the steps of a dataset, where each step has a value.
    """

    def __init__(self, name: str, feature: LeafFeature, levels: tuple[Level, ...], *, in_steps: bool = False) -> None:
        self.name = name
        self.feature = feature
        self.levels = levels
        if math.prod(length or 1 for length in (*levels, *feature.value_shape)) > MOST_VALUES:
            raise UnsupportedData(
                Where(feature=name),
                expected=f"at most {MOST_VALUES} values in an example",
                found=f"{feature!r} in sequences of the lengths {levels}" if levels else repr(feature),
            )
        self.keys: list[WireKey] = [
            WireKey(stored_key(name, suffix), stored, levels, optional=feature.optional and not in_steps)
            for suffix, stored in feature.stored.items()
        ]

    @property
    def wire(self) -> dict[str, Feature]:
        """The keys that it reads, and their types."""
        return {key: feature for part in self.keys for key, feature in part.features().items()}

    @property
    def schema(self) -> Feature:
        """The type of the column."""
        shape = tuple(None if length == 0 and self.feature.varies else length for length in self.feature.value_shape)
        return Feature(self.feature.value_dtype, (*self.levels, *shape), **self.feature.schema_options)

    @property
    def cuts_cleanly(self) -> bool:
        """Whether the type of the column does not depend on the number of examples."""
        return bool(self.levels) or not self.feature.varies

    @property
    def is_plain(self) -> bool:
        """Whether the column equals the stored values of the key of that name."""
        is_stored = type(self.feature).decode is Tensor.decode and self.feature.is_as_stored  # type: ignore[attr-defined]
        return is_stored and len(self.levels) < 2 and not (self.keys[0].optional or self.lacks_key)

    @property
    def lacks_key(self) -> bool:
        """Whether :meth:`decode` needs the examples that lack the key of the column."""
        return self.keys[0].lacks_key

    def nested(self, batch: Mapping[str, Any], n: int) -> Nested:
        """The stored values of ``n`` examples.

        Raises:
            SchemaMismatch: The keys of the feature hold different numbers of values.
        """
        first, *others = [key.nested(batch, n) for key in self.keys]
        for key, other in zip(self.keys[1:], others, strict=True):
            if (unlike := first.find_unlike(other)) is not None:
                expected = f"as many values as {self.keys[0].key!r} has: {unlike[1]}"
                raise SchemaMismatch(Where(record=unlike[0], feature=key.key), expected=expected, found=str(unlike[2]))
        return Nested([part for nested in (first, *others) for part in nested.parts], first.offsets)

    def decode(self, nested: Nested, lacking: Sequence[int] = ()) -> Any:
        """Decode stored values into the column.

        Args:
            nested: Its stored values.
            lacking: The examples that lack its key, if that is all that shows a missing value.

        Raises:
            DataError: A value cannot be decoded. Names the feature and the position of the example.
        """
        self._check_lengths(nested)
        try:
            return self._present(nested, lacking) if self.lacks_key else self._decode_leaf(nested)
        except DataError as error:
            record = None if error.where.record is None else nested.record_of(error.where.record)
            raise error.relocated(Where(record=record, feature=self.name)) from error.__cause__

    def _decode_leaf(self, nested: Nested) -> Any:
        if self.keys[0].optional:
            return self._optional(nested)
        values = self.feature.decode(nested.parts)
        if not nested.offsets:
            return values
        if self.feature.varies:
            return self._varying(values, nested)
        for level, offsets in zip(reversed(self.levels), reversed(nested.offsets), strict=True):
            if level is None or not isinstance(values, (np.ndarray, Strings)):
                values = Ragged(values, offsets)
            else:
                values = values.reshape(len(offsets) - 1, level, *values.shape[1:])
        return values

    def _check_lengths(self, nested: Nested) -> None:
        """Check that sequences have their declared lengths."""
        for depth, (level, offsets) in enumerate(zip(self.levels, nested.offsets, strict=True)):
            lengths = np.diff(offsets)
            wrong = np.flatnonzero(lengths != level).tolist() if level is not None else []
            if wrong:
                record = Nested([], nested.offsets[:depth]).record_of(wrong[0])
                fault = self.feature.misfit(f"{lengths[wrong[0]]} of them", expected=f"sequences of {level}")
                raise fault.relocated(Where(record=record, feature=self.name))

    def _varying(self, values: Any, nested: Nested) -> Any:
        """Group arrays by example: as one array if their shapes agree, else as a list."""
        if len(nested.offsets) > 1:
            column: Any = as_cells(list(values))
            for offsets in reversed(nested.offsets):
                column = Ragged(column, offsets)
            return column
        bounds = nested.offsets[0].tolist()
        return [self._alike(values[a:b]) for a, b in pairwise(bounds)]

    def _alike(self, values: Any) -> Any:
        if len(values) == 0:
            return np.zeros((0, *(length or 0 for length in self.feature.value_shape)), self.feature.dtype)
        if isinstance(values, list) and all(value.shape == values[0].shape for value in values):
            return np.stack(values)
        return values

    def _optional(self, nested: Nested) -> npt.NDArray[Any]:
        """An object array of values, with ``None`` for missing ones."""
        first, *others = nested.parts
        lengths = first.lengths
        if len(lengths) and int(lengths.max()) > 1:
            raise self.feature.misfit(f"{int(lengths.max())} of them", record=int(np.argmax(lengths > 1)))
        for other in others:
            alone = np.flatnonzero(other.lengths != lengths)
            if len(alone):
                raise self.feature.misfit("only a part of one", record=int(alone[0]))
        return self._objects([part.values for part in nested.parts], np.flatnonzero(lengths), len(lengths))

    def _present(self, nested: Nested, lacking: Sequence[int]) -> npt.NDArray[Any]:
        """The same for arrays of varying length."""
        there = np.delete(np.arange(len(nested)), np.asarray(lacking, np.int64))
        return self._objects(nested.take(there).parts, there, len(nested))

    def _objects(self, parts: list[Any], there: npt.NDArray[np.int64], n: int) -> npt.NDArray[Any]:
        """Values of the examples ``there``, decoded, as objects among ``n`` of which the others are ``None``."""
        try:
            values = self.feature.decode(parts)
        except DataError as error:
            record = None if error.where.record is None else int(there[error.where.record])
            raise error.relocated(Where(record=record)) from error.__cause__
        column = np.full(n, None, object)
        for position, value in zip(there, values, strict=True):
            column[position] = value
        return column


class Steps(InnerExamples):
    """Examples inside an example: ``len``, indices, slices, iteration, and :meth:`batch`.

    Steps are decoded on access. A step is a dict of the features inside the dataset, such as
    ``step["observation/image"]``, or a single value.
    """

    def __init__(self, name: str, columns: Mapping[str, LeafColumn], values: Mapping[str, Nested]) -> None:
        self._name = name
        self._columns = columns
        self._values = values

    def __len__(self) -> int:
        return len(next(iter(self._values.values())))

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> Steps: ...
    def __getitem__(self, index: Any) -> Any:
        """A step for an integer, steps for a slice."""
        n = len(self)
        if isinstance(index, slice):
            start, stop, step = index.indices(n)
            if step == 1:
                return self._of(lambda nested: nested.rows(start, max(start, stop)))
            chosen = np.arange(start, stop, step, dtype=np.int64)
            return self._of(lambda nested: nested.take(chosen))
        position = operator.index(index)
        if not -n <= position < n:
            raise IndexError(f"index {position} is outside {n} steps")
        return self._example(position % n)

    def _example(self, position: int) -> Any:
        columns = self._of(lambda nested: nested.rows(position, position + 1))._decode_columns()
        example = {name: column[0] for name, column in columns.items()}
        return example.get("", example)

    def batch(self, indices: npt.ArrayLike | None = None) -> Batch:
        """Decode steps into columns.

        Args:
            indices: Indices in any order; by default all.

        Returns:
            Columns as from ``source.batch``; for single values, a dict with the name ``""``.
        """
        if indices is None:
            return self._decode_columns()
        checked = as_indices(indices, len(self))
        return self._of(lambda nested: nested.take(checked))._decode_columns()

    @property
    def schema(self) -> Schema:
        """The features of a step; of single values, one of the name ``""``."""
        return Schema({name: column.schema for name, column in self._columns.items()})

    def select(self, names: Sequence[str]) -> Steps:
        """Only these features of each step; the others are not decoded."""
        columns = {name: self._columns[name] for name in names}
        return Steps(self._name, columns, {name: self._values[name] for name in names})

    def _of(self, choose: Any) -> Steps:
        return Steps(self._name, self._columns, {name: choose(nested) for name, nested in self._values.items()})

    def _decode_columns(self) -> Batch:
        return {name: self._columns[name].decode(nested) for name, nested in self._values.items()}

    def __repr__(self) -> str:
        names = ", ".join(repr(name) for name in self._columns if name)
        return f"<Steps {self._name!r}: {len(self)} examples{': ' + names if names else ''}>"


class StepsColumn:
    """The column of a dataset inside each example.

    Args:
        name: Name of the feature.
        feature: Its type.
        columns: Columns of the features inside, by their names below ``name``, without the level of the dataset.
    """

    cuts_cleanly = True

    def __init__(self, name: str, feature: Dataset, columns: Mapping[str, LeafColumn]) -> None:
        self.name = name
        self.feature = feature
        self.columns: dict[str, LeafColumn] = dict(columns)
        if not columns:
            raise UnsupportedData(
                Where(feature=name),
                expected="a Dataset of at least one feature, which says how many steps there are",
                found="none",
            )
        self._outer = {
            inner: LeafColumn(column.name, column.feature, (feature.length, *column.levels))
            for inner, column in self.columns.items()
        }

    @property
    def wire(self) -> dict[str, Feature]:
        """The keys that it reads, and their types."""
        return {key: feature for column in self._outer.values() for key, feature in column.wire.items()}

    @property
    def schema(self) -> Feature:
        """The type of the column: examples."""
        return Feature("examples")

    def nested(self, batch: Mapping[str, Any], n: int) -> dict[str, Nested]:
        """The stored values of ``n`` examples.

        Raises:
            SchemaMismatch: The features hold different numbers of steps.
        """
        values = {inner: column.nested(batch, n) for inner, column in self._outer.items()}
        first, *others = values.values()
        for other in others:
            wrong = np.flatnonzero(other.offsets[0] != first.offsets[0])
            if len(wrong):
                raise SchemaMismatch(
                    Where(record=int(wrong[0]) - 1, feature=self.name),
                    expected="as many values of each feature as there are steps",
                    found=str({inner: int(np.diff(v.offsets[0])[wrong[0] - 1]) for inner, v in values.items()}),
                )
        return values

    def decode(self, values: Mapping[str, Nested]) -> npt.NDArray[Any]:
        """An object array of :class:`Steps`, undecoded."""
        bounds = next(iter(values.values())).offsets[0].tolist()
        column = np.empty(len(bounds) - 1, object)
        for row, (a, b) in enumerate(pairwise(bounds)):
            column[row] = Steps(self.name, self.columns, {k: v.inside().rows(a, b) for k, v in values.items()})
        return column
