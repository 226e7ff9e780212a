"""The client of an endpoint, and errors that go from one process to another."""

import io
import multiprocessing
import pickle
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from headrace.hosting.client import Client, ModelError
from headrace.hosting.failures import ContainerError
from headrace.hosting.workers import process


@pytest.mark.parametrize(
    "error",
    [ModelError(500, "why", container="second"), ContainerError("KeyError", "'x'", trace="a trace", container="first")],
)
def test_errors_survive_pickling(error):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (str(again), vars(again)) == (str(error), vars(error))


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def answer_with(server, answer):
    def run():
        connection, _ = server.accept()
        with connection:
            connection.recv(1 << 16)
            connection.sendall(answer)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


class Echo(BaseHTTPRequestHandler):
    """Answers with the body, and in a header with the client's port, which tells its connections apart."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Amzn-SageMaker-Custom-Attributes", str(self.client_address[1]))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def echo():
    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
def test_a_forked_process_uses_connections_of_its_own(echo):
    client = Client(echo)
    own = client.invoke(b"warm").custom_attributes
    context = multiprocessing.get_context("fork")
    answers = context.Queue()

    def ask():
        first, second = client.invoke(b"first"), client.invoke(b"second")
        answers.put((first.body, second.body, first.custom_attributes, second.custom_attributes))

    child = context.Process(target=ask)
    child.start()
    first, second, port, again = answers.get(timeout=30)
    child.join()
    assert (first, second) == (b"first", b"second")
    assert port == again != own
    assert client.invoke(b"here").custom_attributes == own  # which the child did not close


def test_a_client_with_open_connections_can_be_pickled(echo):
    client = Client(echo)
    client.invoke(b"warm")
    assert pickle.loads(pickle.dumps(client)).invoke(b"1").body == b"1"


@pytest.mark.parametrize(
    "body", ["é", "é".encode(), bytearray("é".encode()), io.BytesIO("é".encode()), io.StringIO("é")]
)
def test_bodies(echo, body):
    assert Client(echo).invoke(body).body == "é".encode()


@pytest.mark.parametrize("body", [5, [1, 2, 3], [300], {"a": 1}, None])
def test_bodies_that_are_none(echo, body):
    with pytest.raises(TypeError, match=f"open file, got {type(body).__name__}: .* serializer"):
        Client(echo).invoke(body)


def test_values_that_no_request_can_have(echo):
    with pytest.raises(ValueError, match="timeout_s must be above 0, got 0"):
        Client(echo).invoke(b"1", timeout_s=0)
    with pytest.raises(ValueError, match=r"Custom-Attributes holds the character '\\u20ac' at 2"):
        Client(echo).invoke(b"1", custom_attributes="5 \u20ac")


def test_a_server_that_is_no_endpoint(listener):
    thread = answer_with(listener, b"220 mail.example ready\r\n")
    with pytest.raises(ConnectionError, match="is not an endpoint"):
        Client(f"http://127.0.0.1:{listener.getsockname()[1]}").invoke(b"1")
    thread.join()


def test_an_endpoint_that_does_not_answer_in_time(listener):
    client = Client(f"http://127.0.0.1:{listener.getsockname()[1]}")
    with pytest.raises(ModelError, match="timed out") as error:
        client.invoke(b"1", timeout_s=0.05)
    assert error.value.original_status == 0


@pytest.mark.parametrize(
    "address", ["https://127.0.0.1:80", "http://:80", "http://host", "host:80", "http://host:port", "http://host:70000"]
)
def test_addresses_that_are_none(address):
    with pytest.raises(ValueError, match="http://host:port"):
        Client(address)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_output_that_cannot_be_written_is_dropped(monkeypatch):
    with open("/dev/full", "w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stdout", full)
        monkeypatch.setattr(sys, "stderr", None)
        process.ignore_output_errors()
        print("lost")
        sys.stdout.flush()
        assert sys.stderr is None
        monkeypatch.undo()
