"""The compression of columns, from the bytes of a footer.

pyarrow ends the process when it is asked for the metadata of a single column of a damaged footer, so these few fields are read here.

Source of the layout: Parquet's ``parquet.thrift`` (FileMetaData, RowGroup, ColumnChunk, ColumnMetaData), in Thrift's compact protocol.
"""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["read_codecs"]


CODECS = ("none", "snappy", "gzip", "lzo", "brotli", "lz4", "zstd", "lz4_raw")
ROW_GROUPS, COLUMNS, META_DATA, CODEC = (
    4,
    1,
    3,
    4,
)  # field numbers in FileMetaData, RowGroup, ColumnChunk, ColumnMetaData
BOOLEANS, VARINTS, I32, BINARY, LIST, SET, MAP, STRUCT = (1, 2), (4, 5, 6), 5, 8, 9, 10, 11, 12  # types of the protocol
SIZES = {1: 0, 2: 0, 3: 1, 7: 8}
"""Bytes of values of fixed size in a struct, where a boolean is its type."""
MOST_DEPTH = 32
MOST_COLUMNS = 100_000
"""The most columns to look at, over all row groups: a footer may have millions."""


class _DamagedFooterError(ValueError):
    """The bytes are not Thrift."""


class _ThriftReader:
    """Reads values of the compact protocol, one after another.

    Args:
        data: The bytes.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def _byte(self) -> int:
        if self._at >= len(self._data):
            raise _DamagedFooterError
        self._at += 1
        return self._data[self._at - 1]

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise _DamagedFooterError

    def integer(self) -> int:
        """A signed integer of any width above a byte."""
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def fields(self) -> Iterator[tuple[int, int]]:
        """The number and type of each field of a struct. The caller reads or skips each value before it asks for the next field."""
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self.integer()
            yield number, head & 15

    def elements(self) -> tuple[int, int]:
        """The type and the count of the elements of a list, which follow."""
        head = self._byte()
        count = head >> 4
        return head & 15, self._varint() if count == 15 else count

    def skip(self, kind: int, depth: int = 0) -> None:
        """Skip a value of this type."""
        if depth > MOST_DEPTH:
            raise _DamagedFooterError
        if kind in SIZES:
            self._skip_bytes(SIZES[kind])
        elif kind in VARINTS:
            self._varint()
        elif kind == BINARY:
            self._skip_bytes(self._varint())
        elif kind in (LIST, SET):
            inner, count = self.elements()
            self._skip_elements([inner], count, depth)
        elif kind == MAP:
            count = self._varint()
            kinds = self._byte() if count else 0
            self._skip_elements([kinds >> 4, kinds & 15], count, depth)
        elif kind == STRUCT:
            for _, inner in self.fields():
                self.skip(inner, depth + 1)
        else:
            raise _DamagedFooterError

    def _skip_bytes(self, count: int) -> None:
        self._at += count
        if self._at > len(self._data):
            raise _DamagedFooterError

    def _skip_elements(self, kinds: list[int], count: int, depth: int) -> None:
        for _ in range(count):
            for kind in kinds:
                if kind in BOOLEANS:
                    self._byte()  # not in the type, as in a struct
                else:
                    self.skip(kind, depth + 1)


def read_codecs(footer: bytes) -> set[str]:
    """The names of the codecs of the columns in a footer, such as ``{"snappy"}``.

    Args:
        footer: The FileMetaData; other bytes may follow. What comes after damage, or after 100,000 columns, does not count.
    """
    found: set[str] = set()
    reader = _ThriftReader(footer)
    try:
        for count, number in enumerate(_codec_numbers(reader)):
            if 0 <= number < len(CODECS):
                found.add(CODECS[number])
            if count >= MOST_COLUMNS:
                break
    except _DamagedFooterError:
        pass
    return found


def _codec_numbers(reader: _ThriftReader) -> Iterator[int]:
    for _ in _structs_in(reader, ROW_GROUPS):
        for _ in _structs_in(reader, COLUMNS):
            for number, kind in reader.fields():
                if (number, kind) == (META_DATA, STRUCT):
                    yield from _codec_in(reader)
                else:
                    reader.skip(kind)


def _codec_in(reader: _ThriftReader) -> Iterator[int]:
    for number, kind in reader.fields():
        if (number, kind) == (CODEC, I32):
            yield reader.integer()
        else:
            reader.skip(kind)


def _structs_in(reader: _ThriftReader, wanted: int) -> Iterator[None]:
    """Stop at each struct of a list that is one field of the struct at hand. The caller reads it before it goes on."""
    for number, kind in reader.fields():
        if (number, kind) != (wanted, LIST):
            reader.skip(kind)
            continue
        inner, count = reader.elements()
        if inner != STRUCT:
            raise _DamagedFooterError
        for _ in range(count):
            yield
