"""Whether the first row of a CSV file names the columns, and names that are written so that they are recognised."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator, Sequence
from itertools import compress

import numpy as np

from headrace import _native
from headrace.contracts.csv import MISSING, CsvDialect, Marks
from headrace.errors import UnsupportedData, Where

__all__ = ["DELIMITERS", "NUMBERS", "check_names", "is_headed", "needs_quotes"]


DELIMITERS = ("\t", ",", ";", "|")
"""Those that are tried where none is given."""
NUMBERS = ("whole", "positive", "huge", "real", "boolean")
LEAST_COUNTED = 4  # pandas writes the header 0, 1, 2, 3 for unnamed columns; a row 0, 1 may be data
NAME = re.compile(r"[^\W\d][\w .:()\[\]%#@&+*'-]{0,63}")
MOST_SEARCHED = 2 << 20  # bytes that are searched for the names before rows are split: all the text, for each name
MOST_INDEXED = 1000  # rows in which counts are compared
MOST_SPLIT = 20_000  # fields that are looked at one by one
NULL = b"\\N"
"""What databases write for a missing value, without quotes where they quote all others."""


def is_headed(spans: _native.Spans, dialect: CsvDialect, first: list[bytes]) -> bool:
    """Whether the first row names the columns.

    It does if a column has numbers below text, or if the names are the counts that pandas writes. If everything is text, it does if its
    fields look like names and do not recur below; the first may be empty above different counts, because pandas writes its index so.
    In any other case, it does if a name has quotes that it does not need above fields without such quotes.

    Args:
        spans: The first rows.
        dialect: How they are split.
        first: The values of the first row.
    """
    names = [value.strip() for value in first]
    if _is_counted(names):
        return True
    marks, missing, width = dialect.marks, list(dialect.missing), len(first)
    top = _native.examine_csv(spans.part(0, 1), marks, width, missing)
    below = _native.examine_csv(spans.part(1, len(spans)), marks, width, missing)
    if any(a["text"] and not b["text"] and any(b[kind] for kind in NUMBERS) for a, b in zip(top, below, strict=True)):
        return True
    first_named = 1 if width > 1 and not names[0] and _is_index(spans, dialect) else 0
    is_text = not any(a[kind] for a in top[first_named:] for kind in (*NUMBERS, "missing"))
    texts = [name.decode(dialect.encoding, "replace") for name in names[first_named:]]
    if is_text and len(set(texts)) == len(texts) and _look_like_names(texts) and not _recur(spans, dialect, names):
        return True
    return _has_quoted_names(spans, dialect, width)


def needs_quotes(names: Sequence[str], marks: Marks, *, has_numbers: bool) -> bool:
    """Whether :func:`is_headed` would take a row of these names for data, or a reader would split the only name there is.

    Args:
        names: The names.
        marks: How rows are split.
        has_numbers: Whether there are columns of numbers, which show that the names are none.
    """
    texts = [name.encode() for name in names]
    if not marks[1] or _is_counted(texts):
        return False
    if len(names) == 1 and any(mark in names[0] for mark in DELIMITERS):
        return True
    row = _native.encode_csv([(6, len(texts), texts)], 1, marks, "\n")
    spans = _native.gather_csv([row], None, np.zeros(1, np.int64), marks)
    facts = _native.examine_csv(spans, marks, len(texts), list(MISSING))
    if any(fact[kind] for fact in facts for kind in (*NUMBERS, "missing")):
        return True
    return not has_numbers and not _look_like_names(names)


def check_names(names: list[str]) -> None:
    """Refuse names that would be read back as others: every name loses the blanks around it, and an empty one gets a number.

    Raises:
        UnsupportedData: There is one.
    """
    for name in names:
        if "\0" in name or not name or name != name.strip():
            raise UnsupportedData(
                Where(feature=name),
                expected="column names that are read back unchanged: not empty, without NUL, and without blanks at the ends",
                found=repr(name)[:40],
                hint="Rename it, as with source.rename, or write no header: format=hr.CSV(header=False).",
            )


def _look_like_names(texts: Sequence[str]) -> bool:
    return all(NAME.fullmatch(text) for text in texts)


def _is_counted(names: list[bytes]) -> bool:
    """Whether these are pandas' default names: 0, 1, 2, ..., perhaps after the empty name of its index."""
    counted = names[1:] if names[0] == b"" else names
    least = 1 if names[0] == b"" else LEAST_COUNTED
    return len(counted) >= least and counted == [str(k).encode() for k in range(len(counted))]


def _is_index(spans: _native.Spans, dialect: CsvDialect) -> bool:
    """Whether the first column has different counts below the first row."""
    rows = range(1, min(len(spans), MOST_INDEXED + 1))
    values = [_native.values_of_csv(spans.view(row), dialect.marks)[0].strip() for row in rows]
    return bool(values) and all(map(bytes.isdigit, values)) and len(set(values)) == len(values)


def _has_quoted_names(spans: _native.Spans, dialect: CsvDialect, width: int) -> bool:
    """Whether a name has quotes that it does not need, and the fields below have none. Other writers quote all or none of a column."""
    quote = dialect.quote.encode()
    if not quote or quote not in bytes(spans.view(0)):
        return False
    rows = _split(spans, dialect, min(len(spans), MOST_SPLIT // width + 1))
    top = next(rows)
    known = {dialect.encode(word) for word in dialect.missing} | {NULL}
    marked = {column for column, field in enumerate(top) if _has_spare_quotes(field, dialect)}
    plain = set()
    for row in rows:
        for column in [column for column in marked if column < len(row)]:
            if _has_spare_quotes(row[column], dialect) and row[column] != top[column]:
                marked.discard(column)
            elif _is_plain(row[column], dialect) and row[column] not in known:
                plain.add(column)
    return bool(marked & plain)


def _recur(spans: _native.Spans, dialect: CsvDialect, names: list[bytes]) -> bool:
    """Whether a field below the first row has the name of its column. It may, in quotes below a name that has none."""
    others = spans.part(1, len(spans))
    quote = dialect.quote.encode()
    text = b"\n".join(others.to_bytes())
    has_quotes = any(quote and quote in name for name in names)  # A name without them stands in the text as it is.
    if not has_quotes and len(names) * len(text) <= MOST_SEARCHED and not any(name in text for name in names):
        return False
    top = next(_split(spans, dialect, 1))
    for number in range(len(others)):
        values = map(bytes.strip, _native.values_of_csv(others.view(number), dialect.marks))
        equal = list(map(operator.eq, names, values))
        if not any(equal):
            continue
        fields = next(_split(others.part(number, number + 1), dialect, 1))
        for above, field in compress(zip(top, fields, strict=False), equal):
            if not (_is_plain(above, dialect) and _has_spare_quotes(field, dialect)):
                return True
    return False


def _is_plain(field: bytes, dialect: CsvDialect) -> bool:
    """Whether a field has neither quotes nor blanks around it. Where it has blanks, quotes mean nothing."""
    quote = dialect.quote.encode()
    return field.strip() == field and not (quote and field.startswith(quote))


def _has_spare_quotes(field: bytes, dialect: CsvDialect) -> bool:
    quote = dialect.quote.encode()
    inner = field[1:-1]
    is_quoted = bool(quote) and len(field) > 1 and field[:1] == quote == field[-1:]
    return (
        is_quoted
        and bool(inner)
        and not any(mark in inner for mark in (dialect.delimiter.encode(), quote, b"\n", b"\r"))
    )


def _split(spans: _native.Spans, dialect: CsvDialect, count: int) -> Iterator[list[bytes]]:
    """The fields of rows as they are written."""
    delimiter, quote = dialect.delimiter.encode(), dialect.quote.encode()
    for number in range(count):
        row = bytes(spans.view(number))
        fields, start = [], 0
        while start <= len(row):
            at = start
            if quote and row.startswith(quote, at):
                at = row.find(quote, at + 1)
                while at >= 0 and row.startswith(quote, at + 1):  # doubled
                    at = row.find(quote, at + 2)
            end = row.find(delimiter, at) if at >= 0 else -1
            end = len(row) if end < 0 else end
            fields.append(row[start:end])
            start = end + 1
        yield fields
