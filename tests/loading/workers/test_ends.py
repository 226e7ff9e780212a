"""However it ends, nothing is left behind and nothing waits forever."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from tests.forks import exit_code, fork
from tests.loading.fakes import Numbers
from tests.loading.workers import fakes
from tests.loading.workers.test_workers import METHODS, forked, no_child

import headrace as hr

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*fork:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]
ROOT = Path(__file__).parents[3]
HEAD = """
import multiprocessing, os, sys, time
import numpy as np
import headrace as hr
from tests.loading.fakes import Numbers
from tests.loading.workers import fakes

def pids():
    return sorted(child.pid for child in multiprocessing.active_children() if child.name.startswith("headrace"))
"""


def script(tmp_path, body):
    """A script with a main guard, as new processes need it."""
    path = tmp_path / "script.py"
    path.write_text(
        textwrap.dedent(HEAD) + "\nif __name__ == '__main__':\n" + textwrap.indent(textwrap.dedent(body), "    ")
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}
    return subprocess.Popen(
        [sys.executable, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )


def run(tmp_path, body):
    with script(tmp_path, body) as process:
        out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def all_end(pids, limit_s=300):
    end = time.monotonic() + limit_s
    while any(map(alive, pids)):
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def has_no_name(descriptor):
    """Whether a file exists only while processes hold it."""
    return os.readlink(f"/proc/self/fd/{descriptor}").endswith("(deleted)")


@pytest.mark.parametrize("method", METHODS)
def test_a_worker_is_killed(method):
    """Earlier batches are delivered; then the error says which worker ended, how, and over what."""
    loader = hr.Loader(fakes.columns().map(fakes.killed_at_100), 8, workers=2, start_method=method)
    seen = []
    with pytest.raises(hr.WorkerDied, match=r"worker [01] \(process \d+\) was killed by SIGKILL") as failure:
        for batch in loader:
            seen += batch["i"].tolist()
    assert seen == list(range(96))
    assert "while it made batch 12 of epoch 0 (positions 96 to 104)" in str(failure.value)
    assert "Most often memory ran out" in str(failure.value)
    assert loader.state_dict()["position"] == 96
    assert no_child()


def test_an_idle_worker_is_killed():
    batches = iter(forked(Numbers(100_000, cuts_cleanly=False), 1))
    next(batches)
    for worker in batches._blocks._crew.workers:
        os.kill(worker.process.pid, signal.SIGKILL)
    with pytest.raises(hr.WorkerDied):
        list(batches)
    assert no_child()


def test_a_worker_cannot_even_start(tmp_path):
    """A script without a main guard: the new process would run it again."""
    code = "import headrace as hr, numpy as np\nfor b in hr.Loader(hr.ColumnSource({'x': np.arange(9)}), 3, workers=2, start_method='spawn'): pass"
    path = tmp_path / "unguarded.py"
    path.write_text(code)
    done = subprocess.run([sys.executable, str(path)], check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert "WorkerDied: worker" in done.stderr
    assert "ended with exit status 1" in done.stderr
    assert "if __name__ == '__main__'" in done.stderr


@pytest.mark.parametrize("method", METHODS)
def test_the_consumer_is_killed(method, tmp_path):
    """Workers in the middle of a job end too, and the unnamed segment with them."""
    with script(
        tmp_path,
        f"""
        batches = iter(hr.Loader(Numbers(1000, cuts_cleanly=False), 8, workers=2, start_method={method!r},
                                 map_batch=fakes.slow_after_80))
        for _ in range(10): next(batches)
        print(*pids(), flush=True)
        next(batches)
        """,
    ) as consumer:
        pids = [int(pid) for pid in consumer.stdout.readline().split()]
        assert len(pids) == 2
        assert all(map(alive, pids))
        consumer.kill()
        consumer.communicate(timeout=300)
    assert all_end(pids)


def test_ctrl_c(tmp_path):
    """Sent to the whole group, as by a terminal: at most one traceback, from the consumer."""
    with script(
        tmp_path,
        """
        try:
            for batch in hr.Loader(Numbers(100000, cuts_cleanly=False), 8, workers=2, start_method="fork"):
                if batch["i"][0] == 80: print(*pids(), flush=True)
        except KeyboardInterrupt:
            print("interrupted", pids(), flush=True)
        """,
    ) as consumer:
        pids = [int(pid) for pid in consumer.stdout.readline().split()]
        os.killpg(consumer.pid, signal.SIGINT)
        out, err = consumer.communicate(timeout=300)
    assert (out, err) == ("interrupted []\n", "")
    assert all_end(pids)


@pytest.mark.parametrize(
    ("method", "end"),
    [(method, "pass") for method in METHODS] + [("fork", "sys.exit(3)"), ("fork", "raise RuntimeError('stop')")],
)
def test_the_consumer_leaves_in_the_middle(method, end, tmp_path):
    code, out, err = run(
        tmp_path,
        f"""
        batches = iter(hr.Loader(Numbers(100000, cuts_cleanly=False), 8, workers=2, start_method={method!r}))
        next(batches)
        print(*pids(), flush=True)
        {end}
        """,
    )
    assert code == {"p": 0, "s": 3, "r": 1}[end[0]]
    assert err.strip().endswith("RuntimeError: stop") if end[0] == "r" else err == ""
    pids = [int(pid) for pid in out.split()]
    assert len(pids) == 2
    assert all_end(pids)


def test_an_abandoned_iterator():
    batches = iter(forked(Numbers(1000, cuts_cleanly=False), 8, map_batch=fakes.slow_after_80))
    next(batches)
    pids = [worker.process.pid for worker in batches._blocks._crew.workers]
    batch = next(batches)
    del batches
    assert not any(map(alive, pids))
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids), "not even as a zombie"
    assert batch["i"].tolist() == list(range(8, 16))


def test_closing_does_not_wait_for_a_long_job():
    batches = iter(forked(Numbers(1000, cuts_cleanly=False), 8, map_batch=fakes.slow_after_80))
    for _ in range(10):
        next(batches)
    batches.close()  # The job would take an hour.
    assert no_child()
    with pytest.raises(StopIteration):
        next(batches)


def test_an_iterator_continues_in_a_forked_child():
    """It plans again with its own workers; the parent's are not disturbed, though the child has copies of their descriptors."""
    wanted = list(range(300))
    batches = iter(forked(fakes.columns(), 10))
    seen = next(batches)["i"].tolist()
    child = fork(lambda: seen + [i for batch in batches for i in batch["i"].tolist()] == wanted)
    assert seen + [i for batch in batches for i in batch["i"].tolist()] == wanted
    assert exit_code(child) == 0
    assert no_child()


def test_a_forked_child_needs_no_fork_server_of_its_parent():
    """Python waits for the server as for a child of its own."""
    loader = hr.Loader(fakes.columns(30), 10, workers=1, start_method="forkserver")
    assert len(list(loader)) == 3
    assert exit_code(fork(lambda: [i for batch in loader for i in batch["i"].tolist()] == list(range(30)))) == 0


@pytest.mark.parametrize("method", ["fork", None])
def test_a_loop_in_a_thread_that_ends_before_the_next_begins(method):
    """Workers belong to the process, not to the thread that started them."""
    loader = hr.Loader(fakes.columns(), 10, workers=2, start_method=method)
    batches, seen = iter(loader), []
    for _ in range(3):
        thread = threading.Thread(target=lambda: seen.extend(next(batches)["i"].tolist()))
        thread.start()
        thread.join()
    assert seen + [i for batch in batches for i in batch["i"].tolist()] == list(range(300))
    assert no_child()


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_an_iterator_in_a_cycle_closes_everything_once(tmp_path, method):
    body = f"""
        import gc
        class Trainer: pass
        def loop():
            trainer = Trainer()
            trainer.me = trainer
            trainer.batches = iter(hr.Loader(Numbers(1000), 8, workers=2, start_method={method!r}, epochs=None))
            next(trainer.batches)
        for _ in range(4):
            loop()
            gc.collect()
            left = [os.readlink(f"/proc/self/fd/{{each}}") for each in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{{each}}")]
            print(pids(), [name for name in left if "headrace" in name])
    """
    status, out, err = run(tmp_path, body)
    assert (status, out, err) == (0, "[] []\n" * 4, "")


def test_a_limit_of_the_size_of_files(tmp_path):
    body = """
        import resource
        for limit in (8 << 20, 1 << 20, 1 << 14):
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            try:
                print(sum(len(batch["x"]) for batch in hr.Loader(hr.ColumnSource({"x": np.zeros((100, 1000))}), 50, workers=2)))
            except hr.UnsupportedData as error:
                print(error)
    """
    status, out, err = run(tmp_path, body)
    assert (status, err) == (0, "")
    whole, *refused = out.splitlines()
    assert whole == "100"
    for room, line in zip(("131,072", "65,536"), refused, strict=True):
        assert line.startswith(
            f"expected batches of up to {room} bytes, found 400,192. Use workers=0 or raise the limit of the size of"
        )


def test_without_memfd(monkeypatch):
    """Without memfd, the segment is an unlinked file."""
    monkeypatch.delattr(os, "memfd_create")
    monkeypatch.delattr(os, "posix_fallocate")
    batches = iter(forked(fakes.columns(), 10))
    first = next(batches)
    assert has_no_name(batches._blocks._crew.segment)
    assert first["i"].tolist() + [i for batch in batches for i in batch["i"].tolist()] == list(range(300))


def test_the_segment_has_no_name():
    batches = iter(forked(fakes.columns(), 10))
    next(batches)
    assert has_no_name(batches._blocks._crew.segment)
    batches.close()


def test_loaders_inside_of_workers_are_refused():
    loader = forked(fakes.columns(20), 10, map_batch=loop_over_another)
    with pytest.raises(hr.TransformError, match="workers=0 in a process that is a worker itself"):
        list(loader)


def loop_over_another(batch):
    return list(forked(Numbers(10), 2))


def test_workers_see_neither_ctrl_c_nor_the_handlers_of_the_consumer():
    called = []
    before = signal.signal(signal.SIGTERM, lambda *_: called.append(os.getpid()))
    try:
        batches = iter(forked(Numbers(1000, cuts_cleanly=False), 8))
        next(batches)
        for worker in batches._blocks._crew.workers:
            os.kill(worker.process.pid, signal.SIGINT)
        for _ in range(30):
            next(batches)
        batches.close()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert called == []


def test_functions_of_a_script_on_a_worker_of_ray(monkeypatch):
    """Ray sends the training function by value: its __main__ is not the script."""
    monkeypatch.setitem(sys.modules, "ray", sys)

    def double(example):
        return example

    double.__module__, double.__qualname__ = "__main__", "double"
    with pytest.raises(hr.UnsupportedData, match="On a worker of Ray, __main__ is not your script.*a module"):
        next(iter(hr.Loader(fakes.columns(30).map(double), 10, workers=1, start_method="forkserver")))
