"""Sending bytes at once rather than at the end of a turn of the loop, and timers that are started and stopped with each request."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable

__all__ = ["Alarm", "descriptor_of", "send"]


def descriptor_of(transport: asyncio.BaseTransport) -> int:
    """The descriptor of its socket, for :func:`send`; -1 where there is none that can be written to."""
    sock = transport.get_extra_info("socket")
    return -1 if sock is None or sys.platform == "win32" else sock.fileno()


def send(transport: asyncio.Transport, descriptor: int, data: bytes) -> None:
    """Write to an open connection.

    Args:
        transport: The connection. It gets what the system does not take now, and finds out by itself when it is broken.
        descriptor: Its :func:`descriptor_of`.
        data: What is to be written.
    """
    if descriptor >= 0 and not transport.get_write_buffer_size():
        try:
            sent = os.write(descriptor, data)
        except OSError:
            sent = 0
        if sent == len(data):
            return
        data = data[sent:]
    transport.write(data)


class Alarm:
    """Rings once it has run for so long.

    Starting and stopping it costs an assignment each, where a timer of the loop costs microseconds: the one underneath is
    left running, and looks whether it is time when it goes off.

    Args:
        loop: The loop.
        seconds: How long it runs.
        ring: Called in the end, unless it was stopped.
    """

    __slots__ = ("_handle", "_loop", "_ring", "_seconds", "_since")

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, ring: Callable[[], None]) -> None:
        self._loop, self._seconds, self._ring = loop, seconds, ring
        self._since: float | None = None
        self._handle: asyncio.TimerHandle | None = None

    @property
    def is_running(self) -> bool:
        """Whether it will ring."""
        return self._since is not None

    def start(self) -> None:
        """Run from now on, also where it runs already."""
        self._since = self._loop.time()
        if self._handle is None:
            self._handle = self._loop.call_later(self._seconds, self._look)

    def stop(self) -> None:
        """Do not ring."""
        self._since = None

    def close(self) -> None:
        """Do not ring, and let go of whoever would hear it."""
        self._since = None
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _look(self) -> None:
        self._handle = None
        if self._since is None:
            return
        left_s = self._since + self._seconds - self._loop.time()
        if left_s > 0:
            self._handle = self._loop.call_later(left_s, self._look)
        else:
            self._since = None
            self._ring()
