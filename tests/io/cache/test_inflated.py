"""Compressed files are read like plain ones."""

import gzip
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import headrace as hr
from headrace.errors import CorruptFile, UnsupportedData
from headrace.io.cache import inflate as compression
from headrace.io.cache import inflated as module
from headrace.io.cache.folder import cache_folder
from headrace.io.cache.inflated import InflatedStream, find_inflated, inflate_file
from headrace.io.local.signatures import MARK_NS, NEAR_NS, Signature

CONTENT = np.random.default_rng(0).integers(0, 8, 3_000_000, dtype=np.uint8).tobytes()


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(CONTENT, 1))
    return str(path)


def entries():
    return sorted(os.listdir(cache_folder("inflated")))


def test_inflates_once_and_maps(path, monkeypatch):
    file = inflate_file(path, "gzip")
    assert (bytes(file.buffer), file.size, file.path, file.fault) == (CONTENT, len(CONTENT), path, None)
    monkeypatch.setattr(module, "Inflater", None)
    assert bytes(inflate_file(path, "gzip").buffer) == CONTENT
    assert len(entries()) == 1


def test_reading_in_order_fills_the_cache(path):
    assert find_inflated(path, "gzip") is None
    stream = InflatedStream(path, "gzip")
    assert b"".join(stream) == CONTENT
    assert stream.fault is None
    assert bytes(find_inflated(path, "gzip").buffer) == CONTENT


def test_stopping_early_leaves_nothing(path, monkeypatch):
    monkeypatch.setattr(compression, "PART_BYTES", 1 << 15)  # more parts than are prefetched
    parts = iter(InflatedStream(path, "gzip"))
    next(parts)
    parts.close()
    assert entries() == []


def test_another_version_is_another_entry(path):
    inflate_file(path, "gzip")
    with gzip.open(path, "wb") as file:
        file.write(b"new")
    assert find_inflated(path, "gzip") is None
    assert bytes(inflate_file(path, "gzip").buffer) == b"new"


@pytest.mark.parametrize("damage", ["cut", "garbage", "empty"])
def test_a_partial_entry_is_made_again(path, damage):
    inflate_file(path, "gzip")
    (name,) = entries()
    entry = cache_folder("inflated") / name
    content = entry.read_bytes()
    entry.write_bytes({"cut": content[:-1], "garbage": content + b"x", "empty": b""}[damage])
    assert find_inflated(path, "gzip") is None
    assert bytes(inflate_file(path, "gzip").buffer) == CONTENT


def test_the_cache_may_vanish(path):
    file = inflate_file(path, "gzip")
    for name in entries():
        (cache_folder("inflated") / name).unlink()
    cache_folder("inflated").rmdir()
    assert bytes(file.buffer) == CONTENT
    assert bytes(inflate_file(path, "gzip").buffer) == CONTENT


def test_a_fault_stays_with_the_content(path):
    Path(path).write_bytes(Path(path).read_bytes()[:-100])
    stream = InflatedStream(path, "gzip")
    content = b"".join(stream)
    file = inflate_file(path, "gzip")
    for fault in (stream.fault, file.fault):
        assert isinstance(fault, CorruptFile)
        assert fault.where.offset == len(content) == file.size
    assert str(stream.fault) == str(file.fault)
    assert bytes(file.buffer) == content == CONTENT[: len(content)]


def test_no_room_for_random_access_but_for_reading_in_order(path, monkeypatch):
    monkeypatch.setenv("HEADRACE_CACHE_LIMIT", "1M")
    with pytest.warns(UserWarning, match="HEADRACE_CACHE_LIMIT"), pytest.raises(UnsupportedData, match="room"):
        inflate_file(path, "gzip")
    with pytest.warns(UserWarning, match="again each time"):
        assert b"".join(InflatedStream(path, "gzip")) == CONTENT
    assert entries() == []


def test_a_cache_that_cannot_be_made_does_not_stop_reading_in_order(path, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError("no")

    monkeypatch.setattr(module.CacheEntry, "claim", refuse)
    assert b"".join(InflatedStream(path, "gzip")) == CONTENT
    with pytest.raises(PermissionError):
        inflate_file(path, "gzip")


def test_threads_share_the_work(path, monkeypatch):
    made = []

    class Counting(module.Inflater):
        def __init__(self, *args):
            made.append(args)
            super().__init__(*args)

    monkeypatch.setattr(module, "Inflater", Counting)
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(bytes(inflate_file(path, "gzip").buffer))) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [CONTENT] * 6
    assert len(made) == 1


def test_a_second_reader_in_order_does_not_wait(path, monkeypatch):
    monkeypatch.setattr(compression, "PART_BYTES", 10_000)
    first = iter(InflatedStream(path, "gzip"))
    next(first)
    assert b"".join(InflatedStream(path, "gzip")) == CONTENT
    first.close()
    assert entries() == []


def test_an_entry_of_before_a_restart_is_not_trusted(tmp_path, monkeypatch):
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"content" * 1000))
    assert bytes(inflate_file(str(path), "gzip").read(0, 7)) == b"content"
    assert find_inflated(str(path), "gzip") is not None
    monkeypatch.setattr("headrace.io.cache.folder.boot_id", lambda: "another start of the machine")
    assert find_inflated(str(path), "gzip") is None
    assert bytes(inflate_file(str(path), "gzip").read(0, 7)) == b"content"


def test_a_change_within_one_tick_of_the_clock_is_not_cached_as_the_earlier_content(path, monkeypatch):
    """Size, times and both ends are equal. So nothing is read before a further change would show."""
    fixed = Signature(8193, 2, 3, time.time_ns())
    monkeypatch.setattr(Signature, "of", classmethod(lambda cls, path: fixed))
    monkeypatch.setattr(Signature, "read", classmethod(lambda cls, path: fixed))
    slept = []

    def change(seconds):
        slept.append(seconds)
        Path(path).write_bytes(gzip.compress(b"other", 1))

    monkeypatch.setattr("headrace.io.local.signatures.time.time_ns", lambda: fixed.ctime_ns + 1)
    monkeypatch.setattr("headrace.io.local.signatures.time.sleep", change)
    assert b"".join(InflatedStream(path, "gzip")) == b"other"
    assert bytes(find_inflated(path, "gzip").buffer) == b"other"
    assert len(slept) == 1


def flip(path, at):
    with Path(path).open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))


@pytest.mark.parametrize("faulty", [False, True])
def test_a_byte_that_flips_anywhere_in_an_entry(tmp_path, faulty):
    path = tmp_path / "x.gz"
    packed = gzip.compress(b"content" * 3)
    path.write_bytes(packed[:-3] if faulty else packed)
    first = inflate_file(str(path), "gzip")
    (entry,) = entries()
    place = cache_folder("inflated") / entry
    for at in range(place.stat().st_size):
        flip(place, at)
        assert find_inflated(str(path), "gzip") is None, f"byte {at}"
        assert not place.exists()
        found = inflate_file(str(path), "gzip")
        assert bytes(found.read(0, 100)) == b"content" * 3
        assert str(found.fault) == str(first.fault)


def test_an_intact_entry_is_compared_once(path, monkeypatch):
    inflate_file(path, "gzip")
    place = cache_folder("inflated") / entries()[0]
    monkeypatch.setattr(module.CacheEntry, "claim", None)
    compared = []
    monkeypatch.setattr("headrace.io.local.mapped.MappedFile.is_intact", lambda *_: bool(compared.append(1)) or True)
    mark = place.stat().st_mtime_ns % MARK_NS
    for _ in range(3):
        begun = time.time_ns()
        os.utime(place, ns=(begun, begun - begun % MARK_NS - NEAR_NS // 2 + mark))  # last used a while ago
        assert find_inflated(path, "gzip") is not None
        assert place.stat().st_mtime_ns > begun - MARK_NS  # used now
    assert compared == []  # what is in the entry itself shows that it was, to other processes, too
    os.utime(place)  # as after writing to it
    for _ in range(3):
        assert find_inflated(path, "gzip") is not None
    assert compared == [1]


def test_other_processes_do_not_compare_again(path):
    inflate_file(path, "gzip")
    code = """if True:
        import sys
        from headrace.io.cache.inflated import find_inflated
        from headrace.io.local.mapped import MappedFile
        MappedFile.is_intact = lambda *_: sys.exit("compared again")
        assert find_inflated(sys.argv[1], "gzip") is not None
    """
    subprocess.run([sys.executable, "-c", code, path], check=True)
    os.utime(cache_folder("inflated") / entries()[0])
    assert subprocess.run([sys.executable, "-c", code, path], capture_output=True, check=False).returncode == 1


@pytest.mark.parametrize("name", ["x.npz", "x.csv.gz", "x.jsonl.gz", "x.tar.gz", "x.tfrecord.gz", "x.recordio.gz"])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.9])
def test_a_damaged_copy_is_made_again(tmp_path, name, share):
    options = {"compression": "deflate"} if name == "x.npz" else {}
    hr.write(tmp_path / name, {"v": np.arange(3000)}, **options)
    assert np.array_equal(hr.open(tmp_path / name).batch(range(3000))["v"], np.arange(3000))
    (entry,) = entries()
    place = cache_folder("inflated") / entry
    flip(place, int(place.stat().st_size * share))
    for _ in range(2):
        assert np.array_equal(hr.open(tmp_path / name).batch(range(3000))["v"], np.arange(3000))
    assert hr.verify(tmp_path / name).ok


def test_a_copy_that_changed_and_got_its_time_back(tmp_path):
    """As ``rsync -t`` or a restored backup leave it."""
    path = tmp_path / "x.csv.gz"
    hr.write(path, {"v": np.arange(3000)})
    assert len(hr.open(path)) == 3000
    place = cache_folder("inflated") / entries()[0]
    status = place.stat()
    time.sleep(0.2)
    flip(place, 1000)
    os.utime(place, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert np.array_equal(hr.open(path).batch(range(3000))["v"], np.arange(3000))


@pytest.mark.parametrize("name", ["x.csv.gz", "x.tfrecord.gz", "x.recordio.gz"])
@pytest.mark.parametrize("order", ["index", "in order"])
def test_damage_of_a_copy_is_not_blamed_on_the_file(tmp_path, monkeypatch, name, order):
    """That of a failing disk, which leaves all times as they are."""
    path = tmp_path / name
    hr.write(path, {"v": np.arange(3000)})
    assert len(hr.open(path)) == 3000
    place = cache_folder("inflated") / entries()[0]
    monkeypatch.setattr("headrace.io.cache.folder.has_mark", lambda *_: True)
    content = place.read_bytes()
    middle = content.index(b"\n1500\n") + 4 if name == "x.csv.gz" else len(content) // 2
    flip(place, 0 if name == "x.recordio.gz" else middle)
    if order == "index":
        with pytest.raises(CorruptFile, match="the same copy in the cache"):
            hr.open(path).batch(range(3000))
    elif name != "x.csv.gz":  # which has no checksums but those in its index
        with pytest.raises(CorruptFile, match="the same copy in the cache"):
            list(hr.records(path))
    else:
        return
    assert np.array_equal(hr.open(path).batch(range(3000))["v"], np.arange(3000))
