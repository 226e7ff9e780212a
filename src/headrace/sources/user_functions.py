"""The user's own functions on examples, and ``map``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count, islice, repeat
from typing import Any

import numpy as np

from headrace.contracts.protocols import InnerExamples
from headrace.contracts.random_keys import RandomKeys, describe, generators_at, read_batch
from headrace.contracts.schema import Schema
from headrace.contracts.strings import Strings
from headrace.contracts.values import Batch, Example, Indices, Ragged, columns_of, size_of
from headrace.errors import SchemaMismatch, TransformError, Where
from headrace.io.system import cached_property
from headrace.sources.node import (
    Node,
    examples_of,
    first_schema,
    list_rows,
    random_streams,
    runs_of,
)
from headrace.sources.stacking import stack_values
from headrace.sources.tables import find_object, object_error
from headrace.sources.views import copy_value

__all__ = [
    "Mapped",
    "UserFunction",
    "found_instead",
    "keep_dtypes",
    "rows_with_gaps",
]

NO_ANSWER = (
    "it must return True or False, got None: is a return missing? bool(...) makes False of a None that stands for no"
)
BLOCK = 256
"""Examples that are stacked together in iteration."""
BLOCK_BYTES = 1 << 20
"""About the most bytes of them, unless one has more."""


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

    def accepts(self, example: Example, index: int) -> bool:
        """Whether the function returns something true for the example at ``index``.

        Raises:
            TransformError: It fails, or returns what is neither true nor false, such as an array or None.
        """
        try:
            found = self.function(example)
            if found is None:  # which Python takes for False: a function without a return would leave out everything
                raise TypeError(NO_ANSWER)  # noqa: TRY301 - handled below, like other errors
            return bool(found)
        except Exception as error:
            raise self._failure(index, (), error) from error

    def make(self, example: Example, index: int, *generator: np.random.Generator) -> Example:
        """The example that the function makes of the one at ``index``.

        Raises:
            TransformError: It fails, or returns something else.
        """
        try:  # as __call__, which would take a fifth longer
            made: Example = self.function(example, *generator)
        except Exception as error:
            raise self._failure(index, generator, error) from error
        if type(made) is not dict:
            self._check(made, index, *generator)
        return made

    def _check(self, made: Any, index: int, *generator: np.random.Generator) -> None:
        is_frame = hasattr(made, "__array__")  # those of pandas have keys, too
        if not isinstance(made, Mapping) and (is_frame or not hasattr(made, "keys")):
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
        self,
        made: Sequence[Example],
        indices: Sequence[int],
        lacks_value: Callable[[int], bool],
        expected: Iterable[str] | None = None,
    ) -> Batch:
        """Stack examples that the function made.

        Args:
            made: The examples, ``n``.
            indices: ``n`` indices of the examples in ``parent`` that they were made of.
            lacks_value: Whether the example that one of these rows was made of lacks a value. Only then the row may, too: others in the batch
                do not count, because they differ from batch to batch.
            expected: The names of their features, if known.

        Raises:
            SchemaMismatch: Two have different features, the name of one is no text, a value is None, or an object that no feature holds.
        """
        names = tuple(made[0] if expected is None else expected)
        if (columns := columns_of(made, names)) is None:
            at = next(at for at, one in enumerate(made) if set(one.keys()) != set(names))
            raise SchemaMismatch(
                self.parent.where(indices[at]),
                expected=f"the features {list(names)} from {self.name}",
                found=f"{list(made[at])} for example {indices[at]}",
                hint="The function must return the same features for every example.",
            )
        try:
            stacked = {name: stack_values(values, name, may_lack=True) for name, values in columns.items()}
            self._check_gaps(stacked, lacks_value)
        except SchemaMismatch as error:  # it names the row among these examples
            raise error.relocated(self.parent.where(indices[error.where.record or 0])) from error
        if not all(isinstance(name, str) for name in names):
            raise SchemaMismatch(
                self.parent.where(indices[0]),
                expected=f"features whose names are text from {self.name}",
                found=str(list(names)),
                hint="Name them with text, as in {'label': value}.",
            )
        return {name: _copy_rows(column) if type(column) is list else column for name, column in stacked.items()}

    def _check_gaps(self, made: Batch, lacks_value: Callable[[int], bool]) -> None:
        for name, column in made.items():
            if isinstance(column, list) or column.dtype == object:
                for row, value in enumerate(column) if type(column) is not Strings else ():
                    if type(value) is not str and (other := _find_other(value)) is not None:
                        raise object_error(other, Where(record=row, feature=name), f" from {self.name}")
        for row, name in _find_gaps(made):
            if not lacks_value(row):
                hint = "Return a value in its place, such as NaN, or leave the feature out of every example."
                raise SchemaMismatch(
                    Where(record=row, feature=name), expected="a value", found=f"None from {self.name}", hint=hint
                )

    def read_in_blocks(
        self, made: Iterator[tuple[int, Example, Example]], node: Node, expected: Iterable[str] | None
    ) -> Iterator[Example]:
        """Examples that the function made as they are in a batch: NumPy's values, in memory of their own.

        So they are the same when they are read in order, by index, in a batch or by a worker, and a change of one changes no other. Blocks grow
        from one example, so that the first ones come at once.

        Args:
            made: The index of each example below, that example as it was before the call, and the one made.
            node: The node of the function.
            expected: The names of their features, if known.
        """
        size = 1
        while True:
            taken: list[tuple[int, Example, Example]] = []
            fault: Exception | None = None
            try:
                taken.extend(islice(made, size))
            except Exception as error:  # noqa: BLE001 - raised below, after the examples before it
                fault = error
            is_last = len(taken) < size
            if taken:
                expected = list(taken[0][2]) if expected is None else expected
                for rows, batch in self._stack_as_possible(taken, node, expected):
                    yield from list_rows(batch, rows)
                    size = max(1, min(2 * size, BLOCK, BLOCK_BYTES * rows // max(sum(map(size_of, batch.values())), 1)))
            if fault is not None:
                raise fault
            if is_last:
                return

    def _stack_as_possible(
        self, taken: list[tuple[int, Example, Example]], node: Node, expected: Iterable[str]
    ) -> Iterator[tuple[int, Batch]]:
        """Examples as one batch, or each alone if their values are not of one feature: so those before a faulty one come first."""
        indices, given, made = zip(*taken, strict=True)
        try:
            batch = self.stack(made, indices, lambda row: any(v is None for v in given[row].values()), expected)
            batch = keep_dtypes(batch, node)
        except SchemaMismatch:
            if len(taken) == 1:
                raise
            for one in taken:
                yield from self._stack_as_possible([one], node, expected)
        else:
            yield len(taken), batch

    def _failure(self, index: int, generator: Iterable[np.random.Generator], error: Exception) -> TransformError:
        place = f"{self.name} on example {index}" + "".join(f" ({describe(each)})" for each in generator)
        return TransformError(place, self.parent.where(index), error)


def _find_gaps(batch: Batch) -> Iterator[tuple[int, str]]:
    """The rows in which a value is None, each with its feature. Only columns of Python objects can have one."""
    for name, column in batch.items():
        if isinstance(column, list) or (isinstance(column, np.ndarray) and column.dtype == object):
            yield from ((row, name) for row, value in enumerate(column) if value is None)


def _find_other(value: Any) -> Any:
    """An object in a column of objects that no feature holds. Lists of numbers with None among them are one, too: no column holds them."""
    while isinstance(value, Ragged):
        value = value.values
    if isinstance(value, np.ndarray) and value.dtype == object:
        numbers = any(not isinstance(item, (str, bytes, type(None))) for item in value.flat)
        return find_object(value) or (value.tolist() if numbers else None)
    return None if isinstance(value, InnerExamples) else find_object(value)


def rows_with_gaps(batch: Batch) -> Callable[[int], bool]:
    """Whether a row lacks a value, as a function of the row. The batch is looked at when that is first asked."""
    found: set[int] | None = None

    def has_gap(row: int) -> bool:
        nonlocal found
        found = {row for row, _ in _find_gaps(batch)} if found is None else found
        return row in found

    return has_gap


def _copy_rows(rows: list[Any]) -> list[Any]:
    """Rows of several shapes in memory of their own: only they are not copied when they are stacked, and the function may keep them."""
    return [copy_value(row) for row in rows]


def found_instead(made: object) -> str:
    """What a function returned instead of an example, for messages."""
    if made is None:
        return "None: is a return missing?"
    found = f"{type(made).__name__} {' '.join(repr(made).split()):.80}"
    if not hasattr(made, "to_dict"):
        return found
    is_frame = len(getattr(made, "shape", ())) > 1
    advice = "flat_map takes frame.to_dict('records')" if is_frame else "value.to_dict() is one"
    return f"{found}: {advice}"


def keep_dtypes(batch: Batch, node: Node) -> Batch:
    """A batch that a function made, in which columns without any value have the dtypes of the node's schema: empty lists show none."""
    return {name: _keep_dtype(column, node, name) for name, column in batch.items()}


def _keep_dtype(column: Any, node: Node, name: str) -> Any:
    if isinstance(column, Ragged):
        inner = _keep_dtype(column.values, node, name)
        return column if inner is column.values else Ragged(inner, column.offsets)
    if not isinstance(column, np.ndarray) or column.size or column.dtype != np.float64:
        return column
    feature = node.schema.get(name)
    if feature is None or 0 in feature.shape or feature.sparse:
        return column
    if feature.is_text:
        return Strings.from_values(column.astype(object), is_text=feature.dtype == "str")
    return column.astype(feature.numpy_dtype)


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
        self._drawn_by = object()
        self._names: list[str] | None = None
        """The features of the first batch, which all others must have."""

    @cached_property
    def schema(self) -> Schema:
        """The features of the first example, as the function returns it."""
        if not len(self):
            return self.parent.schema
        return first_schema(self._make(np.zeros(1, np.int64), None), (made for _, _, made in self._make_in_order()))

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
            keys = RandomKeys.of_indices(indices) if keys is None else keys.at(indices)
            own = keys.of_node(self, self._stream)
            drawn = zip(examples, at, own.generators(), strict=True)
            made = [function.make(example, index, generator) for example, index, generator in drawn]
        stacked = function.stack(made, at, rows_with_gaps(batch), self._names)
        self._names = list(stacked)
        return stacked

    def random_streams(self) -> int:
        return int(self.seeded)

    def drawn_by(self) -> object:
        return self._drawn_by

    @cached_property
    def _stream(self) -> int:
        """Its own stream of random numbers: the nodes below it use those before."""
        return random_streams(self.parent)

    def where(self, index: int, /) -> Where:
        return self.parent.where(index)

    def examples(self) -> Iterator[Example]:
        """All examples in order, as they are in batches."""
        function = UserFunction(self.function, self.parent)
        return function.read_in_blocks(self._make_in_order(), self, self._names)

    def _make_in_order(self) -> Iterator[tuple[int, Example, Example]]:
        """The index of each example, the one that is given, and what the function makes of it."""
        function = UserFunction(self.function, self.parent)
        generators = zip(generators_at(count(), stream=self._stream)) if self.seeded else repeat(())
        for index, (example, generator) in enumerate(zip(examples_of(self.parent), generators, strict=False)):
            given = dict(example)  # before the function changes it
            yield index, given, function.make(example, index, *generator)

    def runs(self) -> Indices | None:
        return runs_of(self.parent)

    def below(self) -> tuple[Node, ...]:
        return (self.parent,)
