"""Sources to pandas frames and back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from headrace._numbers import to_array
from headrace._optional import available, require
from headrace.adapters.arrow import check_source, from_arrow
from headrace.contracts.feature import Feature
from headrace.contracts.schema import any_width
from headrace.contracts.strings import Strings
from headrace.contracts.values import Ragged
from headrace.errors import SchemaMismatch, UnsupportedData, Where
from headrace.formats.table.to_arrow import to_arrow as column_to_arrow
from headrace.formats.table.values import BadValue
from headrace.sources.source import Source
from headrace.sources.stacking import schema_of, stack

__all__ = ["from_pandas", "to_pandas"]


def to_pandas(source: Source) -> Any:
    """All examples as a ``pandas.DataFrame``, one column per feature.

    Returns:
        Numbers as a column of their dtype; text as pandas' ``str``, held by Arrow, or as objects in pandas 2 or without pyarrow;
        ``bytes`` as objects; features of several values as a column of arrays, and rows of rows as Arrow's lists of lists, which cells
        are, too (without pyarrow, as a column of :class:`~headrace.Ragged`). Labels become a categorical column where every value has a
        name.

    Raises:
        MissingExtra: pandas is not installed.

    >>> from headrace.sources.source import ColumnSource
    >>> to_pandas(ColumnSource({"x": np.arange(3)}))["x"].tolist()
    [0, 1, 2]
    """
    pandas = require("pandas", extra="sklearn")
    batch = check_source(source).batch(np.arange(len(source)))
    return pandas.DataFrame({name: _series(pandas, batch[name], source.schema[name]) for name in batch})


def _series(pandas: Any, column: Any, feature: Feature) -> Any:
    names = feature.names
    if feature.dtype == "str" and getattr(column, "ndim", 0) == 1 and (text := _text_dtype(pandas)) is not None:
        values = column.to_arrow() if isinstance(column, Strings) else column
        return pandas.Series(pandas.array(values, dtype=text))
    if isinstance(column, Strings):
        column = np.asarray(column)
    if isinstance(column, np.ndarray) and column.ndim == 1:
        if names is not None and column.dtype.kind in "iu" and ((column >= 0) & (column < len(names))).all():
            return pandas.Series(pandas.Categorical.from_codes(column, categories=list(names)))
        return pandas.Series(column, dtype=None if column.dtype.kind in "mM" else column.dtype)  # days: pandas has none
    if isinstance(column, Ragged) and isinstance(column.values, Ragged) and available("pyarrow"):
        lists = _lists_of_lists(pandas, column)
        if lists is not None:
            return lists
    values = np.empty(column.shape[0] if hasattr(column, "shape") else len(column), object)
    for row in range(len(values)):
        cell = column[row]
        values[row] = np.asarray(cell) if isinstance(cell, Strings) else cell  # pandas and Parquet know no others
    return pandas.Series(values)


def _lists_of_lists(pandas: Any, column: Ragged) -> Any:
    """Rows of rows with their type, which objects would not have where all rows are empty. ``None`` if Arrow has no such type."""
    feature = any_width(schema_of({"": column}))[""]
    try:
        array = column_to_arrow(column, feature)
    except (BadValue, UnsupportedData, TypeError, ValueError):
        return None
    return pandas.Series(pandas.array(array, dtype=pandas.ArrowDtype(array.type)))


def _text_dtype(pandas: Any) -> Any:
    """The dtype of text that pandas itself infers from version 3 on, held by Arrow; ``None`` if there is none."""
    if int(pandas.__version__.split(".")[0]) < 3:
        return None
    try:
        return pandas.StringDtype("pyarrow", na_value=np.nan)
    except ImportError:
        return None


def from_pandas(frame: Any) -> Source:
    """The rows of a ``pandas.DataFrame`` as a source; its index is left out.

    Categories become their values; cells may hold arrays, lists and :class:`~headrace.Ragged` rows. Missing values are an
    error when they are read, except in floating-point columns (NaN).

    Raises:
        TypeError: it is not a frame.
        UnsupportedData: a column has no array type, or two columns have one name.
        MissingExtra: pyarrow is not installed.
    """
    pa = require("pyarrow", extra="arrow")
    if not (hasattr(frame, "columns") and hasattr(frame, "iloc")):
        raise TypeError(f"from_pandas takes a pandas.DataFrame, got {type(frame).__name__}")
    names = [str(name) for name in frame.columns]
    columns = [_arrow_column(pa, frame.iloc[:, at], name) for at, name in enumerate(names)]
    return from_arrow(pa.Table.from_arrays(columns, names=names))


def _arrow_column(pa: Any, series: Any, name: str) -> Any:
    if type(series.dtype).__name__ == "PeriodDtype":
        raise UnsupportedData(
            Where(feature=name),
            expected="points in time, as Arrow would make numbers of periods",
            found=str(series.dtype),
            hint="Convert them first: series.dt.to_timestamp().",
        )
    try:
        cells = series.tolist() if series.dtype == object else []
        first = next((cell for cell in cells if not _is_missing(cell)), None)
        if isinstance(first, (np.ndarray, Strings, Ragged)) and (found := _nested_lists(pa, cells)) is not None:
            return found
        if isinstance(first, np.ndarray) and first.ndim > 1:
            return pa.array([None if _is_missing(cell) else np.asarray(cell).tolist() for cell in cells])
        return pa.array(series, from_pandas=True)
    except (TypeError, ValueError, AttributeError, ArithmeticError, NotImplementedError) as error:
        found = str(error.args[0] if error.args else error)
        if isinstance(error, SchemaMismatch):
            found = f"{error.found} in row {error.where.record}"
        raise UnsupportedData(
            Where(feature=name),
            expected="a column of one type that Arrow supports",
            found=found,
            hint="Change the column, or leave it out: frame.drop(columns=[...]).",
        ) from error


def _is_missing(cell: Any) -> bool:
    return (
        cell is None or type(cell).__name__ in ("NAType", "NaTType") or (isinstance(cell, float) and math.isnan(cell))
    )


def _nested_lists(pa: Any, cells: list[Any]) -> Any:
    """Cells of arrays or of rows, as lists of the dtype that holds the values of all. ``None`` if that is unknown: they are objects.

    Raises:
        SchemaMismatch: No dtype holds all values. ``where.record`` is the row.
        ValueError: Cells have different numbers of axes.
    """
    rows = [row for row, cell in enumerate(cells) if not _is_missing(cell)]
    flats, levels = zip(*(_take_apart(cells[row]) for row in rows), strict=True)
    try:
        column = stack([{"": flat} for flat in flats])[""]
    except SchemaMismatch as error:
        raise error.relocated(Where(record=rows[error.where.record or 0])) from error
    values = column.values if isinstance(column, Ragged) else column.reshape(-1)
    if isinstance(values, Strings):
        array = column_to_arrow(values, Feature("str" if values.is_text else "bytes"))
    elif values.dtype == object:
        strings = _innermost(cells[rows[0]])
        if len(values) or not isinstance(strings, Strings):
            return None
        array = column_to_arrow(strings.take(np.zeros(0, np.int64)), Feature("str" if strings.is_text else "bytes"))
    else:
        array = column_to_arrow(values, Feature(values.dtype))
    if len({len(lengths) for lengths in levels}) > 1:
        raise ValueError(f"cells of {' and '.join(map(str, sorted({len(each) for each in levels})))} axes")
    for lengths in reversed(list(zip(*levels, strict=True))):
        offsets = np.cumsum(np.concatenate([np.zeros(1, np.int64), *lengths]))
        array = pa.LargeListArray.from_arrays(pa.array(offsets), array)
    if len(rows) == len(cells):
        return array
    places = np.cumsum([not _is_missing(cell) for cell in cells]) - 1
    return array.take(pa.array(places, mask=np.array([_is_missing(cell) for cell in cells])))


def _innermost(cell: Any) -> Any:
    """The values in rows of rows."""
    return _innermost(cell.values) if isinstance(cell, Ragged) else cell


def _take_apart(cell: Any) -> tuple[Any, list[Any]]:
    """The values of a cell end to end, and the lengths of its lists, level by level."""
    if isinstance(cell, Ragged):
        values, inner = _take_apart(cell.values)
        return values, [np.array([len(cell)]), cell.lengths, *inner[1:]]
    array = np.ma.asanyarray(cell) if isinstance(cell, np.ma.MaskedArray) else to_array(cell)
    lengths = [np.full(math.prod(array.shape[:axis]), length) for axis, length in enumerate(array.shape)]
    flat = array.reshape(-1)
    return flat.astype(object) if flat.dtype.kind in "SU" else flat, lengths
