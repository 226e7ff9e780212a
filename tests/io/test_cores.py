"""Which cores count."""

from __future__ import annotations

import os

from penstock.io.cores import usable_cores


def test_cores_that_the_process_is_bound_to(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 5, 6}, raising=False)
    assert usable_cores() == 3


def test_all_cores_where_the_system_does_not_tell(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert usable_cores() == 7
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert usable_cores() == 1
