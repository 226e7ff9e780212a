"""A slow, plain CSV reader: Python's csv module in strict mode, with row offsets found byte by byte."""

import csv
import io

__all__ = ["rows_of", "typed"]


def rows_of(text: str, delimiter: str = ",", quotechar: str | None = '"') -> list[list[str]]:
    """All rows that are not empty lines.

    Raises:
        csv.Error: Broken quotes.
    """
    quoting = csv.QUOTE_MINIMAL if quotechar else csv.QUOTE_NONE
    reader = csv.reader(
        io.StringIO(text, newline=""), delimiter=delimiter, quotechar=quotechar or '"', quoting=quoting, strict=True
    )
    return [row for row in reader if row]


def typed(values: list[str], missing: tuple[str, ...]):
    """A column as float where every value is a number or missing; else as text."""
    try:
        return [float("nan") if value.strip(" \t") in missing else float(value) for value in values]
    except ValueError:
        return values


def rows_around(data: bytes, width: int) -> tuple[list[bytes], list[int]]:
    """All rows of ``width`` fields that can be read, as bytes, and where each damaged stretch begins.

    After broken quotes it resumes at the next line; a row with other fields, or invalid UTF-8, is skipped alone.
    """
    rows, faults, at = [], [], 0
    while at < len(data):
        if data[at] in b"\r\n":
            at += 1
            continue
        end, broken, fields = _row(data, at)
        if broken is not None:
            faults.append(at)
            ends = [place for place in (data.find(mark, broken + 1) for mark in (b"\n", b"\r")) if place >= 0]
            at = min(ends, default=len(data)) + 1
            continue
        if fields == width and _is_utf8(data[at:end]):
            rows.append(data[at:end])
        else:
            faults.append(at)
        at = end
    return rows, faults


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _row(data: bytes, at: int) -> tuple[int, int | None, int]:
    """Where the row ends, where its quotes are broken, and how many fields it has."""
    fields = 1
    while at < len(data) and data[at] not in b"\r\n":
        if data[at : at + 1] == b'"':
            opening, at = at, at + 1
            while data[at : at + 1] != b'"' or data[at : at + 2] == b'""':
                if at >= len(data):
                    return at, opening, fields
                at += 2 if data[at : at + 2] == b'""' else 1
            at += 1
            if at < len(data) and data[at] not in b",\r\n":
                return at, at, fields
        else:
            while at < len(data) and data[at] not in b",\r\n":
                at += 1
        if data[at : at + 1] == b",":
            fields, at = fields + 1, at + 1
    return at, None, fields
