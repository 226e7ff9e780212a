"""Each script in a process has its own modules, whenever and however it imports them."""

from __future__ import annotations

import gc
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.containers.conftest import ask

from headrace.containers.script import ScriptContainer
from headrace.errors import JobFailed, RequestError

LAZY = """
    import dataclasses, importlib, pickle, sys

    @dataclasses.dataclass
    class Row:
        x: float

    def model_fn(d): return None
    def input_fn(body, content_type): return Row(float(body))
    def predict_fn(row, model):
        import helper, package.inner
        from helper import N
        from package import other
        again = importlib.import_module("helper").N
        return [N, again, sys.modules["helper"].N, package.inner.N, other.N, pickle.loads(pickle.dumps(row)).x]
"""


@pytest.fixture
def load_folder(tmp_path):
    """The handler of a script with modules beside it."""
    handlers = []

    def make(name, text, **files):
        folder = tmp_path / name
        for path, content in {"inference": text, **files}.items():
            file = folder / f"{path.replace('__', '/')}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(textwrap.dedent(content))
        handlers.append(ScriptContainer(entry_point="inference.py", source_dir=folder).handler(tmp_path))
        return handlers[-1]

    yield make
    for handler in handlers:
        handler.close()


def numbered(number):
    return {name: f"N = {number}" for name in ("helper", "package__inner", "package__other")}


def test_imports_and_pickles_at_request_time(load_folder):
    handlers = [load_folder(str(number), LAZY, **numbered(number)) for number in range(3)]
    for number in (0, 2, 1, 1, 0):
        assert handlers[number](ask("7")).body == str([*[number] * 5, 7.0]).encode()


def test_several_threads(load_folder):
    handlers = [load_folder(str(number), LAZY, **numbered(number)) for number in range(2)]
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda i: handlers[i % 2](ask("7")).body, range(400)))
    assert found == [str([*[i % 2] * 5, 7.0]).encode() for i in range(400)]


def test_calls_of_one_script_run_together_and_others_get_their_turn(load_folder):
    text = """
    import threading
    both = threading.Barrier(2)
    def model_fn(d): return None
    def predict_fn(x, model): return both.wait(20) >= 0
    """
    handlers = [load_folder(name, text) for name in "ab"]
    with ThreadPoolExecutor(4) as threads:
        found = [threads.submit(handlers[i % 2], ask("7")) for i in (0, 0, 1, 1)]
        assert [one.result(20).body for one in found] == [b"true"] * 4


def test_a_call_inside_another_does_not_wait(load_folder, monkeypatch):
    inner = load_folder("inner", "from helper import N\ndef model_fn(d): return 1\ndef predict_fn(x, m):\n    import helper\n    return helper.N", helper="N = 1")  # fmt: skip
    text = """
    import sys
    def model_fn(d): return None
    def predict_fn(x, model):
        found = sys.inner_handler()
        import helper
        return [found, helper.N]
    """
    outer = load_folder("outer", text, helper="N = 2")
    monkeypatch.setattr(sys, "inner_handler", lambda: str(inner(ask("7")).body, "ascii"), raising=False)
    assert outer(ask("7")).body == b'["1", 2]'


def test_a_helper_that_was_forgotten_is_missing(load_folder):
    text = "def model_fn(d): return None\ndef predict_fn(x, m):\n    from helper import N\n    return N"
    first = load_folder("first", text, helper="N = 1")
    second = load_folder("second", text)
    assert first(ask("7")).body == b"1"
    with pytest.raises(RequestError, match="ModuleNotFoundError: No module named 'helper'"):
        second(ask("7"))
    assert first(ask("7")).body == b"1"


def test_folders_that_a_script_adds_are_its_own(load_folder):
    text = """
    import os, sys
    sys.path.insert(0, os.path.join(os.path.dirname(__file__), "src"))
    import early
    def model_fn(d): return None
    def predict_fn(x, m):
        import late
        return [early.N, late.N]
    """
    handlers = [load_folder(str(n), text, src__early=f"N = {n}", src__late=f"N = {n}") for n in range(2)]
    for number in (0, 1, 0):
        assert handlers[number](ask("7")).body == str([number, number]).encode()


def test_nothing_stays_after_close(load_folder, tmp_path):
    path = list(sys.path)
    kept = load_folder("kept", LAZY, **numbered(1))
    handler = load_folder("closed", LAZY, **numbered(2))
    assert handler(ask("7")).body.startswith(b"[2")
    handler.close()
    assert kept(ask("7")).body.startswith(b"[1")
    kept.close()
    assert sys.path == path
    assert not {"inference", "helper", "package", "package.inner"} & sys.modules.keys()
    with pytest.raises(JobFailed, match="cannot be imported"):
        load_folder("broken", "import helper\nraise ValueError", helper="N = 1")
    gc.collect()
    assert sys.path == path
    assert "helper" not in sys.modules


def test_modules_of_the_program_are_not_taken(load_folder, tmp_path, monkeypatch):
    """Also not those that a script imports first, from folders that are not its own."""
    (tmp_path / "a" / "site").mkdir(parents=True)
    (tmp_path / "a" / "site" / "shared_by_all.py").write_text("N = 1")
    monkeypatch.syspath_prepend(str(tmp_path / "a" / "site"))
    text = "def model_fn(d): return None\ndef predict_fn(x, m):\n    import shared_by_all\n    return id(shared_by_all)"
    handlers = [load_folder(name, text) for name in "ab"]
    try:
        assert handlers[0](ask("7")).body == handlers[1](ask("7")).body
        assert str(id(sys.modules["shared_by_all"])).encode() == handlers[0](ask("7")).body
    finally:
        sys.modules.pop("shared_by_all", None)


def test_an_interrupted_wait_is_forgotten(load_folder, monkeypatch):
    text = "import sys\ndef model_fn(d): return None\ndef predict_fn(x, m): return sys.wait_for_test()"
    started, end = threading.Event(), threading.Event()
    monkeypatch.setattr(sys, "wait_for_test", lambda: started.set() or end.wait(20), raising=False)
    handlers = [load_folder(name, text) for name in "ab"]
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(handlers[0], ask("7"))
        assert started.wait(20)
        monkeypatch.setattr("headrace.containers.code._TURN", Interrupted())
        with pytest.raises(KeyboardInterrupt):
            handlers[1](ask("7"))
        monkeypatch.undo()
        monkeypatch.setattr(sys, "wait_for_test", lambda: True, raising=False)
        end.set()
        assert running.result(20).body == b"true"
    assert handlers[1](ask("7")).body == b"true"


class Interrupted:
    """A wait that Ctrl-C ends."""

    def wait(self):
        raise KeyboardInterrupt
