"""Processes that exit while a loader's threads work."""

import subprocess
import sys

import numpy as np
import pytest

import headrace as hr
from headrace._optional import available

# Every batch takes a while in native code, so that threads are inside it when the script ends.
SCRIPT = """
import atexit, os, signal, sys, threading, warnings
import numpy as np
import headrace as hr
from headrace import _native

SLOW = bytes(1 << 25)
threads = []

def slow(batch):
    if threading.current_thread().name.startswith("headrace"):
        threads.append(threading.current_thread())
    for _ in range(4):
        _native.crc32c(SLOW)
    return batch

def loader(path="a.tfrecord", **options):
    return hr.Loader(hr.open(path), 4, threads=3, map_batch=slow, **options)

hr.write("a.tfrecord", {"x": np.arange(400, dtype=np.float32)})
"""

FORMS = {
    "break": "for batch in loader(shuffle=True): break",
    "next": "next(iter(loader()))",
    "kept": "kept = iter(loader()); next(kept)",
    "exit": "for batch in loader(): sys.exit(0)",
    "a thread": "threading.Thread(target=lambda: next(iter(loader()))).start()",
    "a daemon": """
begun = threading.Event()
def work():
    for batch in loader(epochs=None):
        begun.set()
threading.Thread(target=work, daemon=True).start()
begun.wait()
""",
    "a fork": """
kept = iter(loader())
next(kept)
warnings.filterwarnings("ignore", ".*multi-threaded, use of fork", DeprecationWarning)  # of Python 3.12 and later
child = os.fork()
if child == 0:
    next(iter(loader()))
    next(kept)
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
""",
    "Ctrl-C": """
try:
    for batch in loader(): signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    pass
""",
    "workers": "kept = iter(hr.Loader(hr.open('a.tfrecord'), 4, workers=2, map_batch=slow)); next(kept)",
    "gzip": """
hr.write("a.tfrecord.gz", {"x": np.random.default_rng(1).random((1 << 14, 16)).astype("f4")})
kept = iter(hr.records("a.tfrecord.gz"))
next(kept)
""",
    "array_record": """
hr.write("a.array_record", {"x": np.arange(400, dtype=np.float32)})
next(iter(loader("a.array_record")))
""",
    "torch": "next(iter(loader(to='torch')))",
}


@pytest.fixture
def run(forked_scripts, tmp_path):
    """Runs a script after the lines above."""

    def started(script, **options):
        done = forked_scripts.run(SCRIPT + script, folder=tmp_path, **options)
        return done.returncode, done.stdout, done.stderr

    return started


def python(tmp_path, script):
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=tmp_path, timeout=600, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("form", ["next", "exit", "a thread"])
def test_a_process_of_a_fresh_python_ends_cleanly(tmp_path, form):
    assert python(tmp_path, SCRIPT + FORMS[form]) == (0, "", "")


@pytest.mark.parametrize("form", FORMS)
def test_a_process_ends_cleanly_while_threads_are_in_native_code(run, form):
    if form == "torch" and not available("torch"):
        pytest.skip("no torch")
    for _ in range(3):
        assert run(FORMS[form], preload="torch" if form == "torch" else "") == (0, "", "")


def test_the_threads_of_a_loop_that_was_left_have_ended_when_python_does(run):
    script = """
atexit.register(lambda: print(len(threads) > 0, [thread for thread in threads if thread.is_alive()]))
while not threads:
    next(iter(loader()))
"""
    assert run(script) == (0, "True []\n", "")


def test_a_thread_that_outlives_the_main_one_reads_and_writes_on(run):
    script = """
def work():
    threading.main_thread().join()
    hr.write("b.tfrecord@3", {"x": np.arange(40)})
    print(len(hr.open("b.tfrecord@3")), hr.verify("b.tfrecord@3").records)
    hr.convert("b.tfrecord@3", "b.array_record")
    print([len(hr.Loader(hr.open(path), 8, threads=2)) for path in ("b.tfrecord@3", "b.array_record")])
threading.Thread(target=work).start()
"""
    assert run(script) == (0, "40 40\n[5, 5]\n", "")


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="Python starts no thread after the main one ended")
def test_a_thread_that_outlives_the_main_one_may_be_the_first_to_use_the_package(tmp_path):
    hr.write(tmp_path / "a.tfrecord", {"x": np.arange(40)})
    script = """
import threading
import numpy  # registers exit handlers itself
def work():
    threading.main_thread().join()
    import headrace as hr
    hr.convert("a.tfrecord", "b.tfrecord.gz@3")
    print(len(hr.open("b.tfrecord.gz@3")), hr.verify("b.tfrecord.gz@3").records)
    print([len(batch["x"]) for batch in hr.Loader(hr.open("a.tfrecord"), 20, threads=2)])
threading.Thread(target=work).start()
"""
    assert python(tmp_path, script) == (0, "40 40\n[20, 20]\n", "")


def test_exit_in_a_function_of_the_users_is_the_exit_of_the_process(run):
    script = """
for batch in hr.Loader(hr.open('a.tfrecord'), 4, threads=3, map_batch=lambda batch: sys.exit(3)): pass
"""
    assert run(script) == (3, "", "")


def test_a_loop_in_an_exit_handler_ends_after_the_threads_were_dismissed(run):
    script = """
def rest():
    print(sum(len(batch["x"]) for batch in kept))
atexit.register(rest)
kept = iter(hr.Loader(hr.open('a.tfrecord'), 4, threads=3))
next(kept)
"""
    assert run(script) == (0, "396\n", "")


def test_os_exit_is_as_sudden_as_ever(run):
    assert run("next(iter(loader())); os._exit(7)") == (7, "", "")
