"""Limits of control groups, from folders that imitate the system's."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from headrace.io import system
from headrace.io.local import mapped as mapping_limits
from headrace.io.system import (
    as_pool_thread,
    cached_property,
    cpu_limit,
    memory_limit,
    spare_cores,
    usable_cores,
    usable_memory,
    whole_cpus,
)

V2_MOUNT = "35 25 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
V1_MOUNT = "36 25 0:31 / /sys/fs/cgroup/memory rw shared:10 - cgroup cgroup rw,memory\n"
V1_CPU = "37 25 0:32 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"


def tree(root: Path, groups: str, mounts: str, **files: str) -> str:
    """A root folder; ``files`` are relative to ``/sys/fs/cgroup``, with two underscores for each slash."""
    contents = {"proc/self/cgroup": groups, "proc/self/mountinfo": mounts}
    contents |= {"sys/fs/cgroup/" + name.replace("__", "/").replace("-", "."): text for name, text in files.items()}
    for name, text in contents.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(root)


def test_no_limits(tmp_path):
    assert memory_limit(str(tmp_path)) is None
    assert cpu_limit(str(tmp_path)) is None
    root = tree(
        tmp_path,
        "0::/a\n",
        V2_MOUNT,
        **{"a__memory.max": "max\n", "a__memory.high": "max\n", "a__cpu.max": "max 100000\n"},
    )
    assert memory_limit(root) is None
    assert cpu_limit(root) is None


def test_version_2(tmp_path):
    files = {"a__b__memory.max": "1000\n", "a__b__memory.high": "900\n", "a__b__cpu.max": "150000 100000\n"}
    root = tree(tmp_path, "0::/a/b\n", V2_MOUNT, **files)
    assert memory_limit(root) == 900
    assert cpu_limit(root) == 1.5


@pytest.mark.parametrize(("inner", "outer"), [("500", "700"), ("700", "500"), ("max", "500"), ("500", "max")])
def test_the_least_limit_on_the_way_up_counts(tmp_path, inner, outer):
    root = tree(tmp_path, "0::/a/b/c\n", V2_MOUNT, **{"a__b__c__memory.max": inner, "a__memory.max": outer})
    assert memory_limit(root) == 500


def test_version_1(tmp_path):
    groups = "12:cpuset:/\n5:memory:/docker/x\n4:cpu,cpuacct:/docker/x\n0::/\n"
    files = {
        "memory__docker__x__memory.limit_in_bytes": "419430400\n",
        "memory__memory.limit_in_bytes": "9223372036854771712\n",
        "cpu,cpuacct__docker__x__cpu.cfs_quota_us": "200000\n",
        "cpu,cpuacct__docker__x__cpu.cfs_period_us": "100000\n",
        "cpu,cpuacct__cpu.cfs_quota_us": "-1\n",
        "cpu,cpuacct__cpu.cfs_period_us": "100000\n",
    }
    root = tree(tmp_path, groups, V1_MOUNT + V1_CPU, **files)
    assert memory_limit(root) == 419430400
    assert cpu_limit(root) == 2


def test_version_1_without_a_limit(tmp_path):
    root = tree(tmp_path, "5:memory:/\n", V1_MOUNT, **{"memory__memory.limit_in_bytes": "9223372036854771712\n"})
    assert memory_limit(root) is None


def test_a_container_that_sees_its_own_group_as_the_root(tmp_path):
    mount = "36 25 0:31 /docker/x /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
    root = tree(tmp_path, "5:memory:/docker/x\n", mount, **{"memory__memory.limit_in_bytes": "1234\n"})
    assert memory_limit(root) == 1234


@pytest.mark.parametrize("path", ["/../outside", "/elsewhere", "/"])
def test_a_group_that_cannot_be_seen(tmp_path, path):
    mount = "36 25 0:31 /docker/x /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n"
    root = tree(tmp_path, f"0::{path}\n", mount, **{"memory.max": "1234\n"})
    assert memory_limit(root) == 1234


def test_places_with_spaces(tmp_path):
    mount = "35 25 0:30 / /sys/fs/cgroup/my\\040groups rw - cgroup2 cgroup2 rw\n"
    root = tree(tmp_path, "0::/a:b\n", mount, **{"my groups__a:b__memory.max": "77"})
    assert memory_limit(root) == 77


@pytest.mark.parametrize("text", ["", "nonsense", "-5", "1 2"])
def test_files_that_say_something_else(tmp_path, text):
    root = tree(tmp_path, "0::/\nbad line\n", "bad line\n - \n" + V2_MOUNT, **{"memory.max": text, "cpu.max": text})
    assert memory_limit(root) is None
    assert cpu_limit(root) in (None, 0.5)


def test_limits_count_where_memory_and_cores_do(monkeypatch):
    for cached in (usable_memory, mapping_limits.scattered_limit, system._allowed_cores):
        cached.cache_clear()
    monkeypatch.delenv("HEADRACE_MAPPED_BYTES", raising=False)
    monkeypatch.setattr(system, "memory_limit", lambda: 400 << 20)
    monkeypatch.setattr(system, "cpu_limit", lambda: 0.2)
    try:
        assert usable_memory() == 400 << 20
        assert mapping_limits.scattered_limit() == 100 << 20
        assert system.usable_cores() == 1
    finally:
        for cached in (usable_memory, mapping_limits.scattered_limit, system._allowed_cores):
            cached.cache_clear()


def test_a_fraction_of_a_processor_counts_as_one():
    assert [whole_cpus(limit) for limit in (0.1, 1, 1.5, 2)] == [1, 1, 2, 2]


def test_cores_that_the_process_is_bound_to(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 5, 6}, raising=False)
    assert usable_cores() == 3


def test_all_cores_where_the_system_does_not_tell(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert usable_cores() == 7
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert usable_cores() == 1


def test_a_call_may_use_all_cores_in_the_main_thread_alone(monkeypatch):
    monkeypatch.setattr(system, "usable_cores", lambda: 5)
    assert spare_cores() == 5
    with as_pool_thread():
        assert spare_cores() == 1
        with as_pool_thread():
            pass
        assert spare_cores() == 1
    assert spare_cores() == 5
    found = []
    thread = threading.Thread(target=lambda: found.append(spare_cores()))
    thread.start()
    thread.join()
    assert found == [1]


def test_a_property_that_one_instance_computes_blocks_no_other_and_no_child():
    """`functools.cached_property` of Python 3.11 holds one lock for all instances, which a child that is forked meanwhile keeps forever."""

    class Slow:
        calls = 0

        def __init__(self, ready: threading.Event) -> None:
            self.ready = ready

        @cached_property
        def value(self) -> object:
            self.calls += 1
            entered.release()
            assert self.ready.wait(60)
            return object()

    entered = threading.Semaphore(0)
    released, ready = threading.Event(), threading.Event()
    ready.set()
    slow, found = Slow(released), []
    threads = [threading.Thread(target=lambda: found.append(slow.value)) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert entered.acquire(timeout=60)
    assert Slow(ready).value is not None
    child = os.fork()
    if not child:
        signal.alarm(30)
        os._exit(Slow(ready).value is None)
    assert os.waitpid(child, 0)[1] == 0
    released.set()
    for thread in threads:
        thread.join(60)
    assert (slow.calls, len(found), len(set(map(id, found)))) == (1, 3, 1)
    assert not system._computing


def test_a_property_that_fails_is_computed_again():
    class Failing:
        calls = 0

        @cached_property
        def value(self) -> int:
            self.calls += 1
            if self.calls == 1:
                raise OSError("once")
            return self.calls

    failing = Failing()
    with pytest.raises(OSError, match="once"):
        _ = failing.value
    assert (failing.value, failing.value, failing.calls) == (2, 2, 2)
    assert isinstance(Failing.value, cached_property)
    assert not system._computing
