"""Nothing that a process started survives it, however it ends."""

import os
import select
import signal
import subprocess
import sys

import pytest

from headrace.containers import orphans
from headrace.containers.orphans import MARK, ProcessGuard

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes as Linux shows them")

TREE = """
import os, subprocess, sys, time
quiet = dict(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
sleep = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
bare = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE")}
children = [
    subprocess.Popen(sleep, **quiet),
    subprocess.Popen(sleep, **quiet, start_new_session=True),
    subprocess.Popen(sleep, **quiet, env=bare),
]
reading, writing = os.pipe()
if os.fork() == 0:  # a daemon: its parent ends at once, and it has a session of its own
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)
    daemon = subprocess.Popen(sleep, **quiet)
    os.write(writing, str(daemon.pid).encode())
    os._exit(0)
print(os.getpid(), *(child.pid for child in children), os.read(reading, 20).decode(), flush=True)
{then}
"""
OWNER = """
import os, subprocess, sys, threading
from headrace.containers.orphans import ProcessGuard
guard = ProcessGuard()
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], env={**os.environ, **guard.environment}, start_new_session=True)
guard.add_group(child.pid)
if sys.argv[2] == "fork" and os.fork() == 0:  # it holds what its parent has open
    threading.Event().wait()
child.wait()
"""


def is_over(pid):
    """Whether a process ends."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], 60)[0])
    finally:
        os.close(descriptor)


def tree(then="time.sleep(600)"):
    return TREE.replace("{then}", then)


@pytest.mark.parametrize("way", ["alone", "fork"])
def test_children_of_a_killed_process(way):
    command = [sys.executable, "-c", OWNER, tree(), way]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as owner:
        pids = [int(pid) for pid in owner.stdout.readline().split()]
        assert len(pids) == 5
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        try:
            assert all(map(is_over, pids))
        finally:
            os.killpg(owner.pid, signal.SIGKILL) if way == "fork" else None


def test_marks_of_outer_processes_are_inherited(monkeypatch):
    monkeypatch.setenv(MARK, "outer")
    assert ProcessGuard().environment[MARK].startswith("outer,")


def test_the_watchdog_is_started_again():
    """The watchdog was killed for lack of memory: the next process is watched nevertheless."""
    kill = "[os.kill(int(p), 9) for p in open(f'/proc/self/task/{os.getpid()}/children').read().split()]"
    text = OWNER.replace("guard = ProcessGuard()", f"ProcessGuard(); {kill}; os.wait(); guard = ProcessGuard()")
    with subprocess.Popen([sys.executable, "-c", text, tree(), "alone"], stdout=subprocess.PIPE, text=True) as owner:
        pids = [int(pid) for pid in owner.stdout.readline().split()]
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        assert all(map(is_over, pids))


def test_nothing_with_the_mark_is_left():
    guard = ProcessGuard()
    environment = {**os.environ, **guard.environment}
    command = [sys.executable, "-c", tree("pass")]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        pids = [int(pid) for pid in process.stdout.readline().split()]
    guard.kill_all()
    with_mark = [
        pid for number, pid in enumerate(pids) if number != 3
    ]  # the unmarked one must be killed with its group
    assert all(map(is_over, with_mark))
    os.kill(pids[3], signal.SIGKILL)


def test_a_watchdog_that_cannot_be_started_again_writes_to_no_file_of_others(monkeypatch, tmp_path):
    def fails():
        raise OSError(24, "Too many open files")

    theirs, ours = os.pipe()
    os.close(theirs)  # It was killed.
    watchdog = orphans._Watchdog()
    watchdog._pipe = ours
    monkeypatch.setattr(os, "pipe", fails)
    with pytest.raises(OSError, match="Too many"):
        watchdog.send("mark a")
    with open(tmp_path / "other", "wb") as other:
        os.dup2(other.fileno(), ours)
        with pytest.raises(OSError, match="Too many"):
            watchdog.send("mark b")
        os.close(ours)
    assert (tmp_path / "other").read_bytes() == b""
