"""Avro object container files: records in blocks, read and written by fastavro."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from headrace import _native
from headrace._optional import require
from headrace.contracts.records import Checked, Format
from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Indices
from headrace.errors import CorruptFile, DataError, MissingExtra, SchemaMismatch, UnsupportedData, Where
from headrace.formats.avro.types import (
    AvroField,
    ItemCounter,
    avro_type,
    fields_of,
    has_empty_items,
    plain,
    stored_times,
    takes_bytes,
    too_deep_error,
    without_times,
)
from headrace.formats.avro.write import COMPRESSIONS, AvroWriter, join_avro, misfits
from headrace.formats.index.index import FileIndex, RecordIndex, index_path, load_index, save_index
from headrace.formats.index.places import record_bytes
from headrace.formats.table.arrow_types import KEY, check_named_alike, embedded_schema
from headrace.formats.table.base import MemoryFile
from headrace.formats.table.blocks import BlockTable, verify_blocks
from headrace.formats.table.values import BadValue, Keys, column_of, twice_error
from headrace.io.local.mapped import guard_reads
from headrace.io.local.signatures import wait_for_tick
from headrace.io.progress import Progress
from headrace.io.system import cached_property

__all__ = ["FORMAT", "AvroTable"]


MAGIC = b"Obj\x01"
SYNC_BYTES = 16
BUFFER_BYTES = 64 << 10
# fastavro raises many kinds of errors on corrupt data.
HEAD_BYTES = 64 << 20  # the longest header accepted
PACKAGE = re.compile(r"'([\w.-]+)'")
MOST_EMPTY = 1 << 24
"""Records in a block where they take no bytes."""
DAMAGE = (Exception,)


class AvroTable(BlockTable):
    """The records of Avro files, concatenated in order.

    One pass finds the blocks; the result is stored in the user's cache folder. Random access decodes the blocks of the
    requested rows and keeps some of the columns.

    Args:
        paths: The files. All must have the fields of the first one.
        given: The features to read; by default those in the schema of the first file.
    """

    format = "avro"
    checks_ends = False
    """Whether blocks are checked for bytes after their records. fastavro then takes a tenth longer."""

    @cached_property
    def _headers(self) -> dict[int, bytes]:
        return {}

    def _head(self, file: int) -> Any:
        """A reader positioned after the header of a file."""
        try:
            return _open_blocks(self._files.content(file).buffer, HEAD_BYTES)
        except (DataError, MissingExtra):
            raise  # The file shrank, or fastavro is missing.
        except RecursionError as error:
            raise too_deep_error(Where(path=self.paths[file])) from error
        except DAMAGE as error:
            raise self._damage_error(file, error, "an intact Avro header") from error

    def _damage_error(self, file: int, error: Exception, expected: str, offset: int | None = None) -> DataError:
        """The error for what fastavro raised. That is also what it says of codecs that it does not know, or not without another package."""
        text = str(error)
        if isinstance(error, ValueError) and (" codec is supported" in text or text.startswith("Unrecognized codec")):
            packages = PACKAGE.findall(text)
            return UnsupportedData(
                Where(path=self.paths[file]),
                expected="blocks in a codec that fastavro decodes",
                found=f"the codec {text.partition(': ')[2] if not packages else text.partition(' ')[0]}",
                hint=f"It does with another package: pip install {packages[0]}" if packages else "",
            )
        found = f"{type(error).__name__} {error}".strip()[:160]
        return CorruptFile(Where(path=self.paths[file], offset=offset), expected=expected, found=found)

    @cached_property
    def _fields(self) -> list[dict[str, AvroField]]:
        every: list[dict[str, AvroField]] = []
        for file, path in enumerate(self.paths):
            where = Where(path=path)
            fields: dict[str, AvroField] = {}
            leaves = list(fields_of(self._head(file).writer_schema, where))  # refuses types that do not end
            _check_record_types(json.loads(self._head(file).metadata["avro.schema"]), where)
            for field in leaves:
                if field.name in fields and (self.given is None or field.name in self.given):
                    raise twice_error(where.at(feature=field.name))
                fields[field.name] = field
            for name, field in every[0].items() if every and self.given is None else ():
                if name not in fields or not _same_feature(fields[name], field):
                    found = f"{fields[name].type}" if name in fields else f"the fields {list(fields)}"
                    raise SchemaMismatch(
                        where.at(feature=name),
                        expected=f"{field.type}, as in {self.paths[0]}",
                        found=found,
                        hint="Open them as two sources, or name the features that they share: schema={...}.",
                    )
            every.append(fields)
        self._files.expect([self._files.signature(file) for file in range(len(self.paths))])
        return every

    def _own_schema(self) -> Schema:
        """The schema of the first file."""
        first, where = self._fields[0], Where(path=self.paths[0])
        stored = embedded_schema(self._head(0).metadata.get(KEY)) or Schema({})
        fits = {name for name, field in first.items() if name in stored and avro_type(stored[name]) == field.type}
        found = {
            name: stored[name] if name in fits and not stored[name].sparse else field.feature(where)
            for name, field in first.items()
        }
        texts = (self._head(file).metadata.get(KEY) for file in range(len(self.paths)))
        check_named_alike(Schema(found), self.paths, texts)
        return Schema(found)

    def _check_given(self, given: Schema) -> Schema:
        self._check_held(tuple(given), self._fields[0], "field", Where(path=self.paths[0]))
        return given

    @cached_property
    def index(self) -> RecordIndex:
        """The block offset of each record."""
        path = index_path(self.paths, format=self.format, on_corrupt="raise")
        signatures = [self._files.signature(number) for number in range(len(self.paths))]
        kept = load_index(path, self.paths)
        if kept is None or any(
            not file.signature.proves(found) for file, found in zip(kept.files, signatures, strict=True)
        ):
            wait_for_tick(signatures)
            starts = [self._scan(number) for number in range(len(self.paths))]
            files = [
                FileIndex(name, found, len(part))
                for name, found, part in zip(self.paths, signatures, starts, strict=True)
            ]
            kept = RecordIndex(files, np.concatenate(starts))
            save_index(kept, path)
        return kept

    def _scan(self, file: int) -> Indices:
        content = self._files.content(file)
        total = sum(self._files.content(number).size for number in range(len(self.paths)))
        offsets, counts, at = [], [], 0
        try:
            with Progress("indexing", content.size, "bytes") as bar:
                blocks = _open_blocks(content.buffer)
                named: dict[str, Any] = {}
                has_empty_items(blocks.writer_schema, named)
                is_limited = takes_bytes(blocks.writer_schema, named)
                for block in blocks:
                    # A record takes at least one byte, so a corrupt count cannot demand more memory than that.
                    most = block.bytes_.getbuffer().nbytes if is_limited else MOST_EMPTY
                    if not 0 <= block.num_records <= most:
                        raise ValueError(f"a block of {block.num_records} records")
                    offsets.append(block.offset)
                    counts.append(block.num_records)
                    read, at = block.offset + block.size - at, block.offset + block.size
                    bar.advance(read)
                    self._files.passed(read, of=total, first=file, last=file)
        except DataError:
            raise  # The file shrank.
        except DAMAGE as error:
            raise self._damage_error(file, error, "an intact block", at) from error
        return np.repeat(np.array(offsets, np.int64), np.array(counts, np.int64))

    @cached_property
    def _bounds(self) -> Indices:
        starts, firsts = self.index.starts, self.index.firsts
        with guard_reads(starts):  # may be a mapped index, which can shrink
            begins = np.flatnonzero(np.diff(starts, prepend=-1))
        return np.unique(np.concatenate((begins, firsts)))

    @property
    def _firsts(self) -> Indices:
        return self._bounds

    def _block_sizes(self) -> Indices:
        """The stored bytes of each block."""
        return np.array([record_bytes(self.index, *bounds) for bounds in pairwise(self._bounds.tolist())], np.int64)

    def _read_block(self, block: int, names: Sequence[str]) -> Batch:
        return self._read_rows(block, None, names)

    def _read_rows(self, block: int, rows: Indices | None, names: Sequence[str]) -> Batch:
        """These columns of some rows of a block; ``None``: of all."""
        first, stop = int(self._bounds[block]), int(self._bounds[block + 1])
        place = self.index.where(first)
        file = int(self.index.file_of(np.array([first]))[0])
        records = self._records(file, int(place.offset or 0), stop - first)
        records = records if rows is None else [records[row] for row in rows.tolist()]
        columns = {}
        self._check_held(names, self._fields[file], "field", place)
        for name in names:
            try:
                columns[name] = self._column(records, self._fields[file][name], name)
            except BadValue as bad:
                row = bad.row if rows is None else int(rows[bad.row])
                raise bad.at(self.index.where(first + row).at(feature=name)) from bad
        return columns

    def _records(self, file: int, offset: int, count: int) -> list[Any]:
        """The records of one block: the file's header followed by the block is itself a valid file."""
        content = self._files.content(file).buffer
        starts = self.index.part(file)
        header = int(starts[0])
        following = int(np.searchsorted(starts, offset, side="right"))
        stop = int(starts[following]) if following < len(starts) else len(content)
        module = _fastavro()
        alone = self._header(file, header) + _native.copy_bytes(content, offset, stop - offset)
        left = 0
        try:
            self._check_items(file, alone)
            if self.checks_ends:
                block = next(module.block_reader(io.BytesIO(alone)))
                records, left = list(block), len(block.bytes_.read())
            else:
                records = list(module.reader(io.BytesIO(alone)))
        except DAMAGE as error:
            raise self._damage_error(file, error, "an intact block", offset) from error
        if len(records) != count or left:
            found = f"{len(records)} records" + (f", and {left} bytes after them" if left else "")
            raise CorruptFile(
                Where(path=self.paths[file], offset=offset), expected=f"a block of {count} records", found=found
            )
        return records

    @cached_property
    def _empty_items(self) -> dict[int, dict[str, Any] | None]:
        """For each file with arrays of items that take no bytes, its named types; ``None`` for other files."""
        return {}

    def _check_items(self, file: int, alone: bytes) -> None:
        """Refuse blocks that claim more items without bytes than memory may hold: nothing in the file shows whether they are right."""
        if file not in self._empty_items:
            named: dict[str, Any] = {}
            self._empty_items[file] = named if has_empty_items(self._head(file).writer_schema, named) else None
        known = self._empty_items[file]
        if known is not None:
            block = next(_fastavro().block_reader(io.BytesIO(alone)))
            counter = ItemCounter(block.bytes_.read(), known)
            for _ in range(block.num_records):
                counter.skip(block.writer_schema)

    def _header(self, file: int, size: int) -> bytes:
        """The header of a file, with timestamps replaced by the integers that are stored.

        Args:
            file: The file.
            size: Where its first block with records begins. Blocks without any may be before it.
        """
        found = self._headers.get(file)
        if found is None:
            start = io.BytesIO(_native.copy_bytes(self._files.content(file).buffer, 0, size))
            _fastavro().block_reader(start)
            found = self._headers[file] = self._without_times(file, start.getvalue()[: start.tell()])
        return found

    def _without_times(self, file: int, header: bytes) -> bytes:
        if b"logicalType" not in header:
            return header
        metadata = self._head(file).metadata
        schema = json.dumps(without_times(json.loads(metadata["avro.schema"]))).encode()
        entries = {b"avro.schema": schema, b"avro.codec": str(metadata.get("avro.codec", "null")).encode()}
        packed = b"".join(_avro_bytes(key) + _avro_bytes(value) for key, value in entries.items())
        return MAGIC + _avro_long(len(entries)) + packed + _avro_long(0) + header[-SYNC_BYTES:]

    def _column(self, records: list[Any], field: AvroField, name: str) -> Any:
        values = _values_at(records, field.keys)
        feature = self.schema[name]
        change = plain(field.type, feature)
        values = values if change is None else [change(value) for value in values]
        return column_of(values, feature, stored_times(field.type, feature))

    def where(self, index: int) -> Where:
        """Path, number of the record in its file, and block offset."""
        return self.index.where(index)


def _values_at(items: list[Any], keys: Keys) -> list[Any]:
    """What is under these keys of each of some items; ``None`` where there is nothing."""
    for at, key in enumerate(keys):
        if key is None:
            return [None if item is None else _values_at(item, keys[at + 1 :]) for item in items]
        items = [None if item is None else item[key] for item in items]
    return items


def _check_record_types(kind: Any, where: Where) -> None:
    """Refuse record types without ``fields``, which fastavro takes for those of empty records. The header of a file has no checksum.

    Args:
        kind: A type, as the file has it.
        where: The file.

    Raises:
        CorruptFile: There is one.
    """
    if isinstance(kind, dict):
        if kind.get("type") in ("record", "error") and "fields" not in kind:
            found = f"{kind.get('name')!r} with {sorted(kind)}"
            raise CorruptFile(where, expected="a record type with fields, as all have", found=found)
        kind = [kind.get("type"), kind.get("items"), kind.get("values"), *kind.get("fields", ())]
    for inner in kind if isinstance(kind, list) else ():
        _check_record_types(inner, where)


def _same_feature(one: AvroField, other: AvroField) -> bool:
    """Whether two fields give the same feature, such as enums of other symbols."""
    try:
        return bool(one.type == other.type) or one.feature(Where()) == other.feature(Where())
    except UnsupportedData:
        return False


def _avro_long(number: int) -> bytes:
    """An Avro ``long``: zigzag, seven bits per byte."""
    left, out = (number << 1) ^ (number >> 63), bytearray()
    while left > 127:
        out.append(left & 127 | 128)
        left >>= 7
    return bytes([*out, left])


def _avro_bytes(content: bytes) -> bytes:
    return _avro_long(len(content)) + content


def _open_blocks(content: memoryview, most: int | None = None) -> Any:
    """A reader of the blocks of a file, of which it copies one at a time, or of its first bytes."""
    return _fastavro().block_reader(io.BufferedReader(MemoryFile(content, most), BUFFER_BYTES))


def _fastavro() -> Any:
    return require("fastavro", extra="avro")


class _CheckedTable(AvroTable):
    checks_ends = True


def verify_avro(table: AvroTable) -> Iterator[Checked]:
    """Read every block of every file, to its end."""
    return verify_blocks(_CheckedTable(table.paths, given=table.given))


def is_avro(head: bytes) -> bool:
    """Whether some first bytes are those of an Avro file."""
    return head.startswith(MAGIC)


def compression_of(paths: Sequence[str]) -> str:
    """The compression of the blocks."""
    table = AvroTable(paths)
    names = {str(table._head(number).metadata.get("avro.codec", "null")) for number in range(len(paths))}
    return ", ".join(sorted("none" if name == "null" else name for name in names))


FORMAT = Format(
    name="avro",
    suffixes=(".avro",),
    knows=is_avro,
    open=AvroTable,
    sink=AvroWriter,
    misfits=misfits,
    compressions=COMPRESSIONS,
    compression_of=compression_of,
    join=join_avro,
    verify=verify_avro,
)
