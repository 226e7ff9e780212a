"""Nodes that make several examples of one, or one of several: ``flat_map`` and windows.

Each finds its examples through an index of one integer for each example below, which is made once, when it is first needed. Random numbers below
depend on the example that is read, not on the position of what is made of it: each example gives the same values to all that come from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from headrace._arguments import check_integer, list_feature_names
from headrace.contracts.feature import Feature
from headrace.contracts.random_keys import RandomKeys, read_batch
from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Example, Indices, Ragged, take_rows
from headrace.errors import SchemaMismatch, UnsupportedData, Where
from headrace.io.system import cached_property
from headrace.sources.node import (
    Node,
    cuts_cleanly,
    examples_of,
    first_schema,
    list_rows,
    narrow,
    read_blocks,
    runs_of,
    stored_bytes,
    stream,
)
from headrace.sources.tables import ragged_rows
from headrace.sources.user_functions import UserFunction, found_instead, keep_dtypes, rows_with_gaps
from headrace.sources.views import copy_example, keep_features

__all__ = ["FeatureWindows", "FlatMapped", "Windows", "make_windows", "read_keyed", "read_lengths"]

MOST = 1 << 62
"""No source is as long: larger sizes and strides give the same windows, and their sums would not fit 64 bits."""
BLOCK = 4096
"""Examples read at a time, where lengths are read."""
STREAMED = 256
"""The same in a stream, where nothing is known of later ones."""


def read_keyed(parent: Node, indices: Indices, keys: RandomKeys | None) -> Batch:
    """Some examples, each once, with random numbers that depend on their indices."""
    return read_batch(parent, indices, None if keys is None else replace(keys, positions=indices))


class FlatMapped:
    """The examples that a function makes of each example, end to end.

    Args:
        parent: The node.
        function: Takes an example and gives examples.
        count: How many it gives for an example; by default the function itself is called to find out.
    """

    def __init__(
        self,
        parent: Node,
        function: Callable[[Example], Iterable[Example]],
        count: Callable[[Example], int] | None = None,
    ) -> None:
        self.parent = parent
        self.function = function
        self.count = count
        self._names: list[str] | None = None
        """The features of the first batch or example, which all others must have."""

    @cached_property
    def _firsts(self) -> Indices:
        """``int64 (n + 1,)``: the number of the first example that comes from each."""
        counts = [0]
        if self.count is None:
            make = self._maker()
            counts.extend(len(make(example, index)) for index, example in enumerate(examples_of(self.parent)))
        else:
            find = UserFunction(self.count, self.parent)
            for index, example in enumerate(examples_of(self.parent)):
                counts.append(check_integer(find(example, index), f"the count of example {index}"))
        return np.cumsum(counts, dtype=np.int64)

    def _maker(self) -> UserFunction:
        """The function, with all that it gives as a list: a generator fails where it is called, and may change what it yielded."""
        maker = UserFunction(self.function, self.parent)
        maker.function = self._make
        return maker

    def _make(self, example: Example) -> list[Example]:
        made: Iterable[Any] | None = self.function(example)
        if made is None:
            raise TypeError(f"it must return or yield examples, got {found_instead(None)}")
        if isinstance(made, (list, tuple)):
            return list(made)
        return [copy_example(each) if isinstance(each, Mapping) else each for each in made]

    @cached_property
    def _first(self) -> Batch:
        """The first example, as a batch of one; empty if there is none."""
        found = next(self._make_in_order(), None)
        if found is None:
            return {}
        index, given, made = found
        first = self._maker().stack([made], [index], lambda _: any(value is None for value in given.values()))
        self._names = self._names or list(first)
        return first

    @cached_property
    def schema(self) -> Schema:
        """The features of the first example that the function gives."""
        if not self._first:
            return self.parent.schema
        return first_schema(self._first, (made for _, _, made in self._make_in_order()))

    def __len__(self) -> int:
        return int(self._firsts[-1])

    def batch(self, indices: Indices, /) -> Batch:
        return self.batch_with_keys(indices, None)

    def batch_with_keys(self, indices: Indices, keys: RandomKeys | None, /) -> Batch:
        if not len(indices):
            first = self._first or self.parent.batch(indices)
            return {name: column[:0] for name, column in first.items()}
        firsts = self._firsts
        parents = np.searchsorted(firsts, indices, side="right") - 1
        wanted, which = np.unique(parents, return_inverse=True)
        batch, make = read_keyed(self.parent, wanted, keys), self._maker()
        examples = zip(list_rows(batch, len(wanted)), wanted.tolist(), strict=True)
        made = [self._check(make(example, index), index) for example, index in examples]
        which = which.reshape(-1)
        places = zip(which.tolist(), (indices - firsts[parents]).tolist(), strict=True)
        chosen = [made[at][number] for at, number in places]
        has_gap = rows_with_gaps(batch)
        stacked = make.stack(chosen, parents.tolist(), lambda row: has_gap(int(which[row])), self._names)
        self._names = self._names or list(stacked)
        return keep_dtypes(stacked, self)

    def _check(self, made: Sequence[Example], index: int) -> Sequence[Example]:
        expected = int(self._firsts[index + 1] - self._firsts[index])
        if len(made) != expected:
            raise SchemaMismatch(
                self.parent.where(index),
                expected=f"{expected} examples of example {index}, as when they were counted",
                found=str(len(made)),
                hint="The function of flat_map must give the same number for the same example each time.",
            )
        for example in made:
            self._check_example(example, index)
        return made

    def _check_example(self, made: Example, index: int) -> None:
        if not isinstance(made, Mapping):
            raise SchemaMismatch(
                self.parent.where(index), expected="examples from flat_map, each a dict", found=found_instead(made)
            )

    def where(self, index: int, /) -> Where:
        return self.parent.where(int(np.searchsorted(self._firsts, index, side="right")) - 1)

    def examples(self) -> Iterator[Example]:
        """All examples in order, as they are in batches, without an index."""
        return self._maker().read_in_blocks(self._make_in_order(), self, self._names)

    def _make_in_order(self) -> Iterator[tuple[int, Example, Example]]:
        """The index of each example below, that example, and one that the function makes of it."""
        make = self._maker()
        for index, example in enumerate(examples_of(self.parent)):
            given = dict(example)  # before the function changes it
            several = make(example, index)
            if self.is_counted():
                self._check(several, index)
            for made in several:
                self._check_example(made, index)
                yield index, given, made

    def is_counted(self) -> bool:
        return "_firsts" in self.__dict__

    def runs(self) -> Indices | None:
        runs = runs_of(self.parent)
        return None if runs is None else self._firsts[runs]

    def below(self) -> tuple[Node, ...]:
        return (self.parent,)


def make_windows(parent: Node, size: int, stride: int | None, feature: str | Sequence[str] | None) -> Node:
    """Windows of consecutive examples, or of the sequences of a feature."""
    size = min(check_integer(size, "size", least=1), MOST)
    stride = size if stride is None else min(check_integer(stride, "stride", least=1), MOST)
    if feature is None:
        return Windows(parent, size, stride)
    if not isinstance(feature, str) and not feature:
        raise ValueError("window takes at least one feature, or feature=None for windows of examples")
    return FeatureWindows(parent, list_feature_names(feature, "feature"), size, stride)


class Windows:
    """Consecutive examples as one example each; only whole windows. Windows do not cross from one run of examples into the next.

    Args:
        parent: The node.
        size: Examples in a window.
        stride: From the begin of one window to that of the next.

    Raises:
        UnsupportedData: A feature is sparse.
    """

    def __init__(self, parent: Node, size: int, stride: int) -> None:
        self.parent: Node = parent
        self.size: int = size
        self.stride: int = stride
        self.schema: Schema = Schema({name: self._feature(name, feature) for name, feature in parent.schema.items()})

    def _feature(self, name: str, feature: Feature) -> Feature:
        if feature.sparse:
            raise UnsupportedData(Where(feature=name), expected="dense features in windows", found=repr(feature))
        axis = self.size if feature.is_fixed else None
        return Feature(feature.dtype, (axis, *feature.shape), encoding=feature.encoding, names=feature.names)

    @cached_property
    def _runs(self) -> tuple[Indices, Indices] | None:
        """For each run its first example and the number of its first window, then the number of all windows; ``None``: there is one run."""
        runs = runs_of(self.parent)
        if runs is None:
            return None
        counts = np.maximum((np.diff(runs) - self.size) // self.stride + 1, 0)
        return runs, np.concatenate(([0], np.cumsum(counts)))

    def __len__(self) -> int:
        if self._runs is None:
            return max(0, (len(self.parent) - self.size) // self.stride + 1)
        return int(self._runs[1][-1])

    def _begins(self, indices: Indices) -> Indices:
        """The first example of each of these windows."""
        if self._runs is None:
            return indices * self.stride
        runs, firsts = self._runs
        which = np.searchsorted(firsts, indices, side="right") - 1
        return runs[which] + (indices - firsts[which]) * self.stride

    def batch(self, indices: Indices, /) -> Batch:
        return self.batch_with_keys(indices, None)

    def batch_with_keys(self, indices: Indices, keys: RandomKeys | None, /) -> Batch:
        steps = (self._begins(indices)[:, None] + np.arange(self.size)).reshape(-1)
        wanted, which = np.unique(steps, return_inverse=True)
        batch = read_keyed(self.parent, wanted, keys)
        return {
            name: self._group(name, take_rows(column, which.reshape(-1)), len(indices))
            for name, column in batch.items()
        }

    def _group(self, name: str, column: Any, count: int) -> Any:
        if isinstance(column, Ragged):
            return Ragged(column, np.arange(count + 1, dtype=np.int64) * self.size)
        if isinstance(column, list):
            raise UnsupportedData(
                Where(feature=name),
                expected="values in a window that differ in the first axis only",
                found="arrays of other shapes",
                hint="Bring them to one shape first, with map(), or leave the feature out with select().",
            )
        return column.reshape(count, self.size, *column.shape[1:])

    def where(self, index: int, /) -> Where:
        return self.parent.where(int(self._begins(np.array([index]))[0]))

    def runs(self) -> Indices | None:
        return None if self._runs is None else self._runs[1]

    def below(self) -> tuple[Node, ...]:
        return (self.parent,)

    def narrow(self, names: tuple[str, ...], /) -> Node:
        return Windows(keep_features(narrow(self.parent, names), names), self.size, self.stride)

    def cuts_cleanly(self) -> bool:
        return cuts_cleanly(self.parent)

    def stored_bytes(self, first: int, stop: int, /) -> int:
        """Examples in several windows count once for each."""
        low, last = map(int, self._begins(np.array([first, stop - 1])))
        steps = last + self.size - low
        return stored_bytes(self.parent, low, low + steps) * (stop - first) * self.size // steps


class FeatureWindows:
    """Windows of the sequences in some features; all other features of an example go to each of its windows.

    Args:
        parent: The node.
        features: Features whose first axis varies, alike.
        size: Values in a window.
        stride: From the begin of one window to that of the next.
    """

    def __init__(self, parent: Node, features: tuple[str, ...], size: int, stride: int) -> None:
        self.parent: Node = parent
        self.features: tuple[str, ...] = features
        self.size: int = size
        self.stride: int = stride
        for name in features:
            feature = parent.schema[name]
            if not feature.shape or feature.sparse or None in feature.shape[1:]:
                raise SchemaMismatch(
                    Where(feature=name), expected="a feature with one axis that varies", found=repr(feature)
                )
        self.schema: Schema = Schema(
            {
                name: Feature(feature.dtype, (size, *feature.shape[1:])) if name in features else feature
                for name, feature in parent.schema.items()
            }
        )

    @cached_property
    def _lengths(self) -> Indices:
        return read_lengths(self.parent, self.features[0])

    @cached_property
    def _firsts(self) -> Indices:
        """``int64 (n + 1,)``: the number of the first window of each example."""
        counts = np.maximum((self._lengths - self.size) // self.stride + 1, 0)
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])

    def __len__(self) -> int:
        return int(self._firsts[-1])

    def batch(self, indices: Indices, /) -> Batch:
        return self.batch_with_keys(indices, None)

    def batch_with_keys(self, indices: Indices, keys: RandomKeys | None, /) -> Batch:
        parents = np.searchsorted(self._firsts, indices, side="right") - 1
        wanted, which = np.unique(parents, return_inverse=True)
        which = which.reshape(-1)
        begin = (indices - self._firsts[parents]) * self.stride
        batch = read_keyed(self.parent, wanted, keys)
        return {
            name: self._cut(name, column, wanted, which, begin) if name in self.features else take_rows(column, which)
            for name, column in batch.items()
        }

    def _cut(self, name: str, column: Any, wanted: Indices, which: Indices, begin: Indices) -> Any:
        rows = ragged_rows(column, name)
        expected = self._lengths[wanted]
        if not np.array_equal(rows.lengths, expected):
            at = int(np.argmax(rows.lengths != expected))
            raise SchemaMismatch(
                self.parent.where(int(wanted[at])).at(feature=name),
                expected=f"{expected[at]} values in example {wanted[at]}, as when the lengths were read",
                found=str(rows.lengths[at]),
                hint="Features of one window must have the same lengths, and the data must not change.",
            )
        taken = ((rows.offsets[which] + begin)[:, None] + np.arange(self.size)).reshape(-1)
        values = rows.values[taken] if isinstance(rows.values, np.ndarray) else rows.values.take(taken)
        return values.reshape(len(which), self.size, *values.shape[1:])  # type: ignore[union-attr]

    def where(self, index: int, /) -> Where:
        return self.parent.where(int(np.searchsorted(self._firsts, index, side="right")) - 1)

    def is_counted(self) -> bool:
        return "_firsts" in self.__dict__

    def runs(self) -> Indices | None:
        runs = runs_of(self.parent)
        return None if runs is None else self._firsts[runs]

    def below(self) -> tuple[Node, ...]:
        return (self.parent,)

    def cuts_cleanly(self) -> bool:
        return cuts_cleanly(self.parent)


def read_lengths(node: Node, feature: str) -> Indices:
    """The length of each sequence of a feature, ``int64 (n,)``. Only that feature is read."""
    only = keep_features(node, [feature])
    batches = stream(only, STREAMED)
    if batches is None:
        batches = (batch for _, _, batch in read_blocks(only, BLOCK))
    parts = [ragged_rows(batch[feature], feature).lengths for batch in batches]
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)
