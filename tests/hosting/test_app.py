"""Paths, headers, statuses and limits, against an endpoint in this process."""

import base64
import hashlib
import json
import re
import threading

import pytest
from tests.hosting.places import local, sample

from headrace.hosting.metrics import Metrics
from headrace.hosting.settings import Settings

ATTRIBUTES = "X-Amzn-SageMaker-Custom-Attributes"


def test_requests_to_a_container(echo):
    with local(echo) as client:
        headers = {
            "Content-Type": "text/csv; charset=utf-8",
            "Accept": "a/b",
            "Cookie": "x=1",
            "X-Own": "y",
            ATTRIBUTES: "trace=1",
        }
        reported = client.post("/invocations", content=b"1,2", headers=headers).json()
        assert reported["content_type"] == "text/csv; charset=utf-8"
        assert reported["accept"] == "a/b"
        assert reported["headers"] == {ATTRIBUTES.lower(): "trace=1"}
        bare = client.build_request("POST", "/invocations", content=b"1")
        bare.headers.pop("accept", None)
        reported = client.send(bare).json()
        assert (reported["content_type"], reported["accept"]) == ("application/json", "*/*")


def test_client_responses():
    with local(sample("obedient")) as client:
        answer = client.post("/invocations", content=b"hello")
        assert (answer.status_code, answer.content) == (200, b"HELLO")
        assert answer.headers["content-type"] == "text/plain"
        assert answer.headers[ATTRIBUTES] == "seen"
        assert answer.headers["x-amzn-invoked-production-variant"] == "AllTraffic"
        own = client.post("/invocations", content=b"header yes")
        assert own.headers["x-own"] == "yes"
        assert own.headers["content-length"] == "0"
        assert client.post("/invocations", content=b"status 418 tea").text == "tea"


@pytest.mark.parametrize(
    ("status", "phrase"), [(400, "Bad Request"), (406, "Not Acceptable"), (415, "Unsupported Media Type")]
)
def test_refusals_are_json(status, phrase):
    with local(sample("obedient")) as client:
        answer = client.post("/invocations", content=f"refuse {status} why not".encode())
        assert answer.status_code == status
        assert answer.json() == {"status": status, "error": phrase, "message": "why not"}


def test_a_traceback_is_shown_only_when_asked(caplog):
    with local(sample("obedient")) as client:
        answer = client.post("/invocations", content=b"raise it")
        assert answer.json() == {"status": 500, "error": "KeyError", "message": "'it'"}
    assert "do_raise" in caplog.text
    with local(sample("obedient"), debug=True) as client:
        assert "do_raise" in client.post("/invocations", content=b"raise it").json()["trace"]


def test_failures_of_a_pipeline_name_the_container():
    with local(sample("obedient"), sample("obedient")) as client:
        assert client.post("/invocations", content=b"refuse 415 no").json()["container"] == "container-1"
    with local(sample("echo", name="first"), sample("refuser", name="second")) as client:
        assert client.post("/invocations", content=b"x").json() == {
            "status": 415, "error": "Unsupported Media Type", "message": "application/json; from=", "container": "second"
        }  # fmt: skip


def test_payload_limit():
    with local(sample("obedient"), max_payload_bytes=1000) as client:
        assert client.post("/invocations", content=b"x" * 1000).status_code == 200
        answer = client.post("/invocations", content=b"x" * 1001)
        assert answer.status_code == 413
        assert "1001" in answer.json()["message"]

        def parts():
            for _ in range(3):
                yield b"x" * 500

        assert client.post("/invocations", content=parts()).status_code == 413
        assert client.post("/invocations", content=b"large 1001").status_code == 500


def test_the_default_limit_is_sagemakers():
    assert Settings().max_payload_bytes == 6_291_456
    assert Settings().timeout_s == 60


def test_time_limit():
    with local(sample("gate"), timeout_s=0.2) as client:
        import sample_containers

        answer = client.post("/invocations", content=b"x")
        sample_containers.GATE.set()
        assert answer.status_code == 504
        assert "timed out" in answer.json()["message"]


def test_concurrency_limit():
    with local(sample("gate"), concurrency=2) as client:
        import sample_containers

        statuses = []
        threads = [
            threading.Thread(target=lambda: statuses.append(client.post("/invocations", content=b"x").status_code))
            for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        while "headrace_requests_in_flight 2" not in client.get("/metrics").text:
            pass
        refused = client.post("/invocations", content=b"x")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        sample_containers.GATE.set()
        for thread in threads:
            thread.join()
        assert statuses == [200, 200]


@pytest.mark.parametrize(
    ("header", "value"),
    [
        (ATTRIBUTES, "x" * 1025),
        (ATTRIBUTES, "a\xe9b"),
        ("X-Amzn-SageMaker-Inference-Id", "x" * 65),
        ("X-Amzn-SageMaker-Inference-Id", ""),
    ],
)
def test_bad_headers(echo, header, value):
    with local(echo) as client:
        answer = client.post("/invocations", content=b"", headers={header: value.encode("latin-1")})
        assert answer.status_code == 400
        assert header.lower() in answer.json()["message"]


def test_invalid_answers_of_containers():
    with local(sample("obedient")) as client:
        for body in (b"nothing", b"status 999 x", b"status 100 x", b"header a\nb"):
            answer = client.post("/invocations", content=body)
            assert answer.status_code == 500, body
            assert "the container " in answer.json()["message"]


def test_unknown_paths_and_methods(echo):
    with local(echo) as client:
        answer = client.get("/nope")
        assert answer.status_code == 404
        assert answer.json()["message"].startswith("there is no GET /nope; there are GET /ping")
        answer = client.get("/invocations")
        assert (answer.status_code, answer.json()["error"]) == (405, "Method Not Allowed")


def test_ping_and_a_model_that_does_not_load(echo):
    with local(echo) as client:
        assert (client.get("/ping").status_code, client.get("/ping").content) == (200, b"")
    with local(sample("refuses_to_load")) as client:
        assert client.get("/ping").status_code == 503
        assert client.get("/ping").json()["message"] == "the model does not load: FileNotFoundError: no model here"
        assert client.post("/invocations", content=b"").status_code == 503


def test_execution_parameters(echo):
    with local(echo, max_payload_bytes=3 << 20) as client:
        assert client.get("/execution-parameters").json() == {
            "MaxConcurrentTransforms": 1, "BatchStrategy": "MULTI_RECORD", "MaxPayloadInMB": 3
        }  # fmt: skip
    with local(sample("with_parameters")) as client:
        assert client.get("/execution-parameters").json() == {"BatchStrategy": "SINGLE_RECORD"}


def test_a_fault_of_execution_parameters_is_no_reason_not_to_serve():
    with local(sample("with_faulty_parameters")) as client:
        assert client.post("/invocations", content=b"1").status_code == 200
        answer = client.get("/execution-parameters")
        assert (answer.status_code, answer.json()["message"]) == (500, "KeyError: 'missing'")


@pytest.mark.parametrize("factory", ["obedient", "batching"])
def test_an_exception_that_is_no_exception_fails_its_request_only(factory):
    with local(sample(factory), timeout_s=20) as client:
        for _ in range(2):
            answer = client.post("/invocations", content=b"panic no")
            assert (answer.status_code, answer.json()["error"]) == (500, "Panic")
            assert client.post("/invocations", content=b"hello").text == "HELLO"


def test_metrics_count_what_happened():
    with local(sample("batching")) as client:
        for body in (b"a", b"b", b"refuse 415 c"):
            client.post("/invocations", content=body)
        answer = client.get("/metrics")
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        lines = answer.text.splitlines()
        assert 'headrace_requests_total{status="200"} 2' in lines
        assert 'headrace_requests_total{status="415"} 1' in lines
        assert "headrace_batch_size_count 3" in lines
        assert 'headrace_container_seconds_count{container="container-1"} 3' in lines
        for line in lines:
            assert re.fullmatch(r'# (HELP|TYPE) \w+ .+|\w+(\{\w+="[^"]*"(,\w+="[^"]*")*\})? [0-9.e+-]+', line), line


def test_large_counts_are_exact():
    metrics = Metrics()
    for _ in range(3):
        metrics.requests.add("200")
    metrics.requests._counts["200"] += 12_345_678
    metrics.batch_size.observe(12_345_678)
    metrics.gauge("many", "So many.", lambda: 12_345_678)
    lines = metrics.text().splitlines()
    assert 'headrace_requests_total{status="200"} 12345681' in lines
    assert "headrace_batch_size_sum 12345678" in lines
    assert "many 12345678" in lines


def test_the_page_needs_nothing_from_elsewhere(echo):
    with local(echo) as client:
        answer = client.get("/")
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        for tag in ("script", "style"):
            text = re.search(f"<{tag}>(.*?)</{tag}>", answer.text, re.DOTALL)[1]
            digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
            assert f"{tag}-src 'sha256-{digest}'" in policy
        assert not re.search(r"https?://|//[a-z]", re.sub(r"<script>.*?</script>", "", answer.text, flags=re.DOTALL))
        assert "<h1>tests</h1>" in answer.text


def test_the_page_escapes_its_title():
    from headrace.hosting.http.app import html

    assert "<script>alert" not in html("<script>alert(1)</script>")


def test_containers_have_their_own_environment():
    stages = [sample("echo", environment={"SAMPLE": "one"}), sample("echo", environment={"SAMPLE": "two"})]
    with local(*stages) as client:
        second = client.post("/invocations", content=b"x").json()
        assert second["variable"] == "two"
        assert json.loads(second["body"])["variable"] == "one"


def test_direct_mode():
    with local(sample("echo", name="a"), sample("echo", name="b"), direct=True) as client:
        header = {"X-Amzn-SageMaker-Target-Container-Hostname": "b"}
        assert client.post("/invocations", content=b"x", headers=header).json()["body"] == "x"
        assert client.post("/invocations", content=b"x").status_code == 400
