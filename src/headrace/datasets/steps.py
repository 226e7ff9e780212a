"""A dataset inside an example: the steps of an episode, decoded when they are asked for."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from headrace.contracts.feature import Feature
from headrace.contracts.values import Batch
from headrace.datasets.columns import LeafColumn
from headrace.datasets.features.sequence import Dataset
from headrace.datasets.nested import Nested
from headrace.errors import SchemaMismatch, UnsupportedData, Where
from headrace.sources.base import as_indices

__all__ = ["Steps", "StepsColumn"]


class Steps(Sequence[Any]):
    """Examples inside an example: ``len``, indices, slices, iteration, and :meth:`batch`.

    Nothing is decoded before it is asked for. An element is a dict of the features below the dataset's own, such as
    ``step["observation/image"]``; of a dataset of single values, the value.
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
        """An example for an integer, the steps of a slice for a slice."""
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
        columns = self._of(lambda nested: nested.rows(position, position + 1))._decoded()
        example = {name: column[0] for name, column in columns.items()}
        return example.get("", example)

    def batch(self, indices: npt.ArrayLike | None = None) -> Batch:
        """Steps as columns.

        Args:
            indices: Which, in any order; by default all.

        Returns:
            What ``source.batch`` gives; of a dataset of single values, a dict with the one name ``""``.
        """
        if indices is None:
            return self._decoded()
        checked = as_indices(indices, len(self))
        return self._of(lambda nested: nested.take(checked))._decoded()

    def _of(self, choose: Any) -> Steps:
        return Steps(self._name, self._columns, {name: choose(nested) for name, nested in self._values.items()})

    def _decoded(self) -> Batch:
        return {name: self._columns[name].decode(nested) for name, nested in self._values.items()}

    def __repr__(self) -> str:
        names = ", ".join(repr(name) for name in self._columns if name)
        return f"<Steps {self._name!r}: {len(self)} examples{': ' + names if names else ''}>"


class StepsColumn:
    """The column of a dataset inside each example.

    Args:
        name: Of the feature.
        feature: Its type.
        columns: Of its own features, by their names below ``name``, without the level that the dataset itself is.
    """

    cuts_cleanly = True

    def __init__(self, name: str, feature: Dataset, columns: Mapping[str, LeafColumn]) -> None:
        self.name = name
        self.feature = feature
        self.columns = dict(columns)
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
        """The keys of an Example that it needs, and what they hold."""
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
