"""Prefetched jobs: in order, no polling, nothing left behind."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.loading.fakes import wait_for_threads

from headrace.io.threads import start_thread
from headrace.loading.prefetch import Prefetcher

THREADS = pytest.mark.parametrize("threads", [0, 1, 3])


def numbers(count):
    return (partial(int, i) for i in range(count))


class Failing:
    def __init__(self, at, error):
        self.at, self.error = at, error

    def jobs(self, count):
        return (partial(self.run, i) for i in range(count))

    def run(self, i):
        if i == self.at:
            raise self.error
        return i


@settings(deadline=None)
@given(st.integers(0, 30), st.integers(0, 4), st.integers(0, 5), st.booleans())
def test_results_come_in_order(count, threads, ahead, helping):
    made = Prefetcher(numbers(count), threads=threads, ahead=ahead, helping=helping)
    assert list(made) == list(range(count))
    made.close()
    assert wait_for_threads()


def test_order_holds_when_later_jobs_are_faster():
    done = [threading.Event() for _ in range(6)]

    def job(i):
        if i % 2 == 0:
            assert done[i + 1].wait(300)
        done[i].set()
        return i

    made = Prefetcher((partial(job, i) for i in range(6)), threads=3, ahead=5)
    assert list(made) == list(range(6))
    made.close()


@pytest.mark.parametrize("ahead", [1, 2, 5])
def test_no_further_ahead_than_asked(ahead):
    asked = []

    def jobs():
        for i in range(100):
            asked.append(i)
            yield partial(int, i)

    made = Prefetcher(jobs(), threads=2, ahead=ahead)
    assert next(made) == 0
    assert len(asked) == 1 + ahead
    assert next(made) == 1
    assert len(asked) == 2 + ahead
    made.close()


def test_nothing_happens_before_the_first_result_is_asked_for(own_threads):
    begun = []
    made = Prefetcher((partial(begun.append, i) for i in range(5)), threads=2, ahead=4)
    assert not own_threads()
    assert not begun
    made.close()


@THREADS
def test_an_error_comes_in_its_place(threads):
    made = Prefetcher(Failing(3, KeyError("three")).jobs(10), threads=threads, ahead=4)
    assert [next(made) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(KeyError, match="three"):
        next(made)
    made.close()


def test_an_interrupt_while_helping_is_not_kept_for_later():
    gate = threading.Event()

    def job():
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        assert gate.wait(300)

    made = Prefetcher(iter([job, job, job]), threads=1, ahead=3)
    with pytest.raises(KeyboardInterrupt):
        next(made)
    gate.set()
    made.close()


def test_the_consumer_works_instead_of_waiting():
    worked, enough = [], threading.Event()

    def job():
        if threading.current_thread() is threading.main_thread():
            worked.append(1)
            if len(worked) == 4:
                enough.set()
        else:
            assert enough.wait(300)
        return threading.current_thread()

    made = Prefetcher((job for _ in range(40)), threads=1, ahead=4)
    workers = list(made)
    made.close()
    assert workers.count(threading.main_thread()) == len(worked) >= 4
    assert made.helped_ns > 0


def test_jobs_that_must_not_overlap():
    running, overlaps = [], []

    def job(i):
        running.append(i)
        overlaps.append(len(running))
        running.remove(i)
        return threading.current_thread()

    made = Prefetcher((partial(job, i) for i in range(20)), threads=1, ahead=4, helping=False)
    assert len(set(made)) == 1
    assert set(overlaps) == {1}
    made.close()


def test_close_waits_for_the_threads(own_threads):
    made = Prefetcher(numbers(50), threads=2, ahead=8)
    next(made)
    threads = own_threads()
    assert len(threads) == 2
    made.close()
    assert not any(thread.is_alive() for thread in threads)
    with pytest.raises(StopIteration):
        next(made)
    made.close()


def test_deleting_it_ends_the_threads():
    made = Prefetcher(numbers(100), threads=2, ahead=8)
    next(made)
    del made
    gc.collect()
    assert wait_for_threads()


def test_idle_threads_hold_no_results():
    class Result:
        pass

    made = Prefetcher((Result for _ in range(6)), threads=2, ahead=8)
    seen = [weakref.ref(next(made)) for _ in range(6)]
    assert [ref() for ref in seen] == [None] * 6
    made.close()


def test_an_error_keeps_nothing_alive():
    class Big:
        pass

    alive = []

    def job():
        big = Big()
        alive.append(weakref.ref(big))
        raise ValueError(str(id(big)))

    gc.disable()
    try:
        made = Prefetcher(iter([job]), threads=1, ahead=1)
        with pytest.raises(ValueError, match=r"\d+"):
            next(made)
        made.close()
        del made
        assert [ref() for ref in alive] == [None]
    finally:
        gc.enable()


def test_threads_end_when_ctrl_c_interrupts_the_start_of_one(monkeypatch):
    assert wait_for_threads()

    def interrupted(*args, **options):
        thread = start_thread(*args, **options)
        if options["name"] == "headrace-1":
            raise KeyboardInterrupt
        return thread

    monkeypatch.setattr("headrace.loading.prefetch.start_thread", interrupted)
    made = Prefetcher(numbers(1000), threads=3, ahead=6)
    with pytest.raises(KeyboardInterrupt):
        next(made)
    assert wait_for_threads()


def test_no_more_threads_than_jobs(own_threads):
    made = Prefetcher(numbers(3), threads=4000, ahead=8000)
    assert next(made) == 0
    assert len(own_threads()) <= 3
    assert list(made) == [1, 2]
    made.close()


def test_fewer_threads_where_no_more_can_start(monkeypatch):
    started = []

    def start_one(*args, **options):
        if started:
            raise RuntimeError("can't start new thread")
        started.append(start_thread(*args, **options))
        return started[0]

    monkeypatch.setattr("headrace.loading.prefetch.start_thread", start_one)
    made = Prefetcher(numbers(50), threads=3, ahead=6)
    assert list(made) == list(range(50))
    made.close()
    assert not started[0].is_alive()


@pytest.mark.skipif(not hasattr(time, "pthread_getcpuclockid"), reason="a thread's own clock")
def test_threads_sleep_when_there_is_nothing_to_do(own_threads):
    made = Prefetcher(numbers(1000), threads=3, ahead=6)
    next(made)
    clocks = [time.pthread_getcpuclockid(thread.ident) for thread in own_threads()]
    assert len(clocks) == 3
    # Once they have done their work, their CPU time stays constant, whatever else happens.
    used, before = [time.clock_gettime_ns(clock) for clock in clocks], None
    while used != before:
        for _ in range(100):
            time.sleep(0)  # A thread that waits for the interpreter gets it.
            sum(range(1000))
        used, before = [time.clock_gettime_ns(clock) for clock in clocks], used
    made.close()
