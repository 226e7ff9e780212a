"""NumPy, and PyTorch at work on the memory of NumPy's arrays.

Both have the few functions used here under the same names: what is written for one of them is written for both. PyTorch
shares sums over large arrays among the processors, and has the faster product of a sparse matrix.

How many threads NumPy's matrix products take.

Memory that steps take and give back, again and again.
"""

from __future__ import annotations

import functools
import os
import warnings
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import numpy as np

from headrace._optional import available, require

__all__ = ["NUMPY", "Library", "keep_freed_memory", "numeric_threads", "torch_library"]


class Library(Protocol):
    """One that adds, multiplies and takes roots of arrays."""

    @property
    def module(self) -> Any:
        """Where its functions are: ``multiply``, ``square``, ``sqrt``, ``sign`` and the like, with ``out=``."""
        ...

    def share(self, array: Any, /) -> Any:
        """An array of NumPy as the library takes it, in the same memory. ``np.asarray`` is the way back."""
        ...

    def product(self, matrix: Any, weights: Any, /) -> Any:
        """``matrix @ weights`` of a SciPy CSR array and a shared one."""
        ...


class _NumPy:
    module: Any = np

    def share(self, array: Any) -> Any:
        return array

    def product(self, matrix: Any, weights: Any) -> Any:
        return matrix @ weights


class _Torch:
    def __init__(self, torch: Any) -> None:
        self.module: Any = torch
        self._multiplies_sparse = bool(torch.backends.mkl.is_available())  # which it leaves to MKL
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # It calls them a beta, once in each process.
            self._sparse(np.zeros(2, np.int32), np.zeros(0, np.int32), np.zeros(0, np.float32), (1, 1))

    def share(self, array: Any) -> Any:
        # It knows of no array that must not be written to, and warns.
        return self.module.from_numpy(array if array.flags.writeable else array.copy())

    def product(self, matrix: Any, weights: Any) -> Any:
        if not self._multiplies_sparse:
            return self.share(matrix @ np.asarray(weights))
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
        return self._sparse(matrix.indptr, matrix.indices, matrix.data, matrix.shape) @ weights

    def _sparse(self, rows: Any, columns: Any, values: Any, shape: tuple[int, ...]) -> Any:
        parts = (self.share(part) for part in (rows, columns, values))
        return self.module.sparse_csr_tensor(*parts, size=shape, check_invariants=False)


NUMPY: Library = _NumPy()


@functools.cache
def torch_library() -> Library:
    """PyTorch, which is loaded if it is not.

    Raises:
        MissingExtra: It is not installed.
    """
    torch = require("torch", extra="torch")
    if hasattr(os, "register_at_fork"):
        # The threads that it computes with here are not there in a process forked from this one, and it would wait for them.
        os.register_at_fork(after_in_child=functools.partial(torch.set_num_threads, 1))
    return _Torch(torch)


WORTH_THREADS = 1 << 25  # multiplications of one product: about a millisecond on one processor


def numeric_threads(multiplications: int) -> AbstractContextManager[object]:
    """Have products of this size on one thread, where they are too small to be shared.

    Waking and waiting for another thread costs more than such a product; where other programs keep the processors busy, a
    hundred times more. Without threadpoolctl, which comes with scikit-learn, nothing is changed.
    """
    if multiplications >= WORTH_THREADS or not available("threadpoolctl"):
        return nullcontext()
    limits: AbstractContextManager[object] = require("threadpoolctl", extra="sklearn").threadpool_limits(1, "blas")
    return limits


LARGEST = 16 << 20  # bytes; it takes account of up to 32 MiB


def keep_freed_memory() -> None:
    """Have the C library keep what is freed for the next who asks.

    The one of GNU gives larger blocks back to the system, and new ones come page by page, cleared: up to a third of a step. How
    large they must be for that follows the largest block that it has seen freed (mallopt(3), M_MMAP_THRESHOLD). Others do not
    mind.
    """
    np.empty(LARGEST, np.uint8)
