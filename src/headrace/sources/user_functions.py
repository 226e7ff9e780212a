"""The user's own functions on examples: those that change an example, and those that keep or leave it out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import count, repeat
from typing import Any

import numpy as np

from headrace.contracts.protocols import PicksRows
from headrace.contracts.random_keys import RandomKeys, describe, generators_at, read_batch
from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Example, Indices
from headrace.errors import SchemaMismatch, TransformError, Where
from headrace.sources.node import (
    Node,
    cuts_cleanly,
    encoded_node,
    examples_of,
    first_schema,
    keep_dtypes,
    list_rows,
    random_streams,
    runs_of,
    walk,
)
from headrace.sources.operations.choosing import fitting, fitting_by_index, fitting_in_order, reads_by_index
from headrace.sources.stacking import stack
from headrace.sources.views import Chosen

__all__ = [
    "Filtered",
    "Mapped",
    "UserFunction",
    "filters_below",
    "found_instead",
]


class UserFunction:
    """Calls a function on examples; what it raises names the example.

    Args:
        function: Takes an example, and a random generator if it is called with one.
        parent: Where the examples come from.
    """

    __slots__ = ("function", "name", "parent")

    def __init__(self, function: Callable[..., Any], parent: Node) -> None:
        self.function: Callable[..., Any] = function
        self.parent: Node = parent
        self.name: str = getattr(function, "__qualname__", type(function).__name__)

    def __call__(self, example: Example, index: int, *generator: np.random.Generator) -> Any:
        """What the function returns for the example at ``index``, and for a random generator if there is one.

        Raises:
            TransformError: It fails; the cause is chained.
        """
        try:
            return self.function(example, *generator)
        except Exception as error:
            raise self._failure(index, generator, error) from error

    def keeps(self, example: Example, index: int) -> bool:
        """Whether the function returns something true for the example at ``index``.

        Raises:
            TransformError: It fails, or returns several values, which are neither true nor false.
        """
        try:
            return bool(self.function(example))
        except Exception as error:
            raise self._failure(index, (), error) from error

    def make(self, example: Example, index: int, *generator: np.random.Generator) -> Example:
        """The example that the function makes of the one at ``index``.

        Raises:
            TransformError: It fails, or returns something else.
        """
        made: Example = self(example, index, *generator)
        self._check(made, index, *generator)
        return made

    def _check(self, made: Any, index: int, *generator: np.random.Generator) -> None:
        if not hasattr(made, "keys"):  # else it is a dict, or a mapping of another library
            error = TypeError(f"it must return a dict of features, got {found_instead(made)}")
            raise self._failure(index, generator, error) from error

    def make_all(self, examples: Iterable[Example], indices: Sequence[int]) -> list[Example]:
        """:meth:`make` for several examples, with less work for each."""
        made: list[Example] = []
        function, fault = self.function, None
        try:
            for example in examples:
                made.append(function(example))  # noqa: PERF401 - it shows which call fails
        except Exception as error:  # noqa: BLE001 - raised below
            fault = error
        if set(map(type, made)) != {dict}:
            for one, index in zip(made, indices, strict=False):
                self._check(one, index)
        if fault is not None:
            raise self._failure(indices[len(made)], (), fault) from fault
        return made

    def stack(
        self, made: Sequence[Example], indices: Sequence[int], given: Batch, expected: Iterable[str] | None = None
    ) -> Batch:
        """Stack examples that the function made.

        Args:
            made: The examples, ``n``.
            indices: ``n`` indices of the examples in ``parent`` that they were made of.
            given: The examples that they were made of. If one lacks a value, those made may lack values, too.
            expected: The names of their features, if known.

        Raises:
            SchemaMismatch: Two have different features, or a value is None.
        """
        names = list(made[0] if expected is None else expected)
        wanted = set(names)
        at = next((at for at, one in enumerate(made) if one.keys() != wanted and set(one.keys()) != wanted), None)
        if at is not None:
            raise SchemaMismatch(
                self.parent.where(indices[at]),
                expected=f"the features {names} from {self.name}",
                found=f"{list(made[at])} for example {indices[at]}",
                hint="The function must return the same features for every example.",
            )
        try:
            stacked = stack(made)
            self._check_values(stacked, given)
        except SchemaMismatch as error:  # it names the row among these examples
            raise error.relocated(self.parent.where(indices[error.where.record or 0])) from error
        return {name: _separate(column) if type(column) is list else column for name, column in stacked.items()}

    def _check_values(self, made: Batch, given: Batch) -> None:
        gap = _find_none(made)
        if gap is not None and _find_none(given) is None:
            hint = "Return a value in its place, such as NaN, or leave the feature out of every example."
            raise SchemaMismatch(gap, expected="a value", found=f"None from {self.name}", hint=hint)

    def _failure(self, index: int, generator: Iterable[np.random.Generator], error: Exception) -> TransformError:
        place = f"{self.name} on example {index}" + "".join(f" ({describe(each)})" for each in generator)
        return TransformError(place, self.parent.where(index), error)


def _find_none(batch: Batch) -> Where | None:
    """The first value that is None. Only columns of Python objects can have one."""
    for name, column in batch.items():
        if isinstance(column, list) or (isinstance(column, np.ndarray) and column.dtype == object):
            at = next((at for at, value in enumerate(column) if value is None), None)
            if at is not None:
                return Where(record=at, feature=name)
    return None


def _separate(values: list[Any]) -> list[Any]:
    """Values of which no two share memory: only columns of several shapes are not copied when they are stacked. Who changes a row of a
    batch changes no other row.
    """
    seen: set[int] = set()
    separate = []
    for value in values:
        owner = value
        while isinstance(owner, np.ndarray) and isinstance(owner.base, np.ndarray):
            owner = owner.base
        separate.append(value.copy() if id(owner) in seen and isinstance(value, np.ndarray) else value)
        seen.add(id(owner))
    return separate


def found_instead(made: object) -> str:
    """What a function returned instead of an example, for messages."""
    return "None: is a return missing?" if made is None else f"{type(made).__name__} {made!r:.80}"


class Mapped:
    """Every example of a node through a function.

    Args:
        parent: The node.
        function: Takes an example and returns one.
        seeded: Whether the function also takes the example's random generator.
    """

    def __init__(self, parent: Node, function: Callable[..., Example], *, seeded: bool = False) -> None:
        self.parent = parent
        self.function = function
        self.seeded = seeded
        self._names: list[str] | None = None
        """The features of the first batch, which all others must have."""

    @cached_property
    def schema(self) -> Schema:
        """The features of the first example, as the function returns it."""
        if not len(self):
            return self.parent.schema
        return first_schema(self._make(np.zeros(1, np.int64), None), self.examples())

    @cached_property
    def _no_rows(self) -> Batch:
        """Columns without rows, of the kinds and dtypes that the first example has; without any, of those below."""
        if not len(self.parent):
            return dict(self.parent.batch(np.zeros(0, np.int64)))
        return {name: column[:0] for name, column in self.batch(np.zeros(1, np.int64)).items()}

    def __len__(self) -> int:
        return len(self.parent)

    def batch(self, indices: Indices, /) -> Batch:
        return self.batch_with_keys(indices, None)

    def batch_with_keys(self, indices: Indices, keys: RandomKeys | None, /) -> Batch:
        return keep_dtypes(self._make(indices, keys), self) if len(indices) else dict(self._no_rows)

    def _make(self, indices: Indices, keys: RandomKeys | None) -> Batch:
        batch = read_batch(self.parent, indices, keys)
        function = UserFunction(self.function, self.parent)
        at, examples = indices.tolist(), list_rows(batch, len(indices))
        if not self.seeded:
            made = function.make_all(examples, at)
        else:
            own = (RandomKeys.of_indices(indices) if keys is None else keys.at(indices)).skip(self._stream)
            drawn = zip(examples, at, own.generators(), strict=True)
            made = [function.make(example, index, generator) for example, index, generator in drawn]
        stacked = function.stack(made, at, batch, self._names)
        self._names = list(stacked)
        return stacked

    def random_streams(self) -> int:
        return int(self.seeded)

    @cached_property
    def _stream(self) -> int:
        """Its own stream of random numbers: the nodes below it use those before."""
        return random_streams(self.parent)

    def where(self, index: int, /) -> Where:
        return self.parent.where(index)

    def examples(self) -> Iterator[Example]:
        function = UserFunction(self.function, self.parent)
        generators = zip(generators_at(count(), stream=self._stream)) if self.seeded else repeat(())
        for index, (example, generator) in enumerate(zip(examples_of(self.parent), generators, strict=False)):
            yield function.make(example, index, *generator)

    def runs(self) -> Indices | None:
        return runs_of(self.parent)

    def below(self) -> tuple[Node, ...]:
        return (self.parent,)


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
        keeps = UserFunction(self.predicate, self.parent).keeps
        return np.array([i for i, example in examples if keeps(example, i)], np.int64)

    def _fitting(self, condition: PicksRows, begin: int, end: int) -> Indices:
        """As :meth:`_find`, by batches with the features that the condition needs."""
        parts = [np.zeros(0, np.int64)]
        parts.extend(fitting(self.parent, condition, begin, end))
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
        if isinstance(self.predicate, PicksRows) and reads_by_index(self.parent):
            yield from fitting_by_index(self.parent, self.predicate)
            return
        examples = enumerate(examples_of(self.parent))
        if isinstance(self.predicate, PicksRows):
            yield from fitting_in_order(examples, self.predicate, self.parent.schema)
            return
        keeps = UserFunction(self.predicate, self.parent).keeps
        for index, example in examples:
            if keeps(example, index):
                yield index, example

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
