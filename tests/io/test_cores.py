"""Which cores count."""

from __future__ import annotations

import os
import threading

from headrace.io import system as cores
from headrace.io.system import among_others, spare_cores, usable_cores


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
    monkeypatch.setattr(cores, "usable_cores", lambda: 5)
    assert spare_cores() == 5
    with among_others():
        assert spare_cores() == 1
        with among_others():
            pass
        assert spare_cores() == 1
    assert spare_cores() == 5
    found = []
    thread = threading.Thread(target=lambda: found.append(spare_cores()))
    thread.start()
    thread.join()
    assert found == [1]
