"""Many files, mapped or read."""

import contextlib
import gc
import gzip
import io
import os
import pickle
import threading

import numpy as np
import pytest
from tests.forks import exit_code, fork

import headrace as hr
from headrace import _native
from headrace.errors import CorruptFile, NoFiles
from headrace.io.cache.inflated import InflatedStream
from headrace.io.local import fileset
from headrace.io.local import mapped as descriptors
from headrace.io.local import mapped as mapping_limits
from headrace.io.local.fileset import FileSet
from headrace.io.local.mapped import MappedFile
from headrace.io.paths import expand


@pytest.fixture
def paths(tmp_path):
    for number in range(20):
        (tmp_path / f"{number:02d}").write_bytes(bytes([number]) * 100)
    return [str(tmp_path / f"{number:02d}") for number in range(20)]


def test_maps_at_first_need(paths):
    files = FileSet([*paths, "nowhere"])
    assert len(files) == 21
    assert bytes(files.content(3).buffer) == bytes([3]) * 100
    assert files.content(3) is files.content(3)
    with pytest.raises(NoFiles, match="nowhere"):
        files.content(20)


def test_buffers_are_those_that_are_needed(paths):
    files = FileSet(paths)
    which = np.array([5, 2, 5, 19], np.int32)
    buffers, renumbered = files.buffers(which)
    assert [bytes(buffers[n])[0] for n in renumbered] == which.tolist()
    assert len(buffers) == 3
    assert renumbered.dtype == np.int32
    buffers, renumbered = files.buffers(np.array([4, 4, 5, 7], np.int32))
    assert [bytes(buffers[n])[0] for n in renumbered] == [4, 4, 5, 7]
    buffers, renumbered = files.buffers(np.array([7, 7], np.int32))
    assert (len(buffers), bytes(buffers[0])[0], renumbered) == (1, 7, None)
    assert files.buffers(None)[0][0] is files.content(0).buffer
    assert files.buffers(np.zeros(0, np.int32))[0] == []


def test_files_on_adjacent_pages_are_one_buffer(paths):
    """In any order, with empty ones, but only if all are mapped, and completely."""
    files = FileSet([*paths, paths[0]])
    open(paths[6], "wb").close()
    for number in reversed(range(1, 21)):
        files.content(number)
        assert files.joined() is None
    files.content(0)
    buffers, begins = files.joined()
    assert len(buffers) == 1
    assert begins.dtype == np.int64
    assert sorted(begins.tolist())[:3] == [0, 0, 4096]
    found = _native.take_ranges(buffers, None, begins[[0, 1, 5, 7, 20]] + 10, 90)
    np.testing.assert_array_equal(found, np.repeat(np.array([[0], [1], [5], [7], [0]], np.uint8), 90, axis=1))
    cut = FileSet(paths)
    cut.content(3).cut(50)
    for number in range(20):
        cut.content(number)
    assert cut.joined() is None
    alone = FileSet(paths[:1])
    alone.content(0)
    assert alone.joined() is None


def test_pages_that_opening_touches_are_released_where_they_add_up(paths, monkeypatch):
    dropped = []
    monkeypatch.setattr(MappedFile, "drop", lambda self, *range: dropped.append(self.path))
    monkeypatch.setattr(mapping_limits, "IN_ORDER_MAPPED_BYTES", 2 * mapping_limits.WINDOW_BYTES * 5)
    files = FileSet(paths)
    for number in range(20):
        files.content(number)
    assert dropped == paths[6:]


def test_a_bounded_number_stays_mapped(paths, monkeypatch):
    monkeypatch.setattr(fileset, "MOST_MAPPED", 8)
    monkeypatch.setattr(mapping_limits, "can_map_more", lambda: False)
    files = FileSet(paths)
    views = [files.content(number).buffer for number in range(20)]
    assert len(files._mapped) <= 8
    assert [view[0] for view in views] == list(range(20))
    assert [files.content(number).buffer[0] for number in range(20)] == list(range(20))


@pytest.mark.skipif(not _native.HAS_MAPPED_FILE, reason="files are mapped by Python here")
def test_all_stay_mapped_while_the_process_has_few_mappings(paths, monkeypatch):
    monkeypatch.setattr(fileset, "MOST_MAPPED", 8)
    gc.collect()
    before = _native.count_mapped()
    monkeypatch.setattr(mapping_limits, "most_mapped", lambda: before + 16)
    files = FileSet(paths)
    for number in range(15):
        files.content(number)
    assert len(files._mapped) == _native.count_mapped() - before == 15
    files.content(15)
    assert _native.count_mapped() - before == 14
    other = FileSet(paths)
    for number in range(20):  # however many the first set has
        assert other.content(number).buffer[0] == number
    assert len(other._mapped) <= 8
    del files, other
    gc.collect()
    assert _native.count_mapped() == before


def test_half_of_the_mappings_that_the_system_allows(monkeypatch):
    assert mapping_limits.most_mapped() >= 1000
    monkeypatch.setattr("builtins.open", lambda *_, **__: io.StringIO("1000\n"))
    assert mapping_limits.most_mapped.__wrapped__() == 500
    monkeypatch.setattr("builtins.open", lambda *_, **__: io.StringIO("no number\n"))
    assert mapping_limits.most_mapped.__wrapped__() == 32_765


def test_pages_are_released(paths, monkeypatch):
    dropped = []
    monkeypatch.setattr(MappedFile, "drop", lambda self, *range: dropped.append(self.path))
    monkeypatch.setattr(mapping_limits, "scattered_limit", lambda: 99)
    files = FileSet(paths[:2])
    files.content(0)
    files.touched(98)
    assert dropped == []
    files.touched(1)
    assert dropped == [paths[0]]
    files.touched(0, scattered=1)
    assert dropped == [paths[0], paths[0]]


def test_pages_stay_where_all_of_them_may(paths, monkeypatch):
    dropped = []
    monkeypatch.setattr(MappedFile, "drop", lambda self, *range: dropped.append(self.path))
    monkeypatch.setattr(mapping_limits, "scattered_limit", lambda: 200)
    files = FileSet(paths[:3])
    files.content(0), files.content(1)
    for _ in range(10):
        files.touched(10_000, scattered=100)
    assert dropped == []
    files.content(2)
    files.touched(200)
    assert dropped == paths[:3]


def test_pages_already_read_are_released_in_large_sets(paths, monkeypatch):
    dropped = []
    monkeypatch.setattr(MappedFile, "drop", lambda self, *range: dropped.append(self.path))
    monkeypatch.setattr(mapping_limits, "WINDOW_BYTES", 0)  # Opening a file touches no pages.
    monkeypatch.setattr(mapping_limits, "IN_ORDER_MAPPED_BYTES", 1000)
    monkeypatch.setattr(mapping_limits, "PASSED_BYTES", 100)
    files = FileSet(paths[:2])
    files.content(0), files.content(1)
    files.passed(5000, of=1000, last=1)
    files.passed(99, of=1001, last=1)
    assert dropped == []
    files.passed(1, of=1001)
    assert dropped == paths[:2]
    files.passed(99, of=1001)
    assert dropped == paths[:2]


def test_only_pages_of_files_that_were_passed_are_released(paths, monkeypatch):
    """Of a set of thousands of files, a reader in order passes few at a time."""
    dropped = []
    monkeypatch.setattr(MappedFile, "drop", lambda self, *range: dropped.append(self.path))
    monkeypatch.setattr(mapping_limits, "WINDOW_BYTES", 0)  # Opening a file touches no pages.
    monkeypatch.setattr(mapping_limits, "IN_ORDER_MAPPED_BYTES", 1000)
    monkeypatch.setattr(mapping_limits, "PASSED_BYTES", 100)
    files = FileSet(paths)
    assert len(paths) > 4
    for number in range(len(paths)):
        files.content(number)
    files.passed(40, of=2000, first=0, last=1)
    files.passed(60, of=2000, first=1, last=2)
    assert dropped == paths[:3]
    files.passed(100, of=2000, first=2, last=2)
    assert dropped[3:] == paths[2:3]
    files.passed(40, of=2000, first=3, last=3)
    files.passed(60, of=2000, first=0, last=0)  # the next epoch
    assert dropped[4:] == paths[3:4]
    files.passed(40, of=2000, first=1, last=1)
    assert dropped[5:] == paths[:2]


def test_every_reader_in_order_releases_what_it_has_passed(tmp_path, monkeypatch):
    dropped = []
    monkeypatch.setattr(MappedFile, "drop", lambda self, *range: dropped.append(os.path.basename(self.path)))
    monkeypatch.setattr(mapping_limits, "IN_ORDER_MAPPED_BYTES", 1000)
    monkeypatch.setattr(mapping_limits, "PASSED_BYTES", 1000)
    for end in ("tfrecord", "csv", "parquet", "rec"):
        for number in range(4):
            options = {"codec": "example"} if end == "rec" else {}
            hr.write(tmp_path / f"{number}.{end}", {"x": np.arange(200)}, **options)
        dropped.clear()
        source = hr.open(tmp_path / f"*.{end}", **options)
        len(source)
        dropped.clear()  # those of opening the files
        assert [int(value) for batch in hr.Loader(source, 50, threads=0) for value in batch["x"]] == [*range(200)] * 4
        assert list(dict.fromkeys(dropped))[:3] == [f"{number}.{end}" for number in range(3)]


def test_small_sets_are_mapped_and_large_ones_read(paths, monkeypatch):
    files = FileSet(paths)
    assert files.worth_mapping(mapping_limits.scattered_limit())
    assert not files.worth_mapping(mapping_limits.scattered_limit() + 1)
    mapping_limits.scattered_limit.cache_clear()
    monkeypatch.setenv("HEADRACE_MAPPED_BYTES", "100")
    assert not files.worth_mapping(101)
    mapping_limits.scattered_limit.cache_clear()


def open_files():
    return len(os.listdir("/proc/self/fd"))


def read_firsts(files, numbers):
    which = np.array(numbers, np.int32)
    block, starts = files.read(which, np.zeros(len(which), np.int64), np.full(len(which), 10))
    assert len(block) == 10 * len(which)
    return block[starts].tolist()


@pytest.fixture
def few_open(monkeypatch):
    """The process keeps four files open."""
    descriptors.close_oldest(0)
    monkeypatch.setattr(descriptors, "most_open", lambda: 4)


def test_all_sets_together_keep_few_files_open(paths, few_open):
    sets = [FileSet(paths) for _ in range(5)]
    before = open_files()
    for files in sets:
        for numbers in ([3], [5, 6], range(20), [*range(19, -1, -1)] * 3, np.random.default_rng(0).integers(0, 20, 99)):
            assert read_firsts(files, numbers) == list(numbers)
            assert open_files() <= before + 8
    held = sets[0]._descriptor(0)
    for number in range(20):
        sets[1]._descriptor(number)
    assert os.pread(held.fd, 1, 0)  # still open for the holder
    fd = held.fd
    del held
    with pytest.raises(OSError):
        os.fstat(fd)
    del sets, files
    gc.collect()
    assert open_files() <= before


def test_files_in_threads_that_may_have_few_open(paths, few_open):
    files, wrong = FileSet(paths), []

    def read(seed):
        for numbers in np.random.default_rng(seed).integers(0, 20, (50, 30)).tolist():
            if read_firsts(files, numbers) != numbers:
                wrong.append(numbers)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    child = fork(lambda: read(9) is None and not wrong and not descriptors._reading)
    for thread in threads:
        thread.join()
    assert not wrong
    assert not descriptors._reading
    assert exit_code(child) == 0


def test_a_process_without_descriptors_closes_some_and_goes_on(tmp_path):
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    for number in range(300):
        (tmp_path / f"{number:03d}").write_bytes(bytes([number % 251]) * 100)
    names = [str(tmp_path / f"{number:03d}") for number in range(300)]
    files, others = FileSet(names), FileSet(names)
    read_firsts(files, range(150))
    taken = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_files() + 20, limits[1]))
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.open(names[0], os.O_RDONLY))
        assert read_firsts(others, range(300)) == [number % 251 for number in range(300)]
        with pytest.raises(OSError, match="Too many open files"):
            descriptors.close_oldest(0)
            while True:
                taken.append(os.open(names[0], os.O_RDONLY))
        with pytest.raises(OSError, match="Too many open files"):
            expand(f"{tmp_path}/x@3")
        with pytest.raises(OSError, match="Too many open files"):
            expand(f"{tmp_path}/*.x")
    finally:
        for fd in taken:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_compression_is_found_for_each_file(tmp_path):
    (tmp_path / "a").write_bytes(b"plain")
    (tmp_path / "b").write_bytes(gzip.compress(b"packed"))
    (tmp_path / "c").write_bytes(b"\x1f\x8b\x08 looks like gzip")
    files = FileSet([str(tmp_path / name) for name in "abc"], compression=None, is_plain=lambda head: b"looks" in head)
    assert [files.wrapper(number) for number in range(3)] == ["none", "gzip", "none"]
    assert files.waits_for_inflating()
    assert isinstance(files.stream(0), MappedFile)
    assert isinstance(files.stream(1), InflatedStream)
    assert [bytes(files.content(number).buffer)[:6] for number in range(3)] == [b"plain", b"packed", b"\x1f\x8b\x08 lo"]
    assert isinstance(files.stream(1), MappedFile)
    assert not files.waits_for_inflating()


def test_an_empty_file_is_plain_unless_its_name_says_otherwise(tmp_path):
    for name in ("a", "b.gz"):
        (tmp_path / name).touch()
    files = FileSet([str(tmp_path / "a"), str(tmp_path / "b.gz")], compression=None)
    assert (files.content(0).size, files.content(0).fault) == (0, None)
    assert files.content(1).fault is not None


def test_named_compression_is_believed(tmp_path):
    (tmp_path / "a").write_bytes(gzip.compress(b"packed"))
    assert FileSet([str(tmp_path / "a")]).wrapper(0) == "none"
    assert FileSet([str(tmp_path / "a")], compression="zlib").content(0).fault is not None


@pytest.mark.parametrize("packed", [False, True])
def test_another_version_is_refused(tmp_path, packed):
    path = tmp_path / "a"
    path.write_bytes(gzip.compress(b"old") if packed else b"old")
    files = FileSet([str(path)], compression=None)
    files.expect([files.signature(0)])
    kept = pickle.dumps(files)
    assert bytes(pickle.loads(kept).content(0).buffer) == b"old"
    path.write_bytes(gzip.compress(b"newer") if packed else b"newer")
    with pytest.raises(CorruptFile, match="another version"):
        pickle.loads(kept).content(0)


@pytest.mark.parametrize("name", ["x.npy", "x.tfrecord"])
def test_a_file_that_is_opened_again_is_the_one_that_was_mapped(tmp_path, monkeypatch, few_open, name):
    """Sets larger than the memory share are read through descriptors, which few files keep."""
    monkeypatch.setenv("HEADRACE_MAPPED_BYTES", "0")
    mapping_limits.scattered_limit.cache_clear()
    path = f"{tmp_path}/{name}@40"

    def write(number):
        hr.write(path, {"x": np.full((400, 3), number)})

    def values(rows):
        batch = source.batch(rows)
        return np.unique(batch[next(iter(batch))]).tolist()

    write(1)
    source = hr.open(path)
    assert values(np.arange(20)) == [1]  # those of the first files
    write(2)
    with pytest.raises(CorruptFile, match="another version"):
        values(np.arange(390, 400))
    with pytest.raises(CorruptFile, match="another version"):  # also of files that were open
        values(np.arange(400))
    mapping_limits.scattered_limit.cache_clear()


def test_threads(paths):
    files = FileSet(paths)
    wrong = []

    def read(seed):
        for number in np.random.default_rng(seed).integers(0, 20, 500).tolist():
            if files.content(number).buffer[0] != number:
                wrong.append(number)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_fork(paths):
    files = FileSet(paths)
    files.content(0)
    assert exit_code(fork(lambda: [files.content(n).buffer[0] for n in range(20)] == list(range(20)))) == 0


def test_read_ahead_is_off_where_a_set_that_does_not_fit_is_read_at_random(tmp_path, monkeypatch):
    advice = []
    monkeypatch.setattr(MappedFile, "expect_scattered_reads", lambda self, *, scattered: advice.append(scattered))
    paths = [tmp_path / name for name in "ab"]
    for path in paths:
        path.write_bytes(bytes(100))
    files = FileSet([str(path) for path in paths])
    monkeypatch.setattr(mapping_limits, "scattered_limit", lambda: 150)
    files.content(0)
    files.touched(5, scattered=1)
    assert advice == []  # What is mapped so far is within the limit.
    files.content(1)
    files.touched(5, scattered=1)
    files.touched(5, scattered=1)
    assert advice == [True, True]
    files.touched(5)
    assert advice == [True, True, False, False]
