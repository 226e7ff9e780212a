"""Filters and joins: what the model gets of a record, and what is stored of its answer."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.containers.content_types import charset, media_type, with_utf8
from headrace.containers.toolkit.encoders import csv_rows
from headrace.contracts.serving import Response
from headrace.io.json_text import load_json
from headrace.jobs.transform.jsonpath import JsonPath
from headrace.jobs.transform.payloads import Payload
from headrace.jobs.transform.spec import CSV, FORMATS, JSON, JSON_LINES, TransformSpec

__all__ = ["Joiner", "RecordFault"]

INPUT, OUTPUT = "SageMakerInput", "SageMakerOutput"
NUMBER = re.compile(r" *-?(?:0|[1-9][0-9]*)(\.[0-9]+(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)? *")
QUOTED_CELL = re.compile(r'(?<![^,\r\n])"[^"]*+(?:""[^"]*+)*+"(?![^,\r\n])')
MOST_DIGITS = 1000
UNESCAPED, ESCAPED = json.JSONEncoder(ensure_ascii=False), json.JSONEncoder()
NAMES = {CSV: "CSV", JSON: "JSON", JSON_LINES: "JSON Lines"}


class RecordFault(Exception):
    """A record or its answer does not fit a filter or a join. ``position`` is its index in the payload, if known."""

    def __init__(self, reason: str, position: int | None = None) -> None:
        self.reason = reason
        self.position = position
        super().__init__(reason)


@dataclass(frozen=True, slots=True)
class Content:
    """The parsed content of a body.

    Args:
        format: Its content type.
        items: CSV rows as lists of strings, or JSON values.
        is_whole: Whether the only item is a whole JSON document.
    """

    format: str
    items: list[Any]
    is_whole: bool = False

    def values(self) -> list[Any]:
        """The items as JSON values: cells of CSV that are numbers become numbers."""
        return [list(map(_cell, row)) for row in self.items] if self.format == CSV else self.items


class Joiner:
    """The filters and the join of a job.

    Args:
        spec: The job.
    """

    def __init__(self, spec: TransformSpec) -> None:
        self._spec = spec
        self._input_filter = JsonPath.parse(spec.input_filter)
        self._output_filter = JsonPath.parse(spec.output_filter)
        self._is_filtered = not self._input_filter.is_everything
        self._charset = charset(spec.content_type or "")
        self._by_line = spec.split_type == "Line"
        self._ends_lines = spec.assemble_with == "Line"

    def body(self, payload: Payload) -> bytes:
        """The body of the request.

        Raises:
            RecordFault: A record does not match the content type, or lacks what the filter selects.
        """
        if not self._is_filtered:
            return payload.body()
        text = self._input(payload)
        selected = Content(text.format, _select(text, self._input_filter, "input_filter"), text.is_whole)
        ends = payload.is_single or not self._by_line or payload.body().endswith(b"\n")
        return _format(selected, ends=ends)

    @property
    def content_type(self) -> str | None:
        """The content type of the bodies. What a filter selects is written as UTF-8."""
        given = self._spec.content_type
        return with_utf8(given) if self._is_filtered and given is not None else given

    def output(self, payload: Payload, answer: Response) -> bytes:
        """The output for an answer.

        Raises:
            RecordFault: The answer has another format than requested, or does not match the input.
        """
        if not self._spec.is_joined and self._output_filter.is_everything:
            return self._end_line(answer.body)
        found = self._output(payload, answer)
        if self._spec.is_joined:
            found = _join(self._input(payload), found, wants_lines=self._spec.output_format == JSON)
        if not self._output_filter.is_everything:
            found = Content(found.format, _select(found, self._output_filter, "output_filter"), found.is_whole)
        return _format(found, ends=self._ends_lines or found.format != JSON)

    def _end_line(self, body: bytes) -> bytes:
        return body + b"\n" if self._ends_lines and not body.endswith(b"\n") else body

    def _input(self, payload: Payload) -> Content:
        format = str(self._spec.input_format)
        if not self._by_line:
            return _read(payload.body(), format, self._charset, "input", is_start=True)
        items: list[Any] = []
        is_start = payload.where().offset == 0  # of the object, where a byte order mark may be
        for position, line in enumerate(payload.each()):
            try:
                found = _read(line, format, self._charset, "input", is_start=is_start and position == 0).items
            except RecordFault as fault:
                raise RecordFault(fault.reason, position) from fault
            if len(found) != 1:
                raise RecordFault(
                    f"Failed to parse input as {NAMES[format]}: a line holds {len(found)} records", position
                )
            items += found
        return Content(format, items)

    def _output(self, payload: Payload, answer: Response) -> Content:
        format = self._spec.output_format or media_type(answer.content_type)
        if format not in FORMATS:
            raise RecordFault(f"the algorithm answered with {answer.content_type}, which filters do not support")
        is_document = format == JSON and (not self._by_line or len(payload) == 1)
        read_as = JSON_LINES if format == JSON and not is_document else format
        try:
            found = _read(
                answer.body, read_as, charset(answer.content_type), "output from the algorithm", is_start=True
            )
            if format == CSV:
                _check_csv_answer(answer)
        except RecordFault as fault:
            hint = ""
            if read_as != format:
                hint = "; several records need a JSON value on each line: set accept to application/jsonlines"
            raise RecordFault(fault.reason + hint) from fault
        return Content(found.format, found.items, is_whole=found.is_whole and not self._by_line)


def _join(given: Content, answer: Content, *, wants_lines: bool) -> Content:
    if given.is_whole or answer.is_whole:
        return Content(JSON, [_object(_document(given), _document(answer))], is_whole=True)
    if len(given.items) != len(answer.items):
        hint = " (set accept to application/jsonlines, or strategy to SingleRecord)" if wants_lines else ""
        raise RecordFault(f"{len(given.items)} records got {len(answer.items)} answers, which cannot be joined{hint}")
    if given.format == answer.format == CSV:
        return Content(CSV, [row + more for row, more in zip(given.items, answer.items, strict=True)])
    return Content(JSON_LINES, list(map(_object, given.values(), answer.values())))


def _object(given: Any, answer: Any) -> dict[str, Any]:
    return {**given, OUTPUT: answer} if isinstance(given, dict) else {INPUT: given, OUTPUT: answer}


def _document(text: Content) -> Any:
    return text.items[0] if text.is_whole else text.values()


def _select(text: Content, path: JsonPath, what: str) -> list[Any]:
    select: Callable[[Any], Any] = _Columns(path).select if text.format == CSV else path.select
    selected = []
    for position, item in enumerate(text.items):
        try:
            selected.append(select(item))
        except LookupError as error:
            raise RecordFault(f"{what} {path.text!r}: {error.args[0]}", None if text.is_whole else position) from error
    return selected


class _Columns:
    """A path applied to CSV rows. The columns that it selects are computed once for each row width."""

    def __init__(self, path: JsonPath) -> None:
        self._path = path
        self._known: dict[int, list[int]] = {}

    def select(self, row: list[str]) -> list[str]:
        columns = self._known.get(len(row))
        if columns is None:
            if not self._path.takes_columns:
                raise LookupError("a CSV row has positions, not names")
            columns = self._known[len(row)] = self._path.columns(len(row))
        return [row[column] for column in columns]


def _check_csv_answer(answer: Response) -> None:
    """Refuse JSON instead of CSV, which the csv module would cut at its commas.

    Raises:
        RecordFault: It is JSON, or has quotes inside cells that are not quoted.
    """
    reason = ""
    if media_type(answer.content_type) in (JSON, JSON_LINES) and answer.body.lstrip()[:1] in (b"[", b"{"):
        reason = f"it is {media_type(answer.content_type)}"
    elif b'"' in answer.body and '"' in QUOTED_CELL.sub("", _decode(answer.body, charset(answer.content_type))):
        reason = 'bare " in non-quoted field'
    if reason:
        raise RecordFault(f"Failed to parse output from the algorithm as CSV: {reason}")


def _decode(body: bytes, encoding: str) -> str:
    return body.decode(encoding).removeprefix("\ufeff")


def _read(body: bytes, format: str, encoding: str, what: str, *, is_start: bool) -> Content:
    try:
        text = _decode(body, encoding) if is_start else body.decode(encoding)
        if format == CSV:
            return Content(CSV, _rows(text))
        if format == JSON:
            return Content(JSON, [_load(text)], is_whole=True)
        return Content(JSON_LINES, [_load(line) for line in text.split("\n") if line.strip()])
    except (csv.Error, ValueError, LookupError) as error:  # LookupError: an unknown charset
        raise RecordFault(f"Failed to parse {what} as {NAMES[format]}: {error}") from error


@dataclass(frozen=True, slots=True)
class NumberText:
    """A number that Python would write in another way: with fewer digits, or without its last zeros."""

    text: str


def _load(text: str) -> Any:
    parse_int = _parse_int if "-0" in text else None  # the only integer that is written in two ways
    return load_json(text, parse_int=parse_int, parse_float=_parse_float, pairs=_unique)


def _parse_int(text: str) -> int | NumberText:
    return NumberText(text) if text == "-0" else int(text)


def _parse_float(text: str) -> float | NumberText:
    value = float(text)
    if math.isinf(value):  # no model could read it
        raise ValueError(f"the number {text[:80]} is beyond the range of float64")
    return _as_written(value, text)


def _as_written(value: float, text: str) -> float | NumberText:
    # Python writes up to 15 digits as they were. This is known without repr, which takes longer than all else here.
    is_short = len(text) < 17 and text[-1] != "0" and 1e-4 < abs(value) < 1e16 and "e" not in text and "E" not in text
    return value if is_short or repr(value) == text else NumberText(text)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        name, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise ValueError(f"the key {name[:80]!r} occurs twice in an object")
    return found


def _rows(text: str) -> list[list[str]]:
    if '"' in text or "\r" in text:
        return [row for row in csv_rows(text) if row]
    return [line.split(",") for line in text.split("\n") if line]


def _cell(text: str) -> Any:
    """A number if the cell is one in JSON's notation, otherwise the text."""
    found = NUMBER.fullmatch(text)
    if found is None or len(text) > MOST_DIGITS:
        return text
    number = text.strip(" ")
    if found.group(1) is None:
        return _parse_int(number)
    value = float(number)
    return _as_written(value, number) if math.isfinite(value) else text


def _format(text: Content, *, ends: bool) -> bytes:
    lines = map(_line, text.items) if text.format == CSV else map(_json, text.items)
    return b"\n".join([*lines, b""] if ends else list(lines))


def _json(value: Any) -> bytes:
    try:
        return _dump(value, UNESCAPED).encode()
    except UnicodeEncodeError:  # an unpaired surrogate, which needs an escape
        return _dump(value, ESCAPED).encode()


def _dump(value: Any, encoder: json.JSONEncoder) -> str:
    try:
        return encoder.encode(value)
    except TypeError:  # it holds a NumberText
        return _dump_parts(value, encoder)


def _dump_parts(value: Any, encoder: json.JSONEncoder) -> str:
    if isinstance(value, NumberText):
        return value.text
    if type(value) is int or (type(value) is float and math.isfinite(value)):
        return repr(value)
    if isinstance(value, dict):
        pairs = (f"{encoder.encode(name)}: {_dump_parts(part, encoder)}" for name, part in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{', '.join(_dump_parts(part, encoder) for part in value)}]"
    return encoder.encode(value)


def _line(row: Sequence[str]) -> bytes:
    line = ",".join(row)
    if line and not any(mark in line for mark in '"\r\n') and line.count(",") == len(row) - 1:
        return line.encode()
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\r\n").writerow(row)  # which quotes both of these characters
    return buffer.getvalue().removesuffix("\r\n").encode()
