"""A source, and sources made from other sources."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from penstock.contracts.protocols import Indices
from penstock.contracts.records import Records, Skipped
from penstock.contracts.schema import Schema
from penstock.contracts.values import Batch, Example
from penstock.errors import Where
from penstock.sources.applying import Applied
from penstock.sources.base import compose
from penstock.sources.parts import features_of_all, gathered, refuse_other_features
from penstock.sources.read_instruction import SplitLike, resolve_split
from penstock.sources.split import AnyName
from penstock.sources.stacking import row, schema_of, stack
from penstock.sources.whole import Wholes

__all__ = ["Derived", "Filtered", "Source"]


class Source(Wholes):
    """Examples by index, with the operations that make new sources. None of them reads or copies data."""

    def select(self, *names: str) -> Source:
        """Only these features, in this order; the others are not decoded."""
        return _Selected(self, {name: name for name in names})

    def rename(self, names: Mapping[str, str]) -> Source:
        """The same features under new names: ``{old: new}``; those not named keep theirs."""
        for name in names:
            _ = self.schema[name]
        return _Selected(self, {names.get(name, name): name for name in self.schema})

    def map(self, function: Callable[[Example], Example]) -> Source:
        """Every example through ``function`` when it is read.

        ``function`` gets an example and returns one, with whatever features it likes. The schema is found by applying it
        to the first example. For arithmetic on whole batches ``Loader(map_batch=...)`` is far faster.

        Raises:
            TransformError: on reading, when ``function`` fails: names the example, with the cause chained.
        """
        return _Mapped(self, function)

    def filter(self, predicate: Callable[[Example], bool]) -> Source:
        """The examples for which ``predicate`` is true.

        All examples are read once, when the length or an example is first asked for; the kept indices are remembered.
        """
        return Filtered(self, predicate)

    def shard(self, rank: int, world: int) -> Source:
        """Part ``rank`` of ``world`` consecutive parts whose lengths differ by at most one."""
        if world < 1 or not 0 <= rank < world:
            raise ValueError(f"rank must be in [0, {world}), got {rank}")
        n = len(self)
        return _Chosen(self, range(rank * n // world, (rank + 1) * n // world))

    def split(self, spec: SplitLike) -> Source:
        """A part in the split language of TFDS: ``"train[:80%]"``, ``"train[100:200]+train[-50:]"``.

        The name before the bracket is a label here: this source is the one split there is.
        """
        n = len(self)
        parts: list[Source] = [_Chosen(self, range(start, stop)) for _, start, stop in resolve_split(spec, AnyName(n))]
        return parts[0] if len(parts) == 1 else parts[0].concat(*parts[1:])

    def concat(self, *others: Source) -> Source:
        """This source followed by others with the same features."""
        return _Concatenated((self, *others))

    def zip(self, *others: Source) -> Source:
        """The features of several sources of equal length side by side.

        Raises:
            SchemaMismatch: lengths differ, or a feature name is there twice (``rename`` one).
        """
        return _Zipped((self, *others))

    def encoded(self) -> Source:
        """This source with images as the bytes that they are stored as, as far as no function of yours was applied to them."""
        return self

    def _sliced(self, index: slice) -> Source:
        return _Chosen(self, range(len(self))[index])

    @property
    def cuts_cleanly(self) -> bool:
        """Whether columns are of the same kind and dtype whatever the indices, so that a batch can be cut into smaller ones.

        Not so where the user's own function gives the values.
        """
        return False

    @property
    def skipped(self) -> Skipped:
        """What ``on_corrupt="skip"`` has left out of the files behind this source, as far as they were read."""
        parts = [records.skipped for records in {id(found): found for found in self._all_records()}.values()]
        return Skipped(sum(part.records for part in parts), sum(part.bytes for part in parts))

    def _all_records(self) -> list[Records]:
        """The records behind this source; the same ones may come more than once."""
        return []

    def filters(self) -> Iterator[Filtered]:
        """The filters in this source whose examples were not read yet, the ones that others depend on first."""
        for parent in self._sources():
            yield from parent.filters()

    def _sources(self) -> tuple[Source, ...]:
        """What this source is made from."""
        return ()

    def _narrowed(self, names: tuple[str, ...]) -> Source:  # noqa: ARG002 - most sources cannot leave features out
        """This source, with at least the features ``names``: where others can be left undecoded, they are."""
        return self


class Derived(Source):
    """A source over one other source."""

    def __init__(self, parent: Source) -> None:
        self.parent = parent

    @property
    def schema(self) -> Schema:
        return self.parent.schema

    def _sources(self) -> tuple[Source, ...]:
        return (self.parent,)

    @property
    def cuts_cleanly(self) -> bool:
        return self.parent.cuts_cleanly

    def _all_records(self) -> list[Records]:
        return self.parent._all_records()

    def __len__(self) -> int:
        return len(self.parent)

    def where(self, index: int) -> Where:
        return self.parent.where(index)


class _Selected(Derived):
    def __init__(self, parent: Source, names: Mapping[str, str]) -> None:
        super().__init__(parent._narrowed(tuple(dict.fromkeys(names.values()))))
        self.names = dict(names)
        self._schema = Schema({new: parent.schema[old] for new, old in names.items()})

    @property
    def schema(self) -> Schema:
        return self._schema

    def encoded(self) -> Source:
        return _Selected(self.parent.encoded(), self.names)

    def _batch(self, indices: Indices) -> Batch:
        return self._renamed(self.parent._batch(indices))

    def _example(self, index: int) -> Example:
        return self._renamed(self.parent._example(index))

    def __iter__(self) -> Iterator[Example]:
        """All examples in order, without an index where the parent needs none."""
        return map(self._renamed, self.parent)

    def stream(self, batch_size: int) -> Iterator[Batch] | None:
        """As the parent does, if it does."""
        batches = self.parent.stream(batch_size) if hasattr(self.parent, "stream") else None
        return None if batches is None else map(self._renamed, batches)

    def _renamed(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {new: values[old] for new, old in self.names.items()}


class _Chosen(Derived):
    """Some of the examples: a range, or an array of indices."""

    chosen: range | Indices

    def __init__(self, parent: Source, chosen: range | Indices) -> None:
        if isinstance(parent, _Chosen):  # a slice of a slice is a slice of the first source
            chosen = compose(parent.chosen, chosen)
            parent = parent.parent
        super().__init__(parent)
        self.chosen = chosen

    def __len__(self) -> int:
        return len(self.chosen)

    def _indices(self, indices: Indices) -> Indices:
        if isinstance(self.chosen, range):
            return indices * self.chosen.step + self.chosen.start
        return self.chosen[indices]

    def _batch(self, indices: Indices) -> Batch:
        return self.parent._batch(self._indices(indices))

    def _narrowed(self, names: tuple[str, ...]) -> Source:
        return _Chosen(self.parent._narrowed(names), self.chosen)

    def encoded(self) -> Source:
        return _Chosen(self.parent.encoded(), self.chosen)

    def _example(self, index: int) -> Example:
        return self.parent._example(int(self.chosen[index]))

    def where(self, index: int) -> Where:
        return self.parent.where(int(self.chosen[index]))


class Filtered(Derived):
    """The examples for which a predicate is true."""

    def __init__(self, parent: Source, predicate: Callable[[Example], bool]) -> None:
        super().__init__(parent)
        self.predicate = predicate

    @cached_property
    def _kept(self) -> _Chosen:
        return _Chosen(self.parent, self._true(enumerate(self.parent)))

    def kept_in(self, begin: int, end: int) -> Indices:
        """The indices from ``begin`` up to ``end`` whose examples are kept, found anew."""
        return self._true(enumerate(self.parent[begin:end], begin))

    def keep(self, indices: Indices) -> None:
        """Take these for the indices that are kept: somebody has found them by :meth:`kept_in`."""
        self.__dict__["_kept"] = _Chosen(self.parent, indices)

    def filters(self) -> Iterator[Filtered]:
        yield from super().filters()
        if "_kept" not in self.__dict__:
            yield self

    def _true(self, examples: Iterable[tuple[int, Example]]) -> Indices:
        keeps = Applied(self.predicate, self.parent)
        kept = [i for i, example in examples if keeps(example, i)]
        return np.array(kept, np.int64)

    def __len__(self) -> int:
        return len(self._kept)

    def encoded(self) -> Source:
        return self._kept.encoded()

    def _batch(self, indices: Indices) -> Batch:
        return self._kept._batch(indices)

    def where(self, index: int) -> Where:
        return self._kept.where(index)

    def __iter__(self) -> Iterator[Example]:
        """The kept examples in order, each as soon as it is found."""
        keeps = Applied(self.predicate, self.parent)
        for i, example in enumerate(self.parent):
            if keeps(example, i):
                yield example


class _Mapped(Derived):
    def __init__(self, parent: Source, function: Callable[[Example], Example]) -> None:
        super().__init__(parent)
        self.function = function

    @property
    def cuts_cleanly(self) -> bool:
        return False

    @cached_property
    def schema(self) -> Schema:
        return schema_of(self._batch(np.zeros(1, np.int64))) if len(self) else self.parent.schema

    def _batch(self, indices: Indices) -> Batch:
        batch = self.parent._batch(indices)
        made = Applied(self.function, self.parent)
        return stack([made(row(batch, k), int(i)) for k, i in enumerate(indices)])

    def __iter__(self) -> Iterator[Example]:
        """All examples in order; needs no index where the parent needs none."""
        made = Applied(self.function, self.parent)
        for i, example in enumerate(self.parent):
            yield made(example, i)


class _Joined(Source):
    """A source over several others."""

    def __init__(self, parents: tuple[Source, ...]) -> None:
        self.parents = parents

    def _sources(self) -> tuple[Source, ...]:
        return self.parents

    def _all_records(self) -> list[Records]:
        return [records for parent in self.parents for records in parent._all_records()]


class _Concatenated(_Joined):
    def __init__(self, parents: tuple[Source, ...]) -> None:
        refuse_other_features(parents)
        super().__init__(parents)

    @property
    def schema(self) -> Schema:
        return self.parents[0].schema

    @property
    def cuts_cleanly(self) -> bool:
        return all(parent.cuts_cleanly and parent.schema == self.schema for parent in self.parents)

    @cached_property
    def _ends(self) -> Indices:
        return np.cumsum([len(parent) for parent in self.parents], dtype=np.int64)

    def __len__(self) -> int:
        return int(self._ends[-1])

    def _place(self, index: int) -> tuple[Source, int]:
        part = int(np.searchsorted(self._ends, index, side="right"))
        return self.parents[part], index - (int(self._ends[part - 1]) if part else 0)

    def where(self, index: int) -> Where:
        parent, local = self._place(index)
        return parent.where(local)

    def _narrowed(self, names: tuple[str, ...]) -> Source:
        return _Concatenated(tuple(parent._narrowed(names) for parent in self.parents))

    def encoded(self) -> Source:
        return _Concatenated(tuple(parent.encoded() for parent in self.parents))

    def _batch(self, indices: Indices) -> Batch:
        return gathered(self.parents, self._ends, indices)


class _Zipped(_Joined):
    def __init__(self, parents: tuple[Source, ...]) -> None:
        super().__init__(parents)
        self._schema = features_of_all(parents)

    @property
    def schema(self) -> Schema:
        return self._schema

    @property
    def cuts_cleanly(self) -> bool:
        return all(parent.cuts_cleanly for parent in self.parents)

    def __len__(self) -> int:
        return len(self.parents[0])

    def where(self, index: int) -> Where:
        return self.parents[0].where(index)

    def encoded(self) -> Source:
        return _Zipped(tuple(parent.encoded() for parent in self.parents))

    def _batch(self, indices: Indices) -> Batch:
        return {name: column for parent in self.parents for name, column in parent._batch(indices).items()}
