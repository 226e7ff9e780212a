"""The values that examples and batches are made of: how columns are joined and cut, their rows taken, and their bytes counted."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from headrace import _hooks, _native
from headrace._arguments import check_offsets, check_positions, check_row, choose_fill, list_row_numbers, refuse_rows
from headrace._native import list_examples
from headrace._numbers import join_rows, place_values
from headrace.contracts.strings import Strings

__all__ = [
    "LONG",
    "Batch",
    "Batch_co",
    "Example",
    "Example_co",
    "Indices",
    "MadeBatch",
    "MadeExample",
    "Ragged",
    "bytes_of",
    "bytes_of_column",
    "columns_of",
    "copy_pooled",
    "cut_batch",
    "empty_pooled",
    "holds_numbers",
    "join",
    "list_examples",
    "pad_rows",
    "size_of",
    "stack_plain",
    "take_rows",
    "without_objects",
]


Indices = npt.NDArray[np.int64]

LONG = 64
"""Values in a row from which copying it by itself is cheaper than an index for each value."""

OBJECT_BYTES = 64
"""A Python bytes or str, about, besides what it holds."""

POOLED_BYTES = 1 << 17
"""Copies of at least this size take memory of the pool of batches. The system takes such memory back and clears it each time."""

NUMBERS: dict[type, Any] = {bool: np.bool_, int: np.int64, float: np.float64} | {
    kind: kind for kind in np.sctypeDict.values() if np.dtype(kind).kind in "biufc"
}
"""Types whose values make an array as they are."""
SHAPE = attrgetter("shape")

Example: TypeAlias = Mapping[str, Any]
"""Feature name to value: an ``ndarray`` or NumPy scalar, ``bytes``, ``str``, or a :class:`Ragged` for two varying axes."""

Batch: TypeAlias = dict[str, Any]
"""Feature name to column: ``ndarray (n, *shape)``, :class:`Strings` of that shape for text and bytes, or :class:`Ragged` where
a length varies.
"""

MadeExample = TypeVar("MadeExample", bound=Mapping[str, Any])
"""What a user's function makes of an example."""
MadeBatch = TypeVar("MadeBatch")
"""What a user's function makes of a batch."""

if TYPE_CHECKING:  # defaults of type variables come with Python 3.13
    from typing_extensions import TypeVar as _Defaulting

    Example_co = _Defaulting("Example_co", bound=Mapping[str, Any], covariant=True, default=Example)
    Batch_co = _Defaulting("Batch_co", covariant=True, default=Batch)
else:
    Example_co = TypeVar("Example_co", bound=Mapping[str, Any], covariant=True)
    Batch_co = TypeVar("Batch_co", covariant=True)


@dataclass(frozen=True, slots=True, eq=False)
class Ragged(Sequence[Any]):
    """Rows of different lengths, end to end.

    Args:
        values: All rows joined: ``ndarray (total, *inner)``, :class:`Strings` of that shape, or another :class:`Ragged` when rows
            hold rows. A tensor after ``to="torch"``. A list where packed images have several sizes.
        offsets: ``int64 (n + 1,)``: row ``i`` is ``values[offsets[i]:offsets[i + 1]]``.

    Raises:
        ValueError: Offsets fall, do not run from 0 to the number of values, or are no integers.

    >>> r = Ragged.from_list([[1, 2], [], [3]], "int64")
    >>> r.to_list()
    [[1, 2], [], [3]]
    >>> r.to_padded(-1)
    array([[ 1,  2],
           [-1, -1],
           [ 3, -1]])
    """

    values: npt.NDArray[Any] | Strings | Ragged
    offsets: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        if not _native.are_offsets(self.offsets, len(self.values)):  # or others that are as good
            object.__setattr__(self, "offsets", check_offsets(self.offsets, len(self.values)))

    @classmethod
    def trust(cls, values: Any, offsets: Any) -> Ragged:
        """Make a column without checks, for offsets that were checked or made of such."""
        self: Ragged = object.__new__(cls)
        _PUT_VALUES(self, values)
        _PUT_OFFSETS(self, offsets)
        return self

    @classmethod
    def from_list(cls, rows: Sequence[Any], dtype: npt.DTypeLike | None = None) -> Ragged:
        """Join arrays (or lists) of equal inner shape. With dtype ``object``, rows of only text or only bytes become :class:`Strings`.
        SchemaMismatch if ``dtype`` does not hold a value (only floats may be rounded); or, without one, if none holds all values.
        """
        rows = list_row_numbers(rows)
        try:
            values, lengths = join_rows(rows, dtype)
        except (TypeError, ValueError) as error:
            if type(error) in (TypeError, ValueError):  # others are ours
                refuse_rows(rows, error)
            raise
        offsets = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        return cls(without_objects(values), offsets)

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """``int64 (n,)``: the length of each row."""
        return np.diff(self.offsets)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the innermost values."""
        if isinstance(self.values, list):
            return self.values[0].dtype if self.values else np.dtype(object)
        return self.values.dtype

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: Any) -> Any:
        """Row ``index``, a view; a slice gives the :class:`Ragged` of those rows."""
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                raise ValueError(f"rows can be sliced with step 1 only, got {step}: ragged.take(range(...)) has others")
            stop = max(start, stop)
            offsets = self.offsets[start : stop + 1]
            return Ragged(self.values[int(offsets[0]) : int(offsets[-1])], offsets - offsets[0])
        row = index if type(index) is int else check_row(index)
        if row < 0:
            row += len(self)
        if not 0 <= row < len(self):
            raise IndexError(f"row {index} of {len(self)}")
        return self.values[int(self.offsets[row]) : int(self.offsets[row + 1])]

    def __iter__(self) -> Iterator[Any]:
        ends = self.offsets.tolist()
        return (self.values[start:stop] for start, stop in itertools.pairwise(ends))

    def take(self, rows: npt.ArrayLike) -> Ragged:
        """The rows at these positions, copied. Negative ones count from the end; one outside is an IndexError, flags a TypeError."""
        rows = check_positions(rows, len(self)).reshape(-1)
        if holds_numbers(self):
            native: Any = [(self.values, self.offsets)]
            return Ragged.trust(*_native.take_varying_rows(native, np.ascontiguousarray(rows, np.int64)))
        held = np.asarray(self.offsets)
        starts = held[rows]
        lengths = held[rows + 1] - starts
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        picked = np.arange(int(offsets[-1])) + np.repeat(starts - offsets[:-1], lengths)
        likewise = getattr(self.offsets, "new_tensor", np.asarray)  # a tensor beside a tensor of PyTorch
        return Ragged.trust(take_rows(self.values, picked), likewise(offsets))

    def to_list(self) -> list[Any]:
        """Nested Python lists."""
        if isinstance(self.values, list):
            return [[value.tolist() for value in row] for row in self]
        return [row.to_list() if isinstance(row, Ragged) else row.tolist() for row in self]

    def to_padded(self, fill: Any = None) -> Any:
        """``ndarray (n, longest, *inner)``, or :class:`Strings` or a tensor of that shape: shorter rows padded by ``fill``, which
        is 0 by default, and empty among text and bytes. Only one axis may vary. TypeError if text is to be padded by other
        values, ValueError if the dtype does not hold ``fill``.
        """
        if isinstance(self.values, (Ragged, list)):
            raise TypeError("rows hold rows: pad the inner ones first, or use to_list()")
        return pad_rows(self, int(self.lengths.max(initial=0)), fill)

    def _repr_html_(self) -> str | None:
        return _hooks.to_html(self)

    def __repr__(self) -> str:
        return f"Ragged({len(self)} rows, {len(self.values)} values, {self.dtype})"


# Bound once, because every batch makes many columns.
_PUT_VALUES, _PUT_OFFSETS = (getattr(Ragged, name).__set__ for name in ("values", "offsets"))


def pad_rows(rows: Ragged, length: int, fill: Any) -> Any:
    """``(n, length, *inner)``: rows cut to a length, or followed by ``fill`` up to it, see :func:`~headrace._arguments.choose_fill`."""
    values: Any = rows.values
    if holds_numbers(rows):
        filling = np.full((1, *values.shape[1:]), choose_fill(values, fill), values.dtype)
        return _native.pad_rows(values, rows.offsets, length, filling)
    lengths = rows.lengths
    take = np.arange(len(values))
    if int(lengths.max(initial=0)) > length:
        take = take[take - np.repeat(np.asarray(rows.offsets)[:-1], lengths) < length]
    return place_values(values, take, np.flatnonzero(np.arange(length) < lengths[:, None]), (len(rows), length), fill)


def holds_numbers(rows: Ragged) -> bool:
    """Whether the rows are those of an array of numbers, which native code can copy."""
    values, offsets = rows.values, rows.offsets
    if type(values) is not np.ndarray or type(offsets) is not np.ndarray:
        return False
    is_number = values.dtype.kind in "biufc" and values.dtype.isbuiltin == 1
    return is_number and values.flags.c_contiguous and offsets.flags.c_contiguous and offsets.dtype == np.int64


def join(columns: Sequence[Any]) -> Any:
    """Columns of several batches, end to end: a list of rows if not only the first axis of these differs. One is returned uncopied."""
    if len(columns) == 1:
        return columns[0]
    first = columns[0]
    if isinstance(first, list) or any(isinstance(column, list) for column in columns):
        return [row for column in columns for row in column]
    if isinstance(first, Ragged) or any(isinstance(column, Ragged) for column in columns):
        return _join_ragged([column if isinstance(column, Ragged) else _as_ragged(column) for column in columns])
    if hasattr(first, "tocsr"):
        rows, width = sum(column.shape[0] for column in columns), max(column.shape[1] for column in columns)
        return type(first)(
            _vstack(columns), shape=(rows, width)
        )  # without it, the last used column would give the width
    if len({column.shape[1:] for column in columns}) > 1:
        is_uneven = len({column.shape[2:] for column in columns if len(column)}) > 1
        return join([list(column) if is_uneven else _as_ragged(column) for column in columns])
    if any(isinstance(column, Strings) for column in columns):
        parts = [column if isinstance(column, Strings) else without_objects(column) for column in columns]
        strings = [part for part in parts if isinstance(part, Strings)]
        if len(strings) == len(columns) and len({part.is_text for part in strings}) == 1:
            return Strings.concatenate(strings)
    if not first.dtype.isnative or any(type(c) is not np.ndarray or c.dtype != first.dtype for c in columns):
        return np.concatenate(columns)
    return np.concatenate(columns, out=empty_pooled(first.dtype, (sum(map(len, columns)), *first.shape[1:])))


def _join_ragged(columns: Sequence[Ragged]) -> Any:
    values = join([column.values for column in columns])
    if isinstance(values, list) and not isinstance(columns[0].values, list):
        return [row for column in columns for row in column]
    starts = np.cumsum([0, *(len(column.values) for column in columns)])
    offsets = [columns[0].offsets, *(c.offsets[1:] + s for c, s in zip(columns[1:], starts[1:], strict=False))]
    return Ragged(values, np.concatenate(offsets))


def columns_of(examples: Sequence[Example], names: tuple[str, ...]) -> dict[str, list[Any]] | None:
    """The values of each feature, example by example; ``None`` if an example has others than these."""
    columns = _native.split_examples(examples, names)
    if columns is None:  # or some are no dicts
        wanted = set(names)
        if any(example.keys() != wanted and set(example.keys()) != wanted for example in examples):
            return None
        columns = [[example[name] for example in examples] for name in names]
    return dict(zip(names, columns, strict=True))


def stack_plain(values: list[Any]) -> npt.NDArray[Any] | Strings | Ragged | None:
    """Numbers or text of one type, or arrays of one dtype that differ at most in their length, in a fraction of the time that others take; else ``None``."""
    first = values[0]
    if len(set(map(type, values))) > 1:
        return None
    if type(first) in (str, bytes):
        with suppress(ValueError):  # a lone surrogate
            return Strings.from_values(values)
        return None
    if (dtype := NUMBERS.get(type(first))) is not None:
        try:
            return np.fromiter(values, dtype, len(values))
        except OverflowError:
            return None
    if type(first) is not np.ndarray or first.dtype.kind not in "biufc" or not first.dtype.isnative:
        return None
    if not first.ndim or not first.flags.c_contiguous:  # Transposed images stay as they are in memory.
        return None
    shapes = set(map(SHAPE, values))
    if len({shape[1:] for shape in shapes}) > 1:  # Memory for such rows as the first has may be far too much.
        return None
    try:
        if len(shapes) == 1:
            stacked = empty_pooled(first.dtype, (len(values) * len(first), *first.shape[1:]))
            return np.concatenate(values, out=stacked, casting="no").reshape(len(values), *first.shape)
        offsets = np.zeros(len(values) + 1, np.int64)
        np.cumsum(list(map(len, values)), out=offsets[1:])
        joined = empty_pooled(first.dtype, (int(offsets[-1]), *first.shape[1:]))
        return Ragged(np.concatenate(values, out=joined, casting="no"), offsets)
    except (TypeError, ValueError):  # other dtypes, or numbers of axes
        return None


def cut_batch(batch: Batch, size: int, count: int) -> list[Batch]:
    """Cut a batch into ``count`` parts of ``size`` examples: views of the columns (sparse columns are copied).

    >>> [part["x"].tolist() for part in cut_batch({"x": np.arange(6)}, 3, 2)]
    [[0, 1, 2], [3, 4, 5]]
    """
    return [batch] if count == 1 else _native.cut_batch(batch, Strings, Ragged, size, count)


def bytes_of(batch: Mapping[str, Any]) -> int:
    """The bytes of a batch's arrays; objects count as references."""
    return sum(map(bytes_of_column, batch.values()))


def bytes_of_column(column: Any) -> int:
    """The bytes of a column's arrays; objects count as references."""
    if isinstance(column, (np.ndarray, Strings)):
        return column.nbytes
    if isinstance(column, Ragged):
        return bytes_of_column(column.values) + column.offsets.nbytes
    if isinstance(column, list):
        return sum(bytes_of_column(value) for value in column)
    held = column if hasattr(column, "nbytes") else getattr(column, "data", None)  # the stored values of scipy's arrays
    return int(getattr(held, "nbytes", 0))


def size_of(column: Any) -> int:
    """About how many bytes a column takes in memory, with those of objects; of a sparse one, its stored values."""
    if isinstance(column, Ragged):
        return size_of(column.values) + column.offsets.nbytes
    if isinstance(column, list):  # arrays of several shapes
        return sum(map(size_of, column))
    if isinstance(column, np.ndarray) and column.dtype == object:
        return sum(OBJECT_BYTES + (len(value) if isinstance(value, (str, bytes)) else 0) for value in column.flat)
    return bytes_of_column(column)


def copy_pooled(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A copy, see :data:`POOLED_BYTES`."""
    if array.nbytes < POOLED_BYTES:
        return array.copy()
    found = empty_pooled(array.dtype, array.shape)
    found[...] = array
    return found


def empty_pooled(dtype: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """An array to be filled, see :data:`POOLED_BYTES`."""
    if dtype.hasobject or math.prod(shape) * dtype.itemsize < POOLED_BYTES:
        return np.empty(shape, dtype)
    return _native.pooled(math.prod(shape) * dtype.itemsize).view(dtype).reshape(shape)


def take_rows(column: Any, order: Indices) -> Any:
    """The rows of a column at these positions, copied."""
    if isinstance(column, list):  # arrays of several shapes
        return [column[i].copy() if isinstance(column[i], np.ndarray) else column[i] for i in order]
    return column.take(order) if isinstance(column, Ragged) else column[order]


def without_objects(values: npt.NDArray[Any]) -> npt.NDArray[Any] | Strings:
    """An array of objects as strings if all are text or all are bytes; any other array as it is."""
    if values.dtype != object or values.size == 0:
        return values
    try:
        return Strings.from_values(values)
    except (TypeError, ValueError):  # other objects, or a lone surrogate
        return values


def _as_ragged(column: Any) -> Ragged:
    """A column of equal rows as a ragged one."""
    length = column.shape[1] if column.ndim > 1 else 1
    return Ragged(column.reshape(len(column) * length, *column.shape[2:]), np.arange(len(column) + 1) * length)


def _vstack(columns: Sequence[Any]) -> tuple[Any, Any, Any]:
    indptr = [np.asarray(columns[0].indptr)]
    for column in columns[1:]:
        indptr.append(column.indptr[1:] + indptr[-1][-1])
    data, indices = ([getattr(column, name) for column in columns] for name in ("data", "indices"))
    return np.concatenate(data), np.concatenate(indices), np.concatenate(indptr)
