"""The frames that a server and its workers exchange: a JSON head, numbers, then bodies.

Heads repeat from request to request, so their text is cached. Whatever differs is in the numbers and bodies.
"""

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
    "Frame",
    "FrameReceiver",
    "FrameUnpacker",
    "answers_from",
    "calls_from",
    "pack",
    "pack_answers",
    "pack_requests",
    "requests_from",
]

PREFIX = struct.Struct("<4sIIQ")
MAGIC = b"PNS2"  # detects output that a script wrote to a descriptor of ours
MOST_HEAD_BYTES = 256 << 20
MOST_NUMBERS = 16 << 20
MOST_BODY_BYTES = 64 << 30
CHUNK_BYTES = 1 << 16  # the allocator maps and unmaps larger blocks each time
SHORT_HEAD_BYTES = 1 << 10

ContainerCalls = Sequence[tuple[str, float, int]]
"""Calls of containers: name, seconds, number of requests."""

_encode = json.JSONEncoder(separators=(",", ":")).encode


class Frame(NamedTuple):
    """One frame.

    Attributes:
        head: Do not change it: frames with equal heads share it.
        numbers: Sizes of the bodies, seconds.
        bodies: The bodies, concatenated.
    """

    head: dict[str, Any]
    numbers: tuple[float, ...]
    bodies: memoryview


def pack(head: Mapping[str, Any], numbers: Sequence[float] = (), bodies: Sequence[bytes] = ()) -> bytes:
    """The bytes of one frame. Numbers are doubles, so integers are exact up to 2**53."""
    return _join(_encode(head).encode(), numbers, bodies)


def _join(head: bytes, numbers: Sequence[float], bodies: Sequence[bytes]) -> bytes:
    prefix = PREFIX.pack(MAGIC, len(head), len(numbers), sum(map(len, bodies)))
    return b"".join((prefix, head, _doubles(len(numbers)).pack(*numbers), *bodies))


def _join_one(head: bytes, body: bytes, numbers: Sequence[float] = ()) -> bytes:
    """A frame with one body. Its size comes before the other numbers."""
    size = len(body)
    prefix = PREFIX.pack(MAGIC, len(head), 1 + len(numbers), size)
    return b"".join((prefix, head, _doubles(1 + len(numbers)).pack(size, *numbers), body))


@lru_cache(maxsize=64)
def _doubles(count: int) -> struct.Struct:
    return struct.Struct(f"<{count}d")


class FrameUnpacker:
    """Assembles frames from pieces of a stream."""

    def __init__(self) -> None:
        self._gathered = bytearray()

    def feed(self, piece: bytes) -> Iterable[Frame]:
        """The frames that this piece completes.

        Raises:
            ConnectionError: These are not our frames.
        """
        if not self._gathered and len(piece) >= PREFIX.size:
            magic, head, numbers, bodies = PREFIX.unpack_from(piece)
            if magic == MAGIC and PREFIX.size + head + 8 * numbers + bodies == len(piece):
                return (_parse(piece, head, numbers),)  # the usual case, without a copy
        return self._gather(piece)

    def _gather(self, piece: bytes) -> Iterator[Frame]:
        self._gathered += piece
        while (size := _size_of(self._gathered)) is not None and len(self._gathered) >= size:
            whole = bytes(self._gathered[:size])
            del self._gathered[:size]
            _, head, numbers, _ = PREFIX.unpack_from(whole)
            yield _parse(whole, head, numbers)


class FrameReceiver:
    """Receives frames on one connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._unpacker = FrameUnpacker()
        self._complete: deque[Frame] = deque()

    def receive(self, awake_s: float = 0.0) -> Frame | None:
        """The next frame; ``None`` if the other side has closed the connection.

        Args:
            awake_s: How long to poll before sleeping. A sleeping processor takes a while to wake, and on a shared machine its
                caches are lost by then.

        Raises:
            ConnectionError: These are not our frames.
        """
        while not self._complete:
            try:
                piece = self._poll(awake_s) if awake_s else None
                if piece is None:
                    piece = self._connection.recv(CHUNK_BYTES)
            except ConnectionResetError:
                return None
            if not piece:
                return None
            self._complete.extend(self._unpacker.feed(piece))
        return self._complete.popleft()

    def _poll(self, within_s: float) -> bytes | None:
        """Poll for bytes, yielding the processor in between. ``None`` if none arrived."""
        end = time.perf_counter() + within_s
        while time.perf_counter() < end:
            try:
                return self._connection.recv(CHUNK_BYTES, socket.MSG_DONTWAIT)
            except BlockingIOError:
                os.sched_yield()
        return None


def pack_requests(requests: Sequence[Request]) -> bytes:
    """A frame of requests to answer as one batch."""
    if len(requests) == 1 and not requests[0].headers:
        (one,) = requests
        return _join_one(_head_of_one(one.content_type, one.accept), one.body)
    head = _head_of_requests([[r.content_type, r.accept, dict(r.headers)] for r in requests])
    bodies = [r.body for r in requests]
    return _join(head, [len(body) for body in bodies], bodies)


@lru_cache(maxsize=64)
def _head_of_one(content_type: str, accept: str) -> bytes:
    return _head_of_requests([[content_type, accept, {}]])


def _head_of_requests(requests: list[list[Any]]) -> bytes:
    return _encode({"requests": requests}).encode()


def requests_from(frame: Frame) -> list[Request]:
    """The inverse of :func:`pack_requests`."""
    heads = frame.head["requests"]
    if len(heads) == 1 == len(frame.numbers):  # the usual case
        ((content_type, accept, headers),) = heads
        body = bytes(frame.bodies[: int(frame.numbers[0])])
        return [Request(body=body, content_type=content_type, accept=accept, headers=dict(headers))]
    return [
        Request(body=body, content_type=content_type, accept=accept, headers=dict(headers))
        for (content_type, accept, headers), body in zip(heads, _cut(frame.bodies, frame.numbers), strict=True)
    ]


def pack_answers(answers: Sequence[Response | Exception], calls: ContainerCalls = ()) -> bytes:
    """A frame of answers, in the order of the requests.

    Args:
        answers: A response or an error for each.
        calls: The container calls that made them.
    """
    names = tuple([name for name, _, _ in calls])  # faster than a generator
    if len(answers) == 1 and isinstance(one := answers[0], Response) and not one.headers:
        numbers: list[float] = []
        for _, seconds, count in calls:
            numbers += (seconds, count)
        return _join_one(_head_of_answer(one.status, one.content_type, names), one.body, numbers)
    bodies = [answer.body if isinstance(answer, Response) else b"" for answer in answers]
    numbers = [len(body) for body in bodies]
    numbers += [number for _, seconds, count in calls for number in (seconds, count)]
    return _join(_head_of_answers([_as_json(answer) for answer in answers], names), numbers, bodies)


@lru_cache(maxsize=64)
def _head_of_answer(status: int, content_type: str, names: tuple[str, ...]) -> bytes:
    return _head_of_answers([[status, content_type, {}]], names)


def _head_of_answers(answers: list[Any], names: tuple[str, ...]) -> bytes:
    return _encode({"answers": answers, "calls": names}).encode()


def _as_json(answer: Response | Exception) -> Any:
    if isinstance(answer, Response):
        return [answer.status, answer.content_type, dict(answer.headers)]
    return failure_to_json(answer)


def answers_from(frame: Frame) -> list[Response | Exception]:
    """The inverse of :func:`pack_answers`."""
    answers: list[Response | Exception] = []
    heads = frame.head["answers"]
    if len(heads) == 1 and not isinstance(heads[0], dict) and frame.numbers:  # the usual case
        status, content_type, headers = heads[0]
        body = bytes(frame.bodies[: int(frame.numbers[0])])
        return [Response(body=body, content_type=content_type, status=status, headers=dict(headers))]
    for plain, body in zip(heads, _cut(frame.bodies, frame.numbers[: len(heads)]), strict=True):
        if isinstance(plain, dict):
            answers.append(failure_from_json(plain))
        else:
            status, content_type, headers = plain
            answers.append(Response(body=body, content_type=content_type, status=status, headers=dict(headers)))
    return answers


def calls_from(frame: Frame) -> list[tuple[str, float, int]]:
    """The container calls in a frame of answers."""
    numbers = frame.numbers[len(frame.head["answers"]) :]
    return [
        (name, seconds, int(count))
        for name, seconds, count in zip(frame.head["calls"], numbers[::2], numbers[1::2], strict=True)
    ]


def _cut(bodies: memoryview, sizes: Sequence[float]) -> Iterator[bytes]:
    start = 0
    for size in map(int, sizes):
        yield bytes(bodies[start : start + size])
        start += size


def _size_of(start: bytes | bytearray) -> int | None:
    """The size of the frame that begins here; ``None`` if more bytes are needed to know it."""
    if len(start) < PREFIX.size:
        return None
    magic, head, numbers, bodies = PREFIX.unpack_from(start)
    if magic != MAGIC or head > MOST_HEAD_BYTES or numbers > MOST_NUMBERS or bodies > MOST_BODY_BYTES:
        raise ConnectionError(f"expected a frame of a worker, found {bytes(start[: PREFIX.size])!r}")
    return PREFIX.size + int(head) + 8 * int(numbers) + int(bodies)


def _parse(whole: bytes, size: int, count: int) -> Frame:
    end = PREFIX.size + size
    head = whole[PREFIX.size : end]
    read = _loads_cached if size <= SHORT_HEAD_BYTES else json.loads
    numbers = _doubles(count)
    return Frame(read(head), numbers.unpack_from(whole, end), memoryview(whole)[end + numbers.size :])


_loads_cached = lru_cache(maxsize=64)(json.loads)
