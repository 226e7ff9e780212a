"""What is wrong with a tar archive, in one line."""

from __future__ import annotations

import lzma
import os
import tarfile
import zlib
from pathlib import Path

__all__ = ["ARCHIVE_FAULTS", "archive_fault"]

ARCHIVE_FAULTS = (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, OSError)
"""What reading a damaged archive raises, and a disk, too: see :func:`archive_fault`."""


def archive_fault(error: Exception, archive: str | os.PathLike[str]) -> str:
    """What an archive has that it should not.

    Args:
        error: One of :data:`ARCHIVE_FAULTS`, from reading it.
        archive: The file.

    Raises:
        OSError: It was the disk, not the archive.
    """
    if isinstance(error, OSError) and error.errno is not None:
        raise error
    text = str(error) or type(error).__name__
    if "\n" not in text:
        return text
    # Of a file that is no archive at all, tarfile tells what each of its readers says.
    with Path(archive).open("rb") as opened:
        begin = opened.read(8)
    return f"a file that begins with {begin!r}" if begin else "an empty file"
