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


class Notebook:
    """What of IPython a bar uses, as in a kernel."""

    def __init__(self, shell):
        self.shown = []
        self.display = self
        self.get_ipython = type(shell, (), {})

    def __call__(self, content, *, raw, display_id):
        assert raw
        assert display_id
        self.shown.append(content)
        return self

    def update(self, content, *, raw):
        assert raw
        self.shown.append(content)


def test_a_bar_in_a_notebook(monkeypatch, capsys):
    notebook = Notebook("ZMQInteractiveShell")
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    monkeypatch.setitem(sys.modules, "IPython.display", notebook)
    monkeypatch.setattr(progress, "QUIET_S", 0)
    monkeypatch.setattr(progress, "REDRAW_S", 0)
    with Progress("reading <x>", 10, "examples") as bar:
        bar.advance(4)
        bar.advance(6)
    plain = [content["text/plain"] for content in notebook.shown]
    assert plain == ["reading <x>: 0 of 10", "reading <x>: 4 of 10", "reading <x>: 10 of 10", ""]
    assert (
        notebook.shown[1]["text/html"]
        == '<div>reading &lt;x&gt;: 4 of 10 <progress max="10" value="4"></progress></div>'
    )
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("shell", ["TerminalInteractiveShell", "NoneType"])
def test_other_shells_have_no_cells(monkeypatch, shell):
    notebook = Notebook(shell)
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    monkeypatch.setattr(progress, "QUIET_S", 0)
    with Progress("reading", None, "examples") as bar:
        bar.advance(4)
    assert notebook.shown == []
