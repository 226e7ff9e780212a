"""Endpoints on this machine: whether they answer, how fast, and what they say to a row."""

from __future__ import annotations

import base64
import contextlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from headrace.containers.linear_learner.artifact import load_model
from headrace.contracts.strings import Strings
from headrace.contracts.values import Ragged
from headrace.errors import HeadraceError
from headrace.hosting.client import Client
from headrace.hosting.endpoint import Endpoint, list_endpoints
from headrace.hosting.prepare import unpack_models
from headrace.hosting.stage import LINEAR_LEARNER, linear_learner_stage
from headrace.viewer.dataset import MOST_PAGE_BYTES, ShownDataset
from headrace.viewer.display.cells import json_value
from headrace.viewer.display.markup import Markup, element, join
from headrace.viewer.pages.order import is_class_label
from headrace.viewer.pages.page import BadQuery, Links, Page, Query, code_block, command_line, table

__all__ = ["endpoint_page", "endpoints_page", "request_body", "write_body"]

METRICS_TIMEOUT_S, ANSWER_TIMEOUT_S = 2.0, 20.0
SHOWN_ANSWER = 20_000
MOST_WRITTEN = 100_000
"""The longest body that is written out; an argument of a command holds at most 128 KiB."""
LOG_LINES = 40
SAMPLE = re.compile(
    r'^(headrace_request(?:s_total|_seconds_sum|_seconds_count))(?:\{status="(\d+)"\})? ([\d.e+-]+)$', re.MULTILINE
)
OK, REDIRECTS = 200, 300
SENDS = "Send such a request, in Python or as a command"
KINDS = {"csv": "text/csv", "json": "application/json"}


def _figures(endpoint: Endpoint) -> dict[str, Any]:
    """How many requests it has answered, how many with an error, and how long they took."""
    address = endpoint.address
    if address is None:
        return {}
    try:
        _, _, body = Client(address).request(
            "GET", "/metrics", headers={"Connection": "close"}, timeout_s=METRICS_TIMEOUT_S
        )
    except (OSError, ValueError):
        return {}
    requests = errors = count = 0
    seconds = 0.0
    for name, status, value in SAMPLE.findall(body.decode("utf-8", "replace")):
        number = float(value)
        if name.endswith("_total"):
            requests += int(number)
            errors += 0 if not status or OK <= int(status) < REDIRECTS else int(number)
        elif name.endswith("_sum"):
            seconds += number
        else:
            count += int(number)
    return {"requests": requests, "errors": errors, "mean_ms": round(1000 * seconds / count, 3) if count else None}


def endpoints_page(base: str) -> Page:
    """All endpoints."""
    links = Links(base)
    described = [(endpoint.describe(), _figures(endpoint)) for endpoint in list_endpoints()]
    rows = []
    for known, figures in described:
        mean = figures.get("mean_ms")
        rows.append(
            (
                element("a", known["name"], href=links.above(f"endpoints/{known['name']}")),
                known["status"],
                known["address"] or "",
                f"{figures['requests']:,}" if figures else "",
                f"{figures['errors']:,}" if figures else "",
                f"{mean:.2f} ms" if mean is not None else "",
                known["reason"] or "",
            )
        )
    heads = ("endpoint", "state", "address", "requests", "errors", "mean latency", "reason")
    shown = (
        table(heads, rows, caption="endpoints") if rows else element("p", "No endpoint is recorded on this machine.")
    )
    content = join(
        [
            element("h1", "Endpoints on this machine"),
            shown,
            code_block(python="headrace.hosting.list_endpoints()", command="headrace endpoints"),
        ]
    )
    return Page(
        title="Endpoints",
        content=content,
        data={"endpoints": [{**known, **figures} for known, figures in described]},
        refresh=None,
    )


def request_body(dataset: ShownDataset, row: int, names: list[str], kind: str) -> str:
    """A row as the body of a request.

    Args:
        dataset, row: Which one.
        names: The features, in order.
        kind: ``"csv"``: their values end to end in one line; ``"json"``: ``{"instances": [{...}]}``.

    Raises:
        BadQuery: The row cannot be read, or has values that CSV has no form for.
    """
    found = dataset.rows_at([row], names)
    if not found or found[0].values is None:
        raise BadQuery(f"row {row} cannot be read: {found[0].fault if found else 'there is none'}")
    if unread := [name for name in names if name not in found[0].values]:
        raise BadQuery(f"{unread[0]!r} is too large to send from here: a page reads at most {MOST_PAGE_BYTES:,} bytes")
    return write_body({name: found[0].values[name] for name in names}, kind)


def write_body(example: Mapping[str, Any], kind: str) -> str:
    """The values of an example, whole, as the body of a request: as :func:`request_body`.

    >>> write_body({"x": np.array([0.5, np.nan]), "word": "a"}, "csv")
    '0.5,nan,"a"'
    """
    values = {name: _whole_value(value) for name, value in example.items()}
    if kind == "json":
        return json.dumps({"instances": [values]})
    flat = [each for value in values.values() for each in _flatten(value)]
    if any(isinstance(each, dict) for each in flat):
        raise BadQuery("CSV has no form for bytes and sparse values: choose JSON, or other features")
    return ",".join(map(_cell, flat))


def _whole_value(value: Any) -> Any:
    """A value as JSON, whole: what is shown is cut. NaN and infinity are floats, as the SDK sends them."""
    if isinstance(value, bytes):
        return {"b64": base64.b64encode(value).decode("ascii")}
    if hasattr(value, "tocsr"):
        row = value.tocsr()
        return {"indices": row.indices.tolist(), "values": row.data.tolist(), "shape": list(value.shape)}
    if isinstance(value, (Ragged, Strings, list, tuple)):
        return [_whole_value(each) for each in value]
    array = np.asarray(value)
    if array.dtype.kind in "biuf" or isinstance(value, str):
        return array.tolist()
    if array.dtype.kind in "OSU" and array.ndim:
        return [_whole_value(each) for each in array.tolist()]
    return json_value(value, array.size)


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return '"' + value.replace('"', '""') + '"'
    return "" if value is None else str(value)


def _flatten(value: Any) -> list[Any]:
    return [each for item in value for each in _flatten(item)] if isinstance(value, list) else [value]


def endpoint_page(name: str, datasets: list[ShownDataset], query: Query, base: str) -> Page:
    """One endpoint; with a row of a dataset, also its answer.

    Raises:
        BadQuery: There is no such endpoint, dataset or row.
    """
    endpoint = next((each for each in list_endpoints() if each.name == name), None)
    if endpoint is None:
        raise BadQuery(f"there is no endpoint named {name!r:.80} on this machine")
    known, figures = endpoint.describe(), _figures(endpoint)
    sent = _row_to_send(datasets, query) if query.text("row") else None
    answer = None if sent is None else _answer(endpoint, sent)
    created = known.get("created")
    described = {
        "status": known["status"],
        "address": known["address"],
        "process": known["pid"],
        "created": None if created is None else datetime.fromtimestamp(created, UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
        "containers": ", ".join(known["containers"]) or None,
        "reason": known["reason"],
        **{name.replace("_", " "): value for name, value in figures.items()},
    }
    facts = [(key, str(value)) for key, value in described.items() if value is not None]
    logs = endpoint.logs(LOG_LINES)
    content = join(
        [
            element("h1", name),
            element("dl", *(join([element("dt", key), element("dd", text)]) for key, text in facts), class_="values"),
            _form(name, datasets, query, base),
            _answer_shown(answer) if answer else None,
            element("details", element("summary", f"The last {LOG_LINES} lines of its log"), element("pre", logs))
            if logs
            else None,
            _code(name, sent or _sample_request(endpoint, datasets)),
        ]
    )
    return Page(title=name, content=content, data={**known, **figures, "answer": answer})


@dataclass(frozen=True, slots=True)
class _RequestBody:
    """A body and its content type.

    Args:
        body: All of it.
        content_type: ``"text/csv"`` or ``"application/json"``.
        dataset, row, names: Where it is from; ``None`` if it was made up.
    """

    body: str
    content_type: str
    dataset: ShownDataset | None = None
    row: int = 0
    names: tuple[str, ...] = ()


def _sample_request(endpoint: Endpoint, datasets: list[ShownDataset]) -> _RequestBody:
    """A request that fits what is known of the model: the first row of a dataset, or zeros."""
    wanted = _count_inputs(endpoint)
    for dataset in datasets:
        if dataset.refusal is not None or not dataset.count():
            continue
        for names in _likely_inputs(dataset):
            with contextlib.suppress(BadQuery):
                body = request_body(dataset, 0, list(names), "csv")
                if wanted is None or body.count(",") + 1 == wanted:
                    return _RequestBody(body, KINDS["csv"], dataset, 0, names)
        if wanted is None:
            with contextlib.suppress(BadQuery):
                body = request_body(dataset, 0, list(dataset.names), "json")
                return _RequestBody(body, KINDS["json"], dataset, 0, dataset.names)
    return _RequestBody(",".join(["0"] * (wanted or 1)), KINDS["csv"])


def _likely_inputs(dataset: ShownDataset) -> list[tuple[str, ...]]:
    """Features that a model may take: all, or all but one that looks like a label."""
    labels = [name for name in dataset.label_features() if is_class_label(dataset.schema[name], name)]
    without = [tuple(each for each in dataset.names if each != label) for label in labels]
    return [*without, dataset.names]


def _count_inputs(endpoint: Endpoint) -> int | None:
    """How many numbers the first container takes; ``None`` where only the container itself knows."""
    first = next(iter(endpoint.stages), None)
    if first is None or first.factory != LINEAR_LEARNER or first.model_dir is None:
        return None
    try:
        return _count_features(first.model_dir, Path(first.model_dir).stat().st_mtime_ns)
    except (HeadraceError, OSError):
        return None


@lru_cache(16)
def _count_features(model_dir: str, _: int) -> int:
    """The features of a model of Linear Learner. The time of its last change is part of the key."""
    with unpack_models([linear_learner_stage(model_dir)]) as [unpacked]:
        return load_model(Path(unpacked.model_dir or "")).features


def _code(name: str, sent: _RequestBody) -> Markup:
    """What sends this body, in Python and as a command. A long body is read from its dataset again."""
    found = f"endpoint = headrace.hosting.find_endpoint({name!r})\n"
    end = f"print(endpoint.invoke(body, content_type={sent.content_type!r}).body.decode())"
    if len(sent.body) <= MOST_WRITTEN:
        kind = [] if sent.content_type == KINDS["csv"] else ["--content-type", sent.content_type]
        # Two dashes, because a body may begin with the sign of a number.
        command = command_line(
            ["headrace", "invoke", *kind, *(["--"] if sent.body.startswith("-") else []), name, sent.body]
        )
        return code_block(python=f"{found}body = {sent.body!r}\n{end}", command=command, title=SENDS)
    assert sent.dataset is not None
    written = "csv" if sent.content_type == KINDS["csv"] else "json"
    lines = (
        f"from headrace.viewer.pages.endpoints import write_body\n\n{found}"
        f"example = {sent.dataset.code}.encoded()[{sent.row}]\nnames = {list(sent.names)!r}\n"
        f"body = write_body({{name: example[name] for name in names}}, {written!r})\n"
    )
    return code_block(python=lines + end, title=SENDS)


def _form(name: str, datasets: list[ShownDataset], query: Query, base: str) -> Markup | None:
    if not datasets:
        return None
    chosen = query.number("dataset", 0, most=len(datasets) - 1)
    options = [element("option", each.name, value=n, selected=n == chosen) for n, each in enumerate(datasets)]
    kinds = [element("option", kind, value=kind, selected=kind == query.text("as", "csv")) for kind in KINDS]
    return element(
        "form",
        element("label", "dataset ", element("select", *options, name="dataset")),
        element(
            "label", "row ", element("input", type="number", name="row", min=0, value=query.text("row", "0"), size=8)
        ),
        element(
            "label",
            "features ",
            element(
                "input",
                type="text",
                name="features",
                value=query.text("features"),
                placeholder="all, by name, in order",
            ),
        ),
        element("label", "as ", element("select", *kinds, name="as")),
        element("button", "Send the row"),
        method="get",
        action=Links(base).above(f"endpoints/{name}"),
        class_="fields",
    )


def _row_to_send(datasets: list[ShownDataset], query: Query) -> _RequestBody:
    if not datasets:
        raise BadQuery("no dataset is shown, so there is no row to send")
    dataset = datasets[query.number("dataset", 0, most=len(datasets) - 1)]
    if dataset.refusal is not None:
        raise BadQuery(f"{dataset.name} cannot be opened: {dataset.refusal}")
    total = dataset.count()
    row = query.number("row", 0, most=max(0, (total or 1) - 1))
    names = [each.strip() for each in query.text("features").split(",") if each.strip()] or list(dataset.names)
    for each in names:
        if each not in dataset.schema:
            raise BadQuery(f"features must be names of features, got {each!r:.60}")
    kind = query.choice("as", tuple(KINDS), "csv")
    return _RequestBody(request_body(dataset, row, names, kind), KINDS[kind], dataset, row, tuple(names))


def _answer(endpoint: Endpoint, given: _RequestBody) -> dict[str, Any]:
    sent = {"row": given.row, "content_type": given.content_type, "body": given.body[:SHOWN_ANSWER]}
    try:
        result = endpoint.invoke(given.body, content_type=given.content_type, timeout_s=ANSWER_TIMEOUT_S)
    except (HeadraceError, OSError) as error:
        return {**sent, "error": str(error)}
    return {**sent, "answer": result.body[:SHOWN_ANSWER].decode("utf-8", "replace"), "answer_type": result.content_type}


def _answer_shown(answer: dict[str, Any]) -> Markup:
    failed = answer.get("error")
    return join(
        [
            element("h2", f"Row {answer['row']:,}"),
            element("pre", answer["body"], class_="text"),
            element("h2", "Answer"),
            element("p", failed, class_="fault", role="alert")
            if failed
            else element("pre", answer["answer"], class_="text"),
        ]
    )
