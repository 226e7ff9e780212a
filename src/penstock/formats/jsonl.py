"""JSON Lines: one JSON object a line, read by pyarrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from penstock import _native
from penstock.contracts.protocols import Indices
from penstock.contracts.records import Checked, Format, OnCorrupt, Skipped
from penstock.contracts.schema import Schema
from penstock.contracts.values import Batch
from penstock.errors import DataError, SchemaMismatch, UnsupportedData, Where
from penstock.formats.index import RecordIndex
from penstock.formats.jsonl_types import BadLine, Found, array_at, infer, misfits, parse, parse_types
from penstock.formats.jsonl_writer import JsonLinesWriter
from penstock.formats.tabular.arrow_columns import from_arrow
from penstock.formats.tabular.lines import LineFraming, line_index
from penstock.formats.tabular.values import BadValue, column_of
from penstock.io.compression import checked
from penstock.io.fileset import FileSet
from penstock.io.reading import size_on_disk

__all__ = ["FORMAT", "JsonLinesTable"]

SAMPLE = 256
"""Rows from which types are found."""
VERIFY_ROWS = 2048


class JsonLinesTable:
    """The objects of some JSON Lines files, joined in order. Blank lines do not count.

    Random access is by an index of lines, built at first need and kept in the user's cache folder.

    Args:
        paths: The files.
        compression: ``"gzip"``, ``"zlib"``, ``"none"``; ``None`` finds out for each file from its content.
        on_corrupt: Only ``verify`` tells damaged lines from sound ones, so nothing is skipped.
        verify: There are no checksums.
        given: The features to read; by default those that the first 256 rows show.
    """

    format = "jsonl"

    def __init__(
        self,
        paths: Sequence[str],
        *,
        compression: str | None = None,
        on_corrupt: OnCorrupt = "raise",  # noqa: ARG002 - every format takes it
        verify: bool = True,  # noqa: ARG002
        given: Schema | None = None,
    ) -> None:
        self.paths = tuple(paths)
        self.given = given
        self._compression = checked(compression)
        self._files = FileSet(self.paths, compression=self._compression, is_plain=LineFraming(self.format).is_plain)

    def with_schema(self, schema: Schema) -> JsonLinesTable:
        """The same rows read as other types."""
        return JsonLinesTable(self.paths, compression=self._compression, given=schema)

    @cached_property
    def index(self) -> RecordIndex:
        """Where the lines are."""
        return line_index(self.format, self._files, self._compression)

    @cached_property
    def _found(self) -> Found:
        """What the first rows show."""
        rows = min(SAMPLE, len(self))
        try:
            return infer(self._lines(np.arange(rows))) if rows else {}
        except BadLine as bad:
            raise bad.fault.relocated(self.where(bad.number)) from bad
        except UnsupportedData as error:
            raise error.relocated(Where(path=self.paths[0])) from error

    @cached_property
    def schema(self) -> Schema:
        """The given one, or what the first rows show."""
        if self.given is not None:
            return self.given
        return Schema({name: feature for name, (_, feature) in self._found.items()})

    @cached_property
    def _keys(self) -> Found:
        """Where features that are deep in objects are; what the first rows do not show is a key of the row itself."""
        try:
            return self._found
        except UnsupportedData:
            return {}

    @property
    def skipped(self) -> Skipped:
        """Nothing is ever skipped."""
        return Skipped()

    def __len__(self) -> int:
        return len(self.index)

    def _lines(self, indices: Indices) -> list[bytes]:
        index = self.index
        which, starts = index.locate(indices)
        ends = index.ends(indices, lambda number: self._files.content(number).size)
        buffers, which = self._files.buffers(which)
        return _native.copy_ranges(buffers, which, starts, ends)

    def batch(self, indices: Indices, names: tuple[str, ...]) -> Batch:
        """Rows by index: their lines are parsed anew each time."""
        if len(indices) and not 0 <= int(indices.min()) <= int(indices.max()) < len(self):
            raise IndexError(f"rows {indices.min()} to {indices.max()} of {len(self)}")
        if not len(indices):
            return {name: column_of([], self.schema[name]) for name in names}
        try:
            table = parse(self._lines(indices), parse_types(self.schema, names, self._keys))
        except BadLine as bad:
            raise bad.fault.relocated(self.where(int(indices[bad.number]))) from bad
        return {name: self._column(table, name, indices) for name in names}

    def _column(self, table: Any, name: str, indices: Indices) -> Any:
        keys = self._keys[name][0] if name in self._keys else (name,)
        try:
            return from_arrow(array_at(table, keys), self.schema[name])
        except BadValue as bad:
            where = self.where(int(indices[bad.row])).at(feature=name)
            raise SchemaMismatch(where, expected=bad.expected, found=bad.found, hint=bad.hint) from bad

    def where(self, index: int) -> Where:
        """Path, number of the row in its file, and where its line begins."""
        return self.index.where(index)

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("paths", "given", "_compression", "_files")}

    def __repr__(self) -> str:
        files = repr(self.paths[0]) if len(self.paths) == 1 else f"{len(self.paths)} files"
        return f"JsonLinesTable({files})"


def verify_jsonl(table: JsonLinesTable) -> Iterator[Checked]:
    """Every line of every file: whether it is an object, and of the types that the first ones (or the schema) have."""
    for path in table.paths:
        yield from _verify_file(JsonLinesTable([path], compression=table._compression, given=table.given), path)


def _verify_file(table: JsonLinesTable, path: str) -> Iterator[Checked]:
    size, counted = size_on_disk(path), 0
    try:
        rows, names = len(table), tuple(table.schema)
    except DataError as fault:
        yield Checked(path, 0, size, [fault])
        return
    for start in range(0, rows, VERIFY_ROWS):
        stop = min(start + VERIFY_ROWS, rows)
        part = size * stop // rows - counted
        counted += part
        faults = _faults(table, names, np.arange(start, stop))
        yield Checked(path, stop - start - len(faults), part, faults)
    yield Checked(path, 0, size - counted)


def _faults(table: JsonLinesTable, names: tuple[str, ...], rows: Indices) -> list[DataError]:
    """One for each row at fault: rows are read together, and where that fails one by one."""
    try:
        table.batch(rows, names)
    except DataError as fault:
        if len(rows) == 1:
            return [fault]
        return [found for row in rows for found in _faults(table, names, np.array([row]))]
    return []


def is_jsonl(head: bytes) -> bool:
    """Whether some first bytes look like a JSON object on a line."""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    return text.startswith(b"{") and text[1:].lstrip(b" \t")[:1] in (b'"', b"}")


FORMAT = Format(
    name="jsonl",
    suffixes=(".jsonl", ".ndjson", ".jsonlines"),
    knows=is_jsonl,
    open=JsonLinesTable,
    compressible=True,
    sink=JsonLinesWriter,
    misfits=misfits,
    verify=verify_jsonl,
)
