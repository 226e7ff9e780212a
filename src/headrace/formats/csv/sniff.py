"""Detect the dialect of a CSV file from its first rows."""

from __future__ import annotations

import codecs
import contextlib
import re
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from headrace import _native
from headrace.contracts.csv import CSV, CsvDialect, is_direct
from headrace.errors import CorruptFile, DataError, SchemaMismatch, UnsupportedData, Where
from headrace.formats.csv.framing import BOM, QUOTE_HINT, CsvFraming, first_row, preamble
from headrace.formats.csv.header import DELIMITERS, NUMBERS, is_headed
from headrace.io.cache.inflated import decode_head
from headrace.io.encodings import encoding_hint

__all__ = ["SNIFFED_BYTES", "is_text", "looks_like_rows", "read_head", "sniff", "transcoding"]


SNIFFED_BYTES, MOST_SNIFFED = 256 << 10, 64 << 20
LEAST_LINES = 3  # that bytes should hold: the header and some rows
SNIFFED_ROWS = 200
UTF_16_MARKS = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
NUL_SHARE = 0.1
LINE_END = re.compile(rb"[\r\n]")


class _Rows(NamedTuple):
    """The first rows, split by one delimiter."""

    dialect: CsvDialect
    spans: _native.Spans
    width: int
    agreeing: int
    """The number of leading rows as wide as the first."""


def transcoding(head: bytes, encoding: str | None) -> str:
    """The encoding of a file that must be transcoded to UTF-8, such as ``"utf-16-le"``; else ``""``."""
    marked = UTF_16_MARKS.get(head[:2], "")
    if encoding is None:
        return marked if head[2:4] != b"\0\0" else ""
    if encoding == "utf-16":
        return marked or "utf-16-le"
    return "" if is_direct(encoding) else encoding


def is_text(head: bytes) -> bool:
    """Whether these first bytes may be text: UTF-16 with a byte order mark, or free of control characters."""
    transcode = transcoding(head, None)
    text = decode_head(head, transcode) if transcode else head
    return bool(text) and CsvFraming(CsvDialect()).is_plain(text)


def read_head(read: Callable[[int], bytes]) -> bytes:
    """The first bytes of a file, by a function that reads as many as it is told: more if they hold few lines, as in tables of many thousand columns."""
    size = SNIFFED_BYTES
    while len(head := read(size)) == size < MOST_SNIFFED:
        if any(head.count(end) >= LEAST_LINES for end in (b"\n", b"\r")):
            break
        size *= 4
    return head


def looks_like_rows(head: bytes, *, whole: bool) -> bool:
    """Whether these first bytes are certainly CSV: at least two rows, all with the same number of fields, at least two.

    Possible JSON and single columns do not qualify: those need a file name or an explicit format.

    Args:
        head: First bytes of the file, decompressed.
        whole: Whether ``head`` is the whole file.
    """
    transcode = transcoding(head, None)
    text = decode_head(head, transcode) if transcode else head
    begins = text.removeprefix(BOM).lstrip()[:1]
    if not is_text(head) or begins in (b"{", b"[", b"<") or b"\n{" in text:
        return False
    delimiters = (_find_stated_delimiter(text),) if _find_stated_delimiter(text) else DELIMITERS
    return any(_agree(text, CsvDialect(delimiter=mark), whole=whole) for mark in delimiters)


def _agree(head: bytes, dialect: CsvDialect, *, whole: bool) -> bool:
    """Whether all first rows have as many fields as the first one, and more than one."""
    buffer = memoryview(head)
    try:
        at, end = first_row(buffer, dialect, last=whole)
        width = len(_native.values_of_csv(bytes(buffer[at:end]).rstrip(b"\r\n"), dialect.marks))
        starts, _ = _native.scan_csv(
            head, at, len(head), dialect.marks, width=width, utf8=False, last=whole, max_records=SNIFFED_ROWS
        )
    except _native.FormatError:
        return False
    return width > 1 and len(starts) > 1


def sniff(head: bytes, path: str, options: CSV, *, whole: bool, transcode: str = "") -> CsvDialect:
    """The dialect and column names of a file.

    Args:
        head: Its first bytes, decompressed, and as UTF-8 if transcoded.
        path: Its name, for errors and for the file extension.
        options: What the caller specified.
        whole: Whether ``head`` is the whole file.
        transcode: The original encoding, if the file is transcoded.

    Raises:
        CorruptFile: The first row is broken.
        UnsupportedData: The file is not text.
        SchemaMismatch: There are more or fewer columns than names.
    """
    _check_text(head, path, options)
    dialect = CsvDialect(
        quote=options.quote,
        decimal=options.decimal,
        encoding="utf-8" if transcode else (options.encoding or "utf-8").removesuffix("-sig"),
        transcode=transcode,
        missing=options.missing,
        types=options.types,
        floats=options.floats,
    )
    rows = _cut(head, path, dialect, options, whole=whole)
    dialect = rows.dialect
    if isinstance(options.header, tuple):
        _check_names(options.header, rows, path)
        return replace(dialect, names=options.header)
    if not rows.width:
        return dialect
    values = _values(rows, 0)
    headed = options.header
    if headed is None:
        names = {value.strip() for value in values}
        is_known = bool(options.types) and names.issuperset(dialect.encode(name) for name in options.types or ())
        headed = is_known or is_headed(rows.spans, dialect, values)
    if not headed:
        return replace(dialect, names=tuple(f"c{k}" for k in range(rows.width)))
    return replace(dialect, names=_names(values, dialect, path), header=tuple(value.strip() for value in values))


def _check_text(head: bytes, path: str, options: CSV) -> None:
    if head[:4] in (b"\xff\xfe\0\0", b"\0\0\xfe\xff"):
        hint = "Open it with format=hr.CSV(encoding='utf-32')."
        raise UnsupportedData(Where(path=path), expected="UTF-8 or UTF-16", found="UTF-32", hint=hint)
    if options.encoding is None and head.count(0) > NUL_SHARE * len(head) and not _is_utf8_below_header(head):
        raise UnsupportedData(
            Where(path=path, offset=head.index(0)),
            expected="text",
            found="NUL bytes",
            hint="If it is UTF-16 without a byte order mark, pass format=hr.CSV(encoding='utf-16-le').",
        )


def _is_utf8_below_header(head: bytes) -> bool:
    """Whether bytes with many NULs are UTF-8 after all: values may hold NULs. In UTF-16, a header of a few letters has some, too."""
    if b"\0" in LINE_END.split(head, 1)[0]:
        return False
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)  # the last character may be cut
    except UnicodeDecodeError:
        return False
    return True


def _cut(head: bytes, path: str, dialect: CsvDialect, options: CSV, *, whole: bool) -> _Rows:
    """The first rows under the best delimiter."""
    if options.delimiter is not None:
        return _rows(head, path, replace(dialect, delimiter=options.delimiter), whole=whole)
    stated = _find_stated_delimiter(head)
    if stated:
        return _rows(head, path, replace(dialect, delimiter=stated), whole=whole)
    known = [mark for mark in DELIMITERS if mark not in (options.quote, options.decimal)]
    tried: list[_Rows] = []
    for mark in known:
        with contextlib.suppress(DataError):  # Quotes may be broken under this delimiter but not under another.
            tried.append(_rows(head, path, replace(dialect, delimiter=mark), whole=whole, least=2))
    several = [rows for rows in tried if rows.width > 1 and not _splits_first_row_only(rows)]
    if not several:
        plain = "\t" if path.lower().endswith((".tsv", ".tab")) else ";" if options.decimal == "," else ","
        return _rows(head, path, replace(dialect, delimiter=plain), whole=whole)
    most = max(rows.agreeing / max(1, len(rows.spans)) for rows in several)
    best = [rows for rows in several if rows.agreeing / max(1, len(rows.spans)) == most]
    return max(best, key=lambda rows: (_number_share(rows), rows.width))


def _find_stated_delimiter(head: bytes) -> str:
    """The delimiter stated by Excel's line ``sep=;``."""
    at = len(BOM) if head.startswith(BOM) else 0
    return head[at + 4 : at + 5].decode("ascii", "ignore") if preamble(memoryview(head)) > at else ""


def _rows(head: bytes, path: str, dialect: CsvDialect, *, whole: bool, least: int = 0) -> _Rows:
    """The first rows; none if the first one has fewer than ``least`` fields."""
    buffer = memoryview(head)
    try:
        at, end = first_row(buffer, dialect, last=whole)
    except _native.FormatError as error:
        at, end = _broken(error, buffer, path, dialect)
    width = len(_native.values_of_csv(bytes(buffer[at:end]).rstrip(b"\r\n"), dialect.marks)) if at != end else 0
    if at == end or width < least:
        return _Rows(dialect, _native.gather_csv([head], None, np.zeros(0, np.int64), dialect.marks), width, 0)
    starts = _starts(head, at, dialect, 0, whole=whole)
    agreeing = len(_starts(head, at, dialect, width, whole=whole))
    return _Rows(dialect, _native.gather_csv([head], None, starts, dialect.marks), width, agreeing)


def _starts(head: bytes, at: int, dialect: CsvDialect, width: int, *, whole: bool) -> np.ndarray:
    try:
        starts, _ = _native.scan_csv(
            head, at, len(head), dialect.marks, width=width, utf8=False, last=whole, max_records=SNIFFED_ROWS
        )
    except _native.FormatError as error:
        return np.asarray(error.starts)
    return starts


def _broken(error: _native.FormatError, buffer: memoryview, path: str, dialect: CsvDialect) -> tuple[int, int]:
    if error.fault == "truncated" and len(buffer) >= SNIFFED_BYTES:
        expected, found = f"a first row within {len(buffer)} bytes", "a longer one, or a quote that is not closed"
        raise CorruptFile(
            Where(path=path, record=0, offset=error.offset), expected=expected, found=found, hint=QUOTE_HINT
        )
    raise CsvFraming(dialect).fault_at(error, path, 0, 0)


def _splits_first_row_only(rows: _Rows) -> bool:
    """Whether a delimiter is only in the first of several rows, as in the name ``temp;C`` of a single column."""
    if rows.agreeing > 1 or len(rows.spans) < 2:
        return False
    return all(len(_values(rows, number)) == 1 for number in range(1, len(rows.spans)))


def _number_share(rows: _Rows) -> float:
    """The share of fields that are numbers. A comma counts as a decimal mark unless it is the delimiter."""
    decimal = "," if rows.dialect.delimiter == ";" else rows.dialect.decimal
    shares = []
    for mark in {decimal, rows.dialect.decimal}:
        marks = (rows.dialect.delimiter, rows.dialect.quote, mark)
        facts = _native.examine_csv(rows.spans, marks, rows.width, list(rows.dialect.missing))
        total = sum(sum(fact[kind] for kind in (*NUMBERS, "text", "empty", "missing")) for fact in facts)
        shares.append(sum(fact[kind] for fact in facts for kind in NUMBERS) / max(1, total))
    return max(shares)


def _values(rows: _Rows, number: int) -> list[bytes]:
    return _native.values_of_csv(rows.spans.view(number), rows.dialect.marks)


def _names(values: list[bytes], dialect: CsvDialect, path: str) -> tuple[str, ...]:
    """The names, stripped. Empty ones become ``c`` plus their number; repeated ones get ``.1``, ``.2``, ..."""
    names: dict[str, None] = {}  # in order; a list would be searched for every column
    again: dict[str, int] = {}  # the last number that each repeated name got
    for number, value in enumerate(values):
        try:
            text = value.decode(dialect.encoding).strip() or f"c{number}"
        except UnicodeDecodeError as error:
            raise CorruptFile(
                Where(path=path),
                expected=f"a header in {dialect.encoding}",
                found=repr(value[:40]),
                hint=encoding_hint(value),
            ) from error
        name = text
        while name in names:
            again[text] = again.get(text, 0) + 1
            name = f"{text}.{again[text]}"
        names[name] = None
    return tuple(names)


def _check_names(names: tuple[str, ...], rows: _Rows, path: str) -> None:
    if rows.width and rows.width != len(names):
        raise SchemaMismatch(
            Where(path=path), expected=f"{len(names)} columns, as header= names them", found=f"{rows.width}"
        )
