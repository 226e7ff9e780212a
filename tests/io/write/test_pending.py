"""Files renamed together, or not at all."""

import os
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from tests.forks import exit_code, fork

import headrace as hr
from headrace.errors import UnsupportedData
from headrace.io.cache.folder import cache_folder
from headrace.io.folders import AtomicFolder
from headrace.io.write import atomic, pending
from headrace.io.write.atomic import AtomicFile
from headrace.io.write.pending import DeferredRenames, remove_abandoned, temporary_name


def begun(folder, count, content=b"abc"):
    files = [AtomicFile(folder / f"{number}") for number in range(count)]
    for file in files:
        file.write(content)
    return files


def _one(path):
    file = AtomicFile(path)
    file.write(b"abc")
    return file


@pytest.mark.parametrize("count", [0, 1, 2, 30])
def test_names_appear_when_the_context_is_left(tmp_path, count):
    with DeferredRenames() as names:
        for file in begun(tmp_path, count):
            names.close(file)
            names.close(file)
            assert file.closed
            with pytest.raises(ValueError, match="closed"):
                file.write(b"more")
        assert all(name.startswith(".") for name in os.listdir(tmp_path))
    assert sorted(os.listdir(tmp_path), key=int) == [str(number) for number in range(count)]
    assert all((tmp_path / name).read_bytes() == b"abc" for name in os.listdir(tmp_path))


def test_bytes_reach_the_disk_before_the_first_name_and_the_folder_once(tmp_path, monkeypatch):
    events = []
    sync, replace = os.fsync, os.replace
    monkeypatch.setattr(atomic.os, "fsync", lambda fd: (events.append("bytes"), sync(fd)))
    monkeypatch.setattr(atomic.os, "replace", lambda *names: (events.append("name"), replace(*names)))
    monkeypatch.setattr(pending, "sync_folder", events.append)
    with DeferredRenames() as names:
        for file in begun(tmp_path, 20):
            names.close(file)
    assert events == ["bytes"] * 20 + ["name"] * 20 + [str(tmp_path)]


def test_few_files_are_open_at_a_time(tmp_path):
    before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
    count = pending.MOST_UNNAMED + 50
    with DeferredRenames() as names:
        for number in range(count):
            names.close(_one(tmp_path / str(number)))
        if before:
            assert len(os.listdir("/proc/self/fd")) - before <= pending.MOST_UNNAMED + 2
        assert all(name.startswith(".") for name in os.listdir(tmp_path))
    assert len(os.listdir(tmp_path)) == count


def test_names_with_equal_truncations_are_not_mistaken_for_leftovers(tmp_path, monkeypatch):
    monkeypatch.setattr(pending, "MOST_UNNAMED", 1)
    monkeypatch.setattr(pending, "ANCIENT_AFTER_S", -1)
    monkeypatch.setattr(pending, "_temporaries", lambda folder, _: os.listdir(folder))
    with DeferredRenames() as names:
        for number in range(5):
            names.close(_one(tmp_path / ("x" * 120 + str(number))))
    assert len(os.listdir(tmp_path)) == 5


def test_a_writer_of_many_files_does_not_look_whether_it_runs(tmp_path, monkeypatch):
    """Each of a thousand files would ask so a thousand times."""
    asked = []
    monkeypatch.setattr(pending, "_is_alive", lambda *owner: not asked.append(owner))
    with DeferredRenames() as names:
        for number in range(5):
            names.close(_one(tmp_path / str(number)))
    assert len(os.listdir(tmp_path)) == 5
    assert not asked


def test_an_exception_leaves_nothing_of_many(tmp_path):
    with pytest.raises(RuntimeError), DeferredRenames() as names:
        for number in range(pending.MOST_UNNAMED + 10):
            names.close(_one(tmp_path / str(number)))
        raise RuntimeError
    assert os.listdir(tmp_path) == []


def test_an_exception_leaves_nothing(tmp_path):
    with pytest.raises(RuntimeError), DeferredRenames() as names:
        files = begun(tmp_path, 5)
        for file in files[:4]:
            names.close(file)
        files[4].abort()
        raise RuntimeError
    assert os.listdir(tmp_path) == []


def test_a_disk_that_fails_leaves_nothing(tmp_path, monkeypatch):
    sync, failed = os.fsync, threading.Event()

    def failing(fd):
        if not failed.is_set():
            failed.set()
            raise OSError(5, "Input/output error")
        sync(fd)

    monkeypatch.setattr(atomic.os, "fsync", failing)
    with pytest.raises(OSError, match="Input/output"), DeferredRenames() as names:
        for file in begun(tmp_path, 12):
            names.close(file)
    assert os.listdir(tmp_path) == []


def test_a_name_that_cannot_be_given_takes_the_others_back(tmp_path):
    files = begun(tmp_path, 3)
    (tmp_path / "1").mkdir()
    with pytest.raises(OSError), DeferredRenames() as names:
        for file in files:
            names.close(file)
    assert os.listdir(tmp_path) == ["1"]


def test_those_within_another_wait_for_it(tmp_path):
    class Both:
        def close(self):
            with DeferredRenames() as inner:
                for file in begun(tmp_path, 2):
                    inner.close(file)

    with DeferredRenames() as names:
        names.close(Both())
        assert all(name.startswith(".") for name in os.listdir(tmp_path))
    assert sorted(os.listdir(tmp_path)) == ["0", "1"]


def test_files_closed_meanwhile_get_their_names_at_once(tmp_path):
    with DeferredRenames() as names:
        names.close(begun(tmp_path, 1)[0])
        with AtomicFile(tmp_path / "other") as file:
            file.write(b"x")
        assert (tmp_path / "other").read_bytes() == b"x"
        assert not (tmp_path / "0").exists()
    assert (tmp_path / "0").exists()


DAY_S = 24 * 3600


@pytest.fixture(autouse=True)
def _fresh_listing(monkeypatch):
    """Folders are listed once a second, but a test makes several changes within one."""
    monkeypatch.setattr(pending, "_temporaries", pending._temporaries.__wrapped__)


def owned(name, **changed):
    """A temporary name of this process with another owner."""
    found = pending.OWNER.fullmatch(temporary_name(name))
    parts = {**found.groupdict(), **changed}
    return f".{name}.{parts['place']}-{parts['process']}-{parts['start']}-0123456789ab.headrace-tmp"


def dead_process():
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    return done.pid


WRITERS = {
    "file": "from headrace.io.write.atomic import AtomicFile as kind",
    "folder": "from headrace.io.folders import AtomicFolder as kind",
    "sharded": "import headrace as hr; kind = lambda p: [w := hr.Writer(p, shards=3), [w.write({'x': n}) for n in range(20_000)]]",
}


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("next_name", ["x.tfrecord", "y.tfrecord"])
def test_nothing_of_a_killed_writer_is_left_after_the_next(tmp_path, kind, next_name):
    script = f"import sys; {WRITERS[kind]}; keep = kind(sys.argv[1]); print('go', flush=True); sys.stdin.read()"
    writer = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "x.tfrecord")], stdout=subprocess.PIPE, stdin=subprocess.PIPE
    )
    assert writer.stdout.readline() == b"go\n"
    left = os.listdir(tmp_path)
    assert left
    assert all(name.endswith(".headrace-tmp") for name in left)
    hr.write(tmp_path / "meanwhile.npy", {"x": np.arange(3)})
    assert set(left) <= set(os.listdir(tmp_path)), "it is still being written"
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    writer.stdout.close()
    writer.stdin.close()
    hr.write(tmp_path / next_name, {"x": np.arange(3)})
    assert sorted(os.listdir(tmp_path)) == sorted(["meanwhile.npy", next_name])


def test_cache_entries_of_a_dead_process():
    for part in ("index", "uploads"):
        folder = cache_folder(part)
        (folder / owned("x", process=dead_process())).write_bytes(b"")
        AtomicFile(folder / "other").abort()
        assert os.listdir(folder) == []


@pytest.mark.parametrize("make", [lambda path: path.write_bytes(b""), lambda path: path.mkdir()])
@pytest.mark.parametrize(
    ("owner", "age_s", "stays"),
    [
        ({}, 0, True),
        ({}, 400 * DAY_S, True),  # ours, while this process runs
        ({"process": "1", "start": "0"}, 400 * DAY_S, True),  # process 1 runs, and may be the writer
        ({"start": "1"}, 0, False),  # another process had our ID
        ({"place": "0123456789"}, 0, True),
        ({"place": "0123456789"}, 6 * DAY_S, True),
        ({"place": "0123456789"}, 8 * DAY_S, False),
        ({"place": "0123456789", "process": "999999999"}, 6 * DAY_S, True),
        ({"process": "999999999"}, 0, False),
        ({"process": "999999999", "start": "0"}, 0, False),
    ],
)
def test_detection_of_dead_writers(tmp_path, make, owner, age_s, stays):
    path = tmp_path / owned("x", **owner)
    make(path)
    os.utime(path, (time.time() - age_s,) * 2)
    remove_abandoned(str(tmp_path), "y")
    assert path.exists() == stays


def test_an_old_folder_in_which_something_was_written_lately_stays(tmp_path):
    path = tmp_path / owned("x", place="0123456789")
    path.mkdir()
    (path / "new").write_bytes(b"")
    os.utime(path, (time.time() - 8 * DAY_S,) * 2)
    remove_abandoned(str(tmp_path), "x")
    assert path.exists()


def test_a_locked_file_of_another_machine_stays_however_old(tmp_path):
    path = tmp_path / owned("x", place="0123456789")
    path.write_bytes(b"")
    with path.open("rb") as file:
        assert pending.lock(file.fileno())
        os.utime(path, (time.time() - 400 * DAY_S,) * 2)
        remove_abandoned(str(tmp_path), "x")
        assert path.exists()
    remove_abandoned(str(tmp_path), "x")
    assert not path.exists()


def test_a_process_that_is_dead_but_not_reaped(tmp_path):
    child = os.fork()
    if child == 0:
        os._exit(0)
    try:
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        path = tmp_path / owned("x", process=str(child), start="0")
        path.write_bytes(b"")
        remove_abandoned(str(tmp_path), "y")
        assert not path.exists()
    finally:
        os.waitpid(child, 0)


def test_without_proc_the_number_decides(tmp_path, monkeypatch):
    def hidden(self):
        raise FileNotFoundError(2, "No such file", str(self))

    monkeypatch.setattr(pending.Path, "read_bytes", hidden)
    assert pending._start_time(os.getpid()) == 0
    assert pending._start_time(dead_process()) is None
    assert pending._start_time(1) == 0, "there, though it may be another user's"


def test_a_name_that_looks_like_an_owner_is_not_one():
    inner = owned("x", process="999999999").removesuffix(".headrace-tmp")
    found = pending.OWNER.fullmatch(temporary_name(inner))
    assert int(found["process"]) == os.getpid()


@pytest.mark.parametrize("name", ["x", "ü" * 120, "a" * 255, "\udcff"])
def test_names_fit_into_a_folder(tmp_path, name):
    temporary = temporary_name(name)
    (tmp_path / temporary).write_bytes(b"")
    assert re.fullmatch(r"\..*\.headrace-tmp", temporary, re.DOTALL)
    assert pending.OWNER.fullmatch(temporary)


def test_folders_of_this_process_stay(tmp_path):
    folder = AtomicFolder(tmp_path / "a")
    before = os.listdir(tmp_path)
    AtomicFile(tmp_path / "b").abort()
    assert os.listdir(tmp_path) == before
    folder.abort()


@pytest.mark.parametrize("old", [1, 3, 6])
@pytest.mark.parametrize("step", range(1, 20))
def test_a_kill_while_names_are_given_leaves_no_mixture(tmp_path, monkeypatch, step, old):
    """Readers see the old files, the new ones, or that some are missing; the next writer gives the missing names."""
    names = [f"{number}" for number in range(6)]
    for name in names[:old]:
        (tmp_path / name).write_bytes(b"old")

    def write():
        replace, calls = os.replace, []

        def count(*paths):
            calls.append(paths)
            if len(calls) == step:
                os._exit(1)
            replace(*paths)

        monkeypatch.setattr(os, "replace", count)
        with DeferredRenames() as together:
            for file in begun(tmp_path, 6):
                together.close(file)

    process = fork(write)
    assert exit_code(process) in (0, 1)
    found = {name: (tmp_path / name).read_bytes() for name in names if (tmp_path / name).exists()}
    assert set(found.values()) <= {b"old"} or set(found.values()) <= {b"abc"}
    with AtomicFile(tmp_path / "other") as file:
        file.write(b"x")
    found = {name: (tmp_path / name).read_bytes() for name in names if (tmp_path / name).exists()}
    assert found in ({name: b"abc" for name in names}, {name: b"old" for name in names[:old]})
    assert all(name in (*names, "other") for name in os.listdir(tmp_path))


def test_a_link_to_a_folder_is_refused_before_the_work(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(UnsupportedData, match=r"or an empty one, found a link .* Pass the folder that it leads to\."):
        AtomicFolder(tmp_path / "link")
    assert os.listdir(tmp_path / "real") == []
