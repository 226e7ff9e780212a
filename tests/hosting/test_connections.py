"""Bytes that are not a request, or not a complete one; clients that disconnect; logs that cannot be written.

Tests of HTTP run with the fast path and without.
"""

import http.client
import json
import os
import resource
import socket
import subprocess
import sys
from urllib.parse import urlsplit

import pytest
from tests.hosting.places import PATIENCE_S, Server, children, sample, wait

from headrace.hosting.http import fast_path


@pytest.fixture(scope="module")
def fast():
    with Server(sample("obedient"), workers=1) as running:
        yield running.ready()


@pytest.fixture(scope="module")
def plain():
    with Server(sample("obedient"), workers=1, fast_path=False) as running:
        yield running.ready()


@pytest.fixture(params=["fast", "plain"])
def server(request):
    """A server, with the fast path or without."""
    found = request.getfixturevalue(request.param)
    found.fast_path = request.param == "fast"
    return found


def connect(server):
    parts = urlsplit(server.address)
    return socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE_S)


def converse(server, *parts):
    """Everything that the server sends until it closes."""
    with connect(server) as sock:
        for part in parts:
            sock.sendall(part)
        return b"".join(iter(lambda: sock.recv(1 << 16), b""))


def refusal(answer):
    """The status of an answer with an error in JSON."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"content-type: application/json" in head.lower()
    found = json.loads(body)
    assert head.startswith(b"HTTP/1.1 %d " % found["status"])
    return found["status"]


def refusal_of_bytes(server, answer):
    """The status of the answer to bytes that are not HTTP: uvicorn's own has no JSON."""
    return refusal(answer) if server.fast_path else int(answer.split()[1])


POST = b"POST /invocations HTTP/1.1\r\nHost: x\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01 no http\r\n\r\n",
        POST + b"Content-Length: -5\r\n\r\nhi",
        POST + b"Content-Length: many\r\n\r\nhi",
        POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nhi",
        POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nhi\r\n0\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
    ],
)
def test_bytes_that_are_not_http_are_refused(server, sent):
    assert refusal_of_bytes(server, converse(server, sent)) == 400


def test_two_lengths_are_refused(fast):
    """Without the fast path, the chunks decide, as RFC 9112 allows."""
    two = POST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"
    assert refusal(converse(fast, two)) == 400


def test_a_head_without_an_end_is_refused(server):
    with connect(server) as sock:
        sock.sendall(b"GET /ping HTTP/1.1\r\nX-Long: ")
        answer = b""
        try:
            for _ in range(64):  # of 16 KiB: the server closes long before
                sock.sendall(b"a" * (16 << 10))
            answer = sock.recv(1 << 16)
        except ConnectionError:
            return  # The server closed while we were still sending.
        assert refusal_of_bytes(server, answer) == (431 if server.fast_path else 400)


def test_a_head_that_arrives_whole_is_limited_too(fast):
    long = b"X-Long: " + b"a" * 70_000 + b"\r\n"
    assert refusal(converse(fast, POST + long + b"Content-Length: 1\r\nConnection: close\r\n\r\nA")) == 431


CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("target", [POST, b"POST /nope HTTP/1.1\r\nHost: x\r\n"])
@pytest.mark.parametrize(
    ("start", "more"),
    [(b"3\r\n1,2\r\n0\r\n", b"X-A: " + b"b" * 1000 + b"\r\n"), (b"3\r\n1,2\r\n0\r\nX-A: ", b"b" * 1000), (b"3;", b"b" * 1000)],
)  # fmt: skip
def test_bytes_that_belong_to_no_body_are_limited(fast, target, start, more):
    with connect(fast) as sock:
        sock.sendall(target + CHUNKED + start)
        try:
            for _ in range(fast_path.MOST_HEAD_BYTES // len(more) * 16):  # the server closes long before
                sock.sendall(more)
            answer = b"".join(iter(lambda: sock.recv(1 << 16), b""))  # it ends only if the server closes
        except ConnectionError:
            return  # The server closed while we were still sending.
        assert refusal(answer) == 431 if target is POST else answer.startswith(b"HTTP/1.1 404 ")


def test_many_small_chunks_and_short_trailers_are_read(fast):
    pieces = [b"1\r\na\r\n" * 2000] * 40
    end = b"0\r\nX-A: b\r\n\r\n"
    answer = converse(fast, POST + b"Connection: close\r\n" + CHUNKED, *pieces, end)
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert answer.endswith(b"\r\n\r\n" + b"A" * 80_000)


def test_large_heads_within_the_limit_and_their_bodies(server):
    long = b"X-Long: " + b"a" * 40_000 + b"\r\n"
    one = POST + long + b"Content-Length: 5\r\n\r\nhello"
    last = POST + b"Connection: close\r\nContent-Length: 100000\r\n\r\n" + b"a" * 100_000
    answer = converse(server, one + one, last)
    assert answer.count(b"HTTP/1.1 200 OK") == 3
    assert answer.count(b"HELLO") == 2
    assert answer.endswith(b"A" * 100_000)


def answers(data):
    """The heads (without the date) and bodies of consecutive responses."""
    found = []
    while data:
        head, _, rest = data.partition(b"\r\n\r\n")
        named = (line.partition(b":") for line in head.split(b"\r\n"))
        lines = sorted(name.lower() + colon + value for name, colon, value in named if name.lower() != b"date")
        size = next((int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length:")), 0)
        found.append((lines, rest[:size]))
        data = rest[size:]
    return found


ASKED = [
    b"Content-Length: 5\r\n\r\nhello",
    b"Content-Length: 0\r\n\r\n",
    b"\r\n",
    b"Content-Length: 10\r\n\r\nheader yes",
    b"Content-Length: 14\r\n\r\nstatus 418 tea",
    b"Content-Length: 12\r\n\r\nstatus 204 x",
    b"Content-Length: 14\r\n\r\nstatus 999 one",
    b"Content-Length: 14\r\n\r\nrefuse 415 why",
    b"Content-Length: 9\r\n\r\nraise why",
    b"Content-Length: 7\r\n\r\nnothing",
    b"X-Amzn-SageMaker-Inference-Id:\r\nContent-Length: 2\r\n\r\nhi",
    b"Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
    b"Content-Length: 7000000\r\n\r\n" + b"a" * 7_000_000,
    b"Content-Length: 3000000\r\n\r\n" + b"a" * 3_000_000,
]


@pytest.mark.parametrize("asked", ASKED)
def test_the_fast_path_answers_as_the_application_does(fast, plain, asked):
    last = POST + b"Connection: close\r\nContent-Length: 1\r\n\r\nz"
    assert answers(converse(fast, POST + asked, last)) == answers(converse(plain, POST + asked, last))


@pytest.mark.parametrize("asked", ASKED)
def test_requests_on_one_connection_are_answered_alike(server, asked):
    last = POST + b"Connection: close\r\nContent-Length: 1\r\n\r\nz"
    (alone, end) = answers(converse(server, POST + asked, last))
    # A request that arrives before the last answer was sent does not take the fast path.
    (_, second, end_too) = answers(converse(server, POST + b"Content-Length: 5\r\n\r\nfirst" + POST + asked, last))
    assert alone == second
    assert end == end_too


@pytest.mark.parametrize("asked", ASKED)
def test_the_same_request_has_the_same_answer_again(server, asked):
    parts = urlsplit(server.address)
    kept = http.client.HTTPConnection(parts.hostname, parts.port, timeout=PATIENCE_S)
    kept.connect()
    found = []
    for _ in range(3):
        try:
            kept.sock.sendall(POST + asked)
        except ConnectionError:
            break  # The server did not read all of it.
        answer = http.client.HTTPResponse(kept.sock, method="POST")
        answer.begin()
        headers = sorted((name, value) for name, value in answer.getheaders() if name != "date")
        found.append((answer.status, headers, answer.read()))
    kept.close()
    assert found
    assert found == found[:1] * len(found)


HELLO, PING = POST + b"Content-Length: 5\r\n\r\nhello", b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n"
BROKEN = [b"XXXX", POST + b"Content-Length: x\r\n\r\n", POST + CHUNKED + b"zz\r\n"]


@pytest.mark.parametrize("broken", BROKEN)
@pytest.mark.parametrize("whole", [[HELLO], [PING], [HELLO, HELLO], [PING, HELLO, PING], [PING, PING, HELLO]])
def test_whole_requests_before_broken_ones_are_answered(fast, whole, broken):
    found = answers(converse(fast, b"".join(whole) + broken))
    assert [body for _, body in found] == [b"HELLO" if one == HELLO else b"" for one in whole]
    assert all(b"http/1.1 200 ok" in b"".join(lines).lower() for lines, _ in found)


def test_other_transfer_codings_are_refused(server):
    sent = POST + b"Connection: close\r\nTransfer-Encoding: gzip, chunked\r\n\r\n3\r\n\x1f\x8b\x08\r\n0\r\n\r\n"
    assert int(converse(server, sent).split()[1]) in (400, 501)


def test_a_client_that_reads_late_gets_every_answer(server):
    body = b"a" * 200_000
    with connect(server) as sock:
        sock.settimeout(PATIENCE_S)
        total = server.metric("headrace_requests_total")
        for _ in range(40):
            # Not before the last one is answered, so that it takes the fast path until too many bytes are unread.
            wait(lambda: server.metric("headrace_requests_in_flight") == 0)
            sock.sendall(POST + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        got = bytearray()
        while got.count(b"A") < 40 * len(body):
            part = sock.recv(1 << 20)
            assert part
            got += part
        assert server.metric("headrace_requests_total") == total + 40


@pytest.mark.parametrize("fast_path", [True, False])
def test_a_body_that_never_comes_is_refused(fast_path):
    with Server(sample("obedient"), workers=1, timeout_s=0.1, fast_path=fast_path) as server:
        server.ready()
        with connect(server) as sock:
            sock.sendall(POST + b"Content-Length: 4\r\nConnection: close\r\n\r\nab")
            assert refusal(b"".join(iter(lambda: sock.recv(1 << 16), b""))) == 408


@pytest.mark.parametrize("method", ["OPTIONS", "PUT", "DELETE", "GET"])
def test_other_methods(server, method):
    answer = converse(server, f"{method} /invocations HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    assert refusal(answer) == 405
    assert b"allow: POST" in answer


def test_odd_but_sound_requests(server):
    close = b"Connection: close\r\n"
    head = converse(server, b"HEAD /ping HTTP/1.1\r\nHost: x\r\n" + close + b"\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK")
    assert head.endswith(b"\r\n\r\n")
    chunked = POST + close + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"
    assert converse(server, chunked).endswith(b"HELLO")
    waited = converse(server, POST + close + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n", b"hi")
    assert waited.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK")
    assert refusal(converse(server, POST.replace(b"invocations", b"invocations/") + close + b"\r\n")) == 404
    upgrade = b"GET /ping HTTP/1.1\r\nHost: x\r\nConnection: upgrade, close\r\nUpgrade: websocket\r\n\r\n"
    assert converse(server, upgrade).startswith(b"HTTP/1.1 200 OK")


def test_silent_connections_are_closed(monkeypatch):
    asked = []

    class Base:
        cycle = None
        get_extra_info = {}.get

        def __init__(self):
            self.loop, self.transport, self.now = self, self, 0.0
            self.time = lambda: self.now

        def call_later(self, seconds, call):
            asked.append((seconds, call))
            return self

        def cancel(self):
            asked.clear()

        def is_closing(self):
            return False

        def write(self, data):
            asked.append(data)

        def close(self):
            asked.append("closed")

        def connection_made(self, transport):
            pass

        def data_received(self, data):
            pass

    connection = type("Tested", (fast_path._Connection, Base), {})()
    connection.connection_made(connection)
    ((seconds, give_up),) = asked
    assert seconds == fast_path.KEEP_ALIVE_S
    connection.now += seconds
    give_up()
    assert asked[1:] == ["closed"]  # no request, no response
    connection.data_received(b"GET /pi")
    connection.now += seconds
    asked[-1][1]()
    assert refusal(asked[-2]) == 408
    assert asked[-1] == "closed"


@pytest.mark.parametrize("fast_path", [True, False])
def test_requests_whose_clients_have_disconnected_are_dropped(fast_path):
    with Server(sample("gate"), workers=1, fast_path=fast_path) as server:
        server.ready()
        clients = [connect(server) for _ in range(10)]
        for client in clients:
            client.sendall(POST + b"Content-Length: 1\r\n\r\nx")
        wait(lambda: server.metric("headrace_requests_in_flight") == 10)
        for client in clients:
            client.close()
        wait(lambda: server.metric("headrace_requests_in_flight") == 0)
        assert server.metric('headrace_requests_total{status="499"}') == 10
        assert server.metric("headrace_requests_waiting") == 0


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts in /proc")
def test_nothing_grows_with_the_requests(server):
    parts = urlsplit(server.address)

    def ask(count):
        kept = http.client.HTTPConnection(parts.hostname, parts.port, timeout=PATIENCE_S)
        for _ in range(count):
            kept.request("POST", "/invocations", b"hello", {"Content-Type": "text/csv"})
            assert kept.getresponse().read() == b"HELLO"
        kept.close()

    def used():
        pids = [server.process.pid, *children(server.process.pid)]
        return [(len(os.listdir(f"/proc/{pid}/fd")), resident(pid)) for pid in pids]

    def resident(pid):
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()

    ask(500)
    before = used()
    ask(2000)
    for (files, memory), (files_now, memory_now) in zip(before, used(), strict=True):
        assert files_now <= files + 2
        assert memory_now <= memory + (4 << 20)


def test_a_log_that_cannot_be_written_fails_no_request(tmp_path):
    script = tmp_path / "noisy.py"
    script.write_text(
        "def model_fn(model_dir):\n    return 1\n"
        "def transform_fn(model, body, content_type, accept):\n"
        "    print('x' * 10_000, flush=True)\n"
        "    if body == 'fail':\n        raise ValueError('y' * 10_000)\n"
        "    return 'fine', 'text/plain'\n"
    )
    code = (
        "import resource, sys\n"
        # In the processes of the endpoint a write fails, as on a full disk; not in this one, which may record its coverage.
        "limits = resource.getrlimit(resource.RLIMIT_FSIZE)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))\n"
        "from headrace.hosting import ModelError, Settings, create_endpoint, script_stage\n"
        "stage = script_stage(sys.argv[1], entry_point=sys.argv[2])\n"
        "endpoint = create_endpoint('full', [stage], settings=Settings(port=0, workers=1))\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, limits)\n"
        "for _ in range(10):\n"
        "    assert endpoint.invoke('1', content_type='text/csv').body == b'fine'\n"
        "for _ in range(3):\n"
        "    try:\n        endpoint.invoke('fail', content_type='text/csv')\n"
        "    except ModelError as error:\n        assert error.original_status == 500\n"
        "print(endpoint.status)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path, script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("InService\n", "")


UPGRADE = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n"


@pytest.mark.parametrize("framing", ["length", "chunks"])
@pytest.mark.parametrize("cuts", ["whole", "head", "bytes"])
def test_a_request_for_another_protocol_is_answered_in_this_one(server, framing, cuts):
    """With its body, which must not be read as a request: HTTP/2 clients send such requests."""
    body = b"GET /ping HTTP/1.1\r\n\r\n"
    head = POST + UPGRADE
    if framing == "length":
        request = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    else:
        request = head + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    ping = b"GET /ping HTTP/1.1\r\nHost: x\r\n" + UPGRADE + b"\r\n"
    last = request.replace(b"Connection: Upgrade", b"Connection: close, Upgrade")
    sent = request + request + ping + last
    at = sent.index(b"\r\n\r\n") + 4
    parts = {"whole": [sent], "head": [sent[:at], sent[at:]], "bytes": [sent[n : n + 1] for n in range(len(sent))]}
    answers = converse(server, *parts[cuts])
    assert answers.count(b"HTTP/1.1 200 OK\r\n") == 4, answers
    assert answers.count(b"GET /PING HTTP/1.1\r\n\r\n") == 3, answers
