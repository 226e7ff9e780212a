"""Files that get their names together, or not at all."""

import os
import threading

import pytest

from headrace.io.write import atomic, temporaries, together
from headrace.io.write.atomic import AtomicFile
from headrace.io.write.together import Together


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
    with Together() as names:
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
    monkeypatch.setattr(together, "sync_folder", events.append)
    with Together() as names:
        for file in begun(tmp_path, 20):
            names.close(file)
    assert events == ["bytes"] * 20 + ["name"] * 20 + [str(tmp_path)]


def test_few_files_are_open_at_a_time(tmp_path):
    before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
    count = together.MOST_OPEN + 50
    with Together() as names:
        for number in range(count):
            names.close(_one(tmp_path / str(number)))
        if before:
            assert len(os.listdir("/proc/self/fd")) - before <= together.MOST_OPEN + 2
        assert all(name.startswith(".") for name in os.listdir(tmp_path))
    assert len(os.listdir(tmp_path)) == count


def test_names_that_are_cut_alike_are_not_taken_for_left_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(together, "MOST_OPEN", 1)
    monkeypatch.setattr(temporaries, "ANCIENT_AFTER_S", -1)
    monkeypatch.setattr(temporaries, "_temporaries", lambda folder, _: os.listdir(folder))
    with Together() as names:
        for number in range(5):
            names.close(_one(tmp_path / ("x" * 120 + str(number))))
    assert len(os.listdir(tmp_path)) == 5


def test_an_exception_leaves_nothing_of_many(tmp_path):
    with pytest.raises(RuntimeError), Together() as names:
        for number in range(together.MOST_OPEN + 10):
            names.close(_one(tmp_path / str(number)))
        raise RuntimeError
    assert os.listdir(tmp_path) == []


def test_an_exception_leaves_nothing(tmp_path):
    with pytest.raises(RuntimeError), Together() as names:
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
    with pytest.raises(OSError, match="Input/output"), Together() as names:
        for file in begun(tmp_path, 12):
            names.close(file)
    assert os.listdir(tmp_path) == []


def test_a_name_that_cannot_be_given_leaves_the_others_out(tmp_path):
    files = begun(tmp_path, 3)
    (tmp_path / "1").mkdir()
    with pytest.raises(OSError), Together() as names:
        for file in files:
            names.close(file)
    assert sorted(os.listdir(tmp_path)) == ["0", "1"]


def test_those_within_another_wait_for_it(tmp_path):
    class Both:
        def close(self):
            with Together() as inner:
                for file in begun(tmp_path, 2):
                    inner.close(file)

    with Together() as names:
        names.close(Both())
        assert all(name.startswith(".") for name in os.listdir(tmp_path))
    assert sorted(os.listdir(tmp_path)) == ["0", "1"]


def test_files_closed_meanwhile_get_their_names_at_once(tmp_path):
    with Together() as names:
        names.close(begun(tmp_path, 1)[0])
        with AtomicFile(tmp_path / "other") as file:
            file.write(b"x")
        assert (tmp_path / "other").read_bytes() == b"x"
        assert not (tmp_path / "0").exists()
    assert (tmp_path / "0").exists()
