"""Files truncated while they are read give an error that names them, and never end the process (SIGBUS)."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.forked import ForkedScripts
from tests.formats.shrinking_child import FRAMED, SUFFIXES

CHILD = Path(__file__).with_name("shrinking_child.py")

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows does not let a mapped file be cut off")


def run(scripts: ForkedScripts, folder: Path, format: str, **environment: str) -> list[tuple[str, int, str, str]]:
    """The result of every kind of read, in a separate process: a crash would end the tests."""
    environment = {"HEADRACE_CACHE_DIR": str(folder / "cache"), **environment}
    done = scripts.run(CHILD.read_text(), str(folder), format, folder=folder, **environment)
    assert done.returncode == 0, (done.returncode, done.stderr[-3000:])
    return [(way, cut, outcome, message) for way, cut, outcome, message in json.loads(done.stdout)]


@pytest.mark.parametrize(
    ("format", "limit"), [*((format, "") for format in SUFFIXES), *((format, "0") for format in FRAMED)]
)
def test_every_way_of_reading(forked_scripts, tmp_path, format, limit):
    found = run(forked_scripts, tmp_path, format, **({"HEADRACE_MAPPED_BYTES": limit} if limit else {}))
    assert found
    wrong = [one for one in found if one[2] in ("wrong", "stale")]
    assert not wrong, wrong[:3]
    after = [one for one in found if " at " not in one[0] and " restored" not in one[0]]
    assert not [one for one in after if one[2] == "equal"]
    assert [one for one in after if one[2] == "error"]
    for way, cut, outcome, message in after:
        if outcome == "error":
            assert message.startswith("CorruptFile: "), (way, cut, message)
            assert "shrank while being read" in message, (way, cut, message)
            assert SUFFIXES[format] in message, (way, cut, message)


SCRIPT = """
import faulthandler, os, signal, sys, threading
import numpy as np
import headrace as hr
from headrace import _native
from headrace.io.local.mapped import MappedFile, guard_reads

path = sys.argv[1]
np.save(path, np.arange(1, 100_001))
"""


@pytest.fixture
def script(forked_scripts: ForkedScripts, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs code after the lines above."""
    cache = str(tmp_path / "cache")

    def run(text: str, **environment: str) -> subprocess.CompletedProcess[str]:
        environment = {"HEADRACE_CACHE_DIR": cache, **environment}
        return forked_scripts.run(SCRIPT + text, str(tmp_path / "a.npy"), folder=tmp_path, **environment)

    return run


LOSE_A_VIEW = "view = hr.records(path)[90_000]; os.truncate(path, 1000); print(bytes(view))"


SHARDS = """
import gc, os, sys
import numpy as np
import headrace as hr

folder = sys.argv[1]
rows = np.random.default_rng(1).integers(1, 1 << 30, (120, 200)).astype(np.int32)
paths = [os.path.join(folder, f"{number:02d}.tfrecord") for number in range(12)]
for number, path in enumerate(paths):
    hr.write(path, hr.ColumnSource({"x": rows[10 * number : 10 * number + 10]}))
source = hr.open(paths)
for _ in range(2):
    source.batch(np.arange(120))
assert [one for one in gc.get_objects() if getattr(one, "_joined", None) is not None]

shuffled = np.random.default_rng(2).permutation(120)
for victim in (0, 5, 11):
    with open(paths[victim], "rb") as file:
        kept = file.read()
    mine = np.arange(10 * victim, 10 * victim + 10)
    others = np.setdiff1d(shuffled, mine)
    for cut in range(0, len(kept), 251):
        os.truncate(paths[victim], cut)
        for order in (np.arange(120), shuffled, mine, mine[:1], mine[-1:]):
            try:
                found = source.batch(order)["x"]
            except hr.CorruptFile as error:
                assert error.where.path == paths[victim] and "shrank" in str(error), error
            else:
                assert np.array_equal(found, rows[order]), (victim, cut, len(order))
                assert cut >= len(kept) // 10 and len(order) == 1 and order[0] == 10 * victim, (cut, order)
        assert np.array_equal(source.batch(others)["x"], rows[others])
        with open(paths[victim], "r+b") as file:
            file.write(kept)
        assert np.array_equal(source.batch(shuffled)["x"], rows[shuffled])
print("done")
"""


def test_small_files_that_are_read_as_one_buffer(forked_scripts, tmp_path):
    cache = str(tmp_path / "cache")
    done = forked_scripts.run(SHARDS, str(tmp_path), folder=tmp_path, HEADRACE_CACHE_DIR=cache)
    assert done.stdout.strip() == "done", (done.returncode, done.stderr[-3000:])


def test_a_view_that_a_user_holds_ends_the_process_with_the_reason(script, tmp_path):
    done = script(LOSE_A_VIEW)
    assert done.returncode != 0
    assert f"headrace: {tmp_path / 'a.npy'} shrank" in done.stderr
    assert "HEADRACE_MAPPED_BYTES=0" in done.stderr


def test_no_view_that_a_user_holds_is_lost_where_there_are_only_copies(script):
    done = script(LOSE_A_VIEW, HEADRACE_MAPPED_BYTES="0")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == repr((90_001).to_bytes(8, "little"))


@pytest.mark.parametrize("when", ["before", "after"])
def test_faulthandler_may_be_there_first_or_last(script, when):
    enable = "faulthandler.enable()\n"
    text = f"""
{enable if when == "before" else ""}
len(hr.records(path))
{enable if when == "after" else ""}
records = hr.records(path); len(records)
os.truncate(path, 1000)
for _ in range(3):
    try:
        records.take(np.arange(50_000, 50_010))
    except hr.CorruptFile:
        print("lost")
"""
    done = script(text)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["lost"] * 3


def test_faulthandler_still_reports_other_faults(script):
    done = script(f"faulthandler.enable()\n{LOSE_A_VIEW}")
    assert done.returncode != 0
    assert "shrank" in done.stderr
    assert "Bus error" in done.stderr


def test_a_signal_sent_by_the_user_is_not_a_fault(script):
    done = script("len(hr.records(path)); os.kill(os.getpid(), signal.SIGBUS)")
    assert done.returncode == -signal.SIGBUS
    assert "shrank" not in done.stderr


def test_a_handler_of_the_user_that_came_first_is_called(script):
    text = """
import ctypes
called = ctypes.CFUNCTYPE(None, ctypes.c_int)(lambda number: os._exit(42))
libc = ctypes.CDLL(None)
libc.signal(int(signal.SIGBUS), called)
view = hr.records(path)[90_000]
os.truncate(path, 1000)
bytes(view)
"""
    assert script(text).returncode == 42


def test_threads_that_fault_at_once(script):
    text = """
found = []
records = hr.records(path); len(records)
together = threading.Barrier(8)
def work():
    for _ in range(50):
        together.wait()
        try:
            records.take(np.arange(500, 99_000))
            found.append("nothing was raised")
        except hr.CorruptFile as error:
            if "shrank" not in str(error): found.append(str(error))
os.truncate(path, 5000)
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(found)
"""
    done = script(text)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr


def test_after_fork(script):
    text = """
records = hr.records(path); len(records)
os.truncate(path, 5000)
child = os.fork()
try:
    records.take(np.arange(90_000, 90_010))
    lost = False
except hr.CorruptFile:
    lost = True
if child == 0:
    os._exit(0 if lost else 1)
print(lost, os.waitpid(child, 0)[1])
"""
    done = script(text)
    assert done.stdout.split() == ["True", "0"], done.stderr


def test_zeros_in_the_page_of_the_new_end(script):
    """The system fills the rest of that page with zeros and sends no signal."""
    text = """
records = hr.records(path); len(records)
os.truncate(path, 4096 * 10 + 100)
first = (4096 * 10 + 100 - 128) // 8 + 1
try:
    print(records.take(np.arange(first, first + 20)))
except hr.CorruptFile as error:
    print("lost", "shrank" in str(error))
"""
    done = script(text)
    assert done.stdout.split() == ["lost", "True"], (done.stdout, done.stderr)


def test_python_code_inside_a_guard(script):
    text = """
file = MappedFile(path)
os.truncate(path, 5000)
for part in (file.buffer[4990:5020], file.buffer[100_000:100_010]):
    try:
        with guard_reads(part):
            bytes(part)
        print("read")
    except hr.CorruptFile:
        print("lost")
try:
    with guard_reads(file.buffer):
        raise KeyError(bytes(file.buffer[100_000:100_010]))
except hr.CorruptFile as error:
    print(type(error.__context__).__name__)
"""
    done = script(text)
    assert done.stdout.split() == ["lost", "lost", "KeyError"], (done.stdout, done.stderr)


def test_files_that_grow_or_are_replaced_are_read_as_before(script):
    text = """
records = hr.records(path)
before = records.take(np.arange(100_000)).tolist()
with open(path, "ab") as file: file.write(bytes(10_000))
assert records.take(np.arange(100_000)).tolist() == before
np.save(path + ".new.npy", np.zeros(3))
os.replace(path + ".new.npy", path)
assert records.take(np.arange(100_000)).tolist() == before
"""
    done = script(text)
    assert done.returncode == 0, done.stderr


def test_a_file_that_ends_with_zeros(script):
    """No byte of the last page can show the truncation: the page itself must."""
    text = """
np.save(path, np.concatenate([np.arange(1, 50_001), np.zeros(50_000, np.int64)]))
records = hr.records(path); len(records)
os.truncate(path, 4096 * 10 + 100)
try:
    print(records.take(np.arange(5100, 5120)))
except hr.CorruptFile:
    print("lost")
"""
    done = script(text)
    assert done.stdout.strip() == "lost", (done.stdout, done.stderr)


def test_a_changed_last_byte_is_not_truncation(script):
    text = """
records = hr.records(path); len(records)
with open(path, "r+b") as file:
    file.seek(-8, os.SEEK_END)
    file.write(bytes(8))
print(records.take(np.array([99_999, 7])).tolist())
"""
    done = script(text)
    assert done.stdout.strip() == "[0, 8]", (done.stdout, done.stderr)


def test_a_worker_that_loses_a_view_names_the_signal(script, tmp_path):
    text = """
records = hr.records(path)
view = records[90_000]
def touch(batch):
    os.truncate(path, 1000)
    return {"n": np.frombuffer(bytes(view), np.int64)}
try:
    for _ in hr.Loader(hr.ColumnSource({"n": np.arange(8)}), 8, workers=1, start_method="fork", map_batch=touch): pass
except hr.WorkerDied as error:
    print(error)
"""
    done = script(text)
    assert "was killed by SIGBUS" in done.stdout, (done.stdout, done.stderr)
    assert "shrank" in done.stdout
    assert "function of yours" not in done.stdout
    assert str(tmp_path / "a.npy") in done.stderr
