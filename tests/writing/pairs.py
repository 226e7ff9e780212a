"""Conversion between all registered formats, and the tables in docs/convert.md."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

import headrace as hr
from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema
from headrace.formats import registry
from headrace.formats.registry import format_named
from headrace.testing.data import KINDS, kinds_batch, kinds_schema
from headrace.writing.fitting import find_misfits

ROWS = 12
PAGE = Path(__file__).parents[2] / "docs" / "convert.md"
BEGIN, END = "<!-- {} -->", "<!-- end of {} -->"


def formats():
    """All writable formats, in the order of the registry."""
    found = {name: format_named(name) for name in registry.OWN}
    return [name for name, format in found.items() if format.writer is not None or format.sink is not None]


def path_of(folder, format, stem="x"):
    suffixes = format_named(format).suffixes
    return folder / f"{stem}_{format}{suffixes[0] if suffixes else ''}"


def images():
    """Encoded images and labels: what a folder of images holds."""
    from PIL import Image

    column = np.empty(ROWS, object)
    for at in range(ROWS):
        out = io.BytesIO()
        Image.fromarray(np.full((4, 5, 3), at * 20, np.uint8)).save(out, "PNG")
        column[at] = out.getvalue()
    return {"image": column, "label": np.sort(np.arange(ROWS) % 2)}


def arrays():
    """One array of every example, and labels: what a folder of arrays with a manifest holds."""
    return {"values": kinds_batch(ROWS, ["vector"])["vector"], "label": np.arange(ROWS)}


SAMPLES = {
    "image_folder": (
        Schema({"image": Feature("bytes", encoding="png"), "label": Feature("int64", names=("cat", "dog"))}),
        images,
    ),
    "npy_folder": (Schema({"values": KINDS["vector"], "label": Feature("int64")}), arrays),
}
"""Of formats that hold features of some names only."""

CSV = {
    **dict.fromkeys(("vector", "matrix", "words", "values"), "columns"),  # a column for each value
}
"""What CSV holds, but not as one column of the same type."""


def schema_of(source, target=None):
    """Everything that a format holds unchanged; with a format that needs certain features, only those."""
    special = next((name for name in (target, source) if name in SAMPLES), None)
    schema = kinds_schema() if special is None else SAMPLES[special][0]
    without = refused_of(schema, source, certain=special is not None)  # Labels are small enough for any integer dtype.
    return schema.select([name for name in schema if name not in without and not (source == "csv" and name in CSV)])


def is_whole(source, target):
    """Whether the source has the features that a target needs."""
    special = next((name for name in (target, source) if name in SAMPLES), None)
    return len(schema_of(source, target)) == (len(SAMPLES[special][0]) if special else len(schema_of(source))) > 0


def refused_of(schema, format, *, certain=False):
    """The features of a schema that a format may refuse (``certain``: that it always refuses)."""
    names = {misfit.feature for misfit in find_misfits(schema, format) if misfit.certain or not certain}
    if names - set(schema):
        return list(schema)  # The features it needs are missing.
    return [name for name in schema if name in names or (format == "csv" and name in CSV and not certain)]


def write(folder, source, target, *, stem="x"):
    schema = schema_of(source, target)
    special = next((name for name in (target, source) if name in SAMPLES), None)
    batch = kinds_batch(ROWS, list(schema)) if special is None else SAMPLES[special][1]()
    path = path_of(folder, source, stem)
    hr.write(path, {name: batch[name] for name in schema}, format=source, schema=schema)
    return path


def refused(source, target):
    """The features that one format holds and another does not."""
    special = bool(SAMPLES.keys() & {source, target})
    return refused_of(schema_of(source, target), target, certain=special)


def certain(source, target):
    """Those of :func:`refused` whatever their values."""
    return refused_of(schema_of(source, target), target, certain=True)


def holding(kind, format, folder):
    """How a format holds a kind of feature, in one word."""
    if format in SAMPLES:
        return "no"
    if format == "csv" and kind in CSV:
        return CSV[kind]
    if format == "csv" and kind == "text":
        return "schema"  # The sample comes back, but text that looks like numbers is read as numbers.
    schema = kinds_schema([kind])
    misfits = [misfit for misfit in find_misfits(schema, format) if misfit.feature == kind]
    if any(misfit.feature not in schema for misfit in find_misfits(schema, format)):
        return "no"
    if misfits:
        instead = misfits[0].instead
        if instead is None:
            return "no"
        word = "dense" if schema[kind].sparse else instead.dtype
        return f"{word}!" if misfits[0].certain else f"{word}?"
    beside = Schema({**schema, "other": Feature("int32")})
    path = path_of(folder, format, kind)
    batch = {**kinds_batch(ROWS, [kind]), "other": np.arange(ROWS, dtype=np.int32)}
    hr.write(path, batch, format=format, schema=beside)
    return "yes" if hr.open(path, format=format).schema[kind] == schema[kind] else "schema"


def held_table(folder):
    """Kinds by formats."""
    columns = [format for format in formats() if format not in SAMPLES]
    rows = [["", *columns]]
    for kind, feature in KINDS.items():
        shape = f" {feature.shape}" if feature.shape else ""
        name = f"{feature.dtype}{shape}{' sparse' if feature.sparse else ''}"
        rows.append([f"`{name}`", *(holding(kind, format, folder) for format in columns)])
    return _table(rows)


def pair_table():
    """What is refused when a format (row) is converted to another (column), with all features the first can hold."""
    rows = [["from \\ to", *formats()]]
    for source in formats():
        cells = []
        for target in formats():
            schema, never = schema_of(source, target), certain(source, target)
            reported = [name if name in never else f"{name}?" for name in refused(source, target)]
            reported = [name for name in reported if not (target == "csv" and CSV.get(name.rstrip("?")) == "columns")]
            nothing = set(schema) <= set(never) or not is_whole(source, target)
            cells.append("nothing" if nothing else f"but {', '.join(reported)}" if reported else "all")
        rows.append([f"**{source}**", *cells])
    return _table(rows)


def _table(rows):
    head, *body = rows
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def page_with(text, name, table):
    """The page with one of its tables replaced."""
    begin, end = BEGIN.format(name), END.format(name)
    head, _, rest = text.partition(begin)
    _, _, tail = rest.partition(end)
    return f"{head}{begin}\n{table}{end}{tail}"
