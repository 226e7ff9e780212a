"""Fixtures for every test: a separate cache folder, so that tests neither leave nor find anything there."""

import faulthandler
import gc
import os
import signal
import sys

import pytest
from hypothesis import settings
from tests import clusters
from tests.forked import ForkedScripts
from tests.sweeps import TAKES_ALL

from headrace.io import engines

# A shell that runs tests in the background ignores SIGINT, and child processes inherit that: tests of Ctrl-C
# would wait forever.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Settings of a developer's shell must not change what the tests see: unbuffered output once hid a fault of the
# command from us, but not from users.
for _name in ("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONOPTIMIZE", "PYTHONUTF8", "PYTHONWARNINGS"):
    os.environ.pop(_name, None)

settings.register_profile("some", max_examples=50, deadline=None, derandomize=True)
settings.register_profile("all", max_examples=100, deadline=None, derandomize=True)
settings.register_profile("night", max_examples=5000, deadline=None)
settings.load_profile("all" if TAKES_ALL else "some")


MOST_S_TO_EXIT = 120


def _forget_jax_in_child() -> None:
    """JAX, once loaded, frees its memory during garbage collection. In a forked child it waits for ever if one of its threads held its lock."""
    gc.callbacks[:] = [each for each in gc.callbacks if not getattr(each, "__module__", "").startswith("jax")]


os.register_at_fork(after_in_child=_forget_jax_in_child)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def own_engines(monkeypatch):
    """Our own decoders come first, whatever HEADRACE_ENGINES says. For tests of those decoders."""
    yield from _chosen(monkeypatch, "own")


@pytest.fixture
def library_engines(monkeypatch):
    """Libraries decode everything."""
    yield from _chosen(monkeypatch, "library")


def _chosen(monkeypatch, choice):
    monkeypatch.setenv(engines.SETTING, choice)
    engines.engines.cache_clear()
    yield
    engines.engines.cache_clear()


@pytest.fixture(scope="session")
def forked_scripts():
    """Runs scripts in separate processes without repeating the imports."""
    scripts = ForkedScripts()
    yield scripts
    scripts.close()


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch):
    """Do not sync files to disk: tests need not survive a power failure, and syncing takes longer than most tests."""
    monkeypatch.setattr(os, "fsync", os.fstat)  # also refuses a closed descriptor
    if hasattr(os, "sync"):
        monkeypatch.setattr(os, "sync", lambda: None)


@pytest.fixture(scope="session")
def _local_ray_at_last():
    yield
    clusters.local.close()


@pytest.fixture
def local_ray(_local_ray_at_last):
    """The module ``ray``, connected to a local Ray with two cores. Tests share it; a test of a cluster ends it."""
    return clusters.local.ensure()


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Tests and modules live until the end. ``gc.collect()`` would look for garbage among them, for half a second each time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_unconfigure():
    """A thread or child process that keeps the interpreter from ending is shown, and ends with it, as a test that hangs."""
    faulthandler.dump_traceback_later(MOST_S_TO_EXIT, exit=True, file=sys.__stderr__)


def pytest_collection_modifyitems(items):
    """Ray leaves sockets and processes to its own exit: its tests do not fail for that."""
    for item in items:
        if item.get_closest_marker("ray"):
            for ignored in reversed(clusters.LEFT_OPEN):
                item.add_marker(pytest.mark.filterwarnings(ignored), append=False)
