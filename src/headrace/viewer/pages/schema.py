"""The features of a dataset, and their types."""

from __future__ import annotations

from headrace.viewer.dataset import ShownDataset
from headrace.viewer.display.markup import element, join
from headrace.viewer.pages.page import Page, Query, code_block, table
from headrace.viewer.pages.rows import command_for, describe_kind

__all__ = ["schema_page"]

SHOWN_FEATURES = 200


def schema_page(dataset: ShownDataset, query: Query) -> Page:
    """The features and their types."""
    first = query.number("first", 0)
    names = dataset.names[first : first + SHOWN_FEATURES]
    rows = [(name, describe_kind(dataset.schema[name])) for name in names]
    content = join(
        [
            element("h1", "Features"),
            table(("feature", "type"), rows, caption="features"),
            code_block(python=f"{dataset.code}.schema", command=command_for(dataset, "schema")),
        ]
    )
    return Page(
        title=f"Features of {dataset.name}",
        content=content,
        data={"features": {name: dataset.schema[name].to_json() for name in names}},
    )
