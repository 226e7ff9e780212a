"""The features of a dataset, and statistics of their values: of a sample first, then of all examples."""

from __future__ import annotations

import ast
import json
from functools import partial
from typing import Any

from headrace.errors import HeadraceError
from headrace.io.cache.folder import cache_folder, cache_key
from headrace.io.write.atomic import write_atomic
from headrace.sources.conditions.condition import WORDS
from headrace.statistics.collect import PartialStatistics, collect
from headrace.viewer.dataset import ShownDataset
from headrace.viewer.display.markup import Markup, element, figure, join
from headrace.viewer.pages.page import Links, Page, Query, code_block, progress_note
from headrace.viewer.pages.rows import command_for, describe_kind
from headrace.viewer.work import Work, Works

__all__ = ["schema_page"]

SHOWN_FEATURES = 60
SAMPLE = 2000
KEPT_FEATURES = 500
"""With more features than this, only those on the page are read."""
FIGURES = ("values", "empty", "nan", "infinite", "minimum", "maximum", "mean", "std", "distinct")
ALWAYS = ("values", "minimum", "maximum", "mean", "std")
"""Figures that are shown also where they are 0."""
VERSION = 2


def schema_page(dataset: ShownDataset, query: Query, links: Links, works: Works) -> Page:
    """The features, and what is known of their values: of a sample first, then of all examples, from the cache if they were read before."""
    first = query.number("first", 0)
    names = dataset.names[first : first + SHOWN_FEATURES]
    read = dataset.names if len(dataset.names) <= KEPT_FEATURES else names
    key = ("statistics", links.number, dataset.opened_states, first if len(dataset.names) > KEPT_FEATURES else 0)
    work = works.get(
        key,
        "reading all examples",
        partial(_collect, dataset, tuple(n for n in read if n not in dataset.is_wide)),
        patience_s=0.3,
    )
    found: dict[str, Any] = work.result or {"statement": "no example was read yet", "features": []}
    by_name = {each["name"]: each for each in found["features"]}
    cards = [_card(dataset, links, name, by_name.get(name)) for name in names]
    content = join(
        [
            element("h1", "Features"),
            element("p", found["statement"], class_="faint", role="status"),
            progress_note(work),
            element("div", *cards, class_="cards"),
            _pager(links, first, len(dataset.names)),
            code_block(python=f"print(headrace.stats({dataset.code}))", command=command_for(dataset, "stats", "--all")),
        ]
    )
    schema = {name: dataset.schema[name].to_json() for name in names}
    data = {
        "schema": schema,
        **work.to_json(),
        "statistics": {**found, "features": [by_name[n] for n in names if n in by_name]},
    }
    return Page(
        title=f"Features of {dataset.name}", content=content, data=data, refresh=None if work.is_finished else 1
    )


def _collect(dataset: ShownDataset, names: tuple[str, ...], work: Work) -> dict[str, Any]:
    """Statistics as JSON values, first of a sample, then of all examples."""
    source = dataset.stored.select(*names)
    kept = _read_kept(dataset, names)
    if kept is not None:
        return kept
    sample = collect(source, SAMPLE, lambda part, _: work.advance(part.read))
    first = sample.to_json()
    if sample.read == sample.total:
        return first
    work.result = first

    def advance(part: PartialStatistics, _: int) -> None:
        work.advance(part.read, sample.total)

    found: dict[str, Any] = collect(source, None, advance).to_json()
    _keep(dataset, names, found)
    return found


def _place(dataset: ShownDataset, names: tuple[str, ...]) -> Any:
    """Where statistics of this data are kept; its fingerprint and the state of its files when they were opened name it."""
    states = dataset.opened_states
    if not states:
        return None
    return cache_folder("statistics") / (cache_key(VERSION, dataset.stored.fingerprint, *states, *names) + ".json")


def _read_kept(dataset: ShownDataset, names: tuple[str, ...]) -> dict[str, Any] | None:
    try:
        place = _place(dataset, names)
        found = None if place is None else json.loads(place.read_text(encoding="utf-8"))
    except (OSError, ValueError, HeadraceError):
        return None
    return found if isinstance(found, dict) and found.get("features") is not None else None


def _keep(dataset: ShownDataset, names: tuple[str, ...], found: dict[str, Any]) -> None:
    try:
        place = _place(dataset, names)
        if (
            place is not None and not dataset.changed_files
        ):  # Changed in place, they may be partly read as they are now.
            write_atomic(place, json.dumps(found).encode(), durable=False)
    except (OSError, HeadraceError):
        return  # The cache is an offer, not a need.


def _card(dataset: ShownDataset, links: Links, name: str, found: dict[str, Any] | None) -> Markup:
    head = [element("h2", name, class_="feature"), element("p", describe_kind(dataset.schema[name]), class_="faint")]
    if found is None:
        return element("section", *head)
    facts = [
        (each, _number(found[each])) for each in FIGURES if found[each] is not None and (found[each] or each in ALWAYS)
    ]
    if found["distinct"] is None:
        facts.append(("distinct", "more than 10,000"))
    if found["lengths"] is not None:
        facts.append(("values per example", _range(found["lengths"])))
    if found["sizes"] is not None:
        facts.append(("bytes" if found["dtype"] == "bytes" else "characters", _range(found["sizes"])))
    rows = join(join([element("dt", key), element("dd", text)]) for key, text in facts)
    bars = [
        (_label(dataset, name, bar), int(bar["count"]), _address(dataset, links, name, found, bar))
        for bar in found["bars"]
    ]
    drawn = figure(bars, label=f"distribution of {name}") if bars else None
    return element("section", *head, element("dl", rows), drawn)


def _number(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _range(found: list[Any]) -> str:
    return f"{found[0]:,} to {found[2]:,}, mean {found[1]:,.6g}"


def _label(dataset: ShownDataset, name: str, bar: dict[str, Any]) -> str:
    names, label = dataset.schema[name].names, str(bar["label"])
    if names is not None and label.isdecimal() and int(label) < len(names):
        return f"{names[int(label)]} ({label})"
    return label


def _address(dataset: ShownDataset, links: Links, name: str, found: dict[str, Any], bar: dict[str, Any]) -> str | None:
    """Where the rows of a bar are shown; ``None`` for bars that no condition picks out."""
    is_plain = name.replace("_", "a").isalnum() and not name[:1].isdigit() and name.lower() not in WORDS
    shown = name if is_plain else f"`{name}`"
    feature = dataset.schema[name]
    if "`" in name or not bar["count"]:
        return None
    if found["dtype"] == "str" and found["bars_of"] == "values":
        return _text_address(links, shown, str(bar["label"]))
    if found["bars_of"] == "sizes" and feature.shape == ():
        return links.to(where=_range_condition(f"length({shown})", found["bars"], bar))
    if feature.numpy_dtype.kind not in "biuf" or found["bars_of"] == "sizes":
        return None
    return links.to(where=_range_condition(shown, found["bars"], bar))


def _range_condition(value: str, bars: list[dict[str, Any]], bar: dict[str, Any]) -> str:
    """The condition that a value is in a bar. One that ends where the next begins does not hold its end."""
    if bar["start"] is None:
        return f"{value} = {str(bar['label']).lower()}"
    sign = "<" if any(each["start"] == bar["stop"] for each in bars if each is not bar) else "<="
    return f"{value} >= {bar['start']:.17g} and {value} {sign} {bar['stop']:.17g}"


def _text_address(links: Links, shown: str, label: str) -> str | None:
    """Where the rows with a text are; ``None`` for one that the statistics shortened."""
    try:
        text = ast.literal_eval(label)
    except (ValueError, SyntaxError):
        return None
    if not isinstance(text, str) or any("\ud800" <= letter <= "\udfff" for letter in text):
        return None  # an address cannot hold half a surrogate pair
    return links.to(where=f"{shown} = '{text.replace(chr(39), chr(39) * 2)}'")


def _pager(links: Links, first: int, count: int) -> Markup | None:
    if count <= SHOWN_FEATURES:
        return None
    stop = min(first + SHOWN_FEATURES, count)
    return element(
        "nav",
        element("a", "Features before", href=links.to("schema", first=max(0, first - SHOWN_FEATURES)), rel="prev")
        if first
        else None,
        element("span", f"features {first:,} to {stop - 1:,} of {count:,}"),
        element("a", "Features after", href=links.to("schema", first=stop), rel="next") if stop < count else None,
        class_="pager",
        aria_label="pages of features",
    )
