"""Heads of requests that were read before: clients say the same again and again."""

from __future__ import annotations

from headrace.hosting.invocations import Head

__all__ = ["KnownHeads"]

END = b"\r\n\r\n"
MOST_BYTES = 2 << 10
MOST_HEADS = 1024


class KnownHeads:
    """What heads of invocations mean, by their bytes: looking one up takes a small part of the time of reading it again.

    Only those of the usual kind are kept: the connection stays open, the length of the body is said, and there is no header
    that containers see, which would differ from one request to the next.
    """

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[Head, int]] = {}

    def find(self, data: bytes) -> tuple[Head, bytes] | None:
        """Head and body, where this is one whole request with a head that is known; ``None`` otherwise."""
        end = data.find(END, 0, MOST_BYTES) + len(END)
        known = self._known.get(data[:end])
        if known is None or len(data) - end != known[1]:
            return None
        return known[0], data[end:]

    def keep(self, data: bytes, head: Head, size: int) -> None:
        """Remember what the head of one whole request was read as.

        Args:
            data: The request. It is left out where its body is not simply what follows the head.
            head: What was read.
            size: Bytes of the body.
        """
        end = data.find(END, 0, MOST_BYTES) + len(END)
        if end < len(END) or len(data) - end != size or head.headers:
            return
        if len(self._known) >= MOST_HEADS:
            self._known.clear()  # Somebody's heads never repeat.
        self._known[data[:end]] = (head, size)
