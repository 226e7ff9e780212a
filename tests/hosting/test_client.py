"""The client of an endpoint, and errors that go from one process to another."""

import pickle
import socket
import sys
import threading
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
