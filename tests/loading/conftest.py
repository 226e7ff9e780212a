"""Fixtures of the tests of loaders."""

import pytest

from headrace.io.threads import start_thread
from headrace.loading import prefetch


@pytest.fixture
def own_threads(monkeypatch):
    """Lists the running loader threads that this test has started. Those of earlier tests may still be ending."""
    started = []

    def start(*args, **options):
        started.append(start_thread(*args, **options))
        return started[-1]

    monkeypatch.setattr(prefetch, "start_thread", start)
    return lambda: [thread for thread in started if thread.is_alive()]
