"""Work of one call on several cores."""

import os
import threading

import pytest

from headrace.formats.array_record import unpack as module
from headrace.formats.array_record.unpack import parallel_map
from headrace.io import system


@pytest.fixture(autouse=True)
def four_cores(monkeypatch):
    monkeypatch.setattr(module, "usable_cores", lambda: 4)
    monkeypatch.setattr(system, "usable_cores", lambda: 4)
    module._helpers.cache_clear()
    yield
    for helpers in [module._helpers(os.getpid())]:
        helpers.shutdown()
    module._helpers.cache_clear()


def noting(seen):
    def work(start, stop):
        seen.append((threading.current_thread() is threading.main_thread(), start, stop))
        return list(range(start, stop))

    return work


@pytest.mark.parametrize(("count", "parts"), [(0, 1), (1, 1), (19, 1), (20, 2), (35, 3), (40, 4), (1000, 4)])
def test_results_are_in_order_whichever_thread_finds_them(count, parts):
    seen = []
    assert parallel_map(noting(seen), count, least=10) == list(range(count))
    assert len(seen) == parts
    assert sorted(main for main, *_ in seen) == [False] * (parts - 1) + [True]


def test_only_the_main_thread_is_helped():
    seen, done = [], []
    thread = threading.Thread(target=lambda: done.append(parallel_map(noting(seen), 100, least=10)))
    thread.start()
    thread.join()
    assert done == [list(range(100))]
    assert seen == [(False, 0, 100)]


def test_errors_come_out():
    def work(start, stop):
        if start:
            raise ZeroDivisionError
        return []

    with pytest.raises(ZeroDivisionError):
        parallel_map(work, 100, least=10)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_has_helpers_of_its_own():
    assert len(parallel_map(noting([]), 100, least=10)) == 100
    child = os.fork()
    if child == 0:
        os._exit(0 if len(parallel_map(noting([]), 100, least=10)) == 100 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
