"""Work in a thread of its own."""

import subprocess
import sys
import threading
import time

import pytest
from tests.forks import exit_code, fork

from penstock.io.ahead import ahead


def test_same_items_same_order():
    assert list(ahead(range(1000))) == list(range(1000))
    assert list(ahead([])) == []
    assert list(ahead(ahead(range(100)), depth=1)) == list(range(100))


def test_works_in_advance_but_not_further_than_asked():
    made = []

    def items():
        for number in range(100):
            made.append(number)
            yield number

    running = ahead(items(), depth=3)
    next(running)
    deadline = time.monotonic() + 300
    while len(made) < 4 and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(0.02)
    assert 4 <= len(made) <= 5
    running.close()


def test_an_error_comes_in_its_place():
    def items():
        yield 1
        raise KeyError("mine")

    running = ahead(items())
    assert next(running) == 1
    with pytest.raises(KeyError, match="mine"):
        next(running)


def test_closing_stops_the_thread_and_closes_the_items():
    closed = threading.Event()

    def items():
        try:
            while True:
                yield 0
        finally:
            closed.set()

    before = threading.active_count()
    running = ahead(items(), depth=2)
    next(running)
    running.close()
    assert closed.is_set()
    assert threading.active_count() == before


def test_a_forked_child_is_told_instead_of_waiting_for_ever():
    running = ahead(iter(range(1000)), depth=1)
    next(running)

    def told():
        with pytest.raises(RuntimeError):
            next(running)
        return True

    assert exit_code(fork(told)) == 0
    running.close()


def test_a_process_may_end_in_the_middle():
    script = "from penstock.io.ahead import ahead; import itertools; kept = ahead(itertools.count()); next(kept); print('end')"
    done = subprocess.run([sys.executable, "-c", script], timeout=300, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("end\n", "")
