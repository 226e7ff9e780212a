"""Write Parquet through pyarrow, and join its files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from headrace import _native
from headrace._optional import require
from headrace.contracts.protocols import Piece
from headrace.contracts.schema import Schema
from headrace.errors import CorruptFile, UnsupportedData, Where
from headrace.formats.parquet.groups import MAGIC
from headrace.formats.parquet.pages import END_BYTES
from headrace.formats.table.arrow_types import KEY, arrow, arrow_type, misfits
from headrace.formats.table.base import ByteFile, refuse_misfits
from headrace.formats.table.to_arrow import to_arrow
from headrace.formats.table.values import BadValue
from headrace.io.faults import name_in_errors
from headrace.io.paths import PathLike
from headrace.io.write.atomic import AtomicFile
from headrace.io.write.pieces import BytesPiece, pieces_of_range

__all__ = ["COMPRESSIONS", "ParquetWriter", "pieces_of_groups"]


COMPRESSIONS = ("zstd", "none", "snappy", "brotli")
GROUP_BYTES = 16 << 20
"""Uncompressed size of a row group: what random access to one row has to decode."""
GROUP_ROWS = 1 << 16


class ParquetWriter:
    """Writes batches to one Parquet file, in row groups of about 16 MiB, with the schema in its metadata.

    Args:
        path: The file.
        schema: The schema of the batches.
        compression: ``"zstd"``, ``"snappy"``, ``"brotli"`` or ``"none"``.

    Raises:
        UnsupportedData: A feature has no Arrow type.
    """

    def __init__(self, path: PathLike, schema: Schema, *, compression: str = "zstd") -> None:
        pa, parquet = arrow(), require("pyarrow.parquet", extra="arrow")
        if compression not in COMPRESSIONS:
            raise UnsupportedData(Where(path=str(path)), expected=f"one of {COMPRESSIONS}", found=compression)
        refuse_misfits(path, misfits(schema))
        self.schema = schema
        fields = [pa.field(name, arrow_type(feature)) for name, feature in schema.items()]
        self._arrow = pa.schema(fields, metadata={KEY: schema.to_json()})
        self._path = str(path)
        self._file = ByteFile(AtomicFile(path))
        self._writer = parquet.ParquetWriter(self._file, self._arrow, compression=compression, write_page_checksum=True)
        self._waiting: list[Any] = []
        self._bytes = self._rows = 0

    def write_batch(self, batch: Mapping[str, Any], n: int, /) -> None:
        """Append rows. The arrays may change afterwards."""
        pa = arrow()
        arrays = [self._array(batch[name], name) for name in self.schema]
        table = pa.Table.from_arrays(arrays, schema=self._arrow)
        self._waiting.append(table)
        self._bytes += table.nbytes
        self._rows += n
        if self._bytes >= GROUP_BYTES or self._rows >= GROUP_ROWS:
            self._flush()
        else:
            self._waiting[-1] = _copy_table(table)

    def _array(self, column: Any, name: str) -> Any:
        where = Where(path=self._path, feature=name)
        try:
            return to_arrow(column, self.schema[name])
        except UnsupportedData as error:
            raise error.relocated(where) from error
        except BadValue as bad:
            raise UnsupportedData(where, expected=bad.expected, found=bad.found, hint=bad.hint) from bad
        except UnicodeEncodeError as error:
            raise UnsupportedData(where, expected="Unicode text", found=str(error)) from error

    def _flush(self) -> None:
        if self._waiting:
            waiting, self._waiting, self._bytes, self._rows = self._waiting, [], 0, 0
            table = arrow().concat_tables(waiting)
            try:
                self._writer.write_table(table, row_group_size=max(1, len(table)))
            except arrow().ArrowInvalid as error:  # Parquet stores Arrow's seconds as milliseconds.
                found = str(error).splitlines()[0]
                raise UnsupportedData(
                    Where(path=self._path), expected="values that Parquet holds", found=found
                ) from error

    def close(self) -> None:
        """Move the complete file into place."""
        try:
            self._flush()
            self._writer.close()
            self._file.file.close()
        except BaseException:
            self.abort()
            raise

    def abort(self) -> None:
        """Remove the unfinished file."""
        self._waiting.clear()
        self._file.file.abort()
        self._writer.close()


def _copy_table(table: Any) -> Any:
    """A table that waits for others in memory of its own. The columns of a batch may share theirs with arrays that the caller fills again."""
    pa = arrow()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return pa.ipc.open_stream(sink.getvalue()).read_all()


def pieces_of_groups(parts: Sequence[str]) -> list[Piece]:
    """What complete Parquet files of one schema are joined to: their row groups as they are, and a footer that says where they are now.

    Pages are not read. Their checksums go with them, so readers find damage.

    Raises:
        CorruptFile: A file has no intact footer, or another schema than the first.
    """
    pieces: list[Piece] = [BytesPiece(MAGIC)]
    position, footers = len(MAGIC), []
    for part in parts:
        footer, begin = _read_footer(part)
        footers.append((footer, position - len(MAGIC)))
        position += begin - len(MAGIC)
        pieces += pieces_of_range(part, len(MAGIC), begin)
    try:
        joined = _native.join_parquet_footers(footers)
    except _native.FormatError as error:
        place = Where(path=parts[error.record])
        expected = "metadata of row groups of the same schema as in the files before"
        raise CorruptFile(place, expected=expected, found=f"{error.fault} at byte {error.offset} of them") from error
    return [*pieces, BytesPiece(joined + len(joined).to_bytes(4, "little") + MAGIC)]


def _read_footer(path: str) -> tuple[bytes, int]:
    """The metadata at the end of a file, and where they begin."""
    with name_in_errors(path), open(path, "rb") as file:
        whole = file.seek(0, os.SEEK_END)
        file.seek(max(whole - END_BYTES, 0))
        end = file.read(END_BYTES)
        size = int.from_bytes(end[:-4], "little")
        begin = whole - END_BYTES - size
        if end[4:] != MAGIC or begin < len(MAGIC):
            expected = "a footer and the bytes PAR1 at the end, as in every complete Parquet file"
            raise CorruptFile(
                Where(path=path, offset=max(begin, 0)), expected=expected, found=f"{end!r} as the last bytes"
            )
        file.seek(begin)
        return file.read(size), begin
