"""Which container of a pipeline each request is in, in memory that a worker shares with its server.

The server asks only when the worker has died or takes too long. Telling it by message would wake it for every container.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Sequence

__all__ = ["AtWork", "new_memory"]


class AtWork:
    """One number for each channel: 0, or that of the container that has its request.

    Args:
        descriptor: What :func:`new_memory` has given, here or in the other process. It may be closed afterwards.
        channels: How many requests, or batches of them, are worked on at a time.
        names: Of the containers. One that is alone is not named.
    """

    def __init__(self, descriptor: int, channels: int, names: Sequence[str]) -> None:
        self._memory = mmap.mmap(descriptor, channels)
        self._names = (None, *names) if len(names) > 1 else (None,)
        self._numbers = {name: number for number, name in enumerate(self._names)}

    def enter(self, channel: int, name: str | None) -> None:
        """The request of a channel goes to a container, or has left the last one."""
        self._memory[channel] = self._numbers.get(name, 0)

    def name(self, channel: int) -> str | None:
        """Which container has the request of a channel."""
        number = self._memory[channel]
        return self._names[number] if number < len(self._names) else None


def new_memory(channels: int) -> int:
    """The descriptor of zeros that processes can share."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("headrace-at-work")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.truncate(descriptor, channels)
    return descriptor
