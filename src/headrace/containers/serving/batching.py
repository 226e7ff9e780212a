"""Requests that arrived together, answered together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headrace.containers.serving.handler import ScriptHandler
from headrace.containers.serving.rows import Rows, join_csv, join_rows, split_rows
from headrace.containers.toolkit import shim
from headrace.contracts.serving import Request, Response
from headrace.errors import RequestError

__all__ = ["BatchingScriptHandler"]


@dataclass(slots=True)
class _Group:
    """Requests of one content type that want one kind of answer."""

    content_type: str
    accept: str
    places: list[int]


class BatchingScriptHandler(ScriptHandler):
    """A script whose answer to a row does not depend on the other rows: those of several requests go through it together.

    CSV bodies whose columns look alike are read as one; other bodies are read one by one and their rows put together.
    Whenever that cannot be done without changing an answer, or a function fails, the requests are answered one by one.
    """

    _one_is_a_table: bool | None = None

    def answer_many(self, requests: Sequence[Request], /) -> Sequence[Response | Exception]:
        """Answer requests; in the place of one that fails is its error."""
        answers: list[Response | Exception | None] = [None] * len(requests)
        with shim.inside():
            for group in self._groups(requests):
                members = [requests[place] for place in group.places]
                for place, answer in zip(group.places, self._together(members, group), strict=True):
                    answers[place] = answer
        return [answer for answer in answers if answer is not None]

    def _groups(self, requests: Sequence[Request]) -> list[_Group]:
        groups: dict[tuple[str, str], _Group] = {}
        for place, request in enumerate(requests):
            content_type, accept = self._types(request.content_type, request.accept)
            groups.setdefault((content_type, accept), _Group(content_type, accept, [])).places.append(place)
        return list(groups.values())

    def _together(self, requests: list[Request], group: _Group) -> Sequence[Response | Exception]:
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

    def _batches(self, requests: list[Request], group: _Group) -> list[tuple[list[int], Rows]]:
        """The rows of requests that may be put together, and whose they are."""
        bodies = []
        for request in requests:
            try:
                bodies.append(self._input_data(request, group.content_type))
            except RequestError:
                bodies.append(None)
        if group.content_type == "text/csv":
            return self._tables(bodies, group)
        return join_rows([None if body is None else self._read(body, None, group) for body in bodies])

    def _tables(self, bodies: list[Any], group: _Group) -> list[tuple[list[int], Rows]]:
        found = []
        for members, text, sizes in join_csv(bodies):
            rows = self._read(text, sizes, group)
            if rows is not None and (1 not in sizes or self._keeps_rows(bodies[members[sizes.index(1)]], group)):
                found.append((members, rows))
        return found

    def _keeps_rows(self, body: Any, group: _Group) -> bool:
        """Whether the script reads one row as a table of one row, and not as an axis, as ``genfromtxt`` does: seen once."""
        if self._one_is_a_table is None:
            self._one_is_a_table = self._read(body, [1], group) is not None
        return self._one_is_a_table

    def _read(self, body: Any, sizes: list[int] | None, group: _Group) -> Rows | None:
        try:
            return Rows.of(self._input(body, group.content_type, self._context(None)), sizes)
        except RequestError:
            return None  # whoever it is will hear of it when answered alone

    def _outputs(self, batch: Rows, requests: list[Request], accept: str) -> list[Response | Exception] | None:
        """An answer for each, or ``None`` where they have to be answered one by one."""
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
