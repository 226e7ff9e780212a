"""One feature of a source, as a sequence of values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, overload

import numpy as np
import numpy.typing as npt

from headrace import _hooks
from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema
from headrace.contracts.strings import Strings
from headrace.contracts.values import Example, Indices, Ragged
from headrace.errors import SchemaMismatch, Where
from headrace.sources.conditions.terms import widen_floats
from headrace.sources.operations.near_misses import FOR_COLUMNS, explain_missing

__all__ = ["FeatureColumn", "indices_of_mask"]


class ReadsColumn(Protocol):
    """A source of one feature."""

    @property
    def schema(self) -> Schema:
        """That feature."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: Any, /) -> Any: ...
    def __iter__(self) -> Iterator[Example]: ...
    def batch(self, indices: npt.ArrayLike, /) -> dict[str, Any]:
        """Some values."""


class FeatureColumn(Sequence[Any]):
    """One feature of a source: what ``source["label"]`` gives. Values are read when they are asked for, and no other feature is.

    - ``column[3]`` is a value, ``column[10:20]`` a column, ``column[[3, 1]]`` the values as a batch has them.
    - ``np.asarray(column)`` reads all values. Those of varying length become an array of arrays.
    - ``column == 7``, ``column < 0.5`` and ``column.isin([1, 2])`` read all values and give a mask, for ``source[mask]``.

    Args:
        source: A source of this one feature.
    """

    __slots__ = ("_source",)
    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __init__(self, source: ReadsColumn) -> None:
        if len(source.schema) != 1:
            raise SchemaMismatch(Where(), expected="one feature", found=str(list(source.schema)))
        self._source = source

    @property
    def source(self) -> Any:
        """The source of this one feature."""
        return self._source

    @property
    def name(self) -> str:
        """The name of the feature."""
        return next(iter(self._source.schema))

    @property
    def schema(self) -> Schema:
        """The schema of this one feature."""
        return self._source.schema

    @property
    def feature(self) -> Feature:
        """The type of the values."""
        return self._source.schema[self.name]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the values: ``object`` for text and bytes."""
        return self.feature.numpy_dtype

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The number of values, then the shape of each; ``None`` where it varies."""
        return (len(self), *self.feature.shape)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return 1 + len(self.feature.shape)

    def __len__(self) -> int:
        return len(self._source)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> FeatureColumn: ...
    @overload
    def __getitem__(self, index: Sequence[int] | npt.NDArray[Any]) -> Any: ...
    def __getitem__(self, index: Any) -> Any:
        """A value for an integer, a column for a slice or a mask, values as in a batch for a sequence of integers."""
        if isinstance(index, (list, tuple, range, FeatureColumn)) or (isinstance(index, np.ndarray) and index.ndim):
            chosen = self._source[index] if is_mask(index) else None
            return self.batch(index) if chosen is None else FeatureColumn(chosen)
        found = self._source[index]
        return FeatureColumn(found) if isinstance(index, slice) else found[self.name]

    def __iter__(self) -> Iterator[Any]:
        name = self.name
        return (example[name] for example in self._source)

    def __contains__(self, value: object) -> bool:
        return bool(np.any(self == value))

    def batch(self, indices: npt.ArrayLike) -> Any:
        """Some values, as a batch has them: an array, :class:`~headrace.Strings` or :class:`~headrace.Ragged`."""
        return self._source.batch(indices)[self.name]

    def isin(self, values: Any) -> npt.NDArray[np.bool_]:
        """For each value, whether it is one of ``values``: an array or any iterable; the keys of a dict.

        Raises:
            TypeError: It is a single value, or the values are times and these are text.
        """
        if isinstance(values, (str, bytes, bytearray)) or not hasattr(values, "__iter__"):
            raise TypeError(f"isin takes several values, such as [{values!r:.60}], got {values!r:.60}")
        found = np.asarray(self)
        is_array = isinstance(values, (list, tuple)) or hasattr(type(values), "__array__")
        # NumPy would take other iterables for one object, which equals nothing.
        wanted = values if is_array and not isinstance(values, FeatureColumn) else list(values)
        if self.feature.is_text and self.ndim == 1:
            texts = set(wanted.reshape(-1).tolist() if isinstance(wanted, np.ndarray) else wanted)
            return np.fromiter((value in texts for value in found), np.bool_, len(found))
        if found.dtype.kind in "mM" and np.asarray(wanted).dtype.kind in "US":  # None of them would equal a time.
            raise TypeError(
                f"column {self.name!r} holds {self.feature.dtype}: give isin times of NumPy, as in np.array([...], {str(found.dtype)!r})"
            )
        return np.isin(found, _exact(wanted, found.dtype) if found.dtype.kind in "iuf" else wanted)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:  # noqa: FBT001
        if copy is False:
            raise ValueError("the values are read: they cannot be given without a copy")
        column = self.batch(np.arange(len(self)))
        array = np.asarray(_as_array(column))
        return array if dtype is None else array.astype(dtype)

    def __eq__(self, other: object) -> npt.NDArray[np.bool_]:  # type: ignore[override]
        return self._compare(other, np.equal)

    def __ne__(self, other: object) -> npt.NDArray[np.bool_]:  # type: ignore[override]
        return self._compare(other, np.not_equal)

    def __lt__(self, other: Any) -> npt.NDArray[np.bool_]:
        return self._compare(other, np.less)

    def __le__(self, other: Any) -> npt.NDArray[np.bool_]:
        return self._compare(other, np.less_equal)

    def __gt__(self, other: Any) -> npt.NDArray[np.bool_]:
        return self._compare(other, np.greater)

    def __ge__(self, other: Any) -> npt.NDArray[np.bool_]:
        return self._compare(other, np.greater_equal)

    def _compare(self, other: object, how: Callable[..., Any]) -> npt.NDArray[np.bool_]:
        if isinstance(other, str) and self.feature.names is not None:
            condition = f'source.filter(headrace.condition("{self.name} = {other!r}"))'
            raise TypeError(
                f"column {self.name!r} holds the numbers of labels: use {condition}, or compare it with "
                "column.feature.names.index(...)"
            )
        values = np.asarray(self)
        if isinstance(other, str) and values.dtype.kind in "mM":
            raise TypeError(
                f"column {self.name!r} holds {self.feature.dtype}, which is not compared with text: "
                f"give a time of NumPy, as in np.array({other!r:.60}, {str(values.dtype)!r})"
            )
        if isinstance(other, (str, bytes)) and self.feature.is_text:
            other = np.array(other, object)  # not as an array of characters, which loses zeros at the end
        given: Any = np.asarray(other) if isinstance(other, FeatureColumn) else other
        try:
            with np.errstate(invalid="ignore"):  # of NaN among objects
                return np.asarray(how(widen_floats(values, given), widen_floats(given, values)), dtype=np.bool_)
        except (TypeError, ValueError) as error:
            raise self._no_comparison(other, error) from error

    def _no_comparison(self, other: object, error: Exception) -> TypeError:
        refusal = f"column {self.name!r} holds {self.feature.dtype}, which cannot be compared with {other!r:.60}: "
        lengths = (
            (len(self), *np.shape(other)[:1]) if isinstance(other, (list, tuple, np.ndarray, FeatureColumn)) else ()
        )
        if not self.feature.is_fixed:
            condition = f"source.filter(headrace.condition('{self.name} = 3'))"
            return TypeError(f"{refusal}the values have varying lengths. Use a condition, such as {condition}")
        if len(set(lengths)) > 1:
            return TypeError(f"{refusal}the column has {lengths[0]} values, and this has {lengths[1]}")
        return TypeError(f"{refusal}{error}")

    if not TYPE_CHECKING:
        __getattr__ = explain_missing(FOR_COLUMNS)

    def __copy__(self) -> Self:
        return self

    def _repr_html_(self) -> str | None:
        return _hooks.to_html(self)

    def __repr__(self) -> str:
        return f"<FeatureColumn {self.name!r} of {len(self)} values: {self.feature}>"


def _exact(values: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Those of some numbers that a dtype has: nothing else equals one of its values, and no number is rounded to one."""
    given = np.asarray(values)
    if given.dtype == dtype or given.dtype.kind not in "biufO":
        return given
    kept = [number for number in np.asarray(values, object).reshape(-1).tolist() if _has(dtype, number)]
    return np.array(kept, dtype)


def _has(dtype: np.dtype[Any], number: Any) -> bool:
    try:
        if dtype.kind == "f":
            return bool(dtype.type(number) == number)
        return bool(int(number) == number and np.iinfo(dtype).min <= number <= np.iinfo(dtype).max)
    except (TypeError, ValueError, OverflowError):  # no number, NaN, infinity
        return False


def is_mask(index: Any) -> bool:
    """Whether an index is a sequence of flags."""
    if isinstance(index, (list, tuple)):
        return bool(index) and isinstance(index[0], (bool, np.bool_))
    return not isinstance(index, range) and index.dtype == np.bool_


def indices_of_mask(given: Any, n: int) -> Indices | None:
    """The indices that a mask chooses; ``None`` for what is no mask.

    Raises:
        IndexError: It has another length.
    """
    if isinstance(given, (list, tuple)) and not (given and isinstance(given[0], (bool, np.bool_))):
        return None
    mask = np.asarray(given)
    if mask.dtype != np.bool_:
        return None
    if mask.shape != (n,):
        raise IndexError(f"a mask has one flag for each of the {n} examples, got shape {mask.shape}")
    return np.flatnonzero(mask)


def _as_array(column: Any) -> Any:
    if hasattr(column, "tocsr"):
        return column.toarray()
    if isinstance(column, Strings):
        return np.asarray(column)
    if isinstance(column, (Ragged, list)):
        cells = np.empty(len(column), object)
        for position, value in enumerate(column):
            cells[position] = value
        return cells
    return column
