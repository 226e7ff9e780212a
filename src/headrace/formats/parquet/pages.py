"""Pages that native code decodes: numbers, truth values, dates, points in time, text, bytes and lists of those, also in (lists of) structs.

Nulls become what pyarrow's way makes of them: in place of a list an empty one, else the default, NaN or NaT.
Everything else is left to pyarrow, damage included, so the verdict about a file is always its own.

Source of the layout: Parquet's ``parquet.thrift`` and ``Encodings.md``; see ``native/core/parquet``.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.contracts.feature import Feature
from headrace.contracts.strings import Strings
from headrace.contracts.values import Batch, Ragged
from headrace.errors import DataError
from headrace.formats.parquet.groups import MAGIC, Part, RowBlock, count_number_bytes, drop_oldest, first_columns
from headrace.formats.table.arrow_types import Leaf, arrow, is_list
from headrace.formats.table.column_cache import RecurringTexts
from headrace.io.engines import engines
from headrace.io.local.mapped import MappedFile, guard_reads
from headrace.io.system import cached_property
from headrace.io.threads import FORKS

__all__ = ["NativeColumns", "codecs_of", "read_codecs"]

CODECS = ("none", "snappy", "gzip", "lzo", "brotli", "lz4", "zstd", "lz4_raw")
BEGIN, SIZE, LEVELS, ROWS, CODEC, TYPE, REPETITIONS, DEFINITIONS = range(8)
"""What the numbers of a column in a row group are."""
MOST_READERS = 1024
MOST_GROUPS = 3  # Of wide tables, readers for so many row groups, which threads may read at once. Each holds a page.
MOST_LEVEL = 7
UNITS = {"ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
"""Of points in time: their names in Parquet."""
DAYS = np.dtype("M8[D]")
END_BYTES = 8
"""The size of the footer, and the magic bytes."""


def read_codecs(footer: Any) -> set[str]:
    """The names of the codecs of the columns in a footer, such as ``{"snappy"}``; none if it cannot be read."""
    try:
        chunks = _native.parquet_chunks(footer)
    except _native.FormatError:
        return set()
    return {CODECS[number] for number in np.unique(chunks[..., CODEC]).tolist()}


def codecs_of(footers: Sequence[Any]) -> str:
    """The names of the codecs of some files, given what pyarrow has read of their footers."""
    found: set[str] = set()
    for footer in footers:
        content = io.BytesIO()
        footer.write_metadata_file(content)
        found |= read_codecs(content.getvalue()[len(MAGIC) :])
    return ", ".join(sorted(found)) or "none"


def _read_chunk_table(file: MappedFile, footer: Any) -> npt.NDArray[np.int64] | None:
    """Where the pages of each column in each row group are, ``int64 (row groups, columns, 8)``; ``None`` if pyarrow reads something else.

    Args:
        file: The file.
        footer: Its metadata as pyarrow has read them.
    """
    content = memoryview(file.buffer)
    try:
        with guard_reads(file.buffer):
            size = int.from_bytes(content[-END_BYTES:-4], "little")
            if not 0 < size <= len(content) - END_BYTES:
                return None
            found = _native.parquet_chunks(content[-END_BYTES - size : -END_BYTES])
    except _native.FormatError:
        return None
    shape = (footer.num_row_groups, footer.num_columns)
    return found if found.shape[:2] == shape and found.size else None


class _RefusedError(Exception):
    """The values of a column do not fit its feature: pyarrow's way finds out which."""


class PhysicalType(NamedTuple):
    """A physical type."""

    physical: int
    """Its number."""
    size: int
    """Bytes of a value; 1: truth values, of one bit; 0: text or bytes."""
    is_float: bool = False


STORED = {
    "BOOLEAN": PhysicalType(0, 1),
    "INT32": PhysicalType(1, 4),
    "INT64": PhysicalType(2, 8),
    "FLOAT": PhysicalType(4, 4, is_float=True),
    "DOUBLE": PhysicalType(5, 8, is_float=True),
    "BYTE_ARRAY": PhysicalType(6, 0),
}
"""What is decoded here."""


class ColumnForm(NamedTuple):
    """How a column is stored, and what its values become."""

    column: int
    """Its number in the file."""
    stored: int
    """Bytes of a number in the file; 1: truth values; 0: text or bytes."""
    dtype: np.dtype[Any] | None
    is_text: bool
    most: int
    """The definition level of a value."""
    empty: int
    """That of an empty list; -1: there are no lists. Lower ones are nulls in place of a list, or of what holds it."""
    length: int | None
    """The length that the type of lists gives all of them; ``None``: it varies."""


class ColumnPages:
    """Reads one column of adjacent row groups in order.

    Args:
        file: The file.
        chunks: Of that column, ``int64 (row groups, 8)``.
        form: How it is stored.
        feature: What it becomes.
        verify: Whether to check the checksums of pages.

    Raises:
        _native.FormatError, _RefusedError: pyarrow must read it; also in :meth:`read`.
    """

    def __init__(
        self, file: MappedFile, chunks: npt.NDArray[np.int64], form: ColumnForm, feature: Feature, *, verify: bool
    ) -> None:
        self.block: int = 0
        """The block that comes next, for the caller."""
        self._form, self._feature = form, feature
        buffer = file.buffer
        self._native = _native.ParquetColumn(
            buffer, chunks, form.stored, form.dtype, form.most, form.empty, verify=verify, fill=_fill_of(form, feature)
        )

    def read(self, rows: int) -> Any:
        """The column of the next rows."""
        form = self._form
        values, offsets = self._native.read(rows)
        if form.dtype is None:
            data, ends, codes = values
            if _native.check_strings(data, ends, form.is_text) != (-1, -1):
                raise _RefusedError
            data.flags.writeable = ends.flags.writeable = False
            texts = Strings.trust(data, ends, form.is_text)
            if codes is None:
                return self._shaped(texts, offsets, rows)
            return RecurringTexts(texts, self._shaped(codes, offsets, rows))
        return self._shaped(values, offsets, rows)

    def _shaped(self, values: Any, offsets: npt.NDArray[np.int64] | None, rows: int) -> Any:
        """Values by rows: lists where there are offsets."""
        if offsets is None:
            return values
        form, length = self._form, self._feature.shape[0]
        expected = form.length if length is None else length
        if expected is not None and not (np.diff(offsets) == expected).all():
            raise _RefusedError
        return Ragged(values, offsets) if length is None else values.reshape(rows, length)


class FilePages:
    """The columns of one file that are decoded natively.

    Args:
        file: The file.
        footer: Its metadata.
        like: Another file, whose columns may be the same: then what is known of them holds here, too. Shards are many.
    """

    def __init__(self, file: MappedFile, footer: Any, like: FilePages | None = None) -> None:
        self.file: MappedFile = file
        self._footer = footer
        self._chunks = _read_chunk_table(file, footer)
        self.width: int = 0 if self._chunks is None else self._chunks.shape[1]  # in stored columns
        self._forms: dict[str, ColumnForm | None] = {}
        self._columns: dict[tuple[int, ...], int] = {}
        if like is not None and self._is_like(like):
            self._forms, self._columns = like._forms, like._columns
        elif self._chunks is not None:
            self._columns = first_columns(footer)

    @cached_property
    def _arrow_schema(self) -> Any:
        return self._footer.schema.to_arrow_schema()

    def _is_like(self, other: FilePages) -> bool:
        if self._chunks is None or other._chunks is None or not self._footer.schema.equals(other._footer.schema):
            return False
        # All row groups of a file have the types of the first.
        return np.array_equal(self._chunks[0, :, TYPE:], other._chunks[0, :, TYPE:])

    def form(self, leaf: Leaf, feature: Feature) -> ColumnForm | None:
        """How a column is stored; ``None``: pyarrow must read it."""
        if leaf.name not in self._forms:
            self._forms[leaf.name] = self._find_form(leaf)
        form = self._forms[leaf.name]
        return form if form is not None and _becomes(form, feature) else None

    def number_bytes(self) -> list[int] | None:
        """Bytes of the numbers in each row group once decoded; ``None`` if the footer is read by pyarrow alone."""
        chunks = self._chunks
        return None if chunks is None else count_number_bytes(chunks[..., TYPE], chunks[..., LEVELS])

    def open(self, form: ColumnForm, feature: Feature, group: int, groups: int, *, verify: bool) -> ColumnPages:
        """A reader of one column of some row groups."""
        assert self._chunks is not None
        chunks = np.ascontiguousarray(self._chunks[group : group + groups, form.column])
        return ColumnPages(self.file, chunks, form, feature, verify=verify)

    def _find_form(self, leaf: Leaf) -> ColumnForm | None:
        number = self._columns.get(leaf.path)
        if number is None or self._chunks is None:
            return None
        found = self._footer.schema.column(number)
        types, kind, has_lists = arrow().types, leaf.type, is_list(leaf.type)
        most, empty, length = found.max_definition_level, -1, None
        if has_lists:
            empty = most - 1 - _nullable_in_list(self._arrow_schema.field(leaf.path[0]).type, leaf.path[1:])
            length = kind.list_size if types.is_fixed_size_list(kind) else None
            kind = kind.value_type
        if found.max_repetition_level != has_lists or most > MOST_LEVEL or (has_lists and empty < 0):
            return None
        kind = kind.value_type if types.is_dictionary(kind) else kind
        stored = STORED.get(found.physical_type)
        if stored is None or (self._chunks[:, number, TYPE] != stored.physical).any():
            return None
        counted = self._chunks[:, number, REPETITIONS : DEFINITIONS + 1]
        if ((counted != 0) & (counted != [found.max_repetition_level + 1, most + 1])).any():
            return None  # A damaged schema: the column has other levels.
        is_text = types.is_string(kind) or types.is_large_string(kind)
        dtype = _dtype_of(kind, found)
        is_bytes = is_text or types.is_binary(kind) or types.is_large_binary(kind)
        if is_bytes != (stored.size == 0) or (dtype is None) != is_bytes or (dtype and not _holds(stored, dtype)):
            return None
        return ColumnForm(number, stored.size, dtype, is_text, most, empty, length)


def _nullable_in_list(kind: Any, path: Sequence[int]) -> int:
    """How many may be null of the items of a list, the fields in them, and what lies between. ``path`` leads to the list and its field."""
    nullable, is_inside = 0, False
    while is_list(kind) or path:
        is_inside = is_inside or is_list(kind)
        field = kind.value_field if is_list(kind) else kind.field(path[0])
        nullable += is_inside and field.nullable
        path = path if is_list(kind) else path[1:]
        kind = field.type
    return nullable


def _dtype_of(kind: Any, stored: Any) -> np.dtype[Any] | None:
    """The dtype of the numbers of an Arrow type; ``None`` for others, and for points in time that are stored in another unit."""
    types = arrow().types
    if types.is_timestamp(kind):
        is_alike = json.loads(stored.logical_type.to_json()).get("timeUnit") == UNITS.get(kind.unit)
        return np.dtype(f"M8[{kind.unit}]") if is_alike else None
    if types.is_date32(kind):
        return DAYS
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_float32(kind) or types.is_float64(kind):
        found: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
        return found
    return None


def _fill_of(form: ColumnForm, feature: Feature) -> bytes | None:
    """The number or text in place of a null: the default, or that of nothing; ``None``: it is a fault."""
    fill = feature.default if np.ndim(feature.default) == 0 else None  # Several values are those of a whole list.
    if form.dtype is None:
        return fill.encode(errors="surrogatepass") if isinstance(fill, str) else fill
    fill = {"f": np.nan, "M": "NaT"}.get(form.dtype.kind) if fill is None else fill
    return None if fill is None else np.array(fill, form.dtype).tobytes()


def _holds(stored: PhysicalType, dtype: np.dtype[Any]) -> bool:
    """Whether numbers that are stored like this become that dtype. Small integers are stored in 4 bytes."""
    if dtype.kind == "b" or stored.size == 1:
        return dtype.kind == "b" and stored.size == 1
    if dtype.kind == "f" or stored.is_float:
        return dtype.kind == "f" and stored.is_float and dtype.itemsize == stored.size
    return dtype.itemsize == stored.size or (stored.size == 4 and (dtype.itemsize < 4 or dtype == DAYS))


def _becomes(form: ColumnForm, feature: Feature) -> bool:
    """Whether the values of a column are those of a feature as they are."""
    if feature.sparse or len(feature.shape) != (form.empty >= 0) or 0 in feature.shape:
        return False
    if form.length is not None and feature.shape[0] not in (None, form.length):
        return False
    if form.dtype is None:
        return feature.dtype == ("str" if form.is_text else "bytes")
    return not feature.is_text and feature.numpy_dtype == form.dtype


class NativeColumns:
    """Reads the blocks of a table as far as its columns are decoded natively.

    A column that native code refuses once is read by pyarrow from that block of its file on. Used by several threads, each for other columns
    or row groups.

    Args:
        open_file: Gives the file of a number.
        footers: Their metadata.
        verify: Whether to check the checksums of pages.
    """

    def __init__(self, open_file: Callable[[int], MappedFile], footers: Sequence[Any], *, verify: bool) -> None:
        self._open_file = open_file
        self._footers = footers
        self._verify = verify
        self._is_used = engines().parquet.is_own
        self._files: dict[int, FilePages] = {}
        self._first: FilePages | None = None
        self._refused: dict[tuple[int, str], int] = {}
        self._readers: dict[tuple[int, int, int, str], ColumnPages] = {}

    def _pages_of(self, file: int) -> FilePages:
        found = self._files.get(file)
        if found is None:
            found = self._files[file] = FilePages(self._open_file(file), self._footers[file], self._first)
            self._first = self._first or found
        return found

    def number_bytes(self, file: int) -> list[int] | None:
        """Bytes of the numbers in each row group of a file once decoded; ``None`` if that is not known."""
        return self._pages_of(file).number_bytes() if self._is_used else None

    def read(
        self, number: int, block: RowBlock, part: Part | None, features: Mapping[Leaf, Feature]
    ) -> Iterator[tuple[int, str, Any]]:
        """The columns of a block that are decoded here, each after those of blocks before it that had to be decoded for it.

        Args:
            number: Of the block.
            block: What it holds.
            part: What it is of a large row group; ``None``: row groups as a whole.
            features: What the columns become.

        Yields:
            The number of the block, the name and the column.
        """
        if not self._is_used or not block.rows:
            return
        pages = self._pages_of(block.file)
        for leaf, feature in features.items():
            form = pages.form(leaf, feature)
            if form is None or (block.file, leaf.name) in self._refused:
                continue
            key = (FORKS.count, block.file, block.group, leaf.name)
            reader = self._readers.pop(key, None) if part else None
            try:
                if reader is None or reader.block > number:
                    reader = pages.open(form, feature, block.group, block.groups, verify=self._verify)
                    reader.block = part.first if part else number
                for before in range(reader.block, number):
                    yield before, leaf.name, reader.read(part.rows if part else block.rows)
                yield number, leaf.name, reader.read(block.rows)
            except (_native.FormatError, _RefusedError):
                self._refused[block.file, leaf.name] = number
            else:
                reader.block = number + 1
                if part and not part.is_last:
                    self._readers[key] = reader
        drop_oldest(self._readers, max(MOST_READERS, MOST_GROUPS * pages.width))  # Without, parts begin anew.

    def complete(
        self, file: int, leaves: Sequence[Leaf], columns: Batch, decode: Callable[[Sequence[Leaf]], Batch]
    ) -> Batch:
        """The columns of a block: those that were decoded here, and the others as ``decode`` reads them with pyarrow, in sets of those that
        it has read up to the same block.
        """
        sets: dict[int, list[Leaf]] = {}
        for leaf in leaves:
            if leaf.name not in columns:
                sets.setdefault(self._refused.get((file, leaf.name), -1), []).append(leaf)
        if columns or len(sets) > 1:
            with suppress(DataError):
                for some in sets.values():
                    columns |= decode(some)
                return columns
        return decode(leaves)  # Of several errors, the one that comes first if pyarrow reads all columns.
