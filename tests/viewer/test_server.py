"""The viewer as a real server: addresses, frames of notebooks, many datasets, and its end."""

import http.client
import re
import socket
import urllib.request
from urllib.parse import urlsplit

import numpy as np
import pytest

import headrace as hr
from headrace.hosting.http.server import bind
from headrace.hosting.settings import Settings
from headrace.viewer.server import _hosts, run_viewer


def _get(url):
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.status, answer.read().decode()


def test_a_source_in_a_notebook(shown_file):
    shown = hr.view(hr.open(shown_file))
    try:
        assert re.fullmatch(r"http://localhost:\d+/[\w-]{40,}/", shown.url)
        status, text = _get(shown.url)
        assert status == 200
        assert "example 0" in text
        frame = shown._repr_html_()
        assert f'<iframe src="{shown.url}"' in frame
        assert "<script" not in frame
        assert _get(f"{shown.url}0/?row=7&format=json")[0] == 200
    finally:
        shown.close()
    with pytest.raises(OSError):
        _get(shown.url)


def test_paths_for_a_browser(shown_file):
    shown = hr.view(shown_file, str(shown_file), embedded=False)
    try:
        assert "?token=" in shown.url
        parts = urlsplit(shown.url)
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
        connection.request("GET", "/0/")
        assert connection.getresponse().status == 403
        connection.close()
        assert "set-cookie" in {k.lower() for k in urllib.request.urlopen(shown.url, timeout=60).headers}
    finally:
        shown.close()


def test_only_this_machine_is_asked():
    shown = hr.view(hr.ColumnSource({"x": np.arange(3)}), embedded=False)
    try:
        assert shown._socket.getsockname()[0] == "127.0.0.1"
    finally:
        shown.close()
    assert _hosts("127.0.0.1", 5) == {"127.0.0.1:5", "localhost:5", "[::1]:5"}
    assert "10.1.2.3:5" in _hosts("10.1.2.3", 5)
    assert f"{socket.gethostname()}:5" in _hosts("0.0.0.0", 5)


def test_a_port_that_is_taken():
    with bind(Settings(port=0)) as sock, pytest.raises(OSError, match=r"cannot listen on 127.0.0.1:\d+"):
        run_viewer([], port=sock.getsockname()[1], browser=False)


def test_what_cannot_be_viewed():
    with pytest.raises(hr.UnsupportedData, match="sources or paths to view"):
        hr.view(3)
    with pytest.raises(hr.NoFiles):
        hr.view("/nowhere/at/all.tfrecord")


def test_arrays_are_viewed_as_sources():
    shown = hr.view(hr.ColumnSource({"x": np.arange(3)}))
    try:
        assert "3 examples" in _get(shown.url)[1]
    finally:
        shown.close()


@pytest.mark.parametrize(
    "make",
    [
        lambda: {"x": np.arange(3)},
        lambda: [{"x": number} for number in range(3)],
        lambda: ({"x": number} for number in range(3)),
        lambda: np.arange(3),
        lambda: pytest.importorskip("pandas").DataFrame({"x": [1, 2, 3]}),
        lambda: pytest.importorskip("pyarrow").table({"x": [1, 2, 3]}),
        lambda: hr.Mixture({hr.ColumnSource({"x": np.arange(3)}): 1}),
        lambda: {"train": hr.ColumnSource({"x": np.arange(3)})},
    ],
)
def test_what_is_accepted_as_a_source_is_viewed(make):
    shown = hr.view(make())
    try:
        assert "3 examples" in _get(shown.url)[1]
    finally:
        shown.close()


def _answer(shown, head):
    """The status that a server gives to the head of a request; 0 if it ends the connection."""
    parts = urlsplit(shown.url)
    with socket.create_connection((parts.hostname, parts.port), timeout=60) as connection:
        try:
            connection.sendall(head)
            first = connection.makefile("rb").readline()
        except ConnectionError:
            return 0
    return int(first.split()[1]) if first else 0


def test_heads_of_requests_are_bounded(shown_file):
    shown = hr.view(shown_file, embedded=False)
    try:
        host = f"Host: {urlsplit(shown.url).netloc}\r\n".encode()
        flood = b"".join(b"X-%d: %s\r\n" % (number, b"a" * 1000) for number in range(2000))
        for head in (
            b"GET / HTTP/1.1\r\n" + host + flood + b"\r\n",
            b"GET / HTTP/1.1\r\n" + host + b"X: " + b"a" * 2_000_000 + b"\r\n\r\n",
            b"GET /?" + b"a" * 2_000_000 + b" HTTP/1.1\r\n" + host + b"\r\n",
            bytes(range(256)),
        ):
            assert _answer(shown, head) in (0, 400, 431)
        assert _answer(shown, b"GET / HTTP/1.1\r\n" + host + host + b"\r\n") in (400, 421)
        assert _answer(shown, b"GET / HTTP/1.1\r\nHost: evil.example\r\n" + host + b"\r\n") in (400, 421)
        assert _answer(shown, b"GET / HTTP/1.1\r\n" + host + b"\r\n") == 403
    finally:
        shown.close()
