"""Messages between a server and its workers: a JSON head of what is mostly said again, numbers, then bodies as they are."""

from __future__ import annotations

import json
import os
import socket
import struct
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from headrace.contracts.serving import Request, Response
from headrace.hosting.failures import failure_from_json, failure_to_json

__all__ = [
    "Message",
    "Receiver",
    "Unpacker",
    "answers_from",
    "calls_from",
    "pack",
    "pack_answers",
    "pack_requests",
    "requests_from",
]

PREFIX = struct.Struct("<4sIIQ")
MAGIC = b"PNS2"  # tells our messages from what a script writes to a descriptor that is not its own
MOST_HEAD_BYTES = 256 << 20
MOST_NUMBERS = 16 << 20
MOST_BODY_BYTES = 64 << 30
CHUNK_BYTES = 1 << 16  # larger ones are mapped and unmapped by the allocator each time
SHORT_HEAD_BYTES = 1 << 10

Calls = Sequence[tuple[str, float, int]]
"""What containers did: name, seconds, requests."""

_encode = json.JSONEncoder(separators=(",", ":")).encode


class Message(NamedTuple):
    """One message.

    Attributes:
        head: Shared with other messages that say the same: not to be changed.
        numbers: What differs from one message to the next: sizes of the bodies, seconds.
        bodies: One behind the other.
    """

    head: dict[str, Any]
    numbers: tuple[float, ...]
    bodies: memoryview


def pack(head: Mapping[str, Any], numbers: Sequence[float] = (), bodies: Sequence[bytes] = ()) -> bytes:
    """One message. Whole numbers come out as they went in up to 2**53."""
    return _joined(_encode(head).encode(), numbers, bodies)


def _joined(head: bytes, numbers: Sequence[float], bodies: Sequence[bytes]) -> bytes:
    prefix = PREFIX.pack(MAGIC, len(head), len(numbers), sum(map(len, bodies)))
    return b"".join((prefix, head, _doubles(len(numbers)).pack(*numbers), *bodies))


def _joined_one(head: bytes, body: bytes, numbers: Sequence[float] = ()) -> bytes:
    """A message with one body, whose size comes before the other numbers."""
    size = len(body)
    prefix = PREFIX.pack(MAGIC, len(head), 1 + len(numbers), size)
    return b"".join((prefix, head, _doubles(1 + len(numbers)).pack(size, *numbers), body))


@lru_cache(maxsize=64)
def _doubles(count: int) -> struct.Struct:
    return struct.Struct(f"<{count}d")


class Unpacker:
    """Puts messages together from the pieces that arrive."""

    def __init__(self) -> None:
        self._gathered = bytearray()

    def feed(self, piece: bytes) -> Iterable[Message]:
        """The messages that this piece completes.

        Raises:
            ConnectionError: These are no messages of ours.
        """
        if not self._gathered and len(piece) >= PREFIX.size:
            magic, head, numbers, bodies = PREFIX.unpack_from(piece)
            if magic == MAGIC and PREFIX.size + head + 8 * numbers + bodies == len(piece):
                return (_open(piece, head, numbers),)  # as it nearly always is, and then nothing is copied
        return self._gather(piece)

    def _gather(self, piece: bytes) -> Iterator[Message]:
        self._gathered += piece
        while (size := _size_of(self._gathered)) is not None and len(self._gathered) >= size:
            whole = bytes(self._gathered[:size])
            del self._gathered[:size]
            _, head, numbers, _ = PREFIX.unpack_from(whole)
            yield _open(whole, head, numbers)


class Receiver:
    """Waits for messages on one connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._unpacker = Unpacker()
        self._complete: deque[Message] = deque()

    def receive(self, awake_s: float = 0.0) -> Message | None:
        """The next message; ``None`` when the other side is gone.

        Args:
            awake_s: How long to look for it again and again, before sleeping until it comes. A processor that sleeps takes
                a while to wake, and on a shared machine somebody else has its caches by then.

        Raises:
            ConnectionError: These are no messages of ours.
        """
        while not self._complete:
            try:
                piece = self._soon(awake_s) if awake_s else None
                if piece is None:
                    piece = self._connection.recv(CHUNK_BYTES)
            except ConnectionResetError:
                return None
            if not piece:
                return None
            self._complete.extend(self._unpacker.feed(piece))
        return self._complete.popleft()

    def _soon(self, within_s: float) -> bytes | None:
        """What comes while somebody looks; ``None`` where nothing does. Whoever wants the processor gets it in between."""
        end = time.perf_counter() + within_s
        while time.perf_counter() < end:
            try:
                return self._connection.recv(CHUNK_BYTES, socket.MSG_DONTWAIT)
            except BlockingIOError:
                os.sched_yield()
        return None


def pack_requests(requests: Sequence[Request]) -> bytes:
    """Requests to be answered together."""
    if len(requests) == 1 and not requests[0].headers:
        (one,) = requests
        return _joined_one(_head_of_one(one.content_type, one.accept), one.body)
    head = _head_of_requests([[r.content_type, r.accept, dict(r.headers)] for r in requests])
    bodies = [r.body for r in requests]
    return _joined(head, [len(body) for body in bodies], bodies)


@lru_cache(maxsize=64)
def _head_of_one(content_type: str, accept: str) -> bytes:
    return _head_of_requests([[content_type, accept, {}]])


def _head_of_requests(requests: list[list[Any]]) -> bytes:
    return _encode({"requests": requests}).encode()


def requests_from(message: Message) -> list[Request]:
    """From what :func:`pack_requests` made."""
    told = message.head["requests"]
    if len(told) == 1 == len(message.numbers):  # as it mostly is
        ((content_type, accept, headers),) = told
        body = bytes(message.bodies[: int(message.numbers[0])])
        return [Request(body=body, content_type=content_type, accept=accept, headers=dict(headers))]
    return [
        Request(body=body, content_type=content_type, accept=accept, headers=dict(headers))
        for (content_type, accept, headers), body in zip(told, _cut(message.bodies, message.numbers), strict=True)
    ]


def pack_answers(answers: Sequence[Response | Exception], calls: Calls = ()) -> bytes:
    """Answers in the order of the requests.

    Args:
        answers: A response, or what went wrong, for each.
        calls: What each container did for them.
    """
    names = tuple([name for name, _, _ in calls])  # a generator takes longer
    if len(answers) == 1 and isinstance(one := answers[0], Response) and not one.headers:
        numbers: list[float] = []
        for _, seconds, count in calls:
            numbers += (seconds, count)
        return _joined_one(_head_of_answer(one.status, one.content_type, names), one.body, numbers)
    bodies = [answer.body if isinstance(answer, Response) else b"" for answer in answers]
    numbers = [len(body) for body in bodies]
    numbers += [number for _, seconds, count in calls for number in (seconds, count)]
    return _joined(_head_of_answers([_as_json(answer) for answer in answers], names), numbers, bodies)


@lru_cache(maxsize=64)
def _head_of_answer(status: int, content_type: str, names: tuple[str, ...]) -> bytes:
    return _head_of_answers([[status, content_type, {}]], names)


def _head_of_answers(answers: list[Any], names: tuple[str, ...]) -> bytes:
    return _encode({"answers": answers, "calls": names}).encode()


def _as_json(answer: Response | Exception) -> Any:
    if isinstance(answer, Response):
        return [answer.status, answer.content_type, dict(answer.headers)]
    return failure_to_json(answer)


def answers_from(message: Message) -> list[Response | Exception]:
    """From what :func:`pack_answers` made."""
    answers: list[Response | Exception] = []
    told = message.head["answers"]
    if len(told) == 1 and not isinstance(told[0], dict) and message.numbers:  # as it mostly is
        status, content_type, headers = told[0]
        body = bytes(message.bodies[: int(message.numbers[0])])
        return [Response(body=body, content_type=content_type, status=status, headers=dict(headers))]
    for plain, body in zip(told, _cut(message.bodies, message.numbers[: len(told)]), strict=True):
        if isinstance(plain, dict):
            answers.append(failure_from_json(plain))
        else:
            status, content_type, headers = plain
            answers.append(Response(body=body, content_type=content_type, status=status, headers=dict(headers)))
    return answers


def calls_from(message: Message) -> list[tuple[str, float, int]]:
    """The calls that :func:`pack_answers` was told of."""
    numbers = message.numbers[len(message.head["answers"]) :]
    return [
        (name, seconds, int(count))
        for name, seconds, count in zip(message.head["calls"], numbers[::2], numbers[1::2], strict=True)
    ]


def _cut(bodies: memoryview, sizes: Sequence[float]) -> Iterator[bytes]:
    start = 0
    for size in map(int, sizes):
        yield bytes(bodies[start : start + size])
        start += size


def _size_of(begun: bytes | bytearray) -> int | None:
    """Bytes of the message that begins here; ``None`` where too little of it is there to tell."""
    if len(begun) < PREFIX.size:
        return None
    magic, head, numbers, bodies = PREFIX.unpack_from(begun)
    if magic != MAGIC or head > MOST_HEAD_BYTES or numbers > MOST_NUMBERS or bodies > MOST_BODY_BYTES:
        raise ConnectionError(f"expected a message, found {bytes(begun[: PREFIX.size])!r}")
    return PREFIX.size + int(head) + 8 * int(numbers) + int(bodies)


def _open(whole: bytes, size: int, count: int) -> Message:
    end = PREFIX.size + size
    head = whole[PREFIX.size : end]
    read = _read_again if size <= SHORT_HEAD_BYTES else json.loads
    numbers = _doubles(count)
    return Message(read(head), numbers.unpack_from(whole, end), memoryview(whole)[end + numbers.size :])


_read_again = lru_cache(maxsize=64)(json.loads)
