"""Nodes made from other nodes: some of the examples, some of the features, several nodes as one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from headrace.contracts.feature import Feature
from headrace.contracts.random_keys import RandomKeys, read_batch
from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Example, Indices
from headrace.errors import SchemaMismatch, Where
from headrace.io.system import cached_property
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
from headrace.sources.operations.joining import JoinedStreams, cast_columns, is_alike, join_schemas, merge, to_cast

__all__ = [
    "Chosen",
    "Concatenated",
    "Selected",
    "Zipped",
    "check_names",
    "concatenate",
    "keep_features",
    "rename_features",
]


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


class Concatenated:
    """The examples of several nodes, one node after the other. Numbers of several dtypes get one that holds them all.

    Raises:
        SchemaMismatch: One has other features or class names than the first, or values that no type holds together with those of the first.
    """

    def __init__(self, parents: tuple[Node, ...]) -> None:
        parents = tuple(part for parent in parents for part in _parts_of(parent))
        if any(parent.schema != parents[0].schema for parent in parents[1:]):
            # A node without examples may have any schema, because what a function would return is unknown: it is ignored.
            parents = _in_one_order([parent for parent in parents if len(parent)] or list(parents[:1]))
        self.parents = parents
        self.schema: Schema = join_schemas([parent.schema for parent in parents])
        self._casts = [to_cast(parent.schema, self.schema) for parent in parents]

    @cached_property
    def _ends(self) -> Indices:
        """How many examples there are up to the end of each node."""
        return np.cumsum([len(parent) for parent in self.parents], dtype=np.int64)

    def __len__(self) -> int:
        return int(self._ends[-1])

    def batch(self, indices: Indices, /) -> Batch:
        return self.batch_with_keys(indices, None)

    @cached_property
    def _streams(self) -> JoinedStreams:
        return JoinedStreams.of(self.parents)

    def batch_with_keys(self, indices: Indices, keys: RandomKeys | None, /) -> Batch:
        ends = self._ends
        part = np.searchsorted(ends, indices, side="right")
        keys = self._streams.keys_at(indices, keys)
        starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
        used = np.unique(part) if len(indices) else np.zeros(1, np.int64)
        if len(used) == 1:
            return self._read(int(used[0]), indices - starts[used[0]], keys)
        batches = [
            self._read(int(k), indices[here] - starts[k], None if keys is None else keys.take(here))
            for k in used
            for here in (part == k,)
        ]
        order = np.argsort(np.concatenate([np.flatnonzero(part == k) for k in used]))
        return merge(batches, order, self.schema)

    def _read(self, part: int, indices: Indices, keys: RandomKeys | None) -> Batch:
        """Examples of one node, in the dtypes of all."""
        parent = self.parents[part]
        batch = read_batch(parent, indices, self._streams.keys_of(part, keys))
        return cast_columns(batch, self._casts[part], lambda row: parent.where(int(indices[row])))

    def where(self, index: int, /) -> Where:
        part = int(np.searchsorted(self._ends, index, side="right"))
        return self.parents[part].where(index - (int(self._ends[part - 1]) if part else 0))

    def below(self) -> tuple[Node, ...]:
        return self.parents

    def runs(self) -> Indices | None:
        parts = [runs_of(parent) for parent in self.parents]
        if all(runs is None for runs in parts):
            return None
        ends = [0, *self._ends.tolist()]
        begins = [np.zeros(1, np.int64) if runs is None else runs[:-1] for runs in parts]
        firsts = [end + each for end, each in zip(ends[:-1], begins, strict=True)]
        return np.concatenate([*firsts, ends[-1:]]).astype(np.int64)

    def narrow(self, names: tuple[str, ...], /) -> Node:
        parents = [narrow(parent, names) for parent in self.parents]
        if any(list(parent.schema) != list(parents[0].schema) for parent in parents):  # Not all leave the others out.
            parents = [keep_features(parent, names) for parent in self.parents]
        return Concatenated(tuple(parents))

    def stored_bytes(self, first: int, stop: int, /) -> int:
        total, begin = 0, 0
        for parent, end in zip(self.parents, self._ends.tolist(), strict=True):
            if first < end and begin < stop:
                total += stored_bytes(parent, max(first - begin, 0), min(stop, end) - begin)
            begin = end
        return total

    def encoded(self) -> Node:
        return Concatenated(tuple(map(encoded_node, self.parents)))

    def cuts_cleanly(self) -> bool:
        return all(cuts_cleanly(parent) and is_alike(parent.schema, self.schema) for parent in self.parents)


def _parts_of(node: Node) -> tuple[Node, ...]:
    """The parents of a concatenation whose examples do not depend on nesting, so that hundreds of calls of ``concat`` do not nest; or the node."""
    if not isinstance(node, Concatenated) or any(node._casts):
        return (node,)
    is_alike = all(p.schema[name].names == node.schema[name].names for p in node.parents for name in node.schema)
    return node.parents if is_alike else (node,)


def _in_one_order(parents: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes with their features in the order of the first.

    Raises:
        SchemaMismatch: One has other features than the first.
    """
    first = list(parents[0].schema)
    for parent in parents[1:]:
        if set(parent.schema) != set(first):
            raise SchemaMismatch(
                Where(),
                expected=f"the features {first}",
                found=str(list(parent.schema)),
                hint="select() or rename() them first.",
            )
    return tuple(parent if list(parent.schema) == first else keep_features(parent, first) for parent in parents)


def concatenate(nodes: Sequence[Node]) -> Node:
    """The examples of several nodes, one node after the other; of one, that node."""
    return nodes[0] if len(nodes) == 1 else Concatenated(tuple(nodes))


class Zipped:
    """The features of several nodes of equal length, side by side.

    Raises:
        SchemaMismatch: Lengths differ, or two nodes have a feature of the same name.
    """

    def __init__(self, parents: tuple[Node, ...]) -> None:
        features: dict[str, Feature] = {}
        for parent in parents:
            if len(parent) != len(parents[0]):
                raise SchemaMismatch(Where(), expected=f"{len(parents[0])} examples", found=f"{len(parent)}")
            for name, feature in parent.schema.items():
                if name in features:
                    raise SchemaMismatch(
                        Where(feature=name),
                        expected="every feature name once",
                        found="it twice",
                        hint="rename() one of them.",
                    )
                features[name] = feature
        self.parents = parents
        self.schema: Schema = Schema(features)

    def __len__(self) -> int:
        return len(self.parents[0])

    def batch(self, indices: Indices, /) -> Batch:
        return self.batch_with_keys(indices, None)

    def batch_with_keys(self, indices: Indices, keys: RandomKeys | None, /) -> Batch:
        keys = self._streams.keys_at(indices, keys)
        batch: Batch = {}
        for part, parent in enumerate(self.parents):
            batch.update(read_batch(parent, indices, self._streams.keys_of(part, keys)))
        return batch

    @cached_property
    def _streams(self) -> JoinedStreams:
        return JoinedStreams.of(self.parents)

    def where(self, index: int, /) -> Where:
        return self.parents[0].where(index)

    def below(self) -> tuple[Node, ...]:
        return self.parents

    def runs(self) -> Indices | None:
        """A run ends wherever a run of any node ends."""
        parts = [runs for parent in self.parents if (runs := runs_of(parent)) is not None]
        return np.unique(np.concatenate(parts)) if parts else None

    def stored_bytes(self, first: int, stop: int, /) -> int:
        return sum(stored_bytes(parent, first, stop) for parent in self.parents)

    def encoded(self) -> Node:
        return Zipped(tuple(map(encoded_node, self.parents)))

    def cuts_cleanly(self) -> bool:
        return all(map(cuts_cleanly, self.parents))
