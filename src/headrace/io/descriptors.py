"""Files that are open for reading at random, a bounded number of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.contracts.values import Indices
from headrace.io.changed import close_quietly, naming

__all__ = ["Descriptor", "Descriptors", "read_ranges"]

MOST_OPEN = 128  # a process often may have no more than 1,024


class Descriptor:
    """An open file, closed when nobody holds it any more."""

    __slots__ = ("fd", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self.fd = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))

    def __del__(self) -> None:
        if hasattr(self, "fd"):
            close_quietly(self.fd)


class Descriptors:
    """The files of a set that were opened, by number. Safe in threads and after fork: no lock, single operations on a dict."""

    def __init__(self) -> None:
        self._open: dict[int, Descriptor] = {}

    def get(self, number: int) -> Descriptor | None:
        """File ``number`` if it is open."""
        return self._open.get(number)

    def opened(self, number: int, path: str) -> Descriptor:
        """File ``number``, which is at ``path``."""
        if len(self._open) >= MOST_OPEN:
            for oldest in list(self._open)[: MOST_OPEN // 4]:
                self._open.pop(oldest, None)  # Closed when the last reader lets go of it.
        return self._open.setdefault(number, Descriptor(path))

    def clear(self) -> None:
        """Let go of all of them."""
        self._open.clear()


def read_ranges(
    files: Sequence[Descriptor], which: npt.NDArray[np.int32] | None, offsets: Indices, sizes: Indices
) -> tuple[npt.NDArray[np.uint8], Indices]:
    """Ranges of open files, joined, and where each begins.

    Args:
        files: The files.
        which: ``int32 (n,)``: the file that each range is in; ``None``: all in the first.
        offsets, sizes: ``int64 (n,)``: where it begins, and how long it is.

    Raises:
        OSError: A file cannot be read; it names the file.
        FormatError: A file ends before a range does.
    """
    try:
        found: Any = _native.read_ranges([file.fd for file in files], which, offsets, sizes)
    except OSError:
        for number, file in enumerate(files):  # Native code does not say in which of them.
            mine = slice(None) if which is None else which == number
            with naming(file.path):
                _native.read_ranges([file.fd], None, offsets[mine], sizes[mine])
        found = _native.read_ranges([file.fd for file in files], which, offsets, sizes)
    return found[0], found[1]
