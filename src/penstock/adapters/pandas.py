"""Sources to pandas frames and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock._optional import require
from penstock.adapters.arrow import from_arrow
from penstock.sources.views import Source

__all__ = ["from_pandas", "to_pandas"]


def to_pandas(source: Source) -> Any:
    """All examples as a ``pandas.DataFrame``, one column per feature.

    Returns:
        Numbers in a column of their dtype; text as objects, so that ``bytes`` stay ``bytes``; whatever has more than one value an
        example as a column of arrays. Labels with names become a categorical column where every value has a name.

    Raises:
        MissingExtra: pandas is not installed.

    >>> from penstock.sources.column_source import ColumnSource
    >>> to_pandas(ColumnSource({"x": np.arange(3)}))["x"].tolist()
    [0, 1, 2]
    """
    pandas = require("pandas", extra="sklearn")
    batch = source.batch(np.arange(len(source)))
    return pandas.DataFrame({name: _series(pandas, batch[name], source.schema[name].names) for name in batch})


def _series(pandas: Any, column: Any, names: tuple[str, ...] | None) -> Any:
    if isinstance(column, np.ndarray) and column.ndim == 1:
        if names is not None and column.dtype.kind in "iu" and ((column >= 0) & (column < len(names))).all():
            return pandas.Series(pandas.Categorical.from_codes(column, categories=list(names)))
        return pandas.Series(column, dtype=None if column.dtype.kind in "mM" else column.dtype)  # days: pandas has none
    values = np.empty(column.shape[0] if hasattr(column, "shape") else len(column), object)
    for row in range(len(values)):
        values[row] = column[row]
    return pandas.Series(values)


def from_pandas(frame: Any) -> Source:
    """The rows of a ``pandas.DataFrame`` as a source; its index is left out.

    Categories come as what they stand for. Missing values are an error where they are read, except in floating-point columns (NaN).

    Raises:
        UnsupportedData: a column has no array type.
        MissingExtra: pyarrow is not installed.
    """
    pa = require("pyarrow", extra="arrow")
    return from_arrow(pa.Table.from_pandas(frame, preserve_index=False))
