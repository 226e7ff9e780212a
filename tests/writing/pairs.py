"""What each format of the registry is converted from and to, and the table of it in docs/convert.md."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

import penstock as ps
from penstock import _registry
from penstock.contracts.feature import Feature
from penstock.contracts.schema import Schema
from penstock.formats.detect import format_named
from penstock.testing.kinds import KINDS, kinds_batch, kinds_schema
from penstock.writing.fitting import misfits_of

ROWS = 12
PAGE = Path(__file__).parents[2] / "docs" / "convert.md"
BEGIN, END = "<!-- {} -->", "<!-- end of {} -->"


def formats():
    """All of the registry, in its order."""
    return list(_registry.FORMATS)


def path_of(folder, format, stem="x"):
    suffixes = format_named(format).suffixes
    return folder / f"{stem}_{format}{suffixes[0] if suffixes else ''}"


def is_images(format):
    return format == "image_folder"


def images():
    """Encoded images and labels: what a folder of images holds."""
    from PIL import Image

    column = np.empty(ROWS, object)
    for at in range(ROWS):
        out = io.BytesIO()
        Image.fromarray(np.full((4, 5, 3), at * 20, np.uint8)).save(out, "PNG")
        column[at] = out.getvalue()
    return {"image": column, "label": np.sort(np.arange(ROWS) % 2)}


def schema_of(format):
    """Everything that the format holds as it is."""
    if is_images(format):
        return Schema({"image": Feature("bytes", encoding="png"), "label": Feature("int64", names=("cat", "dog"))})
    refused = {misfit.feature for misfit in misfits_of(kinds_schema(), format)}
    return kinds_schema([kind for kind in KINDS if kind not in refused])


def batch_of(format):
    return images() if is_images(format) else kinds_batch(ROWS, list(schema_of(format)))


def write(folder, format, *, stem="x"):
    path = path_of(folder, format, stem)
    ps.write(path, batch_of(format), format=format, schema=schema_of(format))
    return path


def refused(source, target):
    """The features of everything that one format holds which another does not."""
    schema = schema_of(source)
    return [misfit.feature for misfit in misfits_of(schema, target) if misfit.feature in schema] or (
        [misfit.feature for misfit in misfits_of(schema, target)]
    )


def holding(kind, format, folder):
    """How a format holds a kind of feature, in a word."""
    schema = kinds_schema([kind])
    misfits = [misfit for misfit in misfits_of(schema, format) if misfit.feature == kind]
    if any(misfit.feature not in schema for misfit in misfits_of(schema, format)):
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
    ps.write(path, batch, format=format, schema=beside)
    return "yes" if ps.open(path, format=format).schema[kind] == schema[kind] else "schema"


def held_table(folder):
    """Kinds by formats."""
    rows = [["", *formats()]]
    for kind, feature in KINDS.items():
        shape = f" {feature.shape}" if feature.shape else ""
        name = f"{feature.dtype}{shape}{' sparse' if feature.sparse else ''}"
        rows.append([f"`{name}`", *(holding(kind, format, folder) for format in formats())])
    return _table(rows)


def certain(source, target):
    """Those of :func:`refused` whatever their values."""
    return [misfit.feature for misfit in misfits_of(schema_of(source), target) if misfit.certain]


def pair_table():
    """What is refused of all that the format of a row holds, when it is converted to the format of a column."""
    rows = [["from \\ to", *formats()]]
    for source in formats():
        cells = []
        for target in formats():
            names, never = refused(source, target), certain(source, target)
            told = [name if name in never else f"{name}?" for name in names]
            nothing = set(schema_of(source)) <= set(never) or set(never) - set(schema_of(source))
            cells.append("nothing" if nothing else f"but {', '.join(told)}" if names else "all")
        rows.append([f"**{source}**", *cells])
    return _table(rows)


def _table(rows):
    head, *body = rows
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def page_with(text, name, table):
    """The page with one of its tables put in anew."""
    begin, end = BEGIN.format(name), END.format(name)
    head, _, rest = text.partition(begin)
    _, _, tail = rest.partition(end)
    return f"{head}{begin}\n{table}{end}{tail}"
