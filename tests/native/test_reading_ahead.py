"""Asking the system for bytes before they are read changes no result, and saves waiting for a disk."""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from headrace import _native

pytestmark = pytest.mark.skipif(not hasattr(_native, "request_ranges"), reason="no reading ahead on this platform")

PAGE = mmap.PAGESIZE
PAGES = 400


def page_of(number):
    return bytes([number % 251]) * PAGE


@pytest.fixture
def evicted(tmp_path):
    """A file of which nothing is in memory."""
    path = tmp_path / "file"
    path.write_bytes(b"".join(map(page_of, range(PAGES))))
    evict(path)
    if any(resident(path)):
        pytest.skip("this file system keeps its files in memory")
    return path


def evict(path):
    fd = os.open(path, os.O_RDONLY)
    os.fdatasync(fd)  # not fsync, which is replaced in tests
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def resident(path):
    """Which pages of a file are in memory."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as memory:
        size = len(memory)
        found = (ctypes.c_ubyte * (size // PAGE))()
        view = ctypes.c_char.from_buffer(memory)
        done = ctypes.CDLL(None, use_errno=True).mincore(
            ctypes.c_void_p(ctypes.addressof(view)), ctypes.c_size_t(size), found
        )
        del view
        assert done == 0
        return [bool(page & 1) for page in found]


def mapped(path):
    fd = os.open(path, os.O_RDONLY)
    try:
        file = _native.MappedFile(fd, path.stat().st_size)
    finally:
        os.close(fd)
    file.expect_scattered_reads(True)  # so that touching a page reads no others
    file.drop(0, len(file))  # Mapping it has touched its end.
    evict(path)
    return file


def waits():
    return resource.getrusage(resource.RUSAGE_THREAD).ru_majflt


def positions(*values):
    return np.array(values, np.int64)


def test_requested_pages_are_not_waited_for_one_by_one(evicted):
    file = mapped(evicted)
    wanted = list(range(5, PAGES, 40))
    begins = positions(*wanted) * PAGE
    before = waits()
    assert all(_native.copy_bytes(file, number * PAGE + 3 * PAGE, PAGE) == page_of(number + 3) for number in wanted)
    assert waits() - before >= len(wanted)
    _native.request_ranges([file], None, begins + 10, begins + 2 * PAGE - 10)
    before = waits()
    for number in wanted:
        assert _native.copy_bytes(file, number * PAGE, 2 * PAGE) == page_of(number) + page_of(number + 1)
    assert waits() == before


def test_mapping_a_file_reads_its_end_alone(evicted):
    fd = os.open(evicted, os.O_RDONLY)
    file = _native.MappedFile(fd, PAGES * PAGE)
    os.close(fd)
    found = resident(evicted)
    assert sum(found) <= 8
    assert found[-1]
    assert bytes(file) == b"".join(map(page_of, range(PAGES)))


def test_a_thread_knows_whether_it_has_read_from_a_disk(evicted):
    _native.has_read_from_disk()
    assert not _native.has_read_from_disk()
    assert evicted.read_bytes()[: 2 * PAGE] == page_of(0) + page_of(1)
    assert _native.has_read_from_disk()
    assert evicted.read_bytes()[: 2 * PAGE] == page_of(0) + page_of(1)  # from memory
    assert not _native.has_read_from_disk()


def test_ranges_are_read_alike_whether_they_were_requested_or_not(evicted):
    rng = np.random.default_rng(5)
    begins = rng.integers(0, PAGES * PAGE - 9000, 300)
    begins[100:200] = begins[100] + 50 * np.arange(100)  # neighbours, which are read in one go
    sizes = rng.integers(0, 9000, 300)
    sizes[100:200] = 50
    content = b"".join(map(page_of, range(PAGES)))
    expected = b"".join(
        content[begin : begin + size] for begin, size in zip(begins.tolist(), sizes.tolist(), strict=True)
    )
    _native.has_read_from_disk()
    for is_first in (True, False):
        if not is_first:
            evict(evicted)
            assert evicted.read_bytes() == content
            evict(evicted)  # The next call sees that this thread has read from the disk.
        fd = os.open(evicted, os.O_RDONLY)
        found, starts = _native.read_ranges([fd], None, begins, sizes)
        os.close(fd)
        assert found.tobytes() == expected
        assert starts.tolist() == [0, *np.cumsum(sizes)[:-1].tolist()]


def test_what_is_requested_in_vain_is_left_out(tmp_path, evicted):
    file = mapped(evicted)
    size = PAGES * PAGE
    which = np.array([0, 0, 0, 0, 7, -1, 1], np.int32)
    begins = positions(-5, 10, size - 5, 1 << 62, 0, 0, 0)
    ends = positions(5, 10, size + 1, (1 << 62) + 5, 5, 5, 3)
    _native.request_ranges([file, b"bytes"], which, begins, ends)
    assert not any(resident(evicted))
    with pytest.raises(ValueError, match="differ in length"):
        _native.request_ranges([file], None, begins, ends[:1])


def test_requested_files(tmp_path, evicted):
    os.mkfifo(tmp_path / "pipe")  # would be waited for without end
    (tmp_path / "link").symlink_to(evicted)
    (tmp_path / "empty").touch()
    names = ["pipe", "link", "empty", "", "missing", "x" * 300]
    _native.request_files([os.fsencode(tmp_path / name) for name in names], follow_links=False)
    assert not any(resident(evicted))
    _native.has_read_from_disk()
    _native.request_files([os.fsencode(tmp_path / "link")], follow_links=True)
    assert _native.has_read_from_disk()
    assert evicted.read_bytes() == b"".join(map(page_of, range(PAGES)))
    assert not _native.has_read_from_disk()  # It did not have to read again.


def test_requests_leave_pipes_alone(tmp_path):
    """The writer of a pipe waits for a reader who stays."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    is_open = threading.Event()

    def write():
        fd = os.open(pipe, os.O_WRONLY)
        is_open.set()
        os.close(fd)

    writer = threading.Thread(target=write)
    writer.start()
    for _ in range(200):
        _native.request_files([os.fsencode(pipe)], follow_links=True)
    assert not is_open.is_set()
    os.close(os.open(pipe, os.O_RDONLY))
    writer.join()


def test_ranges_that_cannot_be(evicted):
    fd = os.open(evicted, os.O_RDONLY)
    many = np.full(1 << 19, 1 << 45)
    try:
        for begins, sizes in (((1 << 63) - 1, 2), (-1, 2), (0, -1)):
            with pytest.raises(ValueError, match="cannot be"):
                _native.read_ranges([fd], None, positions(begins), positions(sizes))
        with pytest.raises(ValueError, match="cannot be"):  # 2**64 bytes together
            _native.read_ranges([fd], None, many, many)
    finally:
        os.close(fd)


@pytest.mark.parametrize("is_cold", [False, True])
def test_many_files_of_which_some_cannot_be_read(tmp_path, is_cold):
    names = []
    for number in range(150):
        path = tmp_path / f"{number:03d}"
        body = bytes([number]) * (PAGE if number % 7 else PAGE - number)
        if number % 11:
            path.write_bytes((b"head" if number % 13 else b"hear") + body)
            evict(path)
        names.append(os.fsencode(path))
    if is_cold:
        _native.has_read_from_disk()
        assert (tmp_path / "001").read_bytes()
    bodies, status = _native.read_files(names, b"head", PAGE)
    for number in range(150):
        if number % 11 == 0:
            assert status[number] == 2  # ENOENT
        elif number % 7 == 0 or number % 13 == 0:
            assert status[number] == -1
        else:
            assert status[number] == 0
            assert bodies[number].tobytes() == bytes([number]) * PAGE


@pytest.mark.parametrize("threads", [1, 4])
def test_few_descriptors_are_enough(tmp_path, threads):
    names = []
    for number in range(100):
        path = tmp_path / str(number)
        path.write_bytes(bytes([number]) * PAGE)
        evict(path)
        names.append(os.fsencode(path))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    def lower():
        free = [os.dup(0) for _ in range(6)]
        for fd in free:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(free), hard))  # five are left

    all_have_read = threading.Barrier(threads, action=lower)

    def read(number):
        _native.has_read_from_disk()
        assert (tmp_path / f"{number}").read_bytes()
        all_have_read.wait()
        return _native.read_files(names, b"", PAGE)

    with ThreadPoolExecutor(threads) as pool:
        try:
            found = list(pool.map(read, range(threads)))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    for bodies, status in found:
        assert not status.any()
        assert bodies[:, 0].tolist() == list(range(100))
