"""Collecting the offsets of records."""

import errno
import tempfile
from pathlib import Path

import numpy as np
import pytest
from tests.reference import tfrecord as reference

import headrace as hr
from headrace import _native
from headrace.errors import CorruptRecord
from headrace.formats.index import build as index_build
from headrace.formats.index import places as index_places
from headrace.formats.index.build import build_index, record_index
from headrace.formats.index.places import Starts
from headrace.formats.tfrecord.format import TFRecordFraming
from headrace.io.local import mapped
from headrace.io.local.fileset import FileSet
from headrace.io.local.mapped import MappedFile


@pytest.fixture
def held_bytes(monkeypatch):
    monkeypatch.setattr(index_places, "HELD_BYTES", 160)
    monkeypatch.setattr(index_build, "HELD_BYTES", 160)


def add_some(starts, count=50):
    expected = np.cumsum(np.arange(count * 7)) + 1
    for number in range(count):
        starts.add(expected[number * 7 : number * 7 + 7])
    return expected


def of(starts):
    return np.concatenate([np.zeros(0, np.int64), *starts])


def test_few_and_many_come_back_in_order_as_often_as_one_likes(held_bytes):
    for count in (0, 1, 2, 3, 50):
        starts = Starts()
        expected = add_some(starts, count)
        assert len(starts) == len(expected)
        assert np.array_equal(of(starts), expected)
        assert np.array_equal(of(starts), expected)
        assert sum(block.nbytes for block in starts._held) < 160
        starts.add(np.array([1 << 60]))
        assert np.array_equal(of(starts), [*expected, 1 << 60])


def test_added_offsets_are_copied():
    starts, part = Starts(), np.arange(5)
    starts.add(part)
    part[:] = 0
    assert np.array_equal(of(starts), np.arange(5))


@pytest.mark.parametrize("sound", [0, 3])
def test_a_full_disk_leaves_all_in_memory(held_bytes, monkeypatch, sound):
    class Full:
        def __init__(self, file):
            self.file, self.writes = file, 0

        def __getattr__(self, name):
            return getattr(self.file, name)

        def write(self, block):
            self.writes += 1
            if self.writes > sound:
                raise OSError(errno.ENOSPC, "full")
            return self.file.write(block)

    real = tempfile.TemporaryFile
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **options: Full(real(**options)))
    starts = Starts()
    expected = add_some(starts)
    assert np.array_equal(of(starts), expected)


@pytest.mark.parametrize("piece_bytes", [300, 1 << 30])
def test_a_large_index_is_a_map_of_its_file(tmp_path, held_bytes, monkeypatch, piece_bytes):
    monkeypatch.setattr(index_build, "PIECE_BYTES", piece_bytes)
    monkeypatch.setattr(index_build, "STEP_BYTES", 100)
    paths = [tmp_path / "a", tmp_path / "b", tmp_path / "c"]
    for path, count in zip(paths, (100, 0, 77), strict=True):
        path.write_bytes(b"".join(reference.framed(bytes([number]) * (number % 13)) for number in range(count)))
    files = FileSet([str(path) for path in paths])
    expected = [start for path in paths for start in reference.read(path.read_bytes())[0]]
    found = record_index(TFRecordFraming(), files, on_corrupt="raise", compression="none")
    assert found.starts.tolist() == expected
    assert isinstance(found.starts.base, memoryview)  # and not native memory
    paths[2].write_bytes(reference.framed(b"x"))
    again = record_index(TFRecordFraming(), FileSet(files.paths), on_corrupt="raise", compression="none")
    assert again.starts.tolist() == [*expected[:100], 0]


def test_an_index_that_cannot_be_kept_is_in_memory(tmp_path, held_bytes, monkeypatch):
    path = tmp_path / "a"
    path.write_bytes(b"".join(reference.framed(b"x" * number) for number in range(100)))
    monkeypatch.setattr(index_build, "write_index", lambda *_: False)
    found = record_index(TFRecordFraming(), FileSet([str(path)]), on_corrupt="raise", compression="none")
    assert found.starts.tolist() == reference.read(path.read_bytes())[0]


def test_native_memory_does_not_grow_with_the_file(tmp_path, held_bytes, monkeypatch):
    monkeypatch.setattr(index_build, "STEP_BYTES", 1000)
    path = tmp_path / "a"
    path.write_bytes(reference.framed(b"") * 40_000)
    _native.pool_clear()
    record_index(TFRecordFraming(), FileSet([str(path)]), on_corrupt="raise", compression="none")
    assert _native.pool_stats()["idle_bytes"] < 100_000  # The starts are 320,000.


@pytest.mark.parametrize("is_large", [False, True])
def test_the_pages_of_a_large_set_of_small_files_are_released(tmp_path, monkeypatch, is_large):
    """Each is smaller than what one file may keep."""
    paths = [str(tmp_path / f"{number}.tfrecord") for number in range(4)]
    for path in paths:
        with open(path, "wb") as file:
            file.write(b"".join(reference.framed(payload) for payload in (b"a" * 5000, b"b")))
    dropped = []
    monkeypatch.setattr(MappedFile, "drop", lambda self, offset=0, size=None: dropped.append((self.path, offset, size)))
    if is_large:
        monkeypatch.setattr(mapped, "IN_ORDER_MAPPED_BYTES", 16_000)
    files = FileSet(paths)
    index = build_index(TFRecordFraming(), files)
    assert len(index) == 8
    whole = [(path, 0, files.content(0).size) for path in paths]
    assert sorted(one for one in dropped if one[2]) == (whole if is_large else [])


class Pool:
    """A pool that only remembers what it was given."""

    def __init__(self):
        self.given = []

    def submit(self, scan):
        self.given.append(scan)


@pytest.mark.parametrize(("took", "here"), [(index_build.SHORT_NS // 2, 40), (3 * index_build.SHORT_NS, 3)])
def test_short_scans_are_done_here_until_they_take_long(monkeypatch, took, here):
    now = iter(range(0, 1 << 60, took))
    monkeypatch.setattr(index_build, "perf_counter_ns", lambda: next(now))
    scans, done = index_build._Scans(Pool(), 2), []
    for number in range(40):
        scans.submit_short(lambda number=number: done.append(number))
    assert done == list(range(here))
    assert len(scans.pool.given) == 40 - here


@pytest.mark.parametrize("small_bytes", [0, 100, 1 << 20])
def test_damage_is_that_of_the_first_file_wherever_files_are_scanned(tmp_path, monkeypatch, small_bytes):
    monkeypatch.setattr(index_build, "SMALL_BYTES", small_bytes)
    monkeypatch.setattr(index_build, "PIECE_BYTES", 1000)
    bars = []

    class Bar(index_build.Progress):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            bars.append(self)

    monkeypatch.setattr(index_build, "Progress", Bar)
    sizes = [40, 3000, 0, 400, 7, 60]
    contents = [reference.framed(b"x" * size) * (1 + (size == 400) * 20) for size in sizes]
    paths = [str(tmp_path / str(number)) for number in range(len(sizes))]
    for path, content in zip(paths, contents, strict=True):
        Path(path).write_bytes(content)
    found = build_index(TFRecordFraming(), FileSet(paths))
    assert [file.records for file in found.files] == [1, 1, 1, 21, 1, 1]
    assert bars[0].done == sum(map(len, contents))
    for path in (paths[3], paths[4]):  # a file in pieces, and a small one
        content = Path(path).read_bytes()
        Path(path).write_bytes(bytes([content[0] ^ 1]) + content[1:])
    with pytest.raises(CorruptRecord) as raised:
        build_index(TFRecordFraming(), FileSet(paths))
    assert raised.value.where.path == paths[3]


@pytest.mark.skipif(not _native.HAS_MAPPED_FILE, reason="no mmap on this platform")
def test_small_files_are_read_whole_while_they_are_indexed(tmp_path, monkeypatch):
    """Not when a set is opened whose index is kept: its length would read all of it. Nor in sets that do not fit."""
    asked = []

    class Places(_native.AdjacentPlaces):
        def read_whole(self, most):
            asked.append(most)
            super().read_whole(most)

    monkeypatch.setattr(_native, "AdjacentPlaces", Places)
    hr.write(f"{tmp_path}/x.tfrecord@5", {"a": np.arange(100)})
    for path, expected in (("x.tfrecord@5", [index_build.WHOLE_BYTES, 0]), ("x.tfrecord@5", [])):
        assert len(hr.open(f"{tmp_path}/{path}")) == 100
        assert asked == expected
        asked.clear()
    hr.write(f"{tmp_path}/y.tfrecord@5", {"a": np.arange(100)})
    monkeypatch.setattr(FileSet, "worth_mapping", lambda *_: False)
    assert len(hr.open(f"{tmp_path}/y.tfrecord@5")) == 100
    assert set(asked) <= {0}
