"""JSON Lines: one JSON object a line, read by pyarrow."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from headrace import _native
from headrace.contracts.records import Checked, Format, OnCorrupt, Skipped
from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Indices
from headrace.errors import DataError, SchemaMismatch, Where
from headrace.formats.index.index import RecordIndex
from headrace.formats.jsonl.numbers import any_beyond_exact, check_numbers
from headrace.formats.jsonl.types import BadLine, Found, array_at, damaged_lines, infer, misfits, parse, parse_types
from headrace.formats.jsonl.write import JsonLinesWriter
from headrace.formats.table.arrow import from_arrow
from headrace.formats.table.lines import LineFraming, line_index
from headrace.formats.table.values import BadValue, column_of
from headrace.io.cache.inflate import parse_compression
from headrace.io.local.fileset import FileSet
from headrace.io.local.open import size_on_disk

__all__ = ["FORMAT", "JsonLinesTable"]


SAMPLE = 256
"""Rows from which types are found."""
VERIFY_ROWS = 2048
SCANNED = ("_damaged", "_kept")


class JsonLinesTable:
    """The objects of some JSON Lines files, joined in order. Blank lines do not count.

    Random access is by an index of lines, built at first need and kept in the user's cache folder.

    Args:
        paths: The files.
        compression: ``"gzip"``, ``"zlib"``, ``"none"``; ``None`` finds out for each file from its content.
        on_corrupt: ``"skip"`` leaves out the lines that are no JSON object, which takes a pass over the files at first need.
        given: The features to read; by default those that the first 256 rows show.
    """

    format = "jsonl"

    def __init__(
        self,
        paths: Sequence[str],
        *,
        compression: str | None = None,
        on_corrupt: OnCorrupt = "raise",
        given: Schema | None = None,
    ) -> None:
        self.paths = tuple(paths)
        self.on_corrupt: OnCorrupt = on_corrupt
        self.given = given
        self._compression = parse_compression(compression)
        self._files = FileSet(self.paths, compression=self._compression, is_plain=LineFraming(self.format).is_plain)

    def with_schema(self, schema: Schema) -> JsonLinesTable:
        """The same rows read as other types."""
        found = JsonLinesTable(self.paths, compression=self._compression, on_corrupt=self.on_corrupt, given=schema)
        found.__dict__.update({name: self.__dict__[name] for name in SCANNED if name in self.__dict__})
        return found

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

    @cached_property
    def schema(self) -> Schema:
        """The given one, or what the first rows show."""
        if self.given is not None:
            return self.given
        features = {}
        for name, (_, feature) in self._found.items():
            if isinstance(feature, DataError):
                row = feature.where.record
                raise feature.relocated(Where(path=self.paths[0]) if row is None else self.where(row))
            features[name] = feature
        return Schema(features)

    @cached_property
    def _damaged(self) -> tuple[Indices, int]:
        """The lines that are left out, and how many bytes they have."""
        damaged: list[int] = []
        size = 0
        if self.on_corrupt == "skip":
            for start in range(0, len(self.index), VERIFY_ROWS):
                lines = self._lines_at(np.arange(start, min(start + VERIFY_ROWS, len(self.index))))
                bad = damaged_lines(lines)
                damaged += [start + number for number in bad]
                size += sum(len(lines[number]) for number in bad)
        return np.array(damaged, np.int64), size

    @cached_property
    def _kept(self) -> Indices | None:
        """The numbers of the lines that are left; ``None``: of all."""
        damaged = self._damaged[0]
        return np.delete(np.arange(len(self.index)), damaged) if len(damaged) else None

    @property
    def skipped(self) -> Skipped:
        """The lines that were left out."""
        damaged, size = self._damaged
        return Skipped(len(damaged), size)

    def __len__(self) -> int:
        return len(self.index) - len(self._damaged[0])

    def _lines(self, indices: Indices) -> list[bytes]:
        return self._lines_at(indices if self._kept is None else self._kept[indices])

    def _lines_at(self, indices: Indices) -> list[bytes]:
        index = self.index
        which, starts = index.locate(indices)
        index.compare_content(self._files, indices, which, starts)
        ends = index.ends(indices, lambda number: self._files.content(number).size)
        buffers, which = self._files.buffers(which)
        return _native.copy_ranges(buffers, which, starts, ends)

    def batch(self, indices: Indices, names: tuple[str, ...]) -> Batch:
        """Rows by index: their lines are parsed anew each time."""
        if len(indices) and not 0 <= int(indices.min()) <= int(indices.max()) < len(self):
            raise IndexError(f"rows {indices.min()} to {indices.max()} of {len(self)}")
        if not len(indices):
            return {name: column_of([], self.schema[name]) for name in names}
        lines = self._lines(indices)
        try:
            table = parse(lines, self._types(names))
        except BadLine as bad:
            raise bad.fault.relocated(self.where(int(indices[bad.number]))) from bad
        columns = {name: self._column(table, name, indices) for name in names}
        if any_beyond_exact(columns.values()):
            for name in names:
                self._column(table, name, indices, check=lines)
        return columns

    def _types(self, names: tuple[str, ...]) -> Any:
        """What the JSON reader is told to read; made once for the same names."""
        known: dict[tuple[str, ...], Any] = self.__dict__.setdefault("_types_of", {})
        if names not in known:
            known[names] = parse_types(self.schema, names, self._found)
        return known[names]

    def _column(self, table: Any, name: str, indices: Indices, check: Sequence[bytes] | None = None) -> Any:
        """A column; with ``check``, the lines that it was read from, it is held against them first."""
        # What the first rows do not show is a key of the row itself.
        keys = self._found[name][0] if name in self._found else (name,)
        array = array_at(table, keys)
        try:
            if check is not None:
                check_numbers(array, check, keys, rounds=self.given is not None)
            return from_arrow(array, self.schema[name])
        except BadValue as bad:
            where = self.where(int(indices[bad.row])).at(feature=name)
            raise SchemaMismatch(where, expected=bad.expected, found=bad.found, hint=bad.hint) from bad

    def where(self, index: int) -> Where:
        """Path, number of the row in its file, and where its line begins."""
        return self.index.where(index if self._kept is None else int(self._kept[index]))

    def __getstate__(self) -> dict[str, Any]:
        kept = {name: self.__dict__[name] for name in SCANNED if name in self.__dict__}
        return {
            **{name: getattr(self, name) for name in ("paths", "on_corrupt", "given", "_compression", "_files")},
            **kept,
        }

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
    """Whether some first bytes look like a JSON object on a line. Where the line ends in them, it must be one."""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not text.startswith(b"{") or text[1:].lstrip(b" \t")[:1] not in (b'"', b"}"):
        return False
    line, end, _ = text.partition(b"\n")
    try:
        return not end or isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


FORMAT = Format(
    name="jsonl",
    suffixes=(".jsonl", ".ndjson", ".jsonlines"),
    knows=is_jsonl,
    open=JsonLinesTable,
    options=frozenset({"on_corrupt"}),
    compressible=True,
    sink=JsonLinesWriter,
    misfits=misfits,
    verify=verify_jsonl,
)
