"""Random numbers for examples: what they are computed from, and what a node or source with random values offers.

A random number is a function of a seed, an epoch, a position in the epoch's order, and a stream. Nothing is drawn from a shared generator,
so threads, ranks, workers, batch sizes and resuming change nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from headrace.contracts.values import Batch, Indices

__all__ = [
    "HasRandomStreams",
    "RandomKeys",
    "ReadsWithKeys",
    "SharesStream",
    "describe",
    "generators_at",
    "read_batch",
]

DOMAIN = 0x6865616472616365
"""The last word of every counter, ``"headrace"`` in ASCII: keeps our streams apart from a Philox generator of the user's own with the same key."""


@dataclass(frozen=True, slots=True, eq=False)
class RandomKeys:
    """What the random numbers of ``n`` examples are computed from.

    Each example has its own generator: Philox4x64-10, as in :class:`numpy.random.Philox`, with key ``(seed, stream)`` and counter
    ``(0, position, epoch, DOMAIN)``. Each example has 2^66 numbers before its counter meets the next one's.

    Args:
        seed: In ``[0, 2^64)``.
        epoch: The epoch, from 0.
        positions: ``int64 (n,)``: where each example stands in the order of the epoch, counted over all ranks.
        stream: Distinguishes the nodes of one source that draw numbers.
        by_index: Whether the positions are no more than indices, so that each node that draws takes its own: see :meth:`at`.
        shared: The streams of nodes that several of the joined sources read, by what :class:`SharesStream` gives.

    >>> keys = RandomKeys(7, 0, np.array([3, 5]))
    >>> [rng.integers(100) for rng in keys.generators()] == [rng.integers(100) for rng in keys.generators()]
    True
    """

    seed: int
    epoch: int
    positions: Indices
    stream: int = 0
    by_index: bool = False
    shared: Mapping[object, int] | None = None

    @classmethod
    def of_indices(cls, indices: Indices) -> RandomKeys:
        """The keys of examples that are read outside a loader: seed 0, epoch 0, and their own indices as positions."""
        return cls(0, 0, indices, by_index=True)

    def at(self, indices: Indices) -> RandomKeys:
        """The keys with which a node draws that reads these indices: outside a loader, a slice has the numbers of what it is a slice of."""
        return replace(self, positions=indices) if self.by_index else self

    def take(self, rows: npt.NDArray[Any] | slice) -> RandomKeys:
        """The keys of some of the examples, chosen by indices, a mask or a slice."""
        return replace(self, positions=self.positions[rows])

    def skip(self, streams: int) -> RandomKeys:
        """The keys of the same examples for the stream that is ``streams`` further."""
        return replace(self, stream=self.stream + streams) if streams else self

    def share(self, streams: Mapping[object, int]) -> RandomKeys:
        """The same keys, for sources that share nodes: each of these has one stream, counted from that of these keys. Sharing that is known already is kept."""
        own = {drawn: self.stream + stream for drawn, stream in streams.items()}
        return replace(self, shared={**own, **(self.shared or {})})

    def of_node(self, node: SharesStream, streams: int) -> RandomKeys:
        """The keys that a node draws with, below which ``streams`` others do."""
        first = self.shared.get(node.drawn_by()) if self.shared else None
        return self.skip(streams) if first is None else replace(self, stream=first)

    def generators(self) -> Iterator[np.random.Generator]:
        """A generator for each example, in order; see :func:`generators_at`."""
        return generators_at(self.positions.tolist(), seed=self.seed, epoch=self.epoch, stream=self.stream)

    def uniform(self, count: int) -> npt.NDArray[np.float64]:
        """The first ``count`` numbers of each example in [0, 1): ``float64 (n, count)``, row ``i`` as ``rng.random(count)`` gives them."""
        numbers = np.empty((len(self.positions), count))
        for row, generator in zip(numbers, self.generators(), strict=True):
            generator.random(out=row)
        return numbers


def generators_at(
    positions: Iterable[int], *, seed: int = 0, epoch: int = 0, stream: int = 0
) -> Iterator[np.random.Generator]:
    """The generators of the examples at some positions, in order, as :class:`RandomKeys` defines them.

    It is one object, which is reset for every example: use each generator before asking for the next one. A reset takes less than a
    microsecond, a new generator twelve.
    """
    bits = _ExampleBits(key=np.array([seed, stream], np.uint64))
    generator, state = np.random.Generator(bits), bits.state
    state["state"]["counter"] = counter = np.array([0, 0, epoch, DOMAIN], np.uint64)
    for position in positions:
        counter[1] = position
        bits.state = state  # with an empty buffer, as before the first number
        bits.spawned = 0
        yield generator


class _ExampleBits(np.random.Philox):
    """The bits of an example's generator, whose children are functions of the same key and position."""

    spawned = 0  # children so far

    def spawn(self, n_children: int) -> list[np.random.Philox]:  # type: ignore[override]
        state = self.state["state"]
        words = [*state["key"].tolist(), *state["counter"][1:].tolist()]
        first, self.spawned = self.spawned, self.spawned + n_children
        children = range(first, self.spawned)
        return [np.random.Philox(np.random.SeedSequence(words, spawn_key=(child,))) for child in children]


def describe(generator: np.random.Generator) -> str:
    """Where a generator of :func:`generators_at` comes from, for messages: ``"seed 7, epoch 0, position 12"``."""
    state = generator.bit_generator.state["state"]
    _, position, epoch, _ = state["counter"].tolist()
    return f"seed {state['key'][0]}, epoch {epoch}, position {position}"


class ReadsIndices(Protocol):
    """A node or source, as far as :func:`read_batch` needs it."""

    def batch(self, indices: Indices, /) -> Batch:
        """The examples at ``indices``."""


@runtime_checkable
class HasRandomStreams(Protocol):
    """A node that draws random numbers itself, or a source with such nodes."""

    def random_streams(self) -> int:
        """How many streams of numbers it uses. 0: its values are not random."""


@runtime_checkable
class SharesStream(Protocol):
    """A node that draws the same numbers wherever it is read: as image and as mask, one zipped with the other."""

    def drawn_by(self) -> object:
        """The same object for this node and for all that read a part of its features."""


@runtime_checkable
class ReadsWithKeys(Protocol):
    """A node or source that draws random numbers, or passes keys on to one that does."""

    def batch_with_keys(self, indices: Indices, keys: RandomKeys | None, /) -> Batch:
        """The examples at ``indices``, as ``batch(indices)`` gives them, with the random numbers of ``keys``.

        Args:
            indices: ``int64 (n,)``.
            keys: One for each index. ``None``: each node that draws uses :meth:`RandomKeys.of_indices`.
        """


@cache
def _reads_with_keys(kind: type) -> bool:
    """Looked up per class, because every batch asks at every level. An object that passes on attributes of another one does not count."""
    return issubclass(kind, ReadsWithKeys)


def read_batch(source: ReadsIndices, indices: Indices, keys: RandomKeys | None) -> Batch:
    """The examples at ``indices``, with the random numbers of ``keys`` as far as the node or source knows keys.

    Args:
        source: A node or a source.
        indices: ``int64 (n,)``.
        keys: One for each index; ``None`` outside a loader.
    """
    if keys is None or not _reads_with_keys(type(source)):
        return source.batch(indices)
    return source.batch_with_keys(indices, keys)  # type: ignore[attr-defined, no-any-return]
