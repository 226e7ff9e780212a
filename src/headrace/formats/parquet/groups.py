"""Row groups as blocks: small ones joined, large ones in parts; and their columns in parts for several threads.

A row group may hold one row or all rows of a file. Reading one has a cost per column, so small ones are read several at a time.
A large one is read in parts, so that memory stays bounded and the first rows come soon. Parquet has no way into the middle of a
row group that pyarrow offers, so its parts are read in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from headrace._optional import require
from headrace.errors import CorruptFile, DataError, SchemaMismatch, UnsupportedData, Where
from headrace.formats.table.arrow_types import KEY, Leaf, arrow, feature_of, is_list, leaves_of
from headrace.io.system import usable_cores

__all__ = [
    "MAGIC",
    "MOST_PARTS",
    "GroupSize",
    "Part",
    "PartReader",
    "RowBlock",
    "arrow_types_in",
    "column_differences",
    "count_number_bytes",
    "damage_error",
    "divide",
    "drop_oldest",
    "first_columns",
    "group_sizes",
    "is_parquet",
    "open_reader",
    "other_columns_error",
    "part_of",
    "plan_blocks",
    "schema_text_in",
    "share_of",
]


MAGIC = b"PAR1"
PART_BYTES = 4 << 20
"""Of a large row group (encoded) that are decoded at a time. Decoded they take several times as much, in memory that is used again and again."""
COLUMN_BYTES = 256 << 10
"""At least so many for each column, because each has a cost, but no more than ``MOST_PART_BYTES`` in all."""
MOST_PART_BYTES = 16 << 20
LEAST_COLUMN_BYTES, WIDE_PART_BYTES = 32 << 10, 64 << 20
"""At least so many for each column of wide tables, up to so many in all (twice as many decoded): smaller parts save nothing, as readers hold pages."""
NUMBER_SIZES = (1, 4, 8, 12, 4, 8, 0, 0)
"""Bytes of a decoded value of each physical type; 0 for text and bytes."""
DECODED_BYTES = 64 << 20
"""At most so much of numbers, which may be stored in far less: a column of zeros in a few bytes."""
MOST_ROWS = 1 << 17
MOST_BLOCKS = 1 << 16  # in one row group
JOINED_ROWS = 1 << 15
DIVIDED_BYTES = 1 << 20
"""Blocks of more are decoded by several threads."""
MOST_PARTS = 4
ENCRYPTED = ("Cannot decrypt", "no decryption found")
"""In the messages of pyarrow, which has no exception for that."""
COST_OF_TEXT = 256
"""The time that a value of varying length takes to decode, where numbers take as long as they have bits."""


class RowBlock(NamedTuple):
    """Rows that are decoded together: some small row groups, one row group, or a part of a large one."""

    file: int
    group: int
    """The number of its first row group."""
    groups: int
    """How many row groups it has."""
    first: int
    """The number of its first row in the file."""
    skipped: int
    """Rows of the row group before it."""
    rows: int


class Part(NamedTuple):
    """What a block is of a large row group."""

    first: int
    """The number of the first block of the row group."""
    rows: int
    """Of each block before the last one."""
    is_last: bool


class PartReader:
    """Reads the parts of a large row group in order, each as one table.

    Args:
        block: The number of the first part.
        batches: Record batches of the row group.
    """

    def __init__(self, block: int, batches: Iterator[Any]) -> None:
        self.block: int = block
        """The part that comes next."""
        self._batches = batches
        self._rest: Any = None

    def read(self, rows: int) -> Any:
        """The next ``rows`` rows; fewer if the row group ends before, ``None`` at its end."""
        parts, missing = [], rows
        while missing:
            batch = next(self._batches, None) if self._rest is None else self._rest
            if batch is None:
                break
            self._rest = batch.slice(missing) if len(batch) > missing else None
            parts.append(batch.slice(0, missing))
            missing -= len(parts[-1])
        self.block += 1
        return arrow().Table.from_batches(parts) if parts else None


def open_reader(content: Any, footer: Any, *, verify: bool) -> Any:
    """A reader of a file in memory.

    Args:
        content: The file as pyarrow takes it.
        footer: Its metadata, if they have been read.
        verify: ``False`` skips page checksums.
    """
    parquet = require("pyarrow.parquet", extra="arrow")
    reader = parquet.ParquetFile(content, metadata=footer, page_checksum_verification=verify)
    if " int96 " not in repr(reader.metadata.schema):
        return reader
    return Int96Reader(
        reader,
        parquet.ParquetFile(
            content, metadata=reader.metadata, page_checksum_verification=verify, coerce_int96_timestamp_unit="us"
        ),
    )


class Int96Reader:
    """Reads a file with points in time of 96 bits, as Spark, Hive and Impala write them.

    pyarrow reads them as nanoseconds, where those before 1678 and after 2262 become other points. A column that has some is given in
    microseconds, so that it is read as such, or refused where nanoseconds are asked for.

    Args:
        nanos, micros: Two readers of the file, one for each unit.
    """

    def __init__(self, nanos: Any, micros: Any) -> None:
        self.metadata: Any = nanos.metadata
        self._nanos, self._micros = nanos, micros
        pairs = zip(nanos.schema_arrow, micros.schema_arrow, strict=True)
        self._points = {one.name for one, other in pairs if one.type != other.type}

    def read_row_groups(self, numbers: Sequence[int], *, columns: Sequence[str], use_threads: bool) -> Any:
        """As that of a ``ParquetFile``."""
        table = self._nanos.read_row_groups(numbers, columns=columns, use_threads=use_threads)
        points = [name for name in columns if name in self._points]
        if not points:
            return table
        return _keep_points(table, self._micros.read_row_groups(numbers, columns=points, use_threads=use_threads))

    def iter_batches(self, rows: int, *, columns: Sequence[str], **options: Any) -> Iterator[Any]:
        """As that of a ``ParquetFile``, where the types of batches may differ."""
        batches = self._nanos.iter_batches(rows, columns=columns, **options)
        points = [name for name in columns if name in self._points]
        if not points:
            yield from batches
            return
        nanos = PartReader(0, batches)
        micros = PartReader(0, self._micros.iter_batches(rows, columns=points, **options))
        while (table := nanos.read(rows)) is not None:
            yield from _keep_points(table.combine_chunks(), micros.read(rows).combine_chunks()).to_batches()


def _keep_points(nanos: Any, micros: Any) -> Any:
    """The table with the columns of ``micros`` in place of those with points that nanoseconds cannot hold."""
    for at, name in enumerate(nanos.column_names):
        if name in micros.column_names:
            try:
                micros[name].cast(nanos.schema.field(at).type)
            except arrow().ArrowInvalid:
                nanos = nanos.set_column(at, micros.schema.field(name), micros[name])
    return nanos


class GroupSize(NamedTuple):
    """What a row group holds."""

    rows: int
    encoded: int
    """Its bytes, before they were compressed."""
    decoded: int = 0
    """Bytes of its numbers once decoded."""


def count_number_bytes(types: npt.NDArray[np.int64], values: npt.NDArray[np.int64]) -> list[int]:
    """Bytes of the numbers in each row group once decoded.

    Args:
        types: ``(row groups, columns)``: the physical type of each column.
        values: The same of its values; a damaged count may be any number.
    """
    known = np.where((types >= 0) & (types < len(NUMBER_SIZES)), types, NUMBER_SIZES.index(0))
    found = (np.array(NUMBER_SIZES, np.float64)[known] * np.maximum(values, 0)).sum(axis=1)
    return [int(size) for size in found.tolist()]


def plan_blocks(file: int, sizes: Iterable[GroupSize], columns: int) -> list[RowBlock]:
    """The blocks of a file.

    Args:
        file: Its number.
        sizes: Of each row group.
        columns: The number of its columns.
    """
    wide = min(columns * LEAST_COLUMN_BYTES, WIDE_PART_BYTES)
    part = max(min(max(PART_BYTES, columns * COLUMN_BYTES), MOST_PART_BYTES), wide)
    most_decoded = max(DECODED_BYTES, 2 * wide)
    blocks: list[RowBlock] = []
    # Of the block that grows: its first row and row group, how many of those, its rows and bytes.
    first = begin = groups = joined = size = numbers = 0
    for number, (rows, encoded, decoded) in enumerate(sizes):
        is_small = size + encoded <= part and numbers + decoded <= most_decoded
        if groups and is_small and joined + rows <= JOINED_ROWS:
            groups, joined, size, numbers = groups + 1, joined + rows, size + encoded, numbers + decoded
            continue
        if groups:
            blocks.append(RowBlock(file, begin, groups, first, 0, joined))
        first, begin, groups, joined, size, numbers = first + joined, number, 1, rows, encoded, decoded
        most = min(MOST_ROWS, part * rows // max(encoded, 1), most_decoded * rows // max(decoded, 1))
        most = max(most, rows // MOST_BLOCKS, 1)  # A damaged count does not make a list without end.
        if 2 * rows > 3 * most:
            starts = range(0, rows, most)
            blocks += [RowBlock(file, number, 1, first + at, at, min(most, rows - at)) for at in starts]
            groups = 0
    if groups:
        blocks.append(RowBlock(file, begin, groups, first, 0, joined))
    return blocks


def share_of(block: RowBlock, sizes: Sequence[GroupSize]) -> int:
    """The encoded bytes of a block, or its share of those of its row group. ``sizes`` are those of its file."""
    groups = sizes[block.group : block.group + block.groups]
    return sum(group.encoded for group in groups) * block.rows // max(sum(group.rows for group in groups), 1)


def arrow_types_in(footer: Any) -> bytes | None:
    """The types that the writer had, as Arrow leaves them in the metadata."""
    found: bytes | None = (footer.metadata or {}).get(b"ARROW:schema")
    return found


def schema_text_in(footer: Any) -> bytes | None:
    """The schema that our writers leave in the metadata."""
    found: bytes | None = (footer.metadata or {}).get(KEY.encode())
    return found


def column_differences(first: Sequence[Leaf], other: Sequence[Leaf]) -> str:
    """In what the columns of a file differ from those of another one; empty if they give the same features, in any order."""
    wanted, held = ({leaf.name: leaf.type for leaf in leaves} for leaves in (first, other))
    if len(held) < len(other):
        return "columns of one name"
    found = [f"no {name}" for name in wanted if name not in held]
    found += [
        f"{name}: {kind}"
        for name, kind in held.items()
        if name not in wanted or not (kind == wanted[name] or _same_feature(kind, wanted[name]))
    ]
    return ", ".join(found)


def _same_feature(one: Any, other: Any) -> bool:
    """Whether two Arrow types give the same feature, such as text and large text."""
    try:
        return feature_of(one, Where()) == feature_of(other, Where())
    except DataError:
        return False


def damage_error(error: Exception, where: Where, expected: str) -> DataError:
    """The error for what pyarrow does not read: damage, or something valid that it does not support."""
    found = str(error).splitlines()[0][:200]
    if any(words in found for words in ENCRYPTED):
        hint = "Decrypt it first, as with pyarrow.parquet.read_table(..., decryption_properties=...)."
        return UnsupportedData(where, expected="an unencrypted Parquet file", found=found, hint=hint)
    if isinstance(error, arrow().ArrowNotImplementedError):
        hint = "Convert such columns with the library that wrote them."
        return UnsupportedData(where, expected="a Parquet file of types that pyarrow reads", found=found, hint=hint)
    return CorruptFile(where, expected=expected, found=found)


def group_sizes(footer: Any, where: Where, decoded: Sequence[int] | None = None) -> Iterator[GroupSize]:
    """What each row group holds.

    Args:
        footer: The metadata of the file.
        where: The file.
        decoded: Bytes of the numbers in each, if known.

    Raises:
        CorruptFile: They do not add up to the rows of the file.
    """
    left = footer.num_rows
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        rows = group.num_rows
        if not 0 <= rows <= left:
            raise CorruptFile(where, expected=f"a count of rows in row group {number}", found=f"{rows}")
        yield GroupSize(rows, max(0, group.total_byte_size), decoded[number] if decoded else 0)
        left -= rows
    if left:
        found = f"{footer.num_rows - left} in its row groups"
        raise CorruptFile(where, expected=f"{footer.num_rows} rows, as the footer says", found=found)


def drop_oldest(kept: dict[Any, Any], most: int) -> None:
    """Drop the oldest entries beyond ``most``. Other threads may add and drop some meanwhile."""
    if len(kept) > most:
        for key in list(kept)[: len(kept) - most]:
            kept.pop(key, None)


def part_of(blocks: Sequence[RowBlock], number: int, rows: int) -> Part | None:
    """What a block is of a large row group of so many rows; ``None``: it has whole row groups."""
    block = blocks[number]
    if block.groups != 1 or block.rows >= rows:
        return None
    each = blocks[number - (block.skipped > 0)].rows
    return Part(number - block.skipped // each, each, block.skipped + block.rows >= rows)


def divide(leaves: Sequence[tuple[str, Leaf]], encoded: int) -> list[tuple[str, ...]]:
    """The names of some columns in parts that take about equally long to decode.

    Args:
        leaves: Each with the name of its column. Fields of one struct stay together.
        encoded: The size of a block with all columns. Small ones stay whole.
    """
    if encoded < DIVIDED_BYTES:
        return [tuple(leaf.name for _, leaf in leaves)]
    roots: dict[str, list[str]] = {}
    costs: dict[str, int] = {}
    for root, leaf in leaves:
        roots.setdefault(root, []).append(leaf.name)
        costs[root] = costs.get(root, 0) + _cost_of(leaf.type)
    parts: list[list[str]] = [[] for _ in range(min(usable_cores(), MOST_PARTS, len(roots)))]
    filled = [0] * len(parts)
    for root in sorted(roots, key=lambda root: -costs[root]):
        least = filled.index(min(filled))
        filled[least] += costs[root]
        parts[least] += roots[root]
    return [tuple(part) for part in parts]


def _cost_of(kind: Any) -> int:
    """About how long values of a type take to decode, relative to others."""
    try:
        return int(kind.bit_width)
    except ValueError:
        return COST_OF_TEXT


def first_columns(footer: Any) -> dict[tuple[int, ...], int]:
    """The number of the first stored column of each leaf, by its path; none if they do not add up."""
    firsts, number = {}, 0
    for leaf in leaves_of(footer.schema.to_arrow_schema()):
        firsts[leaf.path] = number
        number += _width_of(leaf.type)
    return firsts if number == footer.num_columns else {}


def _width_of(kind: Any) -> int:
    """How many stored columns a type takes."""
    pa = arrow()
    if isinstance(kind, pa.BaseExtensionType):
        return _width_of(kind.storage_type)
    if pa.types.is_map(kind):
        return _width_of(kind.key_type) + _width_of(kind.item_type)
    if pa.types.is_struct(kind):
        return sum(_width_of(kind.field(number).type) for number in range(kind.num_fields))
    return _width_of(kind.value_type) if is_list(kind) else 1


def other_columns_error(path: str, first: str, differences: str) -> SchemaMismatch:
    """The error for a file that has other columns than the first one."""
    hint = "Open them as two sources, or name the features that they share: schema={...}."
    if ": null" in differences:  # of a writer that finds types from values
        hint = "The type null is that of columns without values. Name all features: schema={...}, and a default for such a column."
    return SchemaMismatch(Where(path=path), expected=f"the columns of {first}", found=differences, hint=hint)


def is_parquet(head: bytes) -> bool:
    """Whether some first bytes are those of a Parquet file."""
    return head.startswith(MAGIC)
