"""Typed columns as examples: those of tables in files (npy, Parquet and others), and those in memory."""

from __future__ import annotations

import datetime as dt
import enum
import io
import numbers
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace import _hooks
from headrace._numbers import to_array
from headrace._optional import require
from headrace.contracts.protocols import CutsCleanly, defines
from headrace.contracts.records import GivesReader, IsUnnamed, ReadsBlocks, Table, TakesSchema, check_given
from headrace.contracts.schema import Schema
from headrace.contracts.strings import Strings
from headrace.contracts.values import Batch, Example, Indices, Ragged, bytes_of, take_rows, without_objects
from headrace.errors import MissingExtra, SchemaMismatch, UnsupportedData, Where
from headrace.sources.node import Node, list_rows, read_blocks, stored_bytes
from headrace.sources.stacking import check_kinds, schema_of, stack_values
from headrace.sources.views import Selected

__all__ = ["ColumnNode", "TableNode", "as_columns", "find_object", "object_error", "ragged_rows", "table_node"]

BLOCK = 256
"""Rows that iteration reads at a time."""
ADVICE: tuple[tuple[type, str], ...] = (
    (dt.datetime, "numpy.datetime64(value) is a time without a zone"),
    (dt.date, "numpy.datetime64(value) is a day"),
    (dt.timedelta, "numpy.timedelta64(value) is a duration"),
    (numbers.Number, "float(value) is a number, str(value) its exact text"),
    (AbstractSet, "sorted(value) is a list"),
    (enum.Enum, "value.value is what it stands for"),
    (io.BytesIO, "value.getvalue() are its bytes"),
    (Iterator, "list(value) is a list"),
    (list, "numpy.nan can stand for None"),
)
"""What to make of an object, by its type."""
VALUES = (str, bytes, bytearray, int, float, complex, list, tuple)
"""What columns hold, or what is refused elsewhere with a reason of its own."""


class TableNode:
    """Row ``i`` of some files of a table as example ``i``.

    Args:
        records: The table.
        columns: Only these; by default all.
    """

    def __init__(self, records: Table, columns: tuple[str, ...] | None = None) -> None:
        self.records = records
        self.columns = columns
        self.schema: Schema = records.schema if columns is None else records.schema.select(columns)
        self._names = tuple(self.schema)

    def __len__(self) -> int:
        return len(self.records)

    def batch(self, indices: Indices, /) -> Batch:
        return self.records.batch(indices, self._names)

    def checked_reader(self) -> Callable[[Indices], Batch]:
        """:meth:`batch` for indices that were checked."""
        return self.records.reader(self._names) if defines(self.records, GivesReader) else self.batch

    def where(self, index: int, /) -> Where:
        return self.records.where(index)

    def examples(self, at_once: int = BLOCK) -> Iterator[Example]:
        """All examples in order, ``at_once`` read together, without an index where the format needs none for that."""
        given = 0
        try:
            for batch, rows in self._blocks(at_once):
                yield from list_rows(batch, rows)
                given += rows
        except SchemaMismatch:  # A value of one row. Those before it are not at fault.
            rest = range(given, len(self))
        else:
            return
        for row in rest:
            yield from list_rows(self.batch(np.array([row], np.int64)), 1)

    def _blocks(self, at_once: int) -> Iterator[tuple[Batch, int]]:
        if not isinstance(self.records, ReadsBlocks):
            for start, stop, batch in read_blocks(self, BLOCK):
                yield batch, stop - start
            return
        for block in self.records.blocks(self._names, at_once):
            batch = {name: _copy_shared(column) for name, column in block.items()}
            yield batch, _length(next(iter(batch.values()), ()))

    def narrow(self, names: tuple[str, ...], /) -> Node:
        return TableNode(self.records, names)

    def cuts_cleanly(self) -> bool:
        return not defines(self.records, CutsCleanly) or self.records.cuts_cleanly

    def stored_bytes(self, first: int, stop: int, /) -> int:
        return stored_bytes(self.records, first, stop)


def table_node(records: Table, schema: Schema | None = None) -> Node:
    """A table as a node. Rows are read with a given schema, or checked against it if the types of the format are fixed.

    Raises:
        SchemaMismatch: A feature of the table is not what the schema says.
    """
    if schema is None:
        return TableNode(records)
    if isinstance(records, TakesSchema):
        return TableNode(records.with_schema(schema), tuple(schema))
    where = Where(path=records.paths[0])
    if len(schema) == 1 and isinstance(records, IsUnnamed) and records.is_unnamed:
        own = next(iter(records.schema))
        check_given(records.schema, Schema({own: next(iter(schema.values()))}), where)
        return Selected(TableNode(records), {next(iter(schema)): own})
    check_given(records.schema, schema, where)
    return TableNode(records, tuple(schema))


class ColumnNode:
    """Examples that are in memory as columns.

    Args:
        columns: As :func:`as_columns` takes them.
        count: The number of examples, if there are no columns to show it.
    """

    def __init__(self, columns: Mapping[str, Any], *, count: int = 0) -> None:
        self.columns: dict[str, Any] = as_columns(columns)
        lengths = {name: _length(column) for name, column in self.columns.items()}
        if len(set(lengths.values())) > 1:
            raise SchemaMismatch(Where(), expected="columns of equal length", found=str(lengths))
        self.schema: Schema = schema_of(self.columns)
        self._length = next(iter(lengths.values()), count)

    def __len__(self) -> int:
        return self._length

    def batch(self, indices: Indices, /) -> Batch:
        return {name: _take(column, indices) for name, column in self.columns.items()}

    def where(self, index: int, /) -> Where:
        return Where(record=index)

    def cuts_cleanly(self) -> bool:
        return True

    def stored_bytes(self, first: int, stop: int, /) -> int:
        return bytes_of(
            {name: column[first:stop] for name, column in self.columns.items() if not hasattr(column, "tocsr")}
        )


def _length(column: Any) -> int:
    return int(column.shape[0]) if hasattr(column, "tocsr") else len(column)


def _copy_shared(column: Any, axes: int = 1) -> Any:
    """A column whose rows may be changed: a copy of one that shares the memory of its table. A row of one axis is a number, which is a copy anyway."""
    if isinstance(column, Ragged) and isinstance(column.values, (Ragged, np.ndarray)):
        first, last = int(column.offsets[0]), int(column.offsets[-1])
        used = column.values[first:last]
        values = _copy_shared(used, 0)
        return column if values is used else Ragged(values, column.offsets - first)
    is_shared = isinstance(column, np.ndarray) and column.ndim > axes and not column.flags.writeable
    return column.copy() if is_shared else column


def _take(column: Any, indices: Indices) -> Any:
    if isinstance(column, (list, Ragged, Strings)):
        return take_rows(column, indices)
    return column.tocsr()[indices] if hasattr(column, "tocsr") else np.asarray(column)[indices]


def as_columns(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Columns as batches hold them: arrays, :class:`Strings`, :class:`Ragged`, sparse rows, and lists where shapes differ.

    Args:
        columns: Names to arrays ``(n, ...)`` of NumPy or of a library whose arrays convert to them; lists of values; SciPy
            matrices of any format; :class:`Ragged`; :class:`Strings`. Masked floats become NaN. Series and Arrow arrays are read as
            frames and tables of them are; one of structs gives a column for each field.

    Raises:
        TypeError: A value is not a column, or has no NumPy dtype; the message names it.
        SchemaMismatch: A column mixes text, bytes and numbers, no dtype holds its numbers, or a value is missing; the message names
            the row.
        UnsupportedData: A series or an Arrow array has no array type, or two columns get one name.
    """
    given: Any = columns
    if not isinstance(given, Mapping):
        hint = "headrace.open takes files, frames, tables and lists of examples"
        raise TypeError(f"columns must be a dict, as {{'name': array}}, got {type(given).__name__}: {hint}")
    found: dict[str, Any] = {}
    for name, column in columns.items():
        if not isinstance(name, str):
            raise TypeError(f"names of columns are str, got {name!r}")
        table = _table_of(column, name)
        made = {name: _as_column(column, name)} if table is None else _read_table(table, column, name)
        if twice := found.keys() & made.keys():
            where = Where(feature=min(twice))
            raise UnsupportedData(
                where, expected="every column name once", found="two of it", hint="Rename one of them."
            )
        found.update(made)
    return found


def _table_of(column: Any, name: str) -> Callable[[], Any] | None:
    """Converts a series or an Arrow array to a table or frame, because NumPy may change its values; ``None`` for anything else."""
    library = type(column).__module__.partition(".")[0]
    if library == "pyarrow" and hasattr(column, "null_count"):
        return lambda: require("pyarrow", extra="arrow").table({name: column})
    if library == "polars" and hasattr(column, "to_frame"):
        return lambda: column.alias(name).to_frame()
    dtype = getattr(column, "dtype", None) if library == "pandas" else None
    if dtype is None or type(dtype).__name__ == "SparseDtype":
        return None
    if isinstance(dtype, np.dtype) and (dtype.kind != "O" or not len(column)):
        return None
    return lambda: require("pandas", extra="sklearn").DataFrame({name: column})


def _read_table(table: Callable[[], Any], column: Any, name: str) -> Batch:
    try:
        source = _hooks.as_source(table())
    except MissingExtra:  # pandas can do without pyarrow
        return {name: _as_column(list(column), name)}
    return source.batch(np.arange(len(source)))  # type: ignore[no-any-return]


def _as_column(column: Any, name: str) -> Any:
    if isinstance(column, (Ragged, Strings)):
        return column
    if type(column) is np.ndarray and column.ndim and column.dtype.names is None:
        return column if column.dtype != object or not column.size else _object_column(column, name)
    if hasattr(column, "tocsr"):
        return _sparse_column(column, name)
    if isinstance(column, (list, tuple)):
        missing = next((at for at, value in enumerate(column) if value is None), None)
        if missing is not None:
            raise SchemaMismatch(Where(record=missing, feature=name), expected="a value", found="None")
        found = stack_values(list(column), name) if column else np.zeros(0)
        # Rows that were arrays of objects are taken for what they hold.
        if isinstance(found, np.ndarray) and found.dtype == object and found.ndim > 1:
            found = stack_values(found.tolist(), name)
        return _refuse_objects(found, name)
    _check_is_column(column, name)
    array = _as_array(column, name)
    if array.ndim == 0:
        raise _column_error(name, f"the single value {array!r:.80}")
    if array.dtype.names is not None:
        raise TypeError(
            f"column {name!r} is a structured array: give each of its fields {array.dtype.names} as a column"
        )
    return _refuse_objects(array, name)


def _check_is_column(column: Any, name: str) -> None:
    if isinstance(column, Mapping):
        raise TypeError(f"column {name!r} is a dict: give the columns in it separate names, as {name}/...")
    if callable(getattr(column, "batch", None)) and not hasattr(column, "__array__"):
        raise TypeError(f"column {name!r} is a source: pass that source by itself, or one.zip(other) for several")
    if isinstance(column, (str, bytes)) or not (hasattr(column, "__array__") or hasattr(column, "__len__")):
        raise _column_error(name, f"{type(column).__name__} {column!r:.80}")


def _object_column(column: npt.NDArray[Any], name: str) -> Any:
    """An array of objects: text or bytes as strings, as every other source has them, anything else as a list of them."""
    if not isinstance(column.flat[0], (str, bytes, bytearray)):
        return _as_column(column.tolist(), name)
    kinds = set(map(type, column.reshape(-1).tolist()))
    if kinds in ({str}, {bytes}):
        try:
            return Strings.from_values(column, is_text=kinds == {str})
        except ValueError:  # a lone surrogate, which only an array of objects holds
            return column
    if column.ndim == 1:
        check_kinds(column, name)
    return without_objects(_refuse_objects(column, name))


def _refuse_objects(column: Any, name: str) -> Any:
    """The column, if it holds numbers, text or bytes, and no other objects."""
    if not isinstance(column, np.ndarray) or column.dtype != object:
        return column
    others = [value for value in column.flat if not isinstance(value, (str, bytes, bytearray))]
    if others:
        value = next((value for value in others if not np.isscalar(value)), others[0])
        found = f"{type(value).__name__} {value!r:.60}"
        raise TypeError(f"column {name!r} must hold numbers, text or bytes, got {found}: convert its values first")
    return column


def _sparse_column(column: Any, name: str) -> Any:
    if len(column.shape) != 2:
        raise _column_error(name, f"a sparse array of shape {column.shape}")
    return column if column.format == "csr" else column.tocsr()


def _as_array(column: Any, name: str) -> Any:
    if hasattr(column, "detach"):  # a tensor with gradients does not convert
        column = column.detach()
    if isinstance(column, np.ma.MaskedArray) and np.ma.is_masked(column):
        if column.dtype.kind != "f":
            raise TypeError(
                f"column {name!r} has masked values of {column.dtype}: fill them first, with array.filled(...)"
            )
        return column.filled(np.nan)
    try:
        return to_array(column)
    except SchemaMismatch as error:
        raise error.relocated(Where(feature=name)) from error
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"column {name!r} does not become a NumPy array: {error}") from error


def _column_error(name: str, found: str) -> TypeError:
    expected = "an array or a list with one value for each example"
    return TypeError(
        f"column {name!r} must be {expected}, got {found}. A single example is written as [{{...}}], a list of one."
    )


def ragged_rows(column: Any, name: str) -> Ragged:
    """A column as rows of possibly different lengths; the rows of a stacked column are equally long.

    Args:
        column: The column.
        name: Its feature, for messages.

    Raises:
        SchemaMismatch: It has no axis that varies, or several.
    """
    if isinstance(column, Ragged) and not isinstance(column.values, Ragged):
        return column
    if isinstance(column, (np.ndarray, Strings)) and column.ndim >= 2:
        values = column.reshape(column.shape[0] * column.shape[1], *column.shape[2:])
        return Ragged(values, np.arange(len(column) + 1, dtype=np.int64) * column.shape[1])
    found = "rows of rows" if isinstance(column, Ragged) else type(column).__name__
    raise SchemaMismatch(Where(feature=name), expected="a feature with one axis that varies", found=found)


def find_object(value: Any) -> Any:
    """An object that is no value of a feature, of what an array of objects has; ``None`` if there is none."""
    if not isinstance(value, np.ndarray):
        return None if isinstance(value, VALUES) or hasattr(value, "__array__") or hasattr(value, "dtype") else value
    items = value.flat if value.dtype == object else ()
    return next((other for other in map(find_object, items) if other is not None), None)


def object_error(value: object, where: Where, origin: str = "") -> SchemaMismatch:
    """The error for an object that :func:`find_object` found. ``origin`` says after it where it comes from."""
    if isinstance(value, Mapping):
        hint = f"Give each value in it a separate name: '{where.feature}/...'."
        return SchemaMismatch(where, expected="a value", found=f"a dict, {value!r:.80}{origin}", hint=hint)
    advice = next((text for kind, text in ADVICE if isinstance(value, kind)), "str(value) is its text")
    found = f"{type(value).__name__} {value!r:.60}{origin}"
    return SchemaMismatch(
        where, expected="numbers, text, bytes or times of NumPy", found=found, hint=f"Convert it: {advice}."
    )
