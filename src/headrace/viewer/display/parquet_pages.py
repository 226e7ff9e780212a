"""Where a row of a Parquet file is: its row group, the chunk of each column, and the pages of one of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace import _optional
from headrace.viewer.display.frames import Field, ReadsBytes

__all__ = ["chunk_fields", "footer_fields", "page_fields", "row_group_of"]

MAGIC = b"PAR1"
MOST_CHUNKS, MOST_PAGES = 300, 200
HEADER_BYTES = 1 << 16
"""The most bytes of a page header: it may hold extremes of texts."""
PAGE_KINDS = {0: "data page", 1: "index page", 2: "dictionary page", 3: "data page, version 2"}
COUNTS_IN = (5, 7, 8)
"""The fields of a page header that begin with a number of values: one for each kind of page."""
MOST_DEPTH = 8
KINDS = ("", "true", "false", "byte", "i16", "i32", "i64", "double", "binary", "list", "set", "map", "struct")
"""The types of Thrift's compact form, by number."""


def row_group_of(path: str, row: int) -> tuple[Any, int] | None:
    """The metadata of the row group that holds a row of a file, and its number; ``None`` where the footer is damaged.

    Raises:
        MissingExtra: pyarrow is not installed.
    """
    parquet = _optional.require("pyarrow.parquet", extra="arrow")
    try:
        footer = parquet.read_metadata(path)
    except Exception:  # noqa: BLE001 - a damaged footer raises anything
        return None
    first = 0
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        if row < first + group.num_rows:
            return group, number
        first += group.num_rows
    return None


def _chunk_start(chunk: Any) -> int:
    starts = [chunk.data_page_offset, chunk.dictionary_page_offset if chunk.has_dictionary_page else None]
    return int(min(start for start in starts if start))


def chunk_fields(group: Any, number: int) -> list[Field]:
    """The chunks of the columns of a row group, in the order of the file."""
    found = []
    for at in range(min(group.num_columns, MOST_CHUNKS)):
        chunk = group.column(at)
        start = _chunk_start(chunk)
        meaning = (
            f"{chunk.num_values:,} values of {chunk.physical_type.lower()}, {chunk.compression.lower()}, "
            f"{chunk.total_compressed_size:,} of {chunk.total_uncompressed_size:,} bytes, {', '.join(chunk.encodings).lower()}"
        )
        name = f"{chunk.path_in_schema} in row group {number}"
        found.append(Field(start, start + chunk.total_compressed_size, name, meaning))
    return sorted(found, key=lambda each: each.start)


def page_fields(read: ReadsBytes, start: int, stop: int) -> list[Field]:
    """The headers and the content of the pages of a column's chunk, at most 200."""
    found: list[Field] = []
    at = start
    while at < stop and len(found) < MOST_PAGES:
        try:
            header, length = _read_struct(read(at, min(HEADER_BYTES, stop - at)))
            kind, size = PAGE_KINDS[header[1]], int(header[3])
        except (IndexError, KeyError, ValueError, TypeError):
            return [*found, Field(at, stop, "unreadable", "expected a page header")]
        inner: dict[int, Any] = next((header[each] for each in COUNTS_IN if isinstance(header.get(each), dict)), {})
        meaning = f"{kind} of {inner.get(1, 0):,} values, {size:,} bytes, {header.get(2, 0):,} uncompressed"
        found.append(Field(at, at + length, "page header", meaning))
        at += length
        if size < 0 or at + size > stop:
            return [*found, Field(at, stop, "unreadable", f"expected {size:,} bytes, found {stop - at:,}")]
        if size:
            found.append(Field(at, at + size, kind, f"{size:,} bytes"))
        at += size
    return found


def footer_fields(read: ReadsBytes, size: int) -> list[Field]:
    """The marks at both ends of a file, and the length of its footer."""
    tail = read(max(0, size - 8), 8)
    length = int.from_bytes(tail[:4], "little")
    ends = [("first mark", read(0, 4), 0), ("last mark", tail[4:], size - 4)]
    marks = [
        Field(at, at + 4, name, "PAR1, correct" if mark == MAGIC else f"expected PAR1, found {mark!r}")
        for name, mark, at in ends
        if at >= 0
    ]
    begin = size - 8 - length
    footer = (
        [Field(begin, size - 8, "footer", f"{length:,} bytes: types, row groups, places of columns")]
        if begin > 0
        else []
    )
    meaning = f"{length:,} bytes" + ("" if begin > 0 else ", more than the file has")
    return [
        marks[0],
        *footer,
        *([Field(size - 8, size - 4, "length of the footer", meaning), *marks[1:]] if size >= 8 else []),
    ]


def _read_struct(data: bytes) -> tuple[dict[int, Any], int]:
    """A structure in Thrift's compact form, and its length: integers and structures by the number of their field.

    Raises:
        IndexError: It does not end.
        ValueError: It has parts that no page header has.
    """
    reader = _Compact(data)
    found = dict(reader.fields(0))
    return found, reader.at


class _Compact:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def _byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _number(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
            if shift > 63:
                raise ValueError("an integer of more than 64 bits")

    def _signed(self) -> int:
        value = self._number()
        return (value >> 1) ^ -(value & 1)

    def fields(self, depth: int) -> Iterator[tuple[int, Any]]:
        """The fields of a structure."""
        if depth > MOST_DEPTH:
            raise ValueError("structures too deep")
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._signed()
            yield number, self._value(head & 0xF, depth)

    def _value(self, kind: int, depth: int) -> Any:
        name = KINDS[kind] if kind < len(KINDS) else ""
        if name in ("true", "false"):
            return name == "true"
        if name == "byte":
            return self._byte()
        if name in ("i16", "i32", "i64"):
            return self._signed()
        if name == "double":
            self.at += 8
            return None
        if name == "binary":
            length = self._number()  # before `at` is read, which it moves
            self.at += length
            return None
        if name == "struct":
            return dict(self.fields(depth + 1))
        raise ValueError(f"a part of kind {kind}, which no page header has")
