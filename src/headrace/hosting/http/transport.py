"""Writes to a socket at once instead of at the end of an event loop iteration, and timers that each request restarts."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable

__all__ = ["RequestTimer", "send", "socket_descriptor"]


def socket_descriptor(transport: asyncio.BaseTransport) -> int:
    """The descriptor of the socket, for :func:`send`; -1 where the transport has no socket to write to."""
    sock = transport.get_extra_info("socket")
    return -1 if sock is None or sys.platform == "win32" else sock.fileno()


def send(transport: asyncio.Transport, descriptor: int, data: bytes) -> None:
    """Write to an open connection.

    Args:
        transport: The connection. It sends what the system does not accept now, and detects a broken connection itself.
        descriptor: Its :func:`socket_descriptor`.
        data: The bytes.
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


class RequestTimer:
    """Calls a function after some seconds, unless stopped or restarted before.

    Starting and stopping it is one assignment; a timer of the event loop costs microseconds. The loop's timer underneath keeps
    running and checks, when it fires, whether the time is really over.

    Args:
        loop: The event loop.
        seconds: The time until the call.
        callback: The function.
    """

    __slots__ = ("_callback", "_handle", "_loop", "_seconds", "_since")

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, callback: Callable[[], None]) -> None:
        self._loop, self._seconds, self._callback = loop, seconds, callback
        self._since: float | None = None
        self._handle: asyncio.TimerHandle | None = None

    @property
    def is_running(self) -> bool:
        """Whether the call will come."""
        return self._since is not None

    def start(self) -> None:
        """Start, or start again."""
        self._since = self._loop.time()
        if self._handle is None:
            self._handle = self._loop.call_later(self._seconds, self._check)

    def stop(self) -> None:
        """Do not call."""
        self._since = None

    def close(self) -> None:
        """Do not call, and release the loop's timer, which refers to the function."""
        self._since = None
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _check(self) -> None:
        self._handle = None
        if self._since is None:
            return
        left_s = self._since + self._seconds - self._loop.time()
        if left_s > 0:
            self._handle = self._loop.call_later(left_s, self._check)
        else:
            self._since = None
            self._callback()
