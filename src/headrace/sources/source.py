"""The public face of everything that is read: a source is a node with operations."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from headrace._arguments import flag
from headrace.contracts.random_keys import RandomKeys, read_batch
from headrace.contracts.records import Records, Shard, Skipped, Table
from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Example, Indices
from headrace.errors import SchemaMismatch, Where
from headrace.formats.framed.records import bounds
from headrace.sources import matrices
from headrace.sources.node import (
    Node,
    OverFiles,
    cuts_cleanly,
    encoded_node,
    example_at,
    examples_of,
    fingerprint_of,
    random_streams,
    records_below,
    stream,
)
from headrace.sources.splits import AnyName, SplitLike, resolve_split
from headrace.sources.stacking import row
from headrace.sources.tables import ColumnNode
from headrace.sources.user_functions import Filtered, Mapped, filters_below
from headrace.sources.views import Chosen, Concatenated, Selected, Zipped, concatenate, keep_features

__all__ = ["ColumnSource", "Source", "as_indices", "check_names"]


def as_indices(indices: npt.ArrayLike, n: int) -> Indices:
    """Indices into ``n`` examples as ``int64 (k,)``, negative ones counted from the end.

    Raises:
        IndexError: an index is outside ``[-n, n)``.
        TypeError: they are not integers in one dimension.
    """
    array = np.asarray(indices)
    if array.size == 0:
        return np.zeros(0, np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise TypeError(f"indices are a sequence of integers, got {array.dtype} with shape {array.shape}")
    if array.dtype == np.uint64 and int(array.max()) >= n:  # beyond int64 they would turn negative
        raise IndexError(f"index {array.max()} is outside a source of {n} examples")
    array = array.astype(np.int64, copy=False)
    low, high = bounds(array)
    if low < -n or high >= n:
        raise IndexError(f"index {low if low < -n else high} is outside a source of {n} examples")
    return np.where(array < 0, array + n, array) if low < 0 else array


@dataclass(eq=False, repr=False)
class Source(Sequence[Example]):
    """Examples by index, with operations that make new sources: random access, picklable, safe in threads and after a fork.

    No operation reads or copies data.

    Args:
        node: How the examples are read (:class:`headrace.sources.node.Node`); :func:`headrace.open` finds it for files.
    """

    node: Node

    @property
    def schema(self) -> Schema:
        """Feature names and types of the examples."""
        return self.node.schema

    def __len__(self) -> int:
        return len(self.node)

    def batch(self, indices: npt.ArrayLike) -> Batch:
        """The examples at ``indices``, stacked feature by feature. The fast path; safe to call from many threads.

        Args:
            indices: ``k`` integers in any order, repeats allowed; negative ones count from the end.

        Returns:
            One column per feature: ``ndarray (k, *shape)``, a :class:`~headrace.Ragged` where a length varies, an object
            array of ``bytes`` or ``str``.

        Raises:
            IndexError: an index is out of range.
            CorruptRecord, SchemaMismatch: with file, record, byte and feature.
        """
        node = self.node
        return node.batch(as_indices(indices, len(node)))

    def batch_with_keys(self, indices: Indices, keys: RandomKeys | None, /) -> Batch:
        """As :meth:`batch`, with the random numbers that a loader gives: see ``map(..., seeded=True)``.

        Args:
            indices: As :meth:`batch` takes them.
            keys: One for each index; ``None`` is the same as :meth:`batch`.
        """
        node = self.node
        return read_batch(node, as_indices(indices, len(node)), keys)

    def random_streams(self) -> int:
        """How many of the operations in this source draw random numbers; 0 for most sources."""
        return random_streams(self.node)

    @overload
    def __getitem__(self, index: int) -> Example: ...
    @overload
    def __getitem__(self, index: slice) -> Source: ...
    @overload
    def __getitem__(self, index: Sequence[int]) -> list[Example]: ...
    def __getitem__(self, index: Any) -> Any:
        """An example for an integer, a source for a slice, a list of examples for a sequence of integers."""
        if isinstance(index, slice):
            return self._slice(index)
        if isinstance(index, (list, tuple, np.ndarray, range)):
            return self.__getitems__(index)
        if isinstance(index, str):
            raise TypeError(f"a source is indexed by integers and slices; source.select({index!r}) keeps one feature")
        position = operator.index(index)
        n = len(self.node)
        if not -n <= position < n:
            raise IndexError(f"index {position} is outside a source of {n} examples")
        return example_at(self.node, position % n)

    def __getitems__(self, indices: Sequence[int] | Indices) -> list[Example]:
        """Several examples in one call: what ``torch.utils.data.DataLoader`` and Grain ask for."""
        checked = as_indices(indices, len(self.node))
        batch = self.node.batch(checked)
        return [row(batch, i) for i in range(len(checked))]

    def __iter__(self) -> Iterator[Example]:
        """All examples in order, read in blocks; without an index where the files need none."""
        return examples_of(self.node)

    def stream(self, batch_size: int) -> Iterator[Batch] | None:
        """All batches in order, where that is cheaper than by index just now; else ``None``."""
        return stream(self.node, batch_size)

    def where(self, index: int) -> Where:
        """The place of example ``index`` in its file, for messages."""
        return self.node.where(index)

    def select(self, *names: str) -> Source:
        """Only these features, in this order; the others are not decoded."""
        return Source(keep_features(self.node, check_names(names)))

    def rename(self, names: Mapping[str, str]) -> Source:
        """The same features under new names: ``{old: new}``; those not named keep theirs.

        Raises:
            SchemaMismatch: two features would have one name.
        """
        return Source(Selected(self.node, _new_names(self.schema, names)))

    @overload
    def map(self, function: Callable[[Example], Example]) -> Source: ...
    @overload
    def map(self, function: Callable[[Example], Example], *, seeded: Literal[False]) -> Source: ...
    @overload
    def map(self, function: Callable[[Example, np.random.Generator], Example], *, seeded: Literal[True]) -> Source: ...
    def map(self, function: Callable[..., Example], *, seeded: bool = False) -> Source:
        """Every example through ``function`` when it is read.

        ``function`` gets an example and returns one, with whatever features it likes. The schema is found by applying it
        to the first example. For arithmetic on whole batches ``Loader(map_batch=...)`` is far faster.

        Args:
            function: Called as ``function(example)``, or as ``function(example, rng)``.
            seeded: Call it with a :class:`numpy.random.Generator` of the example's own. Its numbers depend on the loader's ``seed``, the
                epoch, and the position in the epoch's order, and on nothing else: threads, ranks, workers, batch size and resuming do not
                change them. It is Philox4x64-10 with key ``(seed, k)`` and counter ``(0, position, epoch, 0x6865616472616365)`` for the
                ``k``-th seeded operation of the source, from 0. Use it only until the function returns.

                Outside a loader (``source[i]``, ``source.batch``, iteration, :func:`headrace.write`), seed and epoch are 0, and the
                position is the index in the source that ``map`` was called on, so the same example always has the same numbers.

        Raises:
            TransformError: on reading, when ``function`` fails: names the example, with the cause chained.
        """
        return Source(Mapped(self.node, _check_callable(function, "function"), seeded=flag(seeded, "seeded")))

    def filter(self, predicate: Callable[[Example], bool]) -> Source:
        """The examples for which ``predicate`` is true.

        All examples are read once, when the length or an example is first asked for; the kept indices are remembered.
        """
        return Source(Filtered(self.node, _check_callable(predicate, "predicate")))

    def shard(self, rank: int, world: int) -> Source:
        """Part ``rank`` of ``world`` consecutive parts whose lengths differ by at most one."""
        part, n = Shard(rank, world), len(self)
        return Source(Chosen(self.node, range(part.rank * n // part.world, (part.rank + 1) * n // part.world)))

    def split(self, spec: SplitLike) -> Source:
        """A part in the split language of TFDS: ``"train[:80%]"``, ``"train[100:200]+train[-50:]"``.

        The name before the bracket is a label here: this source is the one split there is.
        """
        pieces = resolve_split(spec, AnyName(len(self)))
        return Source(concatenate([Chosen(self.node, range(start, stop)) for _, start, stop in pieces]))

    def concat(self, *others: Source) -> Source:
        """This source followed by others with the same features."""
        return Source(Concatenated((self.node, *(_check_source(other).node for other in others))))

    def zip(self, *others: Source) -> Source:
        """The features of several sources of equal length side by side.

        Raises:
            SchemaMismatch: lengths differ, or a feature name is there twice (``rename`` one).
        """
        return Source(Zipped((self.node, *(_check_source(other).node for other in others))))

    def encoded(self) -> Source:
        """This source with images as the bytes that they are stored as, as far as no function of yours was applied to them."""
        return Source(encoded_node(self.node))

    def to_numpy(
        self, feature: str | None = None, *, label: str | None = None
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any] | None]:
        """All examples as one matrix, and their labels.

        Args:
            feature: What the matrix is made of; by default ``values``, or the one feature that is an array of numbers and no
                label.
            label: What the labels are; by default ``label``, or the one feature whose name begins with ``label_``.

        Returns:
            ``ndarray (n, *shape)`` and ``ndarray (n, *shape of a label)``; ``None`` for labels where there are none.

        Raises:
            NoSuchFeature: There is no such feature, or several that might be meant.
            UnsupportedData: The feature is sparse (see :meth:`to_csr`), or its lengths vary.
        """
        return matrices.to_numpy(self.node, feature, label)

    def to_csr(self, feature: str | None = None, *, label: str | None = None) -> tuple[Any, npt.NDArray[Any] | None]:
        """All examples as one sparse matrix, and their labels.

        Args:
            feature: As for :meth:`to_numpy`. A dense one becomes sparse.
            label: As for :meth:`to_numpy`.

        Returns:
            ``scipy.sparse.csr_array (n, width)``, and labels as :meth:`to_numpy` gives them.

        Raises:
            NoSuchFeature: There is no such feature, or several that might be meant.
            UnsupportedData: The feature has no one axis, or its length varies.
            MissingExtra: SciPy is not installed.
        """
        return matrices.to_csr(self.node, feature, label)

    @property
    def records(self) -> Records | Table:
        """The records or rows of the files, where each is one example of this source.

        Raises:
            AttributeError: This source is a part of files, or several, or in memory.
        """
        if not isinstance(self.node, OverFiles):
            raise AttributeError(f"{self!r} has no records of its own")  # noqa: TRY004 - as for any attribute
        return self.node.records

    @property
    def format(self) -> str:
        """The format of the files: ``"tfrecord"``, ``"npy"``, ...; where :attr:`records` are."""
        return self.records.format

    @property
    def cuts_cleanly(self) -> bool:
        """Whether columns are of the same kind and dtype whatever the indices, so that a batch can be cut into smaller ones.

        Not so where the user's own function gives the values.
        """
        return cuts_cleanly(self.node)

    @property
    def skipped(self) -> Skipped:
        """What ``on_corrupt="skip"`` has left out of the files behind this source, as far as they were read."""
        parts = [records.skipped for records in records_below(self.node)]
        return Skipped(sum(part.records for part in parts), sum(part.bytes for part in parts))

    @cached_property
    def fingerprint(self) -> str:
        """Tells other data from the same data: number of examples, schema, and what the first and last one hold.

        Does not change when files are moved, renamed, re-sharded or compressed.
        """
        return fingerprint_of(self.node)

    def filters(self) -> Iterator[Filtered]:
        """The filters in this source whose examples were not read yet, each after those that it depends on."""
        return filters_below(self.node)

    def _slice(self, index: slice) -> Source:
        return Source(Chosen(self.node, range(len(self))[index]))

    def __repr__(self) -> str:
        kind = type(self.node).__name__.replace("Node", "Source")
        return f"<{kind} of {len(self)} examples: {', '.join(self.schema)}>"


class ColumnSource(Source):
    """Columns in memory as a source: ``{"image": ndarray (n, ...), "label": ndarray (n,)}``."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        super().__init__(ColumnNode(columns))

    @property
    def columns(self) -> dict[str, Any]:
        """The columns."""
        node: Any = self.node
        columns: dict[str, Any] = node.columns
        return columns


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


def _new_names(schema: Schema, names: Mapping[str, str]) -> dict[str, str]:
    """All features of a schema, as ``{new: old}``."""
    if not isinstance(names, Mapping):
        raise TypeError(f"rename takes {{old: new}}, got {type(names).__name__} {names!r:.80}")
    for name in names:
        _ = schema[name]
    found: dict[str, str] = {}
    for name in schema:
        new = names.get(name, name)
        if new in found:
            raise SchemaMismatch(
                Where(feature=new),
                expected="every feature name once",
                found=f"it for {found[new]!r} and for {name!r}",
                hint="rename() the other one, too, or leave it out with select().",
            )
        found[new] = name
    return found


def _check_callable(given: Any, name: str) -> Any:
    if not callable(given):
        raise TypeError(f"{name} must be a function of an example, got {given!r:.80}")
    return given


def _check_source(other: object) -> Source:
    if not isinstance(other, Source):
        raise TypeError(f"expected a source, as headrace.open gives, got {type(other).__name__} {other!r:.80}")
    return other
