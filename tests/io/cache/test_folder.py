"""The cache folder and its files."""

import errno
import fcntl
import gzip
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import warnings

import numpy as np
import pytest
from tests.forks import exit_code, fork

import headrace as hr
from headrace.errors import UnsupportedData
from headrace.io.cache import folder as cache
from headrace.io.cache.folder import CacheEntry, cache_folder, cache_key, cache_limit_bytes, entry_path
from headrace.io.local.mapped import MappedFile


def test_default_locations(monkeypatch, tmp_path):
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path / "a"))
    assert cache_folder("index") == tmp_path / "a" / "index"
    monkeypatch.delenv("HEADRACE_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "b"))
    assert cache_folder("index") == tmp_path / "b" / "headrace" / "index"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "c"))
    assert cache_folder("index") == tmp_path / "c" / ".cache" / "headrace" / "index"
    assert cache_folder("index").is_dir()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere, platformdirs is asked")
@pytest.mark.parametrize(
    ("given", "is_asked"), [(None, False), ("{}/x", False), ("", False), ("relative", True), (" ", True)]
)
def test_the_default_folder_is_that_of_platformdirs_which_is_seldom_imported(tmp_path, given, is_asked):
    code = (
        "import sys; import headrace as hr; hr.Loader; early = 'platformdirs' in sys.modules;"
        "from headrace.io.cache.folder import cache_folder; found = cache_folder('index');"
        "late = 'platformdirs' in sys.modules; import platformdirs;"
        "print(early, late, str(found.parent) == platformdirs.user_cache_dir('headrace', appauthor=False))"
    )
    unset = ("HEADRACE_CACHE_DIR", "XDG_CACHE_HOME")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    environment |= {"HOME": str(tmp_path)} | ({} if given is None else {"XDG_CACHE_HOME": given.format(tmp_path)})
    out = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert out.stdout == f"False {is_asked} True\n"


def test_it_may_be_deleted_at_any_time(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path / "a"))
    cache_folder("index").rmdir()
    assert cache_folder("index").is_dir()


def test_a_place_that_cannot_be_written_is_replaced_with_one_warning(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path / "file" / "below"))
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path / "tmp"))
    cache._fallback.cache_clear()
    with pytest.warns(UserWarning, match="HEADRACE_CACHE_DIR") as seen:
        folder = cache_folder("index")
    assert len(seen) == 1
    assert folder.is_relative_to(tmp_path / "tmp")
    assert stat.S_IMODE(folder.parent.stat().st_mode) & 0o077 == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cache_folder("index") == folder
    cache._fallback.cache_clear()


@pytest.mark.parametrize(
    ("text", "size"), [("1000", 1000), ("2K", 2048), ("1.5MiB", 3 << 19), ("20G", 20 << 30), ("1TB", 1 << 40), ("0", 0)]
)
def test_the_limit_reads_as_people_write_it(monkeypatch, tmp_path, text, size):
    monkeypatch.setenv("HEADRACE_CACHE_LIMIT", text)
    assert cache_limit_bytes(tmp_path) == size


def test_the_limit_leaves_room_on_the_disk(monkeypatch, tmp_path):
    monkeypatch.delenv("HEADRACE_CACHE_LIMIT", raising=False)
    monkeypatch.setattr(cache, "_free_bytes", lambda folder: 1000)
    assert cache_limit_bytes(tmp_path) == 250
    monkeypatch.setattr(cache, "_free_bytes", lambda folder: 1 << 50)
    assert cache_limit_bytes(tmp_path) == 20 << 30


@pytest.mark.parametrize("text", ["many", "1X", "-", "-1", "-2K"])
def test_an_invalid_limit(monkeypatch, tmp_path, text):
    monkeypatch.setenv("HEADRACE_CACHE_LIMIT", text)
    with pytest.raises(ValueError, match=f"HEADRACE_CACHE_LIMIT .* got '{text}'"):
        cache_limit_bytes(tmp_path)


def test_keys_keep_their_parts_apart():
    assert cache_key("ab", "c") != cache_key("a", "bc")
    assert cache_key(1, "x") == cache_key(1, "x")


def entry(folder, name, content, limit=1 << 30):
    made = CacheEntry.claim(folder / f"{name}.inflated", wait=False)
    assert made.write(content)
    return made.commit(limit)


def test_an_entry_appears_when_committed(tmp_path):
    path = tmp_path / "a.inflated"
    made = CacheEntry.claim(path, wait=False)
    made.write(b"abc")
    assert not path.exists()
    assert CacheEntry.claim(path, wait=False) is None, "somebody is making it"
    assert made.commit(1000)
    assert path.read_bytes() == b"abc"
    assert os.listdir(tmp_path) == ["a.inflated"]
    assert CacheEntry.claim(path, wait=True) is None, "it is there"
    made.abort()
    assert path.exists()


def test_an_aborted_entry_is_free_again(tmp_path):
    path = tmp_path / "a.inflated"
    first = CacheEntry.claim(path, wait=False)
    first.write(b"half")
    first.abort()
    assert os.listdir(tmp_path) == []
    assert entry(tmp_path, "a", b"whole")
    assert path.read_bytes() == b"whole"


def test_leftovers_of_a_dead_process_are_taken_over(tmp_path):
    (tmp_path / "a.inflated.part").write_bytes(b"some longer rest of a killed process")
    assert entry(tmp_path, "a", b"new")
    assert (tmp_path / "a.inflated").read_bytes() == b"new"


def test_leftovers_of_dead_processes_are_removed(tmp_path):
    (tmp_path / "dead.inflated.part").write_bytes(b"x" * 100)
    busy = CacheEntry.claim(tmp_path / "busy.inflated", wait=False)
    assert entry(tmp_path, "new", b"x")
    assert sorted(os.listdir(tmp_path)) == ["busy.inflated.part", "new.inflated"]
    assert busy.commit(1000)
    assert sorted(os.listdir(tmp_path)) == ["busy.inflated", "new.inflated"]


def test_the_least_recently_used_go_first(tmp_path):
    for age, name in ((300, "old"), (200, "older-but-used"), (100, "young")):
        assert entry(tmp_path, name, b"x" * 10)
        os.utime(tmp_path / f"{name}.inflated", (1e9 - age,) * 2)
    os.utime(tmp_path / "older-but-used.inflated")
    (tmp_path / "note.json").write_bytes(b"y" * 1000)
    assert entry(tmp_path, "new", b"x" * 15, limit=25)
    assert sorted(os.listdir(tmp_path)) == ["new.inflated", "note.json", "older-but-used.inflated"]


def test_mapped_entries_are_never_evicted(tmp_path):
    assert entry(tmp_path, "used", b"x" * 10)
    file = MappedFile("shown", entry=str(tmp_path / "used.inflated"))
    assert not entry(tmp_path, "new", b"x" * 15, limit=20), "no room beside what is in use"
    assert os.listdir(tmp_path) == ["used.inflated"]
    del file
    assert entry(tmp_path, "new", b"x" * 15, limit=20)
    assert os.listdir(tmp_path) == ["new.inflated"]


def test_a_forked_child_does_not_keep_the_lock(tmp_path):
    made = CacheEntry.claim(tmp_path / "a.inflated", wait=False)
    begun, end = os.pipe(), os.pipe()
    child = fork(lambda: os.write(begun[1], b"x") and os.read(end[0], 1))
    os.read(begun[0], 1)
    made.abort()
    again = CacheEntry.claim(tmp_path / "a.inflated", wait=False)
    assert again is not None
    again.abort()
    os.write(end[1], b"x")
    assert exit_code(child) == 0
    for fd in (*begun, *end):
        os.close(fd)


def test_a_full_disk_is_reported(tmp_path):
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    made = CacheEntry.claim(tmp_path / "a.inflated", wait=False)
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, made._fd)
    os.close(full)
    assert not made.write(b"x")
    made.abort()


def test_waiting_ends_when_the_entry_is_mapped_at_once(tmp_path, monkeypatch):
    """The mapping holds a lock on the file that waiting processes opened while it was being made."""
    path = tmp_path / "a.inflated"
    made = CacheEntry.claim(path, wait=False)
    found, opened, flock = [], threading.Event(), fcntl.flock

    def seen(*args):
        opened.set()
        flock(*args)

    monkeypatch.setattr("headrace.io.system.fcntl.flock", seen)
    waiting = threading.Thread(target=lambda: found.append(CacheEntry.claim(path, wait=True)), daemon=True)
    waiting.start()
    assert opened.wait(300)
    made.write(b"abc")
    os.rename(f"{path}.part", path)
    fcntl.flock(made._fd, fcntl.LOCK_SH)
    mapped = MappedFile("shown", entry=str(path))
    waiting.join(300)
    assert found == [None]
    made.abort()
    assert bytes(mapped.buffer) == b"abc"


def test_a_url_is_no_cache_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADRACE_CACHE_DIR", "s3://bucket/cache")
    with pytest.raises(UnsupportedData, match="HEADRACE_CACHE_DIR, a folder on this machine"):
        cache_folder("index")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["a.csv.gz", "a.npz"])
def test_the_folder_is_emptied_while_files_are_opened(monkeypatch, tmp_path, name):
    """As ``rm -r ~/.cache`` does. No error blames the file, and no other folder is used."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(folder))
    np.savez_compressed(tmp_path / "a.npz", x=np.arange(20_000))
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"x\n" + b"1\n" * 20_000, 1))
    done, left = threading.Event(), [0]

    def empty():
        while not done.wait(0.002):
            if left[0]:
                left[0] -= 1
                shutil.rmtree(folder, ignore_errors=True)

    emptying = threading.Thread(target=empty)
    emptying.start()
    try:
        for _ in range(30):
            left[0] = 3  # Each may spoil two attempts, on a busy machine, too.
            assert len(hr.open(tmp_path / name).batch([0, 19_999])["x"]) == 2
    finally:
        done.set()
        emptying.join()


def test_what_is_removed_before_it_is_complete_can_be_made_again(monkeypatch, tmp_path):
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path))
    entry = CacheEntry.claim(cache_folder("inflated") / "x.inflated", wait=True)
    assert entry.write(b"bytes")
    shutil.rmtree(tmp_path / "inflated")
    assert not entry.commit(100)
    assert entry.may_be_again
    entry = CacheEntry.claim(tmp_path / "inflated" / "x.inflated", wait=True)
    assert entry.write(b"bytes")
    assert not entry.commit(0)
    assert not entry.may_be_again


@pytest.fixture
def without_locks(monkeypatch):
    """As on Lustre mounted without flock."""

    def refuse(*_args):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr("headrace.io.system.fcntl.flock", refuse)


@pytest.mark.usefixtures("without_locks")
def test_a_file_system_without_locks(tmp_path):
    path = tmp_path / "a.inflated"
    first, second = (CacheEntry.claim(path, wait=True) for _ in range(2))
    assert first.write(b"first")
    assert second.write(b"second")
    assert len(os.listdir(tmp_path)) == 2, "each has a name of its own"
    assert first.commit(1000)
    assert second.commit(1000)
    assert os.listdir(tmp_path) == ["a.inflated"]
    assert path.read_bytes() == b"second"
    assert CacheEntry.claim(path, wait=True) is None


@pytest.mark.usefixtures("without_locks")
def test_without_locks_what_is_old_is_removed(tmp_path):
    for name in ("old", "new"):
        assert entry(tmp_path, name, b"x" * 10)
        (tmp_path / f"{name}.inflated.1.part").touch()
    for name in ("old.inflated", "old.inflated.1.part"):
        os.utime(tmp_path / name, (1e9, 1e9))
    assert entry(tmp_path, "more", b"x" * 15, limit=25)
    assert sorted(os.listdir(tmp_path)) == ["more.inflated", "new.inflated", "new.inflated.1.part"]
    assert not entry(tmp_path, "most", b"x" * 25, limit=25)


@pytest.mark.usefixtures("without_locks")
@pytest.mark.parametrize("name", ["a.csv.gz", "a.npz"])
def test_compressed_files_open_without_locks(monkeypatch, tmp_path, name):
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path / "cache"))
    np.savez_compressed(tmp_path / "a.npz", x=np.arange(300_000))
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"x\n" + b"1\n" * 20_000, 1))
    assert len(hr.open(tmp_path / name).batch([0, 19_999])["x"]) == 2


def test_each_user_has_entries_of_their_own(monkeypatch, tmp_path):
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path))
    mine = entry_path("key")
    monkeypatch.setattr(os, "getuid", lambda: 4321)
    assert entry_path("key") != mine
    assert entry_path("key").parent == mine.parent


def test_entries_of_another_user_do_not_count(monkeypatch, tmp_path):
    assert entry(tmp_path, "other", b"x" * 100)
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: "other" not in str(path) and access(path, mode))
    assert entry(tmp_path, "mine", b"x" * 10, limit=20)
    assert sorted(os.listdir(tmp_path)) == ["mine.inflated", "other.inflated"]


def test_the_home_folder_in_the_variable(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HEADRACE_CACHE_DIR", "~/hc")
    assert cache_folder("index") == tmp_path / "hc" / "index"
