"""Frames arrive unchanged, however the stream is cut, and anything else is refused."""

import itertools
import socket
import threading
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.serving import Request, Response
from headrace.errors import RequestError
from headrace.hosting.failures import ContainerError
from headrace.hosting.workers import frames
from headrace.hosting.workers.frames import (
    PREFIX,
    FrameReceiver,
    FrameUnpacker,
    answers_from,
    calls_from,
    pack,
    pack_answers,
    pack_requests,
    requests_from,
)

TEXT = st.text(max_size=20)
HEADERS = st.dictionaries(TEXT, TEXT, max_size=3)
REQUESTS = st.builds(Request, body=st.binary(max_size=50), content_type=TEXT, accept=TEXT, headers=HEADERS)
RESPONSES = st.builds(
    Response, body=st.binary(max_size=50), content_type=TEXT, status=st.integers(200, 599), headers=HEADERS
)
REFUSED = st.builds(RequestError, st.integers(400, 599), TEXT, container=st.none() | TEXT)
FAILED = st.builds(ContainerError, TEXT, TEXT, trace=TEXT, container=st.none() | TEXT)


def cut(blob, sizes):
    while blob:
        size = sizes.pop() if sizes else len(blob)
        yield blob[:size]
        blob = blob[size:]


def unpack(blob, sizes=()):
    unpacker = FrameUnpacker()
    return [message for part in cut(blob, list(sizes)) for message in unpacker.feed(part)]


@given(st.lists(st.lists(REQUESTS, max_size=4), max_size=3), st.lists(st.integers(1, 40)))
def test_requests_survive_packing(batches, sizes):
    blob = b"".join(map(pack_requests, batches))
    assert [requests_from(message) for message in unpack(blob, sizes)] == batches


@given(REQUESTS, RESPONSES, st.lists(st.tuples(TEXT, st.floats(0, 9), st.integers(1, 9)), max_size=3))
def test_one_is_worded_like_several(request, answer, calls):
    asked = {"requests": [[request.content_type, request.accept, request.headers]]}
    assert pack_requests([request]) == pack(asked, [len(request.body)], [request.body])
    reported = {
        "answers": [[answer.status, answer.content_type, answer.headers]],
        "calls": [name for name, _, _ in calls],
    }
    numbers = [len(answer.body), *(number for _, seconds, count in calls for number in (seconds, count))]
    assert pack_answers([answer], calls) == pack(reported, numbers, [answer.body])


@given(st.lists(RESPONSES | REFUSED | FAILED, max_size=5), st.lists(st.integers(1, 40)))
def test_answers_survive_packing(answers, sizes):
    (message,) = unpack(pack_answers(answers, [("a", 0.5, 2)]), sizes)
    found = answers_from(message)
    for sent, got in zip(answers, found, strict=True):
        if isinstance(sent, Response):
            assert got == sent
        else:
            assert type(got) is type(sent)
            assert vars(got) == vars(sent)
    assert calls_from(message) == [("a", 0.5, 2)]


def test_every_truncation_is_waited_for_and_then_an_end():
    blob = pack_requests([Request(body=b"body", content_type="a/b")])
    for size in range(len(blob)):
        assert unpack(blob[:size]) == []
        ours, theirs = socket.socketpair()
        with ours, theirs:
            theirs.sendall(blob[:size])
            theirs.close()
            assert FrameReceiver(ours).receive() is None


@pytest.mark.parametrize(
    "blob",
    [
        b"Traceback (most recent call last)",
        PREFIX.pack(b"PNS2", 1 << 31, 0, 0),
        PREFIX.pack(b"PNS2", 2, 1 << 31, 0),
        PREFIX.pack(b"PNS2", 2, 0, 1 << 62),
    ],
)
def test_invalid_messages_are_refused(blob):
    with pytest.raises(ConnectionError, match="expected a frame"):
        unpack(blob)


def test_receive_takes_one_message_at_a_time():
    ours, theirs = socket.socketpair()
    bodies = [b"x" * (1 << 20), b"", b"y"]
    blob = b"".join(pack({"n": number}, (), [body]) for number, body in enumerate(bodies))
    sender = threading.Thread(target=theirs.sendall, args=(blob,))
    with ours, theirs:
        sender.start()
        receiver = FrameReceiver(ours)
        for number, body in enumerate(bodies):
            message = receiver.receive()
            assert (message.head["n"], bytes(message.bodies)) == (number, body)
        sender.join()


@pytest.mark.parametrize("awake_s", [0.0, 1e-6, 10.0])
def test_a_receiver_that_polls_gets_the_same(awake_s):
    ours, theirs = socket.socketpair()
    bodies = [b"a", b"b" * 200_000, b""]  # the second comes in pieces
    wanted = threading.Semaphore(0)

    def send():
        with theirs:
            for body in bodies:
                wanted.acquire()
                theirs.sendall(pack({"n": len(body)}, (), [body]))

    sender = threading.Thread(target=send)
    sender.start()
    with ours:
        receiver = FrameReceiver(ours)
        for body in bodies:
            wanted.release()
            frame = receiver.receive(awake_s)
            assert (frame.head["n"], bytes(frame.bodies)) == (len(body), body)
        assert receiver.receive(awake_s) is None
    sender.join()


class ScriptedConnection:
    """Returns prepared results; notes which calls would have waited."""

    def __init__(self, *results):
        self.results, self.waited = list(results), []

    def recv(self, size, flags=0):
        self.waited.append(flags == 0)
        result = self.results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result


@pytest.mark.parametrize(("empty_polls", "waited"), [(0, [False]), (1, [False, False]), (2, [False, False, True])])
def test_polling_ends_after_its_time(monkeypatch, empty_polls, waited):
    ticks = itertools.count()
    monkeypatch.setattr(frames, "time", SimpleNamespace(perf_counter=lambda: next(ticks)))
    connection = ScriptedConnection(*[BlockingIOError()] * empty_polls, pack({"n": 1}))
    assert FrameReceiver(connection).receive(2.5).head == {"n": 1}
    assert connection.waited == waited
