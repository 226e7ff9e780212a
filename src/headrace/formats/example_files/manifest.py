"""The manifest, which lists the files of a folder with their labels and other columns."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema
from headrace.errors import CorruptFile, NoFiles, SchemaMismatch, UnsupportedData, Where
from headrace.io.folders import Lister, Listing, first_existing
from headrace.io.json_text import load_json
from headrace.io.local.open import read_each
from headrace.io.urls import child_of, is_url, sibling_of, stays_below

__all__ = ["NAMES", "Manifest", "read_manifest"]

NAMES = ("manifest.csv", "manifest.json", "manifest.jsonl", "labels.csv")
FILE_COLUMNS = ("file", "file_name", "filename", "path")
INT64 = range(-(1 << 63), 1 << 63)
UINT64 = range(1 << 64)
WHOLE = re.compile(r"[+-]?\d+")
SHOWN = 40


@dataclass(frozen=True, slots=True)
class Manifest:
    """The files of a data set, with the manifest's columns.

    Args:
        path: The path of the manifest.
        files: Paths, one per example.
        schema: The types of the columns except the file names: int64, float64, bool or text.
        columns: The values of the columns.
    """

    path: str
    files: tuple[str, ...]
    schema: Schema
    columns: Mapping[str, Any]


def read_manifest(listing: Listing, look: Lister) -> Manifest | None:
    """The manifest of a folder, if it has one.

    Args:
        listing: The contents of the folder.
        look: Lists other folders.

    Raises:
        CorruptFile, UnsupportedData: The manifest cannot be read, or names no files.
        NoFiles: A file that it names does not exist.
    """
    found = [name for name in NAMES if name in listing.files]
    if not found:
        return None
    if len(found) > 1:
        raise UnsupportedData(
            Where(path=listing.folder), expected="one manifest", found=" and ".join(found), hint="Remove one of them."
        )
    path = child_of(listing.folder, found[0])
    names, columns = _rows(path)
    for number, name in enumerate(names):
        if not stays_below(name):
            raise UnsupportedData(
                Where(path=path, record=number),
                expected="a file in the folder of the manifest, or below it",
                found=repr(name[:200]),
                hint="A manifest does not choose files elsewhere: open a list of their paths.",
            )
    files = [_normal(sibling_of(path, name)) for name in names]
    _check_there(path, listing, look, names, files)
    typed = {name: _type_column(path, name, values) for name, values in columns.items()}
    return Manifest(
        path,
        tuple(files),
        Schema({name: feature for name, (feature, _) in typed.items()}),
        {name: values for name, (_, values) in typed.items()},
    )


def _rows(path: str) -> tuple[list[str], dict[str, list[Any]]]:
    """The file names, and the other columns."""
    try:
        text = read_each([path])[0].decode("utf-8-sig")
        table = _csv_rows(text, path) if path.endswith(".csv") else _json_rows(text, path)
    except (UnicodeDecodeError, csv.Error) as error:
        raise CorruptFile(Where(path=path), expected="a manifest in UTF-8", found=str(error)) from error
    columns = list(table[0]) if table else []
    file_column = next((name for name in FILE_COLUMNS if name in columns), None)
    if file_column is None:
        raise UnsupportedData(
            Where(path=path),
            expected=f"a column of file names, called one of {', '.join(FILE_COLUMNS)}",
            found=f"the columns {', '.join(columns)}" if columns else "no rows",
            hint="A glob such as 'folder/*.npy' reads the files without it.",
        )
    for number, row in enumerate(table):
        if row.keys() != table[0].keys() or not isinstance(row[file_column], str) or not row[file_column]:
            raise CorruptFile(
                Where(path=path, record=number),
                expected=f"a row with {', '.join(columns)}",
                found=", ".join(map(str, row)) if row.keys() != table[0].keys() else "no file name",
            )
    names = [row[file_column] for row in table]
    return names, {name: [row[name] for row in table] for name in columns if name != file_column}


def _csv_rows(text: str, path: str) -> list[dict[str, Any]]:
    rows = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
    if not rows:
        return []
    header = rows[0]
    if len(set(header)) < len(header):
        raise CorruptFile(Where(path=path), expected="every column name once", found=", ".join(header))
    for number, row in enumerate(rows[1:]):
        if len(row) != len(header):
            raise CorruptFile(Where(path=path, record=number), expected=f"{len(header)} columns", found=f"{len(row)}")
    return [dict(zip(header, map(_value_of, row), strict=True)) for row in rows[1:]] if len(rows) > 1 else []


def _value_of(text: str) -> Any:
    """The value of a CSV cell on its own. The column decides in the end."""
    return _Cell(text)


class _Cell(str):
    """Text from a CSV file, which may be a number."""

    __slots__ = ()


def _json_rows(text: str, path: str) -> list[dict[str, Any]]:
    try:
        rows = [load_json(line) for line in text.split("\n") if line.strip()] if path.endswith("l") else load_json(text)
    except ValueError as error:
        raise CorruptFile(Where(path=path), expected="a manifest in JSON", found=str(error)) from error
    if isinstance(rows, dict):
        rows = [
            {"file": name, **(value if isinstance(value, dict) else {"label": value})} for name, value in rows.items()
        ]
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise CorruptFile(
            Where(path=path),
            expected="a list of objects, one per file, or an object by file name",
            found=type(rows).__name__,
        )
    return rows


def _type_column(path: str, name: str, values: Sequence[Any]) -> tuple[Feature, Any]:
    """Convert a column to the first type that holds all its values: integers, floats (missing ones NaN), booleans, text."""
    if all(isinstance(value, _Cell) for value in values):
        return _type_text([str(value) for value in values])
    kinds = {type(value) for value in values}
    if kinds == {bool}:
        return Feature("bool"), np.array(values, bool)
    if kinds == {int}:
        for dtype, held in (("int64", INT64), ("uint64", UINT64)):
            if all(value in held for value in values):
                return Feature(dtype), np.array(values, dtype)
    if kinds <= {int, float, type(None)} and kinds - {type(None)}:
        _check_exact(path, name, values, _is_float if kinds - {int} else INT64.__contains__)
        return Feature("float64"), np.array([np.nan if value is None else value for value in values], np.float64)
    if kinds == {str}:
        return Feature("str"), _objects(list(values))
    found = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise SchemaMismatch(Where(path=path, feature=name), expected="numbers, or text, in every row", found=found)


def _check_exact(path: str, name: str, values: Sequence[Any], is_held: Callable[[int], bool]) -> None:
    """Refuse integers that ``float64`` would round."""
    for number, value in enumerate(values):
        if isinstance(value, int) and not is_held(value):
            shown = str(value)
            raise SchemaMismatch(
                Where(path=path, record=number, feature=name),
                expected="integers of 64 bits, and beside fractions or nulls only those that float64 holds exactly",
                found=shown if len(shown) <= SHOWN else f"a number of {len(shown)} digits",
                hint="Write it as text.",
            )


def _is_float(number: int) -> bool:
    """Whether ``float64`` holds an integer exactly."""
    try:
        return int(float(number)) == number
    except OverflowError:
        return False


def _changes_as_float(text: str) -> bool:
    return WHOLE.fullmatch(text) is not None and (len(text) > SHOWN or not _is_float(int(text)))


def _type_text(values: list[str]) -> tuple[Feature, Any]:
    stripped = [value.strip() for value in values]
    try:
        numbers = [int(value) for value in stripped]
        # 007 is a name, not the number 7; 1_000 is Python syntax, not CSV.
        if all(str(number) == value.removeprefix("+") for number, value in zip(numbers, stripped, strict=True)):
            fits = all(number in INT64 for number in numbers)
            return (Feature("int64"), np.array(numbers, np.int64)) if fits else (Feature("str"), _objects(values))
    except ValueError:
        pass
    try:
        plain = not any("_" in value or (value[:1] == "0" and value[1:2].isdigit()) for value in stripped)
        if any(stripped) and plain and not any(map(_changes_as_float, stripped)):
            return Feature("float64"), np.array([float(value or "nan") for value in stripped], np.float64)
    except ValueError:
        pass
    return Feature("str"), _objects(values)


def _objects(values: list[str]) -> Any:
    column = np.empty(len(values), object)
    column[:] = values
    return column


def _normal(path: str) -> str:
    return path if is_url(path) else os.path.normpath(path)


def _check_there(path: str, listing: Listing, look: Lister, names: Sequence[str], files: Sequence[str]) -> None:
    """Check by listing folders; no file is opened."""
    root = _normal(listing.folder).rstrip("/")
    known = {root: frozenset(listing.files)}
    missing = []
    for name, file in zip(names, files, strict=True):
        folder, base = os.path.split(file)
        if folder not in known:
            known[folder] = _names_in(folder, look)
        if base not in known[folder] and not (base.startswith(".") and first_existing([file])):
            missing.append(name)
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise NoFiles(Where(path=path), expected="the files named in the manifest", found=f"no {missing[0]}{more}")


def _names_in(folder: str, look: Lister) -> frozenset[str]:
    try:
        return frozenset(look(folder).files)
    except NoFiles:
        return frozenset()
