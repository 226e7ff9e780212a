"""Threads: prefetching, and process exit in the middle of it."""

import subprocess
import sys
import threading
import weakref

import pytest
from tests.forks import exit_code, fork

from headrace.io import threads as module
from headrace.io.threads import DEPTH, BackgroundCalls, prefetch


def test_same_items_same_order():
    assert list(prefetch(range(1000))) == list(range(1000))
    assert list(prefetch([])) == []
    assert list(prefetch(prefetch(range(100)), depth=1)) == list(range(100))


def test_works_in_advance_but_not_further_than_asked():
    made = []

    def items():
        for number in range(100):
            made.append(number)
            yield number

    running = prefetch(items(), depth=3)
    next(running)
    assert [next(running) for _ in range(90)] == list(range(1, 91))
    running.close()
    assert 91 <= len(made) <= 91 + 3 + 1  # the finished ones, and the current one


def test_an_error_comes_in_its_place():
    def items():
        yield 1
        raise KeyError("mine")

    running = prefetch(items())
    assert next(running) == 1
    with pytest.raises(KeyError, match="mine"):
        next(running)


def test_closing_stops_the_thread_and_closes_the_items():
    closed = threading.Event()

    threads = set()

    def items():
        threads.add(threading.current_thread())
        try:
            while True:
                yield 0
        finally:
            closed.set()

    running = prefetch(items(), depth=2)
    next(running)
    running.close()
    assert closed.is_set()
    assert len(threads) == 1
    assert not threads.pop().is_alive()


def test_a_forked_child_gets_an_error_instead_of_waiting_forever():
    running = prefetch(iter(range(1000)), depth=1)
    next(running)

    def reported():
        with pytest.raises(RuntimeError):
            next(running)
        return True

    assert exit_code(fork(reported)) == 0
    running.close()


def run(script):
    done = subprocess.run([sys.executable, "-c", script], timeout=300, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_a_process_may_end_in_the_middle():
    script = "from headrace.io.threads import prefetch; import itertools; kept = prefetch(itertools.count()); next(kept); print('end')"
    assert run(script) == (0, "end\n", "")


FOREIGN = """
import threading
from headrace import _native
data, inside = bytes(1 << 26), threading.Event()
def work():
    while True:
        inside.set()
        _native.crc32c(data)
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
inside.wait()
print("end")
"""


def test_a_daemon_thread_of_the_user_may_be_in_native_code_when_python_ends():
    assert run(FOREIGN) == (0, "end\n", "")


LATE = """
import atexit, threading
before = atexit.register(lambda: print(*[t.name for t in threading.enumerate() if t.name == "mine"], "end"))
from headrace import _native
from headrace.io.threads import start_thread
inside, go, seen = threading.Event(), threading.Event(), []
def work():
    inside.set()
    go.wait()
    seen.append(_native.crc32c(bytes(1 << 26)))
start_thread(work, name="mine", stop=go.set)
inside.wait()
"""


def test_the_end_of_python_stops_a_thread_and_waits_for_it():
    assert run(LATE) == (0, "end\n", "")


ON_ITS_WAY_OUT = """
import atexit, threading
from threading import Event, Thread, local
waited_for, leaving, go = [], Event(), Event()
atexit.register(lambda: (print(*waited_for, "end"), go.set()))
from headrace.io.threads import start_thread
class Last:
    def __del__(self):
        leaving.set()
        go.wait()
kept = local()
def work():
    kept.last = Last()
class Watched(Thread):
    def join(self, timeout=None):
        waited_for.append(self.name)
        go.set()
        super().join(timeout)
import headrace.io.threads
headrace.io.threads.Thread = Watched
start_thread(work, name="mine", stop=lambda: None)
leaving.wait()
"""


def test_the_end_of_python_waits_for_a_thread_that_has_done_its_work_and_is_not_gone_yet():
    """Thread-local values are deleted last, after everything that this package does in the thread."""
    assert run(ON_ITS_WAY_OUT) == (0, "mine end\n", "")


def test_a_thread_that_is_not_gone_yet_is_waited_for_before_it_is_forgotten():
    script = ON_ITS_WAY_OUT + 'start_thread(lambda: None, name="next", stop=lambda: None)\n'
    code, out, err = run(script)
    assert (code, out.split()[0], out.split()[-1], err) == (0, "mine", "end", "")


CTRL_C = """
import signal, threading
from headrace.io.threads import start_thread
import headrace.io.threads
stop = threading.Event()
class Interrupted(threading.Thread):
    def start(self):
        super().start()
        signal.raise_signal(signal.SIGINT)
headrace.io.threads.Thread = Interrupted
def work():
    stop.wait()
    print("stopped", flush=True)
try:
    start_thread(work, name="mine", stop=stop.set)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_a_thread_whose_start_was_interrupted_is_stopped_like_the_others():
    assert run(CTRL_C) == (0, "interrupted\nstopped\n", "")


STARTS_ANOTHER = """
import atexit, threading
atexit.register(lambda: print(*[t.name for t in threading.enumerate() if t.name.startswith("mine")], "end"))
from headrace.io.threads import start_thread
go = threading.Event(), threading.Event()
def work():
    go[0].wait()
    start_thread(go[1].wait, name="mine too", stop=go[1].set)
start_thread(work, name="mine", stop=go[0].set)
"""


def test_the_end_of_python_waits_for_threads_that_are_started_meanwhile():
    assert run(STARTS_ANOTHER) == (0, "end\n", "")


def test_a_later_exit_handler_never_reads_truncated_data_silently():
    script = """
import atexit
def rest():
    try:
        print(sum(1 for _ in kept))
    except RuntimeError as error:
        print(error)
atexit.register(rest)
import itertools
from headrace.io.threads import prefetch
kept = prefetch(itertools.count(), depth=2)
next(kept)
"""
    assert run(script) == (0, "Python is exiting: reading has stopped\n", "")


def test_calls_are_made_in_order_by_another_thread():
    made = []
    behind = BackgroundCalls()
    for number in range(50):
        behind.add(lambda number=number: made.append(number))
    behind.wait()
    assert made == list(range(50))
    names = []
    behind.add(lambda: names.append(threading.current_thread().name))
    while not names:
        pass
    behind.wait()
    assert names[0].startswith("headrace-write-behind")


def test_few_calls_wait():
    gate = threading.Event()
    behind = BackgroundCalls()
    made = []
    for number in range(DEPTH):
        behind.add(lambda number=number: gate.wait(60) and made.append(number))
    adding = threading.Thread(target=lambda: behind.add(lambda: made.append(DEPTH)))
    adding.start()
    adding.join(0.05)
    assert adding.is_alive()
    assert made == []
    gate.set()
    adding.join()
    behind.wait()
    assert made == list(range(DEPTH + 1))


def test_an_error_is_raised_and_no_later_call_runs():
    made = []
    behind = BackgroundCalls()
    behind.add(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        for number in range(100):
            behind.add(lambda number=number: made.append(number))
        behind.wait()
    assert made == []
    behind.add(lambda: made.append("later"))
    behind.wait()
    assert made == []


def test_abandoning_makes_no_more_calls():
    gate = threading.Event()
    begun = threading.Event()
    made = []

    def first():
        begun.set()
        gate.wait(60)
        made.append("first")

    behind = BackgroundCalls()
    behind.add(first)
    begun.wait(60)
    behind.add(lambda: made.append("second"))
    threading.Timer(0.02, gate.set).start()
    behind.abandon()
    assert made == ["first"]
    behind.abandon()


def test_a_waiting_caller_makes_the_calls_that_no_thread_has_taken(monkeypatch):
    class Saturated:
        def submit(self, call):
            pass

    monkeypatch.setattr(module, "_write_behind_pool", lambda process: Saturated())
    makers = []
    behind = BackgroundCalls()
    for _ in range(20):
        behind.add(lambda: makers.append(threading.current_thread()))
    behind.wait()
    assert makers == [threading.current_thread()] * 20


def test_calls_are_made_here_when_no_thread_can_be_started(monkeypatch):
    class Over:
        def submit(self, call):
            raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    monkeypatch.setattr(module, "_write_behind_pool", lambda process: Over())
    made = []
    behind = BackgroundCalls()
    behind.add(lambda: made.append(1))
    assert made == [1]


def test_references_held_by_a_call_are_released():
    class Held:
        pass

    behind = BackgroundCalls()
    gone = threading.Event()
    held = Held()
    weakref.finalize(held, gone.set)
    behind.add(lambda held=held: None)
    del held
    behind.wait()
    assert gone.wait(60)


def test_a_forked_child_has_threads_of_its_own():
    BackgroundCalls().add(lambda: None)

    def works():
        made = []
        behind = BackgroundCalls()
        behind.add(lambda: made.append(1))
        behind.wait()
        return made == [1]

    assert exit_code(fork(works)) == 0
