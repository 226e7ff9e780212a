"""What the model sees of a record, and what is kept of its answer: filters, and input and answer side by side."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.containers.content_types import media_type
from headrace.contracts.serving import Response
from headrace.io.json_text import load_json
from headrace.jobs.transform.jsonpath import JsonPath
from headrace.jobs.transform.payloads import Payload
from headrace.jobs.transform.spec import CSV, FORMATS, JSON, JSON_LINES, TransformSpec

__all__ = ["Joiner", "RecordFault"]

INPUT, OUTPUT = "SageMakerInput", "SageMakerOutput"
NUMBER = re.compile(r" *-?(?:0|[1-9][0-9]*)(\.[0-9]+(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)? *")
MOST_DIGITS = 1000
NAMES = {CSV: "CSV", JSON: "JSON", JSON_LINES: "JSON Lines"}


class RecordFault(Exception):
    """A record or its answer is not what a filter or a join needs. ``position`` is its place in the payload, if known."""

    def __init__(self, reason: str, position: int | None = None) -> None:
        self.reason = reason
        self.position = position
        super().__init__(reason)


@dataclass(frozen=True, slots=True)
class _Text:
    """A body, taken apart.

    Args:
        format: Its content type.
        items: CSV rows as lists of texts; JSON values.
        is_whole: Whether the items make one value (a JSON document) instead of one each.
    """

    format: str
    items: list[Any]
    is_whole: bool = False

    def values(self) -> list[Any]:
        """The items as JSON has them: numbers in CSV are numbers."""
        return [list(map(_cell, row)) for row in self.items] if self.format == CSV else self.items


class Joiner:
    """Filters and join of a job.

    Args:
        spec: The job.
    """

    def __init__(self, spec: TransformSpec) -> None:
        self._spec = spec
        self._input_filter = JsonPath.parse(spec.input_filter)
        self._output_filter = JsonPath.parse(spec.output_filter)
        self._by_line = spec.split_type == "Line"
        self._ends_lines = spec.assemble_with == "Line"

    def body(self, payload: Payload) -> bytes:
        """What the model sees.

        Raises:
            RecordFault: A record is not what the content type says, or lacks what the filter wants.
        """
        if self._input_filter.is_everything:
            return payload.body()
        text = self._input(payload)
        selected = _Text(text.format, _selected(text, self._input_filter, "input_filter"), text.is_whole)
        ends = payload.is_single or not self._by_line or payload.body().endswith(b"\n")
        return _written(selected, ends=ends)

    def output(self, payload: Payload, answer: Response) -> bytes:
        """What is kept of an answer.

        Raises:
            RecordFault: It cannot be read as what was asked for, or does not fit the input.
        """
        if not self._spec.is_joined and self._output_filter.is_everything:
            return self._ended(answer.body)
        found = self._output(payload, answer)
        if self._spec.is_joined:
            found = _joined(self._input(payload), found, wants_lines=self._spec.output_format == JSON)
        if not self._output_filter.is_everything:
            found = _Text(found.format, _selected(found, self._output_filter, "output_filter"), found.is_whole)
        return _written(found, ends=self._ends_lines or found.format != JSON)

    def _ended(self, body: bytes) -> bytes:
        return body + b"\n" if self._ends_lines and not body.endswith(b"\n") else body

    def _input(self, payload: Payload) -> _Text:
        format = str(self._spec.input_format)
        if not self._by_line:
            return _read(payload.body(), format, "input")
        items: list[Any] = []
        for position, line in enumerate(payload.each()):
            try:
                found = _read(line, format, "input").items
            except RecordFault as fault:
                raise RecordFault(fault.reason, position) from fault
            if len(found) != 1:
                raise RecordFault(
                    f"Failed to parse input as {NAMES[format]}: a line holds {len(found)} records", position
                )
            items += found
        return _Text(format, items)

    def _output(self, payload: Payload, answer: Response) -> _Text:
        format = self._spec.output_format or media_type(answer.content_type)
        if format not in FORMATS:
            raise RecordFault(f"the algorithm answered with {answer.content_type}, which filters cannot look into")
        is_document = format == JSON and (not self._by_line or len(payload) == 1)
        read_as = JSON_LINES if format == JSON and not is_document else format
        try:
            found = _read(answer.body, read_as, "output from the algorithm")
        except RecordFault as fault:
            hint = ""
            if read_as != format:
                hint = (
                    "; for several records there must be a JSON value on each line: set accept='application/jsonlines'"
                )
            raise RecordFault(fault.reason + hint) from fault
        return _Text(found.format, found.items, is_whole=found.is_whole and not self._by_line)


def _joined(given: _Text, answer: _Text, *, wants_lines: bool) -> _Text:
    if given.is_whole or answer.is_whole:
        return _Text(JSON, [_object(_document(given), _document(answer))], is_whole=True)
    if len(given.items) != len(answer.items):
        hint = " (set accept='application/jsonlines', or strategy='SingleRecord')" if wants_lines else ""
        raise RecordFault(
            f"{len(given.items)} records were answered with {len(answer.items)}, which cannot be joined{hint}"
        )
    if given.format == answer.format == CSV:
        return _Text(CSV, [row + more for row, more in zip(given.items, answer.items, strict=True)])
    return _Text(JSON_LINES, list(map(_object, given.values(), answer.values())))


def _object(given: Any, answer: Any) -> dict[str, Any]:
    return {**given, OUTPUT: answer} if isinstance(given, dict) else {INPUT: given, OUTPUT: answer}


def _document(text: _Text) -> Any:
    return text.items[0] if text.is_whole else text.values()


def _selected(text: _Text, path: JsonPath, what: str) -> list[Any]:
    select: Callable[[Any], Any] = _Columns(path).select if text.format == CSV else path.select
    selected = []
    for position, item in enumerate(text.items):
        try:
            selected.append(select(item))
        except LookupError as error:
            raise RecordFault(f"{what} {path.text!r}: {error.args[0]}", None if text.is_whole else position) from error
    return selected


class _Columns:
    """A path applied to rows: which columns it takes is found out once for each width."""

    def __init__(self, path: JsonPath) -> None:
        self._path = path
        self._known: dict[int, list[int]] = {}

    def select(self, row: list[str]) -> list[str]:
        columns = self._known.get(len(row))
        if columns is None:
            if not self._path.takes_columns:
                raise LookupError("a CSV row has positions, and no names")
            columns = self._known[len(row)] = self._path.columns(len(row))
        return [row[column] for column in columns]


def _read(body: bytes, format: str, what: str) -> _Text:
    try:
        text = body.decode("utf-8")
        if format == CSV:
            return _Text(CSV, _rows(text))
        if format == JSON:
            return _Text(JSON, [load_json(text)], is_whole=True)
        return _Text(JSON_LINES, [load_json(line) for line in text.split("\n") if line.strip()])
    except (csv.Error, ValueError) as error:
        raise RecordFault(f"Failed to parse {what} as {NAMES[format]}: {error}") from error


def _rows(text: str) -> list[list[str]]:
    if '"' in text or "\r" in text:
        return [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
    return [line.split(",") for line in text.split("\n") if line]


def _cell(text: str) -> Any:
    """A number where it is one as JSON writes it, else the text."""
    found = NUMBER.fullmatch(text)
    if found is None or len(text) > MOST_DIGITS:
        return text
    if found.group(1) is None:
        return int(text)
    value = float(text)
    return value if math.isfinite(value) else text


def _written(text: _Text, *, ends: bool) -> bytes:
    lines = map(_line, text.items) if text.format == CSV else map(_json, text.items)
    return b"\n".join([*lines, b""] if ends else list(lines))


def _json(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which only an escape can say
        return json.dumps(value).encode()


def _line(row: Sequence[str]) -> bytes:
    line = ",".join(row)
    if line and not any(mark in line for mark in '"\r\n') and line.count(",") == len(row) - 1:
        return line.encode()
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\r\n").writerow(row)  # which quotes both of these characters
    return buffer.getvalue().removesuffix("\r\n").encode()
