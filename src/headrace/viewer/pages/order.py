"""Orders: images by class, shuffled by a seed, and the batches that a loader makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headrace.contracts.feature import Feature
from headrace.contracts.records import Shard
from headrace.contracts.values import Batch, Indices
from headrace.loading.loader import Loader
from headrace.sampling.samplers import Shuffled
from headrace.viewer.dataset import ShownDataset
from headrace.viewer.display.cells import json_value
from headrace.viewer.display.markup import Markup, element, join
from headrace.viewer.pages.page import BadQuery, Links, Page, Query, code_block
from headrace.viewer.pages.rows import MOST_COLUMNS, command_for, row_table

__all__ = ["grid_page", "is_class_label", "order_page"]

GRID_IMAGES, MOST_GRID_IMAGES = 60, 240
GRID_SAMPLE = 20_000
MOST_BATCH, SHOWN_BATCH = 4096, 200
MOST_CHOICES = 200


def grid_page(dataset: ShownDataset, query: Query, links: Links) -> Page:
    """Images, some of each class, in an order that a seed gives.

    Raises:
        BadQuery: There is no such feature, or examples cannot be grouped by it.
    """
    images = dataset.image_features()
    feature = query.feature("feature", dataset) or (images[0] if images else None)
    if feature is None:
        code = code_block(python=f"print({dataset.code}.schema)", command=command_for(dataset, "head"))
        content = join([element("h1", "Images"), element("p", "No feature of this dataset is an image."), code])
        return Page(title="Images", content=content, data={"features": []})
    by = query.feature("by", dataset)
    if by is not None and by not in dataset.label_features():
        raise BadQuery(
            f"by must name a feature with one whole number or text in each example; {by!r:.60} has other values"
        )
    if by is None and not query.flag("together"):
        labels = dataset.label_features()
        by = labels[0] if labels and is_class_label(dataset.schema[labels[0]], labels[0]) else None
    seed = query.number("seed", 0, most=2**63)
    count = query.number("count", GRID_IMAGES, least=1, most=MOST_GRID_IMAGES)
    groups = _group_rows(dataset, by, seed, count)
    shown = [_grid_group(dataset, links, feature, by, value, rows) for value, rows in groups]
    kept = {name: query.text(name) for name in ("feature", "by", "count", "together")}
    again = links.to("grid", seed=seed + 1, **kept)
    content = join(
        [
            element("h1", f"Images: {feature}"),
            element(
                "p", f"Order of seed {seed}. ", element("a", "Shuffle again", href=again, rel="next"), class_="faint"
            ),
            _grid_form(dataset, links, feature, by, {"seed": seed, "count": count}),
            *shown,
            code_block(
                python=f"source = {dataset.code}\n{_order_code(groups, seed)}\nimages = source.batch(rows)[{feature!r}]",
                command=_command(dataset, [row for _, rows in groups for row in rows]),
            ),
        ]
    )
    data = {
        "feature": feature,
        "by": by,
        "seed": seed,
        "groups": [{"value": json_value(v), "rows": rows} for v, rows in groups],
    }
    return Page(title=f"Images of {dataset.name}", content=content, data=data)


def _order_code(groups: Sequence[tuple[Any, list[int]]], seed: int) -> str:
    """Python for the rows that are shown: those of classes one by one, others by their order."""
    rows = [row for _, part in groups for row in part]
    if [value for value, _ in groups] == [None]:
        return f"rows = headrace.Shuffled(len(source), seed={seed}).indices(0, 0, {len(rows)})"
    return f"rows = {rows}"


def _grid_form(dataset: ShownDataset, links: Links, feature: str, by: str | None, numbers: Mapping[str, int]) -> Markup:
    """Which images, by which classes, how many and in which order."""

    def choice(name: str, known: Sequence[str], chosen: str | None) -> Markup:
        options = [
            element("option", each, value=dataset.positions[each], selected=each == chosen)
            for each in known[:MOST_CHOICES]
        ]
        nothing = element("option", "not grouped", value="", selected=chosen is None) if name == "by" else None
        return element("select", nothing, *options, name=name)

    labels = dataset.label_features()
    by_known = [*([by] if by is not None and by not in labels[:MOST_CHOICES] else []), *labels]
    boxes = [
        element(
            "label",
            name,
            " ",
            element("input", type="number", name=name, value=value, min=int(name == "count"), size=8),
        )
        for name, value in numbers.items()
    ]
    return element(
        "form",
        element("label", "images ", choice("feature", dataset.image_features(), feature)),
        element("label", "by class ", choice("by", by_known, by)),
        *boxes,
        element("input", type="hidden", name="together", value="1"),
        element("button", "Show"),
        method="get",
        action=links.to("grid"),
        class_="fields",
    )


def is_class_label(feature: Feature, name: str) -> bool:
    """Whether a feature holds classes, by the names of its values or by its own."""
    return feature.names is not None or any(word in name.lower() for word in ("label", "class", "category"))


def _group_rows(dataset: ShownDataset, by: str | None, seed: int, count: int) -> list[tuple[Any, list[int]]]:
    """Rows for each class, of the first ones in the order."""
    total = len(dataset.source)
    order = (
        Shuffled(total, seed=seed).indices(0, 0, min(total, GRID_SAMPLE if by else count))
        if total
        else np.zeros(0, np.int64)
    )
    if by is None:
        return [(None, order.tolist())]
    column = dataset.stored.select(by).batch(order)[by]
    values = column.to_list() if hasattr(column, "to_list") else np.asarray(column).tolist()
    groups: dict[Any, list[int]] = {}
    for value, index in zip(values, order.tolist(), strict=True):
        groups.setdefault(value, []).append(index)
    largest = sorted(groups, key=lambda value: -len(groups[value]))[:count]
    share = max(1, count // max(1, len(largest)))
    return [(value, groups[value][:share]) for value in sorted(largest, key=_sort_key)]


def _sort_key(value: Any) -> tuple[str, Any]:
    return (type(value).__name__, value)


def _grid_group(
    dataset: ShownDataset, links: Links, feature: str, by: str | None, value: Any, rows: Sequence[int]
) -> Markup:
    names = dataset.schema[by].names if by else None
    title = names[value] if names and isinstance(value, int) and 0 <= value < len(names) else value
    position = dataset.positions[feature]
    pictures = []
    for row in rows:
        address = links.to("image", row=str(row), feature=str(position), size=128)
        picture = element("img", src=address, alt=f"{feature} of row {row}", loading="lazy", decoding="async")
        pictures.append(element("li", element("a", picture, href=links.to(row=str(row)), title=f"row {row:,}")))
    head = element("h2", f"{by}: {title}") if by else None
    return element("section", head, element("ul", *pictures, class_="grid"))


class _Positions:
    """A source of the same length whose examples are their own indices: a loader of it has the same order, and reads nothing."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> Batch:
        return {"row": index}

    def batch(self, indices: Indices, /) -> Batch:
        """The indices themselves."""
        return {"row": np.array(indices)}


def order_page(dataset: ShownDataset, query: Query, links: Links) -> Page:
    """One batch of a loader: which rows it holds."""
    total = len(dataset.source)
    size = query.number("batch_size", 32, least=1, most=MOST_BATCH)
    number, epoch = query.number("batch", 0), query.number("epoch", 0, most=2**32)
    world = query.number("world", 1, least=1, most=1_000_000)
    rank = query.number("rank", 0, most=world - 1)
    seed, shuffle = query.number("seed", 0, most=2**63), query.flag("shuffle") or not query.text("shuffle")
    loader = Loader(_Positions(total), size, shuffle=shuffle, seed=seed, shard=Shard(rank, world), threads=0)
    in_epoch = len(loader)
    start = number * size * world
    rows: list[int] = []
    if number < in_epoch:
        loader.load_state_dict({**loader.state_dict(), "epoch": epoch, "position": start})
        rows = next(iter(loader))["row"].tolist()
    names = dataset.names[:MOST_COLUMNS]
    shown = row_table(dataset, dataset.rows_at(rows[:SHOWN_BATCH], names), names, links) if rows else None
    known = {
        "batch_size": size,
        "epoch": epoch,
        "rank": rank,
        "world": world,
        "seed": seed,
        "shuffle": "1" if shuffle else "0",
    }
    steps = element(
        "nav",
        element("a", "Previous batch", href=links.to("order", batch=str(number - 1), **known), rel="prev")
        if number
        else None,
        element("a", "Next batch", href=links.to("order", batch=str(number + 1), **known), rel="next")
        if number + 1 < in_epoch
        else None,
        class_="pager",
        aria_label="batches",
    )
    arguments = (
        f"{size}"
        + (f", shuffle=True, seed={seed}" if shuffle else "")
        + (f", shard=headrace.Shard({rank}, {world})" if world > 1 else "")
    )
    content = join(
        [
            element(
                "h1", f"Batch {number:,} of epoch {epoch:,}" + (f" on rank {rank:,} of {world:,}" if world > 1 else "")
            ),
            element(
                "p",
                f"An epoch has {in_epoch:,} batches of {size:,}."
                if rows
                else f"There is no such batch: an epoch has {in_epoch:,}.",
                class_="faint",
            ),
            _order_form(links, known, number),
            steps,
            element("p", f"The first {SHOWN_BATCH} rows of the batch.", class_="faint")
            if len(rows) > SHOWN_BATCH
            else None,
            shown,
            code_block(
                python=f"loader = headrace.Loader({dataset.code}, {arguments}, epochs=None)\n"
                f"loader.load_state_dict({{**loader.state_dict(), 'epoch': {epoch}, 'position': {start}}})\nbatch = next(iter(loader))",
                command=_command(dataset, rows),
            ),
        ]
    )
    data = {**known, "shuffle": shuffle, "batch": number, "batches": in_epoch, "rows": rows}
    return Page(title=f"Order of {dataset.name}", content=content, data=data)


def _command(dataset: ShownDataset, rows: Sequence[int]) -> str | None:
    return command_for(dataset, "head", f"--rows {','.join(map(str, rows[:SHOWN_BATCH]))}") if rows else None


def _order_form(links: Links, known: dict[str, Any], number: int) -> Markup:
    fields = []
    for name, value in {"batch": number, **known}.items():
        if name == "shuffle":
            box = element("input", type="checkbox", name=name, value="1", checked=value == "1")
            # A form sends no box without its mark; of two values of a name, the last one counts.
            fields += [element("input", type="hidden", name=name, value="0"), element("label", box, " shuffle")]
        else:
            box = element("input", type="number", name=name, value=value, min=0, size=8)
            fields.append(element("label", name.replace("_", " "), " ", box))
    return element("form", *fields, element("button", "Show"), method="get", action=links.to("order"), class_="fields")
