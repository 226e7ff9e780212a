"""Answers a batch of requests with one call of the script: concatenates their rows and splits the predictions again."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Self

import numpy as np

from headrace.containers.serving.functions import Context
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
        """``None`` if the values are no table, have another number of rows, or name their rows in an index."""
        count = _count_rows(values)
        if count is None or (sizes is not None and count != sum(sizes)) or not _is_numbered(values):
            return None
        return cls(values, [count] if sizes is None else sizes)


def _count_rows(values: Any) -> int | None:
    """The number of rows of a table; ``None`` for anything else, such as one axis, which may be one row or one column."""
    shape = getattr(values, "shape", None)
    return int(shape[0]) if isinstance(shape, tuple) and len(shape) >= 2 else None


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
        form = None if rows is None else _form_of_rows(rows.values)
        if form is not None:
            alike.setdefault(form, []).append(place)
    joined = []
    for places in alike.values():
        members = [one for place in places if (one := read[place]) is not None]
        if len(members) > 1:
            values = _concat([member.values for member in members])
            joined.append((places, RequestRows(values, [member.sizes[0] for member in members])))
    return joined


def _is_pandas(values: Any, *names: str) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(values, tuple(getattr(pandas, name) for name in names))


def _is_numbered(values: Any) -> bool:
    """Whether rows have no names: nothing but a pandas object has, unless its index counts from 0, as by default."""
    if not _is_pandas(values, "DataFrame", "Series"):
        return not hasattr(values, "iloc")
    index = values.index
    return _is_pandas(index, "RangeIndex") and index.start == 0 and index.step == 1 and index.name is None


def _form_of_rows(values: Any) -> Any:
    """The form that rows must share to be concatenated; ``None`` if they cannot be."""
    if type(values) is np.ndarray and not values.dtype.hasobject:  # subclasses, such as masked arrays, lose something
        return ("array", values.dtype.str, values.shape[1:])
    if _is_pandas(values, "DataFrame") and _is_numbered(values):
        return ("frame", tuple(values.columns), tuple(map(_form_of_dtype, values.dtypes)))
    return None


def _form_of_dtype(dtype: Any) -> Any:
    # Concatenating other categories, or the same in another order, changes the codes.
    categories = getattr(dtype, "categories", None)
    return str(dtype) if categories is None else (str(dtype), tuple(categories), bool(getattr(dtype, "ordered", False)))


def _concat(parts: list[Any]) -> Any:
    if _is_pandas(parts[0], "DataFrame"):
        return sys.modules["pandas"].concat(parts, ignore_index=True)
    return np.concatenate(parts)


def _count_entries(prediction: Any) -> int | None:
    """The number of entries that a prediction could be split into; ``None`` if it cannot be split."""
    if isinstance(prediction, list):
        return len(prediction)
    shape: Any = getattr(prediction, "shape", ())
    can_split = isinstance(shape, tuple) and shape and hasattr(prediction, "__getitem__") and _is_numbered(prediction)
    return int(shape[0]) if can_split else None


def _form_of_entries(prediction: Any, *, deep: bool) -> Any:
    """What does not depend on the number of rows, if each row has an entry of its own.

    Args:
        prediction: A prediction that can be split.
        deep: Whether lists in a list must have one length, which a list of all pairs of rows has not.
    """
    if isinstance(prediction, list):
        return ("list", frozenset(map(_form_of_entry, prediction)) if deep else None)
    columns = tuple(prediction.columns) if _is_pandas(prediction, "DataFrame") else ()
    kind = getattr(getattr(prediction, "dtype", None), "kind", "")
    return (type(prediction), kind, tuple(prediction.shape[1:]), columns)


def _form_of_entry(entry: Any) -> Any:
    if isinstance(entry, list | tuple):
        return len(entry)
    shape = getattr(entry, "shape", None)
    return tuple(shape) if isinstance(shape, tuple) else ()


def split_rows(prediction: Any, sizes: list[int]) -> list[Any] | None:
    """The prediction of each request; ``None`` if there is not one entry per row."""
    if _count_entries(prediction) != sum(sizes):
        return None
    rows = prediction.tocsr() if hasattr(prediction, "tocsr") else prediction
    spans = [slice(*span) for span in pairwise(accumulate(sizes, initial=0))]
    if hasattr(rows, "iloc"):  # the index of each part counts from 0, as if it had been asked for alone
        return [rows.iloc[span].reset_index(drop=True) for span in spans]
    return [rows[span] for span in spans]


@dataclass(slots=True)
class RequestGroup:
    """Requests with the same content type and the same type of answer."""

    content_type: str
    accept: str
    places: list[int]


@dataclass(slots=True)
class ReadRequest:
    """The result of ``input_fn`` for one request, or its error."""

    context: Context
    values: Any = None
    error: RequestError | None = None


MOST_FORMS = 64


class BatchingScriptHandler(ScriptHandler):
    """A script whose answer to a row does not depend on other rows, so that rows of several requests are processed together.

    Bodies are parsed one by one and their rows concatenated. CSV bodies with columns of the same kinds are parsed as one, unless
    the script has an ``input_fn`` that was not declared independent. If that could change an answer, or a function fails, the
    requests are answered one by one.

    A prediction is split only after a request that was answered alone, with another number of rows, has shown that each row has
    one entry. A list of two outputs for all rows would otherwise be taken for the answers to two rows.

    Args:
        given: Arguments of :class:`ScriptHandler`.
        is_declared: Whether the user says that rows are independent, also for the script's own functions.
        options: Arguments of :class:`ScriptHandler`.
    """

    def __init__(self, *given: Any, is_declared: bool = False, **options: Any) -> None:
        super().__init__(*given, **options)
        self._is_declared = is_declared
        self._reads_together = not self._input_fn.wants_context and (is_declared or self.functions.input_fn is None)
        self._one_is_a_table: bool | None = None
        self._has_other_lengths = False
        self._known: dict[Any, set[int]] = {}  # two numbers of rows of each form of predictions, answered alone

    def answer_many(self, requests: Sequence[Request], /) -> Sequence[Response | Exception]:
        """Answer a batch. A request that fails has its error in place of a response."""
        answers: list[Response | Exception | None] = [None] * len(requests)
        with shim.inside(), self._modules:
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
        if len(requests) == 1 or self._has_other_lengths or not self._known:
            return [self._alone(request) for request in requests]
        if group.content_type == "text/csv" and self._reads_together:
            return self._answer_texts(requests, group)
        return self._answer_rows(requests, group)

    def _answer_texts(self, requests: list[Request], group: RequestGroup) -> list[Response | Exception]:
        """Concatenate the texts of requests before they are parsed."""
        bodies = []
        for request in requests:
            try:
                bodies.append(self._input_data(request, group.content_type))
            except RequestError:
                bodies.append(None)
        answers: dict[int, Response | Exception] = {}
        for members, batch in self._tables(bodies, group):
            contexts = [self._context_of(requests[member]) for member in members]
            answers.update(zip(members, self._outputs(batch, contexts, group.accept) or (), strict=False))
        return [answers.get(place) or self._alone(request) for place, request in enumerate(requests)]

    def _tables(self, bodies: list[Any], group: RequestGroup) -> list[tuple[list[int], RequestRows]]:
        found = []
        for members, text, sizes in join_csv(bodies):
            rows = self._read_text(text, sizes, group)
            if rows is not None and (1 not in sizes or self._keeps_rows(bodies[members[sizes.index(1)]], group)):
                found.append((members, rows))
        return found

    def _keeps_rows(self, body: Any, group: RequestGroup) -> bool:
        """Whether the script parses one row as a table with one row, not as one axis as ``genfromtxt`` does. Determined once."""
        if self._one_is_a_table is None:
            self._one_is_a_table = self._read_text(body, [1], group) is not None
        return self._one_is_a_table

    def _read_text(self, body: Any, sizes: list[int], group: RequestGroup) -> RequestRows | None:
        try:
            return RequestRows.of(self._input(body, group.content_type, self._unused_context), sizes)
        except RequestError:
            return None  # the request gets its error when answered alone

    def _answer_rows(self, requests: list[Request], group: RequestGroup) -> list[Response | Exception]:
        """Parse each body alone, and concatenate their rows."""
        read = [self._read(request, group) for request in requests]
        rows = [None if one.error is not None else RequestRows.of(one.values, None) for one in read]
        answers: dict[int, Response | Exception] = {}
        for members, batch in join_rows(rows):
            contexts = [read[member].context for member in members]
            answers.update(zip(members, self._outputs(batch, contexts, group.accept) or (), strict=False))
        return [answers.get(place) or self._finish_alone(one, group) for place, one in enumerate(read)]

    def _read(self, request: Request, group: RequestGroup) -> ReadRequest:
        context = self._context_of(request)
        try:
            body = self._input_data(request, group.content_type)
            return ReadRequest(context, self._input(body, group.content_type, context))
        except RequestError as error:
            return ReadRequest(context, error=error)

    def _outputs(self, batch: RequestRows, contexts: list[Context], accept: str) -> list[Response | Exception] | None:
        """An answer for each request, or ``None`` if they must be answered one by one."""
        try:
            prediction = super()._predict(batch.values, self._unused_context)
        except RequestError:
            return None
        parts = split_rows(prediction, batch.sizes) if self._has_entry_per_row(prediction, sum(batch.sizes)) else None
        if parts is None:
            return None
        outputs: list[Response | Exception] = []
        for context, part in zip(contexts, parts, strict=True):
            try:
                outputs.append(self._output(part, accept, context))
            except RequestError as error:
                outputs.append(error)
        return outputs

    def _has_entry_per_row(self, prediction: Any, count: int) -> bool:
        """Whether the entries of a prediction for so many rows are those rows, and not as many of something else by chance.

        They are if as many rows as entries were seen for two numbers of rows, this one and one answered alone.
        """
        if _count_entries(prediction) != count:
            return False
        known = self._known.get(_form_of_entries(prediction, deep=not self._is_declared), ())
        return any(other != count for other in known)

    def _predict(self, rows: Any, context: Context) -> Any:
        """Predict for one request, and learn from the length of its prediction whether predictions may be split."""
        prediction = super()._predict(rows, context)
        count, found = _count_rows(rows), _count_entries(prediction)
        if count is not None and found is not None and not self._has_other_lengths:
            if count != found:
                self._has_other_lengths = True
            else:
                self._note_length(_form_of_entries(prediction, deep=not self._is_declared), count)
        return prediction

    def _note_length(self, form: Any, count: int) -> None:
        if form not in self._known and len(self._known) >= MOST_FORMS:
            self._known.clear()
        known = self._known.setdefault(form, set())
        if len(known) < 2:
            known.add(count)

    def _alone(self, request: Request) -> Response | Exception:
        try:
            return self._answer(request)
        except RequestError as error:
            return error

    def _finish_alone(self, read: ReadRequest, group: RequestGroup) -> Response | Exception:
        if read.error is not None:
            return read.error
        try:
            return self._output(self._predict(read.values, read.context), group.accept, read.context)
        except RequestError as error:
            return error
