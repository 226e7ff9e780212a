"""Names that the disk has."""

from __future__ import annotations

import os

from headrace.io.changed import close_quietly, naming

__all__ = ["sync_folder"]


def sync_folder(folder: str) -> None:
    """Wait until the disk has the names in a folder: a rename must reach it too."""
    if os.name != "posix":
        return
    with naming(folder):
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            close_quietly(fd)
