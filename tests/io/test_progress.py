"""A bar on a terminal, nothing anywhere else."""

import io
import sys

import pytest

from headrace.io import progress
from headrace.io.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    def begin():
        # In the test itself: pytest replaces stderr between a fixture and its test.
        stream = Terminal()
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setattr(sys, "stderr", stream)
        return stream

    return begin


def test_quiet_without_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr(progress, "QUIET_S", 0)
    with Progress("indexing", 10, "bytes") as bar:
        bar.advance(10)
    assert bar.done == 10
    assert capsys.readouterr().err == ""


def test_quiet_when_it_is_quick(terminal):
    stderr = terminal()
    with Progress("indexing", 10, "records") as bar:
        bar.advance(10)
    assert stderr.getvalue() == ""


@pytest.mark.parametrize("unit", ["bytes", "records"])
@pytest.mark.parametrize("total", [10, None])
def test_a_bar_when_it_takes_long(terminal, monkeypatch, unit, total):
    stderr = terminal()
    monkeypatch.setattr(progress, "QUIET_S", 0)
    with Progress("indexing", total, unit) as bar:
        bar.advance(4)
        bar.advance(6)
    assert "indexing" in stderr.getvalue()


def test_no_bar_when_none_is_wanted(terminal, monkeypatch):
    stderr = terminal()
    monkeypatch.setattr(progress, "QUIET_S", 0)
    with Progress("indexing", 10, "records", show=False) as bar:
        bar.advance(10)
    assert stderr.getvalue() == ""
