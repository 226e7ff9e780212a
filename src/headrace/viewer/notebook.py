"""Sources, columns and schemas as small tables in notebooks: the first rows, with thumbnails and no file outside."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema
from headrace.contracts.strings import Strings
from headrace.contracts.values import Ragged
from headrace.hosting.endpoint import Endpoint
from headrace.jobs.record import JobRecord
from headrace.sources.node import is_counted
from headrace.sources.operations.column import FeatureColumn
from headrace.sources.source import Source
from headrace.sources.stacking import row, schema_of
from headrace.statistics.collect import Statistics
from headrace.viewer.dataset import Row, ShownDataset
from headrace.viewer.display.cells import CellPlace, small_cell
from headrace.viewer.display.markup import Markup, element, join
from headrace.viewer.display.media import image_of, item_of
from headrace.writing.convert import Converted
from headrace.writing.verify import Report

__all__ = ["to_html"]

ROWS = 5
COLUMNS = 12
FEATURES = 30
FAULTS = 10
FACT_CHARACTERS = 400
NAME_CHARACTERS = 60
TENSOR_MODULES = ("torch", "torch.nn.parameter", "jaxlib._jax", "jaxlib.xla_extension")
"""Modules of the classes of tensors. Tensors that are spread over processes have other classes."""
MOST_HTML = 1 << 20
"""Characters of a table; a larger one is not shown as HTML."""


def to_html(value: Any) -> str | None:
    """A value as a table, or ``None`` for what is better shown as text. Never raises: a damaged row is shown as its error.

    Args:
        value: A source, batch, column, schema, :class:`~headrace.Ragged` or :class:`~headrace.Strings`; a report, statistics, a conversion,
            a job's record or an endpoint.
    """
    try:
        shown = _table_of(value)
    except Exception:  # noqa: BLE001 - a notebook then shows the repr
        return None
    return str(shown) if shown is not None and len(shown) <= MOST_HTML else None


def _table_of(value: Any) -> Markup | None:
    if isinstance(value, Schema):
        return _schema_table(value)
    if isinstance(value, Source):
        return _source_table(value, repr(value))
    if isinstance(value, FeatureColumn):
        return _source_table(value.source, repr(value))
    if isinstance(value, (Report, Statistics, Converted)):
        return _result_table(value)
    if isinstance(value, (Endpoint, JobRecord)):
        return _facts_table(value.describe() if isinstance(value, Endpoint) else value.content)
    if isinstance(value, (Ragged, Strings)):
        first = _to_numpy(value[:ROWS])
        rows = [Row(index, {"": first[index]}) for index in range(len(first))]
        return _table(repr(value), schema_of({"": first}), rows)
    return _batch_table(value) if _is_batch(value) else None


def _is_batch(value: Any) -> bool:
    """Whether a value is a dict of columns with as many rows each."""
    if type(value) is not dict or not all(isinstance(name, str) for name in value):
        return False
    if any(isinstance(column, np.ma.MaskedArray) for column in value.values()):  # NumPy shows what is masked.
        return False
    lengths = {_rows_of(column) for column in value.values()}
    return len(lengths) == 1 and lengths != {None}


def _rows_of(column: Any) -> int | None:
    """How many rows a column has; ``None`` for what is no column."""
    if isinstance(column, np.ndarray) or hasattr(column, "tocsr") or _is_tensor(column):
        return int(column.shape[0]) if column.ndim else None
    is_column = isinstance(column, (Ragged, Strings)) or (
        isinstance(column, list)
        and bool(column)
        and all(isinstance(each, np.ndarray) or _is_tensor(each) for each in column)
    )
    return len(column) if is_column else None


def _is_tensor(value: Any) -> bool:
    """Whether a value is a PyTorch tensor or a JAX array whose values this process can read by itself."""
    return type(value).__module__ in TENSOR_MODULES and getattr(value, "is_fully_addressable", True)


def _to_numpy(column: Any) -> Any:
    """A column in NumPy. Floats that NumPy lacks become ``float32``."""
    if isinstance(column, list):
        return [_to_numpy(each) for each in column]
    if isinstance(column, Ragged):
        return Ragged(_to_numpy(column.values), _to_numpy(column.offsets))
    if not _is_tensor(column):
        return column
    if hasattr(column, "detach"):  # PyTorch
        column = column.detach().cpu()
        column = column.float() if str(column.dtype) == "torch.bfloat16" else column
    found = np.asarray(column)
    return found if found.dtype.kind in "biufc" else found.astype(np.float32)


def _batch_table(batch: dict[str, Any]) -> Markup:
    """The first rows of a batch, below the dtypes and shapes of its columns."""
    count = next(_rows_of(column) or 0 for column in batch.values())
    names = list(islice(batch, COLUMNS))
    shown = {name: _to_numpy(batch[name][:ROWS]) for name in names}
    rows = [Row(at, row(shown, at)) for at in range(min(count, ROWS))]
    kinds = ", ".join(f"{_short(name)} {_kind(batch[name])}" for name in names)
    return _table(f"batch of {count:,} rows: {kinds}", schema_of(shown), rows, more=len(batch) - len(names))


def _kind(column: Any) -> str:
    """The dtype and shape of a column."""
    shape = ", ".join(map(str, column.shape)) if hasattr(column, "shape") else f"{len(column)}, ..."
    if isinstance(column, Strings):
        return f"{'str' if column.is_text else 'bytes'} ({shape})"
    return f"{getattr(column, 'dtype', 'arrays')} ({shape})"


def _result_table(value: Report | Statistics | Converted) -> Markup:
    """What a check, a conversion or statistics found."""
    if isinstance(value, Report):
        faults = [(type(each).__name__, str(each)) for each in value.faults[:FAULTS]]
        more = len(value.faults) + value.more_faults - len(faults)
        facts = {
            "ok": value.ok,
            "files": value.files,
            "records": value.records,
            "bytes": value.bytes,
            "images": value.images,
        }
        note = element("p", f"and {more:,} more faults") if more else None
        return element("div", _facts_table(facts), _plain_table(("fault", "what"), faults) if faults else None, note)
    if isinstance(value, Statistics):
        listed = list(islice(value.features.items(), FEATURES))
        not_finite = [each for each in ("nan", "infinite") if any(getattr(found, each) for _, found in listed)]
        heads = ("feature", "type", "values", "empty", *not_finite, "min", "max", "mean", "std", "distinct")
        rows = [
            (
                _short(name),
                f.dtype,
                f"{f.values:,}",
                f"{f.empty:,}",
                *(f"{getattr(f, each):,}" for each in not_finite),
                *map(_figure, (f.minimum, f.maximum, f.mean, f.std)),
                _figure(f.distinct),
            )
            for name, f in listed
        ]
        return element("div", element("p", value.statement), _plain_table(heads, rows))
    return _facts_table(
        {name: getattr(value, name) for name in ("examples", "paths", "bytes", "resumed", "skipped", "lost")}
    )


def _facts_table(facts: Mapping[str, Any]) -> Markup:
    return _plain_table(
        ("", ""),
        [(_short(str(name)), str(value)[:FACT_CHARACTERS]) for name, value in facts.items() if value is not None],
    )


def _plain_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    head = element("thead", element("tr", *(element("th", each) for each in heads))) if any(heads) else None
    body = (element("tr", *(element("td", cell, dir="auto") for cell in row)) for row in rows)
    return element("table", head, element("tbody", *body))


def _figure(value: Any) -> str:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def _schema_table(schema: Schema) -> Markup:
    cells = [
        (_short(name), feature.dtype + (f" ({feature.encoding})" if feature.encoding else ""), str(feature.shape))
        for name, feature in islice(schema.items(), FEATURES)
    ]
    rest = len(schema) - len(cells)
    note = None if rest <= 0 else element("p", f"and {rest:,} more features")
    head = element("tr", *(element("th", title) for title in ("feature", "dtype", "shape")))
    body = (element("tr", *(element("td", cell, dir="auto") for cell in row)) for row in cells)
    return element("div", element("table", element("thead", head), element("tbody", *body)), note)


def _source_table(source: Source, title: str) -> Markup:
    names = list(islice(source.schema, COLUMNS))
    more = len(source.schema) - len(names)
    if not is_counted(source.node):  # counting would read everything
        rows = [Row(index, example) for index, example in enumerate(islice(source.select(*names), ROWS))]
        return _table(title, source.schema.select(names), rows, more=more)
    shown = ShownDataset(source, name="", code="")
    rows = shown.rows_at(range(min(len(source), ROWS)), names)
    return _table(title, shown.schema.select(names), rows, more=more)


def _table(title: str, schema: Schema, rows: Sequence[Row], *, more: int = 0) -> Markup:
    head = element("tr", element("th", ""), *(element("th", _short(name), dir="auto") for name in schema))
    body = [element("tr", element("th", each.index), *_cells(each, schema)) for each in rows]
    note = element("p", f"and {more:,} more features") if more > 0 else None
    table = element("table", element("thead", head), element("tbody", *body))
    return element("div", element("p", title[: 10 * NAME_CHARACTERS]), table, note)


def _cells(row: Row, schema: Mapping[str, Feature]) -> list[Markup]:
    if row.values is None:
        return [element("td", str(row.fault)[:400], colspan=max(len(schema), 1))]
    return [
        element("td", _cell(row.values[name], CellPlace(row.index, feature, name, _inline(row.values[name], feature))))
        if name in row.values
        else element("td", "not read")
        for name, feature in schema.items()
    ]


def _cell(value: Any, place: CellPlace) -> Markup:
    try:
        return small_cell(value, place)
    except Exception as error:  # noqa: BLE001 - an image that is damaged, or too large
        return join([f"{type(error).__name__}: {str(error)[:200]}"])


def _inline(value: Any, feature: Feature) -> Callable[[str, int, int], Any]:
    """Makes thumbnails part of the page. Recordings and whole images are left out."""

    def media(kind: str, item: int, size: int) -> str | None:
        if kind != "image" or size == 0:
            return None
        image = image_of(item_of(value, item), feature, size)
        return f"data:{image.media_type};base64,{base64.b64encode(image.body).decode('ascii')}"

    return media


def _short(name: str) -> str:
    return name if len(name) <= NAME_CHARACTERS else name[:NAME_CHARACTERS] + "..."
