"""Answers a batch of requests with one call of the script: concatenates their rows and splits the predictions again."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Self

import numpy as np

from headrace.containers.serving.handler import ScriptHandler
from headrace.containers.toolkit import shim
from headrace.contracts.serving import Request, Response
from headrace.errors import RequestError

__all__ = ["BatchingScriptHandler", "RequestRows", "join_csv", "join_rows", "split_rows"]


INTEGER = re.compile(r"[+-]?\d{1,18}", re.ASCII)
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
# Cells that parsers read as missing, boolean or infinite, depending on the rest of the column.
SPECIAL = re.compile(r"#?n/?a.*|<na>|-?nan.*|null|none|true|false|yes|no|[+-]?inf(inity)?|-?1\.#.*", re.IGNORECASE)

# Cells that some parsers read as numbers if the whole column has such cells: other blanks, non-ASCII digits, 1_000, 2j.
ODD = re.compile(r"^\s|\s$|(?![0-9])\d|\d_\d|\d[jJ]$")


@dataclass(frozen=True, slots=True)
class RequestRows:
    """The result of ``input_fn`` for several requests.

    Args:
        values: All rows.
        sizes: The number of rows of each request.
    """

    values: Any
    sizes: list[int]

    @classmethod
    def of(cls, values: Any, sizes: list[int] | None) -> Self | None:
        """``None`` if the values have no rows, or another number of rows."""
        count = _count(values)
        if count is None or (sizes is not None and count != sum(sizes)):
            return None
        return cls(values, [count] if sizes is None else sizes)


def _count(values: Any) -> int | None:
    shape = getattr(values, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) >= 1 and (len(shape) >= 2 or not isinstance(values, np.ndarray)) else None
    return None


def join_csv(bodies: Sequence[str | None]) -> list[tuple[list[int], str, list[int]]]:
    """Concatenate CSV texts where no cell would be parsed differently than alone.

    Returns:
        For each set of compatible texts: their indices, the concatenated text, the number of rows of each. A text that is
        compatible with no other is left out.
    """
    alike: dict[tuple[str, ...], list[tuple[int, list[str]]]] = {}
    for place, body in enumerate(bodies):
        lines = None if body is None else _plain_lines(body)
        kinds = None if lines is None else _kinds(lines)
        if lines is not None and kinds is not None:
            alike.setdefault(kinds, []).append((place, lines))
    return [
        (
            [place for place, _ in members],
            "\n".join(line for _, lines in members for line in lines) + "\n",
            [len(lines) for _, lines in members],
        )
        for members in alike.values()
        if len(members) > 1
    ]


def _plain_lines(body: str) -> list[str] | None:
    """The rows of a text; ``None`` if quotes, comments or unusual line ends make them uncertain."""
    lines = body[:-1].split("\n") if body.endswith("\n") else body.split("\n")
    if (
        any(sign in body for sign in ('"', "\r", "#", "\x00", "\ufeff"))
        or "" in lines
        or not all(map(str.strip, lines))
    ):
        return None
    return lines


def _kinds(lines: list[str]) -> tuple[str, ...] | None:
    """The kind of each column; ``None`` if it could depend on other rows."""
    rows = [line.split(",") for line in lines]
    if any(len(row) != len(rows[0]) for row in rows):
        return None
    columns = [_column_kind({_kind(cell) for cell in column}) for column in zip(*rows, strict=True)]
    return None if "" in columns else tuple(columns)


def _kind(cell: str) -> str:
    text = cell.strip(" ")
    padding = "s" if cell[:1] == " " else ""
    padding += "e" if cell[-1:] == " " else ""
    if INTEGER.fullmatch(text):
        return "i" + padding
    if NUMBER.fullmatch(text):  # longer integers are parsed depending on the rest of the column
        return "f" + padding if not text.lstrip("+-").isdigit() else ""
    if not text or SPECIAL.fullmatch(text) or ODD.search(text):
        return ""
    return "t" + padding


def _column_kind(kinds: Iterable[str]) -> str:
    """One kind, or a mix of integers and other numbers. Anything else may be parsed differently."""
    found = set(kinds)
    if len(found) == 1:
        return found.pop()
    return "f" if found == {"i", "f"} else ""


def join_rows(read: Sequence[RequestRows | None]) -> list[tuple[list[int], RequestRows]]:
    """Concatenate rows of the same form. Returns them with the indices of their requests."""
    alike: dict[Any, list[int]] = {}
    for place, rows in enumerate(read):
        form = None if rows is None else _form(rows.values)
        if form is not None:
            alike.setdefault(form, []).append(place)
    joined = []
    for places in alike.values():
        members = [one for place in places if (one := read[place]) is not None]
        if len(members) > 1:
            values = _concat([member.values for member in members])
            joined.append((places, RequestRows(values, [member.sizes[0] for member in members])))
    return joined


def _is_frame(values: Any) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(values, pandas.DataFrame)


def _form(values: Any) -> Any:
    """The form that rows must share to be concatenated; ``None`` if they cannot be."""
    if isinstance(values, np.ndarray) and not values.dtype.hasobject:
        return ("array", values.dtype.str, values.shape[1:])
    if _is_frame(values):
        return ("frame", tuple(values.columns), tuple(map(str, values.dtypes)))
    return None


def _concat(parts: list[Any]) -> Any:
    if _is_frame(parts[0]):
        return sys.modules["pandas"].concat(parts, ignore_index=True)
    return np.concatenate(parts)


def split_rows(prediction: Any, sizes: list[int]) -> list[Any] | None:
    """The prediction of each request; ``None`` if there is not one entry per row."""
    if isinstance(prediction, list):
        count: int | None = len(prediction)
    else:
        shape = getattr(prediction, "shape", ())
        count = int(shape[0]) if shape and hasattr(prediction, "__getitem__") else None
    if count != sum(sizes):
        return None
    rows = prediction.iloc if hasattr(prediction, "iloc") else prediction
    rows = rows.tocsr() if hasattr(rows, "tocsr") else rows
    return [rows[start:stop] for start, stop in pairwise(accumulate(sizes, initial=0))]


@dataclass(slots=True)
class RequestGroup:
    """Requests with the same content type and the same type of answer."""

    content_type: str
    accept: str
    places: list[int]


class BatchingScriptHandler(ScriptHandler):
    """A script whose answer to a row does not depend on other rows, so that rows of several requests are processed together.

    CSV bodies with columns of the same kinds are parsed as one. Other bodies are parsed one by one and their rows concatenated.
    If that could change an answer, or a function fails, the requests are answered one by one.
    """

    _one_is_a_table: bool | None = None

    def answer_many(self, requests: Sequence[Request], /) -> Sequence[Response | Exception]:
        """Answer a batch. A request that fails has its error in place of a response."""
        answers: list[Response | Exception | None] = [None] * len(requests)
        with shim.inside():
            for group in self._groups(requests):
                members = [requests[place] for place in group.places]
                for place, answer in zip(group.places, self._together(members, group), strict=True):
                    answers[place] = answer
        return [answer for answer in answers if answer is not None]

    def _groups(self, requests: Sequence[Request]) -> list[RequestGroup]:
        groups: dict[tuple[str, str], RequestGroup] = {}
        for place, request in enumerate(requests):
            content_type, accept = self._types(request.content_type, request.accept)
            groups.setdefault((content_type, accept), RequestGroup(content_type, accept, [])).places.append(place)
        return list(groups.values())

    def _together(self, requests: list[Request], group: RequestGroup) -> Sequence[Response | Exception]:
        if len(requests) == 1:
            return [self._alone(requests[0])]
        answers: dict[int, Response | Exception] = {}
        for members, batch in self._batches(requests, group):
            outputs = self._outputs(batch, [requests[member] for member in members], group.accept)
            for position, member in enumerate(members):
                answers[member] = outputs[position] if outputs else self._alone(requests[member])
        return [
            answers[member] if member in answers else self._alone(requests[member]) for member in range(len(requests))
        ]

    def _batches(self, requests: list[Request], group: RequestGroup) -> list[tuple[list[int], RequestRows]]:
        """Rows that may be concatenated, with the indices of their requests."""
        bodies = []
        for request in requests:
            try:
                bodies.append(self._input_data(request, group.content_type))
            except RequestError:
                bodies.append(None)
        if group.content_type == "text/csv":
            return self._tables(bodies, group)
        return join_rows([None if body is None else self._read(body, None, group) for body in bodies])

    def _tables(self, bodies: list[Any], group: RequestGroup) -> list[tuple[list[int], RequestRows]]:
        found = []
        for members, text, sizes in join_csv(bodies):
            rows = self._read(text, sizes, group)
            if rows is not None and (1 not in sizes or self._keeps_rows(bodies[members[sizes.index(1)]], group)):
                found.append((members, rows))
        return found

    def _keeps_rows(self, body: Any, group: RequestGroup) -> bool:
        """Whether the script parses one row as a table with one row, not as one axis as ``genfromtxt`` does. Determined once."""
        if self._one_is_a_table is None:
            self._one_is_a_table = self._read(body, [1], group) is not None
        return self._one_is_a_table

    def _read(self, body: Any, sizes: list[int] | None, group: RequestGroup) -> RequestRows | None:
        try:
            return RequestRows.of(self._input(body, group.content_type, self._context(None)), sizes)
        except RequestError:
            return None  # the request gets its error when answered alone

    def _outputs(self, batch: RequestRows, requests: list[Request], accept: str) -> list[Response | Exception] | None:
        """An answer for each request, or ``None`` if they must be answered one by one."""
        try:
            parts = split_rows(self._predict(batch.values, self._context(None)), batch.sizes)
        except RequestError:
            return None
        if parts is None:
            return None
        outputs: list[Response | Exception] = []
        for request, part in zip(requests, parts, strict=True):
            try:
                outputs.append(self._output(part, accept, self._context(request)))
            except RequestError as error:
                outputs.append(error)
        return outputs

    def _alone(self, request: Request) -> Response | Exception:
        try:
            return self._answer(request)
        except RequestError as error:
            return error
