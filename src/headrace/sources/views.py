"""A source, and sources made from other sources.

How each kind reads is in a file of its own. Here they get the operations, and the operations make them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from headrace.contracts.records import Records, Skipped
from headrace.contracts.values import Example, Indices
from headrace.sources.choosing import Choosing
from headrace.sources.filtering import Filtering
from headrace.sources.joining import Concatenating, Zipping
from headrace.sources.over import OverOne
from headrace.sources.read_instruction import SplitLike, resolve_split
from headrace.sources.selecting import Selecting
from headrace.sources.split import AnyName
from headrace.sources.transforming import Transforming
from headrace.sources.whole import Wholes

__all__ = ["Derived", "Source"]


class Source(Wholes):
    """Examples by index, with the operations that make new sources. None of them reads or copies data."""

    def select(self, *names: str) -> Source:
        """Only these features, in this order; the others are not decoded."""
        return self._named({name: name for name in names})

    def rename(self, names: Mapping[str, str]) -> Source:
        """The same features under new names: ``{old: new}``; those not named keep theirs."""
        for name in names:
            _ = self.schema[name]
        return self._named({names.get(name, name): name for name in self.schema})

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
        return _Filtered(self, predicate)

    def shard(self, rank: int, world: int) -> Source:
        """Part ``rank`` of ``world`` consecutive parts whose lengths differ by at most one."""
        if world < 1 or not 0 <= rank < world:
            raise ValueError(f"rank must be in [0, {world}), got {rank}")
        n = len(self)
        return self._chosen(range(rank * n // world, (rank + 1) * n // world))

    def split(self, spec: SplitLike) -> Source:
        """A part in the split language of TFDS: ``"train[:80%]"``, ``"train[100:200]+train[-50:]"``.

        The name before the bracket is a label here: this source is the one split there is.
        """
        n = len(self)
        parts: list[Source] = [self._chosen(range(start, stop)) for _, start, stop in resolve_split(spec, AnyName(n))]
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
        return self._chosen(range(len(self))[index])

    def _named(self, names: Mapping[str, str]) -> Source:
        """The features whose names are the values of ``names``, under those that are its keys."""
        return _Selected(self, names)

    def _chosen(self, chosen: range | Indices) -> Source:
        """The examples at these indices, which are none outside and not negative."""
        return _Chosen(self, chosen)

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

    def filters(self) -> Iterator[Filtering]:
        """The filters in this source whose examples were not read yet, the ones that others depend on first."""
        for parent in self._sources():
            yield from parent.filters()

    def _sources(self) -> tuple[Source, ...]:
        """What this source is made from."""
        return ()

    def _narrowed(self, names: tuple[str, ...]) -> Source:  # noqa: ARG002 - most sources cannot leave features out
        """This source, with at least the features ``names``: where others can be left undecoded, they are."""
        return self


class Derived(OverOne, Source):
    """A source over one other source."""


class _Selected(Selecting, Source):
    pass


class _Chosen(Choosing, Source):
    pass


class _Filtered(Filtering, Source):
    pass


class _Mapped(Transforming, Source):
    pass


class _Concatenated(Concatenating, Source):
    pass


class _Zipped(Zipping, Source):
    pass
