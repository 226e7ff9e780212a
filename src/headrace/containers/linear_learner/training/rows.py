"""The features of a mini-batch, dense or sparse, as far as linear models need them."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from headrace._optional import require
from headrace.containers.linear_learner.training.libraries import NUMPY, Library
from headrace.containers.linear_learner.training.optimizers import Array

__all__ = ["Dense", "Rows", "Sparse", "joined", "rows_of"]


class Rows(Protocol):
    """Examples as rows of a matrix ``(n, width)``."""

    @property
    def width(self) -> int: ...
    def __len__(self) -> int: ...
    def part(self, which: slice, /) -> Rows: ...
    def not_finite(self) -> tuple[int, int] | None: ...
    def moments(self) -> tuple[Array, Array]: ...
    def scaled(self, mean: Array, deviation: Array, by: Library = NUMPY, /) -> Rows: ...
    def times(self, weights: Array, /) -> Array: ...
    def back(self, derivatives: Array, /) -> Array: ...


class Dense:
    """Rows of ``float32``.

    Args:
        values: Of the features, ``(n, width)``.
        by: Which library multiplies them.
    """

    def __init__(self, values: Array, by: Library = NUMPY) -> None:
        self.values = np.ascontiguousarray(values, np.float32)
        self._by = by

    @property
    def width(self) -> int:
        return int(self.values.shape[1])

    def __len__(self) -> int:
        return len(self.values)

    def part(self, which: slice) -> Dense:
        """Some of the rows."""
        return Dense(self.values[which], self._by)

    def not_finite(self) -> tuple[int, int] | None:
        """Row and column of the first value that is NaN or infinite."""
        if _all_finite(self.values):
            return None
        row, column = np.argwhere(~np.isfinite(self.values))[0]
        return int(row), int(column)

    def moments(self) -> tuple[Array, Array]:
        """Mean and standard deviation of each column, ``float64 (width,)``."""
        return self.values.mean(axis=0, dtype=np.float64), self.values.std(axis=0, dtype=np.float64)

    def scaled(self, mean: Array, deviation: Array, by: Library = NUMPY) -> Dense:
        """The rows less ``mean``, over ``deviation``."""
        scaled = by.share(self.values) - by.share(mean)
        scaled /= by.share(deviation)
        return Dense(np.asarray(scaled), by)

    def times(self, weights: Array) -> Array:
        """``rows @ weights``: ``float32 (n, k)``."""
        return np.asarray(self._by.share(self.values) @ self._by.share(weights))

    def back(self, derivatives: Array) -> Array:
        """``rows.T @ derivatives``: ``float32 (width, k)``."""
        return np.asarray(self._by.share(self.values).T @ self._by.share(derivatives))


class Sparse:
    """Rows of a SciPy CSR array. Scaling stays beside the matrix, so that it stays sparse.

    ``((x - m) / s) @ w`` is ``x @ (w / s) - m @ (w / s)``, and in the same way for the transposed product.

    Args:
        matrix: The rows.
        mean: What is taken from them.
        deviation: What they are divided by.
        by: Which library multiplies them.
    """

    def __init__(
        self, matrix: Any, mean: Array | None = None, deviation: Array | None = None, by: Library = NUMPY
    ) -> None:
        self.matrix = matrix
        self._mean = mean
        self._deviation = deviation
        self._by = by

    @property
    def width(self) -> int:
        return int(self.matrix.shape[1])

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    def part(self, which: slice) -> Sparse:
        """Some of the rows."""
        return Sparse(self.matrix[which], self._mean, self._deviation, self._by)

    def not_finite(self) -> tuple[int, int] | None:
        """Row and column of the first value that is NaN or infinite."""
        if _all_finite(self.matrix.data):
            return None
        place = int((~np.isfinite(self.matrix.data)).argmax())
        return int(np.searchsorted(self.matrix.indptr, place, side="right")) - 1, int(self.matrix.indices[place])

    def moments(self) -> tuple[Array, Array]:
        """Mean and standard deviation of each column, zeros included, ``float64 (width,)``."""
        columns, values = self.matrix.indices, self.matrix.data.astype(np.float64)
        mean = np.bincount(columns, values, self.width) / len(self)
        # From the distances to the mean: the mean of squares less the square of the mean is rounding where a column does
        # not vary, and everything would be divided by that.
        squares = np.bincount(columns, np.square(values - mean[columns]), self.width)
        zeros = len(self) - np.bincount(columns, minlength=self.width)
        return mean, np.sqrt((squares + zeros * mean * mean) / len(self))

    def scaled(self, mean: Array, deviation: Array, by: Library = NUMPY) -> Sparse:
        """The same rows, with what is to be taken from them and what they are to be divided by."""
        return Sparse(self.matrix, mean, deviation, by)

    def times(self, weights: Array) -> Array:
        """``rows @ weights``: ``float32 (n, k)``."""
        share = self._by.share
        if self._mean is None or self._deviation is None:
            return np.asarray(self._by.product(self.matrix, share(weights)))
        over = share(weights) / share(self._deviation)[:, None]
        product = self._by.product(self.matrix, over)
        product -= share(self._mean) @ over
        return np.asarray(product, np.float32)

    def back(self, derivatives: Array) -> Array:
        """``rows.T @ derivatives``: ``float32 (width, k)``."""
        share = self._by.share
        product = np.asarray(self.matrix.T @ derivatives)  # PyTorch has no fast way to multiply with columns.
        if self._mean is None or self._deviation is None:
            return product
        taken = share(product)
        taken -= share(self._mean)[:, None] * share(derivatives.sum(axis=0))
        taken /= share(self._deviation)[:, None]
        return np.asarray(taken)


def _all_finite(values: Array) -> bool:
    flat = values.reshape(-1)
    # A sum of squares is the fastest look at all of them. That of large ones may be infinite, too.
    with np.errstate(over="ignore"):
        return bool(np.isfinite(np.dot(flat, flat))) or bool(np.isfinite(flat).all())


def rows_of(features: Any) -> Rows:
    """Rows of an array, or of a SciPy matrix."""
    if isinstance(features, np.ndarray):
        return Dense(features)
    return Sparse(features.tocsr().astype(np.float32))


def joined(parts: list[Rows]) -> Rows:
    """Rows below rows, all of one kind."""
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], Dense):
        return Dense(np.concatenate([part.values for part in parts if isinstance(part, Dense)]))
    sparse = require("scipy.sparse", extra="sklearn")
    return Sparse(sparse.vstack([part.matrix for part in parts if isinstance(part, Sparse)], format="csr"))
