"""The report of the serving flow."""

from __future__ import annotations

from collections import Counter
from http.server import BaseHTTPRequestHandler

import pytest
from benchmarks.serving import report
from benchmarks.serving.__main__ import described
from benchmarks.serving.load import Load, Outcome
from tests.local_server import LocalServer


def outcome(per_second, latency_ms, *, loop_ms=None, failed=0):
    answers = int(per_second)
    return Outcome(
        latencies_s=[latency_ms / 1e3] * answers,
        statuses=Counter({200: answers, 503: failed}),
        seconds=1.0,
        own_cpu_s=0.1,
        loop_s=[loop_ms / 1e3] if loop_ms else [],
    )


def test_ratios_are_made_within_each_round():
    found = {
        ("headrace", 1): [outcome(100, 5, loop_ms=5), outcome(50, 10, loop_ms=10)],
        ("flask", 1): [outcome(50, 10, loop_ms=5), outcome(25, 20, loop_ms=10, failed=3)],
    }
    lines = report.markdown([found], [1]).splitlines()
    assert "### 1 connection" in lines
    assert lines[-2].endswith("| 0 | 1.00 | 1.00 |")
    assert lines[-1].endswith("| 3 | 2.00 | 2.00 |")


def test_targets_and_a_server_with_rounds_of_its_own():
    quiet = {
        ("headrace", 32): [outcome(1000, 5)],
        ("stock", 32): [outcome(100, 5)],
        ("litserve-1", 32): [outcome(800, 5)],
    }
    loud = {("headrace", 32): [outcome(500, 120)], ("ray", 32): [outcome(100, 5)]}
    lines = report.markdown([quiet, loud], [32]).splitlines()
    assert lines[-1].startswith("| Ray Serve")
    assert lines[-1].endswith("| 5.00 |")
    assert sum(line.startswith("| Headrace |") for line in lines) == 1
    assert "| answers/s at 32 connections, times the stock form's | at least 8 | 10 | yes |" in lines
    assert any(line.endswith("(LitServe, batches, one worker) | at least 1.5 | 1.25 | **no** |") for line in lines)


def test_tables_are_kept_between_the_markers(tmp_path, monkeypatch):
    readme = tmp_path / "README.md"
    monkeypatch.setattr(report, "README", readme)
    monkeypatch.setattr(report, "DETAILS", tmp_path / "results" / "serving.md")
    readme.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    report.keep("new\n\n### 1 connection\n\nmore")
    assert readme.read_text() == f"before\n{report.BEGIN}\n\nnew\n\n{report.END}\nafter\n"
    assert report.DETAILS.read_text() == "# Every server of the kept run\n\nnew\n\n### 1 connection\n\nmore\n"
    readme.write_text("no markers")
    with pytest.raises(ValueError, match="markers"):
        report.keep("new")
    assert readme.read_text() == "no markers"


def test_one_turn_as_plain_values():
    reported = described(outcome(100, 5, loop_ms=4, failed=1))
    assert reported == {
        "per_s": 100.0, "p50_ms": 5.0, "p99_ms": 5.0, "not_200": 1, "lost": 0, "client_cores": 0.1, "loop_p50_ms": 4.0
    }  # fmt: skip


def test_a_wrong_answer_is_seen():
    """A load against a server that answers everything with one: every answer is checked."""

    class One(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", "1")
            self.end_headers()
            self.wfile.write(b"1")

        def log_message(self, *_):
            pass

    with LocalServer(One) as server:
        address = f"{server.url}/invocations"
        found = Load(address, [b"1", b"2"], "text/plain", lambda number, body: body == b"12"[number : number + 1]).run(
            2, most=10
        )
    assert found.statuses == {200: 10}
    assert len(found.wrong) == 5
    assert found.per_second == pytest.approx(10 / found.seconds)
