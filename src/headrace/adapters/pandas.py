"""Sources to pandas frames and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace._optional import require
from headrace.adapters.arrow import check_source, from_arrow
from headrace.contracts.feature import Feature
from headrace.contracts.strings import Strings
from headrace.contracts.values import Ragged
from headrace.errors import UnsupportedData, Where
from headrace.sources.source import Source

__all__ = ["from_pandas", "to_pandas"]


def to_pandas(source: Source) -> Any:
    """All examples as a ``pandas.DataFrame``, one column per feature.

    Returns:
        Numbers as a column of their dtype; text as pandas' ``str``, held by Arrow, or as objects in pandas 2 or without pyarrow;
        ``bytes`` as objects; features of several values as a column of arrays. Labels become a categorical column where every value
        has a name.

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
    values = np.empty(column.shape[0] if hasattr(column, "shape") else len(column), object)
    for row in range(len(values)):
        values[row] = column[row]
    return pandas.Series(values)


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
    try:
        first = series.iloc[0] if series.dtype == object and len(series) else None
        if isinstance(first, np.ndarray) and first.ndim > 1:
            return pa.array([np.asarray(cell).tolist() for cell in series], _lists(pa, first.dtype, first.ndim))
        if isinstance(first, Ragged):
            levels = 1
            while isinstance(first.values, Ragged):
                first, levels = first.values, levels + 1
            kind = _lists(pa, first.dtype, levels + first.values.ndim)
            return pa.array([cell.to_list() for cell in series], kind)
        return pa.array(series, from_pandas=True)
    except (TypeError, ValueError, AttributeError, ArithmeticError, NotImplementedError) as error:
        raise UnsupportedData(
            Where(feature=name),
            expected="a column of one type that Arrow supports",
            found=str(error.args[0] if error.args else error),
            hint="Change the column, or leave it out: frame.drop(columns=[...]).",
        ) from error


def _lists(pa: Any, dtype: np.dtype[Any], levels: int) -> Any:
    """The type of nested lists of a dtype; ``None`` where values are objects, so that Arrow finds it."""
    kind = None if dtype.kind == "O" else pa.from_numpy_dtype(dtype)
    for _ in range(levels if kind is not None else 0):
        kind = pa.list_(kind)
    return kind
