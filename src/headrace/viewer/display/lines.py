"""The parts of a line of text in its file: the cells of a CSV row, the members of a JSON object."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from headrace.viewer.display.frames import Field, ReadsBytes

__all__ = ["cell_fields", "member_fields"]

MOST_LINE = 1 << 20
"""The most bytes of a line that is taken apart."""
MOST_PARTS = 300
SHOWN_TEXT = 120
BLANKS = re.compile(r"[ \t\n\r]*")


def cell_fields(
    read: ReadsBytes, at: int, *, delimiter: bytes = b",", quote: bytes = b'"', names: Sequence[str] = ()
) -> list[Field]:
    """The cells of the CSV row that begins at ``at``, at most 300.

    Args:
        read: Reads the file.
        at: Where the row begins.
        delimiter, quote: One byte each; no quote, if empty.
        names: The names of the columns, as far as they are known.
    """
    line = read(at, MOST_LINE)
    found: list[Field] = []
    start = number = 0
    while len(found) < MOST_PARTS:
        stop = _cell_end(line, start, delimiter, quote)
        name = names[number] if number < len(names) else f"cell {number}"
        number += 1
        found.append(Field(at + start, at + stop, name, _shorten(line[start:stop])))
        after = line[stop : stop + 1]
        if after != delimiter:
            end = 2 if line[stop : stop + 2] == b"\r\n" else len(after)
            return [
                *found,
                *([Field(at + stop, at + stop + end, "line end", repr(line[stop : stop + end])[1:])] if end else []),
            ]
        found.append(Field(at + stop, at + stop + 1, "delimiter", repr(delimiter)[1:]))
        start = stop + 1
    return found


def _cell_end(line: bytes, start: int, delimiter: bytes, quote: bytes) -> int:
    """Where a cell ends: at the delimiter, the line end or the end of the file. Quotes hide the first two."""
    at = start
    if quote and line[start : start + 1] == quote:
        at = start + 1
        while True:
            at = line.find(quote, at)
            if at < 0:
                return len(line)
            if line[at + 1 : at + 2] != quote:
                break
            at += 2
    found = re.compile(b"[\r\n" + re.escape(delimiter) + b"]").search(line, at)
    return found.start() if found else len(line)


def _shorten(part: bytes) -> str:
    text = part[: 4 * SHOWN_TEXT].decode("utf-8", "backslashreplace")
    return text if len(text) <= SHOWN_TEXT else f"{text[:SHOWN_TEXT]}... {len(part):,} bytes"


def member_fields(read: ReadsBytes, at: int) -> list[Field]:
    """The members of the JSON object on the line that begins at ``at``, at most 300; where it is damaged, the rest of the line."""
    line = read(at, MOST_LINE)
    line = line[: line.find(b"\n") + 1] if b"\n" in line else line
    # One character a byte, so that positions in the text are positions in the file.
    text = line.decode("latin-1")
    found: list[Field] = []
    position, decoder = 0, json.JSONDecoder()
    try:
        position = _skip(text, 0, "{", "an object")
        while text[position : position + 1] != "}" and len(found) < MOST_PARTS:
            key_start = position
            _expect(text, key_start, '"', "a key")
            _, key_end = decoder.raw_decode(text, key_start)
            value_start = _skip(text, key_end, ":", "a colon")
            _, position = decoder.raw_decode(text, value_start)
            name = json.loads(line[key_start:key_end])
            found.append(Field(at + key_start, at + position, name[:SHOWN_TEXT], _shorten(line[value_start:position])))
            position = BLANKS.match(text, position).end()  # type: ignore[union-attr]
            if text[position : position + 1] == ",":
                position = BLANKS.match(text, position + 1).end()  # type: ignore[union-attr]
            else:
                _expect(text, position, "}", "a comma or a closing brace")
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        fault = error.pos if isinstance(error, json.JSONDecodeError) else position
        found.append(Field(at + position, at + len(line), "unreadable", f"{reason} at byte {at + fault:#x}"))
    return found


def _skip(text: str, position: int, mark: str, name: str) -> int:
    """Where the text after blanks, a mark and blanks begins."""
    at: int = BLANKS.match(text, position).end()  # type: ignore[union-attr]
    _expect(text, at, mark, name)
    return BLANKS.match(text, at + 1).end()  # type: ignore[union-attr]


def _expect(text: str, at: int, mark: str, name: str) -> None:
    if text[at : at + 1] != mark:
        raise json.JSONDecodeError(f"expected {name}", text, at)
