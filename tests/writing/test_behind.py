import threading

import pytest

from penstock.writing.behind import Behind


def test_calls_are_made_in_order_by_another_thread():
    made = []
    behind = Behind()
    for number in range(50):
        behind.add(lambda number=number: made.append((number, threading.current_thread().name)))
    behind.finish()
    assert [number for number, _ in made] == list(range(50))
    assert {name for _, name in made} == {"penstock-write-behind"}


def test_an_error_is_raised_and_nothing_is_called_behind_it():
    made = []
    behind = Behind()
    behind.add(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        for number in range(100):
            behind.add(lambda number=number: made.append(number))
        behind.finish()
    assert made == []
    assert not behind._thread.is_alive()


def test_abandoning_ends_the_thread():
    behind = Behind()
    behind.add(lambda: None)
    behind.abandon()
    assert not behind._thread.is_alive()
    behind.abandon()
