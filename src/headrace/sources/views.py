"""Nodes made from another node: some of the examples, some of the features. And copies of examples."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from headrace.contracts.protocols import InnerExamples
from headrace.contracts.random_keys import RandomKeys, read_batch
from headrace.contracts.schema import Schema
from headrace.contracts.strings import Strings
from headrace.contracts.values import Batch, Example, Indices, Ragged
from headrace.errors import SchemaMismatch, Where
from headrace.sources.node import (
    Node,
    cuts_cleanly,
    encoded_node,
    example_at,
    examples_of,
    narrow,
    runs_of,
    stored_bytes,
    stream,
)
from headrace.sources.stacking import BUFFERS, to_bytes

__all__ = [
    "Chosen",
    "Selected",
    "check_names",
    "copy_example",
    "copy_value",
    "keep_features",
    "rename_features",
]

CONSTANT = frozenset(
    {bool, int, float, complex, str, bytes, type(None)}
    | {kind for kind in np.sctypeDict.values() if kind is not np.void}
)
"""Types whose values never change."""


def compose(outer: range | Indices, inner: range | Indices) -> range | Indices:
    """The indices that ``inner`` chooses of those that ``outer`` chose."""
    if isinstance(outer, range) and isinstance(inner, range):
        start, step = outer.start + inner.start * outer.step, outer.step * inner.step
        return range(start, start + step * len(inner), step)
    positions = np.arange(inner.start, inner.stop, inner.step, dtype=np.int64) if isinstance(inner, range) else inner
    return positions * outer.step + outer.start if isinstance(outer, range) else outer[positions]


class Chosen:
    """Some of the examples of a node.

    Args:
        parent: The node.
        chosen: A range, or an array of indices; none is negative or outside.
    """

    parent: Node
    chosen: range | Indices

    def __init__(self, parent: Node, chosen: range | Indices) -> None:
        if isinstance(parent, Chosen):  # a slice of a slice is a slice of the first node
            chosen = compose(parent.chosen, chosen)
            parent = parent.parent
        self.parent = parent
        self.chosen = chosen

    @property
    def schema(self) -> Schema:
        return self.parent.schema

    def __len__(self) -> int:
        return len(self.chosen)

    def batch(self, indices: Indices, /) -> Batch:
        return self.parent.batch(self._indices_below(indices))

    def batch_with_keys(self, indices: Indices, keys: RandomKeys | None, /) -> Batch:
        return read_batch(self.parent, self._indices_below(indices), keys)

    def _indices_below(self, indices: Indices) -> Indices:
        chosen = self.chosen
        return indices * chosen.step + chosen.start if isinstance(chosen, range) else chosen[indices]

    def where(self, index: int, /) -> Where:
        return self.parent.where(int(self.chosen[index]))

    def example(self, index: int, /) -> Example:
        return example_at(self.parent, int(self.chosen[index]))

    def below(self) -> tuple[Node, ...]:
        return (self.parent,)

    def runs(self) -> Indices | None:
        """Consecutive examples share a run if their originals do."""
        runs = runs_of(self.parent)
        if runs is None:
            return None
        which = np.searchsorted(runs, np.asarray(self.chosen, np.int64), side="right")
        return np.concatenate(([0], np.flatnonzero(np.diff(which)) + 1, [len(which)])).astype(np.int64)

    def narrow(self, names: tuple[str, ...], /) -> Node:
        return Chosen(narrow(self.parent, names), self.chosen)

    def stored_bytes(self, first: int, stop: int, /) -> int:
        """An estimate: their share of the bytes between the lowest and the highest chosen example."""
        chosen = self.chosen[first:stop]
        outermost = (chosen[0], chosen[-1]) if isinstance(chosen, range) else chosen
        low, high = int(np.min(outermost)), int(np.max(outermost))
        return stored_bytes(self.parent, low, high + 1) * len(chosen) // (high + 1 - low)

    def encoded(self) -> Node:
        return Chosen(encoded_node(self.parent), self.chosen)

    def cuts_cleanly(self) -> bool:
        return cuts_cleanly(self.parent)


class Selected:
    """Some features of a node, under other names.

    Args:
        parent: The node.
        names: ``{new: old}``.

    Raises:
        NoSuchFeature: The node has no feature of an old name.
    """

    def __init__(self, parent: Node, names: Mapping[str, str]) -> None:
        self.parent: Node = narrow(parent, tuple(dict.fromkeys(names.values())))
        self.names: dict[str, str] = dict(names)
        self.schema: Schema = Schema({new: parent.schema[old] for new, old in names.items()})

    def __len__(self) -> int:
        return len(self.parent)

    def batch(self, indices: Indices, /) -> Batch:
        return self._rename(self.parent.batch(indices))

    def batch_with_keys(self, indices: Indices, keys: RandomKeys | None, /) -> Batch:
        return self._rename(read_batch(self.parent, indices, keys))

    def where(self, index: int, /) -> Where:
        return self.parent.where(index)

    def example(self, index: int, /) -> Example:
        return self._rename(example_at(self.parent, index))

    def examples(self) -> Iterator[Example]:
        return map(self._rename, examples_of(self.parent))

    def stream(self, batch_size: int, /) -> Iterator[Batch] | None:
        batches = stream(self.parent, batch_size)
        return None if batches is None else map(self._rename, batches)

    def below(self) -> tuple[Node, ...]:
        return (self.parent,)

    def runs(self) -> Indices | None:
        return runs_of(self.parent)

    def stored_bytes(self, first: int, stop: int, /) -> int:
        return stored_bytes(self.parent, first, stop)

    def encoded(self) -> Node:
        return Selected(encoded_node(self.parent), self.names)

    def cuts_cleanly(self) -> bool:
        return cuts_cleanly(self.parent)

    def _rename(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {new: values[old] for new, old in self.names.items()}


def check_names(names: tuple[Any, ...]) -> tuple[str, ...]:
    """Refuse what ``select`` cannot take.

    Raises:
        TypeError: One is not text; the message shows the call to write.
    """
    for given in names:
        if not isinstance(given, str):
            listed = isinstance(given, (list, tuple, set, frozenset)) and all(isinstance(name, str) for name in given)
            hint = f"write select({', '.join(map(repr, given))})" if listed else "write select('image', 'label')"
            raise TypeError(f"select takes names of features, got {type(given).__name__} {given!r:.80}: {hint}")
    return names


def keep_features(node: Node, names: Sequence[str]) -> Node:
    """Only these features of a node, in this order."""
    return Selected(node, {name: name for name in names})


def rename_features(node: Node, names: Mapping[str, str]) -> Node:
    """The same features under new names: ``{old: new}``; those not named keep theirs.

    Raises:
        NoSuchFeature: There is no feature of an old name.
        SchemaMismatch: Two features would have one name.
    """
    if not isinstance(names, Mapping):
        raise TypeError(f"rename takes {{old: new}}, got {type(names).__name__} {names!r:.80}")
    for name in names:
        _ = node.schema[name]  # raises NoSuchFeature
    found: dict[str, str] = {}
    for name in node.schema:
        new = names.get(name, name)
        if new in found:
            raise SchemaMismatch(
                Where(feature=new),
                expected="every feature name once",
                found=f"it twice, for {found[new]!r} and for {name!r}",
                hint="rename() the other one, too, or leave it out with select().",
            )
        found[new] = name
    return Selected(node, found)


def copy_example(example: Example) -> dict[str, Any]:
    """A copy of an example that later changes to its arrays, lists and dict do not reach.

    Callers may fill one buffer again and again, and generators may change the dict that they yielded.
    """
    return {
        name: value
        if (kind := type(value)) in CONSTANT
        else value.copy()  # here, to save a call for each array
        if kind is np.ndarray and not value.dtype.hasobject
        else copy_value(value)
        for name, value in example.items()
    }


def copy_value(value: Any) -> Any:
    """A copy of a value that later changes to its arrays and lists do not reach; what never changes, and what cannot be copied, as it is."""
    kind = type(value)
    if kind is np.ndarray:
        return value.copy() if not value.dtype.hasobject else copy.deepcopy(value)
    if kind is list or kind is tuple:
        return _copy_items(value)
    if kind is Ragged:
        return Ragged.trust(copy_value(value.values), copy_value(value.offsets))
    if kind is Strings:
        return value.take(np.arange(len(value)))
    if isinstance(value, (bytes, str, InnerExamples)):  # of which some have a buffer, too
        return value
    # Arrays of other libraries, asked by their type: an image would compute the attribute.
    if any(hasattr(kind, name) for name in ("__array__", "__array_interface__", "tocsr")):
        found = getattr(value, "clone", None) or getattr(value, "copy", None)  # of PyTorch and Polars; of most others
        return value if found is None else found()
    try:
        return np.array(memoryview(value)) if kind not in BUFFERS else to_bytes(value)
    except (TypeError, ValueError):  # what is none of these either is refused where it is looked at
        return _copy_items(value) if isinstance(value, (Sequence, deque)) else value


def _copy_items(items: Iterable[Any]) -> list[Any]:
    return list(items) if CONSTANT.issuperset(map(type, items)) else [copy_value(item) for item in items]
