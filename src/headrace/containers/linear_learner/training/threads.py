"""How many threads NumPy's matrix products take."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from headrace._optional import available, require

__all__ = ["numeric_threads"]

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
