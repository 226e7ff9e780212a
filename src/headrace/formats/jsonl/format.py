"""JSON Lines: one JSON object per line, read by native code and pyarrow. Blank lines do not count."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.contracts.feature import Feature
from headrace.contracts.records import Checked, Format, OnCorrupt, Skipped
from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Indices
from headrace.errors import CorruptFile, DataError, Where
from headrace.formats.framed.scan import Framing
from headrace.formats.index.build import record_index
from headrace.formats.index.index import RecordIndex
from headrace.formats.index.parts import IndexRequest
from headrace.formats.index.places import record_bytes
from headrace.formats.jsonl.keys import array_at, find_keys, keep_keys, parse_types
from headrace.formats.jsonl.numbers import any_beyond_exact, check_numbers
from headrace.formats.jsonl.plain import PlainDecoder, as_strings, infer_plain, plain_decoder
from headrace.formats.jsonl.types import BadLine, Found, damage_of, damaged_lines, infer, parse
from headrace.formats.jsonl.write import JsonLinesWriter, misfits
from headrace.formats.table.arrow import from_arrow
from headrace.formats.table.arrow_types import refuse_unreadable
from headrace.formats.table.base import InferredTable, verify_rows
from headrace.formats.table.copies import ParsedRows
from headrace.formats.table.values import BadValue, Keys
from headrace.io.cache.findings import Findings
from headrace.io.cache.inflate import parse_compression
from headrace.io.local.fileset import Buffers, FileSet
from headrace.io.system import cached_property

__all__ = ["FORMAT", "JsonLinesTable", "LineFraming"]


SAMPLE = 256
"""Number of rows for type inference."""
LATER_FILES, LATER_ROWS = 8, 16
"""Of so many later files so many first rows are looked at, too."""
KEPT_BYTES, MOST_KEPT_FILES = 1 << 20, 64
"""The features of rows of at least so many bytes, of at most so many files, are kept for the next time that the files are opened."""
VERIFY_ROWS = 2048
MOST_KEPT_SETS = 4
"""Of so many sets of columns the rows are kept."""


class LineFraming(Framing):
    """The framing of lines, for indexing only.

    Args:
        name: The name of the format.
    """

    has_checksums = False

    def __init__(self, name: str) -> None:
        self.name = name

    def is_plain(self, head: bytes) -> bool:
        """Text never looks compressed."""
        return not head.startswith(b"\x1f\x8b") and head[:1].isascii() and head[:1] != b"x"

    def scan(
        self, buffer: memoryview, start: int, stop: int, *, verify: bool, max_records: int, last: bool = True
    ) -> tuple[Indices, int]:
        """Starts of the lines that begin in ``[start, stop)``, and where the next one begins. A line begins at ``start``."""
        del verify, max_records, last
        return _native.scan_lines(buffer, start, stop)

    def find(self, buffer: memoryview, start: int) -> int:
        """Where the first line at or after ``start`` begins; -1 if there is none."""
        found = _native.find_line(buffer, start)
        return found if found < len(buffer) else -1

    def fault_at(self, error: Any, path: str | None, record: int, base: int) -> DataError:
        """Required by :class:`Framing`; lines themselves have no faults."""
        return CorruptFile(Where(path=path, record=record, offset=base), expected="lines", found=str(error))


class JsonLinesTable(InferredTable):
    """The objects of JSON Lines files, concatenated in order. Blank lines do not count.

    Random access uses an index of lines, built on first use and stored in the user's cache folder.

    Args:
        paths: The files.
        compression: ``"gzip"``, ``"zlib"``, ``"none"``; ``None`` detects it for each file from its content.
        on_corrupt: ``"skip"`` skips lines that are not JSON objects, which takes one pass over the files on first use.
        given: The features to read; by default those found in the first 256 rows, and in the first rows of a few later files.
    """

    format = "jsonl"
    pickled: ClassVar[tuple[str, ...]] = ("_files", "_damaged", "_kept", "_inferred")
    sampled: ClassVar[int] = SAMPLE

    def __init__(
        self,
        paths: Sequence[str],
        *,
        compression: str | None = None,
        on_corrupt: OnCorrupt = "raise",
        given: Schema | None = None,
    ) -> None:
        super().__init__(paths, given=given)
        self.on_corrupt: OnCorrupt = on_corrupt
        self._compression = parse_compression(compression)
        self._columns: tuple[str, ...] | None = None
        self._infers_from_intact = False

    def with_schema(self, schema: Schema) -> Self:
        """The same rows read as other types. Other keys are not looked at, so they may hold anything."""
        return super().with_schema(schema)._forget_damage()

    def only(self, names: tuple[str, ...]) -> Self:
        """The same rows with these columns. Other keys are not looked at, so they may hold anything."""
        found = copy(self)
        found._columns = names or None
        return found._forget_damage()

    def _forget_damage(self) -> Self:
        """Forget which lines are damaged, because that depends on the columns."""
        for name in ("_damaged", "_kept"):
            self.__dict__.pop(name, None)
        return self

    @cached_property
    def _files(self) -> FileSet:
        return FileSet(self.paths, compression=self._compression, is_plain=LineFraming(self.format).is_plain)

    @cached_property
    def index(self) -> RecordIndex:
        """The offsets of the lines."""
        return record_index(LineFraming(self.format), self._files, on_corrupt="raise", compression=self._compression)

    def index_request(self) -> IndexRequest:
        """What the index is made from, for making it elsewhere."""
        return IndexRequest(LineFraming(self.format), self.paths, "raise", self._compression)

    def _first_rows(self) -> Indices:
        """The rows for type inference: the first ones, and those of a few later files."""
        starts = self.index.firsts[1:-1]  # as numbers of lines
        if self._kept is not None:
            starts = np.searchsorted(self._kept, starts)
        starts = starts[starts >= SAMPLE]
        if len(starts) > LATER_FILES:
            starts = starts[np.linspace(0, len(starts) - 1, LATER_FILES).astype(np.int64)]
        later = (starts[:, None] + np.arange(LATER_ROWS)).reshape(-1)
        rows = np.unique(np.concatenate([np.arange(min(SAMPLE, len(self))), later[later < len(self)]]))
        if not self._infers_from_intact or not len(rows):
            return rows
        return np.delete(rows, damaged_lines(self._lines(rows), None, None))

    @cached_property
    def _inferred(self) -> tuple[Found, Indices]:
        """The features found in the first rows, and those rows."""
        rows = self._first_rows()
        while len(rows):
            try:
                return self._infer_or_recall(rows), rows
            except BadLine as bad:
                row = int(rows[bad.number])
                if row < SAMPLE:
                    raise bad.fault.relocated(self.where(row)) from bad
                rows = rows[rows < SAMPLE]  # The row of a later file is an error only where it is read.
        return {}, rows

    def _infer_or_recall(self, rows: Indices) -> Found:
        """The features of some rows, from the cache if the files are those of an earlier time."""
        if self.on_corrupt != "raise" or self._files.is_remote or len(self.paths) > MOST_KEPT_FILES:
            return self._infer(self._lines(rows))
        findings = Findings(self._files, "features", 1, self._compression, self._columns, rows.tolist())
        kept = findings.load()
        if kept is not None:
            return {name: (tuple(keys), Feature(dtype, tuple(shape))) for name, keys, dtype, shape in kept}
        for number in range(len(self.paths)):
            findings.sign(number)
        lines = self._lines(rows)
        found = self._infer(lines)
        if sum(map(len, lines)) >= KEPT_BYTES:
            features = {name: pair[1] for name, pair in found.items() if isinstance(pair[1], Feature)}
            if len(features) == len(found) and all(f == Feature(f.dtype, f.shape) for f in features.values()):
                findings.save([(name, found[name][0], f.dtype, f.shape) for name, f in features.items()])
        return found

    def _infer(self, lines: Sequence[bytes]) -> Found:
        if self._columns is not None:
            kept = keep_keys(lines, self._columns)
            found = infer_plain(kept) or infer(kept)
            if all(name in found for name in self._columns):
                return found
            # The error about a name that is not there shows all that are.
        return infer_plain(lines) or infer(lines)

    def _of_files(self, paths: Sequence[str]) -> Self:
        some = type(self)(paths, compression=self._compression, given=self.given)
        some._infers_from_intact = True  # They are verified.
        return some

    def _take_types(self, other: Self) -> None:
        # An error of a column names a row of the other files.
        found, rows = other._inferred
        if self.given is None and not any(isinstance(feature, DataError) for _, feature in found.values()):
            self.__dict__["_inferred"] = found, rows[:0]

    @cached_property
    def _paths(self) -> Mapping[str, Keys]:
        """The keys that lead to each feature."""
        if self.given is None:
            return {name: keys for name, (keys, _) in self._inferred[0].items()}
        if not any("/" in name for name in self.given):
            return {}
        try:
            return find_keys(self._lines_at(np.arange(min(SAMPLE, len(self.index)))), tuple(self.given))
        except DataError as error:
            raise error.relocated(Where(path=self.paths[0])) from error

    def _check_given(self, given: Schema) -> Schema:
        """The given schema, after finding its keys."""
        refuse_unreadable(given, Where(path=self.paths[0]))
        _ = self._paths  # raises if keys of two kinds give one name
        return given

    def _own_schema(self) -> Schema:
        features = {}
        found, rows = self._inferred
        for name, (_, feature) in found.items():
            if isinstance(feature, DataError):
                row = feature.where.record
                raise feature.relocated(Where(path=self.paths[0]) if row is None else self.where(int(rows[row])))
            features[name] = feature
        return Schema(features)

    @cached_property
    def _damaged(self) -> tuple[Indices, int]:
        """The damaged lines, and their total size in bytes."""
        damaged: list[int] = []
        size = 0
        if self.on_corrupt == "skip":
            types = None if self.given is None else parse_types(self.given, tuple(self.given), self._paths)
            names = self._columns if self.given is None else tuple(self.given)
            for start in range(0, len(self.index), VERIFY_ROWS):
                lines = self._lines_at(np.arange(start, min(start + VERIFY_ROWS, len(self.index))))
                bad = damaged_lines(lines, types, names)
                damaged += [start + number for number in bad]
                size += sum(len(lines[number]) for number in bad)
        return np.array(damaged, np.int64), size

    @cached_property
    def _kept(self) -> Indices | None:
        """The numbers of the lines kept; ``None``: all."""
        damaged = self._damaged[0]
        return np.delete(np.arange(len(self.index)), damaged) if len(damaged) else None

    @property
    def skipped(self) -> Skipped:
        """The skipped lines."""
        damaged, size = self._damaged
        return Skipped(len(damaged), size)

    def __len__(self) -> int:
        return len(self.index) - len(self._damaged[0])

    def stored_bytes(self, first: int, stop: int) -> int:
        """About how many bytes the lines of the rows from ``first`` up to ``stop`` take, with what lies between them."""
        if self._kept is None:
            return record_bytes(self.index, first, stop)
        return record_bytes(self.index, int(self._kept[first]), int(self._kept[stop - 1]) + 1)

    def _lines(self, indices: Indices) -> list[bytes]:
        return self._lines_at(indices if self._kept is None else self._kept[indices])

    def _lines_at(self, indices: Indices) -> list[bytes]:
        return _native.copy_ranges(*self._places_of(indices))

    def _places_of(self, indices: Indices) -> tuple[Buffers, npt.NDArray[np.int32] | None, Indices, Indices]:
        """The buffers, the buffer of each line, and where each begins and ends in it."""
        index = self.index
        which, starts = index.locate(indices)
        index.compare_content(self._files, indices, which, starts)
        ends = index.ends(indices, lambda number: self._files.content(number).size)
        buffers, which = self._files.buffers(which)
        return buffers, which, starts, ends

    def _rows(self, indices: Indices, names: tuple[str, ...]) -> Batch:
        parsed = self._parsed.get(names)
        if parsed is None:
            if len(self._parsed) == MOST_KEPT_SETS:
                self._parsed.clear()
            parsed = self._parsed[names] = ParsedRows(len(self))
        return parsed.read(indices, partial(self._parse, names=names))

    @cached_property
    def _parsed(self) -> dict[tuple[str, ...], ParsedRows]:
        """For each set of names the rows, which later epochs copy."""
        return {}

    def _parse(self, indices: Indices, names: tuple[str, ...]) -> Batch:
        """Parse the lines.

        Native code decodes plain lines. If any other is among them, pyarrow's reader takes them all, and reports damage.
        """
        is_given = self.given is not None
        only_known = not is_given and self._columns is None and len(names) == len(self.schema)
        if names not in self._decoders:
            self._decoders[names] = plain_decoder(
                self.schema, names, self._paths, exact=not is_given, only_known=only_known
            )
        decoder = self._decoders[names]
        if decoder is not None:
            places = self._places_of(indices if self._kept is None else self._kept[indices])
            plain = decoder.decode(*places)
            if plain is not None:
                return plain
        lines = self._lines(indices)
        try:
            table = parse(lines, self._types(names), is_given=is_given, only_known=only_known)
        except BadLine as bad:
            raise bad.fault.relocated(self.where(int(indices[bad.number]))) from bad
        columns = {name: self._column(table, name, indices, lines) for name in names}
        if any_beyond_exact(columns.values()):
            for name in names:
                self._column(table, name, indices, lines, check=True)
        return columns

    @cached_property
    def _decoders(self) -> dict[tuple[str, ...], PlainDecoder | None]:
        """For each set of names what decodes plain lines; ``None`` where nothing does."""
        return {}

    @cached_property
    def _types_of(self) -> dict[tuple[str, ...], Any]:
        return {}

    def _types(self, names: tuple[str, ...]) -> Any:
        """The types passed to the JSON reader, computed once per set of names."""
        if names not in self._types_of:
            self._types_of[names] = parse_types(self.schema, names, self._paths)
        return self._types_of[names]

    def _column(self, table: Any, name: str, indices: Indices, lines: Sequence[bytes], *, check: bool = False) -> Any:
        """A column of these lines. With ``check``, it is checked against them first."""
        # A feature not found in the first rows is a top-level key.
        keys = self._paths.get(name, (name,))
        array = array_at(table, keys)
        try:
            if check:
                check_numbers(array, lines, keys, rounds=self.given is not None)
            return as_strings(from_arrow(array, self.schema[name]))
        except BadValue as bad:
            where = self.where(int(indices[bad.row])).at(feature=name)
            damage = damage_of(bytes(lines[bad.row]).strip())  # such as text that is not UTF-8
            raise (bad.at(where) if damage is None else damage.relocated(where)) from bad

    def where(self, index: int) -> Where:
        """Path, number of the row in its file, and where its line begins."""
        return self.index.where(index if self._kept is None else int(self._kept[index]))


def verify_jsonl(table: JsonLinesTable) -> Iterator[Checked]:
    """Check that every line is an object of the types found in the first intact lines, or given by the schema."""
    for part in table.parts():
        yield from verify_rows(part, part.paths[0], step=VERIFY_ROWS)


def is_jsonl(head: bytes) -> bool:
    """Whether these first bytes look like a JSON object on a line. If the line is complete, it must parse."""
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
    joined_writer=JsonLinesWriter,
    misfits=misfits,
    verify=verify_jsonl,
)
