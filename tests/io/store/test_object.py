"""Files behind URLs: requests, responses, and every failure."""

import multiprocessing
import os
import pickle
import re
import subprocess
import sys
import threading
import time
import traceback
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler
from urllib.parse import urlsplit

import numpy as np
import pytest
from tests.io.file_server import serving
from tests.io.store_server import environment, serving_store
from tests.local_server import LocalServer

import headrace as hr
from headrace.errors import CorruptFile, NoFiles, Unreachable, UnsupportedData
from headrace.io.cache.mirror import copy_to_cache, find_copy
from headrace.io.local.fileset import FileSet
from headrace.io.local.open import read_each, total_size
from headrace.io.paths import expand
from headrace.io.store import client, object, requests
from headrace.io.store.object import RemoteFile, fetch_extents, sparse_views
from headrace.io.store.stream import RemoteStream
from headrace.io.urls import Url

CONTENT = bytes(np.random.default_rng(0).integers(0, 256, 1 << 20, dtype=np.uint8))


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "x.bin").write_bytes(CONTENT)
    (folder / "empty.bin").write_bytes(b"")
    with serving(folder) as server:
        yield server


def test_the_first_look_is_one_request_and_brings_the_size(server):
    file = RemoteFile(f"{server.url}/x.bin")
    with server.counting() as asked:
        assert file.size == len(CONTENT)
        assert file.head == CONTENT[:4096]
        assert file.read(10, 20) == CONTENT[10:30]
        assert file.signature.size == len(CONTENT)
    assert [request[2] for request in asked] == ["bytes=0-4095"]


def test_ranges_are_those_of_the_file(server):
    file = RemoteFile(f"{server.url}/x.bin")
    ranges = [(5000, 10), (900_000, 7), (0, 3), (5005, 100), (len(CONTENT) - 4, 100), (77_777, 0), (2 << 20, 5)]
    assert [bytes(view) for view in file.read_many(ranges)] == [CONTENT[a : a + n] for a, n in ranges]


def test_near_ranges_are_one_request_and_far_ones_are_fetched_at_once(server):
    file = RemoteFile(f"{server.url}/x.bin").known()
    together = threading.Barrier(3, timeout=300)
    near = [(10_000 + 5000 * number, 100) for number in range(10)]
    with server.counting() as asked:
        file.read_many(near)
    assert len(asked) == 1

    def wait(_handler):
        together.wait()
        return False

    server.fault = wait  # If the three were requested in sequence, the first would wait forever.
    far = file.read_many([(10_000, 5), (300_000, 5), (900_000, 5)])
    assert [bytes(view) for view in far] == [CONTENT[a : a + 5] for a in (10_000, 300_000, 900_000)]


def test_joined_ranges_are_bounded(server, monkeypatch):
    monkeypatch.setattr(object, "MOST_JOINED_BYTES", 50_000)
    file = RemoteFile(f"{server.url}/x.bin").known()
    with server.counting() as asked:
        file.read_many([(start, 10_000) for start in range(10_000, 200_000, 10_000)])
    assert len(asked) == 4


def test_overlapping_and_equal_ranges(server):
    file = RemoteFile(f"{server.url}/x.bin").known()
    offsets = np.array([9000, 9000, 8000, 9500], np.int64)
    sizes = np.array([10, 2000, 5000, 1], np.int64)
    pieces, which, starts = fetch_extents([file], np.zeros(4, np.int32), offsets, sizes)
    assert len(pieces) == 1
    for piece, start, offset, size in zip(which, starts, offsets, sizes, strict=True):
        assert pieces[piece][start : start + size] == CONTENT[offset : offset + size]


def test_a_stream_begins_small_and_is_the_file(server):
    with server.counting() as asked:
        parts = list(RemoteStream(RemoteFile(f"{server.url}/x.bin")))
    assert b"".join(parts) == CONTENT
    assert asked[1][2] == f"bytes=0-{(256 << 10) - 1}"


def test_an_abandoned_stream_makes_no_more_requests(server):
    parts = RemoteStream(RemoteFile(f"{server.url}/x.bin")).parts()
    with server.counting() as asked:
        next(parts)
        parts.close()
    assert len(asked) == 1  # besides the first request


def test_an_empty_file(server):
    file = RemoteFile(f"{server.url}/empty.bin")
    assert (file.size, file.head, bytes(file.read(0, 10)), list(RemoteStream(file))) == (0, b"", b"", [])
    assert copy_to_cache(file).size == 0


def test_the_copy_in_the_cache_is_made_once(server):
    file = RemoteFile(f"{server.url}/x.bin")
    assert find_copy(file) is None
    assert copy_to_cache(file).buffer == CONTENT
    with server.counting() as asked:
        assert copy_to_cache(file).buffer == CONTENT
    assert not asked
    (server.root / "x.bin").write_bytes(CONTENT[::-1])
    assert copy_to_cache(RemoteFile(f"{server.url}/x.bin")).buffer == CONTENT[::-1]


def test_a_copy_that_does_not_fit_is_refused(server, monkeypatch):
    monkeypatch.setenv("HEADRACE_CACHE_LIMIT", "1000")
    with pytest.raises(UnsupportedData, match="HEADRACE_CACHE_LIMIT"):
        copy_to_cache(RemoteFile(f"{server.url}/x.bin"))
    assert not list((server.root.parent / "cache" / "inflated").iterdir())


def test_a_server_without_ranges_is_read_whole(server):
    server.has_ranges = False
    file = RemoteFile(f"{server.url}/x.bin")
    assert not file.known().has_ranges
    assert file.head == CONTENT[:4096]
    assert [bytes(view) for view in file.read_many([(5000, 10), (900_000, 7)])] == [
        CONTENT[5000:5010],
        CONTENT[900_000:900_007],
    ]
    assert b"".join(RemoteStream(file)) == CONTENT
    assert sparse_views([(file, [5000], [10])])[0].read(5000, 10) == CONTENT[5000:5010]


def test_windows_hold_what_was_fetched_at_its_place(server):
    file = RemoteFile(f"{server.url}/x.bin")
    with server.counting() as asked:
        window = sparse_views([(file, [5000, 900_000], [10, 7])])[0]
    assert (window.size, len(asked)) == (len(CONTENT), 3)
    assert window.read(5000, 10) == CONTENT[5000:5010]
    assert window.read_many([(900_000, 7)]) == [CONTENT[900_000:900_007]]


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [(404, NoFiles, "404"), (403, Unreachable, "403"), (401, Unreachable, "401"), (410, Unreachable, "410")],
)
def test_refusals(server, status, kind, words):
    def refuse(handler):
        handler.give(status)
        return True

    server.fault = refuse
    with pytest.raises(kind, match=words) as found:
        _ = RemoteFile(f"{server.url}/x.bin").size
    assert found.value.where.path == f"{server.url}/x.bin"


def test_server_errors_are_retried(server):
    left = [2]

    def fail(handler):
        left[0] -= 1
        if left[0] >= 0:
            handler.give(500 + 3 * left[0])
            return True
        return False

    server.fault = fail
    assert RemoteFile(f"{server.url}/x.bin").size == len(CONTENT)


def test_a_server_that_only_fails(server, monkeypatch):
    monkeypatch.setattr(client, "RETRIES", 1)

    def fail(handler):
        handler.give(503)
        return True

    server.fault = fail
    with pytest.raises(Unreachable, match="503"):
        _ = RemoteFile(f"{server.url}/x.bin").size


def test_bodies_that_break_off(server):
    file = RemoteFile(f"{server.url}/x.bin").known()
    left = [1]

    def cut(handler):
        left[0] -= 1
        if left[0] < 0:
            return False
        handler.send_response(206)
        handler.send_header("Content-Length", "20")
        handler.send_header("Content-Range", f"bytes 9000-9019/{len(CONTENT)}")
        handler.send_header("ETag", f'"{(server.root / "x.bin").stat().st_mtime_ns:x}-{len(CONTENT):x}"')
        handler.end_headers()
        handler.wfile.write(CONTENT[9000:9005])
        handler.close_connection = True
        return True

    server.fault = cut
    assert file.read(9000, 20) == CONTENT[9000:9020]
    left[0] = 1 << 30
    with pytest.raises((Unreachable, CorruptFile)):
        file.read(9000, 20)


def test_answers_of_another_place_are_refused(server):
    file = RemoteFile(f"{server.url}/x.bin").known()

    def lie(handler):
        handler.give(206, CONTENT[:20], None, f"bytes 0-19/{len(CONTENT)}")
        return True

    server.fault = lie
    with pytest.raises((Unreachable, CorruptFile)):
        file.read(9000, 20)


@pytest.mark.parametrize(
    ("start", "stop", "found"),
    [(9000, 9010, "bytes 9000 to 9010"), (8990, 9010, "bytes 8990 to 9010"), (9000, 9030, "bytes 9000 to 9030")],
)
def test_answers_with_another_range_say_which(server, start, stop, found):
    file = RemoteFile(f"{server.url}/x.bin").known()

    def other(handler):
        handler.give(206, CONTENT[start:stop], None, f"bytes {start}-{stop - 1}/{len(CONTENT)}")
        return True

    server.fault = other
    with pytest.raises(Unreachable, match=f"expected bytes 9000 to 9020, found a response with {found}") as caught:
        file.read(9000, 20)
    assert "The server does not return the requested bytes" in str(caught.value)


def test_ranges_shorter_than_they_say_are_refused(server):
    file = RemoteFile(f"{server.url}/x.bin").known()

    def cut(handler):
        handler.give(206, CONTENT[9000:9010], None, f"bytes 9000-9019/{len(CONTENT)}")
        return True

    server.fault = cut
    with pytest.raises(CorruptFile, match="expected a body of 20 bytes, found 10"):
        file.read(9000, 20)


def test_a_whole_object_in_place_of_a_later_range(server):
    file = RemoteFile(f"{server.url}/x.bin").known()
    server.has_ranges = False
    with pytest.raises(Unreachable, match="expected bytes 9000 to 9020, found a response with the whole object"):
        file.read(9000, 20)


def test_a_range_without_its_place_is_refused(server):
    file = RemoteFile(f"{server.url}/x.bin").known()

    def give_no_place(handler):
        handler.give(206, CONTENT[9000:9020])
        return True

    server.fault = give_no_place
    with pytest.raises(Unreachable, match=r"Content-Range header not present.* does not follow HTTP"):
        file.read(9000, 20)


def test_a_part_in_place_of_a_file_of_unknown_length_is_refused(plain_server):
    def give_a_part(handler):
        handler.send_response(206 if "Range" not in handler.headers else 200)
        handler.send_header("Connection", "close")
        handler.end_headers()
        handler.wfile.write(CONTENT[:100])

    plain_server.answer = give_a_part
    with pytest.raises(Unreachable, match="the response 206"):
        RemoteFile(f"{plain_server.url}/x.bin").known()


@pytest.mark.parametrize("etags", [True, False])
def test_an_object_that_changes_is_an_error(server, etags):
    server.etags = etags
    file = RemoteFile(f"{server.url}/x.bin").known()
    (server.root / "x.bin").write_bytes(CONTENT[:-1])
    with pytest.raises(CorruptFile, match="changed"):
        file.read(9000, 20)
    with pytest.raises(CorruptFile, match="changed"):
        list(RemoteStream(file))


def test_a_slow_server_is_given_up(server, monkeypatch):
    monkeypatch.setenv("HEADRACE_TIMEOUT", "0.2")
    monkeypatch.setattr(client, "RETRIES", 0)
    done = threading.Event()

    def sleep(_handler):
        done.wait(300)
        return False

    server.fault = sleep
    with pytest.raises(Unreachable, match="HEADRACE_TIMEOUT"):
        _ = RemoteFile(f"{server.url}/x.bin").size
    done.set()


def test_a_slow_body_is_read_as_long_as_it_flows(server, monkeypatch):
    """The limit is on each wait for bytes, with ranges and without."""
    monkeypatch.setenv("HEADRACE_TIMEOUT", "0.4")

    def flow(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(CONTENT)))
        handler.end_headers()
        for at in range(0, len(CONTENT) if handler.command == "GET" else 0, len(CONTENT) // 8):
            handler.wfile.write(CONTENT[at : at + len(CONTENT) // 8])
            handler.wfile.flush()
            time.sleep(0.1)
        return True

    server.fault = flow
    assert copy_to_cache(RemoteFile(f"{server.url}/x.bin")).read(0, len(CONTENT)) == CONTENT


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HEADRACE_REQUESTS", "0"),
        ("HEADRACE_REQUESTS", "-1"),
        ("HEADRACE_REQUESTS", "1.5"),
        ("HEADRACE_TIMEOUT", "abc"),
        ("HEADRACE_TIMEOUT", "1m"),
        ("HEADRACE_TIMEOUT", "-1"),
        ("HEADRACE_TIMEOUT", "0"),
        ("HEADRACE_TIMEOUT", "inf"),
        ("HEADRACE_TIMEOUT", "nan"),
    ],
)
def test_wrong_settings_are_named(monkeypatch, name, value):
    monkeypatch.setattr(client, "_clients", [])
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=rf"{name} must be a (whole )?number from .*, got '{value}'"):
        _ = RemoteFile("http://127.0.0.1:1/x.bin").size


def test_a_long_timeout(server, monkeypatch):
    monkeypatch.setenv("HEADRACE_TIMEOUT", "1000000")
    assert RemoteFile(f"{server.url}/x.bin").size == len(CONTENT)


def test_ranges_of_an_object_whose_length_is_unknown(server):
    """RFC 9110, 14.4: an asterisk stands for it."""

    def give(handler):
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", handler.headers.get("Range") or "")
        if asked is None:
            return False
        start, last = int(asked[1]), min(int(asked[2]), len(CONTENT) - 1)
        handler.send_response(206)
        handler.send_header("Content-Length", str(last + 1 - start))
        handler.send_header("Content-Range", f"bytes {start}-{last}/*")
        handler.end_headers()
        handler.wfile.write(CONTENT[start : last + 1])
        return True

    server.fault = give
    file = RemoteFile(f"{server.url}/x.bin")
    assert (file.size, bytes(file.read(5000, 10))) == (len(CONTENT), CONTENT[5000:5010])


def test_a_response_without_content_is_no_empty_file(server):
    assert RemoteFile(f"{server.url}/empty.bin").size == 0

    def give(handler):
        handler.send_response(204)
        handler.send_header("Content-Length", "0")
        handler.end_headers()
        return True

    server.fault = give
    with pytest.raises(Unreachable, match="the response 204"):
        _ = RemoteFile(f"{server.url}/empty.bin").size


def test_another_region_is_named(monkeypatch):
    with serving_store() as store:
        for name, value in environment("s3", store.url).items():
            monkeypatch.setenv(name, value)

        def redirect(asked):
            asked.give(301, b"<Error><Code>PermanentRedirect</Code></Error>")
            return True

        store.fault = redirect
        with pytest.raises(Unreachable, match="Set AWS_REGION"):
            _ = RemoteFile("s3://bucket/x.bin").size


def test_nothing_listens(server, monkeypatch):
    monkeypatch.setattr(client, "RETRIES", 0)
    url = f"{server.url}/x.bin"
    server.close()
    with pytest.raises(Unreachable):
        _ = RemoteFile(url).size
    server.close = lambda: None


def test_names_are_quoted_as_they_should_be(server):
    (server.root / "a b").mkdir()
    (server.root / "a b" / "c=1~ü%.bin").write_bytes(b"here")
    assert read_each([f"{server.url}/a%20b/c=1~%C3%BC%25.bin"]) == [b"here"]
    assert read_each([f"{server.url}/x.bin?signature=1&x=%2F"]) == [CONTENT]


@pytest.fixture
def plain_server(tmp_path, monkeypatch):
    """A server that answers with ``server.answer(handler)``, and notes the request lines."""
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(client, "RETRIES", 0)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            server.asked.append(self.requestline)
            server.answer(self)

        do_HEAD = do_GET

        def log_message(self, *_):
            pass

    with LocalServer(Handler) as server:
        server.asked = []
        yield server


def give(handler, status, content=b"", **headers):
    handler.send_response(status)
    for name, value in {"Content-Length": str(len(content)), **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    if handler.command == "GET":
        handler.wfile.write(content)


@pytest.mark.parametrize(
    "path",
    [
        "/a%2Fb.bin",
        "//h.bin",
        "/g//b.bin",
        "/x%5B1%5D.bin",
        "/x%3F.bin",
        "/a+b.bin",
        "/a%2Bb.bin",
        "/%C3%BC.bin",
        "/a%20(b).bin",
        "/a%0A.bin",
        "/%FF.bin",
    ],
)
def test_paths_are_sent_as_given(plain_server, path):
    plain_server.answer = lambda handler: give(handler, 200, b"content", ETag='"1"')
    url = plain_server.url + path
    assert expand(url) == [url]
    assert read_each([url]) == [b"content"]
    assert {line.split()[1] for line in plain_server.asked} == {path}


def test_shards_behind_escaped_paths(plain_server):
    plain_server.answer = lambda handler: give(handler, 200, handler.path[-20:-16].encode(), ETag='"1"')
    found = expand(f"{plain_server.url}/a%2Fb/x.bin@2")
    assert found == [f"{plain_server.url}/a%2Fb/x.bin-0000{number}-of-00002" for number in range(2)]
    with pytest.raises(UnsupportedData, match="a folder"):
        expand(f"{plain_server.url}/a%2Fb/")


@pytest.mark.parametrize("refusal", [404, 403])
def test_an_object_wins_over_shards(plain_server, refusal):
    """``x@2.bin`` is a set where there is no such object, also on servers that answer 403 for what is not there."""
    plain_server.answer = lambda handler: (
        give(handler, 200, b"content", ETag='"1"') if handler.path == "/x@2.bin" else give(handler, refusal)
    )
    assert expand(f"{plain_server.url}/x@2.bin") == [f"{plain_server.url}/x@2.bin"]
    assert expand(f"{plain_server.url}/y@2.bin") == [
        f"{plain_server.url}/y-0000{number}-of-00002.bin" for number in range(2)
    ]
    with pytest.raises(Unreachable):
        expand("http://127.0.0.1:1/x@2.bin")


def test_https_addresses_of_clouds_are_plain_http():
    for url in (
        "https://bucket.s3.us-east-1.amazonaws.com/x.npy?X-Amz-Signature=1",
        "https://account.blob.core.windows.net/container/x.npy",
    ):
        store = client.store_of(client.client_for(url), Url.of(url))
        assert type(store).__name__ == "HTTPStore"


def test_signed_urls_keep_few_connections(server, monkeypatch):
    """Each URL with a query needs a client of obstore. An epoch of signed images once kept them all."""
    monkeypatch.setattr(client, "MOST_STORES", 3)
    urls = [f"{server.url}/x.bin?sig={number}" for number in range(6)]
    assert [RemoteFile(url).size for url in urls] == [len(CONTENT)] * 6
    stores = client.client_for(urls[0]).stores
    assert list(stores) == urls[3:]
    assert RemoteFile(urls[3]).size == len(CONTENT)
    assert list(stores) == [*urls[4:], urls[3]]


def _without_head(handler):
    give(handler, *((405,) if handler.command == "HEAD" else (200, CONTENT)), ETag='"1"')


def _without_length(handler):
    handler.send_response(200)
    handler.send_header("Connection", "close")  # Else the client may send the next request on a connection that ends.
    handler.end_headers()
    if handler.command == "GET":
        handler.wfile.write(CONTENT)


def _in_chunks(handler, content=CONTENT):
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    if handler.command == "GET":
        handler.wfile.write(b"%x\r\n" % len(content) + content + b"\r\n0\r\n\r\n")


def _with_a_date_that_is_none(handler):
    give(handler, 200, CONTENT, Last_Modified="yesterday")


@pytest.mark.parametrize("query", ["", "?signature=secret"])
@pytest.mark.parametrize("answer", [_without_head, _without_length, _in_chunks, _with_a_date_that_is_none])
def test_servers_without_head_length_or_date_send_the_whole_file(plain_server, answer, query):
    plain_server.answer = answer
    url = f"{plain_server.url}/x.bin{query}"
    file = RemoteFile(url)
    assert (file.size, file.head) == (len(CONTENT), CONTENT[:4096])
    assert bytes(file.read(9000, 20)) == CONTENT[9000:9020]
    assert b"".join(RemoteStream(file)) == CONTENT
    again = pickle.loads(pickle.dumps(file))
    again.expect(file.signature)
    assert bytes(again.read(5, 5)) == CONTENT[5:10]
    other = RemoteFile(url, expected=RemoteFile(url).signature)
    plain_server.answer = lambda handler: _in_chunks(handler, CONTENT[:-1])
    with pytest.raises(CorruptFile, match="changed"):
        other.read(0, 1)


def test_a_file_of_unknown_length_that_breaks_off_or_is_too_large(plain_server, monkeypatch):
    def cut(handler):
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.send_header("Connection", "close")
        handler.end_headers()
        handler.close_connection = True
        if handler.command == "GET":
            handler.wfile.write(b"%x\r\n" % len(CONTENT) + CONTENT[:100])

    plain_server.answer = cut
    with pytest.raises(Unreachable, match="IncompleteRead"):
        RemoteFile(f"{plain_server.url}/x.bin").known()
    plain_server.answer = _in_chunks
    monkeypatch.setenv("HEADRACE_CACHE_LIMIT", "1000")
    with pytest.raises(UnsupportedData, match="space for all of it in the cache"):
        RemoteFile(f"{plain_server.url}/x.bin").known()


@pytest.mark.parametrize("status", [400, 405, 410, 416, 451])
def test_refusals_are_named_and_not_called_repeated(plain_server, status):
    plain_server.answer = lambda handler: give(handler, status)
    with pytest.raises(Unreachable, match=f"the response {status}") as caught:
        RemoteFile(f"{plain_server.url}/x.bin").known()
    assert "repeated" not in str(caught.value)
    assert "404" not in str(caught.value).replace(plain_server.url, "")  # whose port may hold it


def test_many_files_whole(server, tmp_path):
    (tmp_path / "local").write_bytes(b"local")
    for number in range(20):
        (server.root / f"{number}").write_bytes(bytes([number]))
    urls = [f"{server.url}/{number}" for number in range(20)]
    assert read_each([*urls, str(tmp_path / "local"), urls[3]]) == [*map(bytes, zip(range(20))), b"local", b"\x03"]
    assert total_size([*urls, str(tmp_path / "local")]) == 25
    with pytest.raises(NoFiles, match="nope"):
        read_each([*urls, f"{server.url}/nope"])


def test_opening_a_thousand_shards_looks_at_each_once(server):
    for number in range(200):
        (server.root / f"s-{number:05d}-of-00200").write_bytes(CONTENT[:10_000])
    files = FileSet(expand(f"{server.url}/s@200"), compression=None)
    with server.counting() as asked:
        assert [files.signature(number).size for number in range(200)] == [10_000] * 200
        assert files.wrapper(7) == "none"
    assert len(asked) == 200
    assert all(request[2] == "bytes=0-4095" for request in asked)


def test_files_pickle_with_their_version(server):
    files = FileSet([f"{server.url}/x.bin"])
    files.expect([files.signature(0)])
    again = pickle.loads(pickle.dumps(files))
    assert again.size(0) == len(CONTENT)
    (server.root / "x.bin").write_bytes(CONTENT[1:])
    with pytest.raises(CorruptFile, match="changed"):
        pickle.loads(pickle.dumps(files)).size(0)


def test_requests_take_one_thread(server):
    for number in range(20):
        RemoteFile(f"{server.url}/x.bin").read(5000 + number, 10)
    requests = [thread for thread in threading.enumerate() if thread.name == "headrace-requests"]
    assert requests == [client.client_for(server.url).thread]


ENDS = """
import sys, threading
import numpy as np
import headrace as hr
from headrace.io.store.object import RemoteFile
from headrace.io.store.upload import upload

def read():
    try:
        RemoteFile("s3://bucket/slow").read(9000, 10)
    except Exception:
        pass  # It was given up.

def write():
    try:
        upload(sys.argv[0], "s3://bucket/slow")
    except Exception:
        pass  # It was given up.

def load():
    loader = hr.Loader(hr.ColumnSource({"x": np.arange(400)}), 4, threads=3, map_batch=lambda batch: RemoteFile("s3://bucket/slow").head and batch)
    try:
        for _ in loader:
            pass
    except Exception:
        pass  # It was given up.
"""


@pytest.mark.parametrize("answers", [False, True])
@pytest.mark.parametrize("form", ["read", "write", "load"])
def test_python_ends_while_a_store_is_asked(tmp_path, form, answers):
    with serving_store() as store:
        env = {**os.environ, **environment("s3", store.url), "HEADRACE_CACHE_DIR": str(tmp_path / "cache")}
        store.objects["slow"] = CONTENT
        asked, go = threading.Event(), threading.Event()

        def waits(handler):
            if handler.key == "slow":
                asked.set()
                go.wait(300)
            return False

        store.fault = waits
        script = tmp_path / "script.py"
        script.write_text(ENDS + f"threading.Thread(target={form}, daemon=True).start()\ninput()\n")
        process = subprocess.Popen(
            [sys.executable, script], stdin=-1, stdout=-1, stderr=-1, text=True, env=env, cwd=tmp_path
        )
        assert asked.wait(300)
        if answers:
            go.set()  # They arrive while Python ends.
        out, err = process.communicate("\n", timeout=300)
        go.set()
    assert (process.returncode, out, err) == (0, "", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_after_a_fork_there_is_an_error_and_no_waiting(server):
    _ = RemoteFile(f"{server.url}/x.bin").size
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _ = RemoteFile(f"{server.url}/x.bin").size
        except Unreachable as error:
            os.write(write, str(error).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as reported:
        assert b"spawn" in reported.read()
    os.waitpid(child, 0)


def _size(url):
    return RemoteFile(url).size


def test_a_fresh_process_reads(server):
    _ = RemoteFile(f"{server.url}/x.bin").size
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_size, [f"{server.url}/x.bin"]) == len(CONTENT)


def test_http_folders_and_globs_are_refused(server):
    for url in (f"{server.url}/", f"{server.url}/*.bin", f"{server.url}/x@*"):
        with pytest.raises(UnsupportedData, match="cannot list its files"):
            expand(url)
    assert expand([f"{server.url}/a", f"{server.url}/b"]) == [f"{server.url}/a", f"{server.url}/b"]
    assert expand(f"{server.url}/x-00001-of-00003.gz") == [f"{server.url}/x-00001-of-00003.gz"]
    assert expand(f"{server.url}/x-*-of-00003.gz")[2].endswith("x-00002-of-00003.gz")


# Headers that do not distinguish versions of equal size.
SAYS_NOTHING = [
    {"etags": False, "modified": None},
    {"etags": False, "modified": "now"},
    {"etags": False, "modified": "later"},
    {"weak": True, "modified": None},
    {"weak": True, "modified": "now"},
    {"etags": False, "modified": None, "has_ranges": False},
]


def _say(server, reported):
    times = {"now": formatdate(time.time(), usegmt=True), "later": formatdate(time.time() + 5000, usegmt=True)}
    for name, value in reported.items():
        setattr(server, name, times.get(value, value))


@pytest.mark.parametrize("reported", SAYS_NOTHING)
def test_equal_sizes_do_not_make_an_object_unchanged(server, reported):
    _say(server, reported)
    url = f"{server.url}/x.bin"
    assert copy_to_cache(RemoteFile(url)).buffer == CONTENT
    (server.root / "x.bin").write_bytes(CONTENT[::-1])
    assert find_copy(RemoteFile(url)) is None
    assert copy_to_cache(RemoteFile(url)).buffer == CONTENT[::-1]
    assert bytes(RemoteFile(url).read(5000, 10)) == CONTENT[::-1][5000:5010]


@pytest.mark.parametrize("reported", SAYS_NOTHING)
def test_an_open_source_keeps_the_old_content(server, reported):
    """Ranges requested separately might come from two versions."""
    _say(server, reported)
    file = RemoteFile(f"{server.url}/x.bin")
    assert bytes(file.read(5000, 10)) == CONTENT[5000:5010]
    (server.root / "x.bin").write_bytes(CONTENT[::-1])
    assert bytes(file.read(6000, 10)) == CONTENT[6000:6010]
    assert sparse_views([(file, [7000], [10])])[0].read(7000, 10) == CONTENT[7000:7010]
    assert b"".join(RemoteStream(file)) == CONTENT


@pytest.mark.parametrize("reported", SAYS_NOTHING)
def test_a_process_that_finds_other_content_reports_it(server, reported):
    _say(server, reported)
    files = FileSet([f"{server.url}/x.bin"])
    files.expect([files.signature(0)])
    again = pickle.dumps(files)
    assert pickle.loads(again).content(0).buffer == CONTENT
    (server.root / "x.bin").write_bytes(CONTENT[::-1])
    with pytest.raises(CorruptFile, match="changed"):
        pickle.loads(again).content(0)


def test_unused_copies_are_removed(server):
    _say(server, SAYS_NOTHING[0])
    for _ in range(3):
        copy_to_cache(RemoteFile(f"{server.url}/x.bin"))
    assert len(list((server.root.parent / "cache" / "inflated").iterdir())) == 1


def test_a_time_long_past_makes_an_object_certain(server):
    server.etags = False
    url = f"{server.url}/x.bin"
    assert copy_to_cache(RemoteFile(url)).buffer == CONTENT
    assert find_copy(RemoteFile(url)).buffer == CONTENT
    server.modified = "Sat, 21 Nov 2026 10:00:01 GMT"
    assert find_copy(RemoteFile(url)) is None


def test_an_object_that_changes_while_it_is_copied(server):
    server.etags = server.has_ranges = False

    def change(handler):
        if handler.command == "GET" and len([method for method, *_ in server.asked if method == "GET"]) > 1:
            content = (server.root / "x.bin").read_bytes()
            handler.give(200, content[:5000] + content[:-5000])
            server.modified = "Sat, 21 Nov 2026 10:00:01 GMT"
            return True
        return False

    server.fault = change
    with pytest.raises(CorruptFile, match="changed"):
        copy_to_cache(RemoteFile(f"{server.url}/x.bin"))
    server.modified = "Sat, 21 Nov 2026 10:00:00 GMT"
    server.asked.clear()
    with pytest.raises(CorruptFile, match="changed"):
        list(RemoteStream(RemoteFile(f"{server.url}/x.bin")))


@pytest.mark.parametrize("reported", SAYS_NOTHING)
def test_records_of_an_object_without_content_type(server, reported):
    _say(server, reported)
    path = server.root / "x.csv"
    for middle in (b"22", b"33"):
        path.write_bytes(b"x\n" + b"11\n" * 20_000 + middle + b"\n" + b"11\n" * 20_000)
        source = hr.open(f"{server.url}/x.csv")
        assert (len(source), source[20_000]["x"], source[20_001]["x"]) == (40_001, int(middle), 11)
        path.write_bytes(path.read_bytes().replace(b"\n11\n", b"\n99\n"))
        assert source[17]["x"] == 11


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://127.0.0.1/x"])
def test_redirections_to_another_scheme_are_refused(server, monkeypatch, target):
    def redirect(handler):
        handler.send_response(302)
        handler.send_header("Location", target)
        handler.send_header("Content-Length", "0")
        handler.end_headers()
        return True

    monkeypatch.setattr(client, "RETRIES", 0)
    server.fault = redirect
    with pytest.raises(Unreachable, match="302 Found|builder error"):
        RemoteFile(f"{server.url}/x.bin").read(0, 10)


@pytest.fixture
def secure(server, monkeypatch):
    """The same files over https, and clients that trust the server's certificate."""
    options = client._options

    def trusting(scheme):
        found = options(scheme)
        found["client_options"]["allow_invalid_certificates"] = True
        return found

    monkeypatch.setattr(client, "_options", trusting)
    monkeypatch.setattr(client, "RETRIES", 0)
    with serving(server.root, https=True) as secure:
        yield secure


def redirect_to(url):
    def redirect(handler):
        if not handler.path.endswith("/x.bin") or handler.path == urlsplit(url).path:
            return False
        handler.send_response(302)
        handler.send_header("Location", url)
        handler.send_header("Content-Length", "0")
        handler.end_headers()
        return True

    return redirect


def test_https_redirects_to_https_only(server, secure):
    (server.root / "y.bin").write_bytes(b"other content")
    assert bytes(RemoteFile(f"{secure.url}/y.bin").read(0, 5)) == b"other"
    secure.fault = redirect_to(f"{secure.url}/y.bin")
    assert bytes(RemoteFile(f"{secure.url}/x.bin").read(0, 5)) == b"other"
    secure.fault = redirect_to(f"{server.url}/y.bin")
    with pytest.raises(Unreachable):
        RemoteFile(f"{secure.url}/x.bin").read(0, 5)
    assert server.asked == [], "a request went to http"


def test_http_redirects_to_https(server, secure):
    (server.root / "y.bin").write_bytes(b"other content")
    server.fault = redirect_to(f"{secure.url}/y.bin")
    assert bytes(RemoteFile(f"{server.url}/x.bin").read(0, 5)) == b"other"


def test_an_endpoint_of_a_cloud_over_https_redirects_to_https_only(server, secure, monkeypatch):
    """Even where the environment allows endpoints over http."""
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_ENDPOINT_URL", secure.url)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    (server.root / "y.bin").write_bytes(b"other content")
    secure.fault = redirect_to(f"{server.url}/y.bin")
    with pytest.raises(Unreachable):
        RemoteFile("s3://bucket/x.bin").read(0, 5)
    assert server.asked == []


LONG_PAST = "Sat, 21 Nov 2026 10:00:00 GMT"


def _cut(handler, left, **headers):
    """Give the whole object, but break off so many GET requests for it, half way."""
    if handler.command == "GET" and handler.headers.get("Range") is None and left[0]:
        left[0] -= 1
        handler.send_response(200)
        for name, value in {"Content-Length": str(len(CONTENT)), "Connection": "close", **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(CONTENT[: len(CONTENT) // 2])
        handler.close_connection = True
    else:
        give(handler, 200, CONTENT, **headers)


def _stream(url):
    return b"".join(RemoteStream(RemoteFile(url)))


def _copy(url):
    return copy_to_cache(RemoteFile(url)).buffer


@pytest.mark.parametrize("headers", [{"ETag": '"1"', "Last_Modified": LONG_PAST}, {"Last_Modified": LONG_PAST}, {}])
@pytest.mark.parametrize("read", [_stream, _copy])
def test_lost_connections_without_ranges(plain_server, headers, read, monkeypatch):
    monkeypatch.setattr(requests.time, "sleep", lambda _: None)
    url, left = f"{plain_server.url}/x.bin", [0]
    plain_server.answer = lambda handler: _cut(handler, left, **headers)
    if headers or read is _copy:  # parts of two versions could be joined otherwise
        left[0] = 2
        assert read(url) == CONTENT
    left[0] = 1 << 30
    with pytest.raises(Unreachable, match="found a connection that was lost"):
        read(f"{url}?another")


def test_a_body_without_length_that_breaks_off_once(plain_server):
    left = [1]

    def answer(handler):
        if handler.command == "GET" and left[0] and handler.headers.get("Range") is None:
            left[0] -= 1
            handler.send_response(200)
            handler.send_header("Transfer-Encoding", "chunked")
            handler.send_header("Connection", "close")
            handler.end_headers()
            handler.wfile.write(b"%x\r\n" % len(CONTENT) + CONTENT[:5000])
            handler.close_connection = True
        else:
            _in_chunks(handler)

    plain_server.answer = answer
    assert RemoteFile(f"{plain_server.url}/x.bin").read(9000, 20) == CONTENT[9000:9020]
    assert left == [0]


def test_an_object_whose_time_is_that_of_the_response(plain_server):
    """What a server makes for each request has no other time. It may take longer than a second to send."""

    def answer(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(CONTENT)))
        handler.send_header("Last-Modified", formatdate(time.time(), usegmt=True))
        handler.end_headers()
        if handler.command == "GET":
            handler.wfile.write(CONTENT[:5000])
            time.sleep(1.1)
            handler.wfile.write(CONTENT[5000:])

    plain_server.answer = answer
    file = RemoteFile(f"{plain_server.url}/x.bin")
    assert file.read(9000, 20) == CONTENT[9000:9020]
    assert b"".join(RemoteStream(RemoteFile(f"{plain_server.url}/x.bin"))) == CONTENT


def test_another_head_than_that_of_the_copy_is_an_error(server):
    _say(server, {"etags": False, "modified": None})
    file = RemoteFile(f"{server.url}/x.bin")
    assert file.head == CONTENT[:4096]
    (server.root / "x.bin").write_bytes(CONTENT[::-1])
    with pytest.raises(CorruptFile, match="the same object as when it was opened"):
        file.read(5000, 10)


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("http://user:secret@127.0.0.1:1/x.csv", "connection refused.* Check the port"),
        ("http://127.0.0.1:1/x.csv?signature=secret", "connection refused.* Check the port"),
        ("http://no-such-host.invalid/x.csv", "no host of this name.* Check the name"),
        ("http://127.0.0.1:abc/x.csv", "invalid port.* Correct the URL"),
    ],
)
def test_failed_connections_give_their_cause_and_no_password(tmp_path, monkeypatch, url, found):
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path))
    with pytest.raises(Unreachable, match=found) as raised:
        hr.open(url)
    assert "secret" not in "".join(traceback.format_exception(raised.value))


def test_an_untrusted_certificate_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "x.csv").write_text("a\n1\n")
    with serving(tmp_path, https=True) as server, pytest.raises(Unreachable, match="a certificate that is not trusted"):
        hr.open(f"{server.url}/x.csv")
