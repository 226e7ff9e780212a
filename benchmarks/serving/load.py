"""Many connections from one thread: each sends its next request after the answer, and every answer is checked."""

from __future__ import annotations

import resource
import selectors
import socket
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

SILENCE_S = 120.0


@dataclass(slots=True)
class Outcome:
    """The outcome of a load."""

    latencies_s: list[float] = field(default_factory=list)
    statuses: Counter = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    lost: int = 0
    seconds: float = 0.0
    own_cpu_s: float = 0.0
    loop_s: list[float] = field(default_factory=list)
    """Calls of the chain without a server, timed in between."""

    def add(self, other):
        """Add the outcome of more of the same load."""
        self.latencies_s += other.latencies_s
        self.statuses += other.statuses
        self.wrong += other.wrong
        self.lost += other.lost
        self.seconds += other.seconds
        self.own_cpu_s += other.own_cpu_s
        self.loop_s += other.loop_s

    @property
    def per_second(self):
        return self.statuses[200] / self.seconds

    def quantile_ms(self, share):
        ordered = sorted(self.latencies_s)
        return 1e3 * ordered[min(int(share * len(ordered)), len(ordered) - 1)]


@dataclass(slots=True)
class _Connection:
    socket: socket.socket
    asked: int = -1
    since: float = 0.0
    gathered: bytes = b""


class Load:
    """A load on one address.

    Args:
        address: ``http://host:port/path``.
        questions: Bodies, asked in turn.
        content_type: What they are.
        check: Whether the body of a 200 is the right answer to a question: ``check(number, body)``.
        on_answer: Called after every answer with the number of answers so far.
    """

    def __init__(
        self,
        address: str,
        questions: Sequence[bytes],
        content_type: str,
        check: Callable[[int, bytes], bool],
        on_answer: Callable[[int], None] | None = None,
    ) -> None:
        parts = urlsplit(address)
        self._place = (parts.hostname, parts.port)
        self._check, self._on_answer = check, on_answer
        self._requests = [
            f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: {content_type}\r\n"
            f"Accept: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
            for body in questions
        ]

    def run(self, connections: int, *, most: int | None = None, seconds: float | None = None) -> Outcome:
        """Send requests until there are ``most`` answers, or ``seconds`` have passed."""
        outcome = Outcome()
        cpu, start = _cpu_s(), time.perf_counter()
        end = start + (seconds if seconds is not None else float("inf"))
        asked = 0
        with selectors.DefaultSelector() as selector:
            for _ in range(connections):
                opened = socket.create_connection(self._place, timeout=SILENCE_S)
                opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection = _Connection(opened)
                selector.register(opened, selectors.EVENT_READ, connection)
                self._ask(connection, asked)
                asked += 1
            while selector.get_map():
                ready = selector.select(SILENCE_S)
                if not ready:
                    raise TimeoutError(f"no answer for {SILENCE_S:g} s; so far {dict(outcome.statuses)}")
                for key, _ in ready:
                    connection = key.data
                    if not self._read(connection, outcome):
                        continue
                    if connection.asked >= 0 and (most is None or asked < most) and time.perf_counter() < end:
                        self._ask(connection, asked)
                        asked += 1
                    else:
                        selector.unregister(connection.socket)
                        connection.socket.close()
        outcome.seconds = time.perf_counter() - start
        outcome.own_cpu_s = _cpu_s() - cpu
        return outcome

    def _ask(self, connection, number):
        connection.asked, connection.since, connection.gathered = number, time.perf_counter(), b""
        connection.socket.sendall(self._requests[number % len(self._requests)])

    def _read(self, connection, outcome):
        """Receive data; returns whether the request is complete."""
        try:
            part = connection.socket.recv(1 << 16)
        except ConnectionError:
            part = b""
        if not part:
            outcome.lost += 1
            connection.asked = -1
            return True
        connection.gathered += part
        head, found, body = connection.gathered.partition(b"\r\n\r\n")
        if not found or len(body) < _length(head):
            return False
        outcome.latencies_s.append(time.perf_counter() - connection.since)
        status = int(head[9:12])
        outcome.statuses[status] += 1
        number = connection.asked % len(self._requests)
        if status == 200 and not self._check(number, body):
            outcome.wrong.append(f"question {number}: {body[:200]!r}")
        if self._on_answer is not None:
            self._on_answer(outcome.statuses.total())
        return True


def _length(head):
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    raise ValueError(f"an answer without a length: {head!r}")


def _cpu_s():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
