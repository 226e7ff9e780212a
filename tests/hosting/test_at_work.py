"""Which container a request was in when its worker died or took too long."""

import gc
import json
import os
import threading

import pytest
from tests.hosting.places import Server, local, sample

from headrace.containers.orphans import Tied
from headrace.hosting.workers.process import AtWork, WorkerProcess, new_memory, order_for

FIRST, SECOND = b"%s", b"status 200 %s"  # done by the first container, or handed on by it


@pytest.fixture
def pair():
    return sample("obedient"), sample("obedient")


@pytest.mark.parametrize("without_memfd", [False, True])
def test_two_sides_see_the_same(monkeypatch, without_memfd):
    if without_memfd:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    descriptor = new_memory(2)
    worker, server = (AtWork(descriptor, 2, ["a", "b"]) for _ in range(2))
    os.close(descriptor)
    assert (server.name(0), server.name(1)) == (None, None)
    worker.enter(1, "b")
    worker.enter(0, "a")
    assert (server.name(0), server.name(1)) == ("a", "b")
    worker.enter(1, None)
    assert (server.name(0), server.name(1)) == ("a", None)


def test_one_that_is_alone_is_not_named():
    descriptor = new_memory(1)
    worker, server = (AtWork(descriptor, 1, ["container-1"]) for _ in range(2))
    os.close(descriptor)
    worker.enter(0, "container-1")
    assert server.name(0) is None


def test_nonsense_in_the_memory_names_nobody():
    descriptor = new_memory(1)
    at_work = AtWork(descriptor, 1, ["a", "b"])
    os.pwrite(descriptor, b"\xff", 0)
    os.close(descriptor)
    assert at_work.name(0) is None


@pytest.mark.parametrize(("form", "name"), [(FIRST, "container-1"), (SECOND, "container-2")])
def test_a_worker_that_dies(pair, form, name):
    with Server(*pair, workers=1) as server:
        server.ready()
        assert server.post(b"status 200 warm")[0] == 200  # which was in both
        status, body = server.post(form % b"die")
    told = json.loads(body)
    assert (status, told["container"]) == (503, name)
    assert told["message"] == f"the worker was killed by SIGKILL while it had this request in {name}; send it again"


@pytest.mark.parametrize(("form", "name"), [(FIRST, "container-1"), (SECOND, "container-2")])
def test_a_worker_that_takes_too_long(pair, form, name):
    with Server(*pair, workers=1, timeout_s=3) as server:
        server.ready()
        status, body = server.post(form % b"sleep 600")
    told = json.loads(body)
    assert (status, told["container"]) == (504, name)
    assert f"timed out while waiting for a response from container {name}" in told["message"]


def test_a_container_in_its_own_process_that_takes_too_long():
    with Server(sample("obedient"), sample("obedient", isolated=True), workers=1, timeout_s=3) as server:
        server.ready()
        status, body = server.post(SECOND % b"sleep 600")
    assert (status, json.loads(body)["container"]) == (504, "container-2")


@pytest.mark.parametrize("workers", [0, 1])
def test_each_of_several_at_a_time(pair, workers):
    answers = {}

    def ask(post, form):
        answers[form] = post(form % b"sleep 3")

    def ask_all(post):
        threads = [threading.Thread(target=ask, args=(post, form)) for form in (FIRST, SECOND)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    if workers:
        with Server(*pair, workers=1, threads=2, timeout_s=0.5) as server:
            server.ready()
            ask_all(server.post)
        found = {form: json.loads(body)["container"] for form, (_, body) in answers.items()}
    else:
        with local(*pair, threads=2, timeout_s=0.5) as client:
            ask_all(lambda body: client.post("/invocations", content=body))
        found = {form: answer.json()["container"] for form, answer in answers.items()}
    assert found == {FIRST: "container-1", SECOND: "container-2"}


def test_a_request_that_nothing_has_taken_names_nobody(pair):
    answers = []
    with Server(*pair, workers=1, timeout_s=1) as server:
        server.ready()
        threads = [threading.Thread(target=lambda: answers.append(server.post(b"sleep 600"))) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    told = [json.loads(body) for _, body in answers]
    assert [status for status, _ in answers] == [504, 504]
    assert sorted(one.get("container", "") for one in told) == ["", "container-1"]


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
@pytest.mark.parametrize("place", ["Tied", "os.pipe", "new_memory", "subprocess.Popen"])
def test_a_process_that_cannot_be_started_leaves_nothing_open(monkeypatch, pair, place):
    def fails(*_, **__):
        raise OSError(24, "Too many open files")

    Tied()  # starts the watchdog of this process, which stays
    monkeypatch.setattr(f"headrace.hosting.workers.process.{place}", fails)
    gc.collect()
    before = set(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="Too many"):
        WorkerProcess(order_for(pair), channels=2)
    gc.collect()
    assert set(os.listdir("/proc/self/fd")) <= before
