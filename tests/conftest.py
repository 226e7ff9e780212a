"""What every test gets: a cache folder of its own, so that nothing is left behind and nothing is found there."""

import os
import signal

import pytest
from hypothesis import settings
from tests.forked import ForkedScripts

from headrace.io import engines

# A shell that runs tests in the background has SIGINT ignored, and what is started here would inherit that: tests of Ctrl-C
# would wait for an interrupt that never comes.
signal.signal(signal.SIGINT, signal.default_int_handler)

# What a developer's shell says to every Python must not decide what the tests see: unbuffered output has hidden a fault of the
# command once, which users met who have no such setting.
for _name in ("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONOPTIMIZE", "PYTHONUTF8", "PYTHONWARNINGS"):
    os.environ.pop(_name, None)

settings.register_profile("ci", max_examples=100, deadline=None, derandomize=True)
settings.register_profile("night", max_examples=5000, deadline=None)
settings.load_profile("ci")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def own_engines(monkeypatch):
    """Our own decoders come first, whatever HEADRACE_ENGINES is set to. For tests of what only they do."""
    yield from _chosen(monkeypatch, "own")


@pytest.fixture
def library_engines(monkeypatch):
    """The libraries decode everything."""
    yield from _chosen(monkeypatch, "library")


def _chosen(monkeypatch, choice):
    monkeypatch.setenv(engines.SETTING, choice)
    engines.engines.cache_clear()
    yield
    engines.engines.cache_clear()


@pytest.fixture(scope="session")
def forked_scripts():
    """Starts scripts in processes of their own, without the time that importing takes."""
    scripts = ForkedScripts()
    yield scripts
    scripts.close()


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch):
    """Files of tests need not outlive a power cut: waiting for the disk takes longer than most tests compute."""
    monkeypatch.setattr(os, "fsync", os.fstat)  # which refuses a closed descriptor, too
    if hasattr(os, "sync"):
        monkeypatch.setattr(os, "sync", lambda: None)
