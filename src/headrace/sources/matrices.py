"""A whole source in memory: as one matrix and its labels, as a frame or a table; and a column as its values end to end, whose times are compared."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from headrace import _hooks, _optional
from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema
from headrace.contracts.strings import Strings
from headrace.contracts.values import Batch, Ragged, join
from headrace.errors import NoSuchFeature, UnsupportedData, Where
from headrace.sources.node import Node, stream
from headrace.sources.views import keep_features

if TYPE_CHECKING:  # for editors: callers of these functions have the package
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from scipy.sparse import csr_array

__all__ = [
    "compare_times",
    "count_characters",
    "flatten",
    "read_all",
    "to_arrow",
    "to_csr",
    "to_numpy",
    "to_pandas",
    "to_polars",
]

LABEL = "label"
VALUES = "values"
STREAMED = 8192
"""Examples in a batch, where batches are read in order."""
FIRST_OF_MORE = 0x80
"""The first byte of a character of several bytes is no less."""
COUNTED_BYTES = 1 << 18
"""Text whose characters are counted together."""
UNITS = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as")
"""Of times, the longest first."""
CALENDAR = UNITS[:2]


class HoldsNode(Protocol):
    """A source, as far as its data are read here."""

    @property
    def node(self) -> Node:
        """How its examples are read."""


def to_numpy(
    source: HoldsNode, feature: str | None = None, *, label: str | None = None
) -> tuple[npt.NDArray[Any], npt.NDArray[Any] | None]:
    """All examples as one matrix, and their labels.

    Args:
        feature: The feature for the matrix; by default ``values``, or the only array of numbers that is not a label.
        label: The feature for the labels; by default ``label``, or the only feature whose name begins with ``label_``.

    Returns:
        ``ndarray (n, *shape)`` and ``ndarray (n, *shape of a label)``; ``None`` instead of missing labels.

    Raises:
        NoSuchFeature: There is no such feature, or several that might be meant.
        UnsupportedData: The feature is sparse (see :meth:`to_csr`), or its lengths vary.
    """
    node = source.node
    name, labels = _names(node.schema, feature, label)
    _check_fixed(name, node.schema[name])
    batch = read_all(node, name, labels)
    return np.asarray(batch[name]), None if labels is None else np.asarray(batch[labels])


def to_csr(
    source: HoldsNode, feature: str | None = None, *, label: str | None = None
) -> tuple[csr_array, npt.NDArray[Any] | None]:
    """All examples as one sparse matrix, and their labels.

    Args:
        feature: As for :meth:`to_numpy`. A dense feature becomes sparse.
        label: As for :meth:`to_numpy`.

    Returns:
        ``scipy.sparse.csr_array (n, width)``, and labels as in :meth:`to_numpy`.

    Raises:
        NoSuchFeature: There is no such feature, or several that might be meant.
        UnsupportedData: The feature does not have one axis, or its length varies.
        MissingExtra: SciPy is not installed.
    """
    sparse = _optional.require("scipy.sparse", extra="sklearn")
    node = source.node
    name, labels = _names(node.schema, feature, label)
    wanted = node.schema[name]
    if not wanted.sparse:
        _check_fixed(name, wanted)
        if len(wanted.shape) != 1:
            raise UnsupportedData(
                Where(feature=name), expected="a feature of one axis", found=f"one of shape {wanted.shape}"
            )
    batch = read_all(node, name, labels)
    return sparse.csr_array(batch[name]), None if labels is None else np.asarray(batch[labels])


def to_pandas(source: HoldsNode) -> pd.DataFrame:
    """All examples as a ``pandas.DataFrame``, a column for each feature: see :func:`headrace.adapters.pandas.to_pandas`.

    Raises:
        MissingExtra: pandas is not installed.
    """
    return _hooks.to_pandas(source)


def to_arrow(source: HoldsNode) -> pa.Table:
    """All examples as a ``pyarrow.Table``, a column for each feature: see :func:`headrace.adapters.arrow.to_arrow`.

    Raises:
        UnsupportedData: A feature has no Arrow type: sparse rows, complex numbers.
        MissingExtra: pyarrow is not installed.
    """
    return _hooks.to_arrow(source)


def to_polars(source: HoldsNode) -> pl.DataFrame:
    """All examples as a ``polars.DataFrame``, a column for each feature, by way of Arrow.

    Raises:
        UnsupportedData: A feature has no Arrow type: sparse rows, complex numbers.
        MissingExtra: Polars or pyarrow is not installed.
    """
    polars = _optional.require("polars", extra="polars")
    return polars.from_arrow(_hooks.to_arrow(source))


def _names(schema: Schema, feature: str | None, label: str | None) -> tuple[str, str | None]:
    labels = _label_name(schema, label)
    if labels is not None:
        _check_fixed(labels, schema[labels])
    return _matrix_name(schema, feature), labels


def _matrix_name(schema: Schema, feature: str | None) -> str:
    if feature is not None:
        _ = schema[feature]
        return feature
    if VALUES in schema:
        return VALUES
    arrays = [name for name, found in schema.items() if not found.is_text and not _is_label(name)]
    return _only(arrays, schema, "feature=")


def _label_name(schema: Schema, label: str | None) -> str | None:
    if label is not None:
        _ = schema[label]
        return label
    labels = [name for name in schema if _is_label(name)]
    if not labels:
        return None
    return LABEL if LABEL in labels else _only(labels, schema, "label=")


def _is_label(name: str) -> bool:
    return name == LABEL or name.startswith(LABEL + "_")


def _only(names: list[str], schema: Schema, argument: str) -> str:
    if len(names) == 1:
        return names[0]
    raise NoSuchFeature(
        Where(),
        expected="one possible feature",
        found=f"{names}" if names else f"none among {list(schema)}",
        hint=f"Name it: {argument}...",
    )


def _check_fixed(name: str, feature: Feature) -> None:
    if feature.sparse or not feature.is_fixed:
        raise UnsupportedData(
            Where(feature=name),
            expected="a dense feature of one shape",
            found=repr(feature),
            hint="to_csr() gives a sparse matrix."
            if feature.sparse
            else "Read it in batches: rows of varying length make no matrix.",
        )


def read_all(node: Node, *names: str | None) -> Batch:
    """The columns of all examples. One call decodes them straight into their places."""
    wanted = [name for name in names if name is not None]
    narrow = keep_features(node, wanted)
    batches = stream(narrow, STREAMED)
    if batches is None:
        return narrow.batch(np.arange(len(narrow)))
    parts = list(batches)
    if not parts:
        return {name: np.zeros((0, *(n or 0 for n in node.schema[name].shape))) for name in wanted}
    return {name: join([part[name] for part in parts]) for name in wanted}


def flatten(column: Any) -> tuple[Any, npt.NDArray[np.int64] | None]:
    """The values of a column end to end, and the row of each; ``None`` for one value in each row."""
    if hasattr(column, "tocsr"):
        column = column.tocsr()
        return np.asarray(column.data), np.repeat(np.arange(column.shape[0]), np.diff(column.indptr))
    if isinstance(column, list):  # arrays of different shapes
        parts = [np.asarray(item).reshape(-1) for item in column]
        values = _as_values(np.concatenate(parts)) if parts else np.zeros(0)
        return values, np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    if isinstance(column, Ragged):
        inner, row = flatten(column.values)
        owner = np.repeat(np.arange(len(column)), column.lengths)
        return inner, owner if row is None else owner[row]
    array = column if isinstance(column, Strings) else _as_values(column)
    if len(array.shape) == 1:
        return array, None
    inner_count = math.prod(array.shape[1:])
    return array.reshape(-1), np.repeat(np.arange(array.shape[0]), inner_count)


def _as_values(column: Any) -> Any:
    array = np.asarray(column)
    if array.dtype == bool:
        array = array.view(np.uint8)  # NumPy compares these with integers of any size.
    return Strings.from_values(array) if array.dtype.kind in "OUS" else array


def count_characters(texts: Strings) -> npt.NDArray[np.int64]:
    """``int64 (values,)``: the length of each text in characters: bytes that continue one do not count."""
    content = texts.content  # not all data, of which a batch of a large block is a small part
    ends = texts.offsets - texts.offsets[0]
    counts: npt.NDArray[np.int64] = np.diff(ends)
    if not len(content) or content.max() < FIRST_OF_MORE:
        return counts
    begin = 0
    while begin < len(counts):  # some at a time: each byte takes eight meanwhile
        end = max(int(ends.searchsorted(ends[begin] + COUNTED_BYTES, side="right")) - 1, begin + 1)
        is_first = (content[ends[begin] : ends[end]] & 0xC0) != 0x80
        if end == begin + 1:
            counts[begin] = np.count_nonzero(is_first)
        else:
            before = np.zeros(len(is_first) + 1, np.int64)
            np.cumsum(is_first, out=before[1:])
            counts[begin:end] = np.diff(before[ends[begin : end + 1] - ends[begin]])
        begin = end
    return counts


def compare_times(left: Any, right: Any) -> npt.NDArray[np.float64]:
    """Below 0 where the left is earlier, above 0 where it is later, NaN where one is missing.

    NumPy compares in the finer unit, where far times overflow. In the coarser one nothing does.

    Raises:
        TypeError: They are not two times or two durations, or have no units in common.
    """
    if left.dtype.kind != right.dtype.kind:
        raise TypeError("one is a time, the other is not, and a time is written as text, as in '2026-01-31'")
    (unit, count), (other_unit, other_count) = np.datetime_data(left.dtype), np.datetime_data(right.dtype)
    if not {unit, other_unit} <= set(UNITS):
        raise TypeError("one has no unit")
    if left.dtype.kind == "m" and (unit in CALENDAR) != (other_unit in CALENDAR):
        raise TypeError("years and months have no fixed length")
    if (UNITS.index(unit), -count) < (UNITS.index(other_unit), -other_count):
        return -compare_times(right, left)
    coarse = left.astype(right.dtype)
    order = (coarse > right).astype(np.float64) - (coarse < right)
    order = np.where((order == 0) & (coarse.astype(left.dtype) != left), 1.0, order)
    return np.where(np.isnat(left) | np.isnat(right), np.nan, order)
