"""Whatever a client sends, the response follows the contract; a 500 only reports errors of the script."""

import json
import socket

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.hosting.places import Server, local

from headrace.hosting.stage import Stage

SCRIPT = """
import numpy as np

class Model:
    def predict(self, rows):
        rows = np.atleast_2d(np.asarray(rows, dtype=float))
        return rows.sum(axis=1)

def model_fn(model_dir):
    return Model()
"""
TYPES = ["text/csv", "application/json", "application/jsonlines", "application/x-npy", "application/x-npz",
         "application/x-recordio-protobuf", "text/libsvm", "*/*", ""]  # fmt: skip
HTTP_TEXT = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=30)
PARAMETERS = st.sampled_from(
    ["", "; charset=utf-8", "; charset=latin-1", "; charset=nope", ";", "; q=", ", text/csv", '; a="b']
)
CONTENT_TYPES = st.builds(lambda media, end: media + end, st.sampled_from(TYPES), PARAMETERS) | HTTP_TEXT
NUMBERS = st.floats() | st.integers(-(10**30), 10**30)
ROWS = st.lists(st.lists(NUMBERS, max_size=4), max_size=4)
JSONS = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["instances", "features", "a"]), inner, max_size=2)
    ),
    max_leaves=8,
)


def npy(rows):
    import io

    sink = io.BytesIO()
    np.save(sink, np.array([row[:1] for row in rows if row], dtype=float))
    return sink.getvalue()


def spoiled(blob, place, byte):
    """The same with one byte changed."""
    return blob[: place % len(blob)] + bytes([byte]) + blob[place % len(blob) + 1 :] if blob else blob


BODIES = (
    st.binary(max_size=200)
    | ROWS.map(lambda rows: "\n".join(",".join(map(str, row)) for row in rows).encode())
    | JSONS.map(lambda value: json.dumps(value).encode())
    | st.lists(JSONS, max_size=3).map(lambda values: "\n".join(map(json.dumps, values)).encode())
    | st.builds(spoiled, ROWS.map(npy), st.integers(0, 300), st.integers(0, 255))
    | st.builds(spoiled, ROWS.map(npy), st.integers(0, 300), st.integers(0, 255)).map(
        lambda blob: blob[: len(blob) // 2]
    )
)


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("script")
    (folder / "script.py").write_text(SCRIPT)
    stage = Stage(
        factory="headrace.containers.script:ScriptContainer",
        arguments={"entry_point": str(folder / "script.py")},
        model_dir=str(folder),
    )
    with local(stage, max_payload_bytes=1000) as found:
        yield found


@given(BODIES, CONTENT_TYPES, CONTENT_TYPES)
def test_every_content_type(client, body, content_type, accept):
    answer = client.post("/invocations", content=body, headers={"Content-Type": content_type, "Accept": accept})
    reported = answer.text
    assert answer.status_code in (200, 400, 406, 413, 415) or (
        answer.status_code == 500 and "predict_fn failed" in reported
    ), reported
    if answer.status_code != 200:
        plain = answer.json()
        assert plain["status"] == answer.status_code
        assert plain["message"]
        assert "Traceback" not in reported


@given(st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"]), HTTP_TEXT, st.binary(max_size=20))
def test_every_path_and_method(client, method, path, body):
    from urllib.parse import quote

    answer = client.request(method, "/" + quote(path), content=body)
    assert answer.status_code in (200, 400, 404, 405, 415)


@given(st.dictionaries(st.sampled_from(["X-Amzn-SageMaker-Custom-Attributes", "X-Amzn-SageMaker-Inference-Id",
       "X-Amzn-SageMaker-Target-Model", "Accept", "X-Other"]), st.binary(max_size=30).map(lambda raw: bytes(b for b in raw if b >= 32 and b != 127))))  # fmt: skip
def test_every_header(client, headers):
    answer = client.post("/invocations", content=b"1,2", headers={"Content-Type": "text/csv", **headers})
    assert answer.status_code in (200, 400, 406), answer.text


RAW = [
    b"",
    b"\x00" * 100,
    b"GET\r\n\r\n",
    b"POST /invocations HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n",
    b"POST /invocations HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n",
    b"POST /invocations HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST /invocations HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nx",
    b"POST /invocations HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\nhalf",
    b"POST /invocations HTTP/9.9\r\n\r\n",
    b"POST http://[::1 HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + b"A: " + b"b" * 100_000 + b"\r\n\r\n",
]


def test_raw_connections(tmp_path):
    """Invalid and unfinished requests end only their own connection."""
    (tmp_path / "script.py").write_text(SCRIPT)
    stage = Stage(
        factory="headrace.containers.script:ScriptContainer",
        arguments={"entry_point": str(tmp_path / "script.py")},
        model_dir=str(tmp_path),
    )
    with Server(stage, workers=1) as server:
        server.ready()
        host, _, port = server.address.removeprefix("http://").partition(":")
        for raw in RAW:
            with socket.create_connection((host, int(port)), timeout=300) as connection:
                connection.sendall(raw)
                connection.shutdown(socket.SHUT_WR)
                answer = b""
                while part := connection.recv(1 << 16):
                    answer += part
            assert answer == b"" or answer.split()[1][:1] in (b"2", b"4"), (raw[:80], answer[:200])
        assert server.post(b"1,2", Content_Type="text/csv", Accept="application/json")[0] == 200
    assert "Traceback" not in server.log
