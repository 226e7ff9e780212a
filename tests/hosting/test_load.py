"""Two thousand requests from 32 connections, and a worker killed half-way: no wrong, lost or hanging request."""

import os
import signal

import pytest
from benchmarks.serving.endpoint import stages
from benchmarks.serving.load import Load
from benchmarks.serving.prepare import prepare
from tests.hosting.places import Server, children, lives, wait

REQUESTS = 2000
CONNECTIONS = 32


@pytest.fixture(scope="module")
def abalone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    before = os.environ.pop("SERVING_MODELS", None)
    answers = prepare(folder)
    os.environ.pop("SERVING_MODELS")
    if before is not None:
        os.environ["SERVING_MODELS"] = before
    return folder, answers


@pytest.mark.parametrize("isolated", [False, True])
def test_a_worker_is_killed_half_way(abalone, isolated):
    import json
    from dataclasses import replace

    folder, answers = abalone
    first, second = stages(folder)
    with Server(first, replace(second, isolated=isolated), workers=2) as server:
        server.ready()
        wait(lambda: server.metric("headrace_workers_ready") == 2)
        pids = children(server.process.pid)
        victim = children(pids[0])[0] if isolated else pids[0]

        def kill(count):
            if count == REQUESTS // 2:
                os.kill(victim, signal.SIGKILL)

        def check(number, body):
            return abs(json.loads(body)["predictions"][0]["score"] - answers[number][1]) < 1e-9

        bodies = [text.encode() for text, _ in answers]
        load = Load(f"{server.address}/invocations", bodies, "text/csv", check, kill)
        outcome = load.run(CONNECTIONS, most=REQUESTS)
        assert outcome.wrong == []
        assert outcome.lost == 0
        assert outcome.statuses.total() == REQUESTS
        assert set(outcome.statuses) <= {200, 503}
        # At most the requests of the killed process; the first death of an isolated one pauses nothing.
        assert outcome.statuses[503] <= CONNECTIONS
        assert outcome.statuses[200] >= REQUESTS - CONNECTIONS
        assert not lives(victim)
        assert server.metric("headrace_batch_size_count") < REQUESTS
        wait(lambda: server.metric("headrace_workers_ready") == 2)
        again = load.run(CONNECTIONS, most=2 * CONNECTIONS)
        assert set(again.statuses) == {200}
