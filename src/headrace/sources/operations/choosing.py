"""Operations that choose examples: the first ones, random ones, sorted ones, those that a predicate or a condition keeps.

They are functions of a source, which :class:`headrace.Source` has as methods. A source is known here by what they need of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from headrace._arguments import check_flag, check_integer
from headrace.contracts.feature import Feature
from headrace.contracts.protocols import PicksRows
from headrace.contracts.random_keys import RandomKeys
from headrace.contracts.records import is_table
from headrace.contracts.schema import Schema, find_present, take_present
from headrace.contracts.values import Batch, Example, Indices
from headrace.errors import UnsupportedData, Where
from headrace.io.system import cached_property
from headrace.sampling.samplers import Shuffled
from headrace.sources.matrices import read_all
from headrace.sources.node import (
    Node,
    cuts_cleanly,
    encoded_node,
    examples_of,
    is_counted,
    read_blocks,
    records_below,
    walk,
)
from headrace.sources.stacking import stack
from headrace.sources.user_functions import UserFunction
from headrace.sources.views import Chosen, copy_example, keep_features

__all__ = [
    "Filtered",
    "MakesViews",
    "filters_below",
    "fitting",
    "random_split",
    "sample",
    "skip",
    "sort",
    "take",
    "take_first",
]

View_co = TypeVar("View_co", covariant=True)

FEW = 5
"""Examples that ``head`` gives by default, as in pandas."""
ROUNDING = 1e-9
"""By how much fractions may miss 1: thirds as floats do."""
FILTERED_AT_ONCE = 4096
"""Examples that a condition looks at together, if they are small."""
HELD_AT_ONCE = 256
"""The same where whole examples are held meanwhile."""


class MakesViews(Protocol[View_co]):
    """A source that makes other sources of its kind."""

    @property
    def node(self) -> Node:
        """How its examples are read."""

    @property
    def schema(self) -> Schema:
        """Its features."""

    def __len__(self) -> int: ...

    def with_node(self, node: Node, /) -> View_co:
        """A source of the same kind, with the same features, over another node."""


def take_first(source: MakesViews[View_co], n: int = FEW) -> View_co:
    """The first ``n`` examples (5 by default), or all if there are fewer."""
    return take(source, n)


def take(source: MakesViews[View_co], n: int) -> View_co:
    """The first ``n`` examples, or all if there are fewer."""
    return _choose(source, range(min(check_integer(n, "n"), len(source))))


def skip(source: MakesViews[View_co], n: int) -> View_co:
    """All examples but the first ``n``."""
    return _choose(source, range(min(check_integer(n, "n"), len(source)), len(source)))


def sample(source: MakesViews[View_co], n: int, seed: int = 0) -> View_co:
    """Random examples, each at most once, in random order.

    They are the first ``n`` examples that ``Loader(source, ..., shuffle=True, seed=seed)`` reads, so a larger sample of the same seed
    begins with a smaller one.

    Args:
        n: The number of examples; all, shuffled, if there are fewer.
        seed: In ``[0, 2^64)``.
    """
    order, count = Shuffled(len(source), seed=check_integer(seed, "seed")), min(check_integer(n, "n"), len(source))
    return _choose(source, order.indices(0, 0, count))


def random_split(source: MakesViews[View_co], parts: Sequence[float], seed: int = 0) -> list[View_co]:
    """Divide the examples at random. Each example is in one part; each part keeps the order of the source.

    Args:
        parts: Fractions that add up to 1 (``[0.8, 0.2]``), or numbers of examples that add up to the length. The bounds
            of fractions are rounded to whole examples, halves up.
        seed: In ``[0, 2^64)``. The division depends only on ``seed``, ``parts`` and the number of examples, in every release.

    Returns:
        One source per part. Together they take 8 bytes per example.

    Raises:
        ValueError: The parts do not add up, or one is negative.
        TypeError: They are neither fractions nor counts.

    >>> import numpy as np
    >>> from headrace.sources.source import ColumnSource
    >>> [len(part) for part in ColumnSource({"x": np.arange(10)}).random_split([0.8, 0.2], seed=7)]
    [8, 2]
    """
    bounds = _bounds_of_parts(parts, len(source))
    order = Shuffled(len(source), seed=check_integer(seed, "seed")).indices(0, 0, len(source))
    return [_choose(source, np.sort(order[start:stop])) for start, stop in zip([0, *bounds], bounds, strict=False)]


def sort(source: MakesViews[View_co], by: str | Sequence[str], *, descending: bool | Sequence[bool] = False) -> View_co:
    """Sort the examples. This reads only the features in ``by``, once, now.

    Examples with equal values keep their order, also when descending. NaN, NaT and missing values come last.

    Args:
        by: A feature, or several: later ones decide between equal values of earlier ones. Each has one number, text or
            ``bytes`` per example.
        descending: Largest first, for all features, or a flag for each.

    Raises:
        NoSuchFeature: There is no feature of that name.
        UnsupportedData: A feature has more than one value per example.

    >>> import numpy as np
    >>> from headrace.sources.source import ColumnSource
    >>> [int(example["x"]) for example in ColumnSource({"x": np.array([3, 1, 2])}).sort("x", descending=True)]
    [3, 2, 1]
    """
    names = [by] if isinstance(by, str) or not isinstance(by, Iterable) else list(by)
    if not names or not all(isinstance(name, str) for name in names):
        raise TypeError(f"sort takes the name of a feature, or several, got {by!r:.80}")
    down = _flags(descending, len(names))
    for name in names:
        _check_sortable(name, source.schema[name])
    batch = read_all(source.node, *dict.fromkeys(names)) if len(source) else {}
    ranks = [_ranks(batch[name], down=last) for name, last in zip(names, down, strict=True)] if batch else []
    order = np.lexsort(ranks[::-1]) if ranks else np.zeros(0, np.int64)
    return _choose(source, order.astype(np.int64, copy=False))


def _choose(source: MakesViews[View_co], chosen: range | Indices) -> View_co:
    return source.with_node(Chosen(source.node, chosen))


def _bounds_of_parts(parts: Sequence[float], n: int) -> list[int]:
    """Where each part ends."""
    from decimal import Decimal  # imported here, because few programs split by fractions
    from fractions import Fraction

    if isinstance(parts, (str, bytes)) or not hasattr(parts, "__iter__"):
        raise TypeError(f"random_split takes fractions or numbers of examples, such as [0.8, 0.2], got {parts!r:.80}")
    given: list[Any] = list(parts)
    if not given:
        raise ValueError("random_split takes at least one part, such as [0.8, 0.2]")
    for part in given:
        if isinstance(part, bool) or not isinstance(part, (int, float, np.number, Fraction, Decimal)):
            raise TypeError(f"each part is a fraction or a number of examples, got {part!r:.80}")
        if not (math.isfinite(part) and not part < 0):
            raise ValueError(f"a part cannot be negative or infinite, got {part!r}")
    if all(isinstance(part, (int, np.integer)) for part in given):
        ends = np.cumsum([int(part) for part in given], dtype=object)
        if ends[-1] != n:
            raise ValueError(f"the parts add up to {ends[-1]} examples, and the source has {n}")
        return [int(end) for end in ends]
    exact = [Fraction(str(part)) for part in given]
    total = float(sum(exact))
    if abs(total - 1) > ROUNDING:
        raise ValueError(f"fractions must add up to 1, got {given}, which add up to {total}")
    ends = np.cumsum(np.array(exact, object))
    return [*(min(n, math.floor(end * n + Fraction(1, 2))) for end in ends[:-1]), n]


def _flags(descending: bool | Sequence[bool], count: int) -> list[bool]:  # noqa: FBT001 - as the caller gave it
    if isinstance(descending, (list, tuple)):
        if len(descending) != count:
            raise ValueError(f"descending has {len(descending)} flags for {count} features")
        return [check_flag(each, "descending") for each in descending]
    return [check_flag(descending, "descending")] * count


def _check_sortable(name: str, feature: Feature) -> None:
    if feature.shape or feature.sparse or feature.dtype == "examples":
        raise UnsupportedData(
            Where(feature=name), expected="a feature with one value per example to sort by", found=repr(feature)
        )


def _ranks(column: Any, *, down: bool) -> npt.NDArray[np.int64]:
    """The rank of each value: equal for equal values, and largest for missing ones."""
    values = np.asarray(column)
    present = find_present(values)
    if present is not None:
        found = np.full(len(values), len(values), np.int64)
        found[present] = _ranks(take_present(values, present), down=down)
        return found
    missing = np.isnan(values) if values.dtype.kind in "fcmM" and values.size else None
    ranks = np.unique(values, return_inverse=True)[1].reshape(-1).astype(np.int64, copy=False)
    if down:
        ranks = -ranks
    if missing is not None and missing.any():
        ranks = np.where(missing, np.int64(len(values)), ranks)
    return ranks


def fitting(
    node: Node, condition: PicksRows, begin: int, end: int, at_once: int = FILTERED_AT_ONCE
) -> Iterator[tuple[int, Indices]]:
    """The indices from ``begin`` up to ``end`` that fit a condition, ``at_once`` examples at a time, after where those end. Only needed features are decoded.

    Raises:
        NoSuchFeature, ConditionError: The condition does not fit the features.
    """
    schema = node.schema
    for start, stop, batch in read_blocks(_keep_needed(node, condition), at_once, begin, end):
        yield stop, np.flatnonzero(condition.mask(batch, stop - start, schema)) + start


def _keep_needed(node: Node, condition: PicksRows) -> Node:
    names = condition.needed(node.schema)
    return keep_features(encoded_node(node) if not any(node.schema[name].is_image for name in names) else node, names)


def _reads_by_index(node: Node) -> bool:
    """Whether reading examples by index takes no more than in order: no functions make them, which may be slow, and no file of records
    needs an index first.
    """
    has_functions = any(hasattr(each, "function") for each in walk(node))
    return is_counted(node) and not has_functions and all(map(is_table, records_below(node)))


def _fitting_by_index(node: Node, condition: PicksRows) -> Iterator[tuple[int, Example]]:
    """The examples that fit a condition, with their indices. Of others, only the features that the condition needs are decoded."""
    needed = _keep_needed(node, condition)
    start, size = 0, 1  # ever more together, so that the first ones are found at once
    while start < len(node):
        stop = min(start + size, len(node))
        mask = condition.mask(needed.batch(np.arange(start, stop)), stop - start, node.schema)
        kept = np.flatnonzero(mask) + start
        if len(kept):
            yield from zip(kept.tolist(), examples_of(Chosen(node, kept)), strict=True)
        start, size = stop, min(2 * size, HELD_AT_ONCE)


def _fitting_in_order(
    examples: Iterator[tuple[int, Example]], condition: PicksRows, schema: Schema
) -> Iterator[tuple[int, Example]]:
    """Those of some examples that fit a condition. It looks at ever more of them together, so that the first ones are found at once."""
    names, size = condition.needed(schema), 1
    while True:
        taken: list[tuple[int, Example]] = []
        fault: Exception | None = None
        try:
            taken.extend(islice(examples, size))
        except Exception as error:  # noqa: BLE001 - raised below, after the examples before it
            fault = error
        if taken:
            rows = stack([{name: example[name] for name in names} for _, example in taken])
            mask = condition.mask(rows, len(taken), schema)
            yield from (each for each, fits in zip(taken, mask.tolist(), strict=True) if fits)
        if fault is not None:
            raise fault
        if len(taken) < size:
            return
        size = min(2 * size, HELD_AT_ONCE)


class Filtered:
    """The examples of a node for which a predicate is true. All are read once, when the length or an example is first asked for.

    Args:
        parent: The node.
        predicate: Takes an example.
    """

    def __init__(self, parent: Node, predicate: Callable[[Example], bool]) -> None:
        self.parent = parent
        self.predicate = predicate

    @property
    def schema(self) -> Schema:
        return self.parent.schema

    @cached_property
    def _kept(self) -> Chosen:
        if isinstance(self.predicate, PicksRows):
            return Chosen(self.parent, self._fitting(self.predicate, 0, len(self.parent)))
        return Chosen(self.parent, self._find(enumerate(examples_of(self.parent))))

    @property
    def chosen(self) -> range | Indices:
        """The indices of the examples that are kept."""
        return self._kept.chosen

    @property
    def is_evaluated(self) -> bool:
        """Whether it is known which examples are kept."""
        return "_kept" in self.__dict__

    def is_counted(self) -> bool:
        return self.is_evaluated

    def kept_in(self, begin: int, end: int) -> Indices:
        """The indices from ``begin`` up to ``end`` whose examples are kept, found again."""
        if isinstance(self.predicate, PicksRows):
            return self._fitting(self.predicate, begin, end)
        return self._find(enumerate(examples_of(Chosen(self.parent, range(len(self.parent))[begin:end])), begin))

    def keep(self, indices: Indices) -> None:
        """Keep the examples at these indices, which :meth:`kept_in` has found."""
        self.__dict__["_kept"] = Chosen(self.parent, indices)

    def _find(self, examples: Iterable[tuple[int, Example]]) -> Indices:
        keeps = UserFunction(self.predicate, self.parent).accepts
        return np.array([i for i, example in examples if keeps(example, i)], np.int64)

    def _fitting(self, condition: PicksRows, begin: int, end: int) -> Indices:
        """As :meth:`_find`, by batches with the features that the condition needs."""
        parts = [np.zeros(0, np.int64)]
        parts.extend(found for _, found in fitting(self.parent, condition, begin, end))
        return np.concatenate(parts)

    def __len__(self) -> int:
        return len(self._kept)

    def batch(self, indices: Indices, /) -> Batch:
        return self._kept.batch(indices)

    def batch_with_keys(self, indices: Indices, keys: RandomKeys | None, /) -> Batch:
        return self._kept.batch_with_keys(indices, keys)

    def where(self, index: int, /) -> Where:
        return self._kept.where(index)

    def examples(self) -> Iterator[Example]:
        """The kept examples in order, each as soon as it is found."""
        return (example for _, example in self.indexed_examples())

    def indexed_examples(self) -> Iterator[tuple[int, Example]]:
        """As :meth:`examples`, with the index that each has in the node below."""
        if self.is_evaluated:
            yield from zip(self.chosen, examples_of(self._kept), strict=True)
            return
        if isinstance(self.predicate, PicksRows) and _reads_by_index(self.parent):
            yield from _fitting_by_index(self.parent, self.predicate)
            return
        examples = enumerate(examples_of(self.parent))
        if isinstance(self.predicate, PicksRows):
            yield from _fitting_in_order(examples, self.predicate, self.parent.schema)
            return
        keeps = UserFunction(self.predicate, self.parent).accepts
        # A predicate may change what it gets, but not what is kept.
        yield from ((index, example) for index, example in examples if keeps(copy_example(example), index))

    def runs(self) -> Indices | None:
        return self._kept.runs()

    def below(self) -> tuple[Node, ...]:
        return (self.parent,)

    def encoded(self) -> Node:
        return encoded_node(self._kept)

    def cuts_cleanly(self) -> bool:
        return cuts_cleanly(self.parent)

    def stored_bytes(self, first: int, stop: int, /) -> int:
        return self._kept.stored_bytes(first, stop)


def filters_below(node: Node) -> Iterator[Filtered]:
    """The filters in a node whose examples were not read yet, each after those that it depends on."""
    return (each for each in walk(node) if isinstance(each, Filtered) and not each.is_evaluated)
