"""What is sent arrives whole and in order, whether the system takes it at once or not."""

import asyncio
import socket
import threading

import pytest

from headrace.hosting.http.timing import descriptor_of, send

uvloop = pytest.importorskip("uvloop")


class Connection(asyncio.Protocol):
    """Knows when it is over."""

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
            send(transport, descriptor_of(transport), part)
        transport.close()
        await connection.lost

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    run(write())
    reader.join(120)
    theirs.close()
    assert got == b"".join(parts)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_the_transport_is_told_of_a_connection_that_is_broken(run):
    async def write():
        ours, theirs = socket.socketpair()
        transport, connection = await asyncio.get_running_loop().create_connection(Connection, sock=ours)
        theirs.close()
        send(transport, descriptor_of(transport), b"to nobody")
        await asyncio.wait_for(connection.lost, 120)

    run(write())


def test_transports_without_a_socket_write_by_themselves():
    written = []

    class Transport(asyncio.Transport):
        def write(self, data):
            written.append(data)

    transport = Transport()
    send(transport, descriptor_of(transport), b"x")
    assert written == [b"x"]
