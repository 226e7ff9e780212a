"""Rows of a dataset: pages of them, one of them, those that fit a condition, and a grid of images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.contracts.feature import Feature
from headrace.io.urls import is_url
from headrace.viewer.dataset import Row, ShownDataset
from headrace.viewer.display.cells import CellPlace, json_value, large_cell, small_cell
from headrace.viewer.display.markup import Markup, element, join
from headrace.viewer.pages.page import BadQuery, Links, Page, Query, code_block, command_line

__all__ = [
    "MOST_COLUMNS",
    "column_pager",
    "command_for",
    "describe_kind",
    "page_head",
    "read_part",
    "row_json",
    "row_line",
    "row_page",
    "row_table",
    "rows_page",
    "table_head",
]

MOST_ROWS, USUAL_ROWS = 200, 50
MOST_COLUMNS = 40
SHOWN_PATHS = 20


def rows_page(dataset: ShownDataset, query: Query, links: Links) -> Page:
    """A page of rows in order."""
    start, count, names = read_part(dataset, query)
    rows = dataset.rows(start, start + count, names)
    total = dataset.count(0)
    content = join(
        [
            page_head(dataset, query, links, total),
            row_table(dataset, rows, names, links),
            _pager(query, links, start, count, total, len(rows)),
            column_pager(dataset, query, links),
            code_block(
                python=f"source = {dataset.code}\nfor example in source[{start}:{start + count}]:\n    print(example)",
                command=command_for(dataset, "head", f"--rows {start}:{start + count}"),
            ),
        ]
    )
    data = {
        "dataset": dataset.name,
        "start": start,
        "examples": total,
        "failure": dataset.failure,
        "features": list(names),
    }
    return Page(title=dataset.name, content=content, data={**data, "rows": [row_json(each) for each in rows]})


def read_part(dataset: ShownDataset, query: Query) -> tuple[int, int, tuple[str, ...]]:
    """The first row, how many, and the features that an address asks for."""
    start = query.number("start", 0)
    count = query.number("count", USUAL_ROWS, least=1, most=MOST_ROWS)
    first = query.number("first", 0)
    return start, count, dataset.names[first : first + MOST_COLUMNS]


def page_head(dataset: ShownDataset, query: Query, links: Links, total: int | None) -> Markup:
    """The title of a dataset, with its size and the form of conditions."""
    known = "counting..." if total is None else f"{total:,} examples"
    if dataset.failure:
        fault = element(
            "p",
            dataset.failure,
            " ",
            element("a", "Show all faults", href=links.to("faults")),
            class_="fault",
            role="alert",
        )
    else:
        fault = None
    return join(
        [
            element("h1", dataset.name),
            element("p", f"{known}, {len(dataset.names):,} features", class_="faint"),
            fault,
            _search_form(query, links),
        ]
    )


def _search_form(query: Query, links: Links, fault: str | None = None) -> Markup:
    text = element(
        "input",
        type="search",
        name="where",
        value=query.text("where"),
        placeholder="label = 7 and width > 100",
        aria_label="Show rows that fit a condition",
        spellcheck="false",
        autocomplete="off",
        maxlength=10_000,
        aria_invalid="true" if fault else None,
    )
    row = element(
        "input", type="text", inputmode="numeric", name="row", placeholder="row", aria_label="Go to a row", size=10
    )
    find = element(
        "form", text, element("button", "Filter"), method="get", action=links.to(), class_="search", role="search"
    )
    go = element("form", row, element("button", "Go"), method="get", action=links.to(), class_="go")
    hint = element(
        "details",
        element("summary", "How to write a condition"),
        element(
            "p",
            "Compare features with = != < <= > >=, join with and, or, not and brackets. ",
            element("code", "name contains 'cat'"),
            ", ",
            element("code", "label in ('cat', 'dog')"),
            ", ",
            element("code", "length(tokens) > 512"),
            ", ",
            element("code", "score[0] < 0.5"),
            ". A text alone, in quotes, is searched in all features of text.",
        ),
    )
    return element(
        "div", find, go, hint, element("p", fault, class_="fault", role="alert") if fault else None, class_="tools"
    )


def _place(dataset: ShownDataset, links: Links, row: int, name: str) -> CellPlace:
    position = dataset.positions[name]

    def media(kind: str, item: int, size: int) -> str:
        return links.to(kind, row=row, feature=str(position), item=item or None, size=size or None)

    return CellPlace(row, dataset.schema[name], name, media)


def _cells(dataset: ShownDataset, each: Row, names: Sequence[str], links: Links) -> list[Markup]:
    if each.values is None:
        return [element("span", each.fault or "", class_="fault")]
    found = []
    for name in names:
        if name in each.values:
            found.append(small_cell(each.values[name], _place(dataset, links, each.index, name)))
        else:
            found.append(element("span", "too large to show", class_="faint"))
    return found


def row_line(dataset: ShownDataset, each: Row, names: Sequence[str], links: Links) -> Markup:
    """One row of a table."""
    number = element("th", element("a", f"{each.index:,}", href=links.to(row=str(each.index))), scope="row")
    cells = _cells(dataset, each, names, links)
    if each.values is None:
        return element("tr", number, element("td", *cells, colspan=max(1, len(names))))
    return element("tr", number, *(element("td", cell) for cell in cells))


def table_head(dataset: ShownDataset, names: Sequence[str]) -> Markup:
    """The heads of the columns: names and types."""
    heads = [element("th", element("span", "row", class_="unseen"), scope="col")]
    for name in names:
        kind = element("span", describe_kind(dataset.schema[name]), class_="kind")
        heads.append(element("th", element("span", name, class_="feature", title=name), kind, scope="col"))
    return element("thead", element("tr", *heads))


def describe_kind(feature: Feature) -> str:
    """A type in a few letters: ``float32 28 x 28``."""
    kind = feature.encoding or feature.dtype
    return f"{kind} {' x '.join('?' if n is None else str(n) for n in feature.shape)}" if feature.shape else kind


def row_table(dataset: ShownDataset, rows: Sequence[Row], names: Sequence[str], links: Links) -> Markup:
    """A table of rows."""
    body = element("tbody", *(row_line(dataset, each, names, links) for each in rows))
    inside = element(
        "table",
        element("caption", f"Rows of {dataset.name}", class_="unseen"),
        table_head(dataset, names),
        body,
        class_="rows",
    )
    return element("div", inside, class_="scroll", tabindex="0", role="region", aria_label="rows")


def _pager(query: Query, links: Links, start: int, count: int, total: int | None, shown: int) -> Markup:
    kept = {"count": query.text("count") or None, "first": query.text("first") or None}
    earlier = links.to(start=max(0, start - count), **kept) if start else None
    is_last = shown < count or (total is not None and start + count >= total)
    later = None if is_last else links.to(start=start + count, **kept)
    last = links.to(start=(total - 1) // count * count, **kept) if total and not is_last else None
    stop = start + shown
    return element(
        "nav",
        element("a", "First", href=links.to(**kept)) if start else None,
        element("a", "Previous", href=earlier, rel="prev") if earlier else None,
        element("span", f"{start:,} to {stop - 1:,}" if shown else "no rows here"),
        element("a", "Next", href=later, rel="next") if later else None,
        element("a", "Last", href=last) if last else None,
        class_="pager",
        aria_label="pages of rows",
    )


def column_pager(dataset: ShownDataset, query: Query, links: Links) -> Markup | None:
    """Links to the same rows with other features."""
    count, first = len(dataset.names), query.number("first", 0)
    if count <= MOST_COLUMNS:
        return None
    kept = {name: query.text(name) or None for name in ("start", "count", "where")}
    return element(
        "nav",
        element("a", "Features before", href=links.to(first=max(0, first - MOST_COLUMNS), **kept)) if first else None,
        element("span", f"features {first:,} to {min(first + MOST_COLUMNS, count) - 1:,} of {count:,}"),
        element("a", "Features after", href=links.to(first=first + MOST_COLUMNS, **kept))
        if first + MOST_COLUMNS < count
        else None,
        class_="pager",
        aria_label="pages of features",
    )


def command_for(dataset: ShownDataset, name: str, options: str = "") -> str | None:
    """A command for the same data; ``None`` where it has no files, or too many to name."""
    paths = dataset.paths_of(name)
    if not 0 < len(paths) <= SHOWN_PATHS:
        return None
    return f"{command_line(['headrace', name, *paths, *dataset.flags(name)])} {options}".strip()


def row_json(each: Row) -> dict[str, Any]:
    """A row as JSON values."""
    found: dict[str, Any] = {"row": each.index}
    if each.values is None:
        return {**found, "fault": each.fault}
    return {**found, "values": {name: json_value(value) for name, value in each.values.items()}}


def row_page(dataset: ShownDataset, query: Query, links: Links) -> Page:
    """One row with all that it has.

    Raises:
        BadQuery: There is no such row.
    """
    index, total = query.number("row", 0), dataset.count()
    if total is not None and index >= total:
        raise BadQuery(f"row must be below {total:,}, the number of examples; got {index:,}")
    first = query.number("first", 0)
    names = dataset.names[first : first + 2 * MOST_COLUMNS]
    found = dataset.rows_at([index], names) if total is not None else dataset.rows(index, index + 1, names)
    each = found[0] if found else Row(index, None, "there is no such row")
    where = dataset.where(index) if total is not None else None
    values = join(_describe_feature(dataset, each, name, links) for name in names) if each.values is not None else None
    shown = (
        element("dl", values, class_="values")
        if values
        else element("p", each.fault or "", class_="fault", role="alert")
    )
    steps = element(
        "nav",
        element("a", "Previous row", href=links.to(row=str(index - 1)), rel="prev") if index else None,
        element("a", "Next row", href=links.to(row=str(index + 1)), rel="next")
        if total is None or index + 1 < total
        else None,
        element("a", "Its page", href=links.to(start=index // USUAL_ROWS * USUAL_ROWS)),
        element("a", "Its bytes", href=links.to("bytes", row=str(index)))
        if where is not None and where.path is not None and not is_url(where.path)
        else None,
        class_="pager",
        aria_label="rows",
    )
    content = join(
        [
            element("h1", f"Row {index:,}"),
            element("p", str(where), class_="faint") if where else None,
            steps,
            shown,
            _row_columns(dataset, links, index, first),
            code_block(
                python=f"source = {dataset.code}\nexample = source[{index}]",
                command=command_for(dataset, "head", f"--rows {index}"),
            ),
        ]
    )
    data = {"dataset": dataset.name, "examples": total, "where": str(where or ""), **row_json(each)}
    return Page(
        title=f"Row {index:,} of {dataset.name}",
        content=content,
        data=data,
        status=200 if each.values is not None else 422,
    )


def _describe_feature(dataset: ShownDataset, each: Row, name: str, links: Links) -> Markup:
    feature = dataset.schema[name]
    title = element(
        "dt", element("span", name, class_="feature"), element("span", describe_kind(feature), class_="kind")
    )
    if each.values is None or name not in each.values:
        return join([title, element("dd", "too large to show", class_="faint")])
    place = _place(dataset, links, each.index, name)
    shown = large_cell(each.values[name], place)
    if dataset.sample_rate(name) is not None:
        shown = join([element("audio", controls=True, preload="none", src=place.media("audio", 0, 0)), shown])
    return join([title, element("dd", shown)])


def _row_columns(dataset: ShownDataset, links: Links, index: int, first: int) -> Markup | None:
    size = 2 * MOST_COLUMNS
    if len(dataset.names) <= size:
        return None
    return element(
        "nav",
        element("a", "Features before", href=links.to(row=str(index), first=max(0, first - size) or None))
        if first
        else None,
        element(
            "span", f"features {first:,} to {min(first + size, len(dataset.names)) - 1:,} of {len(dataset.names):,}"
        ),
        element("a", "Features after", href=links.to(row=str(index), first=first + size))
        if first + size < len(dataset.names)
        else None,
        class_="pager",
        aria_label="pages of features",
    )
