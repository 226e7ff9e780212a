"""Files that are open for reading at random, a bounded number of them."""

from __future__ import annotations

import os

__all__ = ["Descriptor", "Descriptors"]

MOST_OPEN = 128  # a process often may have no more than 1,024


class Descriptor:
    """An open file, closed when nobody holds it any more."""

    __slots__ = ("fd",)

    def __init__(self, path: str) -> None:
        self.fd = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))

    def __del__(self) -> None:
        if hasattr(self, "fd"):
            os.close(self.fd)


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
