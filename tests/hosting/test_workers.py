"""Worker processes: replaced when they die, ended with their server, drained; a model that does not load is reported."""

import json
import os
import signal
import sys
import threading
from types import SimpleNamespace

import pytest
from tests.hosting.places import Server, children, lives, ping, sample, wait

from headrace.contracts.serving import Request
from headrace.errors import RequestError
from headrace.hosting.failures import ContainerError
from headrace.hosting.http import server as server_module
from headrace.hosting.stage import script_stage
from headrace.hosting.workers.isolated import isolated_handler


def test_requests_are_answered_by_several_processes():
    with Server(sample("batching"), workers=2) as server:
        server.ready()
        wait(lambda: server.metric("headrace_workers_ready") == 2)
        assert server.post(b"hello") == (200, b"HELLO")
        pids = set()
        threads = [threading.Thread(target=lambda: pids.add(server.post(b"pid")[1])) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert pids <= {str(pid).encode() for pid in children(server.process.pid)}
        assert str(server.process.pid).encode() not in pids


def test_workers_share_the_processors_of_numeric_libraries(monkeypatch):
    from headrace.hosting.workers import process

    for name in process.THREADS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(process, "usable_cores", lambda: 8)
    assert set(process.numeric_thread_variables(3).values()) == {"2"}
    assert set(process.numeric_thread_variables(16).values()) == {"1"}
    with Server(sample("variable", arguments={"name": "OMP_NUM_THREADS"}), workers=1) as server:
        server.ready()
        assert int(server.post()[1]) >= 1
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert process.numeric_thread_variables(2) == {}


def test_requests_that_arrive_together_are_answered_together(tmp_path):
    with Server(sample("batching"), workers=1) as server:
        server.ready()
        counts = []
        first = threading.Thread(target=server.post, args=(b"until %s" % os.fsencode(tmp_path / "open"),))
        others = [threading.Thread(target=lambda: counts.append(int(server.post(b"count")[1]))) for _ in range(8)]
        first.start()
        wait(lambda: server.metric("headrace_requests_in_flight") == 1)
        for thread in others:
            thread.start()
        wait(lambda: server.metric("headrace_requests_in_flight") == 9)
        (tmp_path / "open").touch()
        for thread in [first, *others]:
            thread.join()
        assert max(counts) > 1
        assert server.metric("headrace_batch_size_sum") == 9


def test_a_worker_that_dies_is_replaced():
    with Server(sample("obedient"), workers=2) as server:
        server.ready()
        wait(lambda: server.metric("headrace_workers_ready") == 2)
        before = set(children(server.process.pid))
        status, body = server.post(b"die")
        assert status == 503
        assert (
            json.loads(body)["message"] == "the worker was killed by SIGKILL while it had this request; send it again"
        )
        assert server.post(b"hello") == (200, b"HELLO")
        wait(lambda: server.metric("headrace_workers_ready") == 2)
        assert len(before & set(children(server.process.pid))) == 1
        assert server.metric("headrace_worker_restarts_total") == 1
    assert "was killed by SIGKILL" in server.log


def test_failures_that_are_no_exceptions_leave_the_worker_alive():
    with Server(sample("obedient"), workers=1) as server:
        server.ready()
        for body, words in ((b"panic no", "no"), (b"odd x", "the container's answer cannot be sent: TypeError")):
            status, answer = server.post(body)
            assert status == 500
            assert json.loads(answer)["message"].startswith(words)
        assert server.post(b"hello") == (200, b"HELLO")
        assert server.metric("headrace_worker_restarts_total") == 0


def test_parameters_that_fail_are_reported_where_they_are_asked_for():
    with Server(sample("with_faulty_parameters"), workers=1) as server:
        server.ready()
        assert server.post(b"hello")[0] == 200


def test_no_worker_starts_with_another_version_while_others_answer(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "word").write_text("old")
    script = tmp_path / "script.py"
    script.write_text(
        "import os\n"
        "def model_fn(folder): return open(folder + '/word').read()\n"
        "def transform_fn(model, body, content_type, accept): return f'{model} {os.getpid()}', 'text/plain'\n"
    )
    with Server(script_stage(str(tmp_path / "model"), entry_point=script), workers=2) as server:
        server.ready()
        wait(lambda: server.metric("headrace_workers_ready") == 2)
        first = int(server.post()[1].split()[1])
        (tmp_path / "model" / "cache").write_text("written by a script")
        os.kill(first, signal.SIGKILL)
        wait(lambda: server.metric("headrace_worker_restarts_total") >= 1)
        wait(lambda: server.metric("headrace_workers_ready") == 2)
        (tmp_path / "model" / "word").write_text("newer")
        second = int(server.post()[1].split()[1])
        os.kill(second, signal.SIGKILL)
        wait(lambda: server.metric("headrace_worker_restarts_total") >= 3)
        assert server.metric("headrace_workers_ready") == 1
        word, third = server.post()[1].split()
        assert word == b"old"
        os.kill(int(third), signal.SIGKILL)
        wait(lambda: server.metric("headrace_workers_ready") == 2)
        assert server.post()[1].split()[0] == b"newer"


def test_with_one_worker_requests_wait_for_its_replacement():
    with Server(sample("obedient"), workers=1) as server:
        server.ready()
        assert server.post(b"exit 3")[0] == 503
        assert server.post(b"hello") == (200, b"HELLO")
    assert "ended with exit status 3" in server.log


def test_sigterm_finishes_what_is_in_flight(tmp_path):
    with Server(sample("obedient"), workers=1) as server:
        server.ready()
        found = []
        slow = threading.Thread(target=lambda: found.append(server.post(b"until %s" % os.fsencode(tmp_path / "go"))))
        slow.start()
        wait(lambda: server.metric("headrace_requests_in_flight") == 1)
        pids = children(server.process.pid)
        server.process.send_signal(signal.SIGTERM)
        wait(lambda: ping(server.address) is None, "the end of listening")
        (tmp_path / "go").touch()
        slow.join()
        assert found == [(200, b"found")]
        assert server.end() == 0
        wait(lambda: not any(map(lives, pids)), "the end of the workers")


def test_a_signal_that_comes_while_the_log_is_written_is_not_lost(monkeypatch):
    def busy(*_):
        raise RuntimeError("reentrant call inside <_io.BufferedWriter name='<stderr>'>")

    monkeypatch.setattr(server_module.LOG, "info", busy)
    running = SimpleNamespace(should_exit=False, force_exit=False)
    with server_module._signals(running):
        os.kill(os.getpid(), signal.SIGTERM)
        wait(lambda: running.should_exit)
        assert not running.force_exit
        os.kill(os.getpid(), signal.SIGINT)
        wait(lambda: running.force_exit)


@pytest.mark.skipif(sys.platform != "linux", reason="finds processes as Linux shows them")
def test_processes_started_by_workers_end_with_the_server():
    with Server(sample("obedient"), sample("obedient", isolated=True), workers=1) as server:
        server.ready()
        answer = server.post(b"start")[1]  # the first container starts a process, then the isolated one
        pid = int(answer.split()[-1])
        assert lives(pid)
        server.process.kill()
        wait(lambda: not lives(pid), "the end of what a worker has started")


def test_nothing_is_left_when_the_server_is_killed():
    with Server(sample("obedient"), sample("obedient", isolated=True), workers=2) as server:
        server.ready()
        wait(lambda: server.metric("headrace_workers_ready") == 2)
        workers = children(server.process.pid)
        pids = workers + [pid for worker in workers for pid in children(worker)]
        assert len(pids) == 4

        def ask():
            with pytest.raises(OSError):
                server.post(b"sleep 600")

        busy = threading.Thread(target=ask)
        busy.start()
        wait(lambda: server.metric("headrace_requests_in_flight") == 1)
        server.process.kill()
        wait(lambda: not any(map(lives, pids)), "the end of the workers")
        busy.join()


@pytest.mark.parametrize(
    ("factory", "reason"),
    [
        ("refuses_to_load", "FileNotFoundError: no model here"),
        ("exits_at_load", "SystemExit: gave up"),
        ("dies_at_load", "its process ended with exit status 7; the log may say why"),
        ("no_handler", "TypeError: sample_containers:no_handler returned int, which cannot answer requests"),
        ("missing", "AttributeError: module 'sample_containers' has no attribute 'missing'"),
    ],
)
def test_a_model_that_does_not_load(factory, reason):
    with Server(sample(factory), workers=1) as server:
        wait(lambda: "does not load" in (ping(server.address) or (0, ""))[1], "the reason")
        assert ping(server.address) == (503, f"the model does not load: {reason}")
        status, body = server.post(b"x")
        assert (status, json.loads(body)["message"]) == (503, f"the model does not load: {reason}")
    assert reason in server.log
    assert server.log.count("starting another worker") < 10


def test_a_second_try_may_succeed(tmp_path):
    with Server(sample("flaky", arguments={"marker": str(tmp_path / "marker")}), workers=1) as server:
        server.ready()
        assert server.post(b"hello") == (200, b"HELLO")


def test_isolated_containers_have_their_own_process_and_environment():
    stages = [
        sample("echo", arguments={"mark": "a"}, isolated=True, environment={"SAMPLE": "one"}),
        sample("echo", arguments={"mark": "b"}, environment={"SAMPLE": "two"}),
    ]
    with Server(*stages, workers=1) as server:
        server.ready()
        second = json.loads(server.post(b"x", Content_Type="text/csv")[1])
        first = json.loads(second["body"])
        assert (first["mark"], first["variable"], first["content_type"]) == ("a", "one", "text/csv")
        assert (second["mark"], second["variable"]) == ("b", "two")
        assert first["pid"] != second["pid"]


def test_an_isolated_container_that_dies_is_started_again():
    handler = isolated_handler(sample("obedient", isolated=True), "container-2")
    try:
        first = handler.pid
        with pytest.raises(RequestError, match="container-2 was killed by SIGKILL while it had this request") as caught:
            handler(Request(body=b"die", content_type="x"))
        assert caught.value.status == 503
        assert handler(Request(body=b"hello", content_type="x")).body == b"HELLO"
        assert handler.pid != first
        assert not lives(first)
    finally:
        handler.close()


def test_an_isolated_container_that_died_idle_fails_no_request():
    handler = isolated_handler(sample("obedient", isolated=True), "container-2")
    try:
        first = handler.pid
        os.kill(first, signal.SIGKILL)
        wait(lambda: handler._current.process.has_ended)
        assert handler(Request(body=b"hello", content_type="x")).body == b"HELLO"
        assert handler.pid != first
    finally:
        handler.close()


def test_an_isolated_container_answers_together_where_it_can():
    handler = isolated_handler(sample("batching", isolated=True), "container-1")
    try:
        answers = handler.answer_many(
            [Request(body=b"count", content_type="x")] * 2 + [Request(body=b"raise y", content_type="x")]
        )
        assert [answer.body for answer in answers[:2]] == [b"3", b"3"]
        assert isinstance(answers[2], ContainerError)
    finally:
        handler.close()
    alone = isolated_handler(sample("obedient", isolated=True), "container-1")
    alone.close()
    assert not hasattr(alone, "answer_many")


def test_an_isolated_container_that_does_not_load():
    with pytest.raises(ContainerError, match="FileNotFoundError: no model here"):
        isolated_handler(sample("refuses_to_load", isolated=True), "container-1")
    with Server(sample("echo"), sample("refuses_to_load", isolated=True), workers=1) as server:
        wait(lambda: "does not load" in (ping(server.address) or (0, ""))[1], "the reason")
        assert "no model here (from container-2)" in ping(server.address)[1]


def test_several_threads_in_one_worker(tmp_path):
    with Server(sample("obedient"), workers=1, threads=2) as server:
        server.ready()
        slow = threading.Thread(target=server.post, args=(b"until %s" % os.fsencode(tmp_path / "open"),))
        slow.start()
        wait(lambda: server.metric("headrace_requests_in_flight") == 1)
        assert server.post(b"hello") == (200, b"HELLO")
        assert server.metric("headrace_requests_in_flight") == 1
        (tmp_path / "open").touch()
        slow.join()


def test_another_interpreter(tmp_path):
    own = tmp_path / "python"
    own.write_text(f'#!/bin/sh\nOWN_PYTHON=yes exec "{sys.executable}" "$@"\n')
    own.chmod(0o755)
    handler = isolated_handler(
        sample("variable", arguments={"name": "OWN_PYTHON"}, interpreter=str(own)), "container-1"
    )
    try:
        assert handler(Request(body=b"", content_type="x")).body == b"yes"
    finally:
        handler.close()
