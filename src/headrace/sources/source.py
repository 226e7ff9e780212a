"""The public face of everything that is read: a source is a node with operations."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import numpy.typing as npt

from headrace import _hooks
from headrace._arguments import check_callable, check_flag, index_error
from headrace.contracts.protocols import SourceLike
from headrace.contracts.random_keys import RandomKeys, read_batch
from headrace.contracts.records import Records, Shard, Skipped, Table
from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Example, Example_co, Indices, MadeExample
from headrace.errors import Where
from headrace.formats.framed.records import bounds
from headrace.io.system import cached_property
from headrace.sources.matrices import to_arrow, to_csr, to_numpy, to_pandas, to_polars
from headrace.sources.node import (
    Node,
    OverFiles,
    checked_reader,
    cuts_cleanly,
    describe_count,
    encoded_node,
    example_at,
    examples_of,
    fingerprint_of,
    list_rows,
    place_of,
    random_streams,
    records_below,
    stored_bytes,
    stream,
)
from headrace.sources.operations import choosing
from headrace.sources.operations.choosing import Filtered, filters_below
from headrace.sources.operations.column import FeatureColumn, indices_of_mask
from headrace.sources.operations.expand import FlatMapped, make_windows
from headrace.sources.operations.joined import Concatenated, Zipped, concatenate
from headrace.sources.operations.near_misses import FOR_SOURCES, explain_missing
from headrace.sources.operations.stored import store_node
from headrace.sources.tables import ColumnNode
from headrace.sources.user_functions import Mapped
from headrace.sources.views import Chosen, check_names, keep_features, rename_features

if TYPE_CHECKING:
    from headrace.sources.splits import SplitLike

__all__ = ["ColumnSource", "Source", "as_indices"]

Mask = npt.NDArray[np.bool_] | list[bool]
"""One flag for each example."""
INT64 = np.dtype(np.int64)


def as_indices(indices: npt.ArrayLike, n: int) -> Indices:
    """Indices into ``n`` examples as ``int64 (k,)``, negative ones counted from the end.

    Raises:
        IndexError: an index is outside ``[-n, n)``.
        TypeError: they are not integers in one dimension.
    """
    array = np.asarray(indices)
    if array.size == 0:
        return np.zeros(0, np.int64)
    if array.dtype is INT64 and array.ndim == 1:  # what every loader asks for
        low, high = bounds(array)
        if low >= 0 and high < n:
            return array
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise index_error(array)
    if array.dtype == np.uint64 and int(array.max()) >= n:  # beyond int64 they would turn negative
        raise IndexError(f"index {array.max()} is outside a source of {n} examples")
    array = array.astype(np.int64, copy=False)
    low, high = bounds(array)
    if low < -n or high >= n:
        raise IndexError(f"index {low if low < -n else high} is outside a source of {n} examples")
    return np.where(array < 0, array + n, array) if low < 0 else array


@dataclass(eq=False, repr=False)
class Source(Sequence[Example_co]):
    """Examples by index, with operations that make new sources: random access, picklable, safe in threads and after a fork.

    Only ``cache`` copies data. ``filter`` reads all examples once. ``sort``, ``flat_map``, ``steps``, masks and windows of a feature
    read what their index needs. All others read nothing.

    Args:
        node: Reads the examples (:class:`headrace.sources.node.Node`); :func:`headrace.open` makes it for files.
    """

    node: Node

    @property
    def schema(self) -> Schema:
        """Feature names and types of the examples."""
        return self.node.schema

    def __len__(self) -> int:
        return len(self.node)

    def batch(self, indices: npt.ArrayLike) -> Batch:
        """The examples at ``indices``, stacked feature by feature. Thread-safe.

        Args:
            indices: ``k`` integers in any order, also repeated; negative ones count from the end.

        Returns:
            One column per feature: ``ndarray (k, *shape)``, a :class:`~headrace.Ragged` where a length varies,
            :class:`~headrace.Strings` for text and bytes.

        Raises:
            IndexError: an index is out of range.
            CorruptRecord, SchemaMismatch: with file, record, byte and feature.
        """
        node = self.node
        return node.batch(as_indices(indices, len(node)))

    def checked_reader(self) -> Callable[[Indices], Batch]:
        """:meth:`batch` without its check: for ``int64`` indices from 0 to below the length. A loader checks many at once."""
        return checked_reader(self.node) if type(self).batch is Source.batch else self.batch

    def batch_with_keys(self, indices: Indices, keys: RandomKeys | None, /) -> Batch:
        """As :meth:`batch`, with the random numbers that a loader gives: see ``map(..., seeded=True)``.

        Args:
            indices: As :meth:`batch` takes them.
            keys: One for each index; ``None`` is the same as :meth:`batch`.
        """
        return read_batch(self.node, as_indices(indices, len(self.node)), keys)

    def random_streams(self) -> int:
        """The number of operations in this source that draw random numbers; mostly 0."""
        return random_streams(self.node)

    @overload
    def __getitem__(self, index: int) -> Example_co: ...
    @overload
    def __getitem__(self, index: slice) -> Source[Example_co]: ...
    @overload
    def __getitem__(self, index: str) -> FeatureColumn: ...
    @overload
    def __getitem__(self, index: Mask) -> Source[Example_co]: ...  # type: ignore[overload-overlap]
    @overload
    def __getitem__(self, index: list[str]) -> Source: ...
    @overload
    def __getitem__(self, index: Sequence[int] | npt.NDArray[np.integer[Any]]) -> list[Example_co]: ...
    def __getitem__(self, index: Any) -> Any:
        """An example for an integer, a list of them for several integers, a source for a slice, a mask or names, a column for a name."""
        if isinstance(index, slice):
            return self.with_node(Chosen(self.node, range(len(self))[index]))
        if isinstance(index, (list, tuple, range)) or (isinstance(index, np.ndarray) and index.ndim):
            return self._several(index)
        if isinstance(index, str):
            return FeatureColumn(self.select(index))
        try:
            position = operator.index(index)
        except TypeError:
            return self._several(np.asarray(index))
        n = len(self.node)
        if not -n <= position < n:
            raise IndexError(f"index {position} is outside a source of {n} examples")
        return example_at(self.node, position % n)

    def __getitems__(self, indices: Sequence[int] | Indices) -> list[Example_co]:
        """Several examples in one call: what ``torch.utils.data.DataLoader`` and Grain ask for."""
        checked = as_indices(indices, len(self.node))
        batch = self.node.batch(checked)
        return list_rows(batch, len(checked))  # type: ignore[return-value]

    def __iter__(self) -> Iterator[Example_co]:
        """All examples in order, read in blocks; without an index where the files need none."""
        return examples_of(self.node)  # type: ignore[return-value]

    def stream(self, batch_size: int) -> Iterator[Batch] | None:
        """All batches in order, where that is cheaper than by index just now; else ``None``."""
        return stream(self.node, batch_size)

    def where(self, index: int) -> Where:
        """The position of example ``index`` in its file, for messages."""
        return place_of(self.node, index)

    def select(self, *names: str) -> Source:
        """Only these features, in this order; the others are not decoded."""
        return Source(keep_features(self.node, check_names(names)))

    def rename(self, names: Mapping[str, str]) -> Source:
        """The same features under new names: ``{old: new}``; those not named keep theirs.

        Raises:
            SchemaMismatch: two features would have one name.
        """
        return Source(rename_features(self.node, names))

    @overload
    def map(
        self, function: Callable[[Example_co], MadeExample], *, seeded: Literal[False] = False
    ) -> Source[MadeExample]: ...
    @overload
    def map(
        self, function: Callable[[Example_co, np.random.Generator], MadeExample], *, seeded: Literal[True]
    ) -> Source[MadeExample]: ...
    def map(self, function: Callable[..., Example], *, seeded: bool = False) -> Source:
        """Apply ``function`` to each example when it is read.

        ``function`` gets an example and returns one, with any features, in new arrays each time. The schema is inferred from its
        result for the first example, or for up to 256 if a list is empty there or a value missing. For arithmetic on whole batches ``Loader(map_batch=...)`` is far faster.

        Args:
            function: Called as ``function(example)``, or as ``function(example, rng)``.
            seeded: Also pass a :class:`numpy.random.Generator`, to use until the function returns. Its numbers depend only on the
                loader's ``seed``, the epoch, and the position in the epoch's order. It is Philox4x64-10 with key ``(seed, k)`` and
                counter ``(0, position, epoch, 0x6865616472616365)`` for the ``k``-th seeded operation of the source, from 0. Generators
                that its ``spawn`` gives depend on the same.

                Outside a loader (``source[i]``, ``source.batch``, iteration, :func:`headrace.write`), seed and epoch are 0, and the
                position is the index in the source that ``map`` was called on, so the same example always has the same numbers.

        Raises:
            TransformError: On reading, if ``function`` fails; names the example, with the cause chained.
        """
        return Source(Mapped(self.node, check_callable(function, "function"), seeded=check_flag(seeded, "seeded")))

    def filter(self, predicate: Callable[[Example_co], bool]) -> Source[Example_co]:
        """The examples for which ``predicate`` is true. It may not return None, because a missing ``return`` would leave out all examples.

        All examples are read once, when the length or an example is first requested; the kept indices are stored. Then, a failing
        ``predicate`` raises TransformError, which names the example.
        """
        return self.with_node(Filtered(self.node, check_callable(predicate, "predicate")))

    def flat_map(
        self,
        function: Callable[[Example_co], Iterable[MadeExample]],
        *,
        count: Callable[[Example_co], int] | None = None,
    ) -> Source[MadeExample]:
        """Replace each example by those that ``function(example)`` returns or yields, the same number at every call.

        When the length or an example is first requested, one pass counts the results: by ``count(example)``, else by calling
        ``function``. Reading one example then calls ``function`` once, on its original. Reading in order counts nothing.
        A function that fails raises TransformError, which names the example.
        """
        counter = None if count is None else check_callable(count, "count")
        return Source(FlatMapped(self.node, check_callable(function, "function"), counter))

    def window(self, size: int, stride: int | None = None, *, feature: str | Sequence[str] | None = None) -> Source:
        """Windows of ``size`` as examples, one every ``stride`` (default: ``size``). An incomplete window is left out.

        Without ``feature``, windows hold consecutive examples: every feature gets a first axis of ``size``. Windows of
        ``steps()`` stay inside an episode. With ``feature``, they hold runs of its values (or of several features of equal
        lengths): each example gives as many windows as fit, with its other features in each. All lengths are read once.
        """
        return Source(make_windows(self.node, size, stride, feature))

    def cache(self, path: str | os.PathLike[str], *, key: str, progress: bool = False) -> Source[Example_co]:
        """Store the examples in a folder below ``path`` and read them from there, so functions are called only once.

        They are stored now, unless the folder of this data and ``key`` exists. ``key`` stands for the functions: change it when
        they change. Other processes wait for the one that stores. After a kill, the next call begins again. ``progress`` shows a bar.
        ValueError refuses seeded functions, SchemaMismatch and UnsupportedData a feature that cannot be stored.
        """
        return Source(store_node(self.node, path, key, progress=check_flag(progress, "progress")))

    def shard(self, rank: int, world: int) -> Source[Example_co]:
        """Part ``rank`` of ``world`` consecutive parts whose lengths differ by at most one."""
        part, n = Shard(rank, world), len(self)
        return self.with_node(Chosen(self.node, range(part.rank * n // part.world, (part.rank + 1) * n // part.world)))

    def split(self, spec: SplitLike) -> Source[Example_co]:
        """A part in the split language of TFDS: ``"train[:80%]"``, ``"train[100:200]+train[-50:]"``.

        The name before the bracket is only a label: this source is the only split. UnsupportedData refuses bounds outside it, and no examples.
        """
        from headrace.sources.splits import AnyName, resolve_split

        pieces = resolve_split(spec, AnyName(len(self)))
        return self.with_node(concatenate([Chosen(self.node, range(start, stop)) for _, start, stop in pieces]))

    def concat(self, *others: SourceLike) -> Source[Example_co]:
        """This source followed by others with the same features, in the order of this one. SchemaMismatch refuses other features."""
        return Source(Concatenated((self.node, *map(_node_of, others))))

    def zip(self, *others: SourceLike) -> Source:
        """The features of several sources of equal length side by side.

        Raises:
            SchemaMismatch: Lengths differ, or two features have one name (``rename`` one).
        """
        return Source(Zipped((self.node, *map(_node_of, others))))

    def encoded(self) -> Source:
        """This source with images as stored bytes, unless a function of yours was applied to them."""
        return Source(encoded_node(self.node))

    head = choosing.take_first
    take = choosing.take
    skip = choosing.skip
    sample = choosing.sample
    random_split = choosing.random_split
    sort = choosing.sort
    to_numpy = to_numpy
    to_csr = to_csr
    to_pandas = to_pandas
    to_arrow = to_arrow
    to_polars = to_polars

    @property
    def records(self) -> Records | Table:
        """The records or rows of the files, if each is one example of this source.

        Raises:
            AttributeError: This source is a part or a combination of files, or in memory.
        """
        if not isinstance(self.node, OverFiles):
            raise AttributeError(f"{self!r} has no records")  # noqa: TRY004 - as for any attribute
        return self.node.records

    @property
    def format(self) -> str:
        """The format of the files: ``"tfrecord"``, ``"npy"``, .... It exists where :attr:`records` does."""
        return self.records.format

    @property
    def cuts_cleanly(self) -> bool:
        """Whether a column has one kind and dtype for all indices, so that a batch can be cut. False if your function makes the values."""
        return cuts_cleanly(self.node)

    def stored_bytes(self, first: int, stop: int) -> int:
        """About how many bytes the examples from ``first`` up to ``stop`` take where they are stored; 0 if that is not known."""
        stop = min(stop, len(self.node))
        return stored_bytes(self.node, first, stop) if 0 <= first < stop and type(self).batch is Source.batch else 0

    @property
    def skipped(self) -> Skipped:
        """Damage in the files of this source that ``on_corrupt="skip"`` left out so far."""
        parts = [records.skipped for records in records_below(self.node)]
        return Skipped(sum(part.records for part in parts), sum(part.bytes for part in parts))

    @cached_property
    def fingerprint(self) -> str:
        """Identifies the data by length, schema, first and last example; the same for files moved, re-sharded or compressed."""
        return fingerprint_of(self.node)

    def filters(self) -> Iterator[Filtered]:
        """The filters in this source that were not evaluated yet, each after those that it depends on."""
        return filters_below(self.node)

    def with_node(self, node: Node, /) -> Source[Example_co]:
        """A source of the same kind, with the same features, over another node."""
        return Source(node)

    def _several(self, index: Any) -> Any:
        if isinstance(index, list) and index and isinstance(index[0], str):
            return self.select(*index)
        kept = indices_of_mask(index, len(self.node))
        return self.__getitems__(index) if kept is None else self.with_node(Chosen(self.node, kept))

    if not TYPE_CHECKING:
        __getattr__ = explain_missing(FOR_SOURCES)

    def _repr_html_(self) -> str | None:
        return _hooks.to_html(self)

    def __repr__(self) -> str:
        count = describe_count(self.node) if next(self.filters(), None) is None else "filtered examples"
        return f"<{type(self).__name__} of {count}: {self.schema.summary()}>"


class ColumnSource(Source):
    """Columns in memory as a source: ``{"image": ndarray (n, ...), "label": ndarray (n,)}``."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        super().__init__(ColumnNode(columns))

    @property
    def columns(self) -> dict[str, Any]:
        """The columns."""
        return self.node.columns  # type: ignore[attr-defined, no-any-return]


def _node_of(given: Any) -> Node:
    """The node of a source, or of what is accepted as one."""
    return (given if isinstance(given, Source) else _hooks.as_source(given)).node
