"""Bytes that go out at once: loops keep what is written until the end of their turn, and somebody is waiting for it."""

from __future__ import annotations

import asyncio
import os
import sys

__all__ = ["descriptor_of", "send"]


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
