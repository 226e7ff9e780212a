"""Finding out what a feature is like, batch by batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.cli.stats.numbers import Numbers
from headrace.cli.stats.summary import Summary
from headrace.cli.stats.texts import Texts
from headrace.contracts.feature import Feature
from headrace.contracts.values import Ragged

__all__ = ["Collector"]

MOST_BARS = 24


class Collector:
    """Gathers the summary of one feature."""

    def __init__(self, name: str, feature: Feature) -> None:
        self._summary = Summary(name=name, dtype=feature.dtype, shape=feature.shape)
        self._lengths = Numbers(np.dtype(np.int64))
        self._content: Numbers | Texts = _content_for(feature.numpy_dtype)

    def add(self, column: Any) -> None:
        """Take in a column of a batch."""
        lengths, values = _flat(column)
        self._summary.examples += len(lengths)
        self._summary.empty += int((lengths == 0).sum())
        self._lengths.add(lengths)
        self._content.add(values)

    def summary(self) -> Summary:
        """What has been found."""
        found = self._summary
        if None in found.shape:
            found.lengths = self._lengths.range()
        self._content.tell(found, MOST_BARS)
        return found


def _flat(column: Any) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """How many values each row has, and all values in one axis."""
    if hasattr(column, "tocsr"):
        rows = column.tocsr()
        return np.diff(rows.indptr).astype(np.int64), np.asarray(rows.data)
    if isinstance(column, Ragged):
        values = column.values
        lengths = column.lengths
        while isinstance(values, Ragged):
            values = values.values
        return lengths, values.reshape(-1)
    array = np.asarray(column)
    inner = int(np.prod(array.shape[1:], dtype=np.int64))
    return np.full(len(array), inner, np.int64), array.reshape(-1)


def _content_for(dtype: np.dtype[Any]) -> Numbers | Texts:
    return Numbers(dtype) if dtype.kind in "biufcmM" else Texts()
