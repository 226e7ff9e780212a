"""Forks, exits and signals: no hangs, nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import pytest
from tests.forks import exit_code, fork
from tests.loading.fakes import Numbers, indices_of, loader_threads
from tests.loading.test_loader import batches_of

from headrace import _native
from headrace.loading.loader import Loader

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    # JAX, where another test has imported it, and Python 3.12 warn of forks in general.
    pytest.mark.filterwarnings("ignore:.*fork:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]

SOURCE = """
import os, sys, threading, time
import numpy as np
from headrace.loading.loader import Loader

class Slow:
    cuts_cleanly = True
    def __len__(self): return 100_000
    def batch(self, indices):
        time.sleep(0.002)
        return {"i": indices}
"""


def in_child(work):
    """Run ``work`` in a forked child, and pass on whether it returned in time."""

    def returned():
        work()
        return True

    assert exit_code(fork(returned)) == 0


def run_script(body, *, timeout=300):
    code = textwrap.dedent(SOURCE) + textwrap.dedent(body)
    return subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=timeout)


@pytest.mark.parametrize("threads", [0, 1, 3])
@pytest.mark.parametrize("read_before", [0, 1, 20])
def test_an_iterator_continues_in_a_child(threads, read_before):
    loader = Loader(Numbers(500), 3, threads=threads, prefetch=4)
    batches = iter(loader)
    first = [next(batches) for _ in range(read_before)]

    def read_the_rest():
        assert indices_of(first + list(batches)) == batches_of(500, 3)
        assert not loader_threads()
        assert indices_of(loader) == batches_of(500, 3)

    in_child(read_the_rest)
    # The parent's own iterator is not disturbed.
    assert indices_of(first + list(batches)) == batches_of(500, 3)


def test_a_child_of_a_child():
    loader = Loader(Numbers(300), 3, threads=2)
    batches = iter(loader)
    first = [next(batches)]

    def fork_again():
        first.append(next(batches))

        def read_the_rest():
            assert indices_of(first + list(batches)) == batches_of(300, 3)

        in_child(read_the_rest)
        assert indices_of(first + list(batches)) == batches_of(300, 3)

    in_child(fork_again)
    assert indices_of(first + list(batches)) == batches_of(300, 3)


def test_forks_while_threads_work():
    """The child does not wait for anything a thread held during the fork."""
    batches = iter(Loader(Numbers(100_000), 2, threads=3, prefetch=8))
    for _ in range(20):
        for _ in range(37):
            next(batches)

        def go_on():
            for _ in range(50):
                next(batches)
            batches.close()

        in_child(go_on)
    batches.close()


def test_letting_go_in_a_child():
    held = [iter(Loader(Numbers(1000), 2, threads=2))]
    next(held[0])
    in_child(held.clear)
    held[0].close()


def test_a_child_has_its_own_pool():
    array = _native.take_rows(b"12345678", 0, 2, 4, __import__("numpy").array([0, 1, 2, 3]))
    assert _native.pool_stats()["used_bytes"] > 0

    def look():
        assert _native.pool_stats()["used_bytes"] == 0
        assert array.tobytes() == b"12345678"

    in_child(look)


def test_exit_in_the_middle_of_a_loop():
    done = run_script(
        """
        batches = iter(Loader(Slow(), 4, threads=3, prefetch=4))
        for _ in range(5): next(batches)
        print("leaving")
        """
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "leaving\n", "")


def test_exit_by_an_exception_in_the_middle_of_a_loop():
    done = run_script(
        """
        batches = iter(Loader(Slow(), 4, threads=3, prefetch=4))
        for batch in batches:
            raise SystemExit(7)
        """
    )
    assert (done.returncode, done.stderr) == (7, "")


def test_ctrl_c():
    code = textwrap.dedent(SOURCE) + textwrap.dedent(
        """
        try:
            for batch in Loader(Slow(), 4, threads=2):
                print("batch", flush=True)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
            for thread in threading.enumerate():
                if thread.name.startswith("headrace"): thread.join()
            print("no threads", flush=True)
        """
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout.readline() == "batch\n"
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=300)
    assert out.endswith("interrupted\nno threads\n")
    assert err == ""


def test_workers_of_a_process_pool():
    """Loaders can be pickled to new processes."""
    done = run_script(
        """
        import pickle
        loader = Loader(Slow(), 1000, threads=1)
        copy = pickle.loads(pickle.dumps(loader))
        assert sum(len(batch["i"]) for batch in copy) == 100_000
        print("all")
        """
    )
    assert (done.stdout, done.stderr) == ("all\n", "")
