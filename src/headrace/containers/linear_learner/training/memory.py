"""Memory that steps take and give back, again and again."""

from __future__ import annotations

import numpy as np

__all__ = ["keep_freed_memory"]

LARGEST = 16 << 20  # bytes; it takes account of up to 32 MiB


def keep_freed_memory() -> None:
    """Have the C library keep what is freed for the next who asks.

    The one of GNU gives larger blocks back to the system, and new ones come page by page, cleared: up to a third of a step. How
    large they must be for that follows the largest block that it has seen freed (mallopt(3), M_MMAP_THRESHOLD). Others do not
    mind.
    """
    np.empty(LARGEST, np.uint8)
