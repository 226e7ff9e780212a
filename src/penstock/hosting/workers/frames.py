"""Messages between a server and its workers: a JSON head, then bodies as they are."""

from __future__ import annotations

import json
import socket
import struct
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from penstock.contracts.serving import Request, Response
from penstock.hosting.failures import failure_from_json, failure_to_json

__all__ = ["Receiver", "Unpacker", "answers_from", "pack", "pack_answers", "pack_requests", "requests_from"]

PREFIX = struct.Struct("<4sIQ")
MAGIC = b"PNS1"  # tells our messages from what a script writes to a descriptor that is not its own
MOST_HEAD_BYTES = 256 << 20
MOST_BODY_BYTES = 64 << 30
CHUNK_BYTES = 1 << 16  # larger ones are mapped and unmapped by the allocator each time

Message = tuple[dict[str, Any], memoryview]

_encode = json.JSONEncoder(separators=(",", ":")).encode


def pack(head: Mapping[str, Any], bodies: Sequence[bytes] = ()) -> bytes:
    """One message."""
    text = _encode(head).encode()
    return b"".join([PREFIX.pack(MAGIC, len(text), sum(map(len, bodies))), text, *bodies])


class Unpacker:
    """Puts messages together from the pieces that arrive."""

    def __init__(self) -> None:
        self._gathered = bytearray()

    def feed(self, piece: bytes) -> Iterator[Message]:
        """The messages that this piece completes.

        Raises:
            ConnectionError: These are no messages of ours.
        """
        if not self._gathered and _size_of(piece) == len(piece):
            yield _open(piece)  # as it nearly always is, and then nothing is copied
            return
        self._gathered += piece
        while (size := _size_of(self._gathered)) is not None and len(self._gathered) >= size:
            whole = bytes(self._gathered[:size])
            del self._gathered[:size]
            yield _open(whole)


class Receiver:
    """Waits for messages on one connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._unpacker = Unpacker()
        self._complete: deque[Message] = deque()

    def receive(self) -> Message | None:
        """The next message; ``None`` when the other side is gone.

        Raises:
            ConnectionError: These are no messages of ours.
        """
        while not self._complete:
            try:
                piece = self._connection.recv(CHUNK_BYTES)
            except ConnectionResetError:
                return None
            if not piece:
                return None
            self._complete.extend(self._unpacker.feed(piece))
        return self._complete.popleft()


def pack_requests(requests: Sequence[Request]) -> bytes:
    """Requests to be answered together."""
    heads = [[r.content_type, r.accept, dict(r.headers), len(r.body)] for r in requests]
    return pack({"requests": heads}, [r.body for r in requests])


def requests_from(message: Message) -> list[Request]:
    """From what :func:`pack_requests` made."""
    head, body = message
    requests, start = [], 0
    for content_type, accept, headers, size in head["requests"]:
        part = bytes(body[start : start + size])
        requests.append(Request(body=part, content_type=content_type, accept=accept, headers=headers))
        start += size
    return requests


def pack_answers(answers: Sequence[Response | Exception], calls: Sequence[tuple[str, float, int]] = ()) -> bytes:
    """Answers in the order of the requests.

    Args:
        answers: A response, or what went wrong, for each.
        calls: What each container did for them: its name, seconds, requests.
    """
    heads: list[Any] = []
    bodies = []
    for answer in answers:
        if isinstance(answer, Response):
            heads.append([answer.status, answer.content_type, dict(answer.headers), len(answer.body)])
            bodies.append(answer.body)
        else:
            heads.append(failure_to_json(answer))
    return pack({"answers": heads, "calls": calls}, bodies)


def answers_from(message: Message) -> list[Response | Exception]:
    """From what :func:`pack_answers` made."""
    head, body = message
    answers: list[Response | Exception] = []
    start = 0
    for plain in head["answers"]:
        if isinstance(plain, dict):
            answers.append(failure_from_json(plain))
            continue
        status, content_type, headers, size = plain
        part = bytes(body[start : start + size])
        answers.append(Response(body=part, content_type=content_type, status=status, headers=headers))
        start += size
    return answers


def _size_of(begun: bytes | bytearray) -> int | None:
    """Bytes of the message that begins here; ``None`` where too little of it is there to tell."""
    if len(begun) < PREFIX.size:
        return None
    magic, head, body = PREFIX.unpack_from(begun)
    if magic != MAGIC or head > MOST_HEAD_BYTES or body > MOST_BODY_BYTES:
        raise ConnectionError(f"expected a message, found {bytes(begun[: PREFIX.size])!r}")
    return PREFIX.size + int(head) + int(body)


def _open(whole: bytes) -> Message:
    _, head, _ = PREFIX.unpack_from(whole)
    view = memoryview(whole)
    return json.loads(str(view[PREFIX.size : PREFIX.size + head], "utf-8")), view[PREFIX.size + head :]
