"""Several nodes as one: end to end, or side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from headrace.contracts.feature import Feature
from headrace.contracts.random_keys import RandomKeys, read_batch
from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Indices
from headrace.errors import SchemaMismatch, Where
from headrace.io.system import cached_property
from headrace.sources.node import Node, cuts_cleanly, encoded_node, narrow, runs_of, stored_bytes
from headrace.sources.operations.joining import (
    JoinedStreams,
    cast_columns,
    is_alike,
    is_kept,
    join_schemas,
    merge,
    to_cast,
)
from headrace.sources.views import keep_features

__all__ = ["Concatenated", "Zipped", "concatenate"]


class Concatenated:
    """The examples of several nodes, one node after the other. Numbers of several dtypes get one that holds them all.

    Raises:
        SchemaMismatch: One has other features or class names than the first, or values that no type holds together with those of the first.
    """

    def __init__(self, parents: tuple[Node, ...]) -> None:
        if any(parent.schema != parents[0].schema for parent in parents[1:]):
            # A node without examples may have any schema, because what a function would return is unknown: it is ignored.
            parents = _in_one_order([parent for parent in parents if len(parent)] or list(parents[:1]))
        self.schema: Schema = join_schemas([parent.schema for parent in parents])
        self._can_be_flat: bool = all(is_kept(parent.schema, self.schema) for parent in parents)
        parts = [part for parent in parents for part in self._flatten(parent)]
        self.parents: tuple[Node, ...] = tuple(node for node, _ in parts)
        self._casts = [casts for _, casts in parts]

    def _flatten(self, node: Node) -> Iterable[tuple[Node, dict[str, Feature]]]:
        """The nodes to read for a joined one, each with what to cast. Hundreds of calls of ``concat`` do not nest, nor compare all nodes again."""
        casts = to_cast(node.schema, self.schema)
        if not isinstance(node, Concatenated) or not node._can_be_flat:
            return [(node, casts)]
        if not casts:
            return zip(node.parents, node._casts, strict=True)
        return [(parent, to_cast(parent.schema, self.schema)) for parent in node.parents]

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
        places = [np.flatnonzero(part == k) for k in used]
        batches = [
            self._read(int(k), indices[here] - starts[k], None if keys is None else keys.take(here))
            for k, here in zip(used, places, strict=True)
        ]
        return merge(batches, places, self.schema)

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
