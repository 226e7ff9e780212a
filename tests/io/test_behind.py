"""Calls that another thread makes, in order."""

import threading
import weakref

import pytest
from tests.forks import exit_code, fork

from headrace.io import threads as module
from headrace.io.threads import DEPTH, Behind


def test_calls_are_made_in_order_by_another_thread():
    made = []
    behind = Behind()
    for number in range(50):
        behind.add(lambda number=number: made.append(number))
    behind.settle()
    assert made == list(range(50))
    names = []
    behind.add(lambda: names.append(threading.current_thread().name))
    while not names:
        pass
    behind.settle()
    assert names[0].startswith("headrace-write-behind")


def test_few_calls_wait():
    gate = threading.Event()
    behind = Behind()
    made = []
    for number in range(DEPTH):
        behind.add(lambda number=number: gate.wait(60) and made.append(number))
    adding = threading.Thread(target=lambda: behind.add(lambda: made.append(DEPTH)))
    adding.start()
    adding.join(0.05)
    assert adding.is_alive()
    assert made == []
    gate.set()
    adding.join()
    behind.settle()
    assert made == list(range(DEPTH + 1))


def test_an_error_is_raised_and_nothing_is_called_behind_it():
    made = []
    behind = Behind()
    behind.add(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        for number in range(100):
            behind.add(lambda number=number: made.append(number))
        behind.settle()
    assert made == []
    behind.add(lambda: made.append("later"))
    behind.settle()
    assert made == []


def test_abandoning_makes_no_more_calls():
    gate = threading.Event()
    begun = threading.Event()
    made = []

    def first():
        begun.set()
        gate.wait(60)
        made.append("first")

    behind = Behind()
    behind.add(first)
    begun.wait(60)
    behind.add(lambda: made.append("second"))
    threading.Timer(0.02, gate.set).start()
    behind.abandon()
    assert made == ["first"]
    behind.abandon()


def test_whoever_waits_makes_the_calls_that_no_thread_has_time_for(monkeypatch):
    class Saturated:
        def submit(self, call):
            pass

    monkeypatch.setattr(module, "_write_behind_pool", lambda process: Saturated())
    makers = []
    behind = Behind()
    for _ in range(20):
        behind.add(lambda: makers.append(threading.current_thread()))
    behind.settle()
    assert makers == [threading.current_thread()] * 20


def test_calls_are_made_here_when_no_thread_can_be_started(monkeypatch):
    class Over:
        def submit(self, call):
            raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    monkeypatch.setattr(module, "_write_behind_pool", lambda process: Over())
    made = []
    behind = Behind()
    behind.add(lambda: made.append(1))
    assert made == [1]


def test_what_a_call_held_is_let_go():
    class Held:
        pass

    behind = Behind()
    gone = threading.Event()
    held = Held()
    weakref.finalize(held, gone.set)
    behind.add(lambda held=held: None)
    del held
    behind.settle()
    assert gone.wait(60)


def test_a_forked_child_has_threads_of_its_own():
    Behind().add(lambda: None)

    def works():
        made = []
        behind = Behind()
        behind.add(lambda: made.append(1))
        behind.settle()
        return made == [1]

    assert exit_code(fork(works)) == 0
