"""Which container had a request when its worker died or took too long."""

import gc
import json
import os

import pytest
from tests.hosting.places import Pool, Server, run_on_clock, sample, until

from headrace.containers.orphans import ProcessGuard
from headrace.hosting.workers.process import CurrentContainer, WorkerProcess, create_shared_memory, worker_spec

FIRST, SECOND = b"%s", b"status 200 %s"  # done by the first container, or passed on by it


def hold(path):
    return b"hold %s" % os.fsencode(path)


@pytest.fixture
def pair():
    return sample("obedient"), sample("obedient")


@pytest.mark.parametrize("without_memfd", [False, True])
def test_two_sides_see_the_same(monkeypatch, without_memfd):
    if without_memfd:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    descriptor = create_shared_memory(2)
    worker, server = (CurrentContainer(descriptor, 2, ["a", "b"]) for _ in range(2))
    os.close(descriptor)
    assert (server.name(0), server.name(1)) == (None, None)
    worker.enter(1, "b")
    worker.enter(0, "a")
    assert (server.name(0), server.name(1)) == ("a", "b")
    worker.enter(1, None)
    assert (server.name(0), server.name(1)) == ("a", None)


def test_a_single_container_is_not_named():
    descriptor = create_shared_memory(1)
    worker, server = (CurrentContainer(descriptor, 1, ["container-1"]) for _ in range(2))
    os.close(descriptor)
    worker.enter(0, "container-1")
    assert server.name(0) is None


def test_an_unknown_number_in_the_memory_names_no_container():
    descriptor = create_shared_memory(1)
    current = CurrentContainer(descriptor, 1, ["a", "b"])
    os.pwrite(descriptor, b"\xff", 0)
    os.close(descriptor)
    assert current.name(0) is None


@pytest.mark.parametrize(("form", "name"), [(FIRST, "container-1"), (SECOND, "container-2")])
def test_a_worker_that_dies(pair, form, name):
    with Server(*pair, workers=1) as server:
        server.ready()
        assert server.post(b"status 200 warm")[0] == 200  # which passed through both
        status, body = server.post(form % b"die")
    found = json.loads(body)
    assert (status, found["container"]) == (503, name)
    assert found["message"] == f"the worker was killed by SIGKILL while it had this request in {name}; send it again"


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(("form", "name"), [(FIRST, "container-1"), (SECOND, "container-2")])
def test_a_request_that_takes_too_long(tmp_path, pair, form, name, workers):
    async def run():
        async with Pool(*pair, workers=workers) as pool:
            _, answer = pool.submit(form % hold(tmp_path / "begun"))
            await until((tmp_path / "begun").exists)
            pool.pass_timeout()
            error = await answer
            (tmp_path / "go").touch()  # a thread cannot be killed
        assert (error.status, error.container) == (504, name)
        assert f"timed out while waiting for a response from container {name}" in error.reason

    run_on_clock(run())


def test_a_container_in_its_own_process_that_takes_too_long(tmp_path):
    async def run():
        async with Pool(sample("obedient"), sample("obedient", isolated=True), workers=1) as pool:
            _, answer = pool.submit(SECOND % hold(tmp_path / "begun"))
            await until((tmp_path / "begun").exists)
            pool.pass_timeout()
            error = await answer
        assert (error.status, error.container) == (504, "container-2")

    run_on_clock(run())


@pytest.mark.parametrize("workers", [0, 1])
def test_each_of_several_at_a_time(tmp_path, pair, workers):
    async def run():
        async with Pool(*pair, workers=workers, threads=2) as pool:
            (_, first), (_, second) = (
                pool.submit(form % hold(tmp_path / name)) for form, name in ((FIRST, "one"), (SECOND, "two"))
            )
            await until(lambda: (tmp_path / "one").exists() and (tmp_path / "two").exists())
            pool.pass_timeout()
            assert ((await first).container, (await second).container) == ("container-1", "container-2")
            (tmp_path / "go").touch()

    run_on_clock(run())


def test_a_queued_request_names_no_container(tmp_path, pair):
    async def run():
        async with Pool(*pair, workers=1) as pool:
            _, held = pool.submit(hold(tmp_path / "begun"))
            await until((tmp_path / "begun").exists)
            _, queued = pool.submit(b"status 200 x")
            pool.pass_timeout()
            answers = await held, await queued
        assert [(answer.status, answer.container) for answer in answers] == [(504, "container-1"), (504, None)]

    run_on_clock(run())


def test_a_worker_that_hangs_is_replaced(tmp_path, pair):
    async def run():
        async with Pool(*pair, workers=1) as pool:
            (first,) = pool.workers.pids
            _, held = pool.submit(hold(tmp_path / "begun"))
            await until((tmp_path / "begun").exists)
            pool.pass_timeout()
            assert (await held).status == 504
            await until(lambda: pool.workers.pids not in ([], [first]))
            _, answer = pool.submit(b"status 200 x")
            assert (await answer).body == b"X"

    run_on_clock(run())


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
@pytest.mark.parametrize("place", ["ProcessGuard", "os.pipe", "create_shared_memory", "subprocess.Popen"])
def test_a_process_that_cannot_be_started_leaves_nothing_open(monkeypatch, pair, place):
    def fails(*_, **__):
        raise OSError(24, "Too many open files")

    ProcessGuard()  # starts the watchdog of this process, which stays
    monkeypatch.setattr(f"headrace.hosting.workers.process.{place}", fails)
    gc.collect()
    before = set(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="Too many"):
        WorkerProcess(worker_spec(pair), channels=2)
    gc.collect()
    assert set(os.listdir("/proc/self/fd")) <= before
