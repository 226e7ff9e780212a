"""The features of a mini-batch, dense or sparse, with the operations that linear models need."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from headrace._optional import require
from headrace.containers.linear_learner.training.optimizers import Array

__all__ = ["DenseRows", "FeatureRows", "SparseRows", "as_rows", "concat_rows"]


class FeatureRows(Protocol):
    """Examples as rows of a matrix ``(n, width)``."""

    @property
    def width(self) -> int: ...
    def __len__(self) -> int: ...
    def part(self, which: slice, /) -> FeatureRows: ...
    def find_non_finite(self) -> tuple[int, int] | None: ...
    def moments(self) -> tuple[Array, Array]: ...
    def scale(self, mean: Array, deviation: Array, /) -> FeatureRows: ...
    def multiply(self, weights: Array, /) -> Array: ...
    def multiply_transposed(self, derivatives: Array, /) -> Array: ...


class DenseRows:
    """Rows of ``float32``.

    Args:
        values: The features, ``(n, width)``.
    """

    def __init__(self, values: Array) -> None:
        self.values: Array = np.ascontiguousarray(values, np.float32)

    @property
    def width(self) -> int:
        return int(self.values.shape[1])

    def __len__(self) -> int:
        return len(self.values)

    def part(self, which: slice) -> DenseRows:
        """Some of the rows."""
        return DenseRows(self.values[which])

    def find_non_finite(self) -> tuple[int, int] | None:
        """Row and column of the first value that is NaN or infinite."""
        if _all_finite(self.values):
            return None
        row, column = np.argwhere(~np.isfinite(self.values))[0]
        return int(row), int(column)

    def moments(self) -> tuple[Array, Array]:
        """Mean and standard deviation of each column, ``float64 (width,)``."""
        return self.values.mean(axis=0, dtype=np.float64), self.values.std(axis=0, dtype=np.float64)

    def scale(self, mean: Array, deviation: Array) -> DenseRows:
        """The rows minus ``mean``, divided by ``deviation``."""
        scaled = self.values - mean
        scaled /= deviation
        return DenseRows(scaled)

    def multiply(self, weights: Array) -> Array:
        """``rows @ weights``: ``float32 (n, k)``."""
        return np.asarray(self.values @ weights)

    def multiply_transposed(self, derivatives: Array) -> Array:
        """``rows.T @ derivatives``: ``float32 (width, k)``."""
        return np.asarray(self.values.T @ derivatives)


class SparseRows:
    """Rows of a SciPy CSR array. The scaling is stored separately, so that the matrix stays sparse.

    ``((x - m) / s) @ w`` is ``x @ (w / s) - m @ (w / s)``. The transposed product is computed the same way.

    Args:
        matrix: The rows.
        mean: Subtracted from every row.
        deviation: Divides every row.
    """

    def __init__(self, matrix: Any, mean: Array | None = None, deviation: Array | None = None) -> None:
        self.matrix = matrix
        self._mean = mean
        self._deviation = deviation

    @property
    def width(self) -> int:
        return int(self.matrix.shape[1])

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    def part(self, which: slice) -> SparseRows:
        """Some of the rows."""
        return SparseRows(self.matrix[which], self._mean, self._deviation)

    def find_non_finite(self) -> tuple[int, int] | None:
        """Row and column of the first value that is NaN or infinite."""
        if _all_finite(self.matrix.data):
            return None
        place = int((~np.isfinite(self.matrix.data)).argmax())
        return int(np.searchsorted(self.matrix.indptr, place, side="right")) - 1, int(self.matrix.indices[place])

    def moments(self) -> tuple[Array, Array]:
        """Mean and standard deviation of each column, zeros included, ``float64 (width,)``."""
        columns, values = self.matrix.indices, self.matrix.data.astype(np.float64)
        mean = np.bincount(columns, values, self.width) / len(self)
        # Sum the squared distances to the mean. For a constant column, the mean of squares minus the square of the mean is
        # a rounding error, and features would be divided by it.
        squares = np.bincount(columns, np.square(values - mean[columns]), self.width)
        zeros = len(self) - np.bincount(columns, minlength=self.width)
        return mean, np.sqrt((squares + zeros * mean * mean) / len(self))

    def scale(self, mean: Array, deviation: Array) -> SparseRows:
        """The same matrix with this scaling."""
        return SparseRows(self.matrix, mean, deviation)

    def multiply(self, weights: Array) -> Array:
        """``rows @ weights``: ``float32 (n, k)``."""
        if self._mean is None or self._deviation is None:
            return np.asarray(self.matrix @ weights)
        over = weights / self._deviation[:, None]
        product = self.matrix @ over
        product -= self._mean @ over
        return np.asarray(product, np.float32)

    def multiply_transposed(self, derivatives: Array) -> Array:
        """``rows.T @ derivatives``: ``float32 (width, k)``."""
        product = np.asarray(self.matrix.T @ derivatives)
        if self._mean is None or self._deviation is None:
            return product
        product -= self._mean[:, None] * derivatives.sum(axis=0)
        product /= self._deviation[:, None]
        return product


def _all_finite(values: Array) -> bool:
    flat = values.reshape(-1)
    # A sum of squares is the fastest check. It can overflow for large finite values, so then check each value.
    with np.errstate(over="ignore"):
        return bool(np.isfinite(np.dot(flat, flat))) or bool(np.isfinite(flat).all())


def as_rows(features: Any) -> FeatureRows:
    """Rows of an array or of a SciPy matrix."""
    if isinstance(features, np.ndarray):
        return DenseRows(features)
    return SparseRows(features.tocsr().astype(np.float32))


def concat_rows(parts: list[FeatureRows]) -> FeatureRows:
    """The rows of several blocks of one kind, concatenated."""
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], DenseRows):
        return DenseRows(np.concatenate([part.values for part in parts if isinstance(part, DenseRows)]))
    sparse = require("scipy.sparse", extra="sklearn")
    return SparseRows(sparse.vstack([part.matrix for part in parts if isinstance(part, SparseRows)], format="csr"))
