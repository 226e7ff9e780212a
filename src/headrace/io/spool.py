"""Bytes that wait to be put somewhere: in memory while they are few, in a file of no name when they are many."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import IO, cast

__all__ = ["spool"]

MEMORY_BYTES = 16 << 20


def spool(folder: Path) -> IO[bytes]:
    """A file to write and read again, gone when it is closed or the process ends.

    Args:
        folder: Where it lies once it is large: beside its destination there is most probably room for it.
    """
    return cast("IO[bytes]", tempfile.SpooledTemporaryFile(MEMORY_BYTES, "w+b", dir=os.fspath(folder)))
