"""Sources to Arrow tables and back, without files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from headrace.codecs.fit import fit_column
from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema, any_width
from headrace.contracts.strings import Strings
from headrace.contracts.values import Batch, Indices, Ragged, size_of
from headrace.errors import SchemaMismatch, UnsupportedData, Where
from headrace.formats.table.arrow import from_arrow as column_from_arrow
from headrace.formats.table.arrow import held_from_arrow, leaf_array, take_from, without_views
from headrace.formats.table.arrow_types import (
    KEY,
    Leaf,
    arrow,
    arrow_type,
    embedded_schema,
    leaves_of,
    misfits,
    schema_of_leaves,
)
from headrace.formats.table.blocks import RowBlocks
from headrace.formats.table.to_arrow import MOST_OFFSET
from headrace.formats.table.to_arrow import to_arrow as column_to_arrow
from headrace.formats.table.values import MISSING_HINT, BadValue
from headrace.io.paths import reading_hint
from headrace.io.system import cached_property
from headrace.sources.node import Node
from headrace.sources.operations.joining import widen
from headrace.sources.source import Source

__all__ = ["ArrowNode", "check_source", "find_schema", "from_arrow", "read_columns", "to_arrow", "to_reader"]

FILL_HINT = "Fill it before, as with frame.fillna(...) or pyarrow.compute.fill_null(...), or leave such rows out."
"""What to do about a null in memory, where no schema can be given."""
BLOCK = 8192
BLOCK_ROWS = 1 << 16
STATE = ("table", "schema", "_leaves", "_names", "_has_misfits")
"""What of a node is pickled."""
GIVE_TABLES = ("__arrow_c_stream__", "__arrow_c_array__", "__dataframe__", "columns")


def to_arrow(source: Source, *, block: int = BLOCK) -> Any:
    """All examples as one Arrow table, one column per feature.

    Args:
        source: Any source.
        block: Rows of one chunk, at least 1.

    Returns:
        A ``pyarrow.Table``. A varying axis becomes a list, a fixed one a fixed-size list, ``bytes`` and ``str`` binary and string. Its
        metadata hold the schema, so that :func:`from_arrow` gives the same features again.

    Raises:
        UnsupportedData: a feature has no Arrow type: sparse rows, complex numbers.
        SchemaMismatch: a value does not fit its feature, such as 0.5 from a function whose first example has an integer.
        MissingExtra: pyarrow is not installed.

    >>> import numpy as np
    >>> from headrace.sources.source import ColumnSource
    >>> to_arrow(ColumnSource({"x": np.zeros((2, 3), np.float32)})).schema.field("x").type
    FixedSizeListType(fixed_size_list<item: float>[3])
    """
    return to_reader(source, block=block).read_all()


def to_reader(source: Source, *, block: int = BLOCK) -> Any:
    """All examples as a ``pyarrow.RecordBatchReader``, which holds one block at a time: for data larger than memory."""
    pa, schema = arrow(), check_source(source).schema
    if type(block) is not int or block < 1:
        raise ValueError(f"block must be an integer of at least 1, got {block!r}")
    n = len(source)

    def read(start: int) -> Batch:
        return source.batch(np.arange(start, min(start + block, n)))

    waiting: list[Batch] = []
    if n and not getattr(source, "cuts_cleanly", True):  # a function's first example does not show which axes vary
        waiting.append(read(0))
        schema = widen(schema, waiting[0])
    schema = any_width(schema)
    for misfit in misfits(schema):
        raise UnsupportedData(
            Where(feature=misfit.feature), expected=misfit.expected, found=misfit.found, hint=misfit.hint
        )
    fields = [pa.field(name, arrow_type(feature)) for name, feature in schema.items()]
    target = pa.schema(fields, metadata={KEY: schema.to_json()})

    def blocks() -> Iterator[Any]:
        for start in range(0, n, block):
            batch = waiting.pop() if waiting else read(start)
            for first, part in _fitting(batch, start, min(start + block, n)):
                arrays = [_array_of(part[name], feature, name, first) for name, feature in schema.items()]
                yield pa.RecordBatch.from_arrays(arrays, schema=target)

    return pa.RecordBatchReader.from_batches(target, blocks())


def _fitting(batch: Batch, start: int, stop: int) -> Iterator[tuple[int, Batch]]:
    """The rows from ``start`` up to ``stop``, in as many parts as text with offsets of 32 bits needs. Each with its first row."""
    if stop - start < 2 or max(map(size_of, batch.values()), default=0) <= MOST_OFFSET:
        yield start, batch
        return
    middle = (start + stop) // 2
    yield from _fitting({name: column[: middle - start] for name, column in batch.items()}, start, middle)
    yield from _fitting({name: column[middle - start :] for name, column in batch.items()}, middle, stop)


def _array_of(column: Any, feature: Feature, name: str, start: int) -> Any:
    try:
        return column_to_arrow(fit_column(column, feature, name), feature)
    except BadValue as bad:
        raise bad.at(Where(record=start + bad.row, feature=name)) from bad
    except SchemaMismatch as error:
        row = error.where.record
        raise error.relocated(Where(record=None if row is None else start + row, feature=name)) from error


def from_arrow(table: Any) -> Source:
    """The rows of an Arrow table as a source. Nothing is copied before it is read.

    Args:
        table: A ``pyarrow.Table``, or anything that converts to one: a record batch, a Polars or pandas frame.

    Returns:
        A source with one feature per column; of a struct, one per field, named ``struct/field``.

    Raises:
        TypeError: it is not a table.
        UnsupportedData: a column has no array type, two columns have one name, or columns differ in length.
        SchemaMismatch: on reading, with row and feature: a null. Only floating-point columns have a value for it (NaN).
        MissingExtra: pyarrow is not installed.
    """
    pa = arrow()
    if isinstance(table, pa.Table):
        return Source(ArrowNode(table))
    hint = reading_hint(table)
    if hint or not (isinstance(table, Mapping) or any(hasattr(table, name) for name in GIVE_TABLES)):
        expected = "from_arrow takes a pyarrow.Table, a record batch, a frame or a dict of columns"
        raise TypeError(f"{expected}, got {_kind(table)}. {hint}".removesuffix(". "))
    _refuse_objects(table)
    try:
        made = pa.table(table)
    except (TypeError, ValueError, ArithmeticError, NotImplementedError) as error:
        raise UnsupportedData(
            Where(), expected="columns of equal length and of types that Arrow supports", found=str(error)
        ) from error
    return Source(ArrowNode(made))


def _refuse_objects(frame: Any) -> None:
    """Refuse Python objects in a frame of Polars, which gives their addresses as bytes, and names with NUL, at which it ends the process.

    Raises:
        UnsupportedData: A column holds some, or has such a name.
    """
    if type(frame).__module__.partition(".")[0] != "polars":
        return
    for name, kind in getattr(frame, "schema", {}).items():
        if "\0" in name:
            expected, found = "names without NUL, which Polars cannot export", repr(name)
            raise UnsupportedData(Where(feature=name), expected=expected, found=found, hint="Rename that column first.")
        if _holds_objects(kind):
            hint = "Convert or drop that column first."
            raise UnsupportedData(
                Where(feature=name), expected="a column that has an array type", found="Python objects", hint=hint
            )


def _holds_objects(kind: Any) -> bool:
    """Whether a type of Polars is that of Python objects, or holds them."""
    inner = [getattr(kind, "inner", None), *(field.dtype for field in getattr(kind, "fields", ()))]
    return str(kind) == "Object" or any(_holds_objects(each) for each in inner if each is not None)


def check_source(source: Any) -> Any:
    """The argument, if it is a source.

    Raises:
        TypeError: It is not one.
    """
    if not (hasattr(source, "schema") and hasattr(source, "batch")):
        raise TypeError(f"a source is what headrace.open or headrace.ColumnSource gives, got {_kind(source)}")
    return source


def _kind(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")


class ArrowNode(RowBlocks):
    """Rows of an Arrow table, which share its memory until they are picked.

    A column that holds something that does not fit its feature, such as a null, is read row by row instead: it is an error only
    where it is asked for.

    Args:
        table: A ``pyarrow.Table``.
        schema: The features to read, structs opened. Default: all, as the types of the columns say.
    """

    def __init__(self, table: Any, schema: Schema | None = None) -> None:
        self.table = table
        self._leaves = [leaf for leaf in leaves_of(table.schema) if schema is None or leaf.name in schema]
        if schema is None:
            text = (table.schema.metadata or {}).get(KEY.encode())
            schema = find_schema(self._leaves, embedded_schema(text))
        self.schema = schema
        self._names = tuple(schema)
        self._has_misfits = False

    def batch(self, indices: Indices, /) -> Batch:
        if len(indices) and not self._has_misfits:
            try:
                return self._rows(indices, self._names)
            except BadValue:
                self._has_misfits = True
        return read_columns(self._take(indices), self._leaves, self.schema, indices)

    def where(self, index: int, /) -> Where:
        return Where(record=index)

    def narrow(self, names: tuple[str, ...], /) -> Node:
        """Without the columns that nothing reads. A struct of which one field is wanted stays in the table; its other fields are not read."""
        wanted = [leaf for leaf in self._leaves if leaf.name in names]
        if not wanted:
            return self
        roots, kept = sorted({leaf.path[0] for leaf in wanted}), tuple(leaf.name for leaf in wanted)
        return ArrowNode(self.table.select(roots), self.schema.select(kept))

    def cuts_cleanly(self) -> bool:
        return True

    @cached_property
    def _firsts(self) -> Indices:
        return np.array([*range(0, self.table.num_rows, BLOCK_ROWS), self.table.num_rows], np.int64)

    @cached_property
    def _leaf_of(self) -> dict[str, Leaf]:
        return {leaf.name: leaf for leaf in self._leaves}

    def stored_bytes(self, first: int, stop: int, /) -> int:
        return int(self.table.slice(first, stop - first).nbytes)

    def _read_block(self, block: int, names: Sequence[str]) -> Batch:
        first, stop = self._firsts[block : block + 2].tolist()
        return self._columns(self.table.slice(first, stop - first), names)

    def _whole_columns(self, names: tuple[str, ...]) -> Batch:
        single = [name for name in names if self.table.column(self._leaf_of[name].path[0]).num_chunks == 1]
        return self._columns(self.table, single)

    def _columns(self, table: Any, names: Sequence[str]) -> Batch:
        leaves = [self._leaf_of[name] for name in names]
        return {
            leaf.name: held_from_arrow(leaf_array(table, leaf, leaf.path[0]), self.schema[leaf.name]) for leaf in leaves
        }

    @cached_property
    def _combined(self) -> Any:
        # Taking rows from many chunks searches the chunk of each; one chunk per column costs memory once.
        return self.table if self.table.num_rows == 0 else without_views(self.table).combine_chunks()

    def _take(self, indices: Indices) -> Any:
        if len(indices) and (np.diff(indices) == 1).all():
            return self.table.slice(int(indices[0]), len(indices))
        if not len(indices):
            return self.table.slice(0, 0)
        return take_from(self._combined, indices)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name in STATE}


def find_schema(leaves: list[Leaf], embedded: Schema | None = None) -> Schema:
    """The features of the columns of a table in memory.

    Raises:
        UnsupportedData: A type has no feature, or a name is there twice.
    """
    try:
        return schema_of_leaves(leaves, Where(), embedded=embedded)
    except UnsupportedData as error:
        hint = "Convert, rename or drop that column first."  # no schema can be given
        raise UnsupportedData(error.where, expected=error.expected, found=error.found, hint=hint) from error


def read_columns(table: Any, leaves: list[Leaf], schema: Schema, indices: Indices) -> Batch:
    """The columns of some rows; ``indices`` are their numbers, for messages."""
    columns = {}
    for leaf in leaves:
        try:
            columns[leaf.name] = _make_writable(
                column_from_arrow(leaf_array(table, leaf, leaf.path[0]), schema[leaf.name])
            )
        except BadValue as bad:
            where = Where(record=int(indices[bad.row]) if bad.row < len(indices) else None, feature=leaf.name)
            hint = FILL_HINT if bad.hint == MISSING_HINT else bad.hint
            raise SchemaMismatch(where, expected=bad.expected, found=bad.found, hint=hint) from bad
    return columns


def _make_writable(column: Any) -> Any:
    """A copy of the column: a batch may be written to, a table may not."""
    if isinstance(column, Ragged):
        return Ragged(_make_writable(column.values), column.offsets)
    if isinstance(column, Strings):  # never writable
        return column
    return column if column.flags.writeable else column.copy()
