"""Bytes arrive complete and in order, whether the system accepts them at once or not; timers call when they should."""

import asyncio
import socket
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.hosting.http.transport import RequestTimer, send, socket_descriptor

uvloop = pytest.importorskip("uvloop")


class Connection(asyncio.Protocol):
    """Records when it has ended."""

    def __init__(self):
        self.lost = asyncio.get_running_loop().create_future()

    def connection_lost(self, exc):
        self.lost.set_result(exc)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
@pytest.mark.parametrize("sizes", [[1], [3, 0, 5], [5_000_000, 1, 3_000_000]])
def test_everything_arrives_in_order(run, sizes):
    parts = [bytes([65 + place]) * size for place, size in enumerate(sizes)]
    ours, theirs = socket.socketpair()
    got = bytearray()

    def read():
        while part := theirs.recv(1 << 16):
            got.extend(part)

    async def write():
        transport, connection = await asyncio.get_running_loop().create_connection(Connection, sock=ours)
        for part in parts:
            send(transport, socket_descriptor(transport), part)
        transport.close()
        await connection.lost

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    run(write())
    reader.join(120)
    theirs.close()
    assert got == b"".join(parts)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_the_transport_learns_of_a_broken_connection(run):
    async def write():
        ours, theirs = socket.socketpair()
        transport, connection = await asyncio.get_running_loop().create_connection(Connection, sock=ours)
        theirs.close()
        send(transport, socket_descriptor(transport), b"to nobody")
        await asyncio.wait_for(connection.lost, 120)

    run(write())


def test_transports_without_a_socket_write_by_themselves():
    written = []

    class Transport(asyncio.Transport):
        def write(self, data):
            written.append(data)

    transport = Transport()
    send(transport, socket_descriptor(transport), b"x")
    assert written == [b"x"]


class Loop:
    """A loop whose time the test advances."""

    def __init__(self):
        self.now, self.timers = 0.0, []

    def time(self):
        return self.now

    def call_later(self, seconds, call):
        timer = LoopTimer(self.now + seconds, call, self.timers)
        self.timers.append(timer)
        return timer

    def advance(self, seconds):
        end = self.now + seconds
        while due := [timer for timer in self.timers if timer.at <= end]:
            first = min(due, key=lambda timer: timer.at)
            self.timers.remove(first)
            self.now = max(self.now, first.at)
            first.call()
        self.now = end


class LoopTimer:
    def __init__(self, at, call, timers):
        self.at, self.call, self._timers = at, call, timers

    def cancel(self):
        self._timers.remove(self)


@given(st.lists(st.tuples(st.sampled_from(["start", "stop", "close"]), st.integers(0, 7))))
def test_a_timer_calls_as_one_of_the_loop_would(steps):
    loop, called, expected, since = Loop(), [], [], None
    timer = RequestTimer(loop, 4.0, lambda: called.append(loop.now))
    for step, seconds in [*steps, ("stop", 0)]:
        getattr(timer, step)()
        since = loop.now if step == "start" else None
        assert timer.is_running == (since is not None)
        if since is not None and seconds >= 4:
            expected.append(since + 4.0)
        loop.advance(seconds)
        assert len(loop.timers) <= 1
    assert called == expected


def test_a_closed_timer_leaves_nothing_in_the_loop():
    loop = Loop()
    timer = RequestTimer(loop, 4.0, lambda: None)
    timer.start()
    timer.close()
    timer.close()
    assert loop.timers == []
