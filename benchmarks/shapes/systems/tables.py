"""The peers over tables: pandas, PyArrow, Hugging Face datasets, and Python's own json."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.shapes.files import OBJECTS, ShapeFiles
from benchmarks.shapes.reading import Reading


def pandas_csv(files: ShapeFiles) -> Reading:
    """``pandas.read_csv`` of the file."""
    import pandas as pd

    paths = files.paths
    return Reading(files=files, epoch=lambda: map(pd.read_csv, paths), columns=lambda table: _named(files, table))


def pyarrow_csv(files: ShapeFiles) -> Reading:
    """``pyarrow.csv.read_csv`` of the file, on all cores."""
    from pyarrow.csv import read_csv

    paths = files.paths
    return Reading(files=files, epoch=lambda: map(read_csv, paths), columns=lambda table: _from_arrow(files, table))


def pyarrow_json(files: ShapeFiles) -> Reading:
    """``pyarrow.json.read_json`` of the file, on all cores."""
    from pyarrow.json import read_json

    paths = files.paths
    return Reading(files=files, epoch=lambda: map(read_json, paths), columns=lambda table: _from_arrow(files, table))


def json_loads(files: ShapeFiles) -> Reading:
    """``json.loads`` of every line, a list of rows for each batch."""
    size = files.shape.batch

    def epoch() -> Iterator[list[Any]]:
        for path in files.paths:
            with open(path, "rb") as file:
                while lines := list(islice(file, size)):
                    yield list(map(json.loads, lines))

    def columns(batch: list[Any]) -> dict[str, Any]:
        found = {name: [row[name] for row in batch] for name, _ in files.shape.names if name not in files.shape.keys}
        return found | {key: [[item[key] for item in row[OBJECTS]] for row in batch] for key in files.shape.keys}

    return Reading(files=files, epoch=epoch, columns=columns)


def pyarrow_parquet(files: ShapeFiles) -> Reading:
    """``ParquetFile.iter_batches``, numbers as NumPy arrays, everything else as Arrow."""
    from pyarrow.parquet import ParquetFile

    paths, size = files.paths, files.shape.batch

    def epoch() -> Iterator[dict[str, Any]]:
        for path in paths:
            for batch in ParquetFile(path).iter_batches(size):
                yield {
                    name: column.to_numpy(zero_copy_only=False) if _is_number(column.type) else column
                    for name, column in zip(batch.schema.names, batch.columns, strict=True)
                }

    def columns(batch: dict[str, Any]) -> dict[str, Any]:
        found = {name: _plain(value) if isinstance(value, pa.Array) else value for name, value in batch.items()}
        return _without_objects(files, found)

    return Reading(files=files, epoch=epoch, columns=columns)


def hugging_face(files: ShapeFiles) -> Reading:
    """Datasets' Arrow file, converted before the timing: ``with_format("numpy").iter``, after ``shuffle`` with one permutation."""
    import datasets

    datasets.disable_progress_bars()
    read = datasets.Dataset.from_parquet if files.shape.format == "parquet" else datasets.Dataset.from_json
    data = read(files.paths, cache_dir=str(files.root / "datasets"))
    if files.shape.shuffled:
        data = data.shuffle(seed=1, keep_in_memory=True)
    data = data.with_format("numpy")
    return Reading(
        files=files,
        epoch=lambda: data.iter(batch_size=files.shape.batch),
        columns=lambda batch: _named(files, batch),
        single=True,
    )


def _named(files: ShapeFiles, table: Mapping[str, Any]) -> dict[str, Any]:
    columns, keys = _without_objects(files, table), files.shape.keys
    return {name: column if name in keys else _rows(column) for name, column in columns.items()}


def _without_objects(files: ShapeFiles, table: Mapping[str, Any]) -> dict[str, Any]:
    """The columns by name, those of the keys of objects, too. Objects may be a list of dicts or a dict of lists."""
    keys = files.shape.keys
    found = {name: table[name] for name, _ in files.shape.names if name not in keys}
    for key in keys:
        rows = table[OBJECTS]
        found[key] = [row[key] if isinstance(row, dict) else [item[key] for item in row] for row in rows]
    return found


def _rows(column: Any) -> Any:
    found = np.asarray(column)
    return list(found) if found.ndim > 1 else found


def _from_arrow(files: ShapeFiles, table: pa.Table) -> dict[str, Any]:
    return _without_objects(files, {name: _plain(table.column(name)) for name in table.column_names})


def _plain(column: Any) -> Any:
    return column.to_numpy(zero_copy_only=False) if _is_number(column.type) else column.to_pylist()


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
