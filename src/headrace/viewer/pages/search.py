"""The rows that fit a condition, each as soon as it is found."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import chain

from headrace.sources.conditions.condition import Condition, condition
from headrace.viewer.dataset import Row, ShownDataset
from headrace.viewer.display.markup import Markup, element, join
from headrace.viewer.pages.page import Links, Query, change_note, code_block, command_line
from headrace.viewer.pages.rows import column_pager, command_for, page_head, read_part, row_json, row_line, table_head

__all__ = ["found_rows", "searches"]


def searches(query: Query) -> Condition | None:
    """The condition of an address, if it has one.

    Raises:
        ConditionError: It cannot be read.
    """
    text = query.text("where")
    return condition(text) if text else None


def found_rows(
    dataset: ShownDataset, query: Query, links: Links, wanted: Condition, *, as_json: bool
) -> tuple[Markup, Iterator[str]]:
    """The rows that fit a condition, each as soon as it is found.

    Returns:
        What comes before the results on a page, and the results as pieces of HTML, or as lines of JSON.

    Raises:
        NoSuchFeature, ConditionError: The condition does not fit the features.
    """
    start, count, names = read_part(dataset, query)
    wanted.needed(dataset.stored.schema)
    note = change_note([dataset])
    changed = None if note is None else element("p", note, class_="fault", role="alert")
    head = join([changed, page_head(dataset, query, links, dataset.count(0))])
    lines = _found(dataset, wanted, start, count, names)
    # The first piece at once, because a condition that does not fit the types fails there.
    first = next(lines, None)
    lines = chain([] if first is None else [first], lines)
    if as_json:
        return head, _found_json(lines)
    return head, _found_html(dataset, query, links, wanted, lines, names)


def _found(
    dataset: ShownDataset, wanted: Condition, start: int, count: int, names: Sequence[str]
) -> Iterator[tuple[int, list[Row], bool]]:
    """How far the search is, rows found there, and whether it is over."""
    left, at = count, start
    for at, indices in dataset.fitting(wanted, start):
        taken = indices[:left]
        left -= len(taken)
        rows = dataset.rows_at(taken, names) if taken else []
        if not left:
            yield taken[-1] + 1, rows, False
            return
        yield at, rows, False
    yield at, [], True


def _found_json(lines: Iterator[tuple[int, list[Row], bool]]) -> Iterator[str]:
    """Lines of JSON. One with ``error`` ends a search that cannot go on, as at a damaged record."""
    at = 0
    try:
        for at, rows, is_over in lines:
            parts = [*map(row_json, rows), {"searched": at, "finished": is_over}]
            yield "".join(f"{json.dumps(part)}\n" for part in parts)
    except Exception as error:  # noqa: BLE001 - a damaged record, or a function of the user's
        failed = {"searched": at, "finished": False, "error": str(error) or type(error).__name__}
        yield f"{json.dumps(failed)}\n"


def _found_html(
    dataset: ShownDataset,
    query: Query,
    links: Links,
    wanted: Condition,
    lines: Iterator[tuple[int, list[Row], bool]],
    names: Sequence[str],
) -> Iterator[str]:
    yield f'<div class="scroll" tabindex="0" role="region" aria-label="rows that fit"><table class="rows">{table_head(dataset, names)}<tbody>'
    shown, at, is_over = 0, 0, False
    try:
        for found in lines:
            at, rows, is_over = found
            shown += len(rows)
            # A comment where nothing was found: it shows whether the browser still listens.
            yield "".join(row_line(dataset, each, names, links) for each in rows) or "<!-- -->"
        note = element("p", f"{shown:,} rows fit" + ("" if is_over else f", up to row {at - 1:,}"), role="status")
    except Exception as error:  # noqa: BLE001 - a damaged record, or a function of the user's
        note = element("p", str(error) or type(error).__name__, class_="fault", role="alert")
    later = (
        None
        if is_over or not shown
        else links.to(where=wanted.text, start=at, **{name: query.text(name) for name in ("count", "first")})
    )
    python = f"source = {dataset.code}.filter(headrace.condition({wanted.text!r}))\nheadrace.convert(source, 'selection.tfrecord')"
    condition = command_line(["--where", wanted.text])
    commands = [
        command_for(dataset, "head", condition),
        command_for(dataset, "convert", f"selection.tfrecord {condition}"),
    ]
    yield join(
        [
            Markup("</tbody></table></div>"),
            note,
            element("nav", element("a", "More", href=later, rel="next"), class_="pager") if later else None,
            column_pager(dataset, query, links),
            code_block(
                python=python,
                command="\n".join(each for each in commands if each),
                title="Export these rows, in Python or as a command",
            ),
        ]
    )
