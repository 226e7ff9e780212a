"""Several sources mixed in exact proportions."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from headrace import _hooks
from headrace._arguments import check_choice, check_flag, check_integer, check_integers
from headrace.contracts.protocols import (
    CutsCleanly,
    Fingerprinted,
    HasSchema,
    Locates,
    ReadsBatches,
    defines,
    offers,
    reads_batches,
)
from headrace.contracts.random_keys import HasRandomStreams, RandomKeys, read_batch
from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Example, Indices
from headrace.errors import SchemaMismatch, Where
from headrace.io.system import cached_property
from headrace.sampling.samplers import (
    MAX_PERIOD,
    AcrossEpochs,
    InOrder,
    Interleaving,
    Shuffled,
    Weight,
    check_seed,
    whole_parts,
)
from headrace.sources.operations.joining import (
    JoinedStreams,
    cast_columns,
    is_alike,
    join_schemas,
    merge,
    to_cast,
)
from headrace.sources.operations.near_misses import FOR_MIXTURES, explain_missing
from headrace.sources.source import Source

__all__ = ["Mixture", "Stop"]


Stop = Literal["first", "all"]
Weights = Mapping[Any, Weight] | Iterable[tuple[Any, Weight]]
_SEED_STEP = 0x9E3779B97F4A7C15


class Mixture:
    """Examples of several sources, interleaved by position in exact proportions.

    Position ``p`` belongs to one component, computed from ``p`` alone. Among the first ``k`` positions, for every ``k``, each
    component's count differs from its share of ``k`` by less than one. Each component is read from start to end, then again,
    across the epochs of the mixture: no example repeats before all have been read. A mixture in a mixture goes on from epoch to
    epoch as well; everywhere else, as in ``source.concat(mixture)``, a mixture is the examples of its first epoch.

    Positions are unbounded. ``len`` is the length of an epoch, which ends

    - with ``stop="first"``, before the first component would start over;
    - with ``stop="all"``, after every example of every component has been read.

    ``Loader(mixture, shuffle=True, seed=...)`` shuffles every component, differently on each pass through it. The
    interleaving does not change.

    Args:
        sources: ``{source: weight}``, or pairs of them. Weights in integers or decimals that add up to at most 65,536 parts
            are exact, others accurate to 1/65,536.
        stop: When an epoch ends.
        shuffle: Shuffle each component even if the loader does not.
        seed: In ``[0, 2^64)``; every component's order is derived from it.
        quotas: Weights are exact numbers of examples per batch, ``{images: 96, texts: 32}``. The batch size must be their sum,
            or a multiple of the sum in lowest terms (here 4). An epoch then consists of such groups: with ``stop="first"`` it
            ends before an incomplete group, with ``stop="all"`` after it. Only an incomplete last round of several ranks may be
            distributed differently; ``drop_last`` drops it.

    Raises:
        TypeError: ``sources`` is neither a dict nor pairs, one of them is not a source, or a weight is not a number.
        ValueError: a weight is not positive, or a source is empty; with ``quotas``, a weight is not an integer, or an epoch
            would not hold one group. The loader raises it for a batch size that does not match the quotas.
        SchemaMismatch: the sources have different features, or one whose values no type holds for all, or with other class names.
    """

    def __init__(
        self, sources: Weights, *, stop: Stop = "first", shuffle: bool = False, seed: int = 0, quotas: bool = False
    ) -> None:
        pairs = _pairs(sources)
        check_choice(stop, "stop", ("first", "all"))
        self.stop: Stop = stop
        self.shuffle = shuffle = check_flag(shuffle, "shuffle")
        self.seed = seed = check_seed(check_integer(seed, "seed"))
        self.quotas = quotas = check_flag(quotas, "quotas")
        self.sources: tuple[ReadsBatches, ...] = tuple(
            source.ordered(shuffle=True, seed=self._seed_of(number + 1) * _SEED_STEP % (1 << 64))[0]
            if shuffle and isinstance(source, Mixture)
            else source
            for number, (source, _) in enumerate(pairs)
        )
        if quotas:
            _check_quotas([weight for _, weight in pairs])
        self._interleaving = Interleaving(whole_parts([weight for _, weight in pairs]))
        schemas = self._check_sources()
        self._joined = None if None in schemas else join_schemas([schema for schema in schemas if schema is not None])
        self._casts = [{} if self._joined is None or s is None else to_cast(s, self._joined) for s in schemas]
        if quotas and not len(self):
            raise ValueError(f"a source is too small for its quota: {self.parts} examples are needed for one group")

    def _check_sources(self) -> list[Schema | None]:
        schemas = [_schema_of(source) for source in self.sources]
        for source, schema in zip(self.sources, schemas, strict=True):
            if schema is not None and schemas[0] is not None and set(schema) != set(schemas[0]):
                raise SchemaMismatch(
                    Where(),
                    expected=f"the features {list(schemas[0])} in every source of a mixture",
                    found=str(list(schema)),
                    hint="select() or rename() them first.",
                )
            if len(source) == 0:
                raise ValueError(f"a mixture cannot draw from {source!r}, which is empty")
        return schemas

    @property
    def parts(self) -> tuple[int, ...]:
        """The number of positions of each source per period: the weights as integers."""
        return self._interleaving.parts

    @property
    def batch_multiple(self) -> int:
        """The batch size must be a multiple of this: with ``quotas``, the sum of ``parts``."""
        return self._interleaving.period if self.quotas else 1

    @property
    def schema(self) -> Schema:
        """The schema of the first source, in dtypes that hold the numbers of all."""
        schema = _schema_of(self)
        if schema is None:
            raise AttributeError(f"{self.sources[0]!r} has no schema")
        return schema

    @cached_property
    def _orders(self) -> tuple[InOrder | Shuffled, ...]:
        if not self.shuffle:
            return tuple(InOrder(len(source)) for source in self.sources)
        return tuple(Shuffled(len(source), seed=self._seed_of(number)) for number, source in enumerate(self.sources))

    def _seed_of(self, component: int) -> int:
        """Components of equal length must be shuffled differently."""
        return (self.seed + component * _SEED_STEP) % (1 << 64)

    @cached_property
    def _length(self) -> int:
        sizes = list(enumerate(len(source) for source in self.sources))
        group = self.batch_multiple
        if self.stop == "first":
            return min(self._interleaving.position(component, n) for component, n in sizes) // group * group
        return -(-max(self._interleaving.position(component, n - 1) + 1 for component, n in sizes) // group) * group

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, position: int) -> Example:
        """The example at a position, counted from 0 across all epochs."""
        component, index = self.place(position)
        if not (self._casts[component] or component in self._other_orders or self._streams.before[-1]):
            example: Example = self.sources[component][index]
            return example
        return {name: column[0] for name, column in self.batch([position]).items()}

    def __iter__(self) -> Iterator[Example]:
        """The examples of the first epoch."""
        return (self[position] for position in range(len(self)))

    if not TYPE_CHECKING:
        __getattr__ = explain_missing(FOR_MIXTURES)

    def place(self, position: int) -> tuple[int, int]:
        """The source that a position draws from, and the index there."""
        if not hasattr(position, "__index__"):
            raise TypeError(
                f"a mixture gives one example by position, got {position!r:.60}: hr.Source(mixture) has slices"
            )
        if operator.index(position) < 0:
            raise IndexError(f"positions of a mixture count from 0, got {position}")
        one = np.array([position], np.int64)
        component = int(self._interleaving.components(one)[0])
        return component, int(self._indices(component, self._interleaving.draws(one))[0])

    def where(self, position: int) -> Where:
        """The location of the example at a position, for messages."""
        component, index = self.place(position)
        return _where(self.sources[component], index)

    def batch(self, positions: npt.ArrayLike) -> Batch:
        """The examples at these positions, stacked. Those beyond an epoch are positions of later ones."""
        return self.batch_with_keys(check_integers(positions).astype(np.int64, copy=False), None)

    def batch_with_keys(self, wanted: Indices, keys: RandomKeys | None, /) -> Batch:
        """:meth:`batch` with the loader's random numbers, one key for each position."""
        if wanted.size and int(wanted.min()) < 0:
            raise IndexError(f"positions of a mixture count from 0, got {wanted.min()}")
        components, draws = self._interleaving.components(wanted), self._interleaving.draws(wanted)
        used = np.unique(components) if wanted.size else np.zeros(1, np.int64)
        places = [np.flatnonzero(components == component) for component in used]
        keys = self._streams.keys_at(wanted, keys)
        batches = [
            self._read(component, self._indices(component, draws[place]), None if keys is None else keys.take(place))
            for component, place in zip(used.tolist(), places, strict=True)
        ]
        return batches[0] if len(batches) == 1 else merge(batches, places, self._joined)

    def _read(self, component: int, indices: Indices, keys: RandomKeys | None) -> Batch:
        """Examples of one source, in the dtypes of all."""
        source = self.sources[component]
        batch = read_batch(source, indices, self._streams.keys_of(component, keys))
        if component in self._other_orders:
            batch = {name: batch[name] for name in self.schema}
        return cast_columns(batch, self._casts[component], lambda row: _where(source, int(indices[row])))

    def _indices(self, component: int, draws: Indices) -> Indices:
        """A component's indices for its ``draws``-th turns, across its epochs."""
        if isinstance(self.sources[component], Mixture):
            return draws  # its positions go on across its epochs
        order = self._orders[component]
        return draws % len(order) if isinstance(order, InOrder) else order.across(draws)

    def random_streams(self) -> int:
        """How many operations draw random numbers, in all sources."""
        counts = [source.random_streams() for source in self.sources if offers(source, HasRandomStreams)]
        return sum(counts)

    @cached_property
    def _streams(self) -> JoinedStreams:
        nodes: list[Any] = [source.node if isinstance(source, Source) else source for source in self.sources]
        return JoinedStreams.of(nodes)

    @cached_property
    def _other_orders(self) -> set[int]:
        """The sources whose features stand in another order than those of the first."""
        schemas = [_schema_of(source) for source in self.sources]
        first = schemas[0]
        return (
            set()
            if first is None
            else {number for number, schema in enumerate(schemas) if schema is not None and list(schema) != list(first)}
        )

    @property
    def cuts_cleanly(self) -> bool:
        """Whether a batch may be split into smaller ones: all sources have the same types and allow it."""
        schemas = [_schema_of(source) for source in self.sources]
        joined = self._joined
        alike = joined is not None and all(schema is not None and is_alike(schema, joined) for schema in schemas)
        return alike and all(defines(source, CutsCleanly) and source.cuts_cleanly for source in self.sources)

    @cached_property
    def fingerprint(self) -> str:
        """Identifies the mixture: its sources, proportions and order."""
        sources = [
            (len(source), source.fingerprint if offers(source, Fingerprinted) else None) for source in self.sources
        ]
        parts: tuple[Any, ...] = (self.parts, self.stop, self.seed if self.shuffle else None, sources)
        parts = (*parts, "quotas") if self.quotas else parts
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    def ordered(self, *, shuffle: bool, seed: int) -> tuple[Mixture, AcrossEpochs]:
        """This mixture in the order requested by a loader, and the positions of its epochs."""
        mixture = self
        if shuffle:
            pairs = zip(self.sources, self.parts, strict=True)
            mixture = Mixture(pairs, stop=self.stop, shuffle=True, seed=seed, quotas=self.quotas)
        return mixture, AcrossEpochs(len(mixture))

    def __repr__(self) -> str:
        count = len(self.sources)
        parts = "" if count == 1 else f"s, {':'.join(map(str, self.parts))}"
        return f"<Mixture of {count} source{parts}, {len(self)} examples an epoch>"


def _where(source: object, index: int) -> Where:
    return source.where(index) if offers(source, Locates) else Where(record=index)


def _schema_of(source: object) -> Schema | None:
    if isinstance(source, Mixture):
        return source._joined or _schema_of(source.sources[0])
    return source.schema if offers(source, HasSchema) else None


def _pairs(sources: Any) -> list[tuple[ReadsBatches, Weight]]:
    """Validated sources and weights.

    Raises:
        TypeError: One has the wrong type.
    """
    wanted = "a mixture takes {source: weight}, or pairs of a source and a weight"
    if isinstance(sources, str) or not isinstance(sources, Iterable):
        raise TypeError(f"{wanted}, got {sources!r:.80}")
    given = [pair if isinstance(pair, (tuple, list)) else (pair,) for pair in _items(sources)]
    for pair in given:
        if len(pair) != 2:
            raise TypeError(f"{wanted}, got {pair!r:.80} in the place of a pair")
    return [(_as_source(source, wanted), weight) for source, weight in given]


def _as_source(given: Any, wanted: str) -> ReadsBatches:
    try:
        return given if reads_batches(given) else _hooks.as_source(given)
    except TypeError as error:
        raise TypeError(f"{wanted}, got {given!r:.80}, which is no source: headrace.open gives one") from error


def _items(sources: Any) -> Iterable[Any]:
    return sources.items() if isinstance(sources, Mapping) else sources


def _check_quotas(weights: Sequence[Weight]) -> None:
    for weight in weights:
        if isinstance(weight, bool) or not isinstance(weight, (int, np.integer)) or weight < 1:
            raise ValueError(f"a quota is an integer of at least 1, got {weight!r}")
    if sum(int(weight) for weight in weights) > MAX_PERIOD:
        raise ValueError(f"quotas add up to at most {MAX_PERIOD:,}")
