"""From examples to a batch, and from a batch to its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain, repeat
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.exceptions import DTypePromotionError

from headrace._numbers import MASKED, align, fill_masked, is_safe, is_unchanged, refuse_dtypes, to_arrays
from headrace.contracts.feature import Feature
from headrace.contracts.protocols import InnerExamples
from headrace.contracts.schema import Schema, find_present
from headrace.contracts.strings import Strings
from headrace.contracts.values import Batch, Example, Ragged, columns_of, join, stack_plain, take_rows, without_objects
from headrace.errors import SchemaMismatch, Where

__all__ = ["BUFFERS", "check_kinds", "row", "schema_of", "stack", "stack_values", "to_bytes"]

BUFFERS = frozenset({bytearray, memoryview})
"""Bytes that NumPy would take for numbers."""
UINT8 = np.dtype(np.uint8)


def to_bytes(value: Any) -> Any:
    """The bytes of a buffer, also in lists; anything else as it is."""
    if isinstance(value, bytearray) or (isinstance(value, memoryview) and value.format == "B" and value.ndim == 1):
        return bytes(value)
    if not isinstance(value, (list, tuple)):
        return np.array(value) if isinstance(value, memoryview) else value
    made = list(map(to_bytes, value))
    return made if any(one is not other for one, other in zip(made, value, strict=True)) else value


def row(batch: Batch, index: int) -> dict[str, Any]:
    """Example ``index`` of a batch: views of its columns, no copies."""
    return {name: column[index] for name, column in batch.items()}


def stack(examples: Sequence[Example]) -> Batch:
    """Stack examples into one batch.

    Args:
        examples: ``n`` examples with equal feature names.

    Returns:
        ``ndarray (n, *shape)`` where shapes agree, a :class:`Ragged` where only the first axis differs, a list otherwise
        (images of different sizes); :class:`Strings` for ``bytes`` and ``str``. Objects where an example has None: the others' values.

    Raises:
        SchemaMismatch: Two examples have different features, a feature is text in one and something else in another, or no dtype
            holds its numbers.
    """
    if not examples:
        return {}
    names = tuple(examples[0])
    if (columns := columns_of(examples, names)) is None:
        position = next(at for at, example in enumerate(examples) if set(example.keys()) != set(names))
        raise SchemaMismatch(
            Where(record=position), expected=f"the features {list(names)}", found=str(list(examples[position]))
        )
    return {name: stack_values(values, name, may_lack=True) for name, values in columns.items()}


def stack_values(values: list[Any], name: str, *, may_lack: bool = False) -> Any:
    """The column of at least one value: see :func:`stack`.

    Args:
        values: Of the examples.
        name: Their feature, for messages.
        may_lack: Whether None stands for a missing value.

    Raises:
        SchemaMismatch: One is text and another one something else, or no dtype holds all numbers. ``where.record`` is its position.
    """
    column = stack_plain(values)
    return _stack_others(values, name, may_lack=may_lack) if column is None else column


def _stack_others(values: list[Any], name: str, *, may_lack: bool) -> Any:
    first, types = values[0], set(map(type, values))
    if not BUFFERS.isdisjoint(types):
        values = list(map(to_bytes, values))
        first, types = values[0], set(map(type, values))
    if may_lack and type(None) in types:
        return _stack_present(values, name)
    if any(issubclass(kind, InnerExamples) for kind in types):
        _check_all(values, lambda value: isinstance(value, InnerExamples), name)
        return np.fromiter(values, object, len(values))
    if isinstance(first, (bytes, str)):
        if types != {type(first)}:
            check_kinds(values, name)
        column = np.empty(len(values), object)
        column[:] = values
        return without_objects(column)
    if types & MASKED:
        return stack_values([_naming(fill_masked, value, name, at) for at, value in enumerate(values)], name)
    if types == {Strings}:
        return _stack_strings(values, name)
    if Ragged in types:
        return _nest(values, name)
    if hasattr(first, "tocsr"):
        _check_all(values, lambda value: hasattr(value, "tocsr"), name)
        return _join_copies([value.reshape((1, -1)).tocsr() for value in values])
    return _stack_arrays(values, types, name)


def _check_all(values: list[Any], is_kind: Callable[[Any], bool], name: str) -> None:
    """Refuse values of which only some are of a kind."""
    found = list(map(is_kind, values))
    if not all(found):
        at = found.index(not found[0])
        raise _kind_error(at, name, values[0], values[at])


def _stack_present(values: list[Any], name: str) -> npt.NDArray[Any]:
    """A column of optional values: objects, with None where one is missing."""
    rows = [row for row, value in enumerate(values) if value is not None]
    column = np.full(len(values), None, object)
    if rows:
        try:
            found = stack_values([values[row] for row in rows], name)
        except SchemaMismatch as error:
            raise error.relocated(Where(record=rows[error.where.record or 0])) from error
        for at, row in enumerate(rows):
            column[row] = found[at]
    return column


def _stack_arrays(values: list[Any], types: set[type], name: str) -> Any:
    """Numbers, and arrays or lists of anything."""
    if any(hasattr(kind, "detach") for kind in types):  # a tensor with gradients does not convert; files have it, too
        values = [
            value.detach() if hasattr(value, "detach") and hasattr(value, "__array__") else value for value in values
        ]
    try:
        arrays = list(map(np.asarray, values))
    except ValueError:  # lists of lists of different lengths
        return _nest_lists(values, name)
    except (TypeError, RuntimeError) as error:
        raise _array_error(values, name, error) from error
    dtypes = {array.dtype for array in arrays}
    if UINT8 in dtypes and not types.isdisjoint({list, tuple}):  # lists of buffers: those of integers are int64
        made = list(map(to_bytes, values))
        if any(one is not other for one, other in zip(made, values, strict=True)):
            return stack_values(made, name)
    kinds, has_safe = {dtype.kind for dtype in dtypes}, is_safe(types, dtypes)
    if not has_safe and kinds & {"m", "M", "O"}:
        arrays = _naming(partial(to_arrays, made=arrays), values, name)
    if len(dtypes) > 1 and kinds & {"m", "M"}:
        _check_times(arrays, values, name)
    column = _join(arrays, dtypes, values, name)
    flat = column.values if isinstance(column, Ragged) else column
    if has_safe or isinstance(flat, Strings):
        return column
    if isinstance(flat, np.ndarray) and is_unchanged(flat, arrays):
        return column
    arrays = _naming(lambda rows: align(to_arrays(rows)), values, name)
    return _join(arrays, {array.dtype for array in arrays}, values, name)


def _check_times(arrays: list[npt.NDArray[Any]], values: list[Any], name: str) -> None:
    """Refuse numbers beside times, durations beside points in time, and times that no unit holds."""
    filled = [at for at, array in enumerate(arrays) if array.size]
    for at in filled:
        one, other = arrays[filled[0]].dtype.kind, arrays[at].dtype.kind
        if one != other and not {one, other}.isdisjoint("mM"):
            raise _kind_error(at, name, values[filled[0]], values[at])
    _naming(align, arrays, name)


def _array_error(values: list[Any], name: str, error: Exception) -> SchemaMismatch:
    """The error for values of which one does not become an array, such as a tensor on a GPU."""
    at = 0
    for at, value in enumerate(values):  # noqa: B007 - the first that fails
        try:
            np.asarray(value)
        except (TypeError, RuntimeError):
            break
    found = f"{type(values[at]).__name__}: {error}"
    return SchemaMismatch(Where(record=at, feature=name), expected="a value that becomes a NumPy array", found=found)


def _naming(function: Callable[[Any], Any], given: Any, name: str, at: int | None = None) -> Any:
    """What a function makes of values. Its error names the feature, and the row if that is given."""
    try:
        return function(given)
    except SchemaMismatch as error:
        raise error.relocated(Where(record=at, feature=name)) from error


def _join(arrays: list[npt.NDArray[Any]], dtypes: set[np.dtype[Any]], values: list[Any], name: str) -> Any:
    if any(dtype.kind in "SU" for dtype in dtypes):
        kept = _keep_text(arrays, values, name)
        if kept is not arrays:
            column = _join(kept, {array.dtype for array in kept}, values, name)
            return column if column is not values else _nest_lists(values, name)
    if all(array.shape == arrays[0].shape for array in arrays):
        is_plain = (
            not arrays[0].ndim and len(dtypes) == 1 and arrays[0].dtype.isnative and not arrays[0].dtype.hasobject
        )
        try:
            return np.array(arrays, arrays[0].dtype) if is_plain else without_objects(np.stack(arrays))
        except DTypePromotionError:
            _naming(refuse_dtypes, arrays, name)
            raise
    if all(array.ndim for array in arrays) and len({array.shape[1:] for array in arrays if len(array)}) <= 1:
        return _naming(Ragged.from_list, arrays if len(dtypes) == 1 else list(_naming(align, arrays, name)), name)
    _check_axes(arrays, name)
    return values


def _check_axes(arrays: Sequence[npt.NDArray[Any] | Strings], name: str) -> None:
    """Refuse different numbers of axes, which no feature has. An empty list may have any number but none."""
    axes = next((array.ndim for array in arrays if array.size), 1)
    for at, array in enumerate(arrays):
        if array.ndim != axes and (array.size or not axes):
            raise SchemaMismatch(
                Where(record=at, feature=name),
                expected=f"a value of {axes} {'axis' if axes == 1 else 'axes'}, as the others",
                found=f"one of the shape {array.shape}",
                hint="Give all values of a feature the same number of axes, as in [3] beside [1, 2].",
            )


def _keep_text(arrays: list[npt.NDArray[Any]], values: list[Any], name: str) -> list[npt.NDArray[Any]]:
    """Arrays of text or bytes: of objects where lists hold values that end in NULs, which NumPy drops.

    Rows of different kinds are refused, and so are lists that mix them: NumPy would turn numbers among text into text.
    """
    filled = [at for at, array in enumerate(arrays) if array.size]
    kinds = ["SUO".find(arrays[at].dtype.kind) for at in filled]
    ends_in_nul = False
    for at, kind in zip(filled, kinds, strict=True):
        if kind != kinds[0]:
            raise _kind_error(at, name, values[filled[0]], values[at])
        if isinstance(values[at], (list, tuple)) and kind in (0, 1):
            text: Any = str if kind else bytes
            items = values[at]
            if set(map(type, items)) != {text}:  # lists of lists, or other values
                items = np.asarray(items, object).reshape(-1).tolist()
                other = next((item for item in items if not isinstance(item, text)), None)
                if other is not None:
                    raise _kind_error(at, name, text(), other)
            ends_in_nul = ends_in_nul or any(map(text.endswith, items, repeat("\0" if kind else b"\0")))
    if not ends_in_nul:
        return arrays
    return [np.asarray(value, object) if array.size else array for value, array in zip(values, arrays, strict=True)]


def check_kinds(values: Sequence[Any] | npt.NDArray[Any], name: str) -> None:
    """If the first value is text, refuse all that is not text; if it is bytes, all that is not bytes."""
    first = values[0] if len(values) else None
    kind = str if isinstance(first, str) else bytes if isinstance(first, (bytes, bytearray)) else None
    if kind is not None and set(map(type, values)) != {kind}:
        known = (bytes, bytearray) if kind is bytes else str
        at = next((at for at, value in enumerate(values) if not isinstance(value, known)), None)
        if at is not None:
            raise _kind_error(at, name, first, values[at])


def _kind_error(at: int, name: str, first: Any, found: Any) -> SchemaMismatch:
    return SchemaMismatch(
        Where(record=at, feature=name),
        expected=f"{_kind_of(first)}, as before",
        found=f"{type(found).__name__} {found!r:.60}",
        hint="All values of a feature are of one kind: convert them first.",
    )


def _kind_of(value: Any) -> str:
    if isinstance(value, Strings):
        return "text" if value.is_text else "bytes"
    if isinstance(value, InnerExamples) or hasattr(value, "tocsr"):
        return "steps of an episode" if isinstance(value, InnerExamples) else "sparse rows"
    kind = np.asarray(value).dtype.kind
    return {"U": "text", "S": "bytes", "O": "objects", "M": "times", "m": "durations"}.get(kind, "numbers")


def _stack_strings(rows: list[Strings], name: str) -> Any:
    other = next((at for at, row in enumerate(rows) if row.is_text != rows[0].is_text), None)
    if other is not None:
        raise _kind_error(other, name, rows[0], rows[other])
    if len({row.shape for row in rows}) == 1:
        return Strings.concatenate([row.reshape(1, *row.shape) for row in rows])
    if len({row.shape[1:] for row in rows}) > 1:
        _check_axes(rows, name)
        return rows
    return Ragged(Strings.concatenate(rows), np.cumsum([0, *map(len, rows)], dtype=np.int64))


def _nest(rows: list[Any], name: str) -> Ragged:
    """Rows of rows."""
    if not all(isinstance(row, Ragged) for row in rows) or len({row.dtype for row in rows}) > 1:
        return _nest_lists(rows, name)
    return Ragged(_join_copies(rows), np.cumsum([0, *map(len, rows)], dtype=np.int64))


def _join_copies(columns: Sequence[Any]) -> Any:
    """Columns end to end, in memory of their own: a single one would not be copied, nor would arrays in lists."""
    joined = inner = join(columns)
    while isinstance(inner, Ragged):
        inner = inner.values
    if len(columns) > 1 and not isinstance(inner, list):
        return joined
    return joined.copy() if hasattr(joined, "tocsr") else take_rows(joined, np.arange(len(joined)))


def _nest_lists(rows: list[Any], name: str) -> Ragged:
    """Lists of lists of different lengths as rows of rows. Lists of one length in all rows become an axis that does not vary."""
    records, levels = np.arange(len(rows)), []
    while any(isinstance(row, (list, tuple, Ragged)) for row in rows):
        rows = [row.to_list() if isinstance(row, Ragged) else row.tolist() if _has_axes(row) else row for row in rows]
        other = next((at for at, row in enumerate(rows) if not isinstance(row, (list, tuple))), None)
        if other is not None:
            where = Where(record=int(records[other]), feature=name)
            raise SchemaMismatch(where, expected="lists, all as deep as the others", found=f"{rows[other]!r:.60}")
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        levels.append(lengths)
        records, rows = np.repeat(records, lengths), list(chain.from_iterable(rows))
    try:
        column = stack_values(rows, name) if rows else np.zeros(0)
    except SchemaMismatch as error:
        raise error.relocated(Where(record=int(records[error.where.record or 0]))) from error
    for depth, lengths in reversed(list(enumerate(levels))):
        is_even = depth > 0 and len(lengths) and lengths[0] and (lengths == lengths[0]).all()
        if is_even and isinstance(column, (np.ndarray, Strings)):
            column = column.reshape(len(lengths), int(lengths[0]), *column.shape[1:])
        else:
            column = Ragged(column, np.concatenate(([0], np.cumsum(lengths))))
    assert isinstance(column, Ragged)
    return column


def _has_axes(row: Any) -> bool:
    return isinstance(row, (np.ndarray, Strings)) and row.ndim > 0


def schema_of(batch: Mapping[str, Any]) -> Schema:
    """The schema of a batch: stacked columns have a fixed shape, the first axis of ragged ones varies."""
    return Schema({name: _feature_of(column) for name, column in batch.items()})


def _feature_of(column: Any) -> Feature:
    if isinstance(column, Ragged):
        inner = _feature_of(column.values)
        return Feature(inner.dtype, (None, *inner.shape))
    if isinstance(column, list):
        first = np.asarray(next((value for value in column if np.size(value)), column[0]))
        return Feature(first.dtype, (None,) * first.ndim)
    if hasattr(column, "tocsr"):
        return Feature(column.dtype, (column.shape[1],), sparse=True)
    if isinstance(column, Strings):
        return Feature("str" if column.is_text else "bytes", column.shape[1:])
    if column.dtype == object:
        present = find_present(column)
        if present is not None and len(present):
            return _feature_of(stack_values(column[present].tolist(), ""))
        flat = column.reshape(-1)
        if len(flat) and isinstance(flat[0], InnerExamples):
            return Feature("examples")
        return Feature("str" if len(flat) and all(isinstance(v, str) for v in flat) else "bytes", column.shape[1:])
    return Feature(column.dtype, column.shape[1:])
