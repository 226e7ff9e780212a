"""How much of a set of files is mapped rather than read.

Mapped pages count as the process's memory once they are touched. Of a large set that is read in order they are let go of behind
the reader, so that memory does not grow with the files; mapping them again costs less than reading into recycled memory (measured on
1.9 GB: an epoch from a map 0.28 s, let go of or not; by reading 0.45 s). At random a map is several times faster than reads of 3 KB, so it is
kept as long as the set is small beside the memory that this process may use (that of the machine, or what its container is
allowed): the kernel takes the pages back when it needs them. Larger sets are read.
"""

from __future__ import annotations

import os
from functools import cache

from headrace import _native
from headrace.io.cgroups import usable_memory

__all__ = ["WINDOW_BYTES", "gives_views", "scattered_limit", "worth_mapping"]

IN_ORDER_MAPPED_BYTES = 256 << 20
"""Up to here all pages stay, since they may be read again in the next epoch."""
PASSED_BYTES = 64 << 20
"""Of a larger set, so much stays mapped behind a reader in order."""
SCATTERED_MEMORY_SHARE = 0.25
WINDOW_BYTES = 64 << 10
"""What the kernel maps round one fault."""
CAN_READ = hasattr(_native, "read_ranges")


@cache
def scattered_limit() -> int:
    """Up to how many bytes in all are mapped for random access; ``HEADRACE_MAPPED_BYTES`` sets another number."""
    given = os.environ.get("HEADRACE_MAPPED_BYTES")
    if given is not None:
        return int(given)
    memory = usable_memory()
    return 1 << 30 if memory is None else int(memory * SCATTERED_MEMORY_SHARE)


def gives_views() -> bool:
    """Whether users may get views of mapped bytes. With ``HEADRACE_MAPPED_BYTES=0`` they get copies: a view of a file that is cut
    off ends the process.
    """
    return scattered_limit() > 0


def worth_mapping(total: int) -> bool:
    """Whether records of a set of ``total`` bytes are better taken from maps than read: see the figures above."""
    return not CAN_READ or total <= scattered_limit()
