"""Files appear completely or not at all."""

import gc
import os
import signal
import socket
import stat
import sys
import time

import numpy as np
import pytest
from tests.forks import exit_code, fork, fork_killed

import headrace as hr
from headrace import _native
from headrace.errors import HeadraceError, UnsupportedData
from headrace.io.paths import expand
from headrace.io.write import atomic, pending
from headrace.io.write.atomic import AtomicFile, write_atomic


def test_the_name_appears_at_close(tmp_path):
    path = tmp_path / "x.bin"
    file = AtomicFile(path)
    file.write(b"abc")
    file.write_text("dé")
    assert not path.exists()
    assert file.size == 6
    file.close()
    file.close()
    assert file.closed
    assert path.read_bytes() == "abcdé".encode()
    assert os.listdir(tmp_path) == ["x.bin"]


def test_small_and_large_parts_keep_their_order(tmp_path):
    parts = [
        b"a" * 10,
        b"b" * (3 << 20),
        b"c",
        np.arange(6, dtype="<i4").reshape(2, 3),
        np.zeros((0, 3)),
        b"",
        bytearray(b"e"),
    ]
    with AtomicFile(tmp_path / "x") as file:
        for part in parts:
            file.write(part)
    assert (tmp_path / "x").read_bytes() == b"".join(bytes(part) for part in parts)


@pytest.mark.parametrize("way", ["write", "give"])
def test_writing_back_early_changes_nothing(tmp_path, monkeypatch, way):
    monkeypatch.setattr(atomic, "WRITE_BACK_BYTES", 1 << 20)
    content = np.random.default_rng(0).bytes(9 << 20)
    with AtomicFile(tmp_path / "x") as file:
        for start in range(0, len(content), 700_001):
            getattr(file, way)(content[start : start + 700_001])
    assert (tmp_path / "x").read_bytes() == content


def test_the_disk_begins_before_the_end(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(_native, "start_writing_back", lambda fd, offset, size: asked.append((offset, size)))
    with AtomicFile(tmp_path / "x") as file:
        for _ in range(10):
            file.give(bytes(1 << 20))
    assert asked == [(0, 4 << 20), (4 << 20, 4 << 20)]
    with AtomicFile(tmp_path / "y", durable=False) as file:
        file.write(bytes(10 << 20))
    assert len(asked) == 2


@pytest.mark.parametrize("seed", range(5))
def test_parts_of_any_size_keep_their_place(tmp_path, seed):
    rng = np.random.default_rng(seed)
    written = []
    with AtomicFile(tmp_path / "x") as file:
        for size in rng.choice([10, 5000, 1 << 20, 3 << 20], 12):
            part = np.frombuffer(rng.bytes(int(size)), np.uint8)
            written.append(part.tobytes())
            (file.write if rng.random() < 0.5 else file.give)(part)
            assert file.size == sum(map(len, written))
        file.overwrite(3, b"abc")
    whole = bytearray(b"".join(written))
    whole[3:6] = b"abc"
    assert (tmp_path / "x").read_bytes() == whole


@pytest.mark.parametrize("way", ["write", "give"])
def test_a_write_that_fails_leaves_nothing(tmp_path, monkeypatch, way):
    real, calls = os.write, []

    def full(fd, view):
        calls.append(len(view))
        if len(calls) > 2:
            raise OSError(28, "No space left on device")
        return real(fd, view)

    file = AtomicFile(tmp_path / "x")
    monkeypatch.setattr(atomic.os, "write", full)
    with pytest.raises(OSError, match="No space") as caught:
        for _ in range(20):
            getattr(file, way)(bytes(2 << 20))
    assert caught.value.filename == str(tmp_path / "x")
    monkeypatch.undo()
    with pytest.raises(OSError, match=r"bytes were written|No space"):
        file.close()
    assert os.listdir(tmp_path) == []
    with pytest.raises(ValueError, match="closed"):
        file.write(bytes(2 << 20))


def test_overwrite_keeps_the_end(tmp_path):
    with AtomicFile(tmp_path / "x") as file:
        file.write(b"0123456789")
        file.overwrite(2, b"ab")
        file.write(b"!")
        with pytest.raises(ValueError, match="cannot be overwritten"):
            file.overwrite(10, b"ab")
    assert (tmp_path / "x").read_bytes() == b"01ab456789!"


def test_an_exception_leaves_what_was_there(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError), AtomicFile(path) as file:
        file.write(b"new")
        raise RuntimeError
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["x"]
    with pytest.raises(ValueError, match="closed"):
        file.write(b"more")


def test_a_forgotten_file_leaves_nothing(tmp_path):
    file = AtomicFile(tmp_path / "x")
    file.write(b"abc")
    del file
    assert os.listdir(tmp_path) == []


def test_a_forgotten_file_with_bytes_still_to_be_written_leaves_nothing(tmp_path):
    file = AtomicFile(tmp_path / "x")
    for _ in range(6):
        file.give(bytes(2 << 20))
    del file
    assert os.listdir(tmp_path) == []


def forget_in_a_child(files):
    """A child releases its copies of the list's items, the last references."""

    def forget():
        files.clear()
        return True

    assert exit_code(fork(forget)) == 0


def test_a_forked_child_leaves_bytes_still_to_be_written_to_its_parent(tmp_path):
    content = np.random.default_rng(0).bytes(2 << 20)
    files = [AtomicFile(tmp_path / "x")]
    for _ in range(6):
        files[0].give(content)
    forget_in_a_child(files)
    files[0].close()
    assert (tmp_path / "x").read_bytes() == content * 6


def test_a_folder_that_does_not_exist_is_named(tmp_path):
    """The temporary file has a name that nobody knows."""
    for call in (
        lambda: hr.write(tmp_path / "no" / "x.csv", {"a": [1]}),
        lambda: hr.write(tmp_path / "no" / "x", {"a": np.zeros((1, 2))}, format="npz_folder"),
    ):
        with pytest.raises(hr.NoFiles, match=r"^no such folder: \S*no\. Make it first"):
            call()


def test_a_folder_that_vanishes_is_an_error(tmp_path):
    folder = tmp_path / "d"
    folder.mkdir()
    file = AtomicFile(folder / "x")
    file.write(b"abc")
    for name in os.listdir(folder):
        (folder / name).unlink()
    folder.rmdir()
    with pytest.raises(FileNotFoundError):
        file.close()
    assert file.closed


def test_a_link_keeps_pointing(tmp_path):
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_atomic(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_long_names_fit(tmp_path):
    for name in ("n" * 250, "ü" * 120):
        write_atomic(tmp_path / name, b"x")
        assert (tmp_path / name).read_bytes() == b"x"


def test_permissions_are_the_usual_ones(tmp_path):
    (tmp_path / "usual").touch()
    write_atomic(tmp_path / "ours", b"")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "usual").stat().st_mode


@pytest.mark.parametrize("mode", [0o600, 0o664, 0o400])
def test_permissions_of_the_file_before_are_kept(tmp_path, mode):
    path = tmp_path / "x"
    path.write_bytes(b"before")
    path.chmod(mode)
    with AtomicFile(path) as file:
        unnamed = next(each for each in tmp_path.iterdir() if each.name != "x")
        assert unnamed.stat().st_mode & 0o777 == mode  # while it is written
        file.write(b"after")
    assert path.read_bytes() == b"after"
    assert path.stat().st_mode & 0o777 == mode


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root owns files of others")
def test_permissions_of_another_user_are_not_kept(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"before")
    path.chmod(0o600)
    os.chown(path, 12345, -1)
    (tmp_path / "usual").touch()
    write_atomic(path, b"after")
    assert path.stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_forked_child_leaves_the_file_to_its_parent(tmp_path):
    files = [AtomicFile(tmp_path / "x")]
    files[0].write(b"abc")
    forget_in_a_child(files)
    files[0].close()
    assert (tmp_path / "x").read_bytes() == b"abc"


def test_abandoned_temporaries_are_removed_and_busy_ones_kept(tmp_path):
    busy = AtomicFile(tmp_path / "x")
    (busy_name,) = os.listdir(tmp_path)
    abandoned = tmp_path / ".x.1-0123.headrace-tmp"
    recent = tmp_path / ".x.2-4567.headrace-tmp"
    for path in (abandoned, recent):
        path.write_bytes(b"")
    for path in (abandoned, tmp_path / busy_name):
        os.utime(path, (time.time() - 3600,) * 2)
    pending._temporaries.cache_clear()  # otherwise this second's listing would predate them
    AtomicFile(tmp_path / "x").abort()
    assert sorted(os.listdir(tmp_path)) == sorted([busy_name, recent.name])
    busy.close()


@pytest.mark.parametrize("tenths", range(11))
def test_killed_at_any_moment(tmp_path, tenths):
    path, block = tmp_path / "x", bytes(range(256)) * 4096

    def write():
        with AtomicFile(path) as file:
            for _ in range(8):
                file.give(block)

    assert exit_code(fork_killed(write, tenths / 10)) == -signal.SIGKILL
    assert path.stat().st_size == 8 << 20
    assert expand(tmp_path) == [str(path)]


@pytest.mark.parametrize("path", ["https://nobody.invalid/x", "folder-that-is-not-there/x", None])
def test_a_file_that_never_was_complains_of_nothing_when_it_goes(path, monkeypatch):
    heard = []
    monkeypatch.setattr(sys, "unraisablehook", heard.append)
    with pytest.raises((HeadraceError, OSError, TypeError)):
        AtomicFile(path)
    gc.collect()
    assert heard == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are pipes on POSIX only")
def test_what_is_no_file_is_not_replaced(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the name of a socket is short
    os.mkfifo("pipe")
    (tmp_path / "link").symlink_to("pipe")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket")
        for name, kind in {"pipe": "pipe", "link": "pipe", "socket": "socket"}.items():
            with pytest.raises(UnsupportedData, match=f"found a {kind}"):
                AtomicFile(name)
    assert stat.S_ISFIFO(os.stat("pipe").st_mode)
    assert stat.S_ISSOCK(os.stat("socket").st_mode)
    assert sorted(os.listdir()) == ["link", "pipe", "socket"]


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs the descriptors of Linux as files")
def test_a_file_that_a_process_has_open_is_not_replaced_by_the_name_of_its_descriptor(tmp_path):
    (tmp_path / "log").write_text("earlier\n")
    with open(tmp_path / "log", "a") as log:
        (tmp_path / "way").symlink_to(f"/proc/self/fd/{log.fileno()}")
        for name in (f"/proc/self/fd/{log.fileno()}", f"/proc/{os.getpid()}/fd/{log.fileno()}", tmp_path / "way"):
            with pytest.raises(UnsupportedData, match="what a process has open"):
                AtomicFile(name)
    assert (tmp_path / "log").read_text() == "earlier\n"
    with AtomicFile(tmp_path / "log") as file:
        file.write(b"new")
    assert (tmp_path / "log").read_text() == "new"
